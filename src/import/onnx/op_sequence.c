/* op_sequence.c: operators on sequences and optionals whose lengths are known while importing, at
 * positions that are known (bundle.c says what these are here); others go to sequence_runtime.c. */
#include "import/onnx/import.h"

/* ---- Positions ---- */

/* Whether input 0 and the position, input i, are known. */
static bool is_known(tw_onnx_node *n, unsigned i)
{
    tw_expr known;
    int64_t at;
    const tw_onnx_bundle *s = tw_onnx_as_bundle(n->in[0]);
    bool fixed = !tw_onnx_in(n, i) ||
                 (tw_known_expr(n->g, n->in[i], &known) && tw_expr_as_const(known, &at));
    return !s->handle && fixed;
}

/* Input i as a position in 0..most, negative ones counting from the end of `n` elements. */
static bool position(tw_onnx_node *n, unsigned i, size_t count, int64_t absent, int64_t most,
                     size_t *out)
{
    int64_t at = absent;
    tw_expr known;
    if (tw_onnx_in(n, i) && tw_known_expr(n->g, n->in[i], &known))
        tw_expr_as_const(known, &at);
    if (at < -(int64_t)count || at > most)
        return tw_onnx_error(n, "position %lld in a sequence of %zu elements", (long long)at,
                             count);
    *out = (size_t)(at < 0 ? at + (int64_t)count : at);
    return true;
}

/* A sequence of values; of none, of `content`. */
static bool set_sequence(tw_onnx_node *n, const tw_onnx_content *content, tw_value *const *items,
                         size_t count)
{
    return tw_onnx_set(n, 0,
                       count ? tw_onnx_bundle_of(n->im, false, items, count)
                             : tw_onnx_bundle_of_none(n->im, content));
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
    return tw_onnx_set(n, 0, tw_onnx_bundle_of(n->im, false, n->in, n->n_in));
}

bool tw_onnx_op_sequence_empty(tw_onnx_node *n)
{
    bool ok = true;
    tw_onnx_content content = {.sequence = true};
    int64_t type = tw_onnx_int(n, "dtype", ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, &ok);
    if (!ok)
        return false;
    if (type < 0 || type > INT32_MAX || !tw_onnx_elem((int32_t)type, &content.elem))
        return tw_onnx_error(n, "attribute 'dtype' is %lld, which is no type that is supported",
                             (long long)type);
    return tw_onnx_set(n, 0, tw_onnx_bundle_of_none(n->im, &content));
}

bool tw_onnx_op_sequence_insert(tw_onnx_node *n)
{
    const tw_onnx_bundle *s = tw_onnx_sequence(n, 0);
    size_t at;
    if (!s)
        return false;
    if (!is_known(n, 2))
        return tw_onnx_insert_runtime(n);
    if ((s->n && !same_elem(n, s->items[0], n->in[1])) ||
        !position(n, 2, s->n, (int64_t)s->n, (int64_t)s->n, &at))
        return false;
    tw_value **items = TW_NEW_ARRAY(n->im->arena, tw_value *, s->n + 1);
    for (size_t i = 0; i <= s->n; i++)
        items[i] = i == at ? n->in[1] : s->items[i - (i > at)];
    return set_sequence(n, NULL, items, s->n + 1);
}

bool tw_onnx_op_sequence_erase(tw_onnx_node *n)
{
    const tw_onnx_bundle *s = tw_onnx_sequence(n, 0);
    size_t at;
    if (!s)
        return false;
    if (!is_known(n, 1))
        return tw_onnx_erase_runtime(n);
    if (!position(n, 1, s->n, (int64_t)s->n - 1, (int64_t)s->n - 1, &at))
        return false;
    tw_value **items = TW_NEW_ARRAY(n->im->arena, tw_value *, s->n);
    for (size_t i = 0; i + 1 < s->n; i++)
        items[i] = s->items[i + (i >= at)];
    return set_sequence(n, &s->content, items, s->n - 1);
}

