/* network.c: the runtime's API in use. */
#include "network.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static bool prepare(network *n, const char *path, unsigned threads)
{
    if (tw_model_load(path, NULL, &n->model) != TW_STATUS_OK) {
        fprintf(stderr, "%s: %s\n", path, tw_last_error());
        return false;
    }
    const tw_tensor_info *in = tw_model_input(n->model, 0);
    if (!in || in->elem != TW_F32 || in->rank != 4 || !in->is_static) {
        fprintf(stderr, "%s: needs one float input of fixed shape, as by compile --shape\n", path);
        return false;
    }
    memcpy(n->in, in->dims, sizeof n->in);
    n->input = malloc(in->size);
    tw_session_options options = {.threads = threads};
    if (!n->input || tw_session_create(n->model, &options, &n->session) != TW_STATUS_OK ||
        tw_session_set_input(n->session, 0, n->input, in->size) != TW_STATUS_OK) {
        fprintf(stderr, "%s: %s\n", path, n->input ? tw_last_error() : "out of memory");
        return false;
    }
    return true;
}

bool network_open(network *n, const char *path, unsigned threads)
{
    *n = (network){0};
    if (prepare(n, path, threads))
        return true;
    network_close(n);
    return false;
}

void network_close(network *n)
{
    tw_session_destroy(n->session);
    tw_model_free(n->model);
    free(n->input);
    *n = (network){0};
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

const float *network_run(network *n, int times, const int64_t **dims)
{
    double best = 0;
    for (int i = 0; i < times; i++) {
        double start = now();
        if (tw_session_run(n->session) != TW_STATUS_OK) {
            fprintf(stderr, "%s\n", tw_last_error());
            return NULL;
        }
        double taken = now() - start;
        if (i == 0 || taken < best)
            best = taken;
    }
    n->seconds += best;
    *dims = tw_session_output_dims(n->session, 0);
    return tw_session_output(n->session, 0, NULL);
}
