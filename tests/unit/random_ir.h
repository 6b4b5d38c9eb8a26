/* random_ir.h: seeded random types, attributes and IR, far stranger than what a compiler makes:
 * anything that can be built, whether the verifier likes it or not. */
#ifndef TW_TESTS_RANDOM_IR_H
#define TW_TESTS_RANDOM_IR_H

#include "base/vec.h"
#include "dialect/core/core.h"
#include "dialect/graph/graph.h"
#include "dialect/loop/loop.h"
#include "tilewright/ir.h"

#include <string.h>

typedef struct random_ir {
    tw_context *ctx;
    uint64_t state;
    unsigned budget; /* operations left to make */
    TW_VEC(tw_value *) visible;
} random_ir;

static uint64_t random_bits(random_ir *r)
{
    r->state ^= r->state << 13;
    r->state ^= r->state >> 7;
    r->state ^= r->state << 17;
    return r->state * 0x2545f4914f6cdd1dull;
}

static unsigned below(random_ir *r, unsigned n)
{
    return (unsigned)((random_bits(r) >> 33) % n);
}

static bool chance(random_ir *r, unsigned percent)
{
    return below(r, 100) < percent;
}

/* ---- Text ---- */

/* Names that need quotes, collide, or look like something else. */
static const char *random_name(random_ir *r)
{
    static const char *const names[] = {
        "x",        "x_1",      "x_1_1",     "p2o.DynamicDimension.0",
        "unk__749", "a b",      "0",         "17",
        "d0",       "d12",      "f32",       "min",
        "loc",      "\"",       "\\",        "%x",
        "x.",       ".y",       "a..b",      "/m/Q:0",
        "\xc3\xa9", "\xff\x80", "new\nline", "unit",
        "batch",    "-1",       "true",      "tensor",
        "floordiv", "@",        "#",         "to",
        "where",    "else",     "init"};
    if (chance(r, 80))
        return names[below(r, sizeof names / sizeof *names)];
    char text[120];
    unsigned n = 1 + below(r, chance(r, 80) ? 6 : sizeof text);
    bool plain = chance(r, 50);
    for (unsigned i = 0; i < n; i++)
        text[i] = plain ? "ab/"[below(r, 3)] : (char)(1 + below(r, 255));
    return tw_intern(r->ctx, text, n);
}

static const char *random_hint(random_ir *r)
{
    return chance(r, 50) ? NULL : random_name(r);
}

static int64_t random_int(random_ir *r)
{
    static const int64_t edges[] = {0, 1, -1, 2, 7, INT64_MAX, INT64_MIN, INT64_MAX - 1, 4096};
    return chance(r, 60)   ? (int64_t)below(r, 40) - 10
           : chance(r, 60) ? edges[below(r, sizeof edges / sizeof *edges)]
                           : (int64_t)random_bits(r);
}

/* ---- Expressions ---- */

static tw_expr random_expr(random_ir *r, unsigned depth, unsigned n_dims)
{
    if (!depth || chance(r, 20)) {
        unsigned pick = below(r, 3);
        if (pick == 0 && n_dims)
            return tw_expr_dim(r->ctx, below(r, n_dims));
        return pick == 1 ? tw_expr_sym(r->ctx, random_name(r))
                         : tw_expr_const(r->ctx,
                                         chance(r, 95) ? (int64_t)below(r, 30) - 9 : random_int(r));
    }
    tw_expr a = random_expr(r, depth - 1, n_dims), b = random_expr(r, depth - 1, n_dims);
    tw_expr_kind kind = (tw_expr_kind)(TW_EXPR_ADD + below(r, 7));
    if ((kind == TW_EXPR_FLOORDIV || kind == TW_EXPR_CEILDIV || kind == TW_EXPR_MOD) &&
        chance(r, 80))
        b = tw_expr_const(r->ctx, 1 + below(r, 12));
    return chance(r, 15) ? tw_expr_sub(r->ctx, a, b) : tw_expr_binary(r->ctx, kind, a, b);
}

/* ---- Types ---- */

static tw_attr random_attr(random_ir *r, unsigned depth);

static unsigned random_dims(random_ir *r, tw_expr *dims)
{
    unsigned rank = below(r, chance(r, 95) ? 5 : TW_MAX_RANK + 1);
    bool symbolic = chance(r, 40);
    for (unsigned i = 0; i < rank; i++)
        dims[i] =
            symbolic && chance(r, 60) ? random_expr(r, 2, 0) : tw_expr_const(r->ctx, below(r, 6));
    for (unsigned i = 0; i < rank; i++) /* the text refuses sizes below 0 */
        if (tw_expr_is_const(dims[i]) && dims[i]->value < 0)
            dims[i] = tw_expr_const(r->ctx, 0);
    return rank;
}

