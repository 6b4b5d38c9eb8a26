/* lld_shim.h: lld in process. Not for use beside link.c, which makes it safe to call. */
#ifndef TW_LINK_LLD_SHIM_H
#define TW_LINK_LLD_SHIM_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tw_lld_result {
    TW_LLD_OK,
    TW_LLD_FAILED,   /* an error that `message` tells */
    TW_LLD_UNUSABLE, /* likewise, and lld must not be called again in this process */
} tw_lld_result;

/* Runs `ld.lld` with the arguments (args[0] is "ld.lld"). What it says is cut to `size` bytes. One
 * thread at a time. */
tw_lld_result tw_lld_main(const char *const *args, size_t n_args, char *message, size_t size);

#ifdef __cplusplus
}
#endif
#endif
