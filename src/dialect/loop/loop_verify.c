/* loop_verify.c: rules of the loop dialect beyond its table. */
#include "dialect/loop/loop.h"
#include "dialect/loop/loop_syntax.h"

#include <string.h>

/* ---- Types ---- */

static bool is_scalar_or_vector(tw_type t)
{
    return t->kind == TW_TYPE_SCALAR || t->kind == TW_TYPE_VECTOR;
}

/* 0 for a scalar. */
static int64_t lanes_of(tw_type t)
{
    return t->kind == TW_TYPE_VECTOR ? tw_type_dim(t, 0) : 0;
}

static bool is_index(tw_type t)
{
    return t->kind == TW_TYPE_SCALAR && t->elem == TW_INDEX;
}

static bool is_bool(tw_type t)
{
    return is_scalar_or_vector(t) && t->elem == TW_BOOL;
}

static bool wrong_type(tw_context *ctx, const tw_op *op, const char *what, tw_type is,
                       const char *wanted)
{
    return tw_error(ctx, op->loc, "%s of %s is %s, not %s", what, op->def->name,
                    tw_print_type(ctx, is), wanted);
}

/* ---- Maps and index operands ---- */

static bool check_map(tw_context *ctx, const tw_op *op, const char *name, unsigned dims, int n)
{
    tw_attr map = tw_op_attr(op, name);
    if (!map)
        return true;
    if (map->u.map.n_dims != dims)
        return tw_error(ctx, op->loc, "'%s' of %s is over %u dimensions, but there are %u operands",
                        name, op->def->name, map->u.map.n_dims, dims);
    if (n >= 0 && map->u.map.n != (size_t)n)
        return tw_error(ctx, op->loc, "'%s' of %s has %zu expressions, not %d", name, op->def->name,
                        map->u.map.n, n);
    return true;
}

/* Index operands are scalars, or where `vectors` allows also vectors of one length, which goes to
 * *lanes (0: all scalars). */
static bool check_index_operands(tw_context *ctx, const tw_op *op, unsigned first, unsigned n,
                                 bool vectors, int64_t *lanes)
{
    int64_t found = 0;
    for (unsigned i = first; i < first + n; i++) {
        tw_type t = tw_operand(op, i)->type;
        if (!is_scalar_or_vector(t) || t->elem != TW_INDEX || (!vectors && lanes_of(t)))
            return wrong_type(ctx, op, "an index operand", t,
                              vectors ? "index or a vector of it" : "index");
        if (lanes_of(t) && found && lanes_of(t) != found)
            return tw_error(ctx, op->loc, "index operands of %s have %lld and %lld lanes",
                            op->def->name, (long long)found, (long long)lanes_of(t));
        if (lanes_of(t))
            found = lanes_of(t);
    }
    if (lanes)
        *lanes = found;
    return true;
}

static bool one_of(tw_context *ctx, const tw_op *op, const char *attr, const char *words)
{
    const char *value = tw_op_string(op, attr, NULL);
    if (!value)
        return true;
    size_t len = strlen(value);
    for (const char *w = words; *w; w += strcspn(w, " ") + (w[strcspn(w, " ")] == ' '))
        if (strcspn(w, " ") == len && !memcmp(w, value, len))
            return true;
    return tw_error(ctx, op->loc, "'%s' of %s is '%s'; it can be one of: %s", attr, op->def->name,
                    value, words);
}

static bool check_args(tw_context *ctx, const tw_op *op, unsigned region, size_t n)
{
    const tw_region *r = &op->regions[region];
    if (r->n_args != n)
        return tw_error(ctx, op->loc, "region %u of %s has %u arguments, not %zu", region,
                        op->def->name, r->n_args, n);
    for (unsigned i = 0; i < n; i++)
        if (!is_index(r->args[i]->type))
            return wrong_type(ctx, op, "an argument", r->args[i]->type, "index");
    return true;
}

/* ---- Structure ---- */

