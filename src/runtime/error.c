/* error.c: one message buffer a thread. */
#include "runtime/error.h"

#include <stdarg.h>
#include <stdio.h>

static _Thread_local char message[512];

tw_status tw_fail(tw_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    return status;
}

tw_status tw_fail_memory(void)
{
    return tw_fail(TW_STATUS_MEMORY, "out of memory");
}

const char *tw_last_error(void)
{
    return message;
}
