/* sequence.c: sequences and optionals whose lengths only the run knows. They are handles, u64
 * scalars, that routines of the runtime work on (runtime/routine_sequence.c):
 *
 *     %s = graph.routine %x, %y {name = "sequence_make"} : tensor<u64>
 *     %l = graph.routine %s, %z {name = "sequence_insert"} : tensor<u64>
 *     %e = graph.routine %l, %i {name = "sequence_at", symbols = ["e.0", ""]} : tensor<e.0 x 4 x
 * f32>
 *
 * 0 is an optional that holds nothing; an optional tensor is a sequence of one. What is known of
 * the tensors inside is kept beside the handle: where they differ in size, one that is read has
 * sizes of its own. Their number of dimensions must be known to read one. */
#include "import/onnx/import.h"

#include <string.h>

/* ---- Contents ---- */

static bool uses_input_sizes_only(const tw_onnx *im, tw_expr size)
{
    if (size->lhs)
        return uses_input_sizes_only(im, size->lhs) && uses_input_sizes_only(im, size->rhs);
    bool found = size->kind != TW_EXPR_SYM;
    for (size_t i = 0; !found && i < im->input_sizes.len; i++)
        found = !strcmp(im->input_sizes.data[i]->u.string.text, size->symbol);
    return found;
}

tw_onnx_content tw_onnx_content_of(tw_onnx *im, const tw_value *value)
{
    const tw_onnx_bundle *b = tw_onnx_as_bundle(value);
    if (b)
        return b->content;
    tw_type type = value->type;
    tw_onnx_content c = {.elem = type->elem, .rank = (int)type->rank};
    for (unsigned d = 0; d < type->rank; d++)
        c.dims[d] = uses_input_sizes_only(im, type->dims[d]) ? type->dims[d] : NULL;
    return c;
}

bool tw_onnx_declared_content(tw_onnx *im, const Onnx__TypeProto *type, const char *name,
                              tw_onnx_content *out)
{
    *out = (tw_onnx_content){.elem = TW_ELEM_COUNT, .rank = TW_ONNX_ANY_RANK};
    if (type && type->value_case == ONNX__TYPE_PROTO__VALUE_OPTIONAL_TYPE) {
        out->optional = true;
        type = type->optional_type->elem_type;
    }
    if (type && type->value_case == ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE) {
        out->sequence = true;
        type = type->sequence_type->elem_type;
    }
    if (!type || type->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE ||
        !tw_onnx_elem(type->tensor_type->elem_type, &out->elem))
        return tw_gb_error(&im->g,
                           "'%s' is of a type that is not supported; tensors, sequences of tensors "
                           "and optionals of these are",
                           name);
    const Onnx__TensorShapeProto *shape = type->tensor_type->shape;
    if (!shape || shape->n_dim > TW_MAX_RANK)
        return true;
    out->rank = (int)shape->n_dim;
    for (size_t d = 0; d < shape->n_dim; d++) {
        const Onnx__TensorShapeProto__Dimension *dim = shape->dim[d];
        bool number = dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
        out->dims[d] = number && dim->dim_value >= 0 ? tw_gb_const(&im->g, dim->dim_value) : NULL;
    }
    return true;
}

/* Numbers of dimensions: none yet, then one, then any. */
static void join_dims(tw_onnx_content *a, const tw_onnx_content *b)
{
    if (b->rank == TW_ONNX_NO_TENSOR || a->rank == TW_ONNX_ANY_RANK)
        return;
    if (a->rank == TW_ONNX_NO_TENSOR) {
        a->rank = b->rank;
        memcpy(a->dims, b->dims, sizeof a->dims);
    } else if (a->rank != b->rank) {
        a->rank = TW_ONNX_ANY_RANK;
    }
    for (int d = 0; d < a->rank; d++)
        a->dims[d] = a->dims[d] == b->dims[d] ? a->dims[d] : NULL;
}

static bool equal(const tw_onnx_content *a, const tw_onnx_content *b)
{
    bool same = a->sequence == b->sequence && a->optional == b->optional && a->elem == b->elem &&
                a->rank == b->rank;
    for (int d = 0; same && d < a->rank; d++)
        same = a->dims[d] == b->dims[d];
    return same;
}

bool tw_onnx_join_content(tw_onnx_content *a, const tw_onnx_content *b, bool *changed)
{
    tw_onnx_content before = *a;
    if (a->sequence != b->sequence ||
        (a->elem != b->elem && a->elem != TW_ELEM_COUNT && b->elem != TW_ELEM_COUNT))
        return false;
    if (a->elem == TW_ELEM_COUNT)
        a->elem = b->elem;
    a->optional |= b->optional;
    join_dims(a, b);
    *changed = !equal(a, &before);
    return true;
}

/* ---- Handles ---- */

tw_value *tw_onnx_handle_routine(tw_onnx_node *n, const char *name, tw_value *const *operands,
                                 unsigned n_operands, const int64_t *params, size_t n_params)
{
    tw_value *out;
    tw_onnx_result result = {.elem = TW_U64};
    n->im->handles++;
    return tw_onnx_routine(n, tw_arena_printf(n->im->arena, "sequence_%s", name), operands,
                           n_operands, params, n_params, &result, 1, &out)
               ? out
               : NULL;
}