bool tw_onnx_op_sequence_at(tw_onnx_node *n)
{
    const tw_onnx_bundle *s = tw_onnx_sequence(n, 0);
    size_t at;
    if (!s)
        return false;
    if (is_known(n, 1))
        return position(n, 1, s->n, 0, (int64_t)s->n - 1, &at) && tw_onnx_set(n, 0, s->items[at]);
    tw_value *position = tw_onnx_index_scalar(n, 1);
    return position && tw_onnx_set(n, 0, tw_onnx_item_at(n, s, position));
}

bool tw_onnx_op_sequence_length(tw_onnx_node *n)
{
    const tw_onnx_bundle *s = tw_onnx_sequence(n, 0);
    return s &&
           tw_onnx_set(n, 0,
                       s->handle ? tw_onnx_length(n, s) : tw_gb_scalar(n->g, TW_I64, (double)s->n));
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

/* Whether the sizes of the parts are known, if they are given. */
static bool has_known_sizes(tw_onnx_node *n)
{
    size_t count = 0;
    const tw_expr *sizes = tw_onnx_in(n, 1) ? tw_known_exprs(n->g, n->in[1], &count) : NULL;
    for (size_t i = 0; i < count; i++)
        if (!tw_expr_is_const(sizes[i]))
            return false;
    return sizes || !tw_onnx_in(n, 1);
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
    if (!tw_expr_as_const(x->type->dims[axis], &size) || !has_known_sizes(n))
        return tw_onnx_split_runtime(n, axis, keep);
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
    tw_onnx_content content = tw_onnx_content_of(n->im, x);
    content.sequence = true;
    return set_sequence(n, &content, items, count);
}

bool tw_onnx_op_concat_from_sequence(tw_onnx_node *n)
{
    bool ok = true;
    unsigned axis;
    const tw_onnx_bundle *s = tw_onnx_sequence(n, 0);
    int64_t given = tw_onnx_int(n, "axis", 0, &ok), fresh = tw_onnx_int(n, "new_axis", 0, &ok);
    if (!s || !ok)
        return false;
    if (s->handle)
        return tw_onnx_join_runtime(n, given, fresh);
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

static bool has_handles(const tw_onnx_node *n)
{
    for (unsigned i = 0; i < n->n_in; i++)
        if (tw_onnx_as_bundle(n->in[i]) && tw_onnx_as_bundle(n->in[i])->handle)
            return true;
    return false;
}

/* What the body declares its output to be, as that of a sequence that holds none. */
static bool set_empty(tw_onnx_node *n, const Onnx__GraphProto *body)
{
    for (unsigned k = 0; k < n->n_out; k++) {
        tw_onnx_content content;
        if (!tw_onnx_declared_content(n->im, body->output[k]->type, body->output[k]->name,
                                      &content))
            return false;
        content.sequence = true;
        tw_onnx_set(n, k, tw_onnx_bundle_of_none(n->im, &content));
    }
    return true;
}

/* The body once for each element; what is no sequence goes to every one. */
static bool map_known(tw_onnx_node *n, const Onnx__GraphProto *body, size_t count)
{
    tw_value **in = TW_NEW_ARRAY(n->im->arena, tw_value *, n->n_in);
    tw_value **out = TW_NEW_ARRAY(n->im->arena, tw_value *, n->n_out);
    tw_value ***items = TW_NEW_ARRAY(n->im->arena, tw_value **, n->n_out);
    for (unsigned k = 0; k < n->n_out; k++)
        items[k] = TW_NEW_ARRAY(n->im->arena, tw_value *, count);
    for (size_t i = 0; i < count; i++) {
        for (unsigned k = 0; k < n->n_in; k++) {
            const tw_onnx_bundle *s = tw_onnx_as_bundle(n->in[k]);
            if (s && s->n != count)
                return tw_onnx_error(n, "sequences of %zu and %zu elements", count, s->n);
            in[k] = s ? s->items[i] : n->in[k];
        }
        if (!tw_onnx_inline_graph(n, body, in, n->n_in, out))
            return false;
        for (unsigned k = 0; k < n->n_out; k++)
            items[k][i] = out[k];
    }
    for (unsigned k = 0; k < n->n_out; k++)
        tw_onnx_set(n, k, tw_onnx_bundle_of(n->im, false, items[k], count));
    return true;
}

bool tw_onnx_op_sequence_map(tw_onnx_node *n)
{
    const Onnx__GraphProto *body = tw_onnx_graph(n, "body");
    const tw_onnx_bundle *first = tw_onnx_sequence(n, 0);
    if (!body || !first || !all_given(n))
        return false;
    if (body->n_output != n->n_out)
        return tw_onnx_error(n, "the body has %zu outputs; %u are needed", body->n_output,
                             n->n_out);
    for (unsigned i = 1; i < n->n_in; i++)
        if (tw_onnx_as_bundle(n->in[i]) && !tw_onnx_sequence(n, i))
            return false;
    if (has_handles(n))
        return tw_onnx_map_runtime(n, body);
    return first->n ? map_known(n, body, first->n) : set_empty(n, body);
}

/* ---- Optionals ---- */

/* Of nothing: the attribute says what there might have been. */
static tw_value *none_of_type(tw_onnx_node *n)
{
    tw_onnx_content content = {.elem = TW_ELEM_COUNT};
    const Onnx__AttributeProto *type = tw_onnx_attr(n, "type");
    if (type && !tw_onnx_declared_content(n->im, type->tp, "type", &content))
        return NULL;
    content.optional = true;
    return tw_onnx_bundle_of_none(n->im, &content);
}

bool tw_onnx_op_optional(tw_onnx_node *n)
{
    tw_value *x = tw_onnx_in(n, 0);
    const tw_onnx_bundle *b = x ? tw_onnx_as_bundle(x) : NULL;
    if (b && b->content.optional)
        return tw_onnx_error(n, "an optional of an optional");
    if (b && b->handle) {
        tw_onnx_content content = b->content;
        content.optional = true;
        return tw_onnx_set(n, 0, tw_onnx_held(n->im, &content, b->handle));
    }
    return tw_onnx_set(n, 0, x ? tw_onnx_bundle_of(n->im, true, &x, 1) : none_of_type(n));
}

bool tw_onnx_op_optional_has_element(tw_onnx_node *n)
{
    const tw_value *x = tw_onnx_in(n, 0);
    const tw_onnx_bundle *b = x ? tw_onnx_as_bundle(x) : NULL;
    if (b && b->content.optional && b->handle) {
        tw_value *none = tw_gb_scalar(n->g, TW_U64, 0);
        tw_value *absent = tw_gb_binary(n->g, TW_GRAPH_EQUAL, b->handle, none);
        return tw_onnx_set(n, 0, tw_gb_unary(n->g, TW_GRAPH_NOT, absent));
    }
    bool has = x && (!b || !b->content.optional || b->n);
    return tw_onnx_set(n, 0, tw_gb_scalar(n->g, TW_BOOL, has));
}

bool tw_onnx_op_optional_get_element(tw_onnx_node *n)
{
    const tw_onnx_bundle *b = tw_onnx_as_bundle(n->in[0]);
    if (!b || !b->content.optional)
        return tw_onnx_set(n, 0, n->in[0]);
    if (!b->handle)
        return b->n ? tw_onnx_set(n, 0, b->items[0])
                    : tw_onnx_error(n, "the optional holds nothing");
    if (!b->content.sequence)
        return tw_onnx_set(n, 0, tw_onnx_item_at(n, b, tw_onnx_number(n->g, 0)));
    tw_onnx_content content = b->content;
    tw_value *handle = b->handle;
    content.optional = false;
    return tw_onnx_set(
        n, 0,
        tw_onnx_held(n->im, &content, tw_onnx_handle_routine(n, "held", &handle, 1, NULL, 0)));
}
