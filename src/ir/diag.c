/* diag.c: the list of diagnostics of a context, and how one reads. */
#include "ir/context_impl.h"
#include "ir/diag_mark.h"
#include "ir/text.h"

#include <stdarg.h>
#include <string.h>

enum {
    MAX_DIAGNOSTICS = 100,
    MAX_SHOWN_LINE = 160,
    MAX_KEPT_LINE = 1 << 20,
    MAX_SOURCE = 64 << 20
};

/* ---- Source text ---- */

typedef struct source {
    const char *text;
    size_t len;
} source;

void tw_context_add_source(tw_context *ctx, const char *file, const char *text, size_t len)
{
    if (len > MAX_SOURCE) {
        tw_map_put_str(&ctx->sources, file, NULL);
        return;
    }
    source *s = TW_NEW(ctx->arena, source);
    *s = (source){tw_arena_strndup(ctx->arena, text, len), len};
    tw_map_put_str(&ctx->sources, file, s);
}

/* The line that the location is in; NULL when its text is not known or is huge. */
static const char *source_line(tw_context *ctx, tw_loc loc)
{
    const source *s =
        loc && loc->file && loc->line ? tw_map_get_str(&ctx->sources, loc->file) : NULL;
    if (!s)
        return NULL;
    const char *at = s->text, *end = s->text + s->len;
    for (unsigned line = 1; line < loc->line; line++) {
        at = memchr(at, '\n', (size_t)(end - at));
        if (!at)
            return NULL;
        at++;
    }
    const char *stop = memchr(at, '\n', (size_t)(end - at));
    size_t len = (size_t)((stop ? stop : end) - at);
    return len <= MAX_KEPT_LINE ? tw_arena_strndup(ctx->arena, at, len) : NULL;
}

/* ---- The list ---- */

static void add(tw_context *ctx, tw_severity severity, tw_loc loc, const char *format, va_list args)
{
    if (severity == TW_ERROR)
        ctx->errors++;
    if (ctx->kept_diagnostics == MAX_DIAGNOSTICS)
        return;
    ctx->kept_diagnostics++;
    tw_diagnostic *d = TW_NEW(ctx->arena, tw_diagnostic);
    *d = (tw_diagnostic){.severity = severity,
                         .loc = loc,
                         .message = tw_arena_vprintf(ctx->arena, format, args),
                         .source_line = source_line(ctx, loc)};
    if (ctx->last_diagnostic)
        ctx->last_diagnostic->next = d;
    else
        ctx->diagnostics = d;
    ctx->last_diagnostic = d;
}

bool tw_error(tw_context *ctx, tw_loc loc, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    add(ctx, TW_ERROR, loc, format, args);
    va_end(args);
    return false;
}

void tw_warning(tw_context *ctx, tw_loc loc, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    add(ctx, TW_WARNING, loc, format, args);
    va_end(args);
}

void tw_note(tw_context *ctx, tw_loc loc, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    add(ctx, TW_NOTE, loc, format, args);
    va_end(args);
}

void tw_verror(tw_context *ctx, tw_loc loc, const char *format, va_list args)
{
    add(ctx, TW_ERROR, loc, format, args);
}

const tw_diagnostic *tw_diagnostics(const tw_context *ctx)
{
    return ctx->diagnostics;
}

size_t tw_error_count(const tw_context *ctx)
{
    return ctx->errors;
}

void tw_diagnostics_clear(tw_context *ctx)
{
    ctx->diagnostics = ctx->last_diagnostic = NULL;
    ctx->kept_diagnostics = ctx->errors = 0;
}

/* ---- Text ---- */

/* `file:3:14: `, `file: ` or nothing. */
static const char *place_text(tw_arena *arena, tw_loc loc)
{
    if (!loc || !loc->file)
        return "";
    if (loc->line && loc->column)
        return tw_arena_printf(arena, "%s:%u:%u: ", loc->file, loc->line, loc->column);
    if (loc->line)
        return tw_arena_printf(arena, "%s:%u: ", loc->file, loc->line);
    return tw_arena_printf(arena, "%s: ", loc->file);
}

/* The source line and a caret below byte `column` (from 1). Of a long line a window is shown; what
 * would upset a terminal is replaced. */
static const char *snippet(tw_arena *arena, const char *line, unsigned column)
{
    size_t len = strlen(line), at = column ? column - 1 : 0;
    if (at > len)
        at = len;
    size_t start = at > MAX_SHOWN_LINE / 2 ? at - MAX_SHOWN_LINE / 2 : 0;
    if (len <= MAX_SHOWN_LINE)
        start = 0;
    size_t stop = len - start > MAX_SHOWN_LINE ? start + MAX_SHOWN_LINE : len;
    const char *before = start ? "..." : "", *after = stop < len ? "..." : "";
    char *shown = tw_arena_calloc(arena, stop - start + 1, 1);
    char *caret = tw_arena_calloc(arena, at - start + 1, 1);
    size_t columns = 0, n;
    for (size_t i = start; i < stop; i += n) {
        n = tw_text_utf8(line + i, stop - i);
        bool plain = n && ((unsigned char)line[i] >= 0x20 || line[i] == '\t') && line[i] != 0x7f;
        n = n ? n : 1;
        if (plain)
            memcpy(shown + (i - start), line + i, n);
        else
            shown[i - start] = '?';
        if (i < at)
            caret[columns++] = line[i] == '\t' ? '\t' : ' ';
    }
    return tw_arena_printf(arena, "\n  %s%s%s\n  %*s%s^", before, shown, after, (int)strlen(before),
                           "", caret);
}

const char *tw_diagnostic_text(tw_context *ctx, const tw_diagnostic *d)
{
    static const char *const severities[] = {"note", "warning", "error"};
    tw_arena *arena = ctx->arena;
    const char *node =
        d->loc && d->loc->node ? tw_arena_printf(arena, "node %s: ", d->loc->node) : "";
    const char *lines =
        d->source_line ? snippet(arena, d->source_line, d->loc ? d->loc->column : 0) : "";
    return tw_arena_printf(arena, "%s%s: %s%s%s", place_text(arena, d->loc),
                           severities[d->severity], node, d->message, lines);
}

/* ---- Attempts ---- */

tw_diag_mark tw_diag_mark_here(const tw_context *ctx)
{
    return (tw_diag_mark){ctx->last_diagnostic, ctx->kept_diagnostics, ctx->errors};
}

const tw_diagnostic *tw_diag_since(const tw_context *ctx, tw_diag_mark mark)
{
    return mark.last ? mark.last->next : ctx->diagnostics;
}

void tw_diag_rewind(tw_context *ctx, tw_diag_mark mark)
{
    if (mark.last)
        mark.last->next = NULL;
    else
        ctx->diagnostics = NULL;
    ctx->last_diagnostic = mark.last;
    ctx->kept_diagnostics = mark.kept;
    ctx->errors = mark.errors;
}

void tw_out_of_memory(tw_context *ctx)
{
    static const char message[] = "out of memory";
    ctx->errors++;
    tw_diagnostic *d = &ctx->out_of_memory;
    if (d->message) /* said already */
        return;
    *d = (tw_diagnostic){.severity = TW_ERROR, .message = message};
    if (ctx->last_diagnostic)
        ctx->last_diagnostic->next = d;
    else
        ctx->diagnostics = d;
    ctx->last_diagnostic = d;
}