static tw_type random_type(random_ir *r, unsigned depth)
{
    tw_expr dims[TW_MAX_RANK];
    tw_elem elem = (tw_elem)below(r, TW_ELEM_COUNT);
    switch (below(r, depth ? 6 : 4)) {
    case 0:
        return tw_type_scalar(r->ctx, elem);
    case 1: {
        unsigned rank = random_dims(r, dims);
        tw_attr layout = !chance(r, 25)  ? NULL
                         : chance(r, 50) ? tw_layout_nhwc(r->ctx)
                                         : tw_layout_nchwc(r->ctx, 16);
        return tw_type_tensor(r->ctx, elem, rank, dims, layout);
    }
    case 2: {
        unsigned rank = random_dims(r, dims);
        return tw_type_buffer(r->ctx, elem, rank, dims, chance(r, 50) ? "" : random_name(r));
    }
    case 3:
        return tw_type_vector(r->ctx, elem, 1 + below(r, 16));
    case 4: {
        tw_type types[4];
        unsigned n = below(r, 3), m = below(r, 3);
        for (unsigned i = 0; i < n + m; i++)
            types[i] = random_type(r, depth - 1);
        return tw_type_func(r->ctx, types, n, types + n, m);
    }
    default: {
        tw_attr items[3];
        unsigned n = below(r, 4);
        for (unsigned i = 0; i < n; i++)
            items[i] = random_attr(r, depth - 1);
        return tw_type_dialect(r->ctx, "test.type",
                               chance(r, 30) ? NULL : tw_attr_array(r->ctx, items, n));
    }
    }
}

/* ---- Attributes ---- */

static tw_attr random_dense(random_ir *r)
{
    int64_t dims[4], count = 1;
    unsigned rank = below(r, 5);
    for (unsigned i = 0; i < rank; i++)
        count *= dims[i] = chance(r, 90) ? 1 + below(r, 5) : below(r, 2);
    tw_elem elem = (tw_elem)below(r, TW_ELEM_COUNT);
    size_t size = ((size_t)count * tw_elem_bits(elem) + 7) / 8;
    unsigned char *data = tw_context_alloc(r->ctx, size);
    bool splat = chance(r, 30), small = chance(r, 40);
    uint64_t bits = random_bits(r);
    for (size_t i = 0; i < size; i++) {
        if (!splat)
            bits = random_bits(r);
        data[i] = small ? bits % 3 : (unsigned char)(bits >> (i % 8 * 8));
    }
    if (elem == TW_BOOL && chance(r, 80))
        for (size_t i = 0; i < size; i++)
            data[i] &= 1;
    if (elem == TW_STRING)
        for (int64_t i = 0; i < count; i++)
            ((const char **)(void *)data)[i] = splat ? "s" : random_name(r);
    return tw_attr_dense(r->ctx, tw_type_tensor_static(r->ctx, elem, rank, dims), data, size);
}

static tw_attr random_float(random_ir *r)
{
    static const double edges[] = {0.0, -0.0, 1.0, 1e300, 5e-324, 0.1, 1.0 / 0.0, -1.0 / 0.0};
    double value = edges[below(r, sizeof edges / sizeof *edges)];
    uint64_t bits = random_bits(r);
    if (chance(r, 20))
        bits |= 0x7ff0000000000000ull;
    if (chance(r, 50))
        memcpy(&value, &bits, sizeof value);
    return tw_attr_float(r->ctx, value);
}

static tw_attr random_map(random_ir *r)
{
    tw_expr exprs[3];
    unsigned n_dims = below(r, 4), n = below(r, 4);
    for (unsigned i = 0; i < n; i++)
        exprs[i] = random_expr(r, 3, n_dims);
    return tw_attr_map(r->ctx, n_dims, exprs, n);
}

static tw_attr random_string(random_ir *r)
{
    char text[12];
    unsigned n = below(r, 12);
    for (unsigned i = 0; i < n; i++)
        text[i] = (char)random_bits(r);
    return tw_attr_string_n(r->ctx, text, n);
}

static tw_attr random_list(random_ir *r, unsigned depth, bool dict)
{
    tw_attr items[4];
    tw_named_attr named[4];
    unsigned n = below(r, 5), n_named = 0;
    for (unsigned i = 0; i < n; i++) {
        items[i] = random_attr(r, depth - 1);
        const char *name = random_name(r);
        bool seen = false;
        for (unsigned k = 0; k < n_named; k++)
            seen = seen || !strcmp(named[k].name, name);
        if (!seen)
            named[n_named++] = (tw_named_attr){name, items[i]};
    }
    return dict ? tw_attr_dict(r->ctx, named, n_named) : tw_attr_array(r->ctx, items, n);
}

