/* target.h: LLVM's side of targets. */
#ifndef TW_CODEGEN_LLVM_TARGET_H
#define TW_CODEGEN_LLVM_TARGET_H

#include "base/target.h"

/* The target of a --cpu argument: any that tw_target_find knows, or "host" for this machine. False
 * with a diagnostic that lists what would be accepted. */
bool tw_target_resolve(tw_context *ctx, const char *name, tw_target *out);

/* Makes LLVM's code generators ready; any number of times, from any thread. */
void tw_llvm_initialize(void);

#endif
