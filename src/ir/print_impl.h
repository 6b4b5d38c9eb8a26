/* print_impl.h: the printer's state; private to src/ir/print*.c. */
#ifndef TW_IR_PRINT_IMPL_H
#define TW_IR_PRINT_IMPL_H

#include "base/map.h"
#include "base/vec.h"
#include "ir/text.h"

struct tw_printer {
    tw_context *ctx;
    tw_arena *arena; /* of the text and the tables; may be a scratch arena */
    TW_VEC(char) out;
    tw_print_options options;
    tw_map names;    /* tw_value pointer -> text with % */
    unsigned indent; /* nested regions */
    unsigned depth;  /* nesting of everything, bounded by TW_MAX_NESTING */
    uint64_t pieces; /* attributes and expressions printed */
};

/* Appends text. */
void tw_pr_bytes(tw_printer *p, const char *bytes, size_t n);
void tw_pr_text(tw_printer *p, const char *text);
/* In quotes, with escapes. */
void tw_pr_string(tw_printer *p, const char *text, size_t len);
/* As it is when it is a name, otherwise in quotes. */
void tw_pr_name(tw_printer *p, const char *text, size_t len);

/* Depth bookkeeping: false, having printed "...", when nesting is too deep or the text of shared
 * parts grows without measure. Each true is followed by tw_pr_leave. */
bool tw_pr_enter(tw_printer *p);
void tw_pr_leave(tw_printer *p);

/* Dimensions print as dims[i], or d0, d1 … when dims is NULL. */
typedef void (*tw_pr_dim)(tw_printer *p, unsigned index, const void *data);
void tw_pr_expr(tw_printer *p, tw_expr e, tw_pr_dim dim, const void *data);

void tw_pr_double(tw_printer *p, double value);
void tw_pr_dense(tw_printer *p, tw_attr attr);
void tw_pr_named_attrs(tw_printer *p, const tw_named_attr *attrs, size_t n,
                       const char *const *skip);

/* Fills p->names for op and all inside. */
void tw_pr_assign_names(tw_printer *p, tw_op *op);

#endif
