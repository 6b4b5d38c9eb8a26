/* parse_op.c: operations, regions and whole texts. */
#include "base/suggest.h"
#include "ir/parse_impl.h"

#include <string.h>

/* ---- Regions ---- */

/* What a region's end takes back. */
typedef struct region_scope {
    size_t bindings;
    tw_namespace *space;
} region_scope;

static region_scope begin_scope(tw_parser *p, const tw_region *region)
{
    region_scope scope = {p->bindings.len, p->space};
    if (region->parent->def->traits & TW_TRAIT_ISOLATED) {
        p->space = TW_NEW(p->arena, tw_namespace);
        p->space->names = tw_map_make(p->arena);
        p->space->numbers = tw_map_make(p->arena);
    }
    return scope;
}

static void end_scope(tw_parser *p, region_scope scope)
{
    while (p->bindings.len > scope.bindings) {
        tw_binding b = p->bindings.data[--p->bindings.len];
        if (b.name)
            tw_map_put_str(&b.space->names, b.name, NULL);
        else
            tw_map_put(&b.space->numbers, &b.number, sizeof b.number, NULL);
    }
    p->space = scope.space;
}

/* Behind the opening brace and the arguments, which have these names. */
static bool parse_region_rest(tw_parser *p, tw_region *region, const tw_q_name *names)
{
    if (!tw_ps_enter(p))
        return false;
    region_scope scope = begin_scope(p, region);
    bool good = true;
    for (unsigned i = 0; good && i < region->n_args; i++)
        good = tw_ps_bind(p, names[i], region->args[i]);
    good = good && tw_ps_ops(p, region) && tw_q_expect(p, "}");
    end_scope(p, scope);
    return tw_ps_leave(p, good);
}

bool tw_q_region(tw_parser *p, tw_region *region, const tw_q_name *names)
{
    return tw_q_expect(p, "{") && parse_region_rest(p, region, names);
}

bool tw_q_double_region(tw_parser *p, const char *word, tw_region *inner, tw_region *region,
                        const tw_q_name *names)
{
    return tw_q_expect(p, "{") && (!tw_q_try(p, word) || tw_q_region(p, inner, names)) &&
           parse_region_rest(p, region, names);
}

bool tw_q_peek_arguments(tw_parser *p)
{
    tw_parse_mark mark = tw_ps_mark(p);
    bool arguments = tw_q_try(p, "(") && p->token.kind == TW_TOKEN_VALUE;
    tw_ps_reset(p, mark);
    return arguments;
}

bool tw_q_arguments(tw_parser *p, tw_q_name **names, tw_type **types, unsigned *n)
{
    TW_VEC(tw_q_name) all_names = {0};
    TW_VEC(tw_type) all_types = {0};
    if (!tw_q_expect(p, "("))
        return false;
    if (!tw_ps_is(p, ")"))
        do {
            tw_q_name name;
            tw_type type;
            if (!tw_q_new_name(p, &name) || !tw_q_expect(p, ":") || !tw_q_type(p, &type))
                return false;
            tw_vec_push(p->arena, &all_names, name);
            tw_vec_push(p->arena, &all_types, type);
        } while (tw_q_try(p, ","));
    *names = all_names.data;
    *types = all_types.data;
    *n = (unsigned)all_names.len;
    return tw_q_expect(p, ")");
}

static bool parse_generic_region(tw_parser *p, tw_region *region)
{
    tw_q_name *names = NULL;
    tw_type *types;
    unsigned n;
    if (!tw_q_expect(p, "{"))
        return false;
    if (tw_q_try(p, "^")) {
        if (!tw_q_arguments(p, &names, &types, &n) || !tw_q_expect(p, ":"))
            return false;
        for (unsigned i = 0; i < n; i++)
            tw_region_add_arg(region, types[i], names[i].hint);
    }
    return parse_region_rest(p, region, names);
}

/* ---- The generic form ---- */

