/* arith.c: operations on register values. Each has a form for floating point, one for integers, or
 * both, named in one table.
 *
 * Floats narrower than f32 are computed in f32 (f16 natively where the target can) and rounded
 * after each operation. Integers below 8 bits are computed in 8 and cut. Integer division never
 * traps. */
#include "codegen/llvm/cg.h"

#include <string.h>

/* One operation being computed; a, b, c have one type. */
typedef struct args {
    tw_cg *cg;
    LLVMBuilderRef build;
    const tw_op *op;
    tw_loop_kind kind;
    tw_elem elem;
    bool is_signed;
    LLVMTypeRef type;
    LLVMValueRef a, b, c;
} args;
typedef LLVMValueRef (*emit_fn)(args *x);

static LLVMValueRef zero(const args *x)
{
    return LLVMConstNull(x->type);
}

static LLVMValueRef all_ones(const args *x)
{
    return LLVMConstAllOnes(x->type);
}

static LLVMValueRef is_zero(const args *x, LLVMValueRef v)
{
    return LLVMBuildICmp(x->build, LLVMIntEQ, v, zero(x), "");
}

static LLVMValueRef pick(const args *x, LLVMValueRef condition, LLVMValueRef a, LLVMValueRef b)
{
    return LLVMBuildSelect(x->build, condition, a, b, "");
}

/* ---- Floating point ---- */

static LLVMValueRef real_neg(args *x)
{
    return LLVMBuildFNeg(x->build, x->a, "");
}
static LLVMValueRef real_abs(args *x)
{
    return tw_cg_intrinsic1(x->cg, "llvm.fabs", x->a);
}
static LLVMValueRef real_sqrt(args *x)
{
    return tw_cg_intrinsic1(x->cg, "llvm.sqrt", x->a);
}
static LLVMValueRef real_floor(args *x)
{
    return tw_cg_intrinsic1(x->cg, "llvm.floor", x->a);
}
static LLVMValueRef real_ceil(args *x)
{
    return tw_cg_intrinsic1(x->cg, "llvm.ceil", x->a);
}
static LLVMValueRef real_round(args *x)
{
    return tw_cg_intrinsic1(x->cg, "llvm.roundeven", x->a);
}
static LLVMValueRef real_add(args *x)
{
    return LLVMBuildFAdd(x->build, x->a, x->b, "");
}
static LLVMValueRef real_sub(args *x)
{
    return LLVMBuildFSub(x->build, x->a, x->b, "");
}
static LLVMValueRef real_mul(args *x)
{
    return LLVMBuildFMul(x->build, x->a, x->b, "");
}
static LLVMValueRef real_div(args *x)
{
    return LLVMBuildFDiv(x->build, x->a, x->b, "");
}

static LLVMValueRef real_math(args *x)
{
    return tw_cg_math(x->cg, x->op, x->kind, x->a, x->b);
}

/* a - b * trunc(a / b), exactly: the host's fmod. */
static LLVMValueRef real_rem(args *x)
{
    return tw_cg_math(x->cg, x->op, TW_LOOP_REM, x->a, x->b);
}

static LLVMValueRef real_mod(args *x)
{
    LLVMValueRef r = real_rem(x), none = zero(x);
    LLVMValueRef rest = LLVMBuildFCmp(x->build, LLVMRealUNE, r, none, "");
    LLVMValueRef r_below = LLVMBuildFCmp(x->build, LLVMRealOLT, r, none, "");
    LLVMValueRef b_below = LLVMBuildFCmp(x->build, LLVMRealOLT, x->b, none, "");
    LLVMValueRef differ = LLVMBuildXor(x->build, r_below, b_below, "");
    LLVMValueRef adjust = LLVMBuildAnd(x->build, rest, differ, "");
    return pick(x, adjust, LLVMBuildFAdd(x->build, r, x->b, ""), r);
}

bool tw_cg_is_number(LLVMValueRef v)
{
    if (tw_cg_llvm_lanes(LLVMTypeOf(v)) && LLVMIsConstant(v))
        v = LLVMGetAggregateElement(v, 0);
    LLVMBool loses;
    if (!v || !LLVMIsAConstantFP(v))
        return false;
    double number = LLVMConstRealGetDouble(v, &loses);
    return number == number;
}

