/* prim_split.c: split and fuse.
 *
 *     for %i = 0 to 20 { block (%v = %i) }
 * split by [0, 6]:
 *     for %io = 0 to 4 { for %ii = 0 to 6 {
 *       block (%v = %io * 6 + %ii) where (19 - %io * 6 - %ii) } }
 *
 *     for %i = 0 to 4 { for %j = 0 to 5 { block (%v = %i, %w = %j) } }
 * fused:
 *     for %f = 0 to 20 { block (%v = %f floordiv 5, %w = %f mod 5) } */
#include "base/checked.h"
#include "schedule/schedule_impl.h"

enum { MAX_FACTORS = 8 };

/* What split makes of one loop. Expressions are over the old loop's operands. */
typedef struct split_plan {
    tw_op *loop;
    unsigned n;
    tw_expr factors[MAX_FACTORS];
    tw_expr extent;
    bool exact; /* no iterations beyond the extent */
} split_plan;

/* The factors as numbers of the step or as sizes that were sampled. */
static bool given_factors(const tw_step *step, int64_t *factors, unsigned n)
{
    unsigned sampled = step->op->n_operands - 1;
    tw_attr numbers = tw_op_attr(step->op, "factors");
    if (n < 1 || n > MAX_FACTORS || (numbers != NULL) == (sampled > 0) ||
        (numbers ? numbers->u.array.n : sampled) != n ||
        (numbers && tw_op_ints(step->op, "factors", factors, MAX_FACTORS) != (int)n))
        return tw_step_refuse(step, "there must be 1 to %d factors, one for each result",
                              MAX_FACTORS);
    for (unsigned i = 0; i < sampled; i++)
        factors[i] = step->sizes[i + 1];
    return true;
}

/* Reads the factors: the product of those given, and where the inferred one stands (or -1). */
static bool read_factors(const tw_step *step, int64_t *factors, int64_t *product, int *inferred)
{
    unsigned n = step->op->n_results;
    if (!given_factors(step, factors, n))
        return false;
    *product = 1;
    *inferred = -1;
    for (unsigned i = 0; i < n; i++) {
        if (factors[i] < 0 || (factors[i] == 0 && *inferred >= 0))
            return tw_step_refuse(step, "factors must be above 0, but for one that may be 0");
        if (factors[i] == 0)
            *inferred = (int)i;
        else if (!tw_mul_i64(*product, factors[i], product))
            return tw_step_refuse(step, "the factors' product is too large");
    }
    return true;
}

static bool plan_split(const tw_step *step, split_plan *plan)
{
    int64_t factors[MAX_FACTORS], product, extent;
    int inferred;
    plan->loop = step->operands[0];
    plan->n = step->op->n_results;
    plan->extent = tw_loop_extent(step->ctx, plan->loop);
    if (!tw_step_serial(step, plan->loop) || !tw_step_only_blocks(step, plan->loop) ||
        !read_factors(step, factors, &product, &inferred))
        return false;
    bool constant = tw_expr_as_const(plan->extent, &extent);
    if (inferred < 0 && (!constant || product < extent))
        return tw_step_refuse(step, "the factors' product %lld does not cover loop %%%s",
                              (long long)product, tw_loop_name(plan->loop));
    tw_expr p = tw_expr_const(step->ctx, product);
    tw_expr rest = tw_expr_binary(step->ctx, TW_EXPR_MOD, plan->extent, p);
    plan->exact = inferred < 0 ? product == extent : tw_expr_is_const(rest) && rest->value == 0;
    for (unsigned i = 0; i < plan->n; i++)
        plan->factors[i] = tw_expr_const(step->ctx, factors[i]);
    if (inferred >= 0)
        plan->factors[inferred] = tw_expr_binary(step->ctx, TW_EXPR_CEILDIV, plan->extent, p);
    for (unsigned i = 0; i < plan->n; i++)
        if (plan->factors[i]->kind == TW_EXPR_INVALID)
            return tw_step_refuse(step, "the factors' product is too large");
    return true;
}

