/* print_maps.c: expressions over an operation's operands, in which values stand for dimensions.
 *
 * A value can be several operands, operands may be unused, and their order decides how sums are
 * ordered, but the text shows values alone. So the dimensions are first renumbered as the parser
 * will number them: by appearance in the text, which may change the text, and so on until it stays:
 *
 *     (d1, d0 + d1) over %b, %a      %a, %b + %a   would come back as   %a, %a + %b
 *     (d0, d0 + d1) over %a, %b      %a, %a + %b */
#include "ir/print_impl.h"

enum { MAX_ROUNDS = 8 };

static void print_value_dim(tw_printer *p, unsigned index, const void *data)
{
    tw_p_value(p, ((tw_value *const *)data)[index]);
}

void tw_p_expr(tw_printer *p, tw_expr e, tw_value *const *values)
{
    tw_pr_expr(p, e, print_value_dim, values);
}

/* The dimensions met so far, in order. */
typedef struct appearance {
    unsigned *dims, n;
    bool *met;
    unsigned n_dims;
    bool good;
} appearance;

static void record_dim(tw_printer *p, unsigned index, const void *data)
{
    appearance *a = *(appearance *const *)data;
    (void)p;
    if (index >= a->n_dims) {
        a->good = false;
    } else if (!a->met[index]) {
        a->met[index] = true;
        a->dims[a->n++] = index;
    }
}

/* Prints to nowhere. */
static appearance find_appearance(tw_printer *p, unsigned n_dims, const tw_attr *maps,
                                  size_t n_maps)
{
    appearance a = {.n_dims = n_dims, .good = true}, *data = &a;
    a.dims = TW_NEW_ARRAY(p->arena, unsigned, n_dims + 1u);
    a.met = TW_NEW_ARRAY(p->arena, bool, n_dims + 1u);
    size_t start = p->out.len;
    for (size_t m = 0; m < n_maps; m++)
        for (size_t i = 0; maps[m] && i < maps[m]->u.map.n; i++)
            tw_pr_expr(p, maps[m]->u.map.exprs[i], record_dim, &data);
    p->out.len = start;
    return a;
}

/* Dimension i becomes replacement[i]; the maps are over n dimensions then. */
static void substitute(tw_printer *p, tw_attr *maps, size_t n_maps, const tw_expr *replacement,
                       unsigned n_old, unsigned n)
{
    for (size_t m = 0; m < n_maps; m++) {
        if (!maps[m])
            continue;
        size_t n_exprs = maps[m]->u.map.n;
        tw_expr *exprs = TW_NEW_ARRAY(p->arena, tw_expr, n_exprs);
        for (size_t i = 0; i < n_exprs; i++)
            exprs[i] = tw_expr_substitute(p->ctx, maps[m]->u.map.exprs[i], replacement, n_old);
        maps[m] = tw_attr_map(p->ctx, n, exprs, n_exprs);
    }
}

/* Gives each value one dimension: that of its first operand. */
static void join_equal_operands(tw_printer *p, const tw_op *op, unsigned first, unsigned n,
                                tw_attr *maps, size_t n_maps)
{
    tw_map seen = tw_map_make(p->arena);
    tw_expr *replacement = TW_NEW_ARRAY(p->arena, tw_expr, n);
    bool equal = false;
    for (unsigned i = 0; i < n; i++) {
        const tw_value *value = op->operands[first + i].value;
        replacement[i] = tw_map_get_ptr(&seen, value);
        equal = equal || replacement[i];
        if (!replacement[i])
            replacement[i] = tw_expr_dim(p->ctx, i);
        tw_map_put_ptr(&seen, value, (void *)replacement[i]);
    }
    if (equal)
        substitute(p, maps, n_maps, replacement, n, n);
}

bool tw_p_maps(tw_printer *p, const tw_op *op, unsigned first, unsigned n, tw_attr *maps,
               size_t n_maps, tw_value **values)
{
    for (size_t m = 0; m < n_maps; m++)
        for (size_t i = 0; maps[m] && i < maps[m]->u.map.n; i++)
            if (maps[m]->u.map.n_dims != n || !maps[m]->u.map.exprs[i])
                return false;
    join_equal_operands(p, op, first, n, maps, n_maps);
    tw_value **order = TW_NEW_ARRAY(p->arena, tw_value *, n + 1u); /* values of the dimensions */
    for (unsigned i = 0; i < n; i++)
        order[i] = op->operands[first + i].value;
    for (unsigned round = 0, n_dims = n; round < MAX_ROUNDS; round++) {
        appearance a = find_appearance(p, n_dims, maps, n_maps);
        bool stable = a.good && a.n == n_dims && a.n <= TW_MAX_EXPR_DIMS;
        if (!a.good || a.n > TW_MAX_EXPR_DIMS)
            return false;
        tw_value **next = TW_NEW_ARRAY(p->arena, tw_value *, a.n + 1u);
        tw_expr *replacement = TW_NEW_ARRAY(p->arena, tw_expr, n_dims + 1u);
        for (unsigned i = 0; i < a.n; i++) {
            stable = stable && a.dims[i] == i;
            next[i] = values[i] = order[a.dims[i]];
            replacement[a.dims[i]] = tw_expr_dim(p->ctx, i);
        }
        if (stable)
            return true;
        substitute(p, maps, n_maps, replacement, n_dims, a.n);
        order = next;
        n_dims = a.n;
    }
    return false;
}
