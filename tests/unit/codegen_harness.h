/* codegen_harness.h: compiles the text of a module with kernels and @main, links, loads and runs
 * it, for tests of code generation. */
#ifndef CODEGEN_HARNESS_H
#define CODEGEN_HARNESS_H

#include "artifact/cpu.h"
#include "base/arena.h"
#include "codegen/llvm/codegen.h"
#include "codegen/llvm/target.h"
#include "dialect/core/core.h"
#include "dialect/register.h"
#include "interp/interp.h"
#include "link/artifact.h"
#include "tilewright/ir.h"
#include "tilewright/runtime.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void __attribute__((unused)) print_errors(tw_context *ctx)
{
    for (const tw_diagnostic *d = tw_diagnostics(ctx); d; d = d->next)
        fprintf(stderr, "%s\n", tw_diagnostic_text(ctx, d));
}

static tw_context *new_context(void)
{
    tw_context *ctx = tw_context_create(0);
    assert_non_null(ctx);
    assert_true(tw_register_all_dialects(ctx));
    return ctx;
}

static tw_op *parse_module(tw_context *ctx, const char *text)
{
    tw_op *module = tw_parse(ctx, text, strlen(text), "test");
    if (!module || !tw_verify(ctx, module)) {
        print_errors(ctx);
        fail_msg("the module is not valid:\n%s", text);
    }
    return module;
}

/* Text, assembly or objects of the module for a CPU. */
static tw_codegen_result generate(tw_context *ctx, tw_op *module, const char *cpu,
                                  tw_code_form form, unsigned level)
{
    tw_target target;
    tw_codegen_result result = {0};
    tw_codegen_options options = {
        .target = &target, .form = form, .opt_level = level, .threads = 1};
    if (!tw_target_resolve(ctx, cpu, &target) ||
        !tw_codegen_module(ctx, module, &options, &result)) {
        print_errors(ctx);
        fail_msg("code generation failed for %s", cpu);
    }
    return result;
}

/* All pieces as one text. */
static __attribute__((unused)) const char *generate_text(tw_context *ctx, const char *text,
                                                         const char *cpu, tw_code_form form)
{
    tw_codegen_result r = generate(ctx, parse_module(ctx, text), cpu, form, 2);
    tw_arena *arena = tw_context_arena(ctx);
    char *all = tw_arena_strdup(arena, "");
    for (size_t i = 0; i < r.n_pieces; i++)
        all = tw_arena_printf(arena, "%s%.*s", all, (int)r.pieces[i].size, r.pieces[i].bytes);
    return all;
}

static void describe_tensor(tw_context *ctx, tw_abi_tensor *out, const char *name, tw_type type)
{
    int64_t *dims = TW_NEW_ARRAY(tw_context_arena(ctx), int64_t, type->rank + 1);
    for (unsigned i = 0; i < type->rank; i++)
        dims[i] = tw_type_dim(type, i);
    *out = (tw_abi_tensor){.name = name, .elem = type->elem, .rank = type->rank, .dims = dims};
}

static tw_op *find_main(tw_op *module)
{
    tw_op *main_func = tw_core_lookup(module, "main");
    assert_non_null(main_func);
    return main_func;
}

/* What is linked of the code: a model with these tensors, inputs first. No constants, no symbols.
 */
static tw_artifact *assemble(tw_context *ctx, const tw_codegen_result *r, const char *cpu,
                             uint64_t arena_size, const tw_abi_tensor *tensors, unsigned inputs,
                             unsigned outputs)
{
    tw_arena *arena = tw_context_arena(ctx);
    tw_abi_kernel *kernels = TW_NEW_ARRAY(arena, tw_abi_kernel, r->n_calls + 1);
    for (size_t i = 0; i < r->n_calls; i++)
        kernels[i] =
            (tw_abi_kernel){.name = tw_op_string(r->calls[i], "callee", ""), .operators = "Test"};
    tw_abi_variant *variant = TW_NEW(arena, tw_abi_variant);
    *variant = (tw_abi_variant){.cpu = cpu,
                                .arena_size = arena_size,
                                .n_kernels = (uint32_t)r->n_calls,
                                .kernels = kernels};
    tw_artifact_code *code = TW_NEW(arena, tw_artifact_code);
    *code = (tw_artifact_code){.entry = r->entry, .plan = r->plan};
    tw_bytes *objects = TW_NEW_ARRAY(arena, tw_bytes, r->n_pieces);
    for (size_t i = 0; i < r->n_pieces; i++)
        objects[i] = (tw_bytes){r->pieces[i].bytes, r->pieces[i].size};
    tw_artifact *a = TW_NEW(arena, tw_artifact);
    *a = (tw_artifact){.model = {.name = "test",
                                 .target = "x86_64-unknown-linux-gnu",
                                 .n_inputs = inputs,
                                 .n_outputs = outputs,
                                 .n_variants = 1,
                                 .inputs = tensors,
                                 .outputs = tensors + inputs,
                                 .variants = variant},
                       .code = code,
                       .objects = objects,
                       .n_objects = r->n_pieces};
    return a;
}

