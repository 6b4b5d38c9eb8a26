/* to_loops_places.c: values that lie within others.
 *
 *     %a = graph.conv … : 1x8x8x32        %y = loop.alloc : buffer<1x8x8x96xf32>
 *     %b = graph.conv … : 1x8x8x64        %a = loop.view %y {part = (1, 8, 8, 32)}
 *     %y = graph.concat %a, %b     ->     %b = loop.view %y {part = (1, 8, 8, 64), offset = 32}
 *                                         call @conv(…, %a); call @conv(…, %b)
 *
 * The parts of a concatenation are computed where they belong in the whole, and a slice that only
 * kernels read is read where it lies in what it is a slice of. The kernels see a buffer of the
 * whole's sizes, which give it its strides, and touch a part of it; where a reshape joins axes of
 * the part to that of the concatenation, the whole's axis is cut for them. When nothing comes in
 * front of the axis the part is contiguous and keeps its own type.
 *
 * Concatenations are looked at from the last to the first: one that is a part of another takes its
 * own parts along. A value is placed once; what has no place (an input, a constant, a value that is
 * a part twice) is copied into its part. */
#include "lower/to_loops_impl.h"

#include "lower/view_of.h"

/* Where a value lies. */
typedef struct value_place {
    tw_value *root; /* the value that has the memory */
    int64_t offset; /* elements */
    tw_type type;   /* of the buffer: the sizes of the root, or of a contiguous part its own */
    bool strided;   /* a part of that type */
    const tw_value *into; /* the concatenation's result that it is part `part` of; NULL: a slice */
    unsigned part;
} value_place;

/* ---- The operations ---- */

/* The operation of that kind that op is, or that is all that a group does but hold constants. */
static tw_op *sole_op(tw_op *op, tw_graph_kind kind)
{
    if (tw_is_graph(op, kind))
        return op;
    if (!tw_is_graph(op, TW_GRAPH_GROUP) || op->n_results != 1)
        return NULL;
    tw_op *inner = op->regions[0].first;
    while (inner && tw_is_graph(inner, TW_GRAPH_CONSTANT))
        inner = inner->next;
    bool sole = inner && tw_is_graph(inner, kind) && inner->next &&
                tw_is_graph(inner->next, TW_GRAPH_YIELD);
    return sole ? inner : NULL;
}

/* Operand i of `inner`, which may be in the group `op`, as a value outside. */
static tw_value *outer_operand(const tw_op *op, const tw_op *inner, unsigned i)
{
    tw_value *v = tw_operand(inner, i);
    return op != inner && !v->op ? tw_operand(op, v->index) : v;
}

/* Whether kernels compute the operation. */
static bool is_kernel_op(const tw_to_loops *t, const tw_op *op)
{
    return (tw_is_graph(op, TW_GRAPH_GROUP) || op->def->traits & TW_TRAIT_PURE) &&
           (tw_is_graph(op, TW_GRAPH_GROUP) || !op->n_regions) &&
           !tw_is_graph(op, TW_GRAPH_CONSTANT) && !tw_to_loops_is_routine(t, op);
}

static bool is_kernel_result(const tw_to_loops *t, const tw_value *value)
{
    int64_t offset;
    return value->op && is_kernel_op(t, value->op) && !tw_lower_is_view(value->op, &offset);
}

/* Whether kernels alone use the value: they can read a part of a buffer. */
static bool only_kernels_use(const tw_to_loops *t, const tw_value *value)
{
    int64_t offset;
    for (const tw_use *use = value->uses; use; use = use->next)
        if (!is_kernel_op(t, use->user) || tw_lower_is_view(use->user, &offset))
            return false;
    return true;
}

static const value_place *place_of(const tw_to_loops *t, const tw_value *value)
{
    return tw_map_get_ptr(&t->places, value);
}

/* ---- Sizes ---- */

/* Elements from one position of the axis to the next. */
static tw_expr stride_of(tw_context *ctx, tw_type type, unsigned axis)
{
    tw_expr stride = tw_expr_const(ctx, 1);
    for (unsigned i = axis + 1; i < type->rank; i++)
        stride = tw_expr_mul(ctx, stride, type->dims[i]);
    return stride;
}

/* Whether all axes in front of that one have size 1, so that its slices are contiguous. */
static bool is_outermost(tw_type type, unsigned axis)
{
    for (unsigned i = 0; i < axis; i++)
        if (!tw_is_size(type->dims[i], 1))
            return false;
    return true;
}

/* ---- Concatenations ---- */

/* A concatenation whose result has memory from its first part on. */
typedef struct whole {
    tw_op *op, *inner; /* the same, or a group and what is in it */
    tw_value *result;
    value_place place; /* of the result */
    unsigned axis;
} whole;

/* Whether the result's memory is there when `op` runs. */
static bool is_there(const tw_to_loops *t, const whole *w, tw_op *op)
{
    const tw_value *planned = tw_map_get_ptr(&t->planned, w->place.root);
    if (planned && (t->depth || tw_to_loops_is_slot(planned) || tw_to_loops_is_bound(t, planned)))
        return false;
    for (unsigned i = 0; i < w->place.type->rank; i++)
        if (!tw_to_loops_bound_before(t, w->place.type->dims[i], op))
            return false;
    return true;
}