static bool verify_kernel(tw_context *ctx, const tw_op *op)
{
    const tw_region *body = &op->regions[0];
    int64_t outputs = tw_op_int(op, "outputs", 0);
    for (unsigned i = 0; i < body->n_args; i++)
        if (body->args[i]->type->kind != TW_TYPE_BUFFER && !is_index(body->args[i]->type))
            return wrong_type(ctx, op, "an argument", body->args[i]->type, "a buffer or index");
    if (outputs < 0 || outputs > body->n_args)
        return tw_error(ctx, op->loc, "the kernel has %u arguments, so not %lld outputs",
                        body->n_args, (long long)outputs);
    return true;
}

static bool verify_when(tw_context *ctx, const tw_op *op)
{
    tw_attr when = tw_op_attr(op, "when");
    if (when && !tw_is_for_kind(op, "parallel"))
        return tw_error(ctx, op->loc, "'when' is for parallel loops only");
    return !when || check_map(ctx, op, "when", 0, when->u.map.n);
}

static bool verify_for(tw_context *ctx, const tw_op *op)
{
    int64_t step = tw_op_int(op, "step", 1);
    if (!check_map(ctx, op, "bounds", op->n_operands, 2) ||
        !check_index_operands(ctx, op, 0, op->n_operands, false, NULL) ||
        !check_args(ctx, op, 0, 1) ||
        !one_of(ctx, op, "kind",
                "serial parallel vectorize unroll blockIdx.x blockIdx.y blockIdx.z threadIdx.x "
                "threadIdx.y threadIdx.z vthread") ||
        !verify_when(ctx, op))
        return false;
    return step >= 1 ||
           tw_error(ctx, op->loc, "the step of a loop is at least 1, not %lld", (long long)step);
}

static bool verify_for_dynamic(tw_context *ctx, const tw_op *op)
{
    return check_index_operands(ctx, op, 0, 2, false, NULL) && check_args(ctx, op, 0, 1);
}

static bool verify_block(tw_context *ctx, const tw_op *op)
{
    tw_attr iters = tw_op_attr(op, "iters");
    size_t n = iters->u.array.n;
    for (size_t i = 0; i < n; i++) {
        tw_attr kind = iters->u.array.items[i];
        if (kind->kind != TW_ATTR_STRING ||
            (strcmp(kind->u.string.text, "spatial") && strcmp(kind->u.string.text, "reduce")))
            return tw_error(ctx, op->loc, "'iters' of loop.block holds \"spatial\" and \"reduce\"");
    }
    return check_map(ctx, op, "extents", 0, (int)n) &&
           check_map(ctx, op, "bindings", op->n_operands, (int)n) &&
           check_map(ctx, op, "where", op->n_operands, -1) &&
           check_index_operands(ctx, op, 0, op->n_operands, false, NULL) &&
           check_args(ctx, op, 0, n) && check_args(ctx, op, 1, n) &&
           one_of(ctx, op, "order", "sequential");
}

static bool verify_if(tw_context *ctx, const tw_op *op)
{
    return check_map(ctx, op, "where", op->n_operands, -1) &&
           check_index_operands(ctx, op, 0, op->n_operands, false, NULL) &&
           check_args(ctx, op, 0, 0) && check_args(ctx, op, 1, 0);
}

/* ---- Memory ---- */

/* Integers of another width (not below a byte) are the same bytes. */
static bool views_as(tw_elem from, tw_elem to)
{
    return from == to || (tw_elem_is_int(from) && tw_elem_is_int(to) && tw_elem_bits(from) >= 8 &&
                          tw_elem_bits(to) >= 8);
}

static bool verify_buffer_result(tw_context *ctx, const tw_op *op)
{
    tw_type result = op->results[0].type;
    tw_attr value = tw_op_attr(op, "value");
    int64_t have = 0, want = 0;
    if (result->kind != TW_TYPE_BUFFER)
        return wrong_type(ctx, op, "the result", result, "a buffer");
    if (tw_is_loop(op, TW_LOOP_VIEW)) {
        tw_type from = tw_operand(op, 0)->type;
        if (from->kind != TW_TYPE_BUFFER || !views_as(from->elem, result->elem))
            return wrong_type(ctx, op, "the operand", from,
                              "a buffer of the result's element type, nor both of integers");
        if (!check_map(ctx, op, "part", 0, (int)result->rank))
            return false;
    }
    if (!value)
        return true;
    bool same = value->u.dense.type->elem == result->elem &&
                tw_type_static_count(value->u.dense.type, &have) &&
                tw_type_static_count(result, &want) && have == want;
    return same || tw_error(ctx, op->loc, "the value is %s, but the buffer is %s",
                            tw_print_type(ctx, value->u.dense.type), tw_print_type(ctx, result));
}

