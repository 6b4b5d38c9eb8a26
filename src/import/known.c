/* known.c: access to known elements, and the folding of operations whose elements all are numbers.
 * How an operation computes is in known_eval.c. */
#include "import/known.h"

#include "import/known_eval.h"
#include "ir/elem_data.h"

static size_t limit_of(tw_elem elem)
{
    return tw_elem_is_float(elem) ? TW_KNOWN_MAX_REALS : TW_KNOWN_MAX_INTS;
}

bool tw_known_countable(const tw_gb *g, tw_type type, size_t *count)
{
    int64_t n;
    size_t most = g->followed < TW_KNOWN_MAX_TOTAL ? limit_of(type->elem) : TW_KNOWN_MAX_LATE;
    if (type->elem == TW_STRING || !tw_type_static_count(type, &n) || n < 0 || (size_t)n > most)
        return false;
    *count = (size_t)n;
    return true;
}

tw_num *tw_known_items(tw_gb *g, size_t n)
{
    g->followed += n;
    return TW_NEW_ARRAY(g->arena, tw_num, n);
}

tw_num tw_num_int(tw_gb *g, int64_t value)
{
    return (tw_num){.kind = TW_NUM_RATIO, .num = tw_expr_const(g->ctx, value), .den = 1};
}

tw_num tw_num_real(double value)
{
    return (tw_num){.kind = TW_NUM_REAL, .real = value};
}

static tw_num load(tw_gb *g, tw_elem elem, const void *data, size_t i)
{
    uint64_t bits = tw_elem_load(elem, data, i);
    if (tw_elem_is_float(elem))
        return tw_num_real(tw_elem_to_double(elem, bits));
    if (elem == TW_U64 && bits > INT64_MAX)
        return (tw_num){.kind = TW_NUM_UNKNOWN};
    return tw_num_int(g, elem == TW_BOOL ? (int64_t)bits : tw_elem_to_int(elem, bits));
}

static const tw_known *of_constant(tw_gb *g, const tw_value *value, tw_attr dense)
{
    size_t n;
    if (!tw_known_countable(g, value->type, &n))
        return NULL;
    tw_known *known = TW_NEW(g->arena, tw_known);
    *known = (tw_known){n, tw_known_items(g, n)};
    for (size_t i = 0; i < n; i++)
        known->items[i] = load(g, value->type->elem, dense->u.dense.data, i);
    tw_map_put_ptr(&g->known, value, known);
    return known;
}

const tw_known *tw_known_of(tw_gb *g, const tw_value *value)
{
    static const tw_known nothing = {0};
    int64_t count;
    if (tw_type_static_count(value->type, &count) && count == 0)
        return &nothing;
    const tw_known *known = tw_map_get_ptr(&g->known, value);
    tw_attr dense = known ? NULL : tw_graph_constant_value(value);
    return dense ? of_constant(g, value, dense) : known;
}

const tw_expr *tw_known_exprs(tw_gb *g, const tw_value *value, size_t *n)
{
    const tw_known *known = value ? tw_known_of(g, value) : NULL;
    if (!known)
        return NULL;
    tw_expr *out = TW_NEW_ARRAY(g->arena, tw_expr, known->n + 1);
    for (size_t i = 0; i < known->n; i++) {
        if (known->items[i].kind != TW_NUM_RATIO || known->items[i].den != 1)
            return NULL;
        out[i] = known->items[i].num;
    }
    *n = known->n;
    return out;
}

bool tw_known_expr(tw_gb *g, const tw_value *value, tw_expr *out)
{
    size_t n;
    const tw_expr *exprs = tw_known_exprs(g, value, &n);
    if (!exprs || n != 1)
        return false;
    *out = exprs[0];
    return true;
}

const int64_t *tw_known_ints(tw_gb *g, const tw_value *value, size_t *n)
{
    const tw_expr *exprs = tw_known_exprs(g, value, n);
    if (!exprs)
        return NULL;
    int64_t *out = TW_NEW_ARRAY(g->arena, int64_t, *n + 1);
    for (size_t i = 0; i < *n; i++)
        if (!tw_expr_as_const(exprs[i], &out[i]))
            return NULL;
    return out;
}

const double *tw_known_reals(tw_gb *g, const tw_value *value, size_t *n)
{
    const tw_known *known = value ? tw_known_of(g, value) : NULL;
    if (!known)
        return NULL;
    double *out = TW_NEW_ARRAY(g->arena, double, known->n + 1);
    for (size_t i = 0; i < known->n; i++) {
        const tw_num *x = &known->items[i];
        if (x->kind == TW_NUM_REAL)
            out[i] = x->real;
        else if (x->kind == TW_NUM_RATIO && tw_expr_is_const(x->num))
            out[i] = (double)x->num->value / (double)x->den;
        else
            return NULL;
    }
    *n = known->n;
    return out;
}

/* ---- Folding ---- */

/* Bits of the element, when it is a number. */
static bool number_bits(tw_elem elem, const tw_num *x, uint64_t *bits)
{
    if (x->kind == TW_NUM_REAL)
        *bits = tw_elem_from_double(elem, x->real);
    else if (x->kind == TW_NUM_RATIO && tw_expr_is_const(x->num) && !tw_elem_is_float(elem))
        *bits = (uint64_t)x->num->value;
    else
        return false;
    return true;
}

/* A constant with the known elements, or NULL when some are no numbers. */
static tw_value *materialise(tw_gb *g, tw_type type, const tw_known *known)
{
    size_t bytes;
    uint64_t bits;
    for (size_t i = 0; i < known->n; i++)
        if (!number_bits(type->elem, &known->items[i], &bits))
            return NULL;
    if (!tw_elem_bytes(type->elem, known->n, &bytes))
        return NULL;
    void *data = tw_context_alloc(g->ctx, bytes);
    for (size_t i = 0; i < known->n; i++)
        if (number_bits(type->elem, &known->items[i], &bits))
            tw_elem_store(type->elem, data, i, bits);
    return tw_gb_constant(g, type, data, bytes, NULL);
}

tw_value *tw_known_fold(tw_gb *g, tw_op *op)
{
    tw_value *result = tw_result(op, 0);
    tw_known known;
    if (!tw_known_eval(g, op, &known))
        return result;
    tw_known *kept = tw_arena_memdup(g->arena, &known, sizeof known);
    tw_value *constant = materialise(g, result->type, kept);
    if (constant) {
        tw_op_erase(op);
        result = constant;
    }
    tw_map_put_ptr(&g->known, result, kept);
    return result;
}
