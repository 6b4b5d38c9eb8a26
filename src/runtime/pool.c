/* pool.c: parallel loops on a fixed set of threads.
 *
 * A parallel loop is a job in one of a few slots. The caller publishes it, works on it itself, and
 * returns when nobody else works on it any more; workers join open jobs. So a job needs no worker
 * to finish, and several callers share the workers. The iterations of a job are cut into one lane
 * per participant; each takes chunks of its own lane first (the same part of the data in loop
 * after loop) and then helps in the lanes of others.
 *
 * A slot's state is one word: generation (32 bits), OPEN, WAITING, room for more participants
 * (14), participants besides the caller (16). Joining is a compare-and-swap on it, so that nobody
 * joins a job that has ended, nor its successor by mistake.
 *
 * Idle workers watch the epoch, which each published job advances, for SPIN_NS, and then sleep on
 * it (futex). The caller wakes no more of them than the job has room for. */
#include "runtime/pool.h"
#include "runtime/cpus.h"
#include "runtime/error.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    SLOTS = 16, /* jobs at once; more callers work alone */
    LANES = 64, /* more participants share lanes */
    CHUNKS = 8, /* of a lane */
    MAX_THREADS = 1024,
    SPIN_NS = 50 * 1000, /* some times the cost of a futex wake-up */
};

enum { ROOM_SHIFT = 16, ROOM_MASK = 0x3fff };
static const uint64_t ACTIVE_MASK = 0xffff, ROOM_ONE = 1u << ROOM_SHIFT, WAITING = 1u << 30,
                      OPEN = 1u << 31, GENERATION_ONE = (uint64_t)1 << 32;

typedef struct lane {
    _Alignas(64) _Atomic int64_t next;
    int64_t end, chunk;
} lane;

typedef struct slot {
    _Alignas(64) _Atomic uint64_t state;
    void (*body)(void *ctx, int64_t begin, int64_t end);
    void *ctx;
    unsigned n_lanes;
    atomic_uint next_lane;
    lane lanes[LANES];
} slot;

struct tw_pool {
    _Alignas(64) atomic_uint epoch;
    atomic_uint open; /* bit per slot: a job to join */
    atomic_uint used; /* bit per slot: taken by a caller */
    atomic_uint spinning, sleeping;
    atomic_bool stop;
    atomic_uint threads; /* workers + 1 */
    unsigned forks;      /* value of fork_count when the workers were made */
    unsigned users;      /* of the shared pool */
    _Atomic uint64_t spin_ns;
    pthread_t *workers;
    slot slots[SLOTS];
};

/* Set while the thread is inside a body: loops within loops run where they are. */
static _Thread_local bool in_body;

/* Forks of this process: a pool made before has no workers in the child. */
static atomic_uint fork_count;

static bool has_workers(const tw_pool *pool)
{
    return pool->forks == atomic_load(&fork_count);
}

unsigned tw_pool_threads(const tw_pool *pool)
{
    return has_workers(pool) ? atomic_load(&pool->threads) : 1;
}

static void futex_wait(atomic_uint *word, unsigned expected)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, expected, NULL, NULL, 0);
}

static void futex_wake(atomic_uint *word, unsigned n)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, n, NULL, NULL, 0);
}