/* x > y ? x : y is one maxps, which gives y when either is NaN. A constant that is no NaN stands
 * first, and nothing else is needed; otherwise x is taken when it is NaN. */
static LLVMValueRef real_extreme(args *x, LLVMRealPredicate better, const char *native)
{
    if (x->cg->target->arch == TW_ARCH_AARCH64)
        return tw_cg_intrinsic2(x->cg, native, x->a, x->b);
    LLVMValueRef a = x->a, b = x->b;
    if (tw_cg_is_number(b)) {
        a = x->b;
        b = x->a;
    }
    LLVMValueRef best = pick(x, LLVMBuildFCmp(x->build, better, a, b, ""), a, b);
    if (tw_cg_is_number(a))
        return best;
    return pick(x, LLVMBuildFCmp(x->build, LLVMRealUNO, a, a, ""), a, best);
}

static LLVMValueRef real_max(args *x)
{
    return real_extreme(x, LLVMRealOGT, "llvm.maximum");
}
static LLVMValueRef real_min(args *x)
{
    return real_extreme(x, LLVMRealOLT, "llvm.minimum");
}

static LLVMValueRef real_fma(args *x)
{
    if (!x->cg->target->fma && !x->cg->options->precise)
        return LLVMBuildFAdd(x->build, LLVMBuildFMul(x->build, x->a, x->b, ""), x->c, "");
    return tw_cg_intrinsic(x->cg, "llvm.fma", &x->type, 1, (LLVMValueRef[]){x->a, x->b, x->c}, 3);
}

LLVMValueRef tw_cg_muladd(tw_cg *cg, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c)
{
    if (!cg->target->fma)
        return LLVMBuildFAdd(cg->b, LLVMBuildFMul(cg->b, a, b, ""), c, "");
    LLVMTypeRef type = LLVMTypeOf(a);
    return tw_cg_intrinsic(cg, "llvm.fma", &type, 1, (LLVMValueRef[]){a, b, c}, 3);
}

/* ---- Integers ---- */

static LLVMValueRef int_neg(args *x)
{
    return LLVMBuildNeg(x->build, x->a, "");
}
static LLVMValueRef int_not(args *x)
{
    return LLVMBuildNot(x->build, x->a, "");
}
static LLVMValueRef int_add(args *x)
{
    return LLVMBuildAdd(x->build, x->a, x->b, "");
}
static LLVMValueRef int_sub(args *x)
{
    return LLVMBuildSub(x->build, x->a, x->b, "");
}
static LLVMValueRef int_mul(args *x)
{
    return LLVMBuildMul(x->build, x->a, x->b, "");
}
static LLVMValueRef int_and(args *x)
{
    return LLVMBuildAnd(x->build, x->a, x->b, "");
}
static LLVMValueRef int_or(args *x)
{
    return LLVMBuildOr(x->build, x->a, x->b, "");
}
static LLVMValueRef int_xor(args *x)
{
    return LLVMBuildXor(x->build, x->a, x->b, "");
}
static LLVMValueRef same(args *x)
{
    return x->a;
}

static LLVMValueRef int_abs(args *x)
{
    if (!x->is_signed)
        return x->a;
    LLVMValueRef may_overflow = LLVMConstInt(x->cg->i1, 0, false);
    return tw_cg_intrinsic(x->cg, "llvm.abs", &x->type, 1, (LLVMValueRef[]){x->a, may_overflow}, 2);
}

static LLVMValueRef int_fma(args *x)
{
    return LLVMBuildAdd(x->build, LLVMBuildMul(x->build, x->a, x->b, ""), x->c, "");
}

static LLVMValueRef int_max(args *x)
{
    return tw_cg_intrinsic2(x->cg, x->is_signed ? "llvm.smax" : "llvm.umax", x->a, x->b);
}

static LLVMValueRef int_min(args *x)
{
    return tw_cg_intrinsic2(x->cg, x->is_signed ? "llvm.smin" : "llvm.umin", x->a, x->b);
}

/* The divisor with 0 (and, for signed types, -1) replaced by 1, which no division traps on. */
static LLVMValueRef safe_divisor(args *x)
{
    LLVMValueRef one = tw_cg_int(x->type, 1), unsafe = is_zero(x, x->b);
    if (x->is_signed) {
        LLVMValueRef minus = LLVMBuildICmp(x->build, LLVMIntEQ, x->b, all_ones(x), "");
        unsafe = LLVMBuildOr(x->build, unsafe, minus, "");
    }
    return pick(x, unsafe, one, x->b);
}

