/* build.h: what importers make graph operations with.
 *
 * Each function infers the type of its result from its operands, which may have symbolic sizes, and
 * keeps track of the values of small integer tensors (known.h), so that shape arithmetic of a model
 * is done while it is imported: what becomes a number becomes a graph.constant.
 *
 * A function that cannot do what is asked adds an error at the builder's location and returns NULL;
 * one that is given a NULL operand returns NULL silently. So a chain of them needs one check. */
#ifndef TW_IMPORT_BUILD_H
#define TW_IMPORT_BUILD_H

#include "base/arena.h"
#include "base/map.h"
#include "dialect/graph/graph.h"
#include "tilewright/ir.h"

typedef struct tw_gb {
    tw_context *ctx;
    tw_arena *arena;        /* for what lives as long as the import */
    tw_builder b;           /* b.loc: the model's node */
    tw_map known;           /* tw_value -> tw_known */
    tw_map checked;         /* region and expression -> itself: what tw_gb_check has seen to */
    tw_map common;          /* size of what was broadcast -> the sizes that it is one of */
    size_t followed;        /* elements whose values were followed so far */
    int64_t max_bytes;      /* larger tensors are refused */
    bool saturate_products; /* tw_import_options */
} tw_gb;

tw_gb tw_gb_make(tw_context *ctx, tw_arena *arena, tw_region *region, int64_t max_bytes);

