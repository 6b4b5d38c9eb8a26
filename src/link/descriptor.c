/* descriptor.c: builds an LLVM module of constants (the tw_abi_model and all that it points to) and
 * of a few functions, and emits it as an object:
 *
 *   shared form                              embedded form
 *     tw_model        exported                 PREFIX_model     global
 *     memcpy, expf …  hidden: jump through     PREFIX_run_on    the variant's entry
 *                     a slot of `imports`      PREFIX_run       the same, on the caller's thread */
#include "link/descriptor.h"
#include "tilewright/ir.h"

#include <llvm-c/Core.h>
#include <llvm-c/Target.h>
#include <llvm-c/TargetMachine.h>
#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

typedef struct emitter {
    tw_context *ctx;
    const tw_descriptor_spec *spec;
    tw_bytes *object;
    LLVMContextRef llvm;
    LLVMModuleRef module;
    LLVMBuilderRef b;
    LLVMMemoryBufferRef buffer; /* what was emitted */
    char *message;              /* of LLVM, about a failure */
    LLVMTypeRef i32, i64, ptr;
    LLVMValueRef null;
    tw_map strings; /* text -> global */
} emitter;

/* ---- Constants ------------------------------------------------------------------------------- */

static LLVMValueRef private_global(emitter *e, LLVMValueRef value, const char *name)
{
    LLVMValueRef global = LLVMAddGlobal(e->module, LLVMTypeOf(value), name);
    LLVMSetInitializer(global, value);
    LLVMSetLinkage(global, LLVMPrivateLinkage);
    LLVMSetGlobalConstant(global, true);
    LLVMSetUnnamedAddress(global, LLVMGlobalUnnamedAddr);
    return global;
}

/* A pointer to the text; NULL stays NULL. Equal texts are one. */
static LLVMValueRef string(emitter *e, const char *text)
{
    if (!text)
        return e->null;
    LLVMValueRef global = tw_map_get_str(&e->strings, text);
    if (!global) {
        size_t len = strlen(text);
        global = private_global(e, LLVMConstStringInContext2(e->llvm, text, len, false), "text");
        tw_map_put_str(&e->strings, text, global);
    }
    return global;
}

/* A structure of the fields that `format` lists: s string, p LLVMValueRef, w uint32_t, q
 * uint64_t. */
static LLVMValueRef row(emitter *e, const char *format, ...)
{
    LLVMValueRef fields[32];
    unsigned n = 0;
    va_list args;
    va_start(args, format);
    for (; *format; format++) {
        switch (*format) {
        case 's':
            fields[n++] = string(e, va_arg(args, const char *));
            break;
        case 'p':
            fields[n++] = va_arg(args, LLVMValueRef);
            break;
        case 'w':
            fields[n++] = LLVMConstInt(e->i32, va_arg(args, uint32_t), false);
            break;
        default:
            fields[n++] = LLVMConstInt(e->i64, va_arg(args, uint64_t), false);
        }
    }
    va_end(args);
    return LLVMConstStructInContext(e->llvm, fields, n, false);
}

/* A pointer to an array of n like values; NULL for n = 0. */
static LLVMValueRef table(emitter *e, LLVMValueRef *rows, size_t n, const char *name)
{
    if (!n)
        return e->null;
    return private_global(e, LLVMConstArray2(LLVMTypeOf(rows[0]), rows, n), name);
}

static LLVMValueRef *new_rows(emitter *e, size_t n)
{
    return TW_NEW_ARRAY(tw_context_arena(e->ctx), LLVMValueRef, n);
}

static LLVMValueRef strings(emitter *e, const char *const *texts, size_t n)
{
    if (!texts)
        return e->null;
    LLVMValueRef *rows = new_rows(e, n);
    for (size_t i = 0; i < n; i++)
        rows[i] = string(e, texts[i]);
    return table(e, rows, n, "texts");
}

static LLVMValueRef tensors(emitter *e, const tw_abi_tensor *list, size_t n, const char *name)
{
    LLVMValueRef *rows = new_rows(e, n);
    for (size_t i = 0; i < n; i++) {
        const tw_abi_tensor *t = &list[i];
        LLVMValueRef dims[TW_MAX_RANK], symbols[TW_MAX_RANK];
        for (uint32_t d = 0; d < t->rank; d++) {
            dims[d] = LLVMConstInt(e->i64, (uint64_t)t->dims[d], true);
            symbols[d] = LLVMConstInt(
                e->i32, (uint64_t)(int64_t)(t->dim_symbols ? t->dim_symbols[d] : -1), true);
        }
        rows[i] = row(e, "swwpppq", t->name, t->elem, t->rank, table(e, dims, t->rank, "dims"),
                      t->dim_symbols ? table(e, symbols, t->rank, "dim_symbols") : e->null,
                      strings(e, t->dim_texts, t->rank), t->flags);
    }
    return table(e, rows, n, name);
}

