/* test_pool.c: parallel loops run each iteration once, from any number of callers at once; the
 * number of threads follows affinity, cgroups and the environment. */
#include "runtime/cpus.h"
#include "tilewright/runtime.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { MAX_COUNT = 5000 };

typedef struct counters {
    tw_pool *pool;
    atomic_int hits[MAX_COUNT];
    atomic_int at_once, most_at_once, outside;
    int64_t count;
} counters;

static void count_hits(void *ctx, int64_t begin, int64_t end)
{
    counters *c = ctx;
    int now = atomic_fetch_add(&c->at_once, 1) + 1;
    int most = atomic_load(&c->most_at_once);
    while (now > most && !atomic_compare_exchange_weak(&c->most_at_once, &most, now))
        ;
    for (int64_t i = begin; i < end; i++)
        if (i < 0 || i >= c->count)
            atomic_fetch_add(&c->outside, 1);
        else
            atomic_fetch_add(&c->hits[i], 1);
    atomic_fetch_sub(&c->at_once, 1);
}

/* Whether each of the iterations ran `times` times, and no other. */
static bool each_ran(counters *c, int times)
{
    bool ok = atomic_load(&c->outside) == 0;
    for (int64_t i = 0; i < MAX_COUNT; i++)
        ok &= atomic_load(&c->hits[i]) == (i < c->count ? times : 0);
    return ok;
}

static counters *new_counters(tw_pool *pool, int64_t count)
{
    counters *c = calloc(1, sizeof *c);
    assert_non_null(c);
    c->pool = pool;
    c->count = count;
    return c;
}

static tw_pool *new_pool(unsigned threads)
{
    tw_pool *pool;
    assert_int_equal(tw_pool_create(threads, &pool), TW_STATUS_OK);
    return pool;
}

static void every_iteration_once(void **state)
{
    (void)state;
    const int64_t counts[] = {-1, 0, 1, 2, 3, 7, 64, 65, 1000, MAX_COUNT};
    for (unsigned threads = 1; threads <= 5; threads++) {
        tw_pool *pool = new_pool(threads);
        assert_int_equal(tw_pool_threads(pool), threads);
        for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
            counters *c = new_counters(pool, counts[i]);
            tw_pool_parallel_for(pool, 0, counts[i], count_hits, c);
            assert_true(each_ran(c, 1));
            free(c);
        }
        tw_pool_destroy(pool);
    }
}

static void many_loops_in_a_row(void **state)
{
    (void)state;
    tw_pool *pool = new_pool(3);
    counters *c = new_counters(pool, 17);
    for (int i = 0; i < 2000; i++)
        tw_pool_parallel_for(pool, 0, 17, count_hits, c);
    assert_true(each_ran(c, 2000));
    free(c);
    tw_pool_destroy(pool);
}

static void slow_body(void *ctx, int64_t begin, int64_t end)
{
    count_hits(ctx, begin, end);
    nanosleep(&(struct timespec){.tv_nsec = 200000}, NULL);
}

static void max_threads_is_kept(void **state)
{
    (void)state;
    tw_pool *pool = new_pool(6);
    for (unsigned max = 1; max <= 3; max++) {
        counters *c = new_counters(pool, 40);
        tw_pool_parallel_for(pool, max, 40, slow_body, c);
        assert_true(each_ran(c, 1));
        assert_in_range(atomic_load(&c->most_at_once), 1, max);
        free(c);
    }
    tw_pool_destroy(pool);
}

/* A sleeping participant leaves the CPU to others, so this holds on a single CPU, too. */
static void sleepy(void *ctx, int64_t begin, int64_t end)
{
    counters *c = ctx;
    int now = atomic_fetch_add(&c->at_once, 1) + 1;
    int most = atomic_load(&c->most_at_once);
    while (now > most && !atomic_compare_exchange_weak(&c->most_at_once, &most, now))
        ;
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    atomic_fetch_sub(&c->at_once, 1);
    (void)begin;
    (void)end;
}