static bool verify_bind(tw_context *ctx, const tw_op *op)
{
    int64_t count;
    tw_type type = tw_operand(op, 0)->type;
    tw_attr symbols = tw_op_attr(op, "symbols");
    size_t n = symbols->u.array.n;
    if (type->kind != TW_TYPE_BUFFER || type->elem != TW_I64 ||
        !tw_type_static_count(type, &count) || (uint64_t)count != n)
        return tw_error(ctx, op->loc, "loop.bind takes a buffer of %zu i64, one a symbol, not %s",
                        n, tw_print_type(ctx, type));
    for (size_t i = 0; i < n; i++)
        if (symbols->u.array.items[i]->kind != TW_ATTR_STRING)
            return tw_error(ctx, op->loc, "'symbols' of loop.bind holds strings");
    return check_map(ctx, op, "expect", 0, (int)n);
}

static bool verify_routine(tw_context *ctx, const tw_op *op)
{
    size_t sizes = 0;
    tw_attr symbols = tw_op_attr(op, "symbols");
    for (unsigned i = 0; i < op->n_operands + op->n_results; i++) {
        tw_type type =
            i < op->n_operands ? tw_operand(op, i)->type : op->results[i - op->n_operands].type;
        if (type->kind != TW_TYPE_BUFFER)
            return wrong_type(ctx, op, "an operand or result", type, "a buffer");
        sizes += i < op->n_operands ? 0 : type->rank;
    }
    return !symbols || symbols->u.array.n == sizes ||
           tw_error(ctx, op->loc, "%zu symbols for the %zu sizes of the results",
                    symbols->u.array.n, sizes);
}

static bool verify_provide(tw_context *ctx, const tw_op *op)
{
    const tw_value *output = tw_operand(op, 0);
    const tw_op *func = output->region ? output->region->parent : NULL;
    unsigned inputs =
        func ? output->region->n_args - (unsigned)tw_op_int(func, "outputs", 0) : UINT32_MAX;
    return output->index >= inputs ||
           tw_error(ctx, op->loc, "loop.provide takes an output of the function");
}

static bool verify_access(tw_context *ctx, const tw_op *op)
{
    tw_loop_access a;
    int64_t lanes;
    tw_loop_get_access(op, &a);
    if (a.other && op->n_operands < 2)
        return tw_error(ctx, op->loc, "a masked load needs the value elsewhere as last operand");
    tw_type buffer = a.buffer->type;
    if (buffer->kind != TW_TYPE_BUFFER)
        return wrong_type(ctx, op, "what is accessed", buffer, "a buffer");
    if (!check_index_operands(ctx, op, a.first_index, a.n_index, true, &lanes) ||
        !check_map(ctx, op, "index", a.n_index, (int)buffer->rank) ||
        !check_map(ctx, op, "where", a.n_index, -1))
        return false;
    tw_type moved =
        lanes ? tw_type_vector(ctx, buffer->elem, lanes) : tw_type_scalar(ctx, buffer->elem);
    tw_type value = a.value ? a.value->type : op->results[0].type;
    if (value != moved)
        return wrong_type(ctx, op, a.value ? "the value" : "the result", value,
                          tw_print_type(ctx, moved));
    if (a.other && a.other->type != moved)
        return wrong_type(ctx, op, "the value elsewhere", a.other->type, tw_print_type(ctx, moved));
    return true;
}

/* ---- Values ---- */