/* Each region is read into an operation of its own, since the number is known at the end only. */
typedef struct generic_op {
    tw_value **operands;
    unsigned n_operands;
    tw_named_attr *attrs;
    size_t n_attrs;
    TW_VEC(tw_op *) regions;
    tw_type *types;
    unsigned n_types;
} generic_op;

static bool parse_generic_regions(tw_parser *p, const tw_op_def *def, generic_op *g)
{
    if (!tw_q_try(p, "("))
        return true;
    do {
        tw_op *holder = tw_op_create(p->ctx, def, NULL, NULL, 0, NULL, 0, NULL, 0, 1);
        if (!parse_generic_region(p, &holder->regions[0]))
            return false;
        tw_vec_push(p->arena, &g->regions, holder);
    } while (tw_q_try(p, ","));
    return tw_q_expect(p, ")");
}

static bool parse_result_types(tw_parser *p, tw_type **out, unsigned *n)
{
    *out = NULL;
    *n = 0;
    return !tw_q_try(p, ":") || tw_q_types(p, out, n);
}

static void move_region(tw_region *to, tw_region *from)
{
    to->args = from->args;
    to->n_args = from->n_args;
    for (unsigned i = 0; i < to->n_args; i++)
        to->args[i]->region = to;
    tw_region_splice(to, NULL, from);
}

bool tw_q_generic(tw_parser *p, const tw_op_def *def, tw_op **out)
{
    generic_op g = {0};
    tw_loc loc = tw_q_loc(p);
    if (!tw_q_values(p, &g.operands, &g.n_operands) ||
        (tw_ps_is(p, "{") && !tw_ps_named_attrs(p, &g.attrs, &g.n_attrs)) ||
        !parse_generic_regions(p, def, &g) || !parse_result_types(p, &g.types, &g.n_types))
        return false;
    *out = tw_op_create(p->ctx, def, loc, g.operands, g.n_operands, g.types, g.n_types, g.attrs,
                        (unsigned)g.n_attrs, (unsigned)g.regions.len);
    for (size_t i = 0; i < g.regions.len; i++)
        move_region(&(*out)->regions[i], &g.regions.data[i]->regions[0]);
    return true;
}

static bool add_attrs(tw_parser *p, tw_op *op, tw_loc loc, const tw_named_attr *attrs, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (tw_op_attr(op, attrs[i].name))
            return tw_ps_error_at(p, loc, "attribute '%s' is given by the syntax already",
                                  attrs[i].name);
        tw_op_set_attr(op, attrs[i].name, attrs[i].value);
    }
    return true;
}

bool tw_q_attrs(tw_parser *p, tw_op *op)
{
    tw_named_attr *attrs;
    size_t n;
    if (!tw_ps_is(p, "{"))
        return true;
    tw_loc loc = tw_q_loc(p);
    return tw_ps_named_attrs(p, &attrs, &n) && add_attrs(p, op, loc, attrs, n);
}

bool tw_q_attributes(tw_parser *p, tw_op *op)
{
    return !tw_q_try(p, "attributes") ||
           (tw_ps_is(p, "{") ? tw_q_attrs(p, op) : tw_ps_expected(p, "'{'"));
}

bool tw_q_tail(tw_parser *p, const tw_op_def *def, tw_value *const *operands, unsigned n_operands,
               const tw_named_attr *attrs, unsigned n_attrs, tw_op **out)
{
    tw_loc loc = tw_q_loc(p);
    tw_named_attr *given = NULL;
    size_t n_given = 0;
    tw_type *types;
    unsigned n_types;
    if ((tw_ps_is(p, "{") && !tw_ps_named_attrs(p, &given, &n_given)) ||
        !parse_result_types(p, &types, &n_types))
        return false;
    *out = tw_op_create(p->ctx, def, loc, operands, n_operands, types, n_types, attrs, n_attrs,
                        def->n_regions > 0 ? (unsigned)def->n_regions : 0);
    return add_attrs(p, *out, loc, given, n_given);
}

