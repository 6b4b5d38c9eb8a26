/* op_ngrams.c: TfIdfVectorizer: how often each n-gram of a pool occurs. Strings are numbered by a
 * table, the pool's by their places in it, all others -1.
 *
 * An n-gram with skip s takes every (s + 1)th element. All places of a length and skip are compared
 * with all n-grams of that length at once:
 *     [batch, places, 1, n] == [n-grams, n]  ->  all, then summed over places: [batch, n-grams]
 * The counts go to the places in the result that `ngram_indexes` names by a gather. */
#include "import/onnx/import.h"

#include <string.h>

enum { MAX_LENGTH = 64, MAX_SKIPS = 1024 };

typedef struct ngrams {
    tw_onnx_node *n;
    tw_gb *g;
    const int64_t *pool, *starts, *places; /* n-grams of length k + 1 begin at starts[k] */
    const Onnx__AttributeProto *texts;     /* the pool, if it is of strings */
    size_t n_pool, n_starts, n_places;
    const float *weights;
    int64_t least, most, skips, width; /* width: of the result */
    tw_expr elements;                  /* of a row of the input */
    tw_value *x; /* [batch, elements and as many zeros as an n-gram may reach beyond] i64 */
} ngrams;

/* The pool as numbers: a string's is its last place, which is what a table gives for it. */
static void number_texts(ngrams *a)
{
    tw_arena *arena = a->n->im->arena;
    tw_map last = tw_map_make(arena);
    a->n_pool = a->texts->n_strings;
    int64_t *pool = TW_NEW_ARRAY(arena, int64_t, a->n_pool);
    for (size_t i = 0; i < a->n_pool; i++)
        tw_map_put(&last, a->texts->strings[i].data, a->texts->strings[i].len,
                   (void *)(uintptr_t)(i + 1));
    for (size_t i = 0; i < a->n_pool; i++)
        pool[i] = (int64_t)(uintptr_t)tw_map_get(&last, a->texts->strings[i].data,
                                                 a->texts->strings[i].len) -
                  1;
    a->pool = pool;
}

/* The input as i64: strings by their places in the pool. */
static tw_value *numbers(ngrams *a)
{
    tw_gb *g = a->g;
    tw_value *x = a->n->in[0], *out;
    if (!a->texts)
        return tw_gb_cast(g, x, TW_I64);
    int64_t *places = TW_NEW_ARRAY(g->arena, int64_t, a->n_pool);
    for (size_t i = 0; i < a->n_pool; i++)
        places[i] = (int64_t)i;
    tw_value *operands[4] = {x, tw_onnx_text_constant(a->n, a->texts->strings, a->n_pool, 1),
                             tw_gb_ints(g, places, a->n_pool), tw_gb_scalar(g, TW_I64, -1)};
    tw_onnx_result result = {TW_I64, x->type->rank, {NULL}};
    for (unsigned i = 0; i < x->type->rank; i++)
        result.dims[i] = x->type->dims[i];
    return tw_onnx_routine(a->n, "look_up", operands, 4, NULL, 0, &result, 1, &out) ? out : NULL;
}

static bool read_ngrams(ngrams *a)
{
    bool ok = true;
    tw_onnx_node *n = a->n;
    size_t n_weights;
    a->texts = tw_onnx_attr(n, "pool_strings");
    a->pool = tw_onnx_int_list(n, "pool_int64s", &a->n_pool, &ok);
    a->starts = tw_onnx_int_list(n, "ngram_counts", &a->n_starts, &ok);
    a->places = tw_onnx_int_list(n, "ngram_indexes", &a->n_places, &ok);
    a->weights = tw_onnx_float_list(n, "weights", &n_weights, &ok);
    a->least = tw_onnx_int(n, "min_gram_length", 1, &ok);
    a->most = tw_onnx_int(n, "max_gram_length", 1, &ok);
    a->skips = tw_onnx_int(n, "max_skip_count", 0, &ok);
    if (a->texts && !a->texts->n_strings)
        a->texts = NULL;
    if (!ok || !tw_onnx_check_elem(n, 0, a->texts ? 1 << TW_STRING : TW_ONNX_INDICES))
        return false;
    if (a->texts)
        number_texts(a);
    if (a->least < 1 || a->most < a->least || a->most > MAX_LENGTH || a->skips < 0 ||
        a->skips > MAX_SKIPS || (a->weights && n_weights != a->n_places))
        return tw_onnx_error(n, "lengths %lld to %lld, %lld skips, %zu weights for %zu n-grams",
                             (long long)a->least, (long long)a->most, (long long)a->skips,
                             n_weights, a->n_places);
    for (size_t i = 0; i < a->n_places; i++) {
        if (a->places[i] < 0 || a->places[i] > INT32_MAX)
            return tw_onnx_error(n, "attribute 'ngram_indexes' has the entry %lld",
                                 (long long)a->places[i]);
        a->width = a->places[i] >= a->width ? a->places[i] + 1 : a->width;
    }
    return true;
}

