/* check_threads.h: the pass check-threads. */
#ifndef TW_INTERP_CHECK_THREADS_H
#define TW_INTERP_CHECK_THREADS_H

#include "tilewright/ir.h"

extern const tw_pass tw_pass_check_threads;

#endif
