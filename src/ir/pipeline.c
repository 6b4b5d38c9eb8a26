/* pipeline.c: parses textual pipelines.
 *
 *   pipeline := [ item { ',' item } ]
 *   item     := name [ '{' { option } '}' ]         a pass
 *             | name '(' pipeline ')'               passes for each operation of that name
 *   option   := name [ '=' ( word | '"' text '"' ) ]  separated by blanks or commas */
#include "ir/pipeline.h"

#include "base/suggest.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NESTING = 64, MAX_OPTIONS = 64 };

typedef struct pipeline_parser {
    tw_context *ctx;
    const char *text, *at;
} pipeline_parser;

static bool malformed(pipeline_parser *p, const char *expected)
{
    return tw_error(p->ctx, NULL, "pipeline '%s', column %zu: expected %s%s", p->text,
                    (size_t)(p->at - p->text) + 1, expected,
                    *p->at ? "" : ", but the text ends here");
}

static void skip_blanks(pipeline_parser *p)
{
    while (isspace((unsigned char)*p->at))
        p->at++;
}

static bool try_char(pipeline_parser *p, char c)
{
    skip_blanks(p);
    if (*p->at != c)
        return false;
    p->at++;
    return true;
}

static bool is_name_char(char c)
{
    return isalnum((unsigned char)c) || c == '-' || c == '_' || c == '.';
}

/* A name at the cursor, or NULL. */
static const char *try_name(pipeline_parser *p)
{
    skip_blanks(p);
    const char *begin = p->at;
    while (is_name_char(*p->at))
        p->at++;
    return p->at == begin ? NULL : tw_intern(p->ctx, begin, (size_t)(p->at - begin));
}

/* ---- Options ---- */

/* The text of an option's value. */
static bool parse_value(pipeline_parser *p, const char **out)
{
    skip_blanks(p);
    const char *begin = p->at, *end;
    if (*begin == '"') {
        end = strchr(++begin, '"');
        if (!end)
            return malformed(p, "a closing '\"'");
        p->at = end + 1;
    } else {
        while (*p->at && !isspace((unsigned char)*p->at) && !strchr(",{}()\"", *p->at))
            p->at++;
        end = p->at;
        if (end == begin)
            return malformed(p, "a value after '='");
    }
    *out = tw_intern(p->ctx, begin, (size_t)(end - begin));
    return true;
}

static bool parse_int(const char *text, int64_t *out)
{
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 0);
    *out = value;
    return *text && !*end && !errno;
}

static const tw_attr_spec *find_option(tw_context *ctx, const tw_pass *pass, const char *name)
{
    tw_suggestion near = {.name = name};
    for (const tw_attr_spec *s = pass->options; s && s->name; s++) {
        if (!strcmp(s->name, name))
            return s;
        tw_suggest(&near, s->name);
    }
    tw_suggest(&near, "max-changes");
    tw_error(ctx, NULL, "pass '%s' has no option '%s'%s%s%s", pass->name, name,
             near.best ? "; did you mean '" : "", near.best ? near.best : "",
             near.best ? "'?" : "");
    return NULL;
}

/* One option into `out`, or into the item for max-changes (then out->name is NULL). */
static bool parse_option(pipeline_parser *p, tw_pipeline_item *item, tw_named_attr *out)
{
    static const tw_attr_spec max_changes = {.name = "max-changes", .kind = TW_ATTR_INT};
    const char *name = try_name(p), *value = NULL;
    if (!name)
        return malformed(p, "an option or '}'");
    if (try_char(p, '=') && !parse_value(p, &value))
        return false;
    const tw_attr_spec *spec =
        strcmp(name, max_changes.name) ? find_option(p->ctx, item->pass, name) : &max_changes;
    if (!spec)
        return false;
    int64_t number = 1;
    bool flag = spec->kind == TW_ATTR_UNIT && !value;
    if (!flag && !value)
        return tw_error(p->ctx, NULL, "option '%s' of pass '%s' needs a value: %s=...", name,
                        item->pass->name, name);
    if (!flag && spec->kind != TW_ATTR_STRING && !parse_int(value, &number))
        return tw_error(p->ctx, NULL, "option '%s' of pass '%s' is '%s', must be an integer", name,
                        item->pass->name, value);
    *out = (tw_named_attr){spec == &max_changes ? NULL : name, spec->kind == TW_ATTR_STRING
                                                                   ? tw_attr_string(p->ctx, value)
                                                                   : tw_attr_int(p->ctx, number)};
    if (spec == &max_changes)
        item->max_changes = number < 0 ? 0 : (uint64_t)number;
    return true;
}

