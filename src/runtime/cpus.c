/* cpus.c: CPU affinity and the CPU quotas of cgroups.
 *
 * /proc/self/cgroup names the group within a hierarchy, /proc/self/mountinfo where that hierarchy,
 * or a part of it, is mounted:
 *     4:cpu,cpuacct:/docker/af12     ...  /docker /sys/fs/cgroup/cpu ... - cgroup cgroup rw,cpu
 * gives /sys/fs/cgroup/cpu/af12, which is read, and then each parent up to the mount point. */
#include "runtime/cpus.h"
#include "tilewright/runtime.h"

#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A cgroup hierarchy that can limit CPU time. */
typedef struct hierarchy {
    bool v2;
    char path[PATH_MAX];  /* of the process, from the hierarchy's root */
    char root[PATH_MAX];  /* the part of the hierarchy that is mounted */
    char mount[PATH_MAX]; /* and where */
} hierarchy;

/* The first number, or two, of a file; how many were read. */
static int read_numbers(const char *dir, const char *name, double *a, double *b)
{
    char path[2 * PATH_MAX + 32];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    int n = fscanf(file, "%lf %lf", a, b);
    fclose(file);
    return n < 0 ? 0 : n;
}

/* The quota of one group in CPUs; 0: none. */
static double group_quota(const char *dir, bool v2)
{
    double quota = 0, period = 0, ignored;
    /* cpu.max is "max 100000" without a limit, which reads as no number. */
    bool found = v2 ? read_numbers(dir, "cpu.max", &quota, &period) == 2
                    : read_numbers(dir, "cpu.cfs_quota_us", &quota, &ignored) >= 1 &&
                          read_numbers(dir, "cpu.cfs_period_us", &period, &ignored) >= 1;
    return found && quota > 0 && period > 0 ? quota / period : 0;
}

static bool list_has(const char *list, const char *word)
{
    size_t len = strlen(word);
    for (const char *at = list; (at = strstr(at, word)); at += len)
        if ((at == list || at[-1] == ',') && (at[len] == ',' || at[len] == '\0'))
            return true;
    return false;
}

/* Finds the process's group: of the v1 hierarchy with the cpu controller, or of v2. */
static bool find_group(const char *cgroup_file, hierarchy *h)
{
    FILE *file = fopen(cgroup_file, "re");
    if (!file)
        return false;
    char *line = NULL;
    size_t cap = 0;
    bool found = false;
    while (getline(&line, &cap, file) > 0) {
        line[strcspn(line, "\n")] = '\0';
        char *controllers = strchr(line, ':');
        char *path = controllers ? strchr(controllers + 1, ':') : NULL;
        if (!path)
            continue;
        *controllers++ = *path++ = '\0';
        if (h->v2 ? *controllers == '\0' : list_has(controllers, "cpu"))
            found = snprintf(h->path, PATH_MAX, "%s", path) < PATH_MAX;
    }
    free(line);
    fclose(file);
    return found;
}

/* Finds where the hierarchy is mounted. Fields: id parent dev root mount options [tags] - type
 * source superoptions. */
static bool find_mount(const char *mountinfo_file, hierarchy *h)
{
    FILE *file = fopen(mountinfo_file, "re");
    if (!file)
        return false;
    char *line = NULL;
    size_t cap = 0;
    bool found = false;
    while (!found && getline(&line, &cap, file) > 0) {
        line[strcspn(line, "\n")] = '\0';
        char *tail = strstr(line, " - ");
        if (!tail)
            continue;
        char *save, *type = strtok_r(tail + 3, " ", &save);
        char *source = strtok_r(NULL, " ", &save), *options = strtok_r(NULL, " ", &save);
        if (!type || !source || !options || strcmp(type, h->v2 ? "cgroup2" : "cgroup") ||
            (!h->v2 && !list_has(options, "cpu")))
            continue;
        *tail = '\0';
        char *root = strtok_r(line, " ", &save);
        for (int field = 1; root && field <= 3; field++)
            root = strtok_r(NULL, " ", &save);
        char *mount = strtok_r(NULL, " ", &save);
        found = root && mount && snprintf(h->root, PATH_MAX, "%s", root) < PATH_MAX &&
                snprintf(h->mount, PATH_MAX, "%s", mount) < PATH_MAX;
    }
    free(line);
    fclose(file);
    return found;
}

static double smaller(double a, double b)
{
    return a == 0 || (b != 0 && b < a) ? b : a;
}

/* The smallest quota from the process's group up to the mount point. */
static double hierarchy_quota(hierarchy *h)
{
    size_t skip = strcmp(h->root, "/") ? strlen(h->root) : 0;
    const char *below = strncmp(h->path, h->root, skip) ? "/" : h->path + skip;
    char dir[2 * PATH_MAX];
    size_t top = strlen(h->mount);
    snprintf(dir, sizeof dir, "%s%s", h->mount, below);
    double quota = 0;
    for (;;) {
        quota = smaller(quota, group_quota(dir, h->v2));
        char *slash = strrchr(dir, '/');
        if (!slash || slash < dir + top)
            return quota;
        *slash = '\0';
    }
}

double tw_cgroup_quota(const char *cgroup_file, const char *mountinfo_file)
{
    hierarchy *h = malloc(sizeof *h);
    double quota = 0;
    for (int v2 = 0; h && v2 < 2; v2++) {
        h->v2 = v2;
        if (find_group(cgroup_file, h) && find_mount(mountinfo_file, h))
            quota = smaller(quota, hierarchy_quota(h));
    }
    free(h);
    return quota;
}

/* CPUs in the affinity mask; the kernel wants a buffer at least as large as its own mask. */
static unsigned affinity_count(void)
{
    for (int cpus = 1024; cpus <= 1 << 18; cpus *= 2) {
        cpu_set_t *set = CPU_ALLOC(cpus);
        size_t size = CPU_ALLOC_SIZE(cpus);
        if (!set)
            break;
        int failed = sched_getaffinity(0, size, set);
        int count = failed ? 0 : CPU_COUNT_S(size, set);
        CPU_FREE(set);
        if (!failed)
            return count > 0 ? (unsigned)count : 1;
    }
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    return online > 0 ? (unsigned)online : 1;
}

unsigned tw_usable_cpus(void)
{
    unsigned cpus = affinity_count();
    double quota = tw_cgroup_quota("/proc/self/cgroup", "/proc/self/mountinfo");
    if (quota > 0 && quota < cpus) {
        unsigned whole = (unsigned)quota;
        cpus = whole < quota ? whole + 1 : whole;
    }
    return cpus ? cpus : 1;
}

unsigned tw_default_threads(void)
{
    const char *text = getenv("TILEWRIGHT_NUM_THREADS");
    if (text) {
        char *end;
        long n = strtol(text, &end, 10);
        if (end != text && *end == '\0' && n >= 1 && n <= 1024)
            return (unsigned)n;
    }
    return tw_usable_cpus();
}
