/* emit.c: optimization and output of one LLVM module.
 *
 * Kernels arrive explicit: vectors, unrolled tiles and contraction are in the IR. What is left is
 * to put register tiles into registers (sroa), to merge what unrolled copies share (early-cse), to
 * move invariant addresses out of loops (licm) and to simplify. LLVM's own vectorizers and
 * unroller stay out: they would undo the schedule. */
#include "codegen/llvm/cg.h"

#include <llvm-c/Error.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <string.h>

static const char optimize[] = "always-inline,"
                               "function(sroa,early-cse,simplifycfg,instsimplify,"
                               "loop-mssa(licm),early-cse<memssa>)";

static void run_passes(tw_cg *cg, LLVMTargetMachineRef machine)
{
    if (!cg->options->opt_level)
        return;
    LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
    LLVMErrorRef error = LLVMRunPasses(cg->module, optimize, machine, options);
    LLVMDisposePassBuilderOptions(options);
    if (!error)
        return;
    char *text = LLVMGetErrorMessage(error);
    const char *kept = tw_arena_strdup(cg->arena, text);
    LLVMDisposeErrorMessage(text);
    tw_cg_fail(cg, NULL, "LLVM: %s", kept);
}

LLVMMemoryBufferRef tw_cg_emit(tw_cg *cg, LLVMTargetMachineRef machine)
{
    run_passes(cg, machine);
    if (cg->options->form == TW_CODE_LLVM) {
        char *text = LLVMPrintModuleToString(cg->module);
        LLVMMemoryBufferRef out = LLVMCreateMemoryBufferWithMemoryRangeCopy(text, strlen(text), "");
        LLVMDisposeMessage(text);
        return out;
    }
    LLVMMemoryBufferRef out = NULL;
    char *message = NULL;
    LLVMCodeGenFileType type = cg->options->form == TW_CODE_ASM ? LLVMAssemblyFile : LLVMObjectFile;
    if (LLVMTargetMachineEmitToMemoryBuffer(machine, cg->module, type, &message, &out)) {
        const char *kept = tw_arena_strdup(cg->arena, message);
        LLVMDisposeMessage(message);
        tw_cg_fail(cg, NULL, "LLVM: %s", kept);
    }
    return out;
}
