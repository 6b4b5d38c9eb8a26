/* network.h: a compiled model with one float input and one float output, ready to run. */
#ifndef NETWORK_H
#define NETWORK_H

#include <stdbool.h>
#include <stdint.h>

#include <tilewright/runtime.h>

typedef struct network {
    tw_model *model;
    tw_session *session;
    int64_t in[4];  /* shape of the input: batch, channels, height, width */
    float *input;   /* to be filled before a run */
    double seconds; /* spent in all runs */
} network;

/* False with a message on stderr. */
bool network_open(network *n, const char *path, unsigned threads);
void network_close(network *n);

/* Runs it `times` times, of which the fastest counts, and adds that time to `seconds`. The output,
 * of shape dims, valid until the next run; NULL with a message on stderr. */
const float *network_run(network *n, int times, const int64_t **dims);

#endif
