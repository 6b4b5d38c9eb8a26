/* rules.c: reads rule lines into trees, matches them against operations, builds replacements.
 *
 * Commutative operations: the whole tree is tried once for each choice of orders, a bit of a mask
 * for each commutative node; the trees are small, so there are few choices. */
#include "transform/rules.h"

#include "base/arena.h"
#include "base/vec.h"
#include "dialect/graph/graph.h"
#include "transform/constants.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ARGS = 3, MAX_ATTRS = 4, MAX_VARS = 8, MAX_DEPTH = 16, MAX_COMMUTATIVE = 6 };

typedef enum node_kind { NODE_OP, NODE_VAR, NODE_NUMBER } node_kind;

typedef struct node {
    node_kind kind;
    const tw_op_def *def; /* OP */
    struct node *args[MAX_ARGS];
    unsigned n_args, n_attrs;
    bool any_attrs; /* `{*}` */
    tw_named_attr attrs[MAX_ATTRS];
    int commutative; /* number of its bit in the mask, or -1 */
    unsigned var;    /* VAR */
    double number;   /* NUMBER */
    bool nearly;
} node;

typedef struct compiled_rule {
    const tw_rule *rule;
    const node *match, *replacement;
    unsigned n_commutative;
} compiled_rule;

/* ---- Reading ---- */

typedef struct reader {
    tw_context *ctx;
    const char *at;
    const char *vars[MAX_VARS];
    unsigned n_vars, n_commutative;
} reader;

static void skip_blanks(reader *r)
{
    while (isspace((unsigned char)*r->at))
        r->at++;
}

static bool try_char(reader *r, char c)
{
    skip_blanks(r);
    if (*r->at != c)
        return false;
    r->at++;
    return true;
}

static const char *read_word(reader *r)
{
    skip_blanks(r);
    const char *begin = r->at;
    while (isalnum((unsigned char)*r->at) || *r->at == '_')
        r->at++;
    return tw_intern(r->ctx, begin, (size_t)(r->at - begin));
}

static bool read_var(reader *r, const char *name, node *out)
{
    out->kind = NODE_VAR;
    for (out->var = 0; out->var < r->n_vars; out->var++)
        if (r->vars[out->var] == name)
            return true;
    if (!*name || r->n_vars == MAX_VARS)
        return false;
    r->vars[r->n_vars++] = name;
    return true;
}

static bool read_number(reader *r, node *out)
{
    out->kind = NODE_NUMBER;
    out->nearly = try_char(r, '~');
    char *end;
    out->number = strtod(r->at, &end);
    bool fine = end != r->at;
    r->at = end;
    return fine;
}

/* `name=value …}` after the brace: true, false, an integer, a float or a string; or `*}`. */
static bool read_attrs(reader *r, node *out)
{
    out->any_attrs = try_char(r, '*');
    while (!try_char(r, '}')) {
        if (out->n_attrs == MAX_ATTRS)
            return false;
        tw_named_attr *a = &out->attrs[out->n_attrs++];
        a->name = read_word(r);
        if (!*a->name || !try_char(r, '='))
            return false;
        skip_blanks(r);
        size_t len = strcspn(r->at, " ,}");
        a->value = tw_parse_attr(r->ctx, tw_intern(r->ctx, r->at, len));
        r->at += len;
        if (!a->value)
            return false;
        try_char(r, ',');
    }
    return true;
}

static node *read_node(reader *r, unsigned depth)
{
    tw_arena *arena = tw_context_arena(r->ctx);
    node *out = TW_NEW(arena, node);
    out->commutative = -1;
    skip_blanks(r);
    if (depth > MAX_DEPTH)
        return NULL;
    if (isdigit((unsigned char)*r->at) || strchr("~-", *r->at))
        return read_number(r, out) ? out : NULL;
    const char *word = read_word(r);
    if (*r->at != '(' && *r->at != '{')
        return read_var(r, word, out) ? out : NULL;
    out->kind = NODE_OP;
    out->def = tw_op_def_find(r->ctx, tw_arena_printf(arena, "graph.%s", word));
    if (!out->def || (try_char(r, '{') && !read_attrs(r, out)) || !try_char(r, '('))
        return NULL;
    if (out->def->traits & TW_TRAIT_COMMUTATIVE)
        out->commutative = (int)r->n_commutative++;
    while (!try_char(r, ')')) {
        if (out->n_args == MAX_ARGS || !(out->args[out->n_args++] = read_node(r, depth + 1)))
            return NULL;
        try_char(r, ',');
    }
    return out;
}

/* ---- Matching ---- */