/* The half of a slot's state that holds the flags: futexes are 32 bits wide. */
static atomic_uint *futex_word(slot *s)
{
    return (atomic_uint *)&s->state + (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__);
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void pause_cpu(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("isb");
#endif
}

/* ---- Working on a job ------------------------------------------------------------------------ */

static void work_on_lane(slot *s, lane *l)
{
    for (;;) {
        int64_t begin = atomic_fetch_add_explicit(&l->next, l->chunk, memory_order_relaxed);
        if (begin >= l->end)
            return;
        int64_t end = l->end - begin < l->chunk ? l->end : begin + l->chunk;
        s->body(s->ctx, begin, end);
    }
}

static void work_on_job(slot *s)
{
    unsigned n = s->n_lanes;
    unsigned mine = atomic_fetch_add_explicit(&s->next_lane, 1, memory_order_relaxed) % n;
    for (unsigned i = 0; i < n; i++)
        work_on_lane(s, &s->lanes[(mine + i) % n]);
}

static bool join_job(slot *s)
{
    uint64_t state = atomic_load(&s->state);
    while ((state & OPEN) && (state >> ROOM_SHIFT & ROOM_MASK))
        if (atomic_compare_exchange_weak(&s->state, &state, state - ROOM_ONE + 1))
            return true;
    return false;
}

static void leave_job(slot *s)
{
    uint64_t before = atomic_fetch_sub(&s->state, 1);
    if ((before & WAITING) && (before & ACTIVE_MASK) == 1)
        futex_wake(futex_word(s), 1);
}

/* Works on each open job that has room. False when there was none. */
static bool join_any(tw_pool *pool)
{
    bool worked = false;
    for (unsigned open = atomic_load(&pool->open); open; open &= open - 1) {
        slot *s = &pool->slots[__builtin_ctz(open)];
        if (join_job(s)) {
            work_on_job(s);
            leave_job(s);
            worked = true;
        }
    }
    return worked;
}

/* ---- Workers --------------------------------------------------------------------------------- */

/* Returns when the epoch is no longer `seen`. */
static void wait_for_epoch(tw_pool *pool, unsigned seen)
{
    atomic_fetch_add(&pool->spinning, 1);
    uint64_t spin_ns = atomic_load_explicit(&pool->spin_ns, memory_order_relaxed);
    if (spin_ns) {
        uint64_t until = now_ns() + spin_ns;
        do
            for (int i = 0; i < 32 && atomic_load(&pool->epoch) == seen; i++)
                pause_cpu();
        while (atomic_load(&pool->epoch) == seen && now_ns() < until);
    }
    atomic_fetch_add(&pool->sleeping, 1);
    atomic_fetch_sub(&pool->spinning, 1);
    while (atomic_load(&pool->epoch) == seen)
        futex_wait(&pool->epoch, seen);
    atomic_fetch_sub(&pool->sleeping, 1);
}

static void *worker_main(void *argument)
{
    tw_pool *pool = argument;
    in_body = true;
    for (;;) {
        unsigned seen = atomic_load(&pool->epoch);
        if (atomic_load(&pool->stop))
            return NULL;
        if (!join_any(pool))
            wait_for_epoch(pool, seen);
    }
}

/* Adds workers until the pool has `threads` threads, or as many as the system lets it have. */
static bool grow(tw_pool *pool, unsigned threads)
{
    unsigned have = atomic_load(&pool->threads);
    if (threads <= have)
        return true;
    pthread_t *workers = realloc(pool->workers, threads * sizeof *workers);
    if (!workers)
        return false;
    pool->workers = workers;
    if (threads > tw_usable_cpus())
        atomic_store(&pool->spin_ns, 0); /* whoever spins would take the CPU from who has work */
    /* The embedder's signal handlers run on the embedder's threads. */
    sigset_t all, earlier;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &earlier);
    while (have < threads && !pthread_create(&workers[have - 1], NULL, worker_main, pool)) {
        pthread_setname_np(workers[have - 1], "tilewright");
        atomic_store(&pool->threads, ++have);
    }
    pthread_sigmask(SIG_SETMASK, &earlier, NULL);
    return have == threads;
}

/* ---- Callers --------------------------------------------------------------------------------- */

static slot *take_slot(tw_pool *pool)
{
    unsigned used = atomic_load(&pool->used);
    while (used != (1u << SLOTS) - 1) {
        unsigned bit = ~used & (used + 1);
        if (atomic_compare_exchange_weak(&pool->used, &used, used | bit))
            return &pool->slots[__builtin_ctz(bit)];
    }
    return NULL;
}

static void fill_lanes(slot *s, int64_t count, unsigned n)
{
    s->n_lanes = n;
    atomic_store_explicit(&s->next_lane, 0, memory_order_relaxed);
    int64_t each = count / n, extra = count % n, begin = 0;
    for (unsigned i = 0; i < n; i++) {
        int64_t size = each + (i < extra);
        atomic_store_explicit(&s->lanes[i].next, begin, memory_order_relaxed);
        s->lanes[i].end = begin += size;
        s->lanes[i].chunk = (size + CHUNKS - 1) / CHUNKS;
    }
}

static void publish(tw_pool *pool, slot *s, unsigned bit, unsigned helpers)
{
    uint64_t generation = (atomic_load(&s->state) & ~(GENERATION_ONE - 1)) + GENERATION_ONE;
    atomic_store(&s->state, generation | OPEN | helpers * ROOM_ONE);
    atomic_fetch_or(&pool->open, bit);
    atomic_fetch_add(&pool->epoch, 1);
    unsigned spinning = atomic_load(&pool->spinning), sleeping = atomic_load(&pool->sleeping);
    unsigned missing = helpers > spinning ? helpers - spinning : 0;
    if (missing && sleeping)
        futex_wake(&pool->epoch, missing < sleeping ? missing : sleeping);
}

