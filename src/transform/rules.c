/* rules.c: reads rule lines into trees, matches them against operations, builds replacements.
 *
 * Commutative operations: the tree is tried for each choice of orders, a bit of a mask for each
 * commutative node, the first one met being the highest; choices that differ only in nodes that a
 * failed trial did not come to are left out. */
#include "transform/rules.h"

#include "base/arena.h"
#include "base/vec.h"
#include "dialect/graph/graph.h"
#include "transform/constants.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ARGS = 3, MAX_ATTRS = 4, MAX_VARS = 12, MAX_DEPTH = 16, MAX_COMMUTATIVE = 12 };
enum { NO_VAR = -1 };

typedef enum node_kind { NODE_OP, NODE_VAR, NODE_NUMBER, NODE_ANY_NUMBER } node_kind;

/* An attribute: a value, or what a name stands for. */
typedef struct attr_node {
    const char *name;
    tw_attr value;
    int var;     /* or NO_VAR */
    bool first;  /* `A[0]` */
    bool number; /* `#e` */
} attr_node;

typedef struct node {
    node_kind kind;
    const tw_op_def *def; /* OP */
    struct node *args[MAX_ARGS];
    unsigned n_args, n_attrs;
    bool any_attrs; /* `{*}` */
    attr_node attrs[MAX_ATTRS];
    int commutative; /* its place among the commutative nodes, or -1 */
    int var;         /* VAR, ANY_NUMBER, and OP when it has a name */
    double number;   /* NUMBER */
    bool nearly;
} node;

/* ---- Reading ---- */

typedef struct reader {
    tw_context *ctx;
    const char *at;
    const char *vars[MAX_VARS];
    unsigned n_vars, n_commutative;
} reader;

typedef struct compiled_rule {
    const tw_rule *rule;
    const node *match, *replacement;
    const reader *names; /* of the left side */
} compiled_rule;

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