/* The value before a reshape that joins several of its axes to the one of the concatenation, and in
 * *type the whole with that axis cut likewise; v where there is none, or where others use it. */
static tw_value *before_join(tw_to_loops *t, const whole *w, tw_value *v, tw_type *type)
{
    tw_value *x = v->op && tw_is_graph(v->op, TW_GRAPH_RESHAPE) ? tw_operand(v->op, 0) : NULL;
    int64_t size, inner = 1;
    if (!x || !x->op || x->type->rank <= v->type->rank || !tw_value_has_one_use(x) ||
        !tw_value_has_one_use(v) || sole_op(x->op, TW_GRAPH_CONCAT))
        return v;
    unsigned more = x->type->rank - v->type->rank, rank = x->type->rank;
    tw_expr dims[TW_MAX_RANK];
    for (unsigned i = 0; i < rank; i++) {
        bool joined = i >= w->axis && i <= w->axis + more;
        unsigned at = i <= w->axis ? i : i - more; /* in v */
        dims[i] = joined ? x->type->dims[i] : (*type)->dims[at];
        if (joined ? !tw_expr_as_const(dims[i], &size) : x->type->dims[i] != v->type->dims[at])
            return v;
        if (joined && i > w->axis && (size < 1 || __builtin_mul_overflow(inner, size, &inner)))
            return v;
    }
    if (!tw_expr_as_const((*type)->dims[w->axis], &size) || size % inner)
        return v;
    dims[w->axis] = tw_expr_const(t->ctx, size / inner);
    *type = tw_type_buffer(t->ctx, (*type)->elem, rank, dims, (*type)->scope);
    return x;
}

static void place_part(tw_to_loops *t, const whole *w, unsigned part, int64_t offset)
{
    tw_value *v = outer_operand(w->op, w->inner, part);
    tw_type type = w->place.type;
    bool contiguous = !w->place.strided && is_outermost(w->place.type, w->axis);
    tw_value *base = contiguous ? tw_to_loops_base_of(v) : before_join(t, w, v, &type);
    if (tw_to_loops_is_empty(base->type) || !is_kernel_result(t, base) ||
        base->op->region != w->op->region || tw_map_get_ptr(&t->planned, base) ||
        place_of(t, base) || !is_there(t, w, base->op) ||
        (!contiguous && base == v && !only_kernels_use(t, base)))
        return;
    value_place *place = TW_NEW(t->arena, value_place);
    *place = (value_place){.root = w->place.root,
                           .offset = offset,
                           .type = contiguous ? tw_to_loops_buffer_of(t->ctx, base->type) : type,
                           .strided = !contiguous,
                           .into = w->result,
                           .part = part};
    tw_map_put_ptr(&t->places, base, place);
    if (!contiguous && base != v)
        tw_map_put_ptr(&t->places, v, place);
}

/* Where each part begins, in elements behind the beginning of a buffer of that type; false when
 * sizes that are not known decide. */
static bool find_offsets(tw_to_loops *t, const tw_op *concat, tw_type type, int64_t *offsets)
{
    unsigned axis = (unsigned)tw_op_int(concat, "axis", 0);
    tw_expr at = tw_expr_const(t->ctx, 0), stride = stride_of(t->ctx, type, axis);
    for (unsigned i = 0; i < concat->n_operands; i++) {
        if (!tw_expr_as_const(tw_expr_mul(t->ctx, at, stride), &offsets[i]))
            return false;
        at = tw_expr_add(t->ctx, at, tw_operand(concat, i)->type->dims[axis]);
    }
    return tw_elem_bits(type->elem) >= 8;
}

static void place_parts(tw_to_loops *t, tw_op *op, tw_op *inner)
{
    int64_t *offsets = TW_NEW_ARRAY(t->arena, int64_t, inner->n_operands);
    whole w = {.op = op, .inner = inner, .result = tw_result(op, 0)};
    const value_place *place = place_of(t, w.result);
    w.axis = (unsigned)tw_op_int(inner, "axis", 0);
    w.place = place ? *place
                    : (value_place){.root = w.result,
                                    .type = tw_to_loops_buffer_of(t->ctx, w.result->type)};
    if (!find_offsets(t, inner, w.place.type, offsets))
        return;
    for (unsigned i = 0; i < inner->n_operands; i++)
        place_part(t, &w, i, w.place.offset + offsets[i]);
}

/* ---- Slices ---- */

static bool all_ones(const tw_op *op, const char *name)
{
    int64_t values[TW_MAX_RANK];
    int n = tw_op_ints(op, name, values, TW_MAX_RANK);
    for (int i = 0; i < n; i++)
        if (values[i] != 1)
            return false;
    return n >= 0;
}

