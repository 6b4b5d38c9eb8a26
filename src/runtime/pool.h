/* pool.h: the fork-join thread pool. The public part is in tilewright/runtime.h. */
#ifndef TW_RUNTIME_POOL_H
#define TW_RUNTIME_POOL_H

#include "tilewright/runtime.h"

/* The pool that sessions share, made when first asked for and made larger when `threads` (caller
 * included) is above its size. Balanced by tw_pool_shared_release: it ends with the last user. */
tw_status tw_pool_shared_acquire(unsigned threads, tw_pool **out);
void tw_pool_shared_release(tw_pool *pool);

#endif
