/* fuse_impl.h: the state of fusing one region and the rules of which operations join. */
#ifndef TW_TRANSFORM_FUSE_IMPL_H
#define TW_TRANSFORM_FUSE_IMPL_H

#include "base/map.h"
#include "base/vec.h"
#include "dialect/graph/graph.h"

enum {
    TW_FUSE_MAX_OPS = 32,      /* operations of a group: bounds the size of a kernel's body */
    TW_FUSE_MAX_OPERANDS = 24, /* of one operation that is added to a group */
};

/* One operation of the region, in order. */
typedef struct tw_fuse_node {
    tw_op *op;
    int group;       /* index, or -1 */
    bool replicated; /* computed again for several elements of the group's result */
    bool epilogue;   /* behind the group's anchor */
} tw_fuse_node;

typedef struct tw_fuse_group {
    tw_fusion_class kind;     /* COMPLEX, REDUCTION, INJECTIVE or OPAQUE */
    unsigned anchor;          /* the node that gave it its kind */
    unsigned place;           /* the last node: the group will stand there */
    TW_VEC(unsigned) members; /* node numbers, ascending once the group is complete */
} tw_fuse_group;

typedef struct tw_fuser {
    tw_context *ctx;
    tw_arena *arena;
    tw_region *region;
    TW_VEC(tw_fuse_node) nodes;
    TW_VEC(tw_fuse_group) groups;
    tw_map numbers; /* operation -> node number + 1 */
} tw_fuser;

/* The node of an operation of this region, or -1. */
int tw_fuse_number(const tw_fuser *f, const tw_op *op);
/* Whether the operation is computed by a kernel: pure, on tensors, no constant, no group. */
bool tw_fuse_is_kernel_op(const tw_op *op);
bool tw_fuse_is_injective(const tw_op *op);

/* Whether op can be computed on the output tile of the anchor, element by element. */
bool tw_fuse_fits_epilogue(const tw_op *op, const tw_op *anchor);
/* Whether node n may join the group that all its users are in, as one more producer. Sets
 * *replicated to what the node's flag would be. */
bool tw_fuse_fits_group(const tw_fuser *f, unsigned n, const tw_fuse_group *group,
                        bool *replicated);
/* Element-wise on one shape, all of it: such groups may have several results. */
bool tw_fuse_is_flat(const tw_fuser *f, const tw_fuse_group *group, tw_type shape);

#endif