static LLVMValueRef kernels(emitter *e, const tw_abi_variant *v)
{
    LLVMValueRef *rows = new_rows(e, v->n_kernels);
    for (uint32_t i = 0; i < v->n_kernels; i++) {
        const tw_abi_kernel *k = &v->kernels[i];
        rows[i] = row(e, "ssqq", k->name, k->operators, k->flops, k->bytes);
    }
    return table(e, rows, v->n_kernels, "kernels");
}

static LLVMValueRef buffers(emitter *e, const tw_abi_variant *v)
{
    LLVMValueRef *rows = new_rows(e, v->n_buffers);
    for (uint32_t i = 0; i < v->n_buffers; i++) {
        const tw_abi_buffer *b = &v->buffers[i];
        rows[i] = row(e, "ssqqww", b->name, b->type, b->offset, b->size, b->first, b->last);
    }
    return table(e, rows, v->n_buffers, "buffers");
}

static LLVMValueRef constant_table(emitter *e, const tw_abi_model *m)
{
    LLVMValueRef *rows = new_rows(e, m->n_constants);
    for (uint32_t i = 0; i < m->n_constants; i++) {
        const tw_abi_constant *c = &m->constant_table[i];
        rows[i] = row(e, "ssqq", c->name, c->type, c->offset, c->size);
    }
    return table(e, rows, m->n_constants, "constant_table");
}

/* ---- Functions ------------------------------------------------------------------------------- */

static LLVMValueRef hide(LLVMValueRef global)
{
    LLVMSetVisibility(global, LLVMHiddenVisibility);
    return global;
}

/* A function that never unwinds, with its first block under the builder. */
static LLVMValueRef new_function(emitter *e, const char *name, LLVMTypeRef type, LLVMBuilderRef b)
{
    LLVMValueRef f = LLVMAddFunction(e->module, name, type);
    unsigned kind = LLVMGetEnumAttributeKindForName("nounwind", 8);
    LLVMAddAttributeAtIndex(f, LLVMAttributeFunctionIndex,
                            LLVMCreateEnumAttribute(e->llvm, kind, 0));
    LLVMPositionBuilderAtEnd(b, LLVMAppendBasicBlockInContext(e->llvm, f, ""));
    return f;
}

/* A function of the objects, known by its address only. */
static LLVMValueRef external(emitter *e, const char *name)
{
    LLVMValueRef f = LLVMGetNamedFunction(e->module, name);
    if (f)
        return f;
    LLVMTypeRef type = LLVMFunctionType(LLVMVoidTypeInContext(e->llvm), NULL, 0, false);
    return hide(LLVMAddFunction(e->module, name, type));
}

static LLVMTypeRef import_type(emitter *e, char letter)
{
    switch (letter) {
    case 'f':
        return LLVMFloatTypeInContext(e->llvm);
    case 'd':
        return LLVMDoubleTypeInContext(e->llvm);
    case 'h':
        return LLVMHalfTypeInContext(e->llvm);
    case 'p':
        return e->ptr;
    case 'z':
        return e->i64;
    case 'i':
        return e->i32;
    default:
        return LLVMVoidTypeInContext(e->llvm);
    }
}

static const struct {
    const char *name, *signature;
} known_imports[] = {
#define IMPORT(name, signature) {#name, signature},
    TW_IMPORTS(IMPORT)
#undef IMPORT
};
enum { N_KNOWN_IMPORTS = sizeof known_imports / sizeof known_imports[0] };

static bool is_routine(const char *name)
{
    return !strncmp(name, TW_ROUTINE_PREFIX, strlen(TW_ROUTINE_PREFIX));
}

const char *const *tw_import_names(tw_context *ctx, const tw_map *undefined, size_t *n)
{
    tw_arena *arena = tw_context_arena(ctx);
    const char **names = TW_NEW_ARRAY(arena, const char *, N_KNOWN_IMPORTS + undefined->len);
    *n = 0;
    for (size_t i = 0; i < N_KNOWN_IMPORTS; i++)
        if (tw_map_get_str(undefined, known_imports[i].name))
            names[(*n)++] = known_imports[i].name;
    for (size_t i = 0; i < undefined->len; i++) {
        const char *name = undefined->entries[i].key;
        if (undefined->entries[i].value && is_routine(name))
            names[(*n)++] = tw_arena_strndup(arena, name, undefined->entries[i].key_len);
    }
    return names;
}