static void workers_do_help(void **state)
{
    (void)state;
    tw_pool *pool = new_pool(4);
    counters *c = new_counters(pool, 4);
    for (int i = 0; i < 3; i++) {
        tw_pool_parallel_for(pool, 0, 8, sleepy, c);
        usleep(2000); /* long enough for the workers to fall asleep */
    }
    assert_int_equal(atomic_load(&c->most_at_once), 4);
    free(c);
    tw_pool_destroy(pool);
}

static void outer(void *ctx, int64_t begin, int64_t end)
{
    counters *c = ctx;
    for (int64_t i = begin; i < end; i++)
        tw_pool_parallel_for(c->pool, 0, c->count, count_hits, c);
}

static void nested_loops_run_inline(void **state)
{
    (void)state;
    tw_pool *pool = new_pool(3);
    counters *c = new_counters(pool, 100);
    tw_pool_parallel_for(pool, 0, 20, outer, c);
    assert_true(each_ran(c, 20));
    /* One thread in each outer piece: never more at once than threads. */
    assert_in_range(atomic_load(&c->most_at_once), 1, 3);
    free(c);
    tw_pool_destroy(pool);
}

static void *caller(void *argument)
{
    tw_pool *pool = argument;
    counters *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->count = 33;
    for (int i = 0; i < 300; i++)
        tw_pool_parallel_for(pool, 0, 33, count_hits, c);
    bool ok = each_ran(c, 300);
    free(c);
    return ok ? argument : NULL;
}

static void many_callers_at_once(void **state)
{
    (void)state;
    tw_pool *pool = new_pool(3);
    /* More callers than job slots: the rest work alone. */
    pthread_t threads[20];
    for (int i = 0; i < 20; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, caller, pool), 0);
    for (int i = 0; i < 20; i++) {
        void *result;
        pthread_join(threads[i], &result);
        assert_non_null(result);
    }
    tw_pool_destroy(pool);
}

static void idle_pool_uses_no_cpu(void **state)
{
    (void)state;
    tw_pool *pool = new_pool(2);
    counters *c = new_counters(pool, 100);
    tw_pool_parallel_for(pool, 0, 100, count_hits, c);
    usleep(5000);
    struct timespec before, after;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
    usleep(50000);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
    double used = (double)(after.tv_sec - before.tv_sec) + (after.tv_nsec - before.tv_nsec) * 1e-9;
    assert_true(used < 0.005);
    free(c);
    tw_pool_destroy(pool);
}

static void forked_child_works_alone(void **state)
{
    (void)state;
    tw_pool *pool = new_pool(3);
    pid_t child = fork();
    if (child == 0) {
        counters *c = calloc(1, sizeof *c);
        c->count = 50;
        tw_pool_parallel_for(pool, 0, 50, count_hits, c);
        bool ok = each_ran(c, 1) && tw_pool_threads(pool) == 1;
        free(c);
        tw_pool_destroy(pool);
        _exit(ok ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    tw_pool_destroy(pool);
}

static void threads_follow_affinity_and_environment(void **state)
{
    (void)state;
    cpu_set_t all, one;
    assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &all)) {
            CPU_SET(i, &one);
            break;
        }
    unsetenv("TILEWRIGHT_NUM_THREADS");
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(tw_default_threads(), 1);
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
    assert_in_range(tw_default_threads(), 1, CPU_COUNT(&all));

    setenv("TILEWRIGHT_NUM_THREADS", "7", 1);
    assert_int_equal(tw_default_threads(), 7);
    unsigned usual = tw_usable_cpus();
    const char *const ignored[] = {"", "0", "-2", "x", "3x", "99999"};
    for (size_t i = 0; i < sizeof ignored / sizeof ignored[0]; i++) {
        setenv("TILEWRIGHT_NUM_THREADS", ignored[i], 1);
        assert_int_equal(tw_default_threads(), usual);
    }
    unsetenv("TILEWRIGHT_NUM_THREADS");
}

/* ---- cgroups --------------------------------------------------------------------------------- */

static char root[64];