static tw_attr random_attr_of(random_ir *r, tw_attr_kind kind, unsigned depth)
{
    switch (kind) {
    case TW_ATTR_BOOL:
        return tw_attr_bool(r->ctx, chance(r, 50));
    case TW_ATTR_INT:
        return tw_attr_int(r->ctx, random_int(r));
    case TW_ATTR_FLOAT:
        return random_float(r);
    case TW_ATTR_STRING:
        return random_string(r);
    case TW_ATTR_SYMBOL:
        return tw_attr_symbol(r->ctx, random_name(r));
    case TW_ATTR_TYPE:
        return tw_attr_type(r->ctx, random_type(r, depth));
    case TW_ATTR_ARRAY:
    case TW_ATTR_DICT:
        return depth ? random_list(r, depth, kind == TW_ATTR_DICT) : tw_attr_unit(r->ctx);
    case TW_ATTR_DENSE:
        return random_dense(r);
    case TW_ATTR_MAP:
        return random_map(r);
    default:
        return tw_attr_unit(r->ctx);
    }
}

static tw_attr random_attr(random_ir *r, unsigned depth)
{
    return random_attr_of(r, (tw_attr_kind)below(r, TW_ATTR_ANY), depth);
}

/* ---- Operations ---- */

static void random_ops(random_ir *r, tw_region *region, unsigned depth);

static tw_loc random_loc(random_ir *r)
{
    switch (below(r, 4)) {
    case 0:
        return NULL;
    case 1:
        return tw_loc_file(r->ctx, random_name(r), below(r, 100), below(r, 100));
    case 2:
        return tw_loc_node(r->ctx, NULL, random_name(r));
    default:
        return tw_loc_node(r->ctx, random_name(r), random_name(r));
    }
}

static unsigned random_count(random_ir *r, int wanted)
{
    return wanted >= 0 && chance(r, 90) ? (unsigned)wanted
                                        : below(r, 3) + (wanted < 0 ? (unsigned)(-1 - wanted) : 0);
}

static unsigned random_op_attrs(random_ir *r, const tw_op_def *def, tw_named_attr *attrs)
{
    unsigned n = 0;
    for (const tw_attr_spec *s = def->attrs; s && s->name && n < 16; s++)
        if (s->required ? chance(r, 95) : chance(r, 30))
            attrs[n++] = (tw_named_attr){s->name, chance(r, 95) && s->kind != TW_ATTR_ANY
                                                      ? random_attr_of(r, s->kind, 2)
                                                      : random_attr(r, 2)};
    if (chance(r, 20))
        attrs[n++] = (tw_named_attr){"extra.attribute", random_attr(r, 3)};
    return n;
}

/* The region's inside: values from around it are visible unless the operation is isolated. */
static void random_region(random_ir *r, tw_region *region, unsigned depth)
{
    size_t outer = r->visible.len;
    TW_VEC(tw_value *) hidden = {0};
    if (region->parent->def->traits & TW_TRAIT_ISOLATED) {
        memcpy(&hidden, &r->visible, sizeof hidden);
        memset(&r->visible, 0, sizeof r->visible);
    }
    for (unsigned i = 0; i < region->n_args; i++)
        tw_vec_push(tw_context_arena(r->ctx), &r->visible, region->args[i]);
    random_ops(r, region, depth);
    if (region->parent->def->traits & TW_TRAIT_ISOLATED)
        memcpy(&r->visible, &hidden, sizeof hidden);
    else
        r->visible.len = outer;
}

/* Arguments: of the number and kind that the custom syntax wants, mostly. */
static void random_args(random_ir *r, tw_op *op)
{
    tw_type index = tw_type_scalar(r->ctx, TW_INDEX);
    tw_attr iters = tw_op_attr(op, "iters");
    for (unsigned k = 0; k < op->n_regions; k++) {
        unsigned n = below(r, 3);
        bool wanted = chance(r, 90);
        if (tw_is_loop(op, TW_LOOP_FOR) && wanted)
            n = 1;
        if (tw_is_loop(op, TW_LOOP_BLOCK) && wanted && iters && iters->kind == TW_ATTR_ARRAY)
            n = (unsigned)iters->u.array.n;
        if (tw_is_core(op, TW_CORE_MODULE) && wanted)
            n = 0;
        for (unsigned i = 0; i < n; i++) {
            bool shared = tw_is_loop(op, TW_LOOP_BLOCK) && k && i < op->regions[0].n_args && wanted;
            tw_region_add_arg(&op->regions[k], wanted ? index : random_type(r, 2),
                              shared ? op->regions[0].args[i]->name : random_hint(r));
        }
    }
}