/* The same with the tensors of @main of the module, whose sizes are fixed. */
static tw_artifact *describe(tw_context *ctx, tw_op *module, const char *cpu, uint64_t arena_size,
                             const tw_codegen_result *r)
{
    tw_op *main_func = find_main(module);
    tw_region *body = tw_core_body(main_func);
    unsigned outputs = (unsigned)tw_op_int(main_func, "outputs", 0);
    tw_abi_tensor *tensors = TW_NEW_ARRAY(tw_context_arena(ctx), tw_abi_tensor, body->n_args + 1);
    for (unsigned i = 0; i < body->n_args; i++)
        describe_tensor(ctx, &tensors[i], tw_arena_printf(tw_context_arena(ctx), "arg%u", i),
                        body->args[i]->type);
    return assemble(ctx, r, cpu, arena_size, tensors, body->n_args - outputs, outputs);
}

static tw_model *load_model(tw_context *ctx, const tw_artifact *a)
{
    int fd = tw_artifact_temporary(ctx, 0);
    tw_model *model = NULL;
    if (fd < 0 || !tw_artifact_write_fd(ctx, a, fd)) {
        print_errors(ctx);
        fail_msg("linking failed");
    }
    if (tw_model_load_fd(fd, "test", NULL, &model) != TW_STATUS_OK)
        fail_msg("%s", tw_last_error());
    close(fd);
    return model;
}

static tw_model *compile_model(tw_context *ctx, tw_op *module, const char *cpu, unsigned level,
                               uint64_t arena_size)
{
    tw_codegen_result r = generate(ctx, module, cpu, TW_CODE_OBJECT, level);
    return load_model(ctx, describe(ctx, module, cpu, arena_size, &r));
}

/* Runs the model on its arguments: inputs are read, outputs written. */
static tw_status run_session(tw_model *model, const tw_interp_buffer *args, unsigned threads)
{
    tw_session *session;
    const tw_model_info *info = tw_model_get_info(model);
    tw_session_options options = {.threads = threads};
    assert_int_equal(tw_session_create(model, &options, &session), TW_STATUS_OK);
    for (size_t i = 0; i < info->inputs; i++)
        assert_int_equal(tw_session_set_input(session, i, args[i].data, args[i].size),
                         TW_STATUS_OK);
    for (size_t i = 0; i < info->outputs; i++)
        assert_int_equal(tw_session_set_output(session, i, args[info->inputs + i].data,
                                               args[info->inputs + i].size),
                         TW_STATUS_OK);
    tw_status status = tw_session_run(session);
    tw_session_destroy(session);
    return status;
}

/* Compiles and runs; fails the test when that does. */
static void __attribute__((unused)) run_compiled(tw_context *ctx, tw_op *module, const char *cpu,
                                                 unsigned level, const tw_interp_buffer *args)
{
    tw_model *model = compile_model(ctx, module, cpu, level, 1 << 20);
    if (run_session(model, args, 1) != TW_STATUS_OK)
        fail_msg("%s", tw_last_error());
    tw_model_free(model);
}

/* Runs @main through the interpreter. */
static void __attribute__((unused)) run_interpreted(tw_context *ctx, tw_op *module,
                                                    const tw_interp_buffer *args, unsigned n)
{
    if (!tw_interp_run(ctx, find_main(module), args, n, NULL)) {
        print_errors(ctx);
        fail_msg("the interpreter failed");
    }
}

#endif
