/* workers.c: runs jobs in forked processes. Each worker takes a run of jobs and sends a result for
 * each through a pipe; when it dies or is late, the job it was at fails and a new worker takes the
 * rest. A fork costs little next to starting a process with LLVM in it. */
#include "conformance.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CHUNK = 64, MAX_WORKERS = 64 };

typedef struct worker {
    pid_t pid; /* 0: none */
    int fd;
    size_t next, end; /* the job it is at, and behind its last one */
    double since;     /* when it began with it */
} worker;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void work(const conf_jobs *jobs, size_t begin, size_t end, int fd)
{
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    setrlimit(RLIMIT_AS, &(struct rlimit){jobs->memory, jobs->memory});
#endif
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    for (size_t i = begin; i < end; i++) {
        conf_result r;
        conf_run_case(&jobs->cases->items[i / jobs->n_levels], jobs->levels[i % jobs->n_levels],
                      jobs->open, &r);
        if (write(fd, &r, sizeof r) != (ssize_t)sizeof r) /* below PIPE_BUF: all or nothing */
            _exit(1);
    }
    _exit(0);
}

static bool start(worker *w, const conf_jobs *jobs)
{
    int ends[2];
    if (pipe(ends) != 0)
        return false;
    fflush(NULL);
    w->pid = fork();
    if (w->pid == 0) {
        close(ends[0]);
        work(jobs, w->next, w->end, ends[1]);
    }
    close(ends[1]);
    w->fd = ends[0];
    w->since = now();
    return w->pid > 0;
}

/* Ends a worker; a job that it did not finish fails with the reason, and it starts again behind. */
static bool stop(worker *w, const conf_jobs *jobs, conf_result *results, bool late)
{
    int status;
    if (late)
        kill(w->pid, SIGKILL);
    waitpid(w->pid, &status, 0);
    close(w->fd);
    w->pid = 0;
    if (w->next == w->end)
        return true;
    conf_result *r = &results[w->next++];
    r->status = CONF_FAIL;
    if (late)
        snprintf(r->text, sizeof r->text, "crash: takes more than %u seconds", jobs->seconds);
    else if (WIFSIGNALED(status))
        snprintf(r->text, sizeof r->text, "crash: %s", strsignal(WTERMSIG(status)));
    else
        snprintf(r->text, sizeof r->text, "crash: exit code %d", WEXITSTATUS(status));
    return w->next == w->end || start(w, jobs);
}

/* Takes what a worker sent, or notices its end. */
static bool receive(worker *w, const conf_jobs *jobs, conf_result *results)
{
    ssize_t got = read(w->fd, &results[w->next], sizeof *results);
    if (got == (ssize_t)sizeof *results) {
        w->next++;
        w->since = now();
        return true;
    }
    return (got < 0 && errno == EINTR) || stop(w, jobs, results, false);
}

bool conf_run_all(const conf_jobs *jobs, conf_result *results)
{
    worker workers[MAX_WORKERS] = {0};
    size_t n = jobs->cases->n * jobs->n_levels, given = 0;
    size_t n_workers = jobs->workers < MAX_WORKERS ? jobs->workers : MAX_WORKERS;
    for (;;) {
        struct pollfd fds[MAX_WORKERS];
        bool busy = false;
        for (size_t i = 0; i < n_workers; i++) {
            worker *w = &workers[i];
            if (!w->pid && given < n) {
                w->next = given;
                w->end = given = given + CHUNK < n ? given + CHUNK : n;
                if (!start(w, jobs))
                    return false;
            }
            busy |= w->pid != 0;
            fds[i] = (struct pollfd){.fd = w->pid ? w->fd : -1, .events = POLLIN};
        }
        if (!busy)
            return true;
        poll(fds, n_workers, 1000);
        for (size_t i = 0; i < n_workers; i++) {
            worker *w = &workers[i];
            if (!w->pid)
                continue;
            if (fds[i].revents ? !receive(w, jobs, results)
                               : now() - w->since > jobs->seconds && !stop(w, jobs, results, true))
                return false;
        }
    }
}