/* The part of the pool with n-grams of a length, and the number of the first of them. */
static bool part_of_pool(ngrams *a, int64_t length, int64_t *start, int64_t *count, int64_t *first)
{
    *first = 0;
    for (int64_t k = 1; k <= length; k++) {
        size_t i = (size_t)k - 1;
        *start = i < a->n_starts ? a->starts[i] : (int64_t)a->n_pool;
        int64_t end = i + 1 < a->n_starts ? a->starts[i + 1] : (int64_t)a->n_pool;
        if (*start < 0 || end < *start || end > (int64_t)a->n_pool || (end - *start) % k)
            return tw_onnx_error(a->n, "attribute 'ngram_counts' does not fit a pool of %zu",
                                 a->n_pool);
        *count = (end - *start) / k;
        *first += k < length ? *count : 0;
    }
    return *first + *count <= (int64_t)a->n_places ||
           tw_onnx_error(a->n, "attribute 'ngram_indexes' has %zu entries", a->n_places);
}

/* 1 for places that have `reach` elements behind them, else 0: [elements, 1] i32. */
static tw_value *begins_within(ngrams *a, int64_t reach)
{
    tw_gb *g = a->g;
    tw_expr dims[2] = {a->elements, tw_gb_const(g, 1)};
    tw_value *end =
        tw_gb_binary(g, TW_GRAPH_ADD, tw_gb_iota(g, TW_I64, 2, dims, 0), tw_onnx_number(g, reach));
    return tw_gb_cast(g, tw_gb_binary(g, TW_GRAPH_LESS, end, tw_onnx_size_value(g, a->elements)),
                      TW_I32);
}

/* How often each of `count` n-grams occurs with a skip, [batch, count] f32. */
static tw_value *occurrences(ngrams *a, tw_value *grams, int64_t length, int64_t skip)
{
    tw_gb *g = a->g;
    int64_t reach = (length - 1) * (skip + 1);
    tw_value **parts = TW_NEW_ARRAY(a->n->im->arena, tw_value *, (size_t)length);
    for (int64_t i = 0; i < length; i++) {
        tw_value *own =
            tw_gb_slice_axis(g, a->x, 1, tw_gb_const(g, i * (skip + 1)), 1, a->elements);
        parts[i] = tw_gb_unsqueeze(g, own, 12);
    }
    tw_value *found = tw_gb_concat(g, parts, (unsigned)length, 3);
    found = tw_gb_cast(g, tw_gb_binary(g, TW_GRAPH_EQUAL, found, grams), TW_I32);
    found = tw_gb_reduce(g, TW_GRAPH_REDUCE_MIN, found, 8, false);
    if (reach) /* what does not end within the row is none */
        found = tw_gb_binary(g, TW_GRAPH_MUL, found, begins_within(a, reach));
    return tw_gb_cast(g, tw_gb_reduce(g, TW_GRAPH_REDUCE_SUM, found, 2, false), TW_F32);
}

/* Counts of all n-grams of a length over all skips; NULL when there are none. */
static tw_value *counts_of(ngrams *a, int64_t length, int64_t start, int64_t count)
{
    tw_gb *g = a->g;
    int64_t *data = tw_context_alloc(a->n->ctx, (size_t)(count * length) * sizeof *data);
    memcpy(data, a->pool + start, (size_t)(count * length) * sizeof *data);
    tw_type type = tw_type_tensor_static(a->n->ctx, TW_I64, 2, (int64_t[]){count, length});
    tw_value *grams = tw_gb_constant(g, type, data, (size_t)(count * length) * sizeof *data, NULL);
    tw_value *sum = NULL;
    /* Skips make no difference to single elements. */
    int64_t elements;
    bool known = tw_expr_as_const(a->elements, &elements);
    for (int64_t skip = 0; skip <= (length == 1 ? 0 : a->skips); skip++) {
        if (known && (length - 1) * (skip + 1) >= elements)
            break;
        tw_value *own = occurrences(a, grams, length, skip);
        sum = sum ? tw_gb_binary(g, TW_GRAPH_ADD, sum, own) : own;
        if (!sum)
            return NULL;
    }
    return sum ? sum
               : tw_gb_splat(g, TW_F32, 0, 2,
                             (tw_expr[]){a->x->type->dims[0], tw_gb_const(g, count)});
}

