/* verify_table.c: whether an operation is what its definition's table row says. */
#include "ir/verify_impl.h"

#include <string.h>

/* `wanted` is a number, or -1 - minimum for "at least". */
static bool check_count(tw_context *ctx, const tw_op *op, const char *what, int wanted, unsigned n)
{
    unsigned least = wanted < 0 ? (unsigned)(-1 - wanted) : (unsigned)wanted;
    if (wanted < 0 ? n >= least : n == least)
        return true;
    if (ctx)
        tw_error(ctx, op->loc, "%s has %u %s%s, not %s%u", op->def->name, n, what,
                 n == 1 ? "" : "s", wanted < 0 ? "at least " : "", least);
    return false;
}

static const char *kind_name(tw_attr_kind kind)
{
    static const char *const names[] = {
        [TW_ATTR_UNIT] = "a flag",       [TW_ATTR_BOOL] = "true or false",
        [TW_ATTR_INT] = "an integer",    [TW_ATTR_FLOAT] = "a floating-point number",
        [TW_ATTR_STRING] = "a string",   [TW_ATTR_SYMBOL] = "a @symbol",
        [TW_ATTR_TYPE] = "a type",       [TW_ATTR_ARRAY] = "an array",
        [TW_ATTR_DICT] = "a dictionary", [TW_ATTR_DENSE] = "a dense constant",
        [TW_ATTR_MAP] = "a map",         [TW_ATTR_ANY] = "an attribute",
    };
    return names[kind];
}

static bool kind_fits(tw_attr_kind wanted, tw_attr_kind kind)
{
    return wanted == kind || wanted == TW_ATTR_ANY ||
           (wanted == TW_ATTR_BOOL && kind == TW_ATTR_UNIT); /* a flag is true */
}

static const tw_attr_spec *find_spec(const tw_op_def *def, const char *name)
{
    for (const tw_attr_spec *s = def->attrs; s->name; s++)
        if (!strcmp(s->name, name))
            return s;
    return NULL;
}

static bool check_attr(tw_context *ctx, const tw_op *op, const tw_named_attr *attr)
{
    const tw_attr_spec *spec = find_spec(op->def, attr->name);
    if (!spec && strchr(attr->name, '.'))
        return true;
    if (spec && attr->value && kind_fits(spec->kind, attr->value->kind))
        return true;
    if (ctx && !spec)
        tw_error(ctx, op->loc, "%s has no attribute '%s'", op->def->name, attr->name);
    else if (ctx && attr->value)
        tw_error(ctx, op->loc, "attribute '%s' of %s is %s, not %s", attr->name, op->def->name,
                 kind_name(attr->value->kind), kind_name(spec->kind));
    return false;
}

static bool check_attrs(tw_context *ctx, const tw_op *op)
{
    bool good = true;
    if (!op->def->attrs)
        return true;
    for (unsigned i = 0; i < op->n_attrs; i++)
        good = check_attr(ctx, op, &op->attrs[i]) && good;
    for (const tw_attr_spec *s = op->def->attrs; s->name; s++) {
        if (!s->required || tw_op_attr(op, s->name))
            continue;
        good = false;
        if (ctx)
            tw_error(ctx, op->loc, "%s needs the attribute '%s' (%s)", op->def->name, s->name,
                     kind_name(s->kind));
    }
    return good;
}

bool tw_verify_table(tw_context *ctx, const tw_op *op)
{
    const tw_op_def *def = op->def;
    bool operands = check_count(ctx, op, "operand", def->n_operands, op->n_operands);
    bool results = check_count(ctx, op, "result", def->n_results, op->n_results);
    bool regions = check_count(ctx, op, "region", def->n_regions, op->n_regions);
    bool attrs = check_attrs(ctx, op);
    return operands && results && regions && attrs;
}

bool tw_op_fits_table(const tw_op *op)
{
    return tw_verify_table(NULL, op);
}