/* define hidden float @expf(float %x) { tail call through *slot } */
static void import_jump(emitter *e, const char *name, const char *signature, LLVMValueRef slot,
                        LLVMBuilderRef b)
{
    LLVMTypeRef args[8];
    LLVMValueRef values[8];
    unsigned n = 0;
    for (; signature[n + 1]; n++)
        args[n] = import_type(e, signature[n + 1]);
    LLVMTypeRef type = LLVMFunctionType(import_type(e, signature[0]), args, n, false);
    LLVMValueRef f = hide(new_function(e, name, type, b));
    LLVMGetParams(f, values);
    LLVMValueRef target = LLVMBuildLoad2(b, e->ptr, slot, "");
    LLVMValueRef call = LLVMBuildCall2(b, type, target, values, n, "");
    LLVMSetTailCallKind(call, LLVMTailCallKindMustTail);
    if (signature[0] == 'v')
        LLVMBuildRetVoid(b);
    else
        LLVMBuildRet(b, call);
}

/* Slots and jumps; returns the import table. */
static LLVMValueRef imports(emitter *e, const tw_descriptor_spec *spec)
{
    if (!spec->n_imports)
        return e->null;
    LLVMTypeRef type = LLVMArrayType2(e->ptr, spec->n_imports);
    LLVMValueRef slots = LLVMAddGlobal(e->module, type, "import_slots");
    LLVMSetInitializer(slots, LLVMConstNull(type));
    LLVMSetLinkage(slots, LLVMInternalLinkage);
    LLVMBuilderRef b = e->b;
    LLVMValueRef *rows = new_rows(e, spec->n_imports);
    size_t known = 0;
    for (size_t i = 0; i < spec->n_imports; i++) {
        bool routine = is_routine(spec->imports[i]);
        while (!routine && strcmp(known_imports[known].name, spec->imports[i]))
            known++;
        LLVMValueRef index = LLVMConstInt(e->i64, i, false);
        LLVMValueRef slot = LLVMConstInBoundsGEP2(e->ptr, slots, &index, 1);
        import_jump(e, spec->imports[i],
                    routine ? TW_ROUTINE_SIGNATURE : known_imports[known].signature, slot, b);
        rows[i] = row(e, "sp", spec->imports[i], slot);
    }
    return table(e, rows, spec->n_imports, "imports");
}

/* ---- The embedded form ----------------------------------------------------------------------- */

static LLVMValueRef call_entry(emitter *e, const char *entry, LLVMValueRef *args, LLVMBuilderRef b)
{
    LLVMTypeRef types[6] = {e->ptr, e->ptr, e->ptr, e->ptr, e->ptr, e->ptr};
    LLVMTypeRef type = LLVMFunctionType(e->i32, types, 6, false);
    return LLVMBuildCall2(b, type, external(e, entry), args, 6, "");
}

/* A host without threads, memory or messages: parallel_for calls the body once. */
static LLVMValueRef plain_host(emitter *e, LLVMBuilderRef b)
{
    LLVMTypeRef nothing = LLVMVoidTypeInContext(e->llvm);
    LLVMTypeRef p = e->ptr, i64 = e->i64;

    LLVMValueRef loop = new_function(
        e, "parallel_for", LLVMFunctionType(nothing, (LLVMTypeRef[]){p, i64, p, p}, 4, false), b);
    LLVMBasicBlockRef run = LLVMAppendBasicBlockInContext(e->llvm, loop, "");
    LLVMBasicBlockRef end = LLVMAppendBasicBlockInContext(e->llvm, loop, "");
    LLVMValueRef count = LLVMGetParam(loop, 1), zero = LLVMConstInt(i64, 0, false);
    LLVMBuildCondBr(b, LLVMBuildICmp(b, LLVMIntSGT, count, zero, ""), run, end);
    LLVMPositionBuilderAtEnd(b, run);
    LLVMTypeRef body = LLVMFunctionType(nothing, (LLVMTypeRef[]){p, i64, i64}, 3, false);
    LLVMValueRef body_args[] = {LLVMGetParam(loop, 3), zero, count};
    LLVMBuildCall2(b, body, LLVMGetParam(loop, 2), body_args, 3, "");
    LLVMBuildBr(b, end);
    LLVMPositionBuilderAtEnd(b, end);
    LLVMBuildRetVoid(b);

    LLVMValueRef alloc =
        new_function(e, "alloc", LLVMFunctionType(p, (LLVMTypeRef[]){p, i64}, 2, false), b);
    LLVMBuildRet(b, e->null);
    LLVMValueRef release =
        new_function(e, "free", LLVMFunctionType(nothing, (LLVMTypeRef[]){p, p}, 2, false), b);
    LLVMBuildRetVoid(b);
    LLVMValueRef output =
        new_function(e, "output", LLVMFunctionType(p, (LLVMTypeRef[]){p, e->i32, p}, 3, false), b);
    LLVMBuildRet(b, e->null);
    LLVMValueRef error = new_function(
        e, "error", LLVMFunctionType(e->i32, (LLVMTypeRef[]){p, e->i32, p}, 3, false), b);
    LLVMBuildRet(b, LLVMGetParam(error, 1));

    LLVMValueRef functions[] = {loop, alloc, release, output, error};
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++)
        LLVMSetLinkage(functions[i], LLVMInternalLinkage);
    _Static_assert(sizeof(tw_abi_host) == 12 * sizeof(void *), "fields below in order");
    return private_global(e,
                          row(e, "qqpppppppppp", (uint64_t)TW_ABI_VERSION, (uint64_t)1, e->null,
                              loop, alloc, release, output, e->null, e->null, error, alloc,
                              e->null),
                          "plain_host");
}

