/* sequence_runtime.c: operators on sequences whose lengths, or with positions that, only the run
 * knows. */
#include "import/onnx/import.h"

/* ---- One element ---- */

/* The sequence and, if it is given, the position (input `i`) as operands; their number, 0 with an
 * error. */
static unsigned operands_of(tw_onnx_node *n, unsigned i, tw_value **operands, unsigned count)
{
    operands[0] = tw_onnx_handle(n, n->in[0]);
    if (operands[0] && tw_onnx_in(n, i) && !(operands[count++] = tw_onnx_index_scalar(n, i)))
        return 0;
    return operands[0] ? count : 0;
}

bool tw_onnx_insert_runtime(tw_onnx_node *n)
{
    bool changed;
    tw_value *operands[3] = {NULL, n->in[1]};
    tw_onnx_content content = tw_onnx_content_of(n->im, n->in[0]);
    if (n->in[1]->type->kind != TW_TYPE_TENSOR)
        return tw_onnx_error(n, "input 1 is no tensor");
    tw_onnx_content item = tw_onnx_content_of(n->im, n->in[1]);
    item.sequence = true;
    content.optional = false;
    if (!tw_onnx_join_content(&content, &item, &changed))
        return tw_onnx_error(n, "a sequence of %s and %s; its elements must be tensors of one type",
                             tw_elem_name(content.elem), tw_elem_name(item.elem));
    unsigned count = operands_of(n, 2, operands, 2);
    return count &&
           tw_onnx_set(n, 0,
                       tw_onnx_held(n->im, &content,
                                    tw_onnx_handle_routine(n, "insert", operands, count, NULL, 0)));
}

bool tw_onnx_erase_runtime(tw_onnx_node *n)
{
    tw_value *operands[2];
    tw_onnx_content content = tw_onnx_content_of(n->im, n->in[0]);
    content.optional = false;
    unsigned count = operands_of(n, 1, operands, 1);
    return count &&
           tw_onnx_set(n, 0,
                       tw_onnx_held(n->im, &content,
                                    tw_onnx_handle_routine(n, "erase", operands, count, NULL, 0)));
}

/* ---- All as one tensor, and back ---- */

static bool check_bytes(tw_onnx_node *n, tw_elem elem)
{
    return tw_elem_bits(elem) >= 8 ||
           tw_onnx_error(n,
                         "a sequence of %s, whose length must be known when the model is compiled",
                         tw_elem_name(elem));
}

bool tw_onnx_join_runtime(tw_onnx_node *n, int64_t given, bool fresh)
{
    unsigned axis;
    const tw_onnx_bundle *s = tw_onnx_as_bundle(n->in[0]);
    const tw_onnx_content *c = &s->content;
    int rank = tw_onnx_item_rank(n, c, fresh);
    if (rank < 0 || !tw_onnx_axis(n, given, (unsigned)rank + fresh, &axis) ||
        !check_bytes(n, c->elem))
        return false;
    if (rank + fresh > TW_MAX_RANK)
        return tw_onnx_error(n, "a tensor of more than %d dimensions", TW_MAX_RANK);
    tw_value *out, *handle = tw_onnx_handle(n, n->in[0]);
    tw_onnx_result result = {c->elem, (unsigned)rank + fresh, {NULL}};
    for (unsigned d = 0; d < result.rank; d++) {
        unsigned from = d - (fresh && d > axis);
        tw_expr known = d != axis && c->rank >= 0 ? c->dims[from] : NULL;
        result.dims[d] = known ? known : tw_onnx_new_size(n);
    }
    return tw_onnx_routine(n, "sequence_concat", &handle, 1, (int64_t[]){axis, fresh}, 2, &result,
                           1, &out) &&
           tw_onnx_set(n, 0, out);
}

bool tw_onnx_split_runtime(tw_onnx_node *n, unsigned axis, bool keep)
{
    tw_value *operands[2] = {n->in[0], tw_onnx_in(n, 1)};
    tw_onnx_content content = tw_onnx_content_of(n->im, n->in[0]);
    unsigned count = operands[1] ? 2 : 1;
    bool squeeze = count == 1 && !keep;
    if (!check_bytes(n, content.elem) ||
        (count == 2 && !(operands[1] = tw_gb_cast(n->g, operands[1], TW_I64))))
        return false;
    if (count == 2 && operands[1]->type->rank > 1)
        return tw_onnx_error(n, "input 1 is %s; a scalar or a vector is needed",
                             tw_gb_type_text(n->g, operands[1]->type));
    content.sequence = true;
    content.dims[axis] = count == 1 ? tw_gb_const(n->g, 1) : NULL;
    for (int d = (int)axis; squeeze && d + 1 < content.rank; d++)
        content.dims[d] = content.dims[d + 1];
    content.rank -= squeeze;
    return tw_onnx_set(n, 0,
                       tw_onnx_held(n->im, &content,
                                    tw_onnx_handle_routine(n, "split", operands, count,
                                                           (int64_t[]){axis, keep}, 2)));
}