/* Where the builder stands. */
static tw_value *make_handle(tw_onnx_node *n, const tw_onnx_bundle *b)
{
    if (b->content.optional && !b->n)
        return tw_gb_scalar(n->g, TW_U64, 0);
    if (b->content.optional && b->content.sequence)
        return tw_onnx_handle(n, b->items[0]);
    for (size_t i = 0; i < b->n; i++)
        if (tw_onnx_as_bundle(b->items[i]) || b->items[i]->type->elem != b->content.elem)
            return tw_gb_error(n->g, "a sequence of something else than tensors of one type, whose "
                                     "length must be known when the model is compiled");
    return tw_onnx_handle_routine(n, "make", b->items, (unsigned)b->n, NULL, 0);
}

/* Once for each bundle, where all that see the bundle see it. */
tw_value *tw_onnx_handle(tw_onnx_node *n, tw_value *value)
{
    tw_onnx_bundle *b = (tw_onnx_bundle *)tw_onnx_as_bundle(value);
    tw_builder here = n->g->b;
    if (!b || b->handle || b->made)
        return !b          ? tw_gb_error(n->g, "a tensor where a sequence or optional is needed")
               : b->handle ? b->handle
                           : b->made;
    while (n->g->b.region != b->region) {
        n->g->b.before = n->g->b.region->parent;
        n->g->b.region = n->g->b.before->region;
    }
    b->made = make_handle(n, b);
    n->g->b = here;
    return b->made;
}

bool tw_onnx_keep_only(tw_onnx_node *n, tw_op *loop, tw_value **handles, unsigned count)
{
    tw_builder inside = n->g->b;
    tw_value *mark, **operands = TW_NEW_ARRAY(n->im->arena, tw_value *, count + 1);
    tw_onnx_result *results = TW_NEW_ARRAY(n->im->arena, tw_onnx_result, count + 1);
    results[0] = (tw_onnx_result){.elem = TW_I64};
    n->g->b = tw_builder_before(n->ctx, loop);
    n->g->b.loc = inside.loc;
    bool marked = tw_onnx_routine(n, "sequence_mark", NULL, 0, NULL, 0, results, 1, &mark);
    n->g->b = inside;
    operands[0] = mark;
    for (unsigned i = 0; i < count; i++) {
        operands[1 + i] = handles[i];
        results[1 + i] = (tw_onnx_result){.elem = TW_U64};
    }
    if (!marked || !tw_onnx_routine(n, "sequence_keep", operands, count + 1, NULL, 0, results,
                                    count + 1, operands))
        return false;
    for (unsigned i = 0; i < count; i++)
        handles[i] = operands[1 + i];
    return true;
}

/* ---- Reading ---- */

int tw_onnx_item_rank(tw_onnx_node *n, const tw_onnx_content *c, int more)
{
    const char *name = n->n_out ? n->proto->output[0] : "";
    const Onnx__ValueInfoProto *info = tw_map_get_str(&n->scope->declared, name);
    const Onnx__TypeProto *type = info ? info->type : NULL;
    const Onnx__TensorShapeProto *shape =
        type && type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE ? type->tensor_type->shape
                                                                        : NULL;
    if (c->rank >= 0)
        return c->rank;
    if (shape && shape->n_dim <= TW_MAX_RANK && (int)shape->n_dim >= more)
        return (int)shape->n_dim - more;
    tw_gb_error(n->g,
                "the number of dimensions of the tensors in the sequence is not known%s; a "
                "declared shape of '%s' or of the sequence's tensors would say it",
                c->rank == TW_ONNX_NO_TENSOR ? ", for none is ever put in" : "", name);
    return -1;
}

tw_value *tw_onnx_unknown(tw_onnx_node *n)
{
    tw_onnx *im = n->im;
    im->unknowns++;
    if (!im->unknown) {
        im->unknown = TW_NEW(im->arena, tw_onnx_bundle);
        im->unknown->value.type = tw_type_dialect(im->ctx, "onnx.unknown", NULL);
    }
    return &im->unknown->value;
}

tw_value *tw_onnx_stand_in(tw_onnx_node *n, const tw_value *like)
{
    const tw_onnx_bundle *b = like ? tw_onnx_as_bundle(like) : NULL;
    if (!like || b == n->im->unknown || (!b && like->type->elem == TW_STRING))
        return NULL;
    tw_type type = b ? tw_type_tensor(n->ctx, TW_U64, 0, NULL, NULL) : like->type;
    tw_value *value = tw_gb_splat(n->g, type->elem, 0, type->rank, type->dims);
    return b ? tw_onnx_held(n->im, &b->content, value) : value;
}

tw_value *tw_onnx_item_at(tw_onnx_node *n, const tw_onnx_bundle *s, tw_value *position)
{
    if (s->content.rank == TW_ONNX_NO_TENSOR && n->im->trials)
        return tw_onnx_unknown(n);
    int rank = tw_onnx_item_rank(n, &s->content, 0);
    tw_value *out, *operands[2] = {tw_onnx_handle(n, (tw_value *)&s->value), position};
    tw_onnx_result result = {s->content.elem, (unsigned)rank, {NULL}};
    if (rank < 0)
        return NULL;
    for (int d = 0; d < rank; d++)
        result.dims[d] =
            s->content.rank >= 0 && s->content.dims[d] ? s->content.dims[d] : tw_onnx_new_size(n);
    return tw_onnx_routine(n, "sequence_at", operands, 2, NULL, 0, &result, 1, &out) ? out : NULL;
}

tw_value *tw_onnx_length(tw_onnx_node *n, const tw_onnx_bundle *s)
{
    tw_value *out, *handle = tw_onnx_handle(n, (tw_value *)&s->value);
    tw_onnx_result result = {.elem = TW_I64};
    return tw_onnx_routine(n, "sequence_length", &handle, 1, NULL, 0, &result, 1, &out) ? out
                                                                                        : NULL;
}