typedef struct match_state {
    const tw_value *vars[MAX_VARS];
    unsigned mask; /* bit i: commutative node i takes its operands swapped */
} match_state;

static bool match_number(const node *n, const tw_value *value)
{
    tw_elem elem;
    double found;
    if (!tw_constant_splat(value, &elem, &found))
        return false;
    if (!n->nearly)
        return found == n->number && signbit(found) == signbit(n->number);
    double tolerance = tw_elem_bits(elem) >= 32 ? 1e-6 : 4e-3;
    return fabs(found - n->number) <= tolerance * fabs(n->number);
}

static bool is_default(tw_attr value)
{
    return value->kind == TW_ATTR_BOOL && !value->u.integer;
}

static bool match_attrs(const node *n, const tw_op *op)
{
    unsigned seen = 0;
    if (n->any_attrs)
        return true;
    for (unsigned i = 0; i < op->n_attrs; i++) {
        tw_attr wanted = NULL, found = op->attrs[i].value;
        for (unsigned k = 0; k < n->n_attrs; k++)
            if (n->attrs[k].name == op->attrs[i].name)
                wanted = n->attrs[k].value;
        bool near = wanted && wanted->kind == TW_ATTR_FLOAT && found->kind == TW_ATTR_FLOAT &&
                    fabs(wanted->u.real - found->u.real) <= 1e-6 * fabs(wanted->u.real);
        if (wanted ? wanted != found && !near : !is_default(found))
            return false;
        seen += wanted != NULL;
    }
    return seen == n->n_attrs;
}

static bool match_value(match_state *m, const node *n, const tw_value *value);

static bool match_op(match_state *m, const node *n, const tw_op *op)
{
    if (op->def != n->def || op->n_operands != n->n_args || !match_attrs(n, op))
        return false;
    bool swap = n->commutative >= 0 && m->mask >> n->commutative & 1;
    for (unsigned i = 0; i < n->n_args; i++)
        if (!match_value(m, n->args[i], tw_operand(op, swap && i < 2 ? 1 - i : i)))
            return false;
    return true;
}

static bool match_value(match_state *m, const node *n, const tw_value *value)
{
    switch (n->kind) {
    case NODE_OP:
        return value->op && match_op(m, n, value->op);
    case NODE_NUMBER:
        return match_number(n, value);
    case NODE_VAR:
        if (!m->vars[n->var])
            m->vars[n->var] = value;
        return m->vars[n->var] == value;
    }
    return false;
}

static bool in_domain(tw_rule_domain domain, tw_elem elem)
{
    switch (domain) {
    case TW_RULE_ANY:
        return true;
    case TW_RULE_FLOAT:
        return tw_elem_is_float(elem);
    case TW_RULE_INT:
        return tw_elem_is_int(elem);
    case TW_RULE_BOOL:
        return elem == TW_BOOL;
    }
    return false;
}

/* ---- Replacing ---- */

static bool carries_its_type(const tw_op_def *def)
{
    return def->kind == TW_GRAPH_RESHAPE || def->kind == TW_GRAPH_EXPAND ||
           def->kind == TW_GRAPH_CAST;
}

static tw_type node_type(tw_context *ctx, const node *n, const match_state *m, tw_type wanted,
                         tw_elem elem);

/* The element type of an element-wise node whose first operand has type `first`. */
static tw_elem result_elem(tw_context *ctx, const node *n, const match_state *m, tw_elem first,
                           tw_elem elem)
{
    switch ((tw_graph_kind)n->def->kind) {
    case TW_GRAPH_IS_NAN:
    case TW_GRAPH_IS_INF:
    case TW_GRAPH_EQUAL:
    case TW_GRAPH_LESS:
    case TW_GRAPH_LESS_EQUAL:
    case TW_GRAPH_GREATER:
    case TW_GRAPH_GREATER_EQUAL:
        return TW_BOOL;
    case TW_GRAPH_WHERE:
        return node_type(ctx, n->args[1], m, NULL, elem)->elem;
    default:
        return first;
    }
}

/* The type that a node would have, or NULL; `wanted` is the root's for the root, else NULL. */
static tw_type node_type(tw_context *ctx, const node *n, const match_state *m, tw_type wanted,
                         tw_elem elem)
{
    if (n->kind == NODE_VAR)
        return m->vars[n->var]->type;
    if (n->kind == NODE_NUMBER)
        return tw_type_tensor(ctx, elem, 0, NULL, NULL);
    tw_type type = NULL;
    for (unsigned i = 0; i < n->n_args; i++) {
        tw_type arg = node_type(ctx, n->args[i], m, NULL, elem);
        type = !arg ? NULL : i && type ? tw_graph_broadcast_type(ctx, type, arg) : arg;
        if (!type)
            return NULL;
    }
    if (carries_its_type(n->def))
        return wanted;
    if (!type || !(n->def->traits & TW_TRAIT_ELEMENTWISE))
        return NULL;
    return tw_type_tensor(ctx, result_elem(ctx, n, m, type->elem, elem), type->rank, type->dims,
                          NULL);
}