static bool verify_const(tw_context *ctx, const tw_op *op)
{
    tw_type t = op->results[0].type;
    tw_attr value = tw_op_attr(op, "value");
    if (!is_scalar_or_vector(t))
        return wrong_type(ctx, op, "the result", t, "a number, bool or a vector of them");
    /* What a lane holds that a mask keeps from memory: no string, which nothing reads. */
    if (t->elem == TW_STRING && (value->kind != TW_ATTR_INT || value->u.integer != 0))
        return tw_error(ctx, op->loc, "a constant string is 0, that is none, not %s",
                        tw_print_attr(ctx, value));
    tw_attr_kind wanted = t->elem == TW_BOOL          ? TW_ATTR_BOOL
                          : tw_elem_is_float(t->elem) ? TW_ATTR_FLOAT
                                                      : TW_ATTR_INT;
    return value->kind == wanted || tw_error(ctx, op->loc, "the value %s does not fit %s",
                                             tw_print_attr(ctx, value), tw_print_type(ctx, t));
}

static bool verify_index(tw_context *ctx, const tw_op *op)
{
    int64_t lanes;
    tw_type t = op->results[0].type;
    if (!check_map(ctx, op, "expr", op->n_operands, 1) ||
        !check_index_operands(ctx, op, 0, op->n_operands, true, &lanes))
        return false;
    tw_type wanted = lanes ? tw_type_vector(ctx, TW_INDEX, lanes) : tw_type_scalar(ctx, TW_INDEX);
    return t == wanted || wrong_type(ctx, op, "the result", t, tw_print_type(ctx, wanted));
}

/* ramp, broadcast: a scalar to a vector of its type. */
static bool verify_widening(tw_context *ctx, const tw_op *op)
{
    tw_type from = tw_operand(op, 0)->type, to = op->results[0].type;
    bool ramp = tw_is_loop(op, TW_LOOP_RAMP);
    if (from->kind != TW_TYPE_SCALAR || (ramp && from->elem != TW_INDEX))
        return wrong_type(ctx, op, "the operand", from, ramp ? "index" : "a scalar");
    return (to->kind == TW_TYPE_VECTOR && to->elem == from->elem) ||
           wrong_type(ctx, op, "the result", to, "a vector of the operand's type");
}

static bool verify_reduce_lanes(tw_context *ctx, const tw_op *op)
{
    tw_type from = tw_operand(op, 0)->type, to = op->results[0].type;
    if (from->kind != TW_TYPE_VECTOR)
        return wrong_type(ctx, op, "the operand", from, "a vector");
    if (to != tw_type_scalar(ctx, from->elem))
        return wrong_type(ctx, op, "the result", to, tw_elem_name(from->elem));
    return one_of(ctx, op, "op", "add mul max min");
}

static bool verify_cmp(tw_context *ctx, const tw_op *op)
{
    tw_type a = tw_operand(op, 0)->type, b = tw_operand(op, 1)->type, r = op->results[0].type;
    if (a != b || !is_scalar_or_vector(a))
        return wrong_type(ctx, op, "the second operand", b, tw_print_type(ctx, a));
    if (!is_bool(r) || lanes_of(r) != lanes_of(a))
        return wrong_type(ctx, op, "the result", r, "bool of as many lanes as the operands");
    return one_of(ctx, op, "pred", "eq ne lt le gt ge");
}

static bool verify_select(tw_context *ctx, const tw_op *op)
{
    tw_type c = tw_operand(op, 0)->type, a = tw_operand(op, 1)->type;
    if (!is_scalar_or_vector(a) || tw_operand(op, 2)->type != a || op->results[0].type != a)
        return tw_error(ctx, op->loc, "both choices and the result of loop.select have one type");
    return (is_bool(c) && (!lanes_of(c) || lanes_of(c) == lanes_of(a))) ||
           wrong_type(ctx, op, "the condition", c, "bool");
}

static bool verify_cast(tw_context *ctx, const tw_op *op)
{
    tw_type a = tw_operand(op, 0)->type, r = op->results[0].type;
    bool shapes = is_scalar_or_vector(a) && is_scalar_or_vector(r) && lanes_of(a) == lanes_of(r);
    if (!shapes || a->elem == TW_STRING || r->elem == TW_STRING)
        return wrong_type(ctx, op, "the result", r, "of as many lanes as the operand");
    if (tw_is_loop(op, TW_LOOP_BITCAST) && tw_elem_bits(a->elem) != tw_elem_bits(r->elem))
        return wrong_type(ctx, op, "the result", r, "of as many bits as the operand");
    return true;
}