/* ---- Operations ---- */

static bool unknown_dialect(tw_parser *p, tw_loc loc, const char *name)
{
    tw_context *ctx = p->ctx;
    const char *known = "";
    for (size_t i = 0; i < ctx->dialects.len; i++)
        known =
            tw_arena_printf(p->arena, "%s%s%s", known, i ? ", " : "", ctx->dialects.data[i]->name);
    return tw_ps_error_at(p, loc, "there is no dialect '%s'; there are: %s", name, known);
}

/* Offers the operations of the dialect (NULL: of core, without their prefix). */
static bool unknown_op(tw_parser *p, tw_loc loc, const char *name, const tw_dialect *dialect)
{
    tw_suggestion near = {.name = name};
    const tw_dialect *from = dialect;
    for (size_t i = 0; !from && i < p->ctx->dialects.len; i++)
        if (!strcmp(p->ctx->dialects.data[i]->name, "core"))
            from = p->ctx->dialects.data[i];
    for (size_t i = 0; from && i < from->n_ops; i++)
        tw_suggest(&near, from->ops[i].name + (dialect ? 0 : strlen("core.")));
    return tw_ps_error_at(p, loc, "there is no operation '%s'%s%s%s", name,
                          near.best ? "; did you mean '" : "", near.best ? near.best : "",
                          near.best ? "'?" : "");
}

static bool unknown_name(tw_parser *p, tw_loc loc, const char *name)
{
    const char *dot = strchr(name, '.');
    if (!dot)
        return unknown_op(p, loc, name, NULL);
    const char *prefix = tw_arena_strndup(p->arena, name, (size_t)(dot - name));
    for (size_t i = 0; i < p->ctx->dialects.len; i++)
        if (!strcmp(p->ctx->dialects.data[i]->name, prefix))
            return unknown_op(p, loc, name, p->ctx->dialects.data[i]);
    return unknown_dialect(p, loc, prefix);
}

/* `graph.add`, `func`, or `"core.func"`: then the generic form follows in any case. */
static bool parse_op_name(tw_parser *p, const tw_op_def **def, bool *generic)
{
    tw_loc loc = tw_q_loc(p);
    const char *name;
    *generic = p->token.kind == TW_TOKEN_STRING;
    if (p->token.kind != TW_TOKEN_NAME && !*generic)
        return tw_ps_expected(p, "an operation");
    if (!tw_ps_name(p, &name))
        return false;
    *def = tw_op_def_find(p->ctx, name);
    if (!*def && !strchr(name, '.'))
        *def = tw_op_def_find(p->ctx, tw_arena_printf(p->arena, "core.%s", name));
    return *def || unknown_name(p, loc, name);
}

/* The rest of `loc("file":3:4)`, `loc("node")`, `loc("node" in "file")`, `loc(unknown)`. */
static bool parse_location(tw_parser *p, tw_loc *out)
{
    const char *text, *file = NULL;
    int64_t line, column;
    *out = NULL;
    if (!tw_q_expect(p, "("))
        return false;
    if (tw_q_try(p, "unknown"))
        return tw_q_expect(p, ")");
    if (!tw_q_string(p, &text))
        return false;
    if (tw_q_try(p, ":")) {
        tw_loc loc = tw_q_loc(p);
        if (!tw_q_int(p, &line) || !tw_q_expect(p, ":") || !tw_q_int(p, &column))
            return false;
        if (line < 0 || line > UINT32_MAX || column < 0 || column > UINT32_MAX)
            return tw_ps_error_at(p, loc, "line and column are 32-bit numbers");
        *out = tw_loc_file(p->ctx, text, (unsigned)line, (unsigned)column);
    } else {
        if (tw_q_try(p, "in") && !tw_q_string(p, &file))
            return false;
        *out = tw_loc_node(p->ctx, file, text);
    }
    return tw_q_expect(p, ")");
}