/* Counts, [batch, all n-grams], as the mode has them. */
static tw_value *weighted(ngrams *a, tw_value *counts, const char *mode)
{
    tw_gb *g = a->g;
    if (!strcmp(mode, "IDF"))
        counts = tw_gb_binary_scalar(g, TW_GRAPH_MIN, counts, 1);
    if (!strcmp(mode, "TF") || !a->weights)
        return counts;
    size_t size = a->n_places * sizeof(float);
    float *data = tw_context_alloc(a->n->ctx, size);
    memcpy(data, a->weights, size);
    tw_type type = tw_type_tensor_static(a->n->ctx, TW_F32, 1, (int64_t[]){(int64_t)a->n_places});
    return tw_gb_binary(g, TW_GRAPH_MUL, counts, tw_gb_constant(g, type, data, size, NULL));
}

/* [batch, all n-grams] to [batch, width]: column places[i] is n-gram i, the others are 0. */
static tw_value *placed(ngrams *a, tw_value *counts)
{
    tw_gb *g = a->g;
    int64_t *from = TW_NEW_ARRAY(a->n->im->arena, int64_t, (size_t)a->width + 1);
    for (int64_t i = 0; i < a->width; i++)
        from[i] = (int64_t)a->n_places;
    for (size_t i = 0; i < a->n_places; i++)
        from[a->places[i]] = (int64_t)i;
    tw_expr zero = tw_gb_const(g, 0);
    counts = tw_gb_pad(g, counts, (tw_expr[]){zero, zero}, (tw_expr[]){zero, tw_gb_const(g, 1)},
                       "constant", NULL);
    return tw_gb_gather(g, counts, tw_gb_ints(g, from, (size_t)a->width), 1);
}

bool tw_onnx_op_tf_idf_vectorizer(tw_onnx_node *n)
{
    bool ok = true;
    ngrams a = {.n = n, .g = n->g};
    tw_gb *g = n->g;
    const char *mode = tw_onnx_string(n, "mode", "", &ok);
    tw_type type = n->in[0]->type;
    if (!ok || !read_ngrams(&a))
        return false;
    if (strcmp(mode, "TF") && strcmp(mode, "IDF") && strcmp(mode, "TFIDF"))
        return tw_onnx_error(n, "attribute 'mode' is '%s'; accepted are TF, IDF, TFIDF", mode);
    if (type->rank < 1 || type->rank > 2)
        return tw_onnx_error(n, "input %s; rank 1 or 2 is needed", tw_gb_type_text(g, type));
    a.elements = type->dims[type->rank - 1];
    a.x = numbers(&a);
    if (type->rank == 1)
        a.x = tw_gb_unsqueeze(g, a.x, 1);
    tw_expr zero = tw_gb_const(g, 0), reach = tw_gb_const(g, (a.most - 1) * (a.skips + 1));
    a.x = tw_gb_pad(g, a.x, (tw_expr[]){zero, zero}, (tw_expr[]){zero, reach}, "constant", NULL);
    int64_t lengths = (int64_t)a.n_starts > a.most ? (int64_t)a.n_starts : a.most;
    tw_value **parts = TW_NEW_ARRAY(n->im->arena, tw_value *, (size_t)lengths + 1);
    unsigned n_parts = 0;
    int64_t covered = 0;
    if (lengths > MAX_LENGTH)
        return tw_onnx_error(n, "n-grams of %lld elements", (long long)lengths);
    for (int64_t length = 1; a.x && length <= lengths; length++) {
        int64_t start, count, first;
        if (!part_of_pool(&a, length, &start, &count, &first))
            return false;
        covered = first + count;
        tw_expr dims[2] = {a.x->type->dims[0], tw_gb_const(g, count)};
        if (count)
            parts[n_parts++] = length < a.least || length > a.most
                                   ? tw_gb_splat(g, TW_F32, 0, 2, dims)
                                   : counts_of(&a, length, start, count);
    }
    if (!a.x || covered != (int64_t)a.n_places || n_parts == 0)
        return a.x &&
               tw_onnx_error(n, "%zu indices for %lld n-grams", a.n_places, (long long)covered);
    tw_value *y = placed(&a, weighted(&a, tw_gb_concat(g, parts, n_parts, 1), mode));
    return tw_onnx_set(n, 0, type->rank == 1 ? tw_gb_squeeze(g, y, 1) : y);
}
