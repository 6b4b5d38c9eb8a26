/* host.h: the callbacks of compiled code. */
#ifndef TW_RUNTIME_HOST_H
#define TW_RUNTIME_HOST_H

#include "runtime/session.h"

/* Fills in the session's host table from its threads; with profiling, kernels are timed. */
void tw_host_init(tw_session *session, bool profile);

/* Before and after the entry is called; `code` is what the entry returned. */
void tw_host_start(tw_session *session);
tw_status tw_host_finish(tw_session *session, int32_t code);
/* Frees what the last run kept. */
void tw_host_release_kept(tw_session *session);

#endif
