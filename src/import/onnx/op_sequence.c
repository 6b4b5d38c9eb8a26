/* op_sequence.c: operators on sequences and optionals (bundle.c says what these are here). Lengths
 * and positions must be known when the model is compiled. */
#include "import/onnx/import.h"

/* ---- Positions ---- */

/* Input i as a position in 0..most, negative ones counting from the end of `n` elements. */
static bool position(tw_onnx_node *n, unsigned i, size_t count, int64_t absent, int64_t most,
                     size_t *out)
{
    int64_t at = absent;
    tw_expr known;
    if (tw_onnx_in(n, i) &&
        (!tw_known_expr(n->g, n->in[i], &known) || !tw_expr_as_const(known, &at)))
        return tw_onnx_error(n,
                             "input %u ('%s') is a position in a sequence, so its value must be "
                             "known when the model is compiled",
                             i, n->proto->input[i]);
    if (at < -(int64_t)count || at > most)
        return tw_onnx_error(n, "position %lld in a sequence of %zu elements", (long long)at,
                             count);
    *out = (size_t)(at < 0 ? at + (int64_t)count : at);
    return true;
}

static bool set_bundle(tw_onnx_node *n, bool optional, tw_value *const *items, size_t count)
{
    return tw_onnx_set(n, 0, tw_onnx_bundle_of(n->im, optional, items, count));
}

/* ---- Sequences ---- */

/* Elements are tensors of one element type. */
static bool same_elem(tw_onnx_node *n, const tw_value *a, const tw_value *b)
{
    return (a->type->kind == TW_TYPE_TENSOR && b->type->kind == TW_TYPE_TENSOR &&
            a->type->elem == b->type->elem) ||
           tw_onnx_error(n, "a sequence of %s and %s; its elements must be tensors of one type",
                         tw_gb_type_text(n->g, a->type), tw_gb_type_text(n->g, b->type));
}

static bool all_given(tw_onnx_node *n)
{
    for (unsigned i = 0; i < n->n_in; i++)
        if (!n->in[i])
            return tw_onnx_error(n, "input %u is missing", i);
    return true;
}

bool tw_onnx_op_sequence_construct(tw_onnx_node *n)
{
    for (unsigned i = 0; i < n->n_in; i++)
        if (!n->in[i] ? !tw_onnx_error(n, "input %u is missing", i)
                      : !same_elem(n, n->in[0], n->in[i]))
            return false;
    return set_bundle(n, false, n->in, n->n_in);
}

bool tw_onnx_op_sequence_insert(tw_onnx_node *n)
{
    const tw_onnx_bundle *s = tw_onnx_sequence(n, 0);
    size_t at;
    if (!s || (s->n && !same_elem(n, s->items[0], n->in[1])) ||
        !position(n, 2, s->n, (int64_t)s->n, (int64_t)s->n, &at))
        return false;
    tw_value **items = TW_NEW_ARRAY(n->im->arena, tw_value *, s->n + 1);
    for (size_t i = 0; i <= s->n; i++)
        items[i] = i == at ? n->in[1] : s->items[i - (i > at)];
    return set_bundle(n, false, items, s->n + 1);
}

bool tw_onnx_op_sequence_erase(tw_onnx_node *n)
{
    const tw_onnx_bundle *s = tw_onnx_sequence(n, 0);
    size_t at;
    if (!s || !position(n, 1, s->n, (int64_t)s->n - 1, (int64_t)s->n - 1, &at))
        return false;
    tw_value **items = TW_NEW_ARRAY(n->im->arena, tw_value *, s->n);
    for (size_t i = 0; i + 1 < s->n; i++)
        items[i] = s->items[i + (i >= at)];
    return set_bundle(n, false, items, s->n - 1);
}

bool tw_onnx_op_sequence_at(tw_onnx_node *n)
{
    const tw_onnx_bundle *s = tw_onnx_sequence(n, 0);
    size_t at;
    return s && position(n, 1, s->n, 0, (int64_t)s->n - 1, &at) && tw_onnx_set(n, 0, s->items[at]);
}

bool tw_onnx_op_sequence_length(tw_onnx_node *n)
{
    const tw_onnx_bundle *s = tw_onnx_sequence(n, 0);
    return s && tw_onnx_set(n, 0, tw_gb_scalar(n->g, TW_I64, (double)s->n));
}

/* ---- Parts of a tensor ---- */

enum { MAX_PARTS = 1 << 16 };

/* Where to cut: lengths along the axis, *count of them; NULL with an error. */
static const int64_t *part_sizes(tw_onnx_node *n, int64_t size, size_t *count)
{
    size_t given = 1;
    const int64_t *split =
        tw_onnx_in(n, 1) ? tw_onnx_known_ints(n, 1, &given) : (const int64_t[]){1};
    if (!split)
        return NULL;
    if (tw_onnx_in(n, 1) && n->in[1]->type->rank) {
        int64_t sum = 0;
        for (size_t i = 0; i < given; i++)
            sum += split[i] < 0 || split[i] > size ? size + 1 : split[i];
        *count = given;
        return sum == size ? split
                           : tw_gb_error(n->g, "parts that do not add up to %lld", (long long)size);
    }
    if (*split < 1)
        return tw_gb_error(n->g, "parts of size %lld", (long long)*split);
    *count = (size_t)(size / *split + (size % *split != 0));
    if (*count > MAX_PARTS)
        return tw_gb_error(n->g, "%zu parts; at most %d are accepted", *count, MAX_PARTS);
    int64_t *sizes = TW_NEW_ARRAY(n->im->arena, int64_t, *count + 1);
    for (size_t i = 0; i < *count; i++)
        sizes[i] = *split < size - (int64_t)i * *split ? *split : size - (int64_t)i * *split;
    return sizes;
}

