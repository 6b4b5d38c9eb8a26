/* sched_dialect.c: tables and text of the sched dialect.
 *
 *     sched.schedule @matmul for "x86-64-v3" version 1 {
 *       %c = sched.get_block {block = "matmul"}
 *       %i, %j, %k = sched.get_loops %c
 *       %io, %ii = sched.split %i {factors = [0, 6]}
 *     } */
#include "schedule/sched_dialect.h"

#include "base/arena.h"
#include "base/vec.h"

#include <string.h>

static const struct {
    const char *operands, *results;
    int since;
} specs[TW_SCHED_COUNT] = {
#define STEP(ENUM, since, name, operands, results, attributes, summary)                            \
    [TW_SCHED_##ENUM] = {operands, results, since},
#include "schedule/sched.def"
#undef STEP
    [TW_SCHED_SCHEDULE] = {"", "", 1},
};

const char *tw_sched_operand_spec(tw_sched_kind kind)
{
    return specs[kind].operands;
}

const char *tw_sched_result_spec(tw_sched_kind kind)
{
    return specs[kind].results;
}

int tw_sched_since(tw_sched_kind kind)
{
    return specs[kind].since;
}

tw_type tw_sched_block_type(tw_context *ctx)
{
    return tw_type_dialect(ctx, "sched.block", NULL);
}

tw_type tw_sched_loop_type(tw_context *ctx)
{
    return tw_type_dialect(ctx, "sched.loop", NULL);
}

tw_type tw_sched_size_type(tw_context *ctx)
{
    return tw_type_dialect(ctx, "sched.size", NULL);
}

tw_type tw_sched_type_of(tw_context *ctx, char letter)
{
    return letter == 'b'   ? tw_sched_block_type(ctx)
           : letter == 's' ? tw_sched_size_type(ctx)
                           : tw_sched_loop_type(ctx);
}

/* ---- Rules --------------------------------------------------------------------------- */

/* The letter that value i has to be, or 0 past the end. */
static char letter_at(const char *spec, unsigned i)
{
    size_t n = strlen(spec);
    if (n > 0 && spec[n - 1] == '*')
        return i < n - 1 ? spec[i] : spec[n - 2];
    return i < n ? spec[i] : 0;
}

/* Whether `n` values fit: a starred letter stands for at least `least`. */
static bool count_fits(const char *spec, unsigned n, unsigned least)
{
    size_t len = strlen(spec);
    if (len == 0 || spec[len - 1] != '*')
        return n == len;
    return n >= len - 2 + (spec[len - 2] == 's' ? 0 : least);
}

static bool type_fits(tw_context *ctx, char letter, tw_type type)
{
    if (letter == 'x')
        return type == tw_sched_block_type(ctx) || type == tw_sched_loop_type(ctx);
    return letter && type == tw_sched_type_of(ctx, letter);
}

static const char *letter_name(char letter)
{
    return letter == 'b'   ? "block"
           : letter == 'l' ? "loop"
           : letter == 's' ? "sampled size"
                           : "block or loop";
}

static bool verify_step(tw_context *ctx, const tw_op *op)
{
    const char *operands = specs[op->def->kind].operands, *results = specs[op->def->kind].results;
    if (!count_fits(operands, op->n_operands, 1) || !count_fits(results, op->n_results, 0))
        return tw_error(ctx, op->loc,
                        "%s takes \"%s\" and gives \"%s\" (b: block, l: loop, s: size)",
                        op->def->name, operands, results);
    for (unsigned i = 0; i < op->n_operands; i++)
        if (!type_fits(ctx, letter_at(operands, i), tw_operand(op, i)->type))
            return tw_error(ctx, op->loc, "%s: operand %u must be a %s", op->def->name, i,
                            letter_name(letter_at(operands, i)));
    for (unsigned i = 0; i < op->n_results; i++)
        if (!type_fits(ctx, letter_at(results, i), op->results[i].type))
            return tw_error(ctx, op->loc, "%s: result %u must be a %s", op->def->name, i,
                            letter_name(letter_at(results, i)));
    if (op->region && !tw_is_sched(op->region->parent, TW_SCHED_SCHEDULE))
        return tw_error(ctx, op->loc, "%s must stand in a sched.schedule", op->def->name);
    return true;
}

static bool verify_schedule(tw_context *ctx, const tw_op *op)
{
    int64_t version = tw_op_int(op, "version", 0);
    if (version < 1 || version > TW_SCHED_VERSION)
        return tw_error(ctx, op->loc, "schedules of version 1 to %d are understood, not %lld",
                        TW_SCHED_VERSION, (long long)version);
    for (const tw_op *step = op->regions[0].first; step; step = step->next)
        if (step->def < tw_sched_ops || step->def >= tw_sched_ops + TW_SCHED_SCHEDULE)
            return tw_error(ctx, step->loc, "%s is no step of a schedule", step->def->name);
        else if (specs[step->def->kind].since > version)
            return tw_error(ctx, step->loc, "%s came with version %d of schedules; this is %lld",
                            step->def->name, specs[step->def->kind].since, (long long)version);
    return true;
}

static bool verify_type(tw_context *ctx, tw_loc loc, tw_attr params)
{
    return !params || tw_error(ctx, loc, "types of the sched dialect have no parameters");
}

/* ---- Text ---------------------------------------------------------------------------- */

static bool print_step(tw_printer *p, const tw_op *op)
{
    static const char *const none[] = {NULL};
    if (op->n_operands) {
        tw_p_text(p, " ");
        tw_p_operands(p, op, 0, op->n_operands);
    }
    tw_p_attrs(p, op, none);
    return true;
}

static bool parse_step(tw_parser *p, const tw_op_def *def, tw_op **out)
{
    tw_context *ctx = tw_q_context(p);
    tw_loc loc = tw_q_loc(p);
    const char *spec = specs[def->kind].operands;
    TW_VEC(tw_value *) operands = {0};
    for (bool more = spec[0] != 0; more;) {
        tw_value *value;
        if (!tw_q_value(p, &value))
            return false;
        tw_vec_push(tw_context_arena(ctx), &operands, value);
        more = tw_q_try(p, ",");
    }
    unsigned n = tw_q_result_count(p);
    tw_type *types = TW_NEW_ARRAY(tw_context_arena(ctx), tw_type, n);
    for (unsigned i = 0; i < n; i++)
        types[i] = tw_sched_type_of(ctx, letter_at(specs[def->kind].results, i));
    *out = tw_op_create(ctx, def, loc, operands.data, (unsigned)operands.len, types, n, NULL, 0, 0);
    return tw_q_attrs(p, *out);
}

static bool print_schedule(tw_printer *p, const tw_op *op)
{
    tw_p_text(p, " ");
    tw_p_attr(p, tw_op_attr(op, "kernel"));
    if (tw_op_attr(op, "target")) {
        tw_p_text(p, " for ");
        tw_p_attr(p, tw_op_attr(op, "target"));
    }
    tw_p_text(p, " version %lld ", (long long)tw_op_int(op, "version", 0));
    tw_p_region(p, &op->regions[0]);
    return true;
}

static bool parse_schedule(tw_parser *p, const tw_op_def *def, tw_op **out)
{
    tw_context *ctx = tw_q_context(p);
    tw_loc loc = tw_q_loc(p);
    const char *kernel, *target = NULL;
    int64_t version;
    if (!tw_q_symbol(p, &kernel) || (tw_q_try(p, "for") && !tw_q_string(p, &target)) ||
        !tw_q_expect(p, "version") || !tw_q_int(p, &version))
        return false;
    *out = tw_op_create(ctx, def, loc, NULL, 0, NULL, 0, NULL, 0, 1);
    tw_op_set_attr(*out, "kernel", tw_attr_symbol(ctx, kernel));
    if (target)
        tw_op_set_attr(*out, "target", tw_attr_string(ctx, target));
    tw_op_set_attr(*out, "version", tw_attr_int(ctx, version));
    return tw_q_region(p, &(*out)->regions[0], NULL);
}

/* ---- Tables -------------------------------------------------------------------------- */

#define A(name, kind, required, summary) {name, TW_ATTR_##kind, required, summary},
#define UNPACK(...) __VA_ARGS__
#define STEP(ENUM, since, name, operands, results, attributes, summary)                            \
    static const tw_attr_spec attrs_##ENUM[] = {UNPACK attributes{NULL, 0, 0, NULL}};
#include "schedule/sched.def"
#undef STEP

static const tw_attr_spec attrs_SCHEDULE[] = {
    A("kernel", SYMBOL, 1, "that it is for") A("target", STRING, 0, "processor")
        A("version", INT, 1, "of the form of traces"){NULL, 0, 0, NULL}};

const tw_op_def tw_sched_ops[TW_SCHED_COUNT] = {
#define STEP(ENUM, since, op_name, operands, results, attributes, text)                            \
    [TW_SCHED_##ENUM] = {.name = "sched." op_name,                                                 \
                         .summary = text,                                                          \
                         .n_operands = -1,                                                         \
                         .n_results = -1,                                                          \
                         .attrs = attrs_##ENUM,                                                    \
                         .verify = verify_step,                                                    \
                         .print = print_step,                                                      \
                         .parse = parse_step,                                                      \
                         .kind = TW_SCHED_##ENUM},
#include "schedule/sched.def"
#undef STEP
    [TW_SCHED_SCHEDULE] = {.name = "sched.schedule",
                           .summary = "the trace of a kernel's schedule",
                           .n_regions = 1,
                           .traits = TW_TRAIT_ISOLATED,
                           .attrs = attrs_SCHEDULE,
                           .verify = verify_schedule,
                           .print = print_schedule,
                           .parse = parse_schedule,
                           .kind = TW_SCHED_SCHEDULE},
};

static const tw_type_def types[] = {
    {"sched.block", verify_type},
    {"sched.loop", verify_type},
    {"sched.size", verify_type},
    {NULL, NULL},
};

const tw_dialect tw_sched_dialect = {
    .name = "sched",
    .summary = "schedules: traces of primitives that transform kernels",
    .ops = tw_sched_ops,
    .n_ops = TW_SCHED_COUNT,
    .types = types,
};