/* A slice of what stays as it is while the function runs. */
static void place_slice(tw_to_loops *t, const tw_op *op, const tw_op *inner)
{
    tw_value *x = outer_operand(op, inner, 0), *result = &((tw_op *)op)->results[0];
    const value_place *from = place_of(t, x);
    tw_value *base = tw_to_loops_base_of(x);
    bool argument = !base->op && base->region->parent->def == &tw_core_ops[TW_CORE_FUNC];
    tw_expr starts[TW_MAX_RANK], at = tw_expr_const(t->ctx, from ? from->offset : 0);
    int64_t offset;
    if (place_of(t, result) || tw_map_get_ptr(&t->planned, result) ||
        tw_to_loops_is_empty(result->type) || !all_ones(inner, "steps") ||
        !(argument || is_kernel_result(t, base)) || tw_elem_bits(x->type->elem) < 8 ||
        x->type->elem == TW_STRING || !only_kernels_use(t, result))
        return;
    tw_type type = from ? from->type : tw_to_loops_buffer_of(t->ctx, x->type);
    int n = tw_graph_exprs(t->ctx, inner, "starts", starts, TW_MAX_RANK);
    for (int i = 0; i < n; i++)
        at = tw_expr_add(t->ctx, at,
                         tw_expr_mul(t->ctx, starts[i], stride_of(t->ctx, type, (unsigned)i)));
    if (!tw_expr_as_const(at, &offset))
        return;
    value_place *place = TW_NEW(t->arena, value_place);
    *place = (value_place){
        .root = from ? from->root : x, .offset = offset, .type = type, .strided = true};
    tw_map_put_ptr(&t->places, result, place);
}

/* ---- For the other files ---- */

void tw_to_loops_place_values(tw_to_loops *t, tw_region *region)
{
    tw_op *inner;
    if (!t->in_place)
        return;
    for (tw_op *op = region->last; op; op = op->prev)
        if ((inner = sole_op(op, TW_GRAPH_CONCAT)))
            place_parts(t, op, inner);
    for (tw_op *op = region->first; op; op = op->next)
        if ((inner = sole_op(op, TW_GRAPH_SLICE)))
            place_slice(t, op, inner);
}

bool tw_to_loops_is_part(const tw_value *buffer)
{
    return buffer->op && tw_op_attr(buffer->op, "part");
}

static tw_value *view_of_part(tw_to_loops *t, tw_value *root, tw_type type, int64_t offset,
                              tw_type part)
{
    tw_value *view = tw_to_loops_new_view(t, root, type, offset);
    tw_op_set_attr(view->op, "part", tw_attr_map(t->ctx, 0, part->dims, part->rank));
    return view;
}

tw_value *tw_to_loops_placed_buffer(tw_to_loops *t, const tw_value *value)
{
    const value_place *place = place_of(t, value);
    if (!place)
        return NULL;
    tw_value *root = tw_to_loops_result_buffer(t, place->root);
    return place->strided ? view_of_part(t, root, place->type, place->offset, value->type)
                          : tw_to_loops_view_at(t, root, place->type, place->offset);
}

bool tw_to_loops_reads_in_place(tw_to_loops *t, tw_op *op)
{
    const value_place *place = op->n_results ? place_of(t, &op->results[0]) : NULL;
    if (place && place->into && tw_is_graph(op, TW_GRAPH_RESHAPE))
        return true; /* only the concatenation uses it */
    return place && !place->into && tw_to_loops_buffer_for(t, tw_result(op, 0));
}

/* Copies a part to its place in the whole, `at` elements behind its beginning. */
static void copy_part(tw_to_loops *t, tw_value *part, tw_value *whole, unsigned axis, int64_t at)
{
    tw_value *from = tw_to_loops_buffer_for(t, part);
    tw_type shape = tw_to_loops_buffer_of(t->ctx, part->type);
    bool contiguous = !tw_to_loops_is_part(whole) && is_outermost(whole->type, axis);
    tw_value *to = contiguous ? tw_to_loops_view_at(t, whole, shape, at)
                              : view_of_part(t, whole, whole->type, at, part->type);
    tw_to_loops_copy_shape(t, from, to, shape);
}

bool tw_to_loops_complete_concat(tw_to_loops *t, tw_op *op)
{
    tw_op *inner = sole_op(op, TW_GRAPH_CONCAT);
    bool *placed = inner ? TW_NEW_ARRAY(t->arena, bool, inner->n_operands) : NULL, any = false;
    for (unsigned i = 0; inner && i < inner->n_operands; i++) {
        const value_place *place = place_of(t, tw_to_loops_base_of(outer_operand(op, inner, i)));
        placed[i] = place && place->into == tw_result(op, 0) && place->part == i;
        any = any || placed[i];
    }
    if (!any)
        return false;
    unsigned axis = (unsigned)tw_op_int(inner, "axis", 0);
    tw_value *whole = tw_to_loops_result_buffer(t, tw_result(op, 0));
    int64_t *offsets = TW_NEW_ARRAY(t->arena, int64_t, inner->n_operands);
    find_offsets(t, inner, whole->type, offsets);
    for (unsigned i = 0; i < inner->n_operands; i++)
        if (!placed[i])
            copy_part(t, outer_operand(op, inner, i), whole, axis, offsets[i]);
    return true;
}
