/* rnn.h: recurrent layers while they are imported: what op_rnn.c reads of a node, and rnn_cell.c
 * computes with. */
#ifndef TW_IMPORT_ONNX_RNN_H
#define TW_IMPORT_ONNX_RNN_H

#include "import/onnx/import.h"

enum { TW_ONNX_RNN, TW_ONNX_GRU, TW_ONNX_LSTM };

/* What all steps of one layer share. */
typedef struct tw_onnx_rnn {
    tw_onnx_node *n;
    tw_gb *g;
    int kind;
    unsigned directions;
    bool backward; /* of a single direction */
    bool batch_first, linear_before_reset, input_forget;
    bool quantised; /* weights are [in, out] integers with scales; products are of integers */
    double clip;    /* 0: none */
    tw_expr steps, batch, hidden;
    tw_value *x;            /* [steps, batch, inputs] */
    tw_value *w, *r, *bias; /* one of each for each direction; no bias: NULL */
    tw_value *scales[4];    /* quantised: scale and zero point of W, then of R */
    tw_value *lengths;      /* [batch, 1] of i64, or NULL */
    tw_value *initial[2];   /* h and c, of all directions, or NULL */
    tw_value *peepholes;    /* or NULL */
    tw_onnx_activation f[6];
} tw_onnx_rnn;

/* Gates of a kind, and activation functions. */
unsigned tw_onnx_rnn_gates(int kind);
unsigned tw_onnx_rnn_activations(int kind);

/* Entry `index` of axis 0, without the axis; NULL of NULL. */
tw_value *tw_onnx_rnn_entry(tw_gb *g, tw_value *x, int64_t index);

/* One direction of it. What is the same in all steps stands in front of them: a share of the state
 * is one product, or two (GRU: that of z and r, and that of h). */
typedef struct tw_onnx_rnn_pass {
    const tw_onnx_rnn *l;
    tw_value *share; /* [steps, batch, gates * hidden]: of the inputs, with their bias */
    tw_value *r[2];  /* [gates * hidden, hidden]; quantised: [hidden, gates * hidden] */
    tw_value *state_bias[2];
    tw_value *r_scale, *r_zero;
    tw_value *peepholes[3]; /* [hidden], of i o f, or NULL */
    const tw_onnx_activation *f;
} tw_onnx_rnn_pass;

/* The state: h, and c for LSTM; [batch, hidden]. */
typedef struct tw_onnx_rnn_state {
    tw_value *h, *c;
} tw_onnx_rnn_state;

tw_onnx_rnn_pass tw_onnx_rnn_begin(const tw_onnx_rnn *l, unsigned direction);
/* What the step at time t (an i64 scalar) makes of the state. Sequences that have ended by then
 * keep theirs and give *y = 0; of others it is the new h. */
tw_onnx_rnn_state tw_onnx_rnn_step(const tw_onnx_rnn_pass *p, tw_value *t, tw_onnx_rnn_state s,
                                   tw_value **y);

#endif