/* Builds a node that has a type. */
static tw_value *build(tw_builder *b, const node *n, const match_state *m, tw_type wanted,
                       tw_elem elem)
{
    if (n->kind == NODE_VAR)
        return (tw_value *)m->vars[n->var];
    if (n->kind == NODE_NUMBER)
        return tw_graph_scalar(b, elem, n->number);
    tw_value *args[MAX_ARGS] = {0};
    for (unsigned i = 0; i < n->n_args; i++)
        args[i] = build(b, n->args[i], m, NULL, elem);
    tw_type type = node_type(b->ctx, n, m, wanted, elem);
    tw_op *op =
        tw_op_create(b->ctx, n->def, b->loc, args, n->n_args, &type, 1, n->attrs, n->n_attrs, 0);
    tw_op_insert(op, b->region, b->before);
    return tw_result(op, 0);
}

static bool apply_function(tw_rewriter *rw, tw_op *op, const void *data)
{
    const compiled_rule *c = data;
    return c->rule->apply(rw, op);
}

static bool apply_tree(tw_rewriter *rw, tw_op *op, const void *data)
{
    const compiled_rule *c = data;
    tw_type type = op->results[0].type;
    for (unsigned mask = 0; mask < 1u << c->n_commutative; mask++) {
        match_state m = {.mask = mask};
        if (!match_op(&m, c->match, op))
            continue;
        tw_elem elem = m.vars[0]->type->elem;
        if (!in_domain(c->rule->domain, elem) ||
            node_type(tw_rw_context(rw), c->replacement, &m, type, elem) != type)
            continue;
        tw_value *value = build(tw_rw_builder(rw, op), c->replacement, &m, type, elem);
        tw_rw_replace(rw, op, &value);
        return true;
    }
    return false;
}

/* ---- Compiling ---- */

/* A rule with a function: only the root operation's name is read. */
static const tw_op_def *read_root(reader *r)
{
    const char *word = read_word(r);
    return tw_op_def_find(r->ctx, tw_arena_printf(tw_context_arena(r->ctx), "graph.%s", word));
}

static bool compile_rule(tw_context *ctx, const tw_rule *rule, tw_pattern *out)
{
    tw_arena *arena = tw_context_arena(ctx);
    compiled_rule *c = TW_NEW(arena, compiled_rule);
    c->rule = rule;
    reader left = {.ctx = ctx, .at = rule->match};
    *out = (tw_pattern){.name = tw_arena_printf(arena, "%s -> %s: %s", rule->match,
                                                rule->replacement, rule->reason),
                        .benefit = 1,
                        .data = c};
    if (rule->apply) {
        out->apply = apply_function;
        out->root = rule->match[0] == '*' ? NULL : read_root(&left);
        return out->root || rule->match[0] == '*' ||
               tw_error(ctx, NULL, "rule '%s': unknown operation", rule->match);
    }
    c->match = read_node(&left, 0);
    c->n_commutative = left.n_commutative;
    reader right = left;
    right.at = rule->replacement;
    c->replacement = read_node(&right, 0);
    skip_blanks(&left);
    skip_blanks(&right);
    if (!c->match || c->match->kind != NODE_OP || *left.at || !c->replacement || *right.at ||
        right.n_vars != left.n_vars || !left.n_vars || c->n_commutative > MAX_COMMUTATIVE)
        return tw_error(ctx, NULL, "rule '%s' -> '%s' is malformed", rule->match,
                        rule->replacement);
    out->apply = apply_tree;
    out->root = c->match->def;
    return true;
}

bool tw_rules_compile(tw_context *ctx, const tw_rule *const *tables, size_t n, tw_rule_set *out)
{
    TW_VEC(tw_pattern) patterns = {0};
    for (size_t i = 0; i < n; i++)
        for (const tw_rule *rule = tables[i]; rule->match; rule++) {
            tw_pattern p;
            if (!compile_rule(ctx, rule, &p))
                return false;
            tw_vec_push(tw_context_arena(ctx), &patterns, p);
        }
    *out = (tw_rule_set){patterns.data, patterns.len};
    return true;
}
