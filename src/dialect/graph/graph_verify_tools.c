/* graph_verify_tools.c: the pieces that the rules of graph operations are made of. */
#include "dialect/graph/graph_verify_impl.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int64_t tw_gv_size(tw_type t, unsigned i)
{
    return tw_expr_is_const(t->dims[i]) ? t->dims[i]->value : TW_UNKNOWN_SIZE;
}

bool tw_gv_sizes_fit(int64_t a, int64_t b)
{
    return a == TW_UNKNOWN_SIZE || b == TW_UNKNOWN_SIZE || a == b;
}

bool tw_gv_error(const tw_graph_check *c, const char *format, ...)
{
    char message[512];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    return tw_error(c->ctx, c->op->loc, "%s: %s", c->op->def->name, message);
}

static const char *spell(const tw_graph_check *c, tw_type t)
{
    return tw_print_type(c->ctx, t);
}

bool tw_gv_expect_rank(const tw_graph_check *c, const char *what, tw_type t, unsigned least,
                       unsigned most)
{
    if (t->rank >= least && t->rank <= most)
        return true;
    if (least == most)
        return tw_gv_error(c, "%s is %s, not of rank %u", what, spell(c, t), least);
    return tw_gv_error(c, "%s is %s, not of rank %u to %u", what, spell(c, t), least, most);
}

bool tw_gv_expect_elem(const tw_graph_check *c, const char *what, tw_type t, tw_elem elem)
{
    return t->elem == elem ||
           tw_gv_error(c, "%s is %s, not of %s", what, spell(c, t), tw_elem_name(elem));
}

bool tw_gv_expect_integer(const tw_graph_check *c, const char *what, tw_type t)
{
    return tw_elem_is_int(t->elem) ||
           tw_gv_error(c, "%s is %s, not of integers", what, spell(c, t));
}

/* `2x?x3` for messages. */
static void spell_sizes(unsigned rank, const int64_t *sizes, char *out, size_t room)
{
    size_t n = (size_t)snprintf(out, room, "[");
    for (unsigned i = 0; i < rank && n < room; i++)
        n +=
            (size_t)(sizes[i] == TW_UNKNOWN_SIZE
                         ? snprintf(out + n, room - n, i ? ", ?" : "?")
                         : snprintf(out + n, room - n, i ? ", %lld" : "%lld", (long long)sizes[i]));
    if (n < room)
        snprintf(out + n, room - n, "]");
}

bool tw_gv_expect_sizes(const tw_graph_check *c, const char *what, tw_type t, unsigned rank,
                        const int64_t *sizes)
{
    char wanted[256];
    bool good = t->rank == rank;
    for (unsigned i = 0; good && i < rank; i++)
        good = tw_gv_sizes_fit(tw_gv_size(t, i), sizes[i]);
    if (good)
        return true;
    spell_sizes(rank, sizes, wanted, sizeof wanted);
    return tw_gv_error(c, "%s is %s, not of shape %s", what, spell(c, t), wanted);
}

bool tw_gv_expect_like(const tw_graph_check *c, const char *what, tw_type t, tw_type model)
{
    bool good = t->rank == model->rank && t->elem == model->elem;
    for (unsigned i = 0; good && i < t->rank; i++)
        good = tw_gv_sizes_fit(tw_gv_size(t, i), tw_gv_size(model, i));
    return good || tw_gv_error(c, "%s is %s, not %s", what, spell(c, t), spell(c, model));
}

bool tw_gv_expect_result_like(const tw_graph_check *c, unsigned i)
{
    return tw_gv_expect_like(c, "the result", tw_gv_out(c, 0), tw_gv_in(c, i));
}

/* The size that an axis has after broadcasting: 1 gives way to all others. */
static bool join_sizes(int64_t a, int64_t b, int64_t *out)
{
    if (a == 1 || a == b) {
        *out = b;
        return true;
    }
    *out = b == 1 || b == TW_UNKNOWN_SIZE ? a : b; /* a size above 1 is known to win */
    return b == 1 || b == TW_UNKNOWN_SIZE || a == TW_UNKNOWN_SIZE;
}

bool tw_gv_expect_broadcast(const tw_graph_check *c, tw_type t, unsigned first, unsigned n)
{
    int64_t sizes[TW_MAX_RANK];
    unsigned rank = 0;
    for (unsigned i = 0; i < TW_MAX_RANK; i++)
        sizes[i] = 1;
    for (unsigned k = first; k < first + n; k++)
        rank = tw_gv_in(c, k)->rank > rank ? tw_gv_in(c, k)->rank : rank;
    for (unsigned k = first; k < first + n; k++) {
        tw_type in = tw_gv_in(c, k);
        for (unsigned i = 0; i < in->rank; i++) {
            unsigned axis = rank - in->rank + i;
            if (!join_sizes(sizes[axis], tw_gv_size(in, i), &sizes[axis]))
                return tw_gv_error(c, "the shapes do not broadcast: %s does not fit the others",
                                   spell(c, in));
        }
    }
    return tw_gv_expect_sizes(c, "the result", t, rank, sizes);
}

/* ---- Attributes ---- */

static bool read_numbers(const tw_graph_check *c, const char *name, unsigned n, int64_t *out,
                         bool *known)
{
    tw_attr attr = tw_op_attr(c->op, name);
    bool good = attr && attr->kind == TW_ATTR_ARRAY && attr->u.array.n == n;
    for (unsigned i = 0; good && i < n; i++) {
        tw_attr item = attr->u.array.items[i];
        bool number = item->kind == TW_ATTR_INT;
        bool symbolic = item->kind == TW_ATTR_MAP && !item->u.map.n_dims && item->u.map.n == 1;
        good = number || (known && symbolic);
        out[i] = number ? item->u.integer : 0;
        if (known)
            known[i] = number;
    }
    return good;
}

bool tw_gv_ints(const tw_graph_check *c, const char *name, unsigned n, int64_t *out)
{
    return read_numbers(c, name, n, out, NULL) || tw_gv_error(c, "'%s' needs %u integers", name, n);
}

bool tw_gv_ints_or_exprs(const tw_graph_check *c, const char *name, unsigned n, int64_t *out,
                         bool *known)
{
    return read_numbers(c, name, n, out, known) ||
           tw_gv_error(c, "'%s' needs %u integers or expressions", name, n);
}

bool tw_gv_axis(const tw_graph_check *c, unsigned rank, unsigned *out)
{
    int64_t axis = tw_op_int(c->op, "axis", 0);
    if (axis < 0 || axis >= rank)
        return tw_gv_error(c, "axis %lld is not among the %u axes", (long long)axis, rank);
    *out = (unsigned)axis;
    return true;
}

bool tw_gv_word(const tw_graph_check *c, const char *name, const char *words)
{
    const char *value = tw_op_string(c->op, name, NULL);
    if (!value)
        return true;
    size_t len = strlen(value);
    for (const char *w = words; *w; w += strspn(w, " ")) {
        size_t n = strcspn(w, " ");
        if (n == len && !memcmp(w, value, n))
            return true;
        w += n;
    }
    return tw_gv_error(c, "'%s' is '%s'; it can be one of: %s", name, value, words);
}
