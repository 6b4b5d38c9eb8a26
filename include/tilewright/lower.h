/* lower.h: how graph operations compute, stated as blocks of loop IR.
 *
 * Each operation has one function that appends blocks to a kernel. A block is built as a stage:
 * perfectly nested serial loops, one per axis, around one block whose iteration variables are those
 * axes; inside, scalars are loaded, computed and stored. Index expressions are over the axes:
 * axis i is dimension i (tw_stage_axis). The operations of other dialects register theirs with
 * tw_iface_set(ctx, def, &tw_op_lowering_iface, &their_lowering).
 *
 *   bool lower_scale(tw_lowering *l, tw_op *op, tw_value *const *in, tw_value *const *out)
 *   {
 *       tw_stage s;
 *       tw_stage_elementwise(l, &s, "scale", out[0]);       one axis per axis of the result
 *       tw_value *x = tw_stage_load_broadcast(&s, in[0]);
 *       tw_value *y = tw_stage_op(&s, "mul", x, tw_stage_const(&s, TW_F32, 2), NULL);
 *       tw_stage_store_here(&s, y, out[0]);
 *       return tw_stage_close(&s);
 *   } */
#ifndef TILEWRIGHT_LOWER_H
#define TILEWRIGHT_LOWER_H

#include "tilewright/ir.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* The kernel under construction. */
typedef struct tw_lowering tw_lowering;

/* How an operation computes: `inputs` and `outputs` are buffers of the shapes of its operands and
 * results; every element of the outputs is to be written. Sizes are numbers, or expressions over
 * the module's symbols, which may come to 0; operations that are known to have no element to
 * compute are not asked. False with a diagnostic when the operation cannot be computed. */
typedef struct tw_op_lowering {
    bool (*lower)(tw_lowering *l, tw_op *op, tw_value *const *inputs, tw_value *const *outputs);
} tw_op_lowering;
extern const char tw_op_lowering_iface;

/* An operation that a routine of the runtime computes (tw_abi_routine in tilewright/model.h)
 * instead of a kernel, registered with tw_iface_set(ctx, def, &tw_op_routine_iface, &routine).
 * Sizes of results that the routine decides are symbols, which the operation's attribute "symbols"
 * lists as graph.routine has it; such an operation is not pure. */
typedef struct tw_op_routine {
    const char *name; /* without tw_rt_ */
    /* The numbers that the routine gets: an array of integers, or NULL. May be NULL itself. */
    tw_attr (*params)(tw_context *ctx, const tw_op *op);
} tw_op_routine;
extern const char tw_op_routine_iface;

/* ---- Memory of the kernel ---- */

/* A buffer for values between stages. */
tw_value *tw_lowering_alloc(tw_lowering *l, tw_elem elem, unsigned rank, const tw_expr *dims,
                            const char *name);
/* A constant table; `data` (row-major) lives as long as the context. */
tw_value *tw_lowering_table(tw_lowering *l, tw_elem elem, unsigned rank, const int64_t *dims,
                            const void *data, size_t size);
tw_context *tw_lowering_context(tw_lowering *l);

/* ---- Stages ---- */

typedef struct tw_axis {
    const char *name; /* of the loop variable; the block's is "v" + name */
    tw_expr extent;   /* over symbols */
    bool reduce;      /* reduction axes come last */
} tw_axis;

/* Axes, and values used as dimensions behind them. */
enum { TW_STAGE_MAX_AXES = 36, TW_STAGE_MAX_DIMS = 56 };

/* A block under construction. `b` builds into its body, `init` into its initialisation. */
typedef struct tw_stage {
    tw_lowering *l;
    tw_builder b, init;
    tw_op *outer, *block; /* the outermost loop, or the block when there is none */
    unsigned n_axes, n_dims;
    tw_axis axes[TW_STAGE_MAX_AXES];
    tw_value *dims[TW_STAGE_MAX_DIMS]; /* iteration variables, then values used as dimensions */
    tw_range ranges[TW_STAGE_MAX_DIMS];
    /* What a reduction over nothing stores instead; set by tw_stage_reduce. */
    tw_value *empty_buffer;
    const tw_expr *empty_index;
    double empty_value;
    bool read_when_empty; /* even where that leaves the results without elements, it is read */
} tw_stage;