static const char *prefixed(emitter *e, const char *prefix, const char *name)
{
    return tw_arena_printf(tw_context_arena(e->ctx), "%s_%s", prefix, name);
}

/* PREFIX_run_on(host, inputs, outputs, arena[, symbols]), PREFIX_run without the host, and
 * PREFIX_plan(symbols, output_dims) if there are symbols. The address of the constants comes from
 * the descriptor, since they may lie out of reach of a 32-bit offset. */
static void run_functions(emitter *e, const tw_descriptor_spec *spec, LLVMValueRef model)
{
    const tw_artifact_code *code = &spec->artifact->code[0];
    bool symbols = spec->artifact->model.n_symbols > 0;
    LLVMBuilderRef b = e->b;
    LLVMTypeRef p = e->ptr, types[] = {p, p, p, p, p};
    LLVMValueRef host = plain_host(e, b);
    LLVMValueRef offset = LLVMConstInt(e->i64, offsetof(tw_abi_model, constants), false);
    LLVMValueRef place = LLVMConstInBoundsGEP2(LLVMInt8TypeInContext(e->llvm), model, &offset, 1);
    for (unsigned with_host = 0; with_host < 2; with_host++) {
        LLVMTypeRef type = LLVMFunctionType(e->i32, types, with_host + 3 + symbols, false);
        const char *name = prefixed(e, spec->prefix, with_host ? "run_on" : "run");
        LLVMValueRef f = new_function(e, name, type, b);
        LLVMValueRef args[6] = {
            with_host ? LLVMGetParam(f, 0) : host,
            LLVMGetParam(f, with_host),
            LLVMGetParam(f, with_host + 1),
            LLVMBuildLoad2(b, p, place, ""),
            LLVMGetParam(f, with_host + 2),
            symbols ? LLVMGetParam(f, with_host + 3) : e->null,
        };
        LLVMBuildRet(b, call_entry(e, code->entry, args, b));
    }
    if (symbols) {
        LLVMTypeRef type = LLVMFunctionType(e->i64, types, 2, false);
        LLVMValueRef f = new_function(e, prefixed(e, spec->prefix, "plan"), type, b);
        LLVMTypeRef full = LLVMFunctionType(e->i64, (LLVMTypeRef[]){p, p, p}, 3, false);
        LLVMValueRef args[] = {LLVMGetParam(f, 0), LLVMGetParam(f, 1), e->null};
        LLVMBuildRet(b, LLVMBuildCall2(b, full, external(e, code->plan), args, 3, ""));
    }
}

/* ---- The descriptor -------------------------------------------------------------------------- */

static LLVMValueRef variants(emitter *e, const tw_artifact *a)
{
    LLVMValueRef *rows = new_rows(e, a->model.n_variants);
    for (uint32_t i = 0; i < a->model.n_variants; i++) {
        const tw_abi_variant *v = &a->model.variants[i];
        const char *plan = a->code[i].plan;
        _Static_assert(TW_ABI_CPU_WORDS == 2, "two words below");
        rows[i] = row(e, "sqqppqwwpp", v->cpu, v->features[0], v->features[1],
                      external(e, a->code[i].entry), plan ? external(e, plan) : e->null,
                      v->arena_size, v->n_kernels, v->n_buffers, kernels(e, v), buffers(e, v));
    }
    return table(e, rows, a->model.n_variants, "variants");
}

