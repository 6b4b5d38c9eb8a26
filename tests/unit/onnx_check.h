/* onnx_check.h: importing a model that a test made, and looking at what came out. */
#ifndef TESTS_UNIT_ONNX_CHECK_H
#define TESTS_UNIT_ONNX_CHECK_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tilewright/compiler.h"
#include "import/onnx/onnx.h"
#include "onnx_model.h"

#include <stdio.h>

/* One import. `text` is the module as text, or all diagnostics when there is no module. */
typedef struct imported {
    tw_context *ctx;
    pb model;
    tw_op *module;
    const char *text;
} imported;

static inline const char *all_diagnostics(tw_context *ctx)
{
    size_t size = 1;
    for (const tw_diagnostic *d = tw_diagnostics(ctx); d; d = d->next)
        size += strlen(tw_diagnostic_text(ctx, d)) + 1;
    char *text = tw_context_alloc(ctx, size);
    for (const tw_diagnostic *d = tw_diagnostics(ctx); d; d = d->next)
        strcat(strcat(text, tw_diagnostic_text(ctx, d)), "\n");
    return text;
}

/* Takes the model over. What is imported must verify, print, and parse again. */
static inline imported import_with(pb model, const tw_import_options *options)
{
    imported r = {.ctx = tw_context_create((size_t)256 << 20), .model = model};
    assert_true(tw_register_all(r.ctx));
    r.module = tw_import_onnx_memory(r.ctx, model.data, model.size, "test.onnx", NULL, options);
    if (!r.module) {
        assert_true(tw_error_count(r.ctx) > 0);
        r.text = all_diagnostics(r.ctx);
        return r;
    }
    if (!tw_verify(r.ctx, r.module))
        fail_msg("%s", all_diagnostics(r.ctx));
    r.text = tw_print(r.ctx, r.module, NULL);
    tw_op *again = tw_parse(r.ctx, r.text, strlen(r.text), "again.tw");
    if (!again)
        fail_msg("%s\n%s", r.text, all_diagnostics(r.ctx));
    assert_string_equal(tw_print(r.ctx, again, NULL), r.text);
    return r;
}

static inline imported import_model(pb model)
{
    return import_with(model, NULL);
}

static inline void release(imported *r)
{
    tw_context_destroy(r->ctx);
    free(r->model.data);
}

/* Fails unless `part` occurs in the text; each further part behind the one before. */
static inline void expect_parts(const imported *r, int module, ...)
{
    va_list parts;
    const char *at = r->text;
    if (module != (r->module != NULL))
        fail_msg("%s:\n%s", module ? "not imported" : "imported", r->text);
    va_start(parts, module);
    for (const char *part; (part = va_arg(parts, const char *));) {
        const char *found = strstr(at, part);
        if (!found)
            fail_msg("'%s' is not in:\n%s", part, at);
        at = found + strlen(part);
    }
    va_end(parts);
}
#define expect_text(r, ...) expect_parts((r), true, __VA_ARGS__, NULL)
#define expect_error(r, ...) expect_parts((r), false, __VA_ARGS__, NULL)

/* A model of one node: inputs a, b, c … as given by their shapes (floats), output y. */
static inline pb graph_of(pb node, int type, const char *const *shapes)
{
    static const char *const names[] = {"a", "b", "c", "d"};
    pb graph = {0};
    onnx_add_node(&graph, node);
    for (int i = 0; shapes[i]; i++)
        onnx_add_input(&graph, onnx_value(names[i], type, shapes[i]));
    onnx_add_output(&graph, onnx_value("y", 0, NULL));
    return graph;
}
#define SHAPES(...) ((const char *const[]){__VA_ARGS__, NULL})

#endif