/* Opens a stage; the block's name is made unique in the kernel. */
void tw_stage_open(tw_lowering *l, tw_stage *s, const char *name, const tw_axis *axes, unsigned n);
/* Opens one with an axis i0, i1 … for each axis of the buffer. */
void tw_stage_elementwise(tw_lowering *l, tw_stage *s, const char *name, const tw_value *buffer);
/* Ends the stage. Always true. */
bool tw_stage_close(tw_stage *s);
/* The block's instances run in the order of the loops: it reads what it wrote before. */
void tw_stage_sequential(tw_stage *s);

/* ---- Indices ---- */

tw_expr tw_stage_axis(const tw_stage *s, unsigned axis);
tw_expr tw_stage_int(const tw_stage *s, int64_t value);
/* A dimension that stands for a computed value of an integer type, known to lie in the range. */
tw_expr tw_stage_dim(tw_stage *s, tw_value *value, tw_range range);
/* The expression as a value of type index. */
tw_value *tw_stage_index(tw_stage *s, tw_expr e);
/* Row-major position of a multi-dimensional index, and back: `rank` expressions to `index`. */
tw_expr tw_stage_linear(const tw_stage *s, tw_type shape, const tw_expr *index);
void tw_stage_delinear(const tw_stage *s, tw_type shape, tw_expr position, tw_expr *index);
/* e held within lo to hi. */
tw_expr tw_stage_clamp(const tw_stage *s, tw_expr e, tw_expr lo, tw_expr hi);

/* ---- Memory access; indices are simplified ---- */

tw_value *tw_stage_load(tw_stage *s, tw_value *buffer, const tw_expr *index);
/* Where all conditions are >= 0; else `other`, of the buffer's element type. */
tw_value *tw_stage_load_where(tw_stage *s, tw_value *buffer, const tw_expr *index,
                              const tw_expr *where, unsigned n_where, tw_value *other);
/* The same with a number elsewhere, of the buffer's element type. */
tw_value *tw_stage_load_or(tw_stage *s, tw_value *buffer, const tw_expr *index,
                           const tw_expr *where, unsigned n_where, double elsewhere);
/* At the first `rank of the result` axes, with NumPy's broadcasting. */
tw_value *tw_stage_load_broadcast(tw_stage *s, tw_value *buffer, unsigned result_rank);
/* Converted to the buffer's element type. */
void tw_stage_store(tw_stage *s, tw_value *value, tw_value *buffer, const tw_expr *index);
/* Only where all conditions are >= 0. */
void tw_stage_store_where(tw_stage *s, tw_value *value, tw_value *buffer, const tw_expr *index,
                          const tw_expr *where, unsigned n_where);
/* At the first axes, in order. */
void tw_stage_store_here(tw_stage *s, tw_value *value, tw_value *buffer);

/* ---- Scalars ---- */

/* An arithmetic operation of the loop dialect by name ("add", "exp" …); unused operands NULL. */
tw_value *tw_stage_op(tw_stage *s, const char *name, tw_value *a, tw_value *b, tw_value *c);
tw_value *tw_stage_compare(tw_stage *s, const char *predicate, tw_value *a, tw_value *b);
tw_value *tw_stage_select(tw_stage *s, tw_value *condition, tw_value *a, tw_value *b);
/* Floating-point values are rounded, integers truncated to the type. */
tw_value *tw_stage_const(tw_stage *s, tw_elem elem, double value);
/* A size, an expression over symbols, as a number of that type. */
tw_value *tw_stage_size(tw_stage *s, tw_elem elem, tw_expr size);
tw_value *tw_stage_cast(tw_stage *s, tw_value *value, tw_elem elem);
/* The type that arithmetic on elements of that type is done in: f32 for all narrower ones. */
tw_elem tw_compute_elem(tw_elem elem);

/* ---- Reductions ---- */

/* buffer[index] = combine(buffer[index], value), starting from `identity`; `combine` is "add",
 * "mul", "max", "min", "and" or "or". The value has the buffer's type. */
void tw_stage_reduce(tw_stage *s, const char *combine, double identity, tw_value *value,
                     tw_value *buffer, const tw_expr *index);
/* buffer[index] += a * b from 0, as fma for f32 and f64; all of one type. */
void tw_stage_reduce_product(tw_stage *s, tw_value *a, tw_value *b, tw_value *buffer,
                             const tw_expr *index);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
