/* lanes.c: which lanes of vectors matter, where that is known from the IR alone: masks over ramps
 * of constants, as the last vector of a row has.
 *
 *   %r = ramp 0 : vec<16xindex>     where (7 - %r)     lanes 0..7
 *
 * What an operation computes in other lanes is free when all its uses end in stores of such masks:
 * the value that a masked load gives elsewhere is then not worth an instruction. */
#include "codegen/llvm/cg.h"

#include "base/checked.h"

#include <string.h>

/* Bounds of what is looked at for one answer. */
enum { MAX_DEPTH = 8, MAX_VALUES = 64 };

tw_cg_lanes_set tw_cg_all_lanes(unsigned lanes)
{
    tw_cg_lanes_set set = {{0}};
    for (unsigned i = 0; i < lanes; i++)
        set.words[i / 64] |= (uint64_t)1 << (i % 64);
    return set;
}

bool tw_cg_lanes_within(const tw_cg_lanes_set *inner, const tw_cg_lanes_set *outer)
{
    for (unsigned i = 0; i < TW_CG_MAX_LANES / 64; i++)
        if (inner->words[i] & ~outer->words[i])
            return false;
    return true;
}

/* ---- Constant masks ---- */

/* Value of lane i is base + i * step. */
typedef struct progression {
    int64_t base, step;
} progression;

static bool constant_progression(const tw_value *v, unsigned depth, progression *out);

/* A linear expression whose operands (from `first` on) are constant progressions. */
static bool constant_expr(const tw_op *op, unsigned first, tw_expr e, unsigned depth,
                          progression *out)
{
    int64_t coefficients[TW_MAX_EXPR_DIMS];
    unsigned n = tw_expr_dim_count(e);
    if (n > TW_MAX_EXPR_DIMS || !tw_expr_linear(e, coefficients, n, &out->base))
        return false;
    out->step = 0;
    for (unsigned i = 0; i < n; i++) {
        progression p;
        int64_t base, step;
        if (!coefficients[i])
            continue;
        if (!constant_progression(tw_operand(op, first + i), depth, &p) ||
            !tw_mul_i64(p.base, coefficients[i], &base) ||
            !tw_mul_i64(p.step, coefficients[i], &step) ||
            !tw_add_i64(out->base, base, &out->base) || !tw_add_i64(out->step, step, &out->step))
            return false;
    }
    return true;
}

static bool constant_progression(const tw_value *v, unsigned depth, progression *out)
{
    const tw_op *op = v->op;
    if (!op || depth == MAX_DEPTH)
        return false;
    switch (tw_loop_kind_of(op)) {
    case TW_LOOP_CONST:
        *out = (progression){tw_op_attr(op, "value")->u.integer, 0};
        return v->type->elem == TW_INDEX;
    case TW_LOOP_INDEX:
        return constant_expr(op, 0, tw_op_attr(op, "expr")->u.map.exprs[0], depth + 1, out);
    case TW_LOOP_RAMP:
        if (!constant_progression(tw_operand(op, 0), depth + 1, out))
            return false;
        out->step = 1;
        return true;
    default:
        return false;
    }
}

tw_cg_lanes_set tw_cg_possible_lanes(const tw_op *op, unsigned first, tw_attr set, unsigned lanes)
{
    tw_cg_lanes_set out = tw_cg_all_lanes(lanes);
    for (size_t i = 0; set && i < set->u.map.n; i++) {
        progression p;
        bool known = constant_expr(op, first, set->u.map.exprs[i], 0, &p);
        for (unsigned k = 0; known && k < lanes; k++) {
            int64_t at;
            known = tw_mul_i64(p.step, k, &at) && tw_add_i64(at, p.base, &at);
            if (known && at < 0)
                out.words[k / 64] &= ~((uint64_t)1 << (k % 64));
        }
    }
    return out;
}

bool tw_cg_mask_constant(LLVMValueRef mask, tw_cg_lanes_set *out)
{
    unsigned lanes = tw_cg_llvm_lanes(LLVMTypeOf(mask));
    *out = (tw_cg_lanes_set){{0}};
    for (unsigned i = 0; i < lanes; i++) {
        LLVMValueRef lane = LLVMIsConstant(mask) ? LLVMGetAggregateElement(mask, i) : NULL;
        if (!lane || !LLVMIsAConstantInt(lane))
            return false;
        out->words[i / 64] |= (uint64_t)LLVMConstIntGetZExtValue(lane) << (i % 64);
    }
    return true;
}

unsigned tw_cg_lanes_prefix(const tw_cg_lanes_set *set)
{
    unsigned n = 0;
    while (n < TW_CG_MAX_LANES && set->words[n / 64] >> (n % 64) & 1)
        n++;
    tw_cg_lanes_set first = tw_cg_all_lanes(n);
    return tw_cg_lanes_within(set, &first) ? n : 0;
}

/* ---- Demand ---- */

typedef struct demand {
    unsigned lanes;
    unsigned budget; /* values that may still be looked at */
    tw_cg_lanes_set found;
} demand;

/* Dividing integers by something that is no value would be undefined. */
static bool works_lane_by_lane(const tw_op *op)
{
    tw_loop_kind kind = tw_loop_kind_of(op);
    if ((kind == TW_LOOP_DIV || kind == TW_LOOP_REM || kind == TW_LOOP_MOD) &&
        !tw_elem_is_float(op->results[0].type->elem))
        return false;
    return (op->def->traits & TW_TRAIT_ELEMENTWISE) || kind == TW_LOOP_CMP ||
           kind == TW_LOOP_SELECT || kind == TW_LOOP_CAST || kind == TW_LOOP_BITCAST;
}

/* Adds the lanes that uses of v want; false: all, or too many to look at. */
static bool add_demand(demand *d, const tw_value *v, unsigned depth)
{
    if (!d->budget-- || depth == MAX_DEPTH)
        return false;
    for (const tw_use *use = v->uses; use; use = use->next) {
        tw_loop_access a;
        if (tw_is_loop(use->user, TW_LOOP_STORE) && use->index == 0) {
            tw_loop_get_access(use->user, &a);
            tw_cg_lanes_set stored =
                tw_cg_possible_lanes(use->user, a.first_index, a.where, d->lanes);
            for (unsigned i = 0; i < TW_CG_MAX_LANES / 64; i++)
                d->found.words[i] |= stored.words[i];
        } else if (!works_lane_by_lane(use->user) ||
                   !add_demand(d, &use->user->results[0], depth + 1)) {
            return false;
        }
    }
    return true;
}

bool tw_cg_only_lanes_matter(const tw_value *v, const tw_cg_lanes_set *lanes)
{
    demand d = {.lanes = tw_cg_lanes(v->type), .budget = MAX_VALUES};
    return add_demand(&d, v, 0) && tw_cg_lanes_within(&d.found, lanes);
}