/* Attributes that the custom syntaxes of loops can show. */
static void fit_loop_attrs(random_ir *r, tw_op *op)
{
    tw_expr exprs[3];
    unsigned n = op->n_operands, iters = below(r, 4);
    tw_loop_access a;
    if (tw_loop_get_access(op, &a))
        n = a.n_index;
    for (unsigned i = 0; i < 3; i++)
        exprs[i] = random_expr(r, 2, n);
    static const char *const maps[] = {"index", "where", "bounds", "bindings", "expr"};
    for (unsigned i = 0; i < sizeof maps / sizeof *maps; i++)
        if (tw_op_attr(op, maps[i]))
            tw_op_set_attr(op, maps[i],
                           tw_attr_map(r->ctx, n, exprs,
                                       i == 2   ? 2
                                       : i == 4 ? 1
                                       : i == 3 ? iters
                                                : below(r, 4)));
    if (tw_op_attr(op, "kind"))
        tw_op_set_attr(op, "kind", tw_attr_string(r->ctx, chance(r, 50) ? "parallel" : "serial"));
    if (tw_is_loop(op, TW_LOOP_BLOCK)) {
        tw_attr kinds[3];
        for (unsigned i = 0; i < 3; i++) {
            exprs[i] = random_expr(r, 2, 0);
            kinds[i] = tw_attr_string(r->ctx, chance(r, 50) ? "reduce" : "spatial");
        }
        tw_op_set_attr(op, "extents", tw_attr_map(r->ctx, 0, exprs, iters));
        tw_op_set_attr(op, "iters", tw_attr_array(r->ctx, kinds, iters));
    }
}

/* A function whose arguments are those of its type, a group whose arguments are its operands. */
static void fit_signature(random_ir *r, tw_op *op)
{
    tw_type types[8];
    unsigned n = 0;
    if (tw_is_core(op, TW_CORE_FUNC) && op->n_regions) {
        for (unsigned i = 0; i < op->regions[0].n_args && n < 4; i++)
            types[n++] = op->regions[0].args[i]->type;
        types[n] = random_type(r, 2);
        tw_type type = tw_type_func(r->ctx, types, n, types + n, below(r, 2));
        tw_op_set_attr(op, "type", tw_attr_type(r->ctx, type));
    }
    if (tw_is_graph(op, TW_GRAPH_GROUP) && op->n_regions)
        while (op->regions[0].n_args < op->n_operands)
            tw_region_add_arg(&op->regions[0], tw_operand(op, op->regions[0].n_args)->type,
                              random_hint(r));
}

static void random_op(random_ir *r, tw_region *region, unsigned depth)
{
    const tw_dialect *dialect = tw_dialect_at(r->ctx, below(r, 3)); /* the last has types only */
    const tw_op_def *def = &dialect->ops[below(r, (unsigned)dialect->n_ops)];
    tw_value *operands[8];
    tw_type types[8];
    tw_named_attr attrs[20];
    unsigned n_operands = r->visible.len ? random_count(r, def->n_operands) : 0;
    unsigned n_results = random_count(r, def->n_results);
    unsigned n_regions = depth ? random_count(r, def->n_regions) : 0;
    for (unsigned i = 0; i < n_operands; i++)
        operands[i] = r->visible.data[below(r, (unsigned)r->visible.len)];
    for (unsigned i = 0; i < n_results; i++)
        types[i] = random_type(r, 3);
    unsigned n_attrs = random_op_attrs(r, def, attrs);
    if (tw_is_graph(&(tw_op){.def = def}, TW_GRAPH_CONSTANT) && n_results == 1 && n_attrs &&
        !strcmp(attrs[0].name, "value") && attrs[0].value->kind == TW_ATTR_DENSE)
        types[0] = attrs[0].value->u.dense.type;
    tw_op *op = tw_op_create(r->ctx, def, random_loc(r), operands, n_operands, types, n_results,
                             attrs, n_attrs, n_regions);
    tw_op_insert(op, region, NULL);
    if (!strcmp(dialect->name, "loop") && tw_op_fits_table(op) && chance(r, 90))
        fit_loop_attrs(r, op);
    random_args(r, op);
    if (chance(r, 80))
        fit_signature(r, op);
    for (unsigned i = 0; i < n_regions; i++)
        random_region(r, &op->regions[i], depth - 1);
    for (unsigned i = 0; i < n_results; i++) {
        tw_value_set_name(tw_result(op, i), random_hint(r));
        tw_vec_push(tw_context_arena(r->ctx), &r->visible, tw_result(op, i));
    }
}

static void random_ops(random_ir *r, tw_region *region, unsigned depth)
{
    unsigned n = 1 + below(r, 8);
    for (unsigned i = 0; i < n && r->budget; i++) {
        r->budget--;
        random_op(r, region, depth);
    }
}

/* A module of up to `ops` operations. */
static tw_op *random_module(random_ir *r, unsigned ops)
{
    tw_op *module = tw_core_module(r->ctx, chance(r, 50) ? NULL : random_name(r), NULL);
    r->budget = ops;
    r->visible.len = 0;
    while (r->budget)
        random_ops(r, &module->regions[0], 4);
    return module;
}

#endif