static LLVMValueRef int_div(args *x)
{
    LLVMValueRef divisor = safe_divisor(x), quotient;
    if (!x->is_signed) {
        quotient = LLVMBuildUDiv(x->build, x->a, divisor, "");
    } else {
        LLVMValueRef minus = LLVMBuildICmp(x->build, LLVMIntEQ, x->b, all_ones(x), "");
        quotient = pick(x, minus, LLVMBuildNeg(x->build, x->a, ""),
                        LLVMBuildSDiv(x->build, x->a, divisor, ""));
    }
    return pick(x, is_zero(x, x->b), zero(x), quotient);
}

/* By 0, 1 and -1 alike the rest is 0. */
static LLVMValueRef int_rem(args *x)
{
    LLVMValueRef divisor = safe_divisor(x);
    return x->is_signed ? LLVMBuildSRem(x->build, x->a, divisor, "")
                        : LLVMBuildURem(x->build, x->a, divisor, "");
}

static LLVMValueRef int_mod(args *x)
{
    LLVMValueRef r = int_rem(x);
    if (!x->is_signed)
        return r;
    LLVMValueRef rest = LLVMBuildNot(x->build, is_zero(x, r), "");
    LLVMValueRef signs = LLVMBuildXor(x->build, r, x->b, "");
    LLVMValueRef differ = LLVMBuildICmp(x->build, LLVMIntSLT, signs, zero(x), "");
    LLVMValueRef adjust = LLVMBuildAnd(x->build, rest, differ, "");
    return pick(x, adjust, LLVMBuildAdd(x->build, r, x->b, ""), r);
}

/* Integers below 8 bits are computed in 8. */
static bool is_narrow(tw_elem elem)
{
    return tw_elem_is_int(elem) && tw_elem_bits(elem) < 8;
}

/* Counts of shifts are unsigned; none below the width shifts everything out. */
static LLVMValueRef width(const args *x)
{
    unsigned bits = LLVMGetIntTypeWidth(tw_cg_scalar(x->type));
    return tw_cg_int(x->type, is_narrow(x->elem) ? tw_elem_bits(x->elem) : bits);
}

static LLVMValueRef int_shl(args *x)
{
    LLVMValueRef fits = LLVMBuildICmp(x->build, LLVMIntULT, x->b, width(x), "");
    LLVMValueRef count = pick(x, fits, x->b, zero(x));
    return pick(x, fits, LLVMBuildShl(x->build, x->a, count, ""), zero(x));
}

static LLVMValueRef int_shr(args *x)
{
    LLVMValueRef fits = LLVMBuildICmp(x->build, LLVMIntULT, x->b, width(x), "");
    LLVMValueRef last = LLVMBuildSub(x->build, width(x), tw_cg_int(x->type, 1), "");
    if (x->is_signed) /* the sign in all bits */
        return LLVMBuildAShr(x->build, x->a, pick(x, fits, x->b, last), "");
    LLVMValueRef count = pick(x, fits, x->b, zero(x));
    return pick(x, fits, LLVMBuildLShr(x->build, x->a, count, ""), zero(x));
}

LLVMValueRef tw_cg_int_pow(tw_cg *cg, LLVMValueRef a, LLVMValueRef b, bool is_signed)
{
    LLVMTypeRef type = LLVMTypeOf(a);
    unsigned bits = LLVMGetIntTypeWidth(tw_cg_scalar(type));
    LLVMValueRef none = LLVMConstNull(type), one = tw_cg_int(type, 1), out = one, base = a;
    for (unsigned i = 0; i < bits; i++) {
        LLVMValueRef bit = LLVMBuildAnd(cg->b, b, tw_cg_int(type, (int64_t)1 << i), "");
        LLVMValueRef set = LLVMBuildICmp(cg->b, LLVMIntNE, bit, none, "");
        out = LLVMBuildSelect(cg->b, set, LLVMBuildMul(cg->b, out, base, ""), out, "");
        base = LLVMBuildMul(cg->b, base, base, "");
    }
    if (!is_signed)
        return out;
    /* With a negative power the bits are those of its two's complement: for bases 1 and -1 the
     * product is right all the same, for others it is 0. */
    LLVMValueRef unit =
        LLVMBuildOr(cg->b, LLVMBuildICmp(cg->b, LLVMIntEQ, a, one, ""),
                    LLVMBuildICmp(cg->b, LLVMIntEQ, a, LLVMConstAllOnes(type), ""), "");
    LLVMValueRef keep = LLVMBuildOr(cg->b, unit, LLVMBuildICmp(cg->b, LLVMIntSGE, b, none, ""), "");
    return LLVMBuildSelect(cg->b, keep, out, none, "");
}

