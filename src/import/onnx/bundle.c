/* bundle.c: sequences and optionals, which are lists of values while a model is imported and vanish
 * then. As inputs and outputs of a model they become one tensor for each element, "x[0]", "x[1]" …
 */
#include "import/onnx/import.h"

#include <string.h>

/* ---- Bundles ---- */

tw_value *tw_onnx_bundle_of(tw_onnx *im, bool optional, tw_value *const *items, size_t n)
{
    tw_onnx_bundle *b = TW_NEW(im->arena, tw_onnx_bundle);
    *b = (tw_onnx_bundle){.optional = optional, .n = n};
    b->value.type = tw_type_dialect(im->ctx, optional ? "onnx.optional" : "onnx.sequence", NULL);
    b->items = TW_NEW_ARRAY(im->arena, tw_value *, n + 1);
    for (size_t i = 0; i < n; i++)
        b->items[i] = items[i];
    return &b->value;
}

const tw_onnx_bundle *tw_onnx_sequence(tw_onnx_node *n, unsigned i)
{
    const tw_onnx_bundle *b = n->in[i] ? tw_onnx_as_bundle(n->in[i]) : NULL;
    if (!b || b->optional)
        return tw_gb_error(n->g, "input %u is no sequence", i);
    return b;
}

/* Depth is that of the types, which the file's messages bound. */
void tw_onnx_add_leaves(tw_onnx *im, tw_value *value, tw_onnx_leaves *out)
{
    const tw_onnx_bundle *b = tw_onnx_as_bundle(value);
    if (!b)
        tw_vec_push(im->arena, &out->tensors, value);
    for (size_t i = 0; b && i < b->n; i++)
        tw_onnx_add_leaves(im, b->items[i], out);
}

tw_value *tw_onnx_with_leaves(tw_onnx *im, const tw_value *like, tw_value *const **leaves)
{
    const tw_onnx_bundle *b = tw_onnx_as_bundle(like);
    if (!b)
        return *(*leaves)++;
    tw_value **items = TW_NEW_ARRAY(im->arena, tw_value *, b->n + 1);
    for (size_t i = 0; i < b->n; i++)
        items[i] = tw_onnx_with_leaves(im, b->items[i], leaves);
    return tw_onnx_bundle_of(im, b->optional, items, b->n);
}

bool tw_onnx_same_structure(const tw_value *a, const tw_value *b)
{
    const tw_onnx_bundle *x = tw_onnx_as_bundle(a), *y = tw_onnx_as_bundle(b);
    if (!x || !y)
        return !x && !y;
    bool same = x->optional == y->optional && x->n == y->n;
    for (size_t i = 0; same && i < x->n; i++)
        same = tw_onnx_same_structure(x->items[i], y->items[i]);
    return same;
}

/* ---- Inputs ---- */

const char *tw_onnx_element_name(tw_arena *arena, const char *name, size_t i)
{
    return tw_arena_printf(arena, "%s[%zu]", name, i);
}

/* The element type of tensors in it, however deep. */
static bool tensor_elem(const Onnx__TypeProto *type, tw_elem *out)
{
    while (type && type->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE)
        type = type->value_case == ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE
                   ? type->sequence_type->elem_type
               : type->value_case == ONNX__TYPE_PROTO__VALUE_OPTIONAL_TYPE
                   ? type->optional_type->elem_type
                   : NULL;
    return type && tw_onnx_elem(type->tensor_type->elem_type, out);
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

static tw_value *optional_input(tw_onnx *im, const char *name, const Onnx__TypeProto *inner,
                                tw_elem elem, tw_region *body)
{
    bool tensor = inner->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    const char *first = tensor ? name : tw_onnx_element_name(im->arena, name, 0);
    if (!tw_onnx_given_shape(im, first))
        return tw_onnx_bundle_of(im, true, NULL, 0);
    tw_value *value = tensor ? element(im, elem, name, body) : sequence_input(im, name, elem, body);
    return value ? tw_onnx_bundle_of(im, true, &value, 1) : NULL;
}

bool tw_onnx_bundle_input(tw_onnx *im, const Onnx__ValueInfoProto *input, tw_region *body,
                          tw_value **out)
{
    const Onnx__TypeProto *type = input->type;
    bool sequence = type && type->value_case == ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE;
    bool optional = type && type->value_case == ONNX__TYPE_PROTO__VALUE_OPTIONAL_TYPE;
    tw_elem elem;
    *out = NULL;
    if ((!sequence && !optional) || !tensor_elem(type, &elem))
        return true;
    if (sequence && !im->options->n_shapes && !im->options->n_values)
        return tw_error(im->ctx, im->loc,
                        "input '%s' is a sequence: its elements must be known when the model is "
                        "compiled; give their shapes (--shape %s[0]=…)",
                        input->name, input->name);
    *out = sequence ? sequence_input(im, input->name, elem, body)
                    : optional_input(im, input->name, type->optional_type->elem_type, elem, body);
    return *out != NULL;
}
