/* codegen.c: from a module to pieces of code: kernels are dealt out in small batches to threads,
 * each with an LLVM context of its own. */
#include "codegen/llvm/codegen.h"

#include "codegen/llvm/cg.h"
#include "codegen/llvm/target.h"
#include "dialect/core/core.h"

#include <llvm-c/Analysis.h>
#include <llvm-c/ErrorHandling.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A batch takes kernels until it has this many operations: enough to outweigh what each LLVM module
 * costs, few enough to keep all threads busy. It depends on the module alone. */
enum { BATCH_OPS = 300, MAX_THREADS = 64, STACK_SIZE = 16 << 20 };

typedef struct job {
    tw_op **kernels;
    size_t n;
    tw_op *entry; /* a function instead of kernels, or NULL */
    LLVMMemoryBufferRef code;
    const char *error; /* in the worker's arena */
    tw_loc error_loc;
} job;

typedef struct compilation compilation;

typedef struct worker {
    compilation *all;
    tw_arena *arena;
    tw_cg cg; /* of its job */
    pthread_t thread;
    bool started;
} worker;

struct compilation {
    tw_context *ctx;
    const tw_codegen_options *options;
    tw_cg_program program;
    tw_op *entry;
    job *jobs;
    size_t n_jobs;
    atomic_size_t next;
    worker *workers;
    unsigned n_workers;
    tw_codegen_result *out;
};

/* ---- Errors ---- */

void tw_cg_fail(tw_cg *cg, const tw_op *op, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    cg->error = tw_arena_vprintf(cg->arena, format, args);
    va_end(args);
    cg->error_loc = op ? op->loc : NULL;
    longjmp(*cg->handler, 1);
}

/* LLVM's fatal errors end the process unless the handler leaves; what LLVM held is lost then. */
static _Thread_local tw_cg *current;

static void on_fatal(const char *reason)
{
    if (!current)
        return;
    current->lost = true;
    tw_cg_fail(current, NULL, "LLVM: %s", reason);
}

static void install_handler(void)
{
    LLVMInstallFatalErrorHandler(on_fatal);
}

static void on_diagnostic(LLVMDiagnosticInfoRef info, void *data)
{
    tw_cg *cg = data;
    if (LLVMGetDiagInfoSeverity(info) != LLVMDSError || cg->error)
        return;
    char *text = LLVMGetDiagInfoDescription(info);
    cg->error = tw_arena_strdup(cg->arena, text);
    LLVMDisposeMessage(text);
}

/* ---- One module ---- */

static void open_module(tw_cg *cg, LLVMTargetMachineRef machine, const char *name)
{
    cg->llvm = LLVMContextCreate();
    LLVMContextSetDiagnosticHandler(cg->llvm, on_diagnostic, cg);
    LLVMContextSetDiscardValueNames(cg->llvm, cg->options->form != TW_CODE_LLVM);
    cg->module = LLVMModuleCreateWithNameInContext(name, cg->llvm);
    cg->b = LLVMCreateBuilderInContext(cg->llvm);
    cg->side = LLVMCreateBuilderInContext(cg->llvm);
    LLVMTargetDataRef layout = LLVMCreateTargetDataLayout(machine);
    LLVMSetModuleDataLayout(cg->module, layout);
    LLVMDisposeTargetData(layout);
    LLVMSetTarget(cg->module, cg->target->triple);
    cg->void_t = LLVMVoidTypeInContext(cg->llvm);
    cg->i1 = LLVMInt1TypeInContext(cg->llvm);
    cg->i8 = LLVMInt8TypeInContext(cg->llvm);
    cg->i16 = LLVMInt16TypeInContext(cg->llvm);
    cg->i32 = LLVMInt32TypeInContext(cg->llvm);
    cg->i64 = LLVMInt64TypeInContext(cg->llvm);
    cg->half = LLVMHalfTypeInContext(cg->llvm);
    cg->f32 = LLVMFloatTypeInContext(cg->llvm);
    cg->f64 = LLVMDoubleTypeInContext(cg->llvm);
    cg->ptr = LLVMPointerTypeInContext(cg->llvm, 0);
}

