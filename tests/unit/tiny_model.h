/* tiny_model.h: a small model whose code is LLVM IR text, for tests of linking, loading, running.
 *
 *     x: f32[8], w: f32[8] (constant)      y = x * w: f32[8], z = exp(x[0]): f32[]
 *
 * y is computed in a parallel loop. x[0] < 0 is an error with code 7. */
#ifndef TINY_MODEL_H
#define TINY_MODEL_H

#include "artifact/cpu.h"
#include "link/artifact.h"
#include "tilewright/ir.h"
#include "tilewright/runtime.h"

#include <llvm-c/Core.h>
#include <llvm-c/IRReader.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRIPLE "x86_64-unknown-linux-gnu"

/* Compiles IR text to an object in the context's memory. */
static tw_bytes compile_ir_for(tw_context *ctx, const char *triple, const char *text)
{
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeAArch64TargetInfo();
    LLVMInitializeAArch64Target();
    LLVMInitializeAArch64TargetMC();
    LLVMInitializeAArch64AsmPrinter();
    LLVMContextRef llvm = LLVMContextCreate();
    LLVMModuleRef module;
    LLVMTargetRef target;
    LLVMMemoryBufferRef object;
    char *message = NULL;
    LLVMMemoryBufferRef source =
        LLVMCreateMemoryBufferWithMemoryRangeCopy(text, strlen(text), "test.ll");
    if (LLVMParseIRInContext(llvm, source, &module, &message) ||
        LLVMGetTargetFromTriple(triple, &target, &message)) {
        fprintf(stderr, "%s\n", message);
        abort();
    }
    LLVMSetTarget(module, triple);
    LLVMTargetMachineRef machine = LLVMCreateTargetMachine(
        target, triple, "", "", LLVMCodeGenLevelDefault, LLVMRelocPIC, LLVMCodeModelDefault);
    if (LLVMTargetMachineEmitToMemoryBuffer(machine, module, LLVMObjectFile, &message, &object)) {
        fprintf(stderr, "%s\n", message);
        abort();
    }
    tw_bytes bytes = {NULL, LLVMGetBufferSize(object)};
    void *copy = tw_context_alloc(ctx, bytes.size);
    memcpy(copy, LLVMGetBufferStart(object), bytes.size);
    bytes.data = copy;
    LLVMDisposeMemoryBuffer(object);
    LLVMDisposeTargetMachine(machine);
    LLVMDisposeModule(module);
    LLVMContextDispose(llvm);
    return bytes;
}

static inline tw_bytes compile_ir(tw_context *ctx, const char *text)
{
    return compile_ir_for(ctx, TRIPLE, text);
}

static const char tiny_code[] =
    "@negative = private unnamed_addr constant [14 x i8] c\"x is negative\\00\"\n"
    "define internal void @body(ptr %ctx, i64 %begin, i64 %end) nounwind {\n"
    "entry:\n"
    "  %x = load ptr, ptr %ctx\n"
    "  %pw = getelementptr i8, ptr %ctx, i64 8\n"
    "  %w = load ptr, ptr %pw\n"
    "  %py = getelementptr i8, ptr %ctx, i64 16\n"
    "  %y = load ptr, ptr %py\n"
    "  br label %loop\n"
    "loop:\n"
    "  %i = phi i64 [ %begin, %entry ], [ %next, %loop ]\n"
    "  %xi = getelementptr float, ptr %x, i64 %i\n"
    "  %wi = getelementptr float, ptr %w, i64 %i\n"
    "  %yi = getelementptr float, ptr %y, i64 %i\n"
    "  %a = load float, ptr %xi\n"
    "  %b = load float, ptr %wi\n"
    "  %c = fmul float %a, %b\n"
    "  store float %c, ptr %yi\n"
    "  %next = add i64 %i, 1\n"
    "  %more = icmp slt i64 %next, %end\n"
    "  br i1 %more, label %loop, label %done\n"
    "done:\n"
    "  ret void\n"
    "}\n"
    "define internal void @hook(ptr %host, i64 %offset) nounwind {\n"
    "  %pf = getelementptr i8, ptr %host, i64 %offset\n"
    "  %f = load ptr, ptr %pf\n"
    "  %none = icmp eq ptr %f, null\n"
    "  br i1 %none, label %end, label %call\n"
    "call:\n"
    "  call void %f(ptr %host, i32 0)\n"
    "  br label %end\n"
    "end:\n"
    "  ret void\n"
    "}\n"
    "declare float @expf(float)\n"
    "declare ptr @memcpy(ptr, ptr, i64)\n"
    "define hidden i32 @ENTRY(ptr %host, ptr %in, ptr %out, ptr %constants, ptr %arena,\n"
    "                         ptr %symbols) nounwind {\n"
    "  %x = load ptr, ptr %in\n"
    "  %x0 = load float, ptr %x\n"
    "  %bad = fcmp olt float %x0, 0.0\n"
    "  br i1 %bad, label %fail, label %run\n"
    "fail:\n"
    "  %pe = getelementptr i8, ptr %host, i64 72\n"
    "  %error = load ptr, ptr %pe\n"
    "  %code = call i32 %error(ptr %host, i32 7, ptr @negative)\n"
    "  ret i32 %code\n"
    "run:\n"
    "  call void @hook(ptr %host, i64 56)\n"
    "  %ctx = alloca [3 x ptr]\n"
    "  store ptr %x, ptr %ctx\n"
    "  %pw = getelementptr i8, ptr %ctx, i64 8\n"
    "  store ptr %constants, ptr %pw\n"
    "  %py = getelementptr i8, ptr %ctx, i64 16\n"
    "  store ptr %arena, ptr %py\n"
    "  %pp = getelementptr i8, ptr %host, i64 24\n"
    "  %parallel = load ptr, ptr %pp\n"
    "  call void %parallel(ptr %host, i64 8, ptr @body, ptr %ctx)\n"
    "  %y = load ptr, ptr %out\n"
    "  %ignored = call ptr @memcpy(ptr %y, ptr %arena, i64 32)\n"
    "  %pz = getelementptr i8, ptr %out, i64 8\n"
    "  %z = load ptr, ptr %pz\n"
    "  %e = call float @expf(float %x0)\n"
    "  store float %e, ptr %z\n"
    "  call void @hook(ptr %host, i64 64)\n"
    "  ret i32 0\n"
    "}\n";

