/* build.c: making of graph operations: checks of types, constants, sizes. */
#include "import/build.h"

#include "base/checked.h"
#include "import/known.h"
#include "ir/elem_data.h"
#include "ir/scalar.h"

#include <stdarg.h>
#include <string.h>

tw_gb tw_gb_make(tw_context *ctx, tw_arena *arena, tw_region *region, int64_t max_bytes)
{
    return (tw_gb){.ctx = ctx,
                   .arena = arena,
                   .b = tw_builder_at_end(ctx, region, NULL),
                   .known = tw_map_make(arena),
                   .checked = tw_map_make(arena),
                   .common = tw_map_make(arena),
                   .max_bytes = max_bytes};
}

void *tw_gb_error(tw_gb *g, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    tw_error(g->ctx, g->b.loc, "%s", tw_arena_vprintf(g->arena, format, args));
    va_end(args);
    return NULL;
}

const char *tw_gb_type_text(tw_gb *g, tw_type type)
{
    const char *text = tw_elem_name(type->elem);
    for (unsigned i = 0; i < type->rank; i++)
        text = tw_arena_printf(g->arena, "%s%s%s", text, i ? "," : "[",
                               tw_print_expr(g->ctx, type->dims[i], NULL));
    return tw_arena_printf(g->arena, "%s%s", text, type->rank ? "]" : "[]");
}

bool tw_gb_check_type(tw_gb *g, tw_type type)
{
    int64_t bytes = (tw_elem_bits(type->elem) + 7) / 8;
    bool fits = true, empty = false;
    for (unsigned i = 0; i < type->rank; i++) {
        int64_t size;
        if (type->dims[i]->kind == TW_EXPR_INVALID)
            return tw_gb_error(g, "size %u of a tensor overflows or is not computable", i);
        if (!tw_expr_as_const(type->dims[i], &size))
            continue;
        if (size < 0)
            return tw_gb_error(g, "a tensor of negative size: %s", tw_gb_type_text(g, type));
        empty |= size == 0;
        fits = fits && (size == 0 || tw_mul_i64(bytes, size, &bytes));
    }
    if (empty || (fits && bytes <= g->max_bytes))
        return true;
    return tw_gb_error(g, "a tensor that is too large: %s takes more than %lld bytes",
                       tw_gb_type_text(g, type), (long long)g->max_bytes);
}

bool tw_gb_verify(tw_gb *g, tw_op *op)
{
    if (op->def->verify(g->ctx, op))
        return true;
    tw_op_erase(op);
    return false;
}

/* Sizes that come out negative are refused when the model runs. */
static bool check_sizes(tw_gb *g, tw_type type)
{
    for (unsigned i = 0; i < type->rank; i++)
        if (!tw_gb_check(g, type->dims[i], "the size '%s' of a tensor is negative",
                         tw_print_expr(g->ctx, type->dims[i], NULL)))
            return false;
    return true;
}

tw_value *tw_gb_emit(tw_gb *g, tw_graph_kind kind, tw_value *const *operands, unsigned n,
                     tw_type type, const tw_named_attr *attrs, unsigned n_attrs)
{
    for (unsigned i = 0; i < n; i++)
        if (!operands[i])
            return NULL;
    if (!type || !tw_gb_check_type(g, type) || !check_sizes(g, type))
        return NULL;
    tw_named_attr *present = TW_NEW_ARRAY(g->arena, tw_named_attr, n_attrs);
    unsigned n_present = 0;
    for (unsigned i = 0; i < n_attrs; i++)
        if (attrs[i].value)
            present[n_present++] = attrs[i];
    tw_op *op = tw_op_create(g->ctx, &tw_graph_ops[kind], g->b.loc, operands, n, &type, 1, present,
                             n_present, 0);
    tw_op_insert(op, g->b.region, g->b.before);
    return tw_gb_verify(g, op) ? tw_known_fold(g, op) : NULL;
}

/* ---- Constants ---- */

tw_value *tw_gb_constant(tw_gb *g, tw_type type, const void *data, size_t size, const char *name)
{
    return tw_graph_constant(&g->b, type, data, size, name);
}

tw_value *tw_gb_scalar(tw_gb *g, tw_elem elem, double value)
{
    uint64_t *bits = tw_context_alloc(g->ctx, sizeof *bits);
    bool exact = value >= -0x1p63 && value < 0x1p63; /* else saturate */
    tw_elem_store(elem, bits, 0,
                  tw_elem_is_float(elem) ? tw_elem_from_double(elem, value)
                  : exact                ? (uint64_t)(int64_t)value
                                         : (uint64_t)tw_scalar_truncate(elem, value));
    return tw_gb_constant(g, tw_type_tensor(g->ctx, elem, 0, NULL, NULL), bits,
                          (tw_elem_bits(elem) + 7) / 8, NULL);
}