/* io and ii for two, i_0, i_1 … for more. */
static const char *part_name(tw_context *ctx, const char *name, unsigned i, unsigned n)
{
    tw_arena *arena = tw_context_arena(ctx);
    if (n == 1)
        return name;
    return n == 2 ? tw_arena_printf(arena, "%s%c", name, i == 0 ? 'o' : 'i')
                  : tw_arena_printf(arena, "%s_%u", name, i);
}

static void loop_operands(const tw_op *loop, tw_value **out)
{
    for (unsigned i = 0; i < loop->n_operands; i++)
        out[i] = tw_operand(loop, i);
}

typedef struct condition {
    tw_context *ctx;
    tw_expr expr;
    tw_value **values;
    unsigned n;
} condition;

static void add_condition(tw_op *block, void *data)
{
    condition *c = data;
    tw_block_add_where(c->ctx, block, c->expr, c->values, c->n);
}

/* Makes the new loops around the old one's body; returns the variables, outermost first. */
static void make_loops(const tw_step *step, const split_plan *plan, tw_value **outer,
                       tw_value **vars)
{
    tw_builder b = tw_builder_before(step->ctx, plan->loop);
    for (unsigned i = 0; i < plan->n; i++) {
        tw_op *loop = tw_loop_for(&b, tw_expr_const(step->ctx, 0), plan->factors[i], outer,
                                  plan->loop->n_operands, NULL,
                                  part_name(step->ctx, tw_loop_name(plan->loop), i, plan->n));
        tw_index_compact(step->ctx, loop);
        step->results[i] = loop;
        vars[i] = tw_loop_var(loop);
        b = tw_builder_at_end(step->ctx, &loop->regions[0], plan->loop->loc);
    }
    tw_op_set_attr(step->results[0], "annotations", tw_op_attr(plan->loop, "annotations"));
    tw_region_splice(b.region, NULL, &plan->loop->regions[0]);
}

bool tw_do_split(const tw_step *step)
{
    split_plan plan;
    if (!plan_split(step, &plan))
        return false;
    /* Dimensions: the old loop's operands, then the new variables. */
    unsigned n_outer = plan.loop->n_operands, n = n_outer + plan.n;
    tw_value **values = TW_NEW_ARRAY(tw_context_arena(step->ctx), tw_value *, n);
    loop_operands(plan.loop, values);
    make_loops(step, &plan, values, values + n_outer);
    tw_expr index = tw_loop_lo(plan.loop), stride = tw_expr_const(step->ctx, 1);
    for (unsigned i = plan.n; i-- > 0;) {
        tw_expr part = tw_expr_mul(step->ctx, tw_expr_dim(step->ctx, n_outer + i), stride);
        index = tw_expr_add(step->ctx, index, part);
        stride = tw_expr_mul(step->ctx, stride, plan.factors[i]);
    }
    tw_index_subst subst = {tw_loop_var(plan.loop), index, values, n};
    tw_replace_vars(step->ctx, &subst, 1);
    if (!plan.exact) {
        tw_expr left = tw_expr_sub(step->ctx, tw_loop_hi(plan.loop), index);
        condition c = {step->ctx, tw_expr_addc(step->ctx, left, -1), values, n};
        tw_each_block(step->results[0], add_condition, &c);
    }
    tw_op_erase(plan.loop);
    return true;
}

/* ---- Fuse ---------------------------------------------------------------------------- */

/* A divisor: loops that never run must not divide by 0. */
static tw_expr at_least_one(tw_context *ctx, tw_expr extent)
{
    return tw_expr_is_const(extent) && extent->value < 1 ? tw_expr_const(ctx, 1) : extent;
}

