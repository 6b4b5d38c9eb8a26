/* threads.h: kernels bound to a GPU's threads, run by all threads in step; private to src/interp.
 *
 * Each thread has registers and local memory of its own and goes through the whole kernel; a loop
 * bound to an axis runs once, with the thread's number on that axis, in threads below its extent.
 * Blocks of threads run one after another. Instructions run for one thread after another, so that
 * what 32 neighbours (a warp) touch at once is known. What depends on the order of threads is found
 * by what is noted for each element: who wrote and read it, and how many barriers ago. */
#ifndef TW_INTERP_THREADS_H
#define TW_INTERP_THREADS_H

#include "interp/machine.h"

enum { TW_THREAD_AXES = 3, TW_WARP = 32, TW_BANKS = 32, TW_SECTOR = 32 };

/* Who touched an element last. Numbers of blocks and barriers start at 1; 0: nobody. */
typedef struct tw_touch {
    uint32_t block, thread, epoch;
    bool several; /* threads since that barrier */
} tw_touch;

typedef struct tw_shadow {
    tw_touch *written, *read; /* one per element */
} tw_shadow;

/* One access of one thread, for what a warp does at once. */
typedef struct tw_thread_access {
    uint32_t thread, size;
    uint64_t address; /* bytes from the start of the memory */
} tw_thread_access;

struct tw_threads {
    int64_t grid[TW_THREAD_AXES], block[TW_THREAD_AXES]; /* extents */
    int64_t place[TW_THREAD_AXES];                       /* of the running block in the grid */
    uint32_t n, current;                                 /* threads of a block; the running one */
    uint32_t block_number, epoch;
    tw_slot **registers; /* of each thread */
    bool *active;
    tw_map shadows; /* memory -> tw_shadow */
    TW_VEC(tw_thread_access) accesses;
    tw_map worst; /* operation -> what its worst warp did, for a warning once */
    tw_interp_stats stats;
};

/* The extents of the axes that loops of the kernel are bound to; NULL when none is. */
struct tw_threads *tw_threads_of(tw_arena *arena, const tw_op *kernel);
/* Runs a decoded kernel on them. */
void tw_threads_run(tw_machine *m, tw_program *program);
/* Notes an access of the running thread to an element of memory that threads share; reports races.
 */
void tw_threads_touch(tw_machine *m, const tw_instr *in, const tw_membuf *buffer, size_t at,
                      bool write);

#endif