/* Lets nobody join any more and waits until those who did have left. */
static void finish(tw_pool *pool, slot *s, unsigned bit)
{
    atomic_fetch_and(&pool->open, ~bit);
    uint64_t state = atomic_fetch_and(&s->state, ~OPEN) & ~OPEN;
    uint64_t until = 0;
    for (; state & ACTIVE_MASK; state = atomic_load(&s->state)) {
        for (int i = 0; i < 32 && (atomic_load(&s->state) & ACTIVE_MASK); i++)
            pause_cpu();
        uint64_t now = now_ns();
        if (!until)
            until = now + atomic_load_explicit(&pool->spin_ns, memory_order_relaxed);
        if (now < until)
            continue;
        state = atomic_fetch_or(&s->state, WAITING) | WAITING;
        if (state & ACTIVE_MASK)
            futex_wait(futex_word(s), (unsigned)state);
    }
    atomic_fetch_and(&pool->used, ~bit);
}

void tw_pool_parallel_for(tw_pool *pool, unsigned max_threads, int64_t count,
                          void (*body)(void *ctx, int64_t begin, int64_t end), void *ctx)
{
    if (count <= 0)
        return;
    unsigned threads = in_body || count > INT64_MAX / 2 ? 1 : tw_pool_threads(pool);
    if (max_threads && max_threads < threads)
        threads = max_threads;
    if (threads > count)
        threads = (unsigned)count;
    slot *s = threads > 1 ? take_slot(pool) : NULL;
    if (!s) {
        body(ctx, 0, count);
        return;
    }
    s->body = body;
    s->ctx = ctx;
    fill_lanes(s, count, threads < LANES ? threads : LANES);
    unsigned bit = 1u << (s - pool->slots);
    publish(pool, s, bit, threads - 1);
    in_body = true;
    work_on_job(s);
    in_body = false;
    finish(pool, s, bit);
}

/* ---- Life ------------------------------------------------------------------------------------ */

static struct {
    pthread_mutex_t lock;
    tw_pool *pool;
} shared = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void before_fork(void)
{
    pthread_mutex_lock(&shared.lock);
}

static void after_fork_in_parent(void)
{
    pthread_mutex_unlock(&shared.lock);
}

static void after_fork_in_child(void)
{
    atomic_fetch_add(&fork_count, 1);
    pthread_mutex_unlock(&shared.lock);
}

static void watch_forks(void)
{
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

static tw_pool *create(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    tw_pool *pool = aligned_alloc(_Alignof(tw_pool), sizeof *pool);
    if (!pool)
        return NULL;
    memset(pool, 0, sizeof *pool);
    atomic_store(&pool->threads, 1);
    atomic_store(&pool->spin_ns, SPIN_NS);
    pool->forks = atomic_load(&fork_count);
    return pool;
}

tw_status tw_pool_create(unsigned threads, tw_pool **out)
{
    *out = NULL;
    if (threads > MAX_THREADS)
        return tw_fail(TW_STATUS_INVALID, "%u threads: at most %d", threads, MAX_THREADS);
    tw_pool *pool = create();
    if (!pool)
        return tw_fail_memory();
    grow(pool, threads ? threads : tw_default_threads());
    *out = pool;
    return TW_STATUS_OK;
}

void tw_pool_destroy(tw_pool *pool)
{
    if (!pool)
        return;
    if (has_workers(pool)) {
        atomic_store(&pool->stop, true);
        atomic_fetch_add(&pool->epoch, 1);
        futex_wake(&pool->epoch, INT_MAX);
        unsigned workers = atomic_load(&pool->threads) - 1;
        for (unsigned i = 0; i < workers; i++)
            pthread_join(pool->workers[i], NULL);
    }
    free(pool->workers);
    free(pool);
}

tw_status tw_pool_shared_acquire(unsigned threads, tw_pool **out)
{
    *out = NULL;
    if (threads > MAX_THREADS)
        return tw_fail(TW_STATUS_INVALID, "%u threads: at most %d", threads, MAX_THREADS);
    unsigned common = tw_default_threads();
    pthread_mutex_lock(&shared.lock);
    /* One made before a fork is left to those who hold it. */
    if (!shared.pool || !has_workers(shared.pool))
        shared.pool = create();
    tw_pool *pool = shared.pool;
    if (pool) {
        grow(pool, threads > common ? threads : common);
        pool->users++;
    }
    pthread_mutex_unlock(&shared.lock);
    *out = pool;
    return pool ? TW_STATUS_OK : tw_fail_memory();
}

void tw_pool_shared_release(tw_pool *pool)
{
    if (!pool)
        return;
    pthread_mutex_lock(&shared.lock);
    bool last = --pool->users == 0;
    if (last && shared.pool == pool)
        shared.pool = NULL;
    pthread_mutex_unlock(&shared.lock);
    if (last)
        tw_pool_destroy(pool);
}