static bool verify_renew(tw_context *ctx, const tw_op *op)
{
    const tw_value *buffer = tw_operand(op, 0);
    tw_type type = tw_op_attr(op, "type")->u.type;
    if (!buffer->op || !tw_is_loop(buffer->op, TW_LOOP_ALLOC) || !tw_op_attr(buffer->op, "later"))
        return tw_error(ctx, op->loc, "'loop.renew' takes a loop.alloc with 'later'");
    return (type->kind == TW_TYPE_BUFFER && type->elem == buffer->type->elem) ||
           wrong_type(ctx, op, "the type", type, "a buffer of the same elements");
}

/* What element types an operation of one type throughout computes on. */
static bool verify_elementwise(tw_context *ctx, const tw_op *op)
{
    tw_type t = op->results[0].type;
    tw_elem e = t->elem;
    tw_loop_kind kind = tw_loop_kind_of(op);
    if (!is_scalar_or_vector(t))
        return wrong_type(ctx, op, "the result", t, "a number or a vector of numbers");
    if ((kind >= TW_LOOP_AND && kind <= TW_LOOP_XOR) || kind == TW_LOOP_NOT)
        return tw_elem_is_int(e) || e == TW_BOOL ||
               wrong_type(ctx, op, "the result", t, "of integers or bool");
    if (kind == TW_LOOP_DOT4)
        return e == TW_I32 || wrong_type(ctx, op, "the result", t, "of i32");
    if (kind == TW_LOOP_SHL || kind == TW_LOOP_SHR)
        return tw_elem_is_int(e) || wrong_type(ctx, op, "the result", t, "of integers");
    if (kind >= TW_LOOP_EXP && kind <= TW_LOOP_ERF)
        return tw_elem_is_float(e) || wrong_type(ctx, op, "the result", t, "of floating point");
    return tw_elem_is_int(e) || tw_elem_is_float(e) ||
           wrong_type(ctx, op, "the result", t, "of numbers");
}

bool tw_loop_verify(tw_context *ctx, const tw_op *op)
{
    switch (tw_loop_kind_of(op)) {
    case TW_LOOP_KERNEL:
        return verify_kernel(ctx, op);
    case TW_LOOP_FOR:
        return verify_for(ctx, op);
    case TW_LOOP_FOR_DYNAMIC:
        return verify_for_dynamic(ctx, op);
    case TW_LOOP_BLOCK:
        return verify_block(ctx, op);
    case TW_LOOP_IF:
        return verify_if(ctx, op);
    case TW_LOOP_CHECK:
        return check_map(ctx, op, "sets", 0, -1);
    case TW_LOOP_BARRIER:
        return true;
    case TW_LOOP_ALLOC:
    case TW_LOOP_CONSTANT_BUFFER:
    case TW_LOOP_VIEW:
        return verify_buffer_result(ctx, op);
    case TW_LOOP_BIND:
        return verify_bind(ctx, op);
    case TW_LOOP_ROUTINE:
        return verify_routine(ctx, op);
    case TW_LOOP_PROVIDE:
        return verify_provide(ctx, op);
    case TW_LOOP_RENEW:
        return verify_renew(ctx, op);
    case TW_LOOP_LOAD:
    case TW_LOOP_STORE:
        return verify_access(ctx, op);
    case TW_LOOP_CONST:
        return verify_const(ctx, op);
    case TW_LOOP_INDEX:
        return verify_index(ctx, op);
    case TW_LOOP_RAMP:
    case TW_LOOP_BROADCAST:
        return verify_widening(ctx, op);
    case TW_LOOP_REDUCE_LANES:
        return verify_reduce_lanes(ctx, op);
    case TW_LOOP_CMP:
        return verify_cmp(ctx, op);
    case TW_LOOP_SELECT:
        return verify_select(ctx, op);
    case TW_LOOP_CAST:
    case TW_LOOP_BITCAST:
        return verify_cast(ctx, op);
    default:
        return verify_elementwise(ctx, op);
    }
}