static void close_module(tw_cg *cg)
{
    if (!cg->llvm || cg->lost)
        return;
    LLVMDisposeBuilder(cg->b);
    LLVMDisposeBuilder(cg->side);
    LLVMDisposeModule(cg->module);
    LLVMContextDispose(cg->llvm);
}

static void verify(tw_cg *cg)
{
#ifndef NDEBUG
    char *message = NULL;
    if (LLVMVerifyModule(cg->module, LLVMReturnStatusAction, &message)) {
        char *text = LLVMPrintModuleToString(cg->module);
        const char *kept = tw_arena_printf(cg->arena, "%s%s", message, text);
        LLVMDisposeMessage(text);
        LLVMDisposeMessage(message);
        tw_cg_fail(cg, NULL, "invalid LLVM IR was made: %s", kept);
    }
    LLVMDisposeMessage(message);
#else
    (void)cg;
#endif
}

static const char *job_name(const job *j)
{
    return tw_op_string(j->entry ? j->entry : j->kernels[0], "sym_name", "");
}

static bool has_symbols(const tw_cg_program *program)
{
    return program->input_symbols > 0;
}

static void compile(tw_cg *cg, job *j, LLVMTargetMachineRef *machine)
{
    if (!*machine)
        *machine = tw_cg_target_machine(cg);
    open_module(cg, *machine, job_name(j));
    if (j->entry)
        tw_cg_entry(cg, j->entry);
    if (j->entry && has_symbols(cg->program))
        tw_cg_plan(cg, j->entry);
    for (size_t i = 0; i < j->n; i++)
        tw_cg_kernel(cg, j->kernels[i]);
    verify(cg);
    j->code = tw_cg_emit(cg, *machine);
}

static void run_job(worker *w, job *j, LLVMTargetMachineRef *machine)
{
    jmp_buf handler;
    tw_cg *cg = &w->cg;
    *cg = (tw_cg){.arena = w->arena,
                  .target = w->all->options->target,
                  .options = w->all->options,
                  .program = &w->all->program,
                  .handler = &handler};
    current = cg;
    jmp_buf *outer = tw_arena_on_exhausted(w->arena, &handler);
    if (setjmp(handler) == 0)
        compile(cg, j, machine);
    else if (!cg->error)
        cg->error = "out of memory";
    tw_arena_on_exhausted(w->arena, outer);
    current = NULL;
    j->error = cg->error;
    j->error_loc = cg->error_loc;
    close_module(cg);
    if (cg->lost)
        *machine = NULL;
}

static void *work(void *data)
{
    worker *w = data;
    LLVMTargetMachineRef machine = NULL;
    for (;;) {
        size_t i = atomic_fetch_add(&w->all->next, 1);
        if (i >= w->all->n_jobs)
            break;
        run_job(w, &w->all->jobs[i], &machine);
    }
    if (machine)
        LLVMDisposeTargetMachine(machine);
    return NULL;
}

/* ---- All of them ---- */

static bool count_op(tw_op *op, void *data)
{
    (void)op;
    ++*(size_t *)data;
    return true;
}

/* The function that runs the model: @main, if the module has one with a body. */
static tw_op *find_entry(tw_op *module)
{
    for (unsigned r = 0; r < module->n_regions; r++)
        for (tw_op *op = module->regions[r].first; op; op = op->next)
            if (tw_is_core(op, TW_CORE_FUNC) && !tw_core_is_declaration(op) &&
                strcmp(tw_op_string(op, "sym_name", ""), "main") == 0)
                return op;
    return NULL;
}

static void make_jobs(tw_arena *arena, tw_op *module, compilation *c)
{
    TW_VEC(tw_op *) kernels = {0};
    TW_VEC(job) jobs = {0};
    if (tw_is_loop(module, TW_LOOP_KERNEL))
        tw_vec_push(arena, &kernels, module);
    for (unsigned r = 0; !kernels.len && r < module->n_regions; r++)
        for (tw_op *op = module->regions[r].first; op; op = op->next)
            if (tw_is_loop(op, TW_LOOP_KERNEL))
                tw_vec_push(arena, &kernels, op);
    size_t ops = BATCH_OPS;
    for (size_t i = 0; i < kernels.len; i++) {
        if (ops >= BATCH_OPS) {
            tw_vec_push(arena, &jobs, ((job){.kernels = kernels.data + i}));
            ops = 0;
        }
        jobs.data[jobs.len - 1].n++;
        tw_walk(kernels.data[i], count_op, &ops);
    }
    if (c->entry)
        tw_vec_push(arena, &jobs, ((job){.entry = c->entry}));
    c->jobs = jobs.data;
    c->n_jobs = jobs.len;
}