tw_value *tw_gb_ints(tw_gb *g, const int64_t *values, size_t n)
{
    int64_t *data = tw_context_alloc(g->ctx, n * sizeof *data);
    if (n)
        memcpy(data, values, n * sizeof *data);
    return tw_gb_constant(g, tw_type_tensor_static(g->ctx, TW_I64, 1, (int64_t[]){(int64_t)n}),
                          data, n * sizeof *data, NULL);
}

tw_value *tw_gb_splat(tw_gb *g, tw_elem elem, double value, unsigned rank, const tw_expr *dims)
{
    return tw_gb_expand(g, tw_gb_scalar(g, elem, value), rank, dims);
}

/* ---- Sizes ---- */

tw_expr tw_gb_product(tw_gb *g, const tw_expr *dims, unsigned n)
{
    tw_expr product = tw_gb_const(g, 1);
    for (unsigned i = 0; i < n; i++)
        product = tw_expr_mul(g->ctx, product, dims[i]);
    return product;
}

tw_expr tw_gb_quotient(tw_gb *g, const tw_expr *total, unsigned n_total, const tw_expr *part,
                       unsigned n_part)
{
    tw_expr left[TW_MAX_RANK + 1], rest[TW_MAX_RANK + 1];
    unsigned n_left = 0, n_rest = 0;
    bool used[TW_MAX_RANK + 1] = {false};
    for (unsigned i = 0; i < n_part; i++) {
        unsigned j = 0;
        while (j < n_total && (used[j] || total[j] != part[i]))
            j++;
        if (j < n_total && !(tw_expr_is_const(part[i]) && part[i]->value == 0))
            used[j] = true;
        else
            rest[n_rest++] = part[i];
    }
    for (unsigned j = 0; j < n_total; j++)
        if (!used[j])
            left[n_left++] = total[j];
    tw_expr a = tw_gb_product(g, left, n_left), b = tw_gb_product(g, rest, n_rest);
    if (tw_expr_is_const(b) && b->value <= 0)
        return NULL;
    tw_expr q = tw_expr_binary(g->ctx, TW_EXPR_FLOORDIV, a, b);
    if (tw_expr_is_const(a) && tw_expr_is_const(b) && a->value % b->value != 0)
        return NULL;
    return q;
}

/* Whether a check of the expression stands in the region already; notes that one does. */
static bool is_checked(tw_gb *g, tw_expr e)
{
    const void *key[] = {g->b.region, e};
    if (tw_map_get(&g->checked, key, sizeof key))
        return true;
    tw_map_put(&g->checked, key, sizeof key, g);
    return false;
}

static bool check(tw_gb *g, const tw_expr *sets, unsigned n, const char *message)
{
    tw_expr kept[2];
    unsigned n_kept = 0;
    for (unsigned i = 0; i < n; i++) {
        if (sets[i]->kind == TW_EXPR_INVALID || tw_expr_range(sets[i], NULL, 0).hi < 0)
            return tw_gb_error(g, "%s", message);
        if (!tw_expr_at_least(g->ctx, sets[i], 0, NULL, 0) && !is_checked(g, sets[i]))
            kept[n_kept++] = sets[i];
    }
    if (n_kept)
        tw_build(&g->b, &tw_graph_ops[TW_GRAPH_CHECK], NULL, 0, NULL, 0, "sets",
                 tw_attr_map(g->ctx, 0, kept, n_kept), "message", tw_attr_string(g->ctx, message),
                 NULL);
    return true;
}

bool tw_gb_check(tw_gb *g, tw_expr e, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const char *message = tw_arena_vprintf(g->arena, format, args);
    va_end(args);
    return check(g, &e, 1, message);
}

bool tw_gb_check_equal(tw_gb *g, tw_expr a, tw_expr b, const char *what)
{
    if (tw_gb_same_size(g, a, b))
        return true;
    tw_expr sets[] = {tw_expr_sub(g->ctx, a, b), tw_expr_sub(g->ctx, b, a)};
    return check(g, sets, 2,
                 tw_arena_printf(g->arena, "%s: '%s' and '%s' are not equal", what,
                                 tw_print_expr(g->ctx, a, NULL), tw_print_expr(g->ctx, b, NULL)));
}

bool tw_gb_differ(tw_gb *g, tw_expr a, tw_expr b)
{
    if (a == b)
        return false;
    tw_range r = tw_expr_range(tw_expr_sub(g->ctx, a, b), NULL, 0);
    return r.lo > 0 || r.hi < 0;
}
