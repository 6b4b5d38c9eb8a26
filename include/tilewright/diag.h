/* diag.h: diagnostics: what the library says instead of printing, exiting or aborting. */
#ifndef TILEWRIGHT_DIAG_H
#define TILEWRIGHT_DIAG_H

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef struct tw_context tw_context;

/* Where a piece of IR comes from: a line of a text file (`line` > 0), a node of a model (`node`),
 * or both. Immutable and owned by its context; NULL is an unknown place. */
typedef struct tw_location {
    const char *file;      /* path as the user gave it, or NULL */
    unsigned line, column; /* from 1; 0 when unknown */
    const char *node;      /* a model's node, for instance "Conv 'layer1/conv'", or NULL */
} tw_location;
typedef const tw_location *tw_loc;

typedef enum tw_severity { TW_NOTE, TW_WARNING, TW_ERROR } tw_severity;

typedef struct tw_diagnostic {
    tw_severity severity;
    tw_loc loc;
    const char *message;
    const char *source_line; /* the text line that `loc` is in, for a caret; or NULL */
    struct tw_diagnostic *next;
} tw_diagnostic;

/* Adds a diagnostic to the context's list, in order. At most 100 are kept; later errors are
 * counted only. The message says what is wrong and what would be accepted, without a full stop.
 * tw_error returns false, so that a failing function can `return tw_error(...)`. */
bool tw_error(tw_context *ctx, tw_loc loc, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void tw_warning(tw_context *ctx, tw_loc loc, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void tw_note(tw_context *ctx, tw_loc loc, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Adds the error "out of memory" without needing memory: for handlers of tw_context_guard. */
void tw_out_of_memory(tw_context *ctx);

/* The list so far (NULL: none), the number of errors, and forgetting all of it. */
const tw_diagnostic *tw_diagnostics(const tw_context *ctx);
size_t tw_error_count(const tw_context *ctx);
void tw_diagnostics_clear(tw_context *ctx);

/* A diagnostic as text, in the context's memory:
 *   model.onnx: error: node Conv 'c1': ...        or
 *   file.tw:3:14: error: ...
 *     %0 = graph.add %x
 *                    ^ */
const char *tw_diagnostic_text(tw_context *ctx, const tw_diagnostic *diagnostic);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