static LLVMValueRef int_pow(args *x)
{
    return tw_cg_int_pow(x->cg, x->a, x->b, x->is_signed);
}

static LLVMValueRef int_dot4(args *x)
{
    return tw_cg_dot4(x->cg, x->a, x->b, x->c);
}

/* ---- The table ---- */

typedef struct forms {
    emit_fn real, integer; /* bool counts as an integer of one bit */
} forms;
static const forms table[TW_LOOP_COUNT] = {
    [TW_LOOP_NEG] = {real_neg, int_neg},  [TW_LOOP_ABS] = {real_abs, int_abs},
    [TW_LOOP_NOT] = {NULL, int_not},      [TW_LOOP_EXP] = {real_math, NULL},
    [TW_LOOP_LOG] = {real_math, NULL},    [TW_LOOP_SQRT] = {real_sqrt, NULL},
    [TW_LOOP_SIN] = {real_math, NULL},    [TW_LOOP_COS] = {real_math, NULL},
    [TW_LOOP_TAN] = {real_math, NULL},    [TW_LOOP_ASIN] = {real_math, NULL},
    [TW_LOOP_ACOS] = {real_math, NULL},   [TW_LOOP_ATAN] = {real_math, NULL},
    [TW_LOOP_SINH] = {real_math, NULL},   [TW_LOOP_COSH] = {real_math, NULL},
    [TW_LOOP_TANH] = {real_math, NULL},   [TW_LOOP_ASINH] = {real_math, NULL},
    [TW_LOOP_ACOSH] = {real_math, NULL},  [TW_LOOP_ATANH] = {real_math, NULL},
    [TW_LOOP_ERF] = {real_math, NULL},    [TW_LOOP_FLOOR] = {real_floor, same},
    [TW_LOOP_CEIL] = {real_ceil, same},   [TW_LOOP_ROUND] = {real_round, same},
    [TW_LOOP_ADD] = {real_add, int_add},  [TW_LOOP_SUB] = {real_sub, int_sub},
    [TW_LOOP_MUL] = {real_mul, int_mul},  [TW_LOOP_DIV] = {real_div, int_div},
    [TW_LOOP_REM] = {real_rem, int_rem},  [TW_LOOP_MOD] = {real_mod, int_mod},
    [TW_LOOP_POW] = {real_math, int_pow}, [TW_LOOP_MAX] = {real_max, int_max},
    [TW_LOOP_MIN] = {real_min, int_min},  [TW_LOOP_AND] = {NULL, int_and},
    [TW_LOOP_OR] = {NULL, int_or},        [TW_LOOP_XOR] = {NULL, int_xor},
    [TW_LOOP_SHL] = {NULL, int_shl},      [TW_LOOP_SHR] = {NULL, int_shr},
    [TW_LOOP_FMA] = {real_fma, int_fma},  [TW_LOOP_DOT4] = {NULL, int_dot4},
};

tw_elem tw_cg_compute_elem(tw_cg *cg, tw_elem elem)
{
    if (!tw_elem_is_float(elem) || elem == TW_F64)
        return elem;
    return elem == TW_F16 && cg->target->f16_arithmetic ? TW_F16 : TW_F32;
}