/* The number of the name, which may be new; NO_VAR when there is none or too many. */
static int read_var(reader *r, const char *name)
{
    for (unsigned i = 0; i < r->n_vars; i++)
        if (r->vars[i] == name)
            return (int)i;
    if (!*name || r->n_vars == MAX_VARS)
        return NO_VAR;
    r->vars[r->n_vars] = name;
    return (int)r->n_vars++;
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

/* true, false, an integer, a float, a string, `A`, `A[0]` or `#e`. */
static bool read_attr_value(reader *r, attr_node *a)
{
    a->var = NO_VAR;
    a->number = try_char(r, '#');
    if (a->number || isupper((unsigned char)*r->at)) {
        a->var = read_var(r, read_word(r));
        a->first = try_char(r, '[');
        return a->var != NO_VAR && (!a->first || (try_char(r, '0') && try_char(r, ']')));
    }
    size_t len = strcspn(r->at, " ,}");
    a->value = tw_parse_attr(r->ctx, tw_intern(r->ctx, r->at, len));
    r->at += len;
    return a->value != NULL;
}

/* `name=value …}` after the brace; or `*}`. */
static bool read_attrs(reader *r, node *out)
{
    out->any_attrs = try_char(r, '*');
    while (!try_char(r, '}')) {
        if (out->n_attrs == MAX_ATTRS)
            return false;
        attr_node *a = &out->attrs[out->n_attrs++];
        a->name = read_word(r);
        if (!*a->name || !try_char(r, '=') || !read_attr_value(r, a))
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
    out->var = NO_VAR;
    skip_blanks(r);
    if (depth > MAX_DEPTH)
        return NULL;
    if (isdigit((unsigned char)*r->at) || strchr("~-", *r->at))
        return read_number(r, out) ? out : NULL;
    bool number = try_char(r, '#');
    const char *word = read_word(r);
    if (try_char(r, ':')) {
        out->var = read_var(r, word);
        word = read_word(r);
        if (out->var == NO_VAR)
            return NULL;
    } else if (*r->at != '(' && *r->at != '{') {
        out->kind = number ? NODE_ANY_NUMBER : NODE_VAR;
        out->var = read_var(r, word);
        return out->var == NO_VAR ? NULL : out;
    }
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

struct tw_rule_match {
    const reader *names;
    const tw_op *root;
    const tw_value *values[MAX_VARS];
    tw_attr attrs[MAX_VARS];
    double numbers[MAX_VARS];
    bool has_number[MAX_VARS];
    unsigned mask; /* bit n_commutative - 1 - i: commutative node i takes its operands swapped */
    int deepest;   /* the last commutative node that was come to */
};

static unsigned find_name(const tw_rule_match *m, const char *name)
{
    unsigned i = 0;
    while (i + 1 < m->names->n_vars && strcmp(m->names->vars[i], name) != 0)
        i++;
    return i;
}

const tw_op *tw_rule_op(const tw_rule_match *m)
{
    return m->root;
}

const tw_value *tw_rule_value(const tw_rule_match *m, const char *name)
{
    return m->values[find_name(m, name)];
}

tw_attr tw_rule_attr(const tw_rule_match *m, const char *name)
{
    return m->attrs[find_name(m, name)];
}

double tw_rule_number(const tw_rule_match *m, const char *name)
{
    return m->numbers[find_name(m, name)];
}

/* What "nearly" allows: a few roundings of the element type. */
static bool is_near(tw_elem elem, double found, double wanted)
{
    double tolerance = elem == TW_F64    ? 0x1p-50
                       : elem == TW_F16  ? 0x1p-9
                       : elem == TW_BF16 ? 0x1p-6
                                         : 0x1p-22;
    return fabs(found - wanted) <= tolerance * fabs(wanted);
}

static bool match_number(const node *n, const tw_value *value)
{
    tw_elem elem;
    double found;
    if (!tw_constant_splat(value, &elem, &found))
        return false;
    if (!n->nearly)
        return found == n->number && signbit(found) == signbit(n->number);
    return is_near(elem, found, n->number);
}

static bool match_any_number(tw_rule_match *m, const node *n, const tw_value *value)
{
    tw_elem elem;
    double found;
    if (!tw_constant_splat(value, &elem, &found) || !isfinite(found) ||
        (m->has_number[n->var] && m->numbers[n->var] != found))
        return false;
    m->has_number[n->var] = true;
    m->numbers[n->var] = found;
    return true;
}

static bool is_default(tw_attr value)
{
    return value->kind == TW_ATTR_BOOL && !value->u.integer;
}

static bool match_attr(tw_rule_match *m, const attr_node *wanted, tw_attr found, tw_elem elem)
{
    if (wanted->var != NO_VAR) {
        if (!m->attrs[wanted->var])
            m->attrs[wanted->var] = found;
        return m->attrs[wanted->var] == found;
    }
    return wanted->value == found ||
           (wanted->value->kind == TW_ATTR_FLOAT && found->kind == TW_ATTR_FLOAT &&
            is_near(elem, found->u.real, wanted->value->u.real));
}

static bool match_attrs(tw_rule_match *m, const node *n, const tw_op *op)
{
    unsigned seen = 0;
    tw_elem elem = op->results[0].type->elem;
    if (n->any_attrs)
        return true;
    for (unsigned i = 0; i < op->n_attrs; i++) {
        const attr_node *wanted = NULL;
        for (unsigned k = 0; k < n->n_attrs; k++)
            if (n->attrs[k].name == op->attrs[i].name)
                wanted = &n->attrs[k];
        if (wanted ? !match_attr(m, wanted, op->attrs[i].value, elem)
                   : !is_default(op->attrs[i].value))
            return false;
        seen += wanted != NULL;
    }
    return seen == n->n_attrs;
}

static bool match_value(tw_rule_match *m, const node *n, const tw_value *value);

static bool match_op(tw_rule_match *m, const node *n, const tw_op *op)
{
    if (op->def != n->def || op->n_operands != n->n_args || !match_attrs(m, n, op))
        return false;
    bool swap = false;
    if (n->commutative >= 0) {
        m->deepest = n->commutative;
        swap = m->mask >> (m->names->n_commutative - 1 - (unsigned)n->commutative) & 1;
    }
    for (unsigned i = 0; i < n->n_args; i++)
        if (!match_value(m, n->args[i], tw_operand(op, swap && i < 2 ? 1 - i : i)))
            return false;
    return true;
}

/* Whether the name may stand for the value, as it does from then on. */
static bool bind_value(tw_rule_match *m, int var, const tw_value *value)
{
    if (!m->values[var])
        m->values[var] = value;
    return m->values[var] == value;
}

static bool match_value(tw_rule_match *m, const node *n, const tw_value *value)
{
    switch (n->kind) {
    case NODE_OP:
        return value->op && (n->var == NO_VAR || bind_value(m, n->var, value)) &&
               match_op(m, n, value->op);
    case NODE_NUMBER:
        return match_number(n, value);
    case NODE_ANY_NUMBER:
        return match_any_number(m, n, value);
    case NODE_VAR:
        return bind_value(m, n->var, value);
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
           def->kind == TW_GRAPH_CAST || def->kind == TW_GRAPH_REDUCE_MEAN ||
           def->kind == TW_GRAPH_REDUCE_SUM || def->kind == TW_GRAPH_REDUCE_MAX;
}

/* What has the type of its first operand. */
static bool is_like_first(const tw_op_def *def)
{
    return def->kind == TW_GRAPH_SOFTMAX || def->kind == TW_GRAPH_LOG_SOFTMAX ||
           def->kind == TW_GRAPH_LAYER_NORM || def->kind == TW_GRAPH_RMS_NORM;
}

static tw_type node_type(tw_context *ctx, const node *n, const tw_rule_match *m, tw_type wanted,
                         tw_elem elem);

/* The element type of an element-wise node whose first operand has type `first`. */
static tw_elem result_elem(tw_context *ctx, const node *n, const tw_rule_match *m, tw_elem first,
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
static tw_type node_type(tw_context *ctx, const node *n, const tw_rule_match *m, tw_type wanted,
                         tw_elem elem)
{
    if (n->kind == NODE_VAR)
        return m->values[n->var]->type;
    if (n->kind != NODE_OP)
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
    if (is_like_first(n->def))
        return type;
    if (!type || !(n->def->traits & TW_TRAIT_ELEMENTWISE))
        return NULL;
    return tw_type_tensor(ctx, result_elem(ctx, n, m, type->elem, elem), type->rank, type->dims,
                          type->layout);
}

static tw_attr build_attr(tw_context *ctx, const attr_node *a, const tw_rule_match *m)
{
    if (a->number)
        return tw_attr_float(ctx, m->numbers[a->var]);
    if (a->var == NO_VAR)
        return a->value;
    return a->first ? m->attrs[a->var]->u.array.items[0] : m->attrs[a->var];
}

/* Builds a node that has a type. */
static tw_value *build(tw_builder *b, const node *n, const tw_rule_match *m, tw_type wanted,
                       tw_elem elem)
{
    if (n->kind == NODE_VAR)
        return (tw_value *)m->values[n->var];
    if (n->kind != NODE_OP)
        return tw_graph_scalar(b, elem, n->kind == NODE_NUMBER ? n->number : m->numbers[n->var]);
    tw_value *args[MAX_ARGS] = {0};
    tw_named_attr attrs[MAX_ATTRS];
    for (unsigned i = 0; i < n->n_attrs; i++)
        attrs[i] = (tw_named_attr){n->attrs[i].name, build_attr(b->ctx, &n->attrs[i], m)};
    for (unsigned i = 0; i < n->n_args; i++)
        args[i] = build(b, n->args[i], m, NULL, elem);
    tw_type type = node_type(b->ctx, n, m, wanted, elem);
    tw_op *op =
        tw_op_create(b->ctx, n->def, b->loc, args, n->n_args, &type, 1, attrs, n->n_attrs, 0);
    tw_op_insert(op, b->region, b->before);
    return tw_result(op, 0);
}

static bool apply_function(tw_rewriter *rw, tw_op *op, const void *data)
{
    const compiled_rule *c = data;
    return c->rule->apply(rw, op);
}

/* The element type of what the first letter stands for. */
static tw_elem first_elem(const tw_rule_match *m)
{
    unsigned i = 0;
    while (!m->values[i])
        i++;
    return m->values[i]->type->elem;
}

static bool applies(tw_context *ctx, const compiled_rule *c, tw_rule_match *m)
{
    if (!match_op(m, c->match, m->root))
        return false;
    m->deepest = (int)c->names->n_commutative - 1;
    tw_type type = m->root->results[0].type;
    tw_elem elem = first_elem(m);
    return in_domain(c->rule->domain, elem) && (!c->rule->when || c->rule->when(m)) &&
           node_type(ctx, c->replacement, m, type, elem) == type;
}

static bool apply_tree(tw_rewriter *rw, tw_op *op, const void *data)
{
    const compiled_rule *c = data;
    unsigned n = c->names->n_commutative;
    for (unsigned mask = 0; mask < 1u << n;) {
        tw_rule_match m = {.names = c->names, .root = op, .mask = mask, .deepest = -1};
        if (applies(tw_rw_context(rw), c, &m)) {
            tw_type type = op->results[0].type;
            tw_value *value =
                build(tw_rw_builder(rw, op), c->replacement, &m, type, first_elem(&m));
            tw_rw_replace(rw, op, &value);
            return true;
        }
        unsigned step = m.deepest < 0 ? 1u << n : 1u << (n - 1 - (unsigned)m.deepest);
        mask = (mask / step + 1) * step;
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
    reader left = {.ctx = ctx, .at = rule->match}, *names = TW_NEW(arena, reader);
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
    *names = left;
    c->names = names;
    reader right = left;
    right.at = rule->replacement;
    c->replacement = read_node(&right, 0);
    skip_blanks(&left);
    skip_blanks(&right);
    if (!c->match || c->match->kind != NODE_OP || *left.at || !c->replacement || *right.at ||
        right.n_vars != left.n_vars || !left.n_vars || left.n_commutative > MAX_COMMUTATIVE)
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