/* The code with its entry named `entry`. */
static tw_bytes tiny_object(tw_context *ctx, const char *entry)
{
    const char *at = strstr(tiny_code, "ENTRY");
    size_t size = sizeof tiny_code + strlen(entry);
    char *text = tw_context_alloc(ctx, size);
    snprintf(text, size, "%.*s%s%s", (int)(at - tiny_code), tiny_code, entry, at + 5);
    return compile_ir(ctx, text);
}

static const float tiny_weights[8] = {1, 2, 3, 4, 5, 6, 7, 8};

/* Writes the weights, and then `tiny_extra` bytes to make a larger file. */
static uint64_t tiny_extra;

static bool tiny_constants(void *data, tw_sink *sink)
{
    (void)data;
    if (!tw_sink_write(sink, tiny_weights, sizeof tiny_weights))
        return false;
    for (uint64_t i = 0; i < tiny_extra; i += 4096) {
        uint64_t block[512];
        for (int k = 0; k < 512; k++)
            block[k] = i * 0x9e3779b97f4a7c15u + (uint64_t)k;
        uint64_t left = tiny_extra - i;
        if (!tw_sink_write(sink, block, left < sizeof block ? left : sizeof block))
            return false;
    }
    return tw_sink_offset(sink) == sizeof tiny_weights + tiny_extra;
}

static const int64_t tiny_dims[] = {8};
static const tw_abi_tensor tiny_inputs[] = {
    {.name = "x", .elem = TW_F32, .rank = 1, .dims = tiny_dims},
};
static const tw_abi_tensor tiny_outputs[] = {
    {.name = "y", .elem = TW_F32, .rank = 1, .dims = tiny_dims},
    {.name = "z", .elem = TW_F32, .rank = 0},
};
static const tw_abi_kernel tiny_kernels[] = {{"mul_exp", "Mul+Exp", 8, 96}};
static const tw_abi_buffer tiny_buffers[] = {{"product", "8xf32", 0, 32, 0, 0}};
static const tw_abi_constant tiny_table[] = {{"w", "8xf32", 0, 32}};

enum { TINY_VARIANTS = 3 };

/* The model with `n` variants, at most three: for baseline, v2, and a CPU that nobody has. */
static tw_artifact *tiny_artifact(tw_context *ctx, uint32_t n)
{
    static const char *const cpus[] = {"x86-64", "x86-64-v2", "future"};
    static const char *const entries[] = {"entry_v1", "entry_v2", "entry_future"};
    tw_artifact *a = tw_context_alloc(ctx, sizeof *a);
    tw_abi_variant *variants = tw_context_alloc(ctx, n * sizeof *variants);
    tw_artifact_code *code = tw_context_alloc(ctx, n * sizeof *code);
    tw_bytes *objects = tw_context_alloc(ctx, n * sizeof *objects);
    for (uint32_t i = 0; i < n; i++) {
        variants[i] = (tw_abi_variant){
            .cpu = cpus[i],
            .arena_size = 64,
            .n_kernels = 1,
            .n_buffers = 1,
            .kernels = tiny_kernels,
            .buffers = tiny_buffers,
        };
        if (i == 1) {
            tw_cpu_features v2;
            tw_cpu_level("x86-64-v2", &v2);
            memcpy(variants[i].features, v2.words, sizeof v2.words);
        }
        if (i == 2)
            variants[i].features[1] = (uint64_t)1 << 63;
        code[i].entry = entries[i];
        objects[i] = tiny_object(ctx, entries[i]);
    }
    *a = (tw_artifact){
        .model = {.name = "tiny",
                  .target = TRIPLE,
                  .n_inputs = 1,
                  .n_outputs = 2,
                  .n_variants = n,
                  .n_constants = 1,
                  .inputs = tiny_inputs,
                  .outputs = tiny_outputs,
                  .variants = variants,
                  .constant_table = tiny_table,
                  .constants_size = sizeof tiny_weights + tiny_extra},
        .code = code,
        .objects = objects,
        .n_objects = n,
        .constants = tiny_constants,
    };
    return a;
}

/* Prints what went wrong, for tests that are about to fail. */
static bool no_errors(tw_context *ctx)
{
    for (const tw_diagnostic *d = tw_diagnostics(ctx); d; d = d->next)
        fprintf(stderr, "%s\n", tw_diagnostic_text(ctx, d));
    return tw_error_count(ctx) == 0;
}

#endif
