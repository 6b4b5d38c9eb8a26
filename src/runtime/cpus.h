/* cpus.h: how many CPUs the process may use. */
#ifndef TW_RUNTIME_CPUS_H
#define TW_RUNTIME_CPUS_H

/* CPUs of the affinity mask, at most what cgroup quotas allow (rounded up), at least 1. */
unsigned tw_usable_cpus(void);

/* The smallest CPU quota, in CPUs, of the cgroups that the process is in and of their parents;
 * 0 when there is none. The arguments are "/proc/self/cgroup" and "/proc/self/mountinfo". */
double tw_cgroup_quota(const char *cgroup_file, const char *mountinfo_file);

#endif