static LLVMValueRef apply(tw_cg *cg, const tw_op *op, tw_loop_kind kind, tw_elem elem,
                          LLVMValueRef a, LLVMValueRef b, LLVMValueRef c)
{
    const forms *f = &table[kind];
    emit_fn emit = tw_elem_is_float(elem) ? f->real : f->integer;
    if (!emit)
        tw_cg_fail(cg, op, "%s is not defined for elements of type %s", op->def->name,
                   tw_elem_name(elem));
    tw_elem compute = tw_cg_compute_elem(cg, elem);
    if (compute == TW_F16 && emit == real_math)
        compute = TW_F32;
    LLVMValueRef *all[] = {&a, &b, &c};
    for (unsigned i = 0; i < 3; i++)
        if (*all[i] && compute != elem)
            *all[i] = tw_cg_cast(cg, *all[i], elem, compute, false);
    args x = {cg, cg->b, op, kind, compute, tw_elem_is_signed(compute), LLVMTypeOf(a), a, b, c};
    LLVMValueRef v = emit(&x);
    if (is_narrow(elem))
        v = tw_cg_cut(cg, v, elem);
    return compute == elem ? v : tw_cg_cast(cg, v, compute, elem, false);
}

/* ---- Other operations ---- */

/* Integer expressions stay forms, for address arithmetic. */
static bool index_form(tw_cg *cg, tw_op *op, tw_loop_kind kind)
{
    if (op->results[0].type->elem != TW_INDEX ||
        (kind != TW_LOOP_ADD && kind != TW_LOOP_SUB && kind != TW_LOOP_MUL))
        return false;
    tw_cg_lin a = tw_cg_lin_of(cg, op, tw_operand(op, 0));
    tw_cg_lin b = tw_cg_lin_of(cg, op, tw_operand(op, 1));
    tw_cg_lin *lin = TW_NEW(cg->arena, tw_cg_lin);
    *lin = kind == TW_LOOP_MUL ? tw_cg_lin_mul(cg, &a, &b)
                               : tw_cg_lin_add(cg, &a, &b, kind == TW_LOOP_ADD ? 1 : -1);
    lin->lanes = tw_cg_lanes(op->results[0].type);
    tw_cg_set_value(cg, &op->results[0], (tw_cg_value){.lin = lin});
    return true;
}

static LLVMValueRef constant(tw_cg *cg, const tw_op *op)
{
    tw_type type = op->results[0].type;
    tw_attr value = tw_op_attr(op, "value");
    bool real = value->kind == TW_ATTR_FLOAT;
    if (!tw_elem_is_float(type->elem))
        return tw_cg_int(tw_cg_type(cg, type), real ? (int64_t)value->u.real : value->u.integer);
    double number = real ? value->u.real : (double)value->u.integer;
    bool direct = type->elem == TW_F64 || type->elem == TW_F32 || type->elem == TW_F16;
    tw_elem elem = direct ? type->elem : TW_F32;
    LLVMTypeRef made = tw_cg_vector(tw_cg_elem(cg, elem), tw_cg_lanes(type));
    return tw_cg_cast(cg, tw_cg_real(made, number), elem, type->elem, false);
}

typedef struct predicate {
    const char *name;
    LLVMRealPredicate real;
    LLVMIntPredicate is_signed, is_unsigned;
} predicate;
static const predicate predicates[] = {
    {"eq", LLVMRealOEQ, LLVMIntEQ, LLVMIntEQ},   {"ne", LLVMRealUNE, LLVMIntNE, LLVMIntNE},
    {"lt", LLVMRealOLT, LLVMIntSLT, LLVMIntULT}, {"le", LLVMRealOLE, LLVMIntSLE, LLVMIntULE},
    {"gt", LLVMRealOGT, LLVMIntSGT, LLVMIntUGT}, {"ge", LLVMRealOGE, LLVMIntSGE, LLVMIntUGE},
};

static LLVMValueRef compare(tw_cg *cg, const tw_op *op, LLVMValueRef a, LLVMValueRef b)
{
    const char *name = tw_op_string(op, "pred", "");
    tw_elem elem = tw_operand(op, 0)->type->elem, compute = tw_cg_compute_elem(cg, elem);
    for (size_t i = 0; i < sizeof predicates / sizeof *predicates; i++) {
        const predicate *p = &predicates[i];
        if (strcmp(p->name, name) != 0)
            continue;
        if (!tw_elem_is_float(elem))
            return LLVMBuildICmp(cg->b, tw_elem_is_signed(elem) ? p->is_signed : p->is_unsigned, a,
                                 b, "");
        return LLVMBuildFCmp(cg->b, p->real, tw_cg_cast(cg, a, elem, compute, false),
                             tw_cg_cast(cg, b, elem, compute, false), "");
    }
    tw_cg_fail(cg, op, "predicate '%s' is none of eq, ne, lt, le, gt, ge", name);
}

