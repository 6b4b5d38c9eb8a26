/* error.h: the text behind tw_last_error. */
#ifndef TW_RUNTIME_ERROR_H
#define TW_RUNTIME_ERROR_H

#include "tilewright/runtime.h"

/* Sets the calling thread's message and returns `status`. */
tw_status tw_fail(tw_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same for a lack of memory, with one text for all. */
tw_status tw_fail_memory(void);

#endif
