/* fuse_impl.h: the state of fusing one region and the rules of which operations join. */
#ifndef TW_TRANSFORM_FUSE_IMPL_H
#define TW_TRANSFORM_FUSE_IMPL_H

#include "base/map.h"
#include "base/vec.h"
#include "dialect/graph/graph.h"
#include "dialect/graph/open_sizes.h"

enum {
    TW_FUSE_MAX_OPS = 32,      /* operations of a group: bounds the size of a kernel's body */
    TW_FUSE_MAX_OPERANDS = 24, /* of one operation that is added to a group */
};

/* Why an operation is not in the kernel of the one next to it: what `fuse-ops{explain}` and
 * `inspect --fusion` say. */
#define TW_FUSE_WHYS(X)                                                                            \
    X(JOINS, "joins")                                                                              \
    X(OUTPUT, "the value is an output as well")                                                    \
    X(NESTED, "a branch or the body of a loop uses it")                                            \
    X(OPAQUE, "opaque: it takes no part in fusion")                                                \
    X(VIEW, "a reshape lies between, a view of the same memory")                                   \
    X(BOTH_COMPLEX, "both are complex: each needs a kernel of its own")                            \
    X(COMPLEX_LAST, "a complex operation takes nothing before it")                                 \
    X(REDUCTION_ROOT, "a reduction is the root of its kernel and takes no heavy operation")        \
    X(MOVES, "what moves elements is not computed on the tile of the result before it")            \
    X(SHAPE, "of another shape than the result that it would be computed on")                      \
    X(TAKEN, "the kernel of a later operation takes it")                                           \
    X(RESULTS, "of several results")                                                               \
    X(SEVERAL, "several kernels use the value, which is computed once")                            \
    X(CYCLE, "another user of the value stays outside, by which a cycle could arise")              \
    X(CONCAT, "a concatenation is written part by part, so it ends its kernel")                    \
    X(IN_PLACE, "parts of the concatenation are computed in place, where nothing is copied")       \
    X(DEAR, "computing it again for several elements is dearer than the traffic saved")            \
    X(PASSES, "the reduction reads it several times: dearer than the traffic saved")               \
    X(ROWS, "attention stores its result row by row and takes nothing behind it")                  \
    X(SCALE, "scale and bias of a normalisation are read as they are")                             \
    X(LARGE, "the kernel would be too large")

typedef enum tw_fuse_why {
#define TW_FUSE_WHY(name, text) TW_FUSE_WHY_##name,
    TW_FUSE_WHYS(TW_FUSE_WHY)
#undef TW_FUSE_WHY
} tw_fuse_why;

/* One operation of the region, in order. */
typedef struct tw_fuse_node {
    tw_op *op;
    int group;       /* index, or -1 */
    tw_fuse_why why; /* it did not join the kernel of its users */
    bool replicated; /* computed again for several elements of the group's result */
    bool epilogue;   /* behind the group's anchor */
} tw_fuse_node;

typedef struct tw_fuse_group {
    tw_fusion_class kind;     /* COMPLEX, REDUCTION, INJECTIVE or OPAQUE */
    unsigned anchor;          /* the node that gave it its kind */
    unsigned place;           /* the last node: the group will stand there */
    unsigned stop;            /* of an epilogue: the node where it ended, */
    tw_fuse_why why;          /* and why that did not join */
    TW_VEC(unsigned) members; /* node numbers, ascending once the group is complete */
} tw_fuse_group;

typedef struct tw_fuser {
    tw_context *ctx;
    tw_arena *arena;
    tw_region *region;
    bool explain; /* record on each group why its operands' producers are outside */
    TW_VEC(tw_fuse_node) nodes;
    TW_VEC(tw_fuse_group) groups;
    tw_map numbers;       /* operation -> node number + 1 */
    tw_map origins;       /* result of a group -> the value inside that it is */
    tw_equal_sizes equal; /* in the fast versions of kernels */
} tw_fuser;

void tw_fuse_add_member(tw_fuser *f, unsigned n, int group);
void tw_fuse_sort_members(tw_fuse_group *g);
/* Joins groups with those that use their results, which both then have; see fuse_results.c. */
void tw_fuse_join_consumers(tw_fuser *f);

/* The node of an operation of this region, or -1. */
int tw_fuse_number(const tw_fuser *f, const tw_op *op);
/* Whether the operation is computed by a kernel: pure, on tensors, no constant, no group. */
bool tw_fuse_is_kernel_op(const tw_op *op);
bool tw_fuse_is_injective(const tw_op *op);

/* Whether op can be computed on the output tile of the anchor, element by element: JOINS, or why
 * not. */
tw_fuse_why tw_fuse_fits_epilogue(const tw_fuser *f, const tw_op *op, const tw_op *anchor);
/* Whether node n may join the group that all its users are in, as one more producer: JOINS, or why
 * not. Sets *replicated to what the node's flag would be. */
tw_fuse_why tw_fuse_fits_group(const tw_fuser *f, unsigned n, const tw_fuse_group *group,
                               bool *replicated);
/* Element-wise: one element of the result is computed of one of each operand, or broadcasts. */
bool tw_fuse_is_elementwise(const tw_op *op);

/* Why `user`, a member of another group, is not in the kernel that makes the value: what was
 * recorded when that was decided. JOINS when no kernel makes it. */
tw_fuse_why tw_fuse_why_apart(const tw_fuser *f, const tw_value *value, const tw_op *user);
const char *tw_fuse_why_text(tw_fuse_why why);

#endif
