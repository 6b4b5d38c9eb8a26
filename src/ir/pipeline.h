/* pipeline.h: a textual pipeline, parsed: `a,b{x=1 flag},func(c,d)`. */
#ifndef TW_IR_PIPELINE_H
#define TW_IR_PIPELINE_H

#include "ir/context_impl.h"

typedef struct tw_pipeline tw_pipeline;

/* A pass with its options, or a list of items for each operation of a name. */
typedef struct tw_pipeline_item {
    const tw_pass *pass;  /* NULL: nested */
    tw_attr options;      /* DICT; without max-changes */
    uint64_t max_changes; /* over all runs of this item */
    const char *anchor;   /* of nested: the operation's full name */
    const tw_pipeline *nested;
} tw_pipeline_item;

struct tw_pipeline {
    TW_VEC(tw_pipeline_item) items;
};

/* NULL with a diagnostic when a name or an option is not known or the text is malformed. */
const tw_pipeline *tw_pipeline_parse(tw_context *ctx, const char *text);

/* The pass of that name; NULL with an error, which `what` begins and a close name may end. */
const tw_pass *tw_pass_require(tw_context *ctx, const char *name, const char *what);

#endif