bool tw_onnx_op_split_to_sequence(tw_onnx_node *n)
{
    bool ok = true;
    unsigned axis;
    int64_t size, start = 0;
    size_t count;
    tw_value *x = n->in[0];
    int64_t given = tw_onnx_int(n, "axis", 0, &ok), keep = tw_onnx_int(n, "keepdims", 1, &ok);
    if (!ok || !tw_onnx_axis(n, given, x->type->rank, &axis))
        return false;
    if (!tw_expr_as_const(x->type->dims[axis], &size))
        return tw_onnx_error(n, "axis %u of %s must be known when the model is compiled", axis,
                             tw_gb_type_text(n->g, x->type));
    const int64_t *sizes = part_sizes(n, size, &count);
    if (!sizes)
        return false;
    tw_value **items = TW_NEW_ARRAY(n->im->arena, tw_value *, count);
    for (size_t i = 0; i < count; i++, start += sizes[i - 1]) {
        items[i] = tw_gb_slice_axis(n->g, x, axis, tw_gb_const(n->g, start), 1,
                                    tw_gb_const(n->g, sizes[i]));
        if (items[i] && !tw_onnx_in(n, 1) && !keep)
            items[i] = tw_gb_squeeze(n->g, items[i], UINT32_C(1) << axis);
        if (!items[i])
            return false;
    }
    return set_bundle(n, false, items, count);
}

bool tw_onnx_op_concat_from_sequence(tw_onnx_node *n)
{
    bool ok = true;
    unsigned axis;
    const tw_onnx_bundle *s = tw_onnx_sequence(n, 0);
    int64_t given = tw_onnx_int(n, "axis", 0, &ok), fresh = tw_onnx_int(n, "new_axis", 0, &ok);
    if (!s || !ok)
        return false;
    bool tensors = s->n > 0;
    for (size_t i = 0; i < s->n; i++)
        tensors = tensors && !tw_onnx_as_bundle(s->items[i]);
    if (!tensors)
        return tw_onnx_error(n, "a sequence without tensors");
    tw_value **items = TW_NEW_ARRAY(n->im->arena, tw_value *, s->n);
    if (!tw_onnx_axis(n, given, s->items[0]->type->rank + (fresh != 0), &axis))
        return false;
    for (size_t i = 0; i < s->n; i++)
        items[i] = fresh ? tw_gb_unsqueeze(n->g, s->items[i], UINT32_C(1) << axis) : s->items[i];
    return tw_onnx_set(n, 0, tw_gb_concat(n->g, items, (unsigned)s->n, axis));
}

/* ---- SequenceMap ---- */

/* The body once for each element; what is no sequence goes to every one. */
bool tw_onnx_op_sequence_map(tw_onnx_node *n)
{
    const Onnx__GraphProto *body = tw_onnx_graph(n, "body");
    const tw_onnx_bundle *first = tw_onnx_sequence(n, 0);
    if (!body || !first || !all_given(n))
        return false;
    if (body->n_output != n->n_out)
        return tw_onnx_error(n, "the body has %zu outputs; %u are needed", body->n_output,
                             n->n_out);
    tw_value **in = TW_NEW_ARRAY(n->im->arena, tw_value *, n->n_in);
    tw_value **out = TW_NEW_ARRAY(n->im->arena, tw_value *, n->n_out);
    tw_value ***items = TW_NEW_ARRAY(n->im->arena, tw_value **, n->n_out);
    for (unsigned k = 0; k < n->n_out; k++)
        items[k] = TW_NEW_ARRAY(n->im->arena, tw_value *, first->n);
    for (size_t i = 0; i < first->n; i++) {
        for (unsigned k = 0; k < n->n_in; k++) {
            const tw_onnx_bundle *s = tw_onnx_as_bundle(n->in[k]);
            if (s && s->n != first->n)
                return tw_onnx_error(n, "sequences of %zu and %zu elements", first->n, s->n);
            in[k] = s ? s->items[i] : n->in[k];
        }
        if (!tw_onnx_inline_graph(n, body, in, n->n_in, out))
            return false;
        for (unsigned k = 0; k < n->n_out; k++)
            items[k][i] = out[k];
    }
    for (unsigned k = 0; k < n->n_out; k++)
        n->out[k] = tw_onnx_bundle_of(n->im, false, items[k], first->n);
    return true;
}

/* ---- Optionals ---- */

bool tw_onnx_op_optional(tw_onnx_node *n)
{
    return set_bundle(n, true, n->in, n->n_in && n->in[0] ? 1 : 0);
}

bool tw_onnx_op_optional_has_element(tw_onnx_node *n)
{
    const tw_value *x = tw_onnx_in(n, 0);
    const tw_onnx_bundle *b = x ? tw_onnx_as_bundle(x) : NULL;
    bool has = x && (!b || !b->optional || b->n);
    return tw_onnx_set(n, 0, tw_gb_scalar(n->g, TW_BOOL, has));
}

bool tw_onnx_op_optional_get_element(tw_onnx_node *n)
{
    const tw_onnx_bundle *b = tw_onnx_as_bundle(n->in[0]);
    if (b && b->optional && !b->n)
        return tw_onnx_error(n, "the optional holds nothing");
    return tw_onnx_set(n, 0, b && b->optional ? b->items[0] : n->in[0]);
}
