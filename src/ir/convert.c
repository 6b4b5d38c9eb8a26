/* convert.c: dialect conversion: rewriting until nothing illegal is left.
 *
 * The rewriter works on a copy, which takes the place of the original when all went well. So a
 * failure leaves the very operations that the caller had. */
#include "ir/rewrite_impl.h"

typedef struct conversion {
    tw_legality (*legality)(const tw_op *op, void *data);
    void *data;
    const tw_op *root;
    tw_map left;                 /* definition -> number of illegal operations of it */
    TW_VEC(const tw_op *) first; /* the first of each definition */
} conversion;

static bool may_be_rewritten(const tw_op *op, void *data)
{
    const conversion *c = data;
    return c->legality(op, c->data) != TW_LEGAL;
}

static bool count_illegal(tw_op *op, void *data)
{
    conversion *c = data;
    if (op == c->root || c->legality(op, c->data) != TW_ILLEGAL)
        return true;
    size_t n = (size_t)tw_map_get_ptr(&c->left, op->def);
    if (!n)
        tw_vec_push(c->left.arena, &c->first, op);
    tw_map_put_ptr(&c->left, op->def, (void *)(n + 1));
    return true;
}

/* One error for each kind of operation that is left. */
static bool report_illegal(tw_context *ctx, const conversion *c)
{
    for (size_t i = 0; i < c->first.len; i++) {
        const tw_op *op = c->first.data[i];
        size_t n = (size_t)tw_map_get_ptr(&c->left, op->def);
        tw_error(ctx, op->loc,
                 "'%s' cannot be converted: no pattern applies to this and %zu other operations "
                 "of the name",
                 op->def->name, n - 1);
    }
    return c->first.len == 0;
}

static bool erase_inside(tw_op *op, void *data)
{
    if (op != data)
        for (unsigned i = 0; i < op->n_operands; i++)
            tw_op_set_operand(op, i, NULL);
    return true;
}

/* Gives root the regions and attributes of its converted copy. */
static void take_over(tw_op *root, tw_op *copy)
{
    tw_walk(root, erase_inside, root);
    root->attrs = copy->attrs;
    root->n_attrs = copy->n_attrs;
    for (unsigned i = 0; i < root->n_regions; i++) {
        tw_region *to = &root->regions[i], *from = &copy->regions[i];
        to->first = to->last = NULL;
        to->args = from->args;
        to->n_args = from->n_args;
        for (unsigned k = 0; k < to->n_args; k++)
            to->args[k]->region = to;
        tw_region_splice(to, NULL, from);
    }
    tw_op_erase(copy);
}

bool tw_convert(tw_context *ctx, tw_op *root, tw_legality (*legality)(const tw_op *op, void *data),
                void *data, const tw_pattern *patterns, size_t n)
{
    conversion c = {.legality = legality, .data = data, .left = tw_map_make(ctx->arena)};
    tw_op *copy = tw_op_clone(tw_cloner_create(ctx), root);
    c.root = copy;
    /* The copy stands nowhere, so it needs the original's place for symbols to be looked up. */
    if (root->region)
        tw_op_insert(copy, root->region, root);
    tw_rewrite_drive(ctx, copy, patterns, n, may_be_rewritten, &c, UINT64_MAX);
    tw_walk(copy, count_illegal, &c);
    tw_op_remove(copy);
    if (!report_illegal(ctx, &c)) {
        tw_op_erase(copy);
        return false;
    }
    take_over(root, copy);
    return true;
}