/* ---- SequenceMap: a loop over the elements, with a sequence as state for each output ---- */

typedef struct mapping {
    tw_onnx_node *n;
    const Onnx__GraphProto *body;
    tw_op *loop;
    tw_value **out; /* of the body */
} mapping;

/* The number of trips: the first sequence's length, which that of the others must be. */
static tw_value *count_trips(tw_onnx_node *n)
{
    tw_value *trips = NULL, *length;
    tw_expr size = NULL;
    for (unsigned k = 0; k < n->n_in; k++) {
        const tw_onnx_bundle *s = tw_onnx_as_bundle(n->in[k]);
        if (!s)
            continue;
        if (!(length = tw_onnx_length(n, s)))
            return NULL;
        if (!size && !(size = tw_onnx_bind_size(n, length, NULL, "length of the first sequence")))
            return NULL;
        if (trips && !tw_onnx_bind_size(n, length, size, "length of a sequence"))
            return NULL;
        trips = trips ? trips : length;
    }
    return trips;
}

/* The body's inputs in a trip. */
static tw_value **elements(tw_onnx_node *n, tw_value *position)
{
    tw_value **in = TW_NEW_ARRAY(n->im->arena, tw_value *, n->n_in);
    for (unsigned k = 0; k < n->n_in; k++) {
        const tw_onnx_bundle *s = tw_onnx_as_bundle(n->in[k]);
        in[k] = s ? tw_onnx_item_at(n, s, position) : n->in[k];
        if (!in[k])
            return NULL;
    }
    return in;
}

static bool map_body(mapping *m)
{
    tw_onnx_node *n = m->n;
    tw_region *region = &m->loop->regions[0];
    tw_value **in = elements(n, region->args[0]);
    tw_value **next = TW_NEW_ARRAY(n->im->arena, tw_value *, n->n_out + 1);
    if (!in || !tw_onnx_inline_graph(n, m->body, in, n->n_in, m->out))
        return false;
    next[0] = tw_gb_scalar(n->g, TW_BOOL, 1);
    for (unsigned k = 0; k < n->n_out; k++) {
        if (tw_onnx_as_bundle(m->out[k]))
            return tw_onnx_error(n, "output %u of the body is no tensor", k);
        tw_value *operands[2] = {region->args[1 + k], m->out[k]};
        next[1 + k] = tw_onnx_handle_routine(n, "insert", operands, 2, NULL, 0);
        if (!next[1 + k])
            return false;
    }
    if (!tw_onnx_keep_only(n, m->loop, next + 1, n->n_out))
        return false;
    tw_onnx_yield(n, next, n->n_out + 1);
    return true;
}

bool tw_onnx_map_runtime(tw_onnx_node *n, const Onnx__GraphProto *body)
{
    mapping m = {.n = n, .body = body};
    tw_value **operands = TW_NEW_ARRAY(n->im->arena, tw_value *, n->n_out + 2);
    m.out = TW_NEW_ARRAY(n->im->arena, tw_value *, n->n_out + 1);
    operands[0] = count_trips(n);
    operands[1] = tw_gb_scalar(n->g, TW_BOOL, 1);
    for (unsigned k = 0; k < n->n_out; k++)
        if (!(operands[2 + k] = tw_onnx_handle_routine(n, "make", NULL, 0, NULL, 0)))
            return false;
    if (!operands[0])
        return false;
    m.loop = tw_onnx_region_op(n, TW_GRAPH_LOOP, operands, n->n_out + 2, n->n_out);
    tw_builder here = n->g->b;
    tw_region *region = &m.loop->regions[0];
    tw_region_add_arg(region, operands[0]->type, "i");
    for (unsigned k = 0; k < n->n_out; k++) {
        m.loop->results[k].type = operands[2 + k]->type;
        tw_region_add_arg(region, operands[2 + k]->type, NULL);
    }
    n->g->b = tw_builder_at_end(n->ctx, region, here.loc);
    if (!map_body(&m))
        return false;
    n->g->b = here;
    for (unsigned k = 0; k < n->n_out; k++) {
        tw_onnx_content content = tw_onnx_content_of(n->im, m.out[k]);
        content.sequence = true;
        tw_onnx_set(n, k, tw_onnx_held(n->im, &content, tw_result(m.loop, k)));
    }
    return tw_gb_verify(n->g, m.loop);
}
