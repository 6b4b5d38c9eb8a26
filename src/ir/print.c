/* print.c: operations as text.
 *
 *     %a, %b = dialect.op %x, %y {attr = 1} ({ ^(%i: index): … }, { … }) : t, t loc("node")
 *
 * An operation whose definition has a print hook is written in its own syntax; when the hook
 * declines (IR that its syntax cannot say) the generic form with the name in quotes is used. */
#include "ir/print_impl.h"
#include "ir/scratch.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { INDENT = 2, MAX_INDENT = 100, MAX_PIECES = 1 << 24 };

/* ---- Text ---- */

void tw_pr_bytes(tw_printer *p, const char *bytes, size_t n)
{
    while (p->out.cap - p->out.len < n)
        p->out.data = tw_vec_grow(p->arena, p->out.data, p->out.len, &p->out.cap, 1);
    memcpy(p->out.data + p->out.len, bytes, n);
    p->out.len += n;
}

void tw_pr_text(tw_printer *p, const char *text)
{
    size_t n = strlen(text);
    if (n)
        tw_pr_bytes(p, text, n);
}

void tw_p_text(tw_printer *p, const char *format, ...)
{
    char small[256];
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    int n = vsnprintf(small, sizeof small, format, args);
    if (n >= 0 && (size_t)n < sizeof small)
        tw_pr_bytes(p, small, (size_t)n);
    else
        tw_pr_text(p, tw_arena_vprintf(p->arena, format, again));
    va_end(again);
    va_end(args);
}

void tw_pr_string(tw_printer *p, const char *text, size_t len)
{
    tw_pr_text(p, "\"");
    for (size_t i = 0; i < len;) {
        unsigned char c = (unsigned char)text[i];
        size_t n = tw_text_utf8(text + i, len - i);
        if (c == '"' || c == '\\')
            tw_p_text(p, "\\%c", c);
        else if (c == '\n' || c == '\t' || c == '\r')
            tw_pr_text(p, c == '\n' ? "\\n" : c == '\t' ? "\\t" : "\\r");
        else if (n && c >= 0x20 && c != 0x7f)
            tw_pr_bytes(p, text + i, n);
        else
            tw_p_text(p, "\\x%02x", c);
        i += n ? n : 1;
    }
    tw_pr_text(p, "\"");
}

void tw_pr_name(tw_printer *p, const char *text, size_t len)
{
    if (tw_text_is_name(text, len))
        tw_pr_bytes(p, text, len);
    else
        tw_pr_string(p, text, len);
}

void tw_p_symbol(tw_printer *p, const char *name)
{
    tw_pr_text(p, "@");
    tw_pr_name(p, name, strlen(name));
}

void tw_p_string(tw_printer *p, const char *text)
{
    tw_pr_string(p, text, strlen(text));
}

bool tw_pr_enter(tw_printer *p)
{
    if (p->depth < TW_MAX_NESTING && p->pieces < MAX_PIECES) {
        p->depth++;
        p->pieces++;
        return true;
    }
    tw_pr_text(p, "...");
    return false;
}

void tw_pr_leave(tw_printer *p)
{
    p->depth--;
}

/* ---- Values ---- */

void tw_p_value(tw_printer *p, const tw_value *value)
{
    const char *name = value ? tw_map_get_ptr(&p->names, value) : NULL;
    if (name) {
        tw_pr_text(p, name);
    } else if (!value) {
        tw_pr_text(p, "%<null>");
    } else { /* from outside of what is printed */
        tw_pr_text(p, "%");
        tw_pr_name(p, value->name ? value->name : "?", value->name ? strlen(value->name) : 1);
    }
}

void tw_p_operands(tw_printer *p, const tw_op *op, unsigned first, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        tw_pr_text(p, i ? ", " : "");
        tw_p_value(p, op->operands[first + i].value);
    }
}

/* ---- Operations ---- */

static void new_line(tw_printer *p)
{
    static const char spaces[MAX_INDENT + 1] =
        "                                                                                "
        "                    ";
    unsigned n = p->indent * INDENT;
    tw_pr_text(p, "\n");
    tw_pr_bytes(p, spaces, n < MAX_INDENT ? n : MAX_INDENT);
}

static void print_attrs_after(tw_printer *p, const char *lead, const tw_op *op,
                              const char *const *skip)
{
    size_t start = p->out.len;
    tw_pr_text(p, lead);
    tw_pr_named_attrs(p, op->attrs, op->n_attrs, skip);
    if (p->out.len - start == strlen(lead) + strlen("{}"))
        p->out.len = start;
}

void tw_p_attrs(tw_printer *p, const tw_op *op, const char *const *skip)
{
    print_attrs_after(p, " ", op, skip);
}

void tw_p_attributes(tw_printer *p, const tw_op *op, const char *const *skip)
{
    print_attrs_after(p, " attributes ", op, skip);
}

static void print_result_types(tw_printer *p, const tw_op *op)
{
    for (unsigned i = 0; i < op->n_results; i++) {
        tw_pr_text(p, i ? ", " : " : ");
        tw_p_type(p, op->results[i].type);
    }
}

