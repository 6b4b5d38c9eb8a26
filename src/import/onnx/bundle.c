/* bundle.c: sequences and optionals. Those of known length are lists of values while a model is
 * imported and vanish then; as inputs and outputs of a model they become one tensor for each
 * element, "x[0]", "x[1]" … Others are handles (sequence.c).
 */
#include "import/onnx/import.h"

#include <string.h>

/* ---- Bundles ---- */

static tw_onnx_bundle *new_bundle(tw_onnx *im, const tw_onnx_content *content)
{
    tw_onnx_bundle *b = TW_NEW(im->arena, tw_onnx_bundle);
    const char *type = content->optional ? "onnx.optional" : "onnx.sequence";
    *b = (tw_onnx_bundle){.content = *content, .region = im->g.b.region};
    b->value.type = tw_type_dialect(im->ctx, type, NULL);
    return b;
}

tw_value *tw_onnx_bundle_of(tw_onnx *im, bool optional, tw_value *const *items, size_t n)
{
    tw_onnx_content content = {.elem = TW_ELEM_COUNT, .rank = TW_ONNX_NO_TENSOR};
    bool changed;
    for (size_t i = 0; i < n; i++) { /* what does not agree is told where it matters */
        tw_onnx_content item = tw_onnx_content_of(im, items[i]);
        item.sequence = item.optional = false;
        tw_onnx_join_content(&content, &item, &changed);
    }
    content.optional = optional;
    content.sequence = !optional || (n && tw_onnx_as_bundle(items[0]));
    tw_onnx_bundle *b = new_bundle(im, &content);
    b->n = n;
    b->items = TW_NEW_ARRAY(im->arena, tw_value *, n + 1);
    for (size_t i = 0; i < n; i++)
        b->items[i] = items[i];
    return &b->value;
}

tw_value *tw_onnx_bundle_of_none(tw_onnx *im, const tw_onnx_content *content)
{
    tw_onnx_bundle *b = new_bundle(im, content);
    b->content.rank = TW_ONNX_NO_TENSOR;
    b->items = TW_NEW_ARRAY(im->arena, tw_value *, 1);
    return &b->value;
}

tw_value *tw_onnx_held(tw_onnx *im, const tw_onnx_content *content, tw_value *handle)
{
    tw_onnx_bundle *b = new_bundle(im, content);
    b->handle = handle;
    return handle ? &b->value : NULL;
}

/* An optional one that only the run knows to be there is taken to be: routines check it. */
const tw_onnx_bundle *tw_onnx_sequence(tw_onnx_node *n, unsigned i)
{
    const tw_onnx_bundle *b = n->in[i] ? tw_onnx_as_bundle(n->in[i]) : NULL;
    if (!b || !b->content.sequence || (b->content.optional && !b->handle))
        return tw_gb_error(n->g, "input %u is no sequence", i);
    return b;
}

/* Depth is that of the types, which the file's messages bound. */
void tw_onnx_add_leaves(tw_onnx *im, tw_value *value, tw_onnx_leaves *out)
{
    const tw_onnx_bundle *b = tw_onnx_as_bundle(value);
    if (!b || b->handle)
        tw_vec_push(im->arena, &out->tensors, b ? b->handle : value);
    for (size_t i = 0; b && i < b->n; i++)
        tw_onnx_add_leaves(im, b->items[i], out);
}

tw_value *tw_onnx_with_leaves(tw_onnx *im, const tw_value *like, tw_value *const **leaves)
{
    const tw_onnx_bundle *b = tw_onnx_as_bundle(like);
    if (!b)
        return *(*leaves)++;
    if (b->handle)
        return tw_onnx_held(im, &b->content, *(*leaves)++);
    if (!b->n)
        return tw_onnx_bundle_of_none(im, &b->content);
    tw_value **items = TW_NEW_ARRAY(im->arena, tw_value *, b->n + 1);
    for (size_t i = 0; i < b->n; i++)
        items[i] = tw_onnx_with_leaves(im, b->items[i], leaves);
    return tw_onnx_bundle_of(im, b->content.optional, items, b->n);
}

