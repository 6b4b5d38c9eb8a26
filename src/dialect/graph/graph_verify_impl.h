/* graph_verify_impl.h: what the rules of graph operations are written with.
 *
 * Sizes are numbers here, -1 standing for one that is not known (symbolic): it fits everything,
 * since equal sizes need not be written equally. */
#ifndef TW_DIALECT_GRAPH_VERIFY_IMPL_H
#define TW_DIALECT_GRAPH_VERIFY_IMPL_H

#include "dialect/graph/graph.h"

/* The operation under check. Its operands and results are tensors. */
typedef struct tw_graph_check {
    tw_context *ctx;
    const tw_op *op;
} tw_graph_check;

enum { TW_UNKNOWN_SIZE = -1 };

static inline tw_type tw_gv_in(const tw_graph_check *c, unsigned i)
{
    return c->op->operands[i].value->type;
}
static inline tw_type tw_gv_out(const tw_graph_check *c, unsigned i)
{
    return c->op->results[i].type;
}
/* The size of axis i, perhaps TW_UNKNOWN_SIZE. */
int64_t tw_gv_size(tw_type t, unsigned i);
bool tw_gv_sizes_fit(int64_t a, int64_t b);

/* Adds "NAME: …" and returns false. */
bool tw_gv_error(const tw_graph_check *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Each reports what is off. `what` names the tensor in the message. */
bool tw_gv_expect_rank(const tw_graph_check *c, const char *what, tw_type t, unsigned least,
                       unsigned most);
bool tw_gv_expect_elem(const tw_graph_check *c, const char *what, tw_type t, tw_elem elem);
bool tw_gv_expect_integer(const tw_graph_check *c, const char *what, tw_type t);
bool tw_gv_expect_sizes(const tw_graph_check *c, const char *what, tw_type t, unsigned rank,
                        const int64_t *sizes);
bool tw_gv_expect_like(const tw_graph_check *c, const char *what, tw_type t, tw_type model);
/* The result has the element type and shape of operand i. */
bool tw_gv_expect_result_like(const tw_graph_check *c, unsigned i);
/* Broadcasting operands first … first + n - 1 gives the shape of t. */
bool tw_gv_expect_broadcast(const tw_graph_check *c, tw_type t, unsigned first, unsigned n);

/* Attributes. An array of exactly n integers. */
bool tw_gv_ints(const tw_graph_check *c, const char *name, unsigned n, int64_t *out);
/* Likewise, where an entry may also be a map `()[] -> (expression)` over symbols: then known[i] is
 * false. */
bool tw_gv_ints_or_exprs(const tw_graph_check *c, const char *name, unsigned n, int64_t *out,
                         bool *known);
bool tw_gv_axis(const tw_graph_check *c, unsigned rank, unsigned *out);
/* The attribute, if it is there, is one of the words: "a b c". */
bool tw_gv_word(const tw_graph_check *c, const char *name, const char *words);

/* Rules of single operations. */
typedef bool (*tw_graph_rule)(const tw_graph_check *c);
bool tw_graph_verify_layouts(const tw_graph_check *c); /* of all */
tw_graph_rule tw_graph_movement_rule(tw_graph_kind kind);
tw_graph_rule tw_graph_compute_rule(tw_graph_kind kind);

#endif