/* Adds an error at the builder's location; NULL. */
void *tw_gb_error(tw_gb *g, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A tensor type as diagnostics say it: "f32[1,3,h,w]". */
const char *tw_gb_type_text(tw_gb *g, tw_type type);

/* Whether a value may have that type: sizes valid and not negative, bytes below the bound. */
bool tw_gb_check_type(tw_gb *g, tw_type type);

/* Whether the operation, which stands in the region, is valid: element types, attributes, shapes.
 * Otherwise it is taken out, with an error. */
bool tw_gb_verify(tw_gb *g, tw_op *op);

/* An operation with one result; attributes with a NULL value are left out. */
tw_value *tw_gb_emit(tw_gb *g, tw_graph_kind kind, tw_value *const *operands, unsigned n,
                     tw_type type, const tw_named_attr *attrs, unsigned n_attrs);
/* Likewise; attributes as initialisers: TW_GB_EMIT(g, SOFTMAX, &x, 1, type, {"axis", a}). */
#define TW_GB_EMIT(g, KIND, operands, n, type, ...)                                                \
    tw_gb_emit((g), TW_GRAPH_##KIND, (operands), (n), (type), (tw_named_attr[]){__VA_ARGS__},      \
               sizeof((tw_named_attr[]){__VA_ARGS__}) / sizeof(tw_named_attr))

/* ---- Constants ---- */

tw_value *tw_gb_constant(tw_gb *g, tw_type type, const void *data, size_t size, const char *name);
tw_value *tw_gb_scalar(tw_gb *g, tw_elem elem, double value);
/* A vector of i64. */
tw_value *tw_gb_ints(tw_gb *g, const int64_t *values, size_t n);
/* The number as a tensor of that shape, expanded, not stored. */
tw_value *tw_gb_splat(tw_gb *g, tw_elem elem, double value, unsigned rank, const tw_expr *dims);

/* ---- Element-wise ---- */

tw_value *tw_gb_unary(tw_gb *g, tw_graph_kind kind, tw_value *x);
/* With broadcasting, whatever the sizes are when the model runs; comparisons give bool. */
tw_value *tw_gb_binary(tw_gb *g, tw_graph_kind kind, tw_value *a, tw_value *b);
/* The right operand is the number, in x's element type. */
tw_value *tw_gb_binary_scalar(tw_gb *g, tw_graph_kind kind, tw_value *x, double value);
tw_value *tw_gb_where(tw_gb *g, tw_value *condition, tw_value *a, tw_value *b);
tw_value *tw_gb_cast(tw_gb *g, tw_value *x, tw_elem elem);

/* The shape that the operands broadcast to; false with an error when they do not. */
bool tw_gb_broadcast_dims(tw_gb *g, tw_value *const *values, unsigned n, unsigned *rank,
                          tw_expr *dims);

/* ---- Movement ---- */

tw_value *tw_gb_reshape(tw_gb *g, tw_value *x, unsigned rank, const tw_expr *dims);
tw_value *tw_gb_transpose(tw_gb *g, tw_value *x, const int64_t *perm);
/* To exactly that shape. */
tw_value *tw_gb_expand(tw_gb *g, tw_value *x, unsigned rank, const tw_expr *dims);
/* x with sizes that are equal to its own but may be written otherwise, which is checked. */
tw_value *tw_gb_conform(tw_gb *g, tw_value *x, const tw_expr *dims);
/* x with sizes that broadcast to that shape without another look: each is 1 or equal to the
 * shape's. Sizes that a run alone shows to be 1 are expanded; those that are neither are refused,
 * while importing or by a check. Axes in front are not added. */
tw_value *tw_gb_fit(tw_gb *g, tw_value *x, unsigned rank, const tw_expr *dims);
/* Drops the axes of the set (bits), which have size 1; or inserts them, numbered in the result. */
tw_value *tw_gb_squeeze(tw_gb *g, tw_value *x, uint32_t axes);
tw_value *tw_gb_unsqueeze(tw_gb *g, tw_value *x, uint32_t axes);
/* x[start : start + size * step : step] along one axis. */
tw_value *tw_gb_slice_axis(tw_gb *g, tw_value *x, unsigned axis, tw_expr start, int64_t step,
                           tw_expr size);
/* All axes; starts of symbolic value are MAP attributes `() -> (expression)`. */
tw_value *tw_gb_slice(tw_gb *g, tw_value *x, const tw_expr *starts, const int64_t *steps,
                      const tw_expr *sizes);
tw_value *tw_gb_concat(tw_gb *g, tw_value *const *values, unsigned n, unsigned axis);
/* `value` has rank 0, or NULL for 0. */
tw_value *tw_gb_pad(tw_gb *g, tw_value *x, const tw_expr *begin, const tw_expr *end,
                    const char *mode, tw_value *value);
tw_value *tw_gb_gather(tw_gb *g, tw_value *x, tw_value *indices, unsigned axis);
/* 0, 1, 2 … along the axis of a tensor of that shape. */
tw_value *tw_gb_iota(tw_gb *g, tw_elem elem, unsigned rank, const tw_expr *dims, unsigned axis);

/* ---- Reductions and products ---- */

tw_value *tw_gb_reduce(tw_gb *g, tw_graph_kind kind, tw_value *x, uint32_t axes, bool keepdims);
tw_value *tw_gb_softmax(tw_gb *g, tw_graph_kind kind, tw_value *x, unsigned axis);
tw_value *tw_gb_matmul(tw_gb *g, tw_value *a, tw_value *b, bool transpose_a, bool transpose_b);

/* ---- Sizes ---- */

static inline tw_expr tw_gb_const(tw_gb *g, int64_t value)
{
    return tw_expr_const(g->ctx, value);
}
/* The product of sizes. */
tw_expr tw_gb_product(tw_gb *g, const tw_expr *dims, unsigned n);
/* total / part, both products of sizes; equal factors cancel. NULL when a constant quotient leaves
 * a remainder or part is 0. */
tw_expr tw_gb_quotient(tw_gb *g, const tw_expr *total, unsigned n_total, const tw_expr *part,
                       unsigned n_part);
/* From here on the expression is at least 0: certainly, or the compiled model checks it and fails
 * with the message otherwise. False with the message as an error when it never is. */
bool tw_gb_check(tw_gb *g, tw_expr e, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same of two equal sizes; `what` they are of is for the message: "operands". */
bool tw_gb_check_equal(tw_gb *g, tw_expr a, tw_expr b, const char *what);
/* The size of an axis at which these two meet in broadcasting; NULL when they never fit. */
tw_expr tw_gb_common_size(tw_gb *g, tw_expr a, tw_expr b);
/* Checks that a size is 1 or the common one. */
bool tw_gb_check_common(tw_gb *g, tw_expr size, tw_expr common);
/* Whether two sizes of tensors, which are not negative, are certainly equal. */
bool tw_gb_same_size(tw_gb *g, tw_expr a, tw_expr b);
/* Whether the sizes are certainly different. */
bool tw_gb_differ(tw_gb *g, tw_expr a, tw_expr b);

#endif