/* `%a, %b =` if it is there. */
static bool parse_result_names(tw_parser *p, tw_q_name **out, unsigned *n)
{
    TW_VEC(tw_q_name) names = {0};
    if (p->token.kind == TW_TOKEN_VALUE) {
        do {
            tw_q_name name;
            if (!tw_q_new_name(p, &name))
                return false;
            tw_vec_push(p->arena, &names, name);
        } while (tw_q_try(p, ","));
        if (!tw_q_expect(p, "="))
            return false;
    }
    *out = names.data;
    *n = (unsigned)names.len;
    return true;
}

static bool bind_results(tw_parser *p, tw_op *op, tw_loc at, const tw_q_name *names, unsigned n)
{
    if (op->n_results != n)
        return tw_ps_error_at(p, at, "%s has %u results, and %u names stand before '='",
                              op->def->name, op->n_results, n);
    for (unsigned i = 0; i < n; i++) {
        op->results[i].name = names[i].hint;
        if (!tw_ps_bind(p, names[i], &op->results[i]))
            return false;
    }
    return true;
}

static bool parse_op(tw_parser *p, tw_region *region)
{
    tw_q_name *names;
    unsigned n_names, outer_count = p->result_count;
    const tw_op_def *def;
    tw_op *op = NULL;
    bool generic;
    if (!parse_result_names(p, &names, &n_names))
        return false;
    tw_loc at = tw_q_loc(p), loc = at;
    if (!parse_op_name(p, &def, &generic))
        return false;
    p->result_count = n_names;
    bool good = def->parse && !generic ? def->parse(p, def, &op) : tw_q_generic(p, def, &op);
    p->result_count = outer_count;
    if (!good || p->failed)
        return tw_q_error(p, "%s is not written like this", def->name);
    if (tw_q_try(p, "loc") && !parse_location(p, &loc))
        return false;
    op->loc = loc;
    tw_op_insert(op, region, NULL);
    return bind_results(p, op, at, names, n_names);
}

bool tw_ps_ops(tw_parser *p, tw_region *region)
{
    while (!tw_ps_is(p, "}") && p->token.kind != TW_TOKEN_END)
        if (!parse_op(p, region))
            return false;
    return true;
}

/* ---- Whole texts ---- */

tw_op *tw_parse(tw_context *ctx, const char *text, size_t len, const char *file)
{
    const tw_op_def *module_def = tw_op_def_find(ctx, "core.module");
    if (!module_def) {
        tw_error(ctx, NULL, "the core dialect is not registered");
        return NULL;
    }
    tw_parser p = tw_ps_make(ctx, text, len, file);
    tw_op *module =
        tw_op_create(ctx, module_def, tw_loc_file(ctx, file, 1, 1), NULL, 0, NULL, 0, NULL, 0, 1);
    if (!tw_ps_ops(&p, &module->regions[0]))
        return NULL;
    if (p.token.kind != TW_TOKEN_END) {
        tw_ps_expected(&p, "an operation");
        return NULL;
    }
    tw_op *only = module->regions[0].first;
    if (!only || only->next || only->def != module_def)
        return module;
    tw_op_remove(only);
    return only;
}

/* Parses a piece and requires that nothing follows. */
static bool whole(tw_parser *p, bool good)
{
    return good && (p->token.kind == TW_TOKEN_END || tw_ps_expected(p, "the end of the text"));
}

tw_type tw_parse_type(tw_context *ctx, const char *text)
{
    tw_parser p = tw_ps_make(ctx, text, strlen(text), "<type>");
    tw_type type;
    return whole(&p, tw_q_type(&p, &type)) ? type : NULL;
}

tw_attr tw_parse_attr(tw_context *ctx, const char *text)
{
    tw_parser p = tw_ps_make(ctx, text, strlen(text), "<attribute>");
    tw_attr attr;
    return whole(&p, tw_q_attr(&p, &attr)) ? attr : NULL;
}
