/* lowering.h: the state of lowering one kernel, the table of the graph dialect's lowerings and
 * short forms for writing them. */
#ifndef TW_LOWER_LOWERING_H
#define TW_LOWER_LOWERING_H

#include "base/arena.h"
#include "base/map.h"
#include "dialect/graph/graph.h"
#include "dialect/loop/loop.h"
#include "tilewright/lower.h"

enum { TW_LOWERING_MAX_OUTER = 4 };

struct tw_lowering {
    tw_context *ctx;
    tw_arena *arena;
    tw_op *kernel;
    tw_op *op;    /* the graph operation being lowered */
    bool is_last; /* nothing in the kernel reads the results of `op` */
    tw_map names; /* block name -> how many have it */
    /* Loops that stages are opened in, outermost first: their variables are the first axes of each
     * stage. None: stages stand in the kernel itself. */
    tw_op *outer[TW_LOWERING_MAX_OUTER];
    unsigned n_outer;
};

typedef bool (*tw_lower_fn)(tw_lowering *l, tw_op *op, tw_value *const *in, tw_value *const *out);

/* By tw_graph_kind; NULL for constant, group, yield and control flow. */
extern const tw_lower_fn tw_graph_lowerings[TW_GRAPH_COUNT];

#define TW_LOWERINGS(X)                                                                            \
    X(elementwise)                                                                                 \
    X(shape)                                                                                       \
    X(words)                                                                                       \
    X(reshape)                                                                                     \
    X(transpose)                                                                                   \
    X(expand)                                                                                      \
    X(slice)                                                                                       \
    X(concat)                                                                                      \
    X(pad)                                                                                         \
    X(tile)                                                                                        \
    X(iota)                                                                                        \
    X(range)                                                                                       \
    X(trilu)                                                                                       \
    X(gather)                                                                                      \
    X(gather_elements)                                                                             \
    X(gather_nd)                                                                                   \
    X(scatter_elements) X(scatter_nd) X(resize) X(reduce) X(arg_reduce) X(softmax) X(cumsum)       \
        X(top_k) X(matmul) X(matmul_bits) X(conv) X(conv_transpose) X(max_pool) X(avg_pool)        \
            X(batch_norm) X(layer_norm) X(rms_norm) X(instance_norm) X(lrn) X(attention)
#define X(name)                                                                                    \
    bool tw_lower_##name(tw_lowering *l, tw_op *op, tw_value *const *in, tw_value *const *out);
TW_LOWERINGS(X)
#undef X

/* buffer[index] += the products of the bytes of a and b (loop.dot4), from 0; all are i32. */
void tw_stage_reduce_dot(tw_stage *s, tw_value *a, tw_value *b, tw_value *buffer,
                         const tw_expr *index);

/* Where stages and their memory are built: the innermost of the outer loops, or the kernel. */
static inline tw_region *tw_lowering_place(const tw_lowering *l)
{
    return l->n_outer ? &l->outer[l->n_outer - 1]->regions[0] : &l->kernel->regions[0];
}

/* The scalar that an element-wise operation computes from scalars of compute type. */
tw_value *tw_lower_scalar(tw_stage *s, tw_op *op, tw_value *const *args);

/* The operation's name without its dialect: "conv". */
const char *tw_short_name(const tw_op *op);
/* A block of these names' concatenation: tw_name(l, "softmax", "_max"). */
const char *tw_name(tw_lowering *l, const char *base, const char *suffix);

/* What products of elements of `a` are summed in on their way to `out`. */
tw_elem tw_product_elem(const tw_value *a, const tw_value *out);

/* The lowest or highest value of the type as a double that tw_stage_const turns into it (it
 * saturates). */
double tw_extreme(tw_elem elem, bool highest);

/* `buffer` when its element type is that of accumulating (float32 for narrower floating point),
 * else a buffer of its shape that is; tw_lower_finish copies it back, converting. */
tw_value *tw_lower_accumulator(tw_lowering *l, tw_value *buffer, tw_elem elem);
void tw_lower_finish(tw_lowering *l, const char *name, tw_value *accumulator, tw_value *buffer);

/* The size of a buffer's axis: a number or an expression over symbols. */
static inline tw_expr tw_size(const tw_value *buffer, unsigned axis)
{
    return buffer->type->dims[axis];
}
/* Whether a size is that number. */
static inline bool tw_is_size(tw_expr size, int64_t value)
{
    return tw_expr_is_const(size) && size->value == value;
}
/* Whether the buffer is known to have no element. */
bool tw_is_empty(const tw_value *buffer);
/* An operation on a buffer without elements that takes some of them for `out`, which may have some:
 * zeros, or an error when it is certain to run and to need one. */
bool tw_lower_from_nothing(tw_lowering *l, const tw_op *op, tw_value *out);
/* Whether a size may come to 0. */
static inline bool tw_may_be_empty(tw_expr size)
{
    return tw_expr_range(size, NULL, 0).lo <= 0;
}

/* An arithmetic operation by kind. */
static inline tw_value *tw_s1(tw_stage *s, tw_loop_kind kind, tw_value *a)
{
    return tw_loop_op(&s->b, kind, (tw_value *[]){a}, 1, NULL);
}
static inline tw_value *tw_s2(tw_stage *s, tw_loop_kind kind, tw_value *a, tw_value *b)
{
    return tw_loop_op(&s->b, kind, (tw_value *[]){a, b}, 2, NULL);
}
/* A constant of v's type. */
static inline tw_value *tw_like(tw_stage *s, const tw_value *v, double value)
{
    return tw_stage_const(s, v->type->elem, value);
}
/* Loads for arithmetic: converted to the compute type. */
static inline tw_value *tw_load(tw_stage *s, tw_value *buffer, const tw_expr *index)
{
    return tw_stage_cast(s, tw_stage_load(s, buffer, index), tw_compute_elem(buffer->type->elem));
}

#endif
