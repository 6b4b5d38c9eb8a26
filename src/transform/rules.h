/* rules.h: rewrite rules as lines of a table: what to look for, what stands for it, and why.
 *
 *   TW_RULE("mul(x, sigmoid(x))", "silu(x)", FLOAT, "the definition"),
 *
 * Left side: operations of the graph dialect without their prefix; `x` is any value (the same
 * letter the same value), `d:sub(x, y)` one that is made so; `1`, `-0`, `0.5` a constant whose
 * elements all are exactly that, `~1.41421` that but for a few roundings, `#e` any finite number;
 * `op{name=1 other=true mode="edge"}` wants these attributes, `op{axes=A}` takes any (the same
 * capital the same attribute). An attribute that is not named must be absent or false; `op{*}`
 * takes any. Operands of commutative operations match in both orders. Right side: the same
 * language, numbers being rank-0 constants of the first letter's element type; `op{axis=A[0]
 * epsilon=#e}` is the first element of an attribute and a number as attribute; what carries a type
 * of its own (a reshape, expand, cast, reduction) at its root has that of what it replaces. A rule
 * applies only when its condition holds, and the replacement has exactly the type of what it
 * replaces.
 *
 * What the language cannot say is a function; then the left side's root alone counts, the rest of
 * the two sides is for the reader. */
#ifndef TW_TRANSFORM_RULES_H
#define TW_TRANSFORM_RULES_H

#include "tilewright/ir.h"

/* The element types of the first letter on the left for which a rule is right; for rules with a
 * function, ANY. */
typedef enum tw_rule_domain {
    TW_RULE_ANY,
    TW_RULE_FLOAT,
    TW_RULE_INT,
    TW_RULE_BOOL,
} tw_rule_domain;

/* What a left side was found to be; names as in the rule. */
typedef struct tw_rule_match tw_rule_match;

const tw_op *tw_rule_op(const tw_rule_match *m); /* the root */
const tw_value *tw_rule_value(const tw_rule_match *m, const char *name);
tw_attr tw_rule_attr(const tw_rule_match *m, const char *name);
double tw_rule_number(const tw_rule_match *m, const char *name);

typedef struct tw_rule {
    const char *match, *replacement;
    tw_rule_domain domain;
    const char *reason;
    bool (*apply)(tw_rewriter *rw, tw_op *op); /* NULL: as the two sides say */
    bool (*when)(const tw_rule_match *m);      /* NULL: always */
} tw_rule;

/* A line of a table; `.when` and `.apply` may follow the reason. */
#define TW_RULE(MATCH, REPLACEMENT, DOMAIN, REASON, ...)                                           \
    {.match = MATCH,                                                                               \
     .replacement = REPLACEMENT,                                                                   \
     .domain = TW_RULE_##DOMAIN,                                                                   \
     .reason = REASON,                                                                             \
     __VA_ARGS__}

typedef struct tw_rule_set {
    const tw_pattern *patterns;
    size_t n;
} tw_rule_set;

/* The tables as patterns for the rewriter, earlier lines first; each pattern is named by its
 * line. `tables` are n arrays that a rule without `match` ends. False with an error that quotes
 * the line when one is malformed. */
bool tw_rules_compile(tw_context *ctx, const tw_rule *const *tables, size_t n, tw_rule_set *out);

#endif
