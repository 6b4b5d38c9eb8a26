/* simplify_scales.c: scales and shifts by constants that follow one another.
 *
 *   %1 = graph.mul %x, %s1
 *   %2 = graph.add %1, %t1
 *   %3 = graph.mul %2, %s2
 *   %4 = graph.add %3, %t2            =>  %4 = graph.add (graph.mul %x, s1 * s2), t1 * s2 + t2
 *
 * The constants are computed here, since what they are decides whether it is right. Roundings are
 * in another order, of the same size as before: no scale is so large or small that an intermediate
 * overflows or vanishes which the whole does not, and no shift takes back what another has added
 * (which is how x + c - c rounds x). A shift is only scaled when what it shifts was scaled as well:
 * its own error is as large then, whereas (x - m) * s of x near m is exact. */
#include "transform/simplify.h"

#include "base/arena.h"
#include "dialect/graph/graph.h"
#include "ir/elem_data.h"
#include "transform/build.h"

#include <math.h>
#include <string.h>

enum { MAX_ELEMENTS = 1 << 16 };

/* x * c, x / c, x + c or x - c. */
typedef struct step {
    tw_value *x, *c;
    tw_attr data;
    size_t n;
    bool inverse; /* a quotient or a difference */
} step;

static bool read_step(const tw_value *value, tw_graph_kind kind, step *s)
{
    const tw_op *op = value->op;
    tw_graph_kind inverse = kind == TW_GRAPH_MUL ? TW_GRAPH_DIV : TW_GRAPH_SUB;
    if (!op || !tw_elem_is_float(value->type->elem) ||
        (!tw_is_graph(op, kind) && !tw_is_graph(op, inverse)))
        return false;
    unsigned i = tw_graph_constant_value(tw_operand(op, 1)) || tw_is_graph(op, inverse) ? 1 : 0;
    *s = (step){
        .x = tw_operand(op, 1 - i), .c = tw_operand(op, i), .inverse = !tw_is_graph(op, kind)};
    s->data = tw_graph_constant_value(s->c);
    return s->data && tw_dense_count(s->data, &s->n) && s->n > 0 && s->n <= MAX_ELEMENTS &&
           s->x->type == value->type;
}

static double element(const step *s, tw_graph_kind kind, size_t i)
{
    tw_elem elem = s->c->type->elem;
    double c = tw_elem_to_double(elem, tw_elem_load(elem, s->data->u.dense.data, s->n > 1 ? i : 0));
    return !s->inverse ? c : kind == TW_GRAPH_MUL ? 1 / c : -c;
}

/* Whether both have one number for each place, or one of them has one for all. */
static bool go_together(const step *a, const step *b)
{
    tw_type s = a->c->type, t = b->c->type;
    if (a->n == 1 || b->n == 1)
        return true;
    if (s->rank > t->rank) {
        tw_type other = s;
        s = t;
        t = other;
    }
    unsigned lead = t->rank - s->rank;
    return a->n == b->n && !memcmp(s->dims, t->dims + lead, s->rank * sizeof *s->dims);
}

/* ---- Conditions ---- */

static bool has_wide_range(tw_elem elem)
{
    return elem == TW_F32 || elem == TW_F64 || elem == TW_BF16;
}

/* Whether (x * a) * b may be x * (a * b). Where numbers have a wide range, x would have to be
 * beyond 2^80 for an intermediate to overflow alone; elsewhere none may. */
static bool scales_join(tw_elem elem, double a, double b)
{
    double least = has_wide_range(elem) ? 0x1p-40 : 0x1p-10;
    double most = has_wide_range(elem) ? 0x1p40 : 0x1p10;
    double sizes[] = {fabs(a), fabs(b), fabs(a * b)};
    for (unsigned i = 0; i < 3; i++)
        if (!(sizes[i] >= least && sizes[i] <= most))
            return false;
    return has_wide_range(elem) || sizes[0] <= 1 || sizes[1] >= 1;
}

/* Whether (x + a) + b may be x + (a + b). */
static bool shifts_join(tw_elem elem, double a, double b)
{
    double most = has_wide_range(elem) ? 0x1p40 : 0x1p10, larger = fmax(fabs(a), fabs(b));
    return larger <= most && fabs(a + b) >= larger / 256;
}

/* Whether (x + a) * b may be x * b + a * b. */
static bool shift_scales(tw_elem elem, double a, double b)
{
    return a == 0 || scales_join(elem, a, b);
}

/* ---- Constants ---- */

typedef bool condition(tw_elem elem, double a, double b);