static bool check_fuse(const tw_step *step)
{
    unsigned n = step->op->n_operands;
    for (unsigned i = 0; i < n; i++) {
        tw_op *loop = step->operands[i];
        if (!tw_step_serial(step, loop))
            return false;
        if (i + 1 < n && !tw_is_perfect(loop, step->operands[i + 1]))
            return tw_step_refuse(step, "loop %%%s is not all that the body of %%%s holds",
                                  tw_loop_name(step->operands[i + 1]), tw_loop_name(loop));
        for (unsigned k = 0; k < loop->n_operands; k++)
            for (unsigned j = 0; j < i; j++)
                if (tw_operand(loop, k) == tw_loop_var(step->operands[j]))
                    return tw_step_refuse(step, "the bounds of loop %%%s depend on %%%s",
                                          tw_loop_name(loop), tw_loop_name(step->operands[j]));
    }
    return true;
}

/* Bounds of the fused loops over one list of values, which ends with the new variable. */
typedef struct fuse_plan {
    tw_values values;
    tw_expr *lo, *extents;
    tw_expr total;
} fuse_plan;

static void plan_fuse(const tw_step *step, fuse_plan *plan)
{
    tw_context *ctx = step->ctx;
    unsigned n = step->op->n_operands;
    plan->lo = TW_NEW_ARRAY(tw_context_arena(ctx), tw_expr, n);
    plan->extents = TW_NEW_ARRAY(tw_context_arena(ctx), tw_expr, n);
    plan->total = tw_expr_const(ctx, 1);
    for (unsigned i = 0; i < n; i++) {
        tw_op *loop = step->operands[i];
        tw_expr dims[TW_MAX_EXPR_DIMS];
        for (unsigned k = 0; k < loop->n_operands; k++)
            dims[k] = tw_values_dim(ctx, &plan->values, tw_operand(loop, k));
        plan->lo[i] = tw_expr_substitute(ctx, tw_loop_lo(loop), dims, loop->n_operands);
        plan->extents[i] =
            tw_expr_substitute(ctx, tw_loop_extent(ctx, loop), dims, loop->n_operands);
        plan->total = tw_expr_mul(ctx, plan->total, plan->extents[i]);
    }
}

static const char *fused_name(const tw_step *step)
{
    const char *name = "";
    for (unsigned i = 0; i < step->op->n_operands; i++)
        name = tw_arena_printf(tw_context_arena(step->ctx), "%s%s%s", name, i ? "_" : "",
                               tw_loop_name(step->operands[i]));
    return name;
}

bool tw_do_fuse(const tw_step *step)
{
    tw_context *ctx = step->ctx;
    unsigned n = step->op->n_operands;
    if (!check_fuse(step))
        return false;
    fuse_plan plan = {.values = {.n = 0}};
    plan_fuse(step, &plan);
    if (plan.values.n >= TW_MAX_EXPR_DIMS || plan.total->kind == TW_EXPR_INVALID)
        return tw_step_refuse(step, "the loops' bounds are too large");
    tw_builder b = tw_builder_before(ctx, step->operands[0]);
    tw_op *fused = tw_loop_for(&b, tw_expr_const(ctx, 0), plan.total, plan.values.v, plan.values.n,
                               NULL, fused_name(step));
    tw_index_compact(ctx, fused);
    tw_region_splice(&fused->regions[0], NULL, &step->operands[n - 1]->regions[0]);
    tw_expr f = tw_values_dim(ctx, &plan.values, tw_loop_var(fused));
    tw_index_subst *substs = TW_NEW_ARRAY(tw_context_arena(ctx), tw_index_subst, n);
    tw_expr stride = tw_expr_const(ctx, 1);
    for (unsigned i = n; i-- > 0;) {
        tw_expr extent = at_least_one(ctx, plan.extents[i]);
        tw_expr part = tw_expr_binary(ctx, TW_EXPR_FLOORDIV, f, stride);
        if (i > 0)
            part = tw_expr_binary(ctx, TW_EXPR_MOD, part, extent);
        substs[i] =
            (tw_index_subst){tw_loop_var(step->operands[i]), tw_expr_add(ctx, plan.lo[i], part),
                             plan.values.v, plan.values.n};
        stride = tw_expr_mul(ctx, stride, extent);
    }
    tw_replace_vars(ctx, substs, n);
    tw_op_erase(step->operands[0]);
    step->results[0] = fused;
    return true;
}