static void build(emitter *e, const tw_descriptor_spec *spec)
{
    const tw_artifact *a = spec->artifact;
    const tw_abi_model *m = &a->model;
    const char *prefix = spec->prefix;
    LLVMValueRef constants = e->null;
    if (prefix && m->constants_size)
        constants = hide(LLVMAddGlobal(e->module, LLVMInt8TypeInContext(e->llvm),
                                       prefixed(e, prefix, "constants")));
    LLVMValueRef value =
        row(e, "qwwqssswwwwwwppppppqp", (uint64_t)TW_ABI_MAGIC, (uint32_t)TW_ABI_VERSION,
            (uint32_t)sizeof(tw_abi_model), spec->id, m->name, "tilewright " TW_VERSION, m->target,
            m->n_inputs, m->n_outputs, m->n_symbols, m->n_variants, (uint32_t)spec->n_imports,
            m->n_constants, tensors(e, m->inputs, m->n_inputs, "inputs"),
            tensors(e, m->outputs, m->n_outputs, "outputs"), strings(e, m->symbols, m->n_symbols),
            variants(e, a), imports(e, spec), constant_table(e, m), m->constants_size, constants);
    LLVMValueRef global = LLVMAddGlobal(e->module, LLVMTypeOf(value),
                                        prefix ? prefixed(e, prefix, "model") : TW_ABI_SYMBOL);
    LLVMSetInitializer(global, value);
    LLVMSetGlobalConstant(global, true);
    if (prefix)
        run_functions(e, spec, global);
}

/* ---- Emission -------------------------------------------------------------------------------- */

static void initialize_targets(void)
{
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeAArch64TargetInfo();
    LLVMInitializeAArch64Target();
    LLVMInitializeAArch64TargetMC();
    LLVMInitializeAArch64AsmPrinter();
}

static bool emit(emitter *e, const char *triple, tw_bytes *object)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, initialize_targets);
    LLVMTargetRef target;
    if (LLVMGetTargetFromTriple(triple, &target, &e->message))
        return tw_error(e->ctx, NULL, "target '%s': %s", triple, e->message);
    LLVMTargetMachineRef machine = LLVMCreateTargetMachine(
        target, triple, "", "", LLVMCodeGenLevelLess, LLVMRelocPIC, LLVMCodeModelDefault);
    LLVMSetTarget(e->module, triple);
    bool failed = LLVMTargetMachineEmitToMemoryBuffer(machine, e->module, LLVMObjectFile,
                                                      &e->message, &e->buffer);
    LLVMDisposeTargetMachine(machine);
    if (failed)
        return tw_error(e->ctx, NULL, "emitting the model's descriptor failed: %s", e->message);
    object->size = LLVMGetBufferSize(e->buffer);
    object->data =
        tw_arena_memdup(tw_context_arena(e->ctx), LLVMGetBufferStart(e->buffer), object->size);
    return true;
}

static bool build_and_emit(void *data)
{
    emitter *e = data;
    e->strings = tw_map_make(tw_context_arena(e->ctx));
    build(e, e->spec);
    return emit(e, e->spec->artifact->model.target, e->object);
}

static void dispose(void *data)
{
    emitter *e = data;
    if (e->buffer)
        LLVMDisposeMemoryBuffer(e->buffer);
    if (e->message)
        LLVMDisposeMessage(e->message);
    LLVMDisposeBuilder(e->b);
    LLVMDisposeModule(e->module);
    LLVMContextDispose(e->llvm);
}

bool tw_descriptor_emit(tw_context *ctx, const tw_descriptor_spec *spec, tw_bytes *object)
{
    LLVMContextRef llvm = LLVMContextCreate();
    emitter e = {
        .ctx = ctx,
        .spec = spec,
        .object = object,
        .llvm = llvm,
        .module = LLVMModuleCreateWithNameInContext("descriptor", llvm),
        .b = LLVMCreateBuilderInContext(llvm),
        .i32 = LLVMInt32TypeInContext(llvm),
        .i64 = LLVMInt64TypeInContext(llvm),
        .ptr = LLVMPointerTypeInContext(llvm, 0),
    };
    e.null = LLVMConstNull(e.ptr);
    return tw_context_finally(ctx, build_and_emit, dispose, &e);
}