/* Both constants, pair by pair, of x * a * b, x + a + b or (x + a) * b. */
typedef struct pair {
    const step *first, *second;
    tw_graph_kind first_kind, second_kind;
    bool (*holds)(tw_elem elem, double a, double b);
} pair;

static const step *larger(const pair *p)
{
    return p->first->n > p->second->n ? p->first : p->second;
}

static bool joins(const pair *p)
{
    tw_elem elem = p->first->c->type->elem;
    if (!go_together(p->first, p->second))
        return false;
    for (size_t i = 0; i < larger(p)->n; i++)
        if (!p->holds(elem, element(p->first, p->first_kind, i),
                      element(p->second, p->second_kind, i)))
            return false;
    return true;
}

/* The constant of all a * b or a + b. */
static tw_value *joint(tw_builder *b, const pair *p)
{
    const step *large = larger(p);
    tw_type type = large->c->type;
    size_t bytes = 0;
    tw_elem_bytes(type->elem, large->n, &bytes); /* of few elements */
    char *data = tw_arena_alloc(tw_context_arena(b->ctx), bytes);
    for (size_t i = 0; i < large->n; i++) {
        double x = element(p->first, p->first_kind, i), y = element(p->second, p->second_kind, i);
        double value = p->second_kind == TW_GRAPH_MUL ? x * y : x + y;
        tw_elem_store(type->elem, data, i, tw_elem_from_double(type->elem, value));
    }
    return tw_graph_constant(b, type, data, bytes, NULL);
}

/* ---- Rules ---- */

/* The step that makes the operand of another, for that one alone. */
static bool read_inner(const step *outer, tw_graph_kind kind, step *inner)
{
    return tw_value_has_one_use(outer->x) && read_step(outer->x, kind, inner);
}

/* (x * s1) * s2 -> x * (s1 * s2); (x * s1 + t) * s2 -> x * (s1 * s2) + t * s2. */
bool tw_join_scales(tw_rewriter *rw, tw_op *op, const void *data)
{
    (void)data;
    step s1, t, s2;
    pair scales = {&s1, &s2, TW_GRAPH_MUL, TW_GRAPH_MUL, scales_join};
    pair shift = {&t, &s2, TW_GRAPH_ADD, TW_GRAPH_MUL, shift_scales};
    if (!read_step(tw_result(op, 0), TW_GRAPH_MUL, &s2))
        return false;
    bool shifted = !read_inner(&s2, TW_GRAPH_MUL, &s1);
    if (shifted && (!read_inner(&s2, TW_GRAPH_ADD, &t) || !read_inner(&t, TW_GRAPH_MUL, &s1) ||
                    !joins(&shift)))
        return false;
    if (!joins(&scales))
        return false;
    tw_builder *b = tw_rw_builder(rw, op);
    tw_value *value = tw_build_binary(b, TW_GRAPH_MUL, s1.x, joint(b, &scales));
    if (shifted)
        value = tw_build_binary(b, TW_GRAPH_ADD, value, joint(b, &shift));
    tw_rw_replace(rw, op, &value);
    return true;
}

/* (x + t1) + t2 -> x + (t1 + t2). */
bool tw_join_shifts(tw_rewriter *rw, tw_op *op, const void *data)
{
    (void)data;
    step t1, t2;
    pair shifts = {&t1, &t2, TW_GRAPH_ADD, TW_GRAPH_ADD, shifts_join};
    if (!read_step(tw_result(op, 0), TW_GRAPH_ADD, &t2) || !read_inner(&t2, TW_GRAPH_ADD, &t1) ||
        !joins(&shifts))
        return false;
    tw_builder *b = tw_rw_builder(rw, op);
    tw_value *value = tw_build_binary(b, TW_GRAPH_ADD, t1.x, joint(b, &shifts));
    tw_rw_replace(rw, op, &value);
    return true;
}

/* A shift by a constant or by a negated one. */
static bool read_shift(tw_value *c, step *s)
{
    bool negated = c->op && tw_is_graph(c->op, TW_GRAPH_NEG);
    *s = (step){.c = negated ? tw_operand(c->op, 0) : c, .inverse = negated};
    s->data = tw_graph_constant_value(s->c);
    return s->data && tw_dense_count(s->data, &s->n) && s->n > 0 && s->n <= MAX_ELEMENTS;
}

bool tw_shifts_cancel(tw_value *a, tw_value *b)
{
    step s, t;
    pair shifts = {&s, &t, TW_GRAPH_ADD, TW_GRAPH_ADD, shifts_join};
    return read_shift(a, &s) && read_shift(b, &t) && go_together(&s, &t) && !joins(&shifts);
}