void tw_p_tail(tw_printer *p, const tw_op *op, const char *const *skip)
{
    tw_p_attrs(p, op, skip);
    print_result_types(p, op);
}

static void print_op(tw_printer *p, const tw_op *op);

/* Behind the opening brace: `word { … }` of the inner region, if there is one, the operations, the
 * closing brace. */
static void print_region_rest(tw_printer *p, const char *word, const tw_region *inner,
                              const tw_region *region)
{
    if (tw_pr_enter(p)) {
        p->indent++;
        if (inner && inner->first) {
            new_line(p);
            tw_p_text(p, "%s ", word);
            tw_p_region(p, inner);
        }
        for (const tw_op *op = region->first; op; op = op->next) {
            new_line(p);
            print_op(p, op);
        }
        p->indent--;
        tw_pr_leave(p);
    }
    new_line(p);
    tw_pr_text(p, "}");
}

void tw_p_region(tw_printer *p, const tw_region *region)
{
    tw_pr_text(p, "{");
    print_region_rest(p, NULL, NULL, region);
}

void tw_p_double_region(tw_printer *p, const char *word, const tw_region *inner,
                        const tw_region *region)
{
    tw_pr_text(p, "{");
    print_region_rest(p, word, inner, region);
}

void tw_p_arguments(tw_printer *p, const tw_region *region)
{
    tw_pr_text(p, "(");
    for (unsigned i = 0; i < region->n_args; i++) {
        tw_pr_text(p, i ? ", " : "");
        tw_p_value(p, region->args[i]);
        tw_pr_text(p, ": ");
        tw_p_type(p, region->args[i]->type);
    }
    tw_pr_text(p, ")");
}

static void print_generic_region(tw_printer *p, const tw_region *region)
{
    if (!region->n_args) {
        tw_p_region(p, region);
        return;
    }
    tw_pr_text(p, "{ ^");
    tw_p_arguments(p, region);
    tw_pr_text(p, ":");
    print_region_rest(p, NULL, NULL, region);
}

/* What follows the name in the generic form. */
void tw_p_generic(tw_printer *p, const tw_op *op)
{
    if (op->n_operands) {
        tw_pr_text(p, " ");
        tw_p_operands(p, op, 0, op->n_operands);
    }
    tw_p_attrs(p, op, NULL);
    for (unsigned i = 0; i < op->n_regions; i++) {
        tw_pr_text(p, i ? ", " : " (");
        print_generic_region(p, &op->regions[i]);
    }
    tw_pr_text(p, op->n_regions ? ")" : "");
    print_result_types(p, op);
}

static void print_location(tw_printer *p, tw_loc loc)
{
    tw_pr_text(p, " loc(");
    if (!loc || (!loc->file && !loc->node))
        tw_pr_text(p, "unknown");
    if (loc && loc->node)
        tw_pr_string(p, loc->node, strlen(loc->node));
    if (loc && loc->node && loc->file)
        tw_pr_text(p, " in ");
    if (loc && loc->file) {
        tw_pr_string(p, loc->file, strlen(loc->file));
        if (!loc->node)
            tw_p_text(p, ":%u:%u", loc->line, loc->column);
    }
    tw_pr_text(p, ")");
}

static void print_op(tw_printer *p, const tw_op *op)
{
    for (unsigned i = 0; i < op->n_results; i++) {
        tw_pr_text(p, i ? ", " : "");
        tw_p_value(p, &op->results[i]);
    }
    tw_pr_text(p, op->n_results ? " = " : "");
    size_t start = p->out.len;
    const char *name = op->def->name;
    bool core = !strncmp(name, "core.", 5);
    tw_pr_text(p, core ? name + 5 : name);
    if (!op->def->print) {
        tw_p_generic(p, op);
    } else if (!tw_op_fits_table(op) || !op->def->print(p, op)) {
        p->out.len = start;
        tw_pr_string(p, name, strlen(name));
        tw_p_generic(p, op);
    }
    if (p->options.locations)
        print_location(p, op->loc);
}

/* What tw_print hands to the function that has the scratch arena. */
typedef struct print_request {
    tw_context *ctx;
    const tw_op *op;
    const tw_print_options *options;
    const char *text; /* the result */
} print_request;

static void print_whole(tw_arena *scratch, void *data)
{
    print_request *r = data;
    tw_printer p = {.ctx = r->ctx, .arena = scratch, .names = tw_map_make(scratch)};
    if (r->options)
        p.options = *r->options;
    tw_pr_assign_names(&p, (tw_op *)r->op);
    print_op(&p, r->op);
    tw_pr_text(&p, "\n");
    r->text = tw_arena_strndup(tw_context_arena(r->ctx), p.out.data, p.out.len);
}

const char *tw_print(tw_context *ctx, const tw_op *op, const tw_print_options *options)
{
    print_request r = {ctx, op, options, NULL};
    tw_with_scratch(ctx, print_whole, &r);
    return r.text;
}
