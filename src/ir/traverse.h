/* traverse.h: walking an operation and all inside step by step, without recursion. */
#ifndef TW_IR_TRAVERSE_H
#define TW_IR_TRAVERSE_H

#include "tilewright/ir.h"

/* What tw_traverse has come to. */
typedef enum tw_step {
    TW_STEP_START,
    TW_STEP_OP,         /* `op`, before its regions */
    TW_STEP_REGION,     /* `region`, before its operations */
    TW_STEP_REGION_END, /* `region`, after its operations */
    TW_STEP_OP_END,     /* `op`, after its regions */
    TW_STEP_DONE,
} tw_step;

/* Zero-initialise and set `root`. After TW_STEP_OP or TW_STEP_REGION the caller may set `skip` to
 * go straight to its end. The IR must not be changed meanwhile. */
typedef struct tw_traversal {
    tw_op *root, *op;
    tw_region *region;
    tw_step at;
    bool skip;
} tw_traversal;

/* Takes one step. */
static inline tw_step tw_traverse(tw_traversal *t)
{
    bool skip = t->skip;
    t->skip = false;
    switch (t->at) {
    case TW_STEP_START:
        t->op = t->root;
        return t->at = TW_STEP_OP;
    case TW_STEP_OP:
        if (skip || !t->op->n_regions)
            return t->at = TW_STEP_OP_END;
        t->region = &t->op->regions[0];
        return t->at = TW_STEP_REGION;
    case TW_STEP_REGION:
        if (skip || !t->region->first)
            return t->at = TW_STEP_REGION_END;
        t->op = t->region->first;
        return t->at = TW_STEP_OP;
    case TW_STEP_REGION_END:
        t->op = t->region->parent;
        if (t->region->index + 1 >= t->op->n_regions)
            return t->at = TW_STEP_OP_END;
        t->region = &t->op->regions[t->region->index + 1];
        return t->at = TW_STEP_REGION;
    case TW_STEP_OP_END:
        if (t->op == t->root)
            return t->at = TW_STEP_DONE;
        if (!t->op->next) {
            t->region = t->op->region;
            return t->at = TW_STEP_REGION_END;
        }
        t->op = t->op->next;
        return t->at = TW_STEP_OP;
    case TW_STEP_DONE:
        break;
    }
    return TW_STEP_DONE;
}

#endif