static void put(const char *path, const char *text)
{
    char full[256];
    snprintf(full, sizeof full, "%s/%s", root, path);
    for (char *slash = full + strlen(root) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        mkdir(full, 0700);
        *slash = '/';
    }
    FILE *file = fopen(full, "w");
    if (!file)
        abort();
    fputs(text, file);
    fclose(file);
}

static double quota(void)
{
    char cgroup[128], mountinfo[128];
    snprintf(cgroup, sizeof cgroup, "%s/cgroup", root);
    snprintf(mountinfo, sizeof mountinfo, "%s/mountinfo", root);
    return tw_cgroup_quota(cgroup, mountinfo);
}

static int make_root(void **state)
{
    (void)state;
    snprintf(root, sizeof root, "/tmp/tw-cgroup-XXXXXX");
    return mkdtemp(root) ? 0 : -1;
}

static int remove_root(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    return system(command);
}

static void cgroup_v2(void **state)
{
    (void)state;
    char mounts[256];
    snprintf(mounts, sizeof mounts,
             "20 1 0:5 / /proc rw - proc proc rw\n"
             "30 1 0:26 / %s/fs rw,nosuid shared:4 - cgroup2 cgroup2 rw\n",
             root);
    put("mountinfo", mounts);
    put("cgroup", "0::/user/job\n");
    assert_true(quota() == 0); /* no cpu.max files at all */
    put("fs/user/job/cpu.max", "max 100000\n");
    assert_true(quota() == 0);
    put("fs/user/cpu.max", "250000 100000\n");
    assert_true(quota() == 2.5); /* the parent's counts */
    put("fs/user/job/cpu.max", "50000 100000\n");
    assert_true(quota() == 0.5);
    put("fs/user/job/cpu.max", "rubbish");
    assert_true(quota() == 2.5);
}

static void cgroup_v1(void **state)
{
    (void)state;
    char mounts[512];
    snprintf(mounts, sizeof mounts,
             "30 1 0:26 / %s/set rw - cgroup cgroup rw,cpuset\n"
             "31 1 0:27 /docker/af12 %s/cpu rw master:3 - cgroup cgroup rw,cpu,cpuacct\n",
             root, root);
    put("mountinfo", mounts);
    put("cgroup", "5:cpuset:/docker/af12\n4:cpu,cpuacct:/docker/af12/inner\n");
    put("set/cpu.cfs_quota_us", "10000\n"); /* not the cpu hierarchy */
    put("set/cpu.cfs_period_us", "100000\n");
    put("cpu/inner/cpu.cfs_quota_us", "-1\n");
    put("cpu/inner/cpu.cfs_period_us", "100000\n");
    put("cpu/cpu.cfs_quota_us", "300000\n");
    put("cpu/cpu.cfs_period_us", "100000\n");
    assert_true(quota() == 3);
    put("cpu/inner/cpu.cfs_quota_us", "150000\n");
    assert_true(quota() == 1.5);
}

static void broken_cgroup_files(void **state)
{
    (void)state;
    assert_true(quota() == 0); /* none there */
    put("mountinfo", "1\n - \n - cgroup2\n1 2 3 - cgroup2 a b\n");
    put("cgroup", "\n::\n0:\nx\n0::/a\n");
    assert_true(quota() == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_iteration_once),
        cmocka_unit_test(many_loops_in_a_row),
        cmocka_unit_test(max_threads_is_kept),
        cmocka_unit_test(workers_do_help),
        cmocka_unit_test(nested_loops_run_inline),
        cmocka_unit_test(many_callers_at_once),
        cmocka_unit_test(idle_pool_uses_no_cpu),
        cmocka_unit_test(forked_child_works_alone),
        cmocka_unit_test(threads_follow_affinity_and_environment),
        cmocka_unit_test_setup_teardown(cgroup_v2, make_root, remove_root),
        cmocka_unit_test_setup_teardown(cgroup_v1, make_root, remove_root),
        cmocka_unit_test_setup_teardown(broken_cgroup_files, make_root, remove_root),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