bool tw_onnx_same_structure(const tw_value *a, const tw_value *b)
{
    const tw_onnx_bundle *x = tw_onnx_as_bundle(a), *y = tw_onnx_as_bundle(b);
    if (!x || !y)
        return !x && !y && a->type->elem == b->type->elem && a->type->rank == b->type->rank;
    bool same = x->content.optional == y->content.optional && x->n == y->n && !x->handle &&
                !y->handle && (x->n || x->content.elem == y->content.elem);
    for (size_t i = 0; same && i < x->n; i++)
        same = tw_onnx_same_structure(x->items[i], y->items[i]);
    return same;
}

/* ---- Inputs ---- */

const char *tw_onnx_element_name(tw_arena *arena, const char *name, size_t i)
{
    return tw_arena_printf(arena, "%s[%zu]", name, i);
}

/* An argument of that name with the shape of the options. */
static tw_value *element(tw_onnx *im, tw_elem elem, const char *name, tw_region *body)
{
    tw_expr dims[TW_MAX_RANK];
    const tw_import_shape *given = tw_onnx_given_shape(im, name);
    if (given->rank > TW_MAX_RANK)
        return tw_gb_error(&im->g, "input '%s' has %u dimensions; at most %d are supported", name,
                           given->rank, TW_MAX_RANK);
    for (unsigned i = 0; i < given->rank; i++) {
        if (given->dims[i] < 0)
            return tw_gb_error(&im->g, "the shape given for '%s' must be numbers", name);
        dims[i] = tw_gb_const(&im->g, given->dims[i]);
    }
    tw_type type = tw_type_tensor(im->ctx, elem, given->rank, dims, NULL);
    return tw_gb_check_type(&im->g, type) ? tw_region_add_arg(body, type, name) : NULL;
}

static tw_value *sequence_input(tw_onnx *im, const char *name, tw_elem elem, tw_region *body)
{
    TW_VEC(tw_value *) items = {0};
    for (size_t i = 0;; i++) {
        const char *text = tw_onnx_element_name(im->arena, name, i);
        if (!tw_onnx_given_shape(im, text))
            return tw_onnx_bundle_of(im, false, items.data, items.len);
        tw_value *arg = element(im, elem, text, body);
        if (!arg)
            return NULL;
        tw_vec_push(im->arena, &items, arg);
    }
}

static tw_value *optional_input(tw_onnx *im, const char *name, const tw_onnx_content *content,
                                tw_region *body)
{
    tw_value *value = content->sequence ? sequence_input(im, name, content->elem, body)
                                        : element(im, content->elem, name, body);
    return value ? tw_onnx_bundle_of(im, true, &value, 1) : NULL;
}

static tw_value *handle_input(tw_onnx *im, const char *name, const tw_onnx_content *content,
                              tw_region *body)
{
    tw_value *arg = tw_region_add_arg(body, tw_type_tensor(im->ctx, TW_U64, 0, NULL, NULL), name);
    tw_value *held = tw_onnx_held(im, content, arg);
    tw_map_put_ptr(&im->handle_inputs, arg, held);
    return held;
}

bool tw_onnx_bundle_input(tw_onnx *im, const Onnx__ValueInfoProto *input, tw_region *body,
                          tw_value **out)
{
    const Onnx__TypeProto *type = input->type;
    const char *name = input->name;
    bool sequence = type && type->value_case == ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE;
    bool optional = type && type->value_case == ONNX__TYPE_PROTO__VALUE_OPTIONAL_TYPE;
    tw_onnx_content content;
    *out = NULL;
    if (!sequence && !optional)
        return true;
    if (!tw_onnx_declared_content(im, type, name, &content))
        return false;
    bool given =
        tw_onnx_given_shape(im, content.sequence ? tw_onnx_element_name(im->arena, name, 0) : name);
    *out = !given     ? handle_input(im, name, &content, body)
           : optional ? optional_input(im, name, &content, body)
                      : sequence_input(im, name, content.elem, body);
    return *out != NULL;
}
