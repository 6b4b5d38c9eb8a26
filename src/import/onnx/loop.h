/* loop.h: graph.loop under construction, for Loop and Scan. */
#ifndef TW_IMPORT_ONNX_LOOP_H
#define TW_IMPORT_ONNX_LOOP_H

#include "import/onnx/import.h"
#include "ir/diag_mark.h"

/* States may change sizes from trip to trip: such a state has a vector of its sizes as a state
 * beside it, from which binds make symbols within each trip and behind the loop. When only the run
 * knows how many rows there will be, but they cannot be many, there is room for all and the trips
 * are counted by one more state. When they may be many, or only a trip knows the sizes of its row,
 * each stack is a sequence that each trip appends its row to, a handle as one more state, and is
 * made a tensor of behind the loop. There a run ends with an error when rows have different sizes.
 */
typedef struct tw_onnx_loop {
    tw_onnx_node *n;
    tw_gb *g;
    const Onnx__GraphProto *body;
    unsigned first_state_out;   /* of the body's outputs: 1 for Loop, whose condition comes first */
    tw_value *trips, *go;       /* scalars */
    tw_value *const *initial;   /* of the states */
    tw_value *const *sequences; /* Scan: inputs to take slices of, along axis 0 */
    unsigned n_states, n_sequences, n_stacks;
    tw_onnx_content *contents; /* of the states, those that are handles; NULL: all are tensors */
    uint32_t *open;            /* per state: axes whose sizes change, as bits */
    bool counted;              /* the number of rows is */
    bool listed;               /* stacks are sequences */
    tw_value **lists;          /* these, empty */
    tw_op *op;
    tw_builder here;    /* where op stands */
    size_t known_sizes; /* symbols that were there before the body */
    size_t handles;     /* of sequences made before the body */
    tw_diag_mark mark;  /* before the body */
    tw_value **out;     /* of the body: condition, states, rows */
    tw_value **results; /* states, rows */
    bool again;         /* more axes were found to be open */
} tw_onnx_loop;

/* Makes the operation and goes on in its region, whose arguments have their types then. False with
 * an error. */
bool tw_onnx_loop_open(tw_onnx_loop *l);
/* The body was imported: adjusts what it gives to the states' types. Sets `again` when a state
 * turns out to change a size that it was taken to keep. */
bool tw_onnx_loop_settle(tw_onnx_loop *l);
/* Whether a state is a sequence or optional, which only a handle stands for. */
static inline bool tw_onnx_loop_holds(const tw_onnx_loop *l, unsigned state)
{
    return l->contents && (l->contents[state].sequence || l->contents[state].optional);
}
/* With an imported body: whether only a trip knows the sizes of some row. */
bool tw_onnx_loop_rows_vary(const tw_onnx_loop *l);
/* Whether rows can be listed: elements in a list are not smaller than a byte. */
bool tw_onnx_loop_can_list(const tw_onnx_loop *l);
/* Takes the operation and what was said of it away, to begin anew. */
void tw_onnx_loop_drop(tw_onnx_loop *l);
/* Ends the body, goes on behind the operation, and sets the results. `rows`: how many rows there
 * are; when they are counted how many there may be; when they are listed how many the model
 * declares, or NULL. */
bool tw_onnx_loop_close(tw_onnx_loop *l, tw_expr rows);

tw_value *tw_onnx_loop_scalar(tw_gb *g, tw_elem elem, int64_t value);
/* Whether the value is known to be true. */
bool tw_onnx_loop_is_true(tw_gb *g, const tw_value *value);

/* A body that C code makes: what step t (an i64 scalar) makes of the states, and its row for the
 * stack, if one is wanted. False with an error. */
typedef bool (*tw_onnx_step)(void *data, tw_value *t, tw_value *const *states, tw_value **next,
                             tw_value **row);
/* As many steps as `like` has along an axis. The states become those behind the last one; their
 * types stay. *stack: the rows, in order; NULL: none are wanted. */
bool tw_onnx_steps(tw_onnx_node *n, tw_value *like, unsigned axis, tw_value **states,
                   unsigned n_states, tw_onnx_step step, void *data, tw_value **stack);

/* One body after the other, `initial` being the states: when one changes what it is, or is a
 * sequence whose length stays known so. False with an error, as when the number of trips is not
 * known. */
bool tw_onnx_unroll(tw_onnx_loop *l, tw_value *const *initial);
/* An argument as the body's own input declares it: exporters say [1] for a scalar. */
tw_value *tw_onnx_loop_argument(tw_onnx_loop *l, tw_value *x, unsigned input);

#endif