typedef struct reduction {
    const char *name;
    tw_loop_kind kind;
} reduction;
static const reduction reductions[] = {
    {"add", TW_LOOP_ADD}, {"mul", TW_LOOP_MUL}, {"max", TW_LOOP_MAX}, {"min", TW_LOOP_MIN}};

/* The upper half joins the lower, again and again; an odd lane left over joins at the end. */
static LLVMValueRef reduce(tw_cg *cg, const tw_op *op, LLVMValueRef v)
{
    const char *name = tw_op_string(op, "op", "");
    tw_elem elem = op->results[0].type->elem;
    unsigned lanes = tw_cg_llvm_lanes(LLVMTypeOf(v));
    for (size_t i = 0; i < sizeof reductions / sizeof *reductions; i++) {
        if (strcmp(reductions[i].name, name) != 0)
            continue;
        tw_loop_kind kind = reductions[i].kind;
        LLVMValueRef rest = NULL;
        while (lanes > 1) {
            if (lanes % 2) {
                LLVMValueRef last =
                    LLVMBuildExtractElement(cg->b, v, LLVMConstInt(cg->i32, lanes - 1, false), "");
                rest = rest ? apply(cg, op, kind, elem, last, rest, NULL) : last;
            }
            lanes /= 2;
            LLVMValueRef low = tw_cg_shuffle(cg, v, NULL, lanes, 0, 1);
            LLVMValueRef high = tw_cg_shuffle(cg, v, NULL, lanes, (int)lanes, 1);
            v = apply(cg, op, kind, elem, low, high, NULL);
        }
        v = LLVMBuildExtractElement(cg->b, v, LLVMConstInt(cg->i32, 0, false), "");
        return rest ? apply(cg, op, kind, elem, v, rest, NULL) : v;
    }
    tw_cg_fail(cg, op, "reduction '%s' is none of add, mul, max, min", name);
}

static LLVMValueRef bitcast(tw_cg *cg, const tw_op *op, LLVMValueRef v)
{
    tw_type to = op->results[0].type;
    LLVMTypeRef type = tw_cg_vector(tw_cg_storage(cg, to->elem), tw_cg_lanes(to));
    v = tw_cg_to_storage(cg, tw_operand(op, 0)->type->elem, v);
    return tw_cg_from_storage(cg, to->elem, LLVMBuildBitCast(cg->b, v, type, ""));
}

bool tw_cg_arith(tw_cg *cg, tw_op *op)
{
    tw_loop_kind kind = tw_loop_kind_of(op);
    if (kind == TW_LOOP_COUNT || op->n_results != 1 || op->n_operands > 3)
        return false;
    if (index_form(cg, op, kind))
        return true;
    LLVMValueRef v[3] = {NULL, NULL, NULL}, out;
    for (unsigned i = 0; i < op->n_operands; i++)
        v[i] = tw_cg_use(cg, op, i);
    switch (kind) {
    case TW_LOOP_CONST:
        out = constant(cg, op);
        break;
    case TW_LOOP_BROADCAST:
        out = tw_cg_splat(cg, v[0], tw_cg_lanes(op->results[0].type));
        break;
    case TW_LOOP_REDUCE_LANES:
        out = reduce(cg, op, v[0]);
        break;
    case TW_LOOP_CMP:
        out = compare(cg, op, v[0], v[1]);
        break;
    case TW_LOOP_SELECT:
        out = LLVMBuildSelect(cg->b, v[0], v[1], v[2], "");
        break;
    case TW_LOOP_CAST:
        out = tw_cg_cast(cg, v[0], tw_operand(op, 0)->type->elem, op->results[0].type->elem,
                         tw_op_bool(op, "saturate", true));
        break;
    case TW_LOOP_BITCAST:
        out = bitcast(cg, op, v[0]);
        break;
    default:
        if (!op->n_operands)
            return false;
        out = apply(cg, op, kind, op->results[0].type->elem, v[0], v[1], v[2]);
    }
    tw_cg_define(cg, op, out);
    return true;
}
