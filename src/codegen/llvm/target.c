/* target.c: LLVM's code generators, target machines, and what this host is. */
#include "codegen/llvm/target.h"

#include "codegen/llvm/cg.h"

#include <llvm-c/Target.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

static void initialize(void)
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

void tw_llvm_initialize(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, initialize);
}

LLVMTargetMachineRef tw_cg_target_machine(tw_cg *cg)
{
    const tw_target *t = cg->target;
    LLVMTargetRef target;
    char *message = NULL;
    if (LLVMGetTargetFromTriple(t->triple, &target, &message)) {
        const char *kept = tw_arena_strdup(cg->arena, message);
        LLVMDisposeMessage(message);
        tw_cg_fail(cg, NULL, "LLVM has no target '%s': %s", t->triple, kept);
    }
    LLVMCodeGenOptLevel level =
        cg->options->opt_level ? LLVMCodeGenLevelDefault : LLVMCodeGenLevelNone;
    return LLVMCreateTargetMachine(target, t->triple, t->level, t->features, level, LLVMRelocPIC,
                                   LLVMCodeModelSmall);
}

/* Cache sizes as the system reports them; those of the level stay where it does not. */
static void host_caches(tw_target *t)
{
    long l1 = sysconf(_SC_LEVEL1_DCACHE_SIZE), l2 = sysconf(_SC_LEVEL2_CACHE_SIZE);
    if (l1 >= 8 * 1024 && l1 <= 1024 * 1024)
        t->l1_bytes = (unsigned)l1;
    if (l2 >= 64 * 1024 && l2 <= 64 * 1024 * 1024)
        t->l2_bytes = (unsigned)l2;
}

static bool host(tw_context *ctx, tw_target *out)
{
#if defined(__x86_64__)
    char *cpu = LLVMGetHostCPUName(), *features = LLVMGetHostCPUFeatures();
    tw_target_from_features(ctx, "host", cpu, features, out);
    LLVMDisposeMessage(cpu);
    LLVMDisposeMessage(features);
    host_caches(out);
    return true;
#elif defined(__aarch64__)
    (void)ctx;
    tw_target_find("aarch64", out);
    host_caches(out);
    return true;
#else
    (void)out;
    return tw_error(ctx, NULL, "this machine's processor is not one that code can be made for");
#endif
}

bool tw_target_resolve(tw_context *ctx, const char *name, tw_target *out)
{
    tw_llvm_initialize();
    if (strcmp(name, "host") == 0)
        return host(ctx, out);
    if (tw_target_find(name, out))
        return true;
    const char *list = "host", *known;
    for (unsigned i = 0; (known = tw_target_name(i)); i++)
        list = tw_arena_printf(tw_context_arena(ctx), "%s, %s", list, known);
    return tw_error(ctx, NULL, "unknown CPU '%s'; known are: %s", name, list);
}