static unsigned thread_count(const compilation *c)
{
    long n = c->options->threads ? (long)c->options->threads : sysconf(_SC_NPROCESSORS_ONLN);
    n = n > MAX_THREADS ? MAX_THREADS : n;
    return n<1 ? 1 : n>(long) c->n_jobs ? (unsigned)c->n_jobs : (unsigned)n;
}

/* The calling thread works too; a thread that cannot be had is done without. */
static void run_workers(compilation *c)
{
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_SIZE);
    for (unsigned i = 1; i < c->n_workers; i++) {
        worker *w = &c->workers[i];
        w->started = w->arena && pthread_create(&w->thread, &attributes, work, w) == 0;
    }
    pthread_attr_destroy(&attributes);
    work(&c->workers[0]);
    for (unsigned i = 1; i < c->n_workers; i++)
        if (c->workers[i].started)
            pthread_join(c->workers[i].thread, NULL);
}

static bool report(const compilation *c)
{
    bool fine = true;
    for (size_t i = 0; i < c->n_jobs; i++)
        if (c->jobs[i].error)
            fine = tw_error(c->ctx, c->jobs[i].error_loc, "%s", c->jobs[i].error);
    return fine;
}

static void collect(const compilation *c)
{
    tw_arena *arena = tw_context_arena(c->ctx);
    tw_codegen_result *out = c->out;
    out->pieces = TW_NEW_ARRAY(arena, tw_code, c->n_jobs);
    out->n_pieces = c->n_jobs;
    for (size_t i = 0; i < c->n_jobs; i++) {
        LLVMMemoryBufferRef code = c->jobs[i].code;
        tw_code *piece = &out->pieces[i];
        piece->name = job_name(&c->jobs[i]);
        piece->size = LLVMGetBufferSize(code);
        piece->bytes = tw_arena_memdup(arena, LLVMGetBufferStart(code), piece->size);
    }
    out->calls = c->program.calls;
    out->n_calls = c->program.n_calls;
    const char *suffix = c->options->suffix ? c->options->suffix : "";
    out->entry = c->entry ? tw_arena_printf(arena, "tw_entry%s", suffix) : NULL;
    out->plan =
        c->entry && has_symbols(&c->program) ? tw_arena_printf(arena, "tw_plan%s", suffix) : NULL;
}

static bool run_jobs(void *data)
{
    compilation *c = data;
    for (unsigned i = 0; i < c->n_workers; i++)
        c->workers[i] = (worker){.all = c, .arena = tw_arena_create(0)};
    if (c->n_workers && !c->workers[0].arena)
        return tw_error(c->ctx, NULL, "out of memory");
    if (c->n_workers)
        run_workers(c);
    if (!report(c))
        return false;
    collect(c);
    return true;
}

static void end_jobs(void *data)
{
    compilation *c = data;
    for (size_t i = 0; i < c->n_jobs; i++)
        if (c->jobs[i].code)
            LLVMDisposeMemoryBuffer(c->jobs[i].code);
    for (unsigned i = 0; i < c->n_workers; i++)
        tw_arena_destroy(c->workers[i].arena);
}

bool tw_codegen_module(tw_context *ctx, tw_op *module, const tw_codegen_options *options,
                       tw_codegen_result *out)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, install_handler);
    tw_llvm_initialize();
    compilation c = {.ctx = ctx, .options = options, .entry = find_entry(module), .out = out};
    if (!tw_cg_program_fill(ctx, module, c.entry, &c.program))
        return false;
    make_jobs(tw_context_arena(ctx), module, &c);
    c.n_workers = thread_count(&c);
    c.workers = TW_NEW_ARRAY(tw_context_arena(ctx), worker, c.n_workers);
    return tw_context_finally(ctx, run_jobs, end_jobs, &c);
}