/* `option option }` up to and with the brace. */
static bool parse_options(pipeline_parser *p, tw_pipeline_item *item)
{
    tw_named_attr options[MAX_OPTIONS];
    size_t n = 0;
    while (!try_char(p, '}')) {
        if (n == MAX_OPTIONS)
            return malformed(p, "fewer options");
        if (!parse_option(p, item, &options[n]))
            return false;
        for (size_t i = 0; options[n].name && i < n; i++)
            if (!strcmp(options[i].name, options[n].name))
                return tw_error(p->ctx, NULL, "option '%s' of pass '%s' is given twice",
                                options[n].name, item->pass->name);
        n += options[n].name != NULL;
        try_char(p, ',');
    }
    item->options = tw_attr_dict(p->ctx, options, n);
    return true;
}

static bool check_required(tw_context *ctx, const tw_pipeline_item *item)
{
    for (const tw_attr_spec *s = item->pass->options; s && s->name; s++) {
        bool given = !s->required;
        for (size_t i = 0; i < item->options->u.dict.n; i++)
            given |= !strcmp(item->options->u.dict.items[i].name, s->name);
        if (!given)
            return tw_error(ctx, NULL, "pass '%s' needs the option '%s'", item->pass->name,
                            s->name);
    }
    return true;
}

/* ---- Items ---- */

/* The full name of the operation that nested passes run on. */
static const char *anchor_name(pipeline_parser *p, const char *name)
{
    const char *full = strchr(name, '.') ? name : tw_arena_printf(p->ctx->arena, "core.%s", name);
    const tw_op_def *def = tw_op_def_find(p->ctx, full);
    if (def)
        return def->name;
    tw_suggestion near = {.name = full};
    for (size_t i = 0; i < tw_dialect_count(p->ctx); i++) {
        const tw_dialect *d = tw_dialect_at(p->ctx, i);
        for (size_t k = 0; k < d->n_ops; k++)
            tw_suggest(&near, d->ops[k].name);
    }
    tw_error(p->ctx, NULL, "pipeline: there is no operation '%s' to run passes on%s%s%s", full,
             near.best ? "; did you mean '" : "", near.best ? near.best : "",
             near.best ? "'?" : "");
    return NULL;
}

static const tw_pipeline *parse_list(pipeline_parser *p, char end, unsigned depth);

static bool parse_item(pipeline_parser *p, tw_pipeline_item *item, unsigned depth)
{
    const char *name = try_name(p);
    if (!name)
        return malformed(p, "the name of a pass");
    *item = (tw_pipeline_item){.max_changes = UINT64_MAX};
    if (try_char(p, '(')) {
        item->anchor = anchor_name(p, name);
        item->nested = item->anchor ? parse_list(p, ')', depth + 1) : NULL;
        return item->nested != NULL;
    }
    item->pass = tw_pass_require(p->ctx, name, "pipeline: ");
    if (!item->pass)
        return false;
    item->options = tw_attr_dict(p->ctx, NULL, 0);
    if (try_char(p, '{') && !parse_options(p, item))
        return false;
    return check_required(p->ctx, item);
}

/* Items up to the closing character `end` (0: the end of the text). */
static const tw_pipeline *parse_list(pipeline_parser *p, char end, unsigned depth)
{
    if (depth > MAX_NESTING) {
        malformed(p, "less nesting");
        return NULL;
    }
    tw_pipeline *list = TW_NEW(p->ctx->arena, tw_pipeline);
    if (end ? try_char(p, end) : (skip_blanks(p), !*p->at))
        return list;
    for (;;) {
        tw_pipeline_item item;
        if (!parse_item(p, &item, depth))
            return NULL;
        tw_vec_push(p->ctx->arena, &list->items, item);
        if (try_char(p, ','))
            continue;
        if (end ? try_char(p, end) : !*p->at)
            return list;
        malformed(p, end ? "',' or ')'" : "',' or the end");
        return NULL;
    }
}

const tw_pipeline *tw_pipeline_parse(tw_context *ctx, const char *text)
{
    pipeline_parser p = {ctx, text, text};
    return parse_list(&p, 0, 0);
}
