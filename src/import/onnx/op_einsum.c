/* op_einsum.c: Einstein sums by transposes, sums and matrix products.
 *
 *     "bij,bjk->bik"   labels of both operands that stay: batch; that go: contracted
 * Operands are joined from left to right. A label is a letter; an ellipsis stands for labels of its
 * own, the same ones (aligned at the end) in all operands. */
#include "import/onnx/import.h"

#include <string.h>

enum { MAX_LABELS = 52 + TW_MAX_RANK, MAX_OPERANDS = 32 };

/* A tensor whose axis i has label labels[i]: 0..51 letters, then those of the ellipsis. */
typedef struct term {
    tw_value *value;
    unsigned char labels[2 * TW_MAX_RANK];
    unsigned rank;
} term;

typedef struct einsum {
    tw_onnx_node *n;
    term terms[MAX_OPERANDS];
    unsigned n_terms;
    term result;       /* value unused */
    unsigned ellipsis; /* most axes that an ellipsis stands for */
} einsum;

static uint64_t label_bit(unsigned char label, uint64_t *high)
{
    *high = label >= 64 ? (uint64_t)1 << (label - 64) : 0;
    return label < 64 ? (uint64_t)1 << label : 0;
}

/* A set of labels; MAX_LABELS is beyond 64. */
typedef struct label_set {
    uint64_t low, high;
} label_set;

static bool has(label_set s, unsigned char label)
{
    uint64_t high, low = label_bit(label, &high);
    return (s.low & low) || (s.high & high);
}

static void add(label_set *s, unsigned char label)
{
    uint64_t high, low = label_bit(label, &high);
    s->low |= low;
    s->high |= high;
}

static label_set labels_of(const term *t)
{
    label_set s = {0, 0};
    for (unsigned i = 0; i < t->rank; i++)
        add(&s, t->labels[i]);
    return s;
}

/* ---- Reading the equation ---- */

static int letter(char c)
{
    return c >= 'a' && c <= 'z' ? c - 'a' : c >= 'A' && c <= 'Z' ? 26 + c - 'A' : -1;
}

/* Labels of one operand (rank of its tensor) or of the result (rank < 0). */
static bool read_labels(einsum *e, const char **at, int rank, term *out)
{
    unsigned letters = 0, dots_at = 0;
    bool dots = false;
    unsigned char names[TW_MAX_RANK];
    for (; **at && **at != ',' && !(at[0][0] == '-' && at[0][1] == '>'); ++*at) {
        if (**at == ' ')
            continue;
        if (!strncmp(*at, "...", 3) && !dots) {
            dots = true;
            dots_at = letters;
            *at += 2;
        } else if (letter(**at) >= 0 && letters < TW_MAX_RANK) {
            names[letters++] = (unsigned char)letter(**at);
        } else {
            return tw_onnx_error(e->n, "the equation is broken at '%s'", *at);
        }
    }
    unsigned hidden = rank < 0 ? e->ellipsis : (unsigned)rank - letters;
    if (rank >= 0 && ((unsigned)rank < letters || (!dots && (unsigned)rank != letters)))
        return tw_onnx_error(e->n, "the equation has %u labels for an operand of rank %d", letters,
                             rank);
    if (!dots)
        hidden = 0;
    if (hidden > e->ellipsis)
        e->ellipsis = hidden;
    out->rank = 0;
    for (unsigned i = 0; i <= letters; i++) {
        if (dots && i == dots_at)
            for (unsigned k = 0; k < hidden; k++) /* the last hidden axis is label 52 */
                out->labels[out->rank++] = (unsigned char)(52 + hidden - 1 - k);
        if (i < letters)
            out->labels[out->rank++] = names[i];
    }
    return out->rank <= TW_MAX_RANK || tw_onnx_error(e->n, "a result of rank %u", out->rank);
}

/* Without an arrow: the ellipsis, then the labels that occur once, in order. */
static bool implicit_result(einsum *e)
{
    unsigned counts[MAX_LABELS] = {0};
    for (unsigned t = 0; t < e->n_terms; t++)
        for (unsigned i = 0; i < e->terms[t].rank; i++)
            counts[e->terms[t].labels[i]]++;
    for (unsigned k = e->ellipsis; k-- > 0;)
        e->result.labels[e->result.rank++] = (unsigned char)(52 + k);
    static const char order[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    for (const char *c = order; *c; c++) {
        int label = letter(*c);
        if (label < 0 || counts[label] != 1)
            continue;
        if (e->result.rank == TW_MAX_RANK)
            return tw_onnx_error(e->n, "a result of more than %d dimensions", TW_MAX_RANK);
        e->result.labels[e->result.rank++] = (unsigned char)label;
    }
    return true;
}

static bool read_equation(einsum *e, const char *text)
{
    tw_onnx_node *n = e->n;
    for (;;) {
        if (e->n_terms == n->n_in || e->n_terms == MAX_OPERANDS)
            return tw_onnx_error(n, "the equation '%s' does not have %u operands", text, n->n_in);
        term *t = &e->terms[e->n_terms];
        t->value = n->in[e->n_terms];
        if (!t->value)
            return tw_onnx_error(n, "input %u is missing", e->n_terms);
        if (!read_labels(e, &text, (int)t->value->type->rank, t))
            return false;
        e->n_terms++;
        if (*text != ',')
            break;
        text++;
    }
    if (e->n_terms != n->n_in)
        return tw_onnx_error(n, "the equation does not have %u operands", n->n_in);
    if (!*text)
        return implicit_result(e);
    text += 2;
    return read_labels(e, &text, -1, &e->result) &&
           (!*text || tw_onnx_error(n, "the equation is broken at '%s'", text));
}

/* ---- One operand ---- */

static void drop_axis(term *t, unsigned axis)
{
    memmove(t->labels + axis, t->labels + axis + 1, t->rank - axis - 1);
    t->rank--;
}

/* A label that occurs twice: only the diagonal counts, summed over one of the axes. */
static void take_diagonals(tw_gb *g, term *t)
{
    for (unsigned i = 0; i < t->rank; i++)
        for (unsigned j = i + 1; j < t->rank;) {
            if (t->labels[i] != t->labels[j] || !t->value) {
                j++;
                continue;
            }
            tw_expr row[TW_MAX_RANK], column[TW_MAX_RANK];
            for (unsigned a = 0; a < t->rank; a++) {
                row[a] = a == i ? t->value->type->dims[a] : tw_gb_const(g, 1);
                column[a] = a == j ? t->value->type->dims[a] : tw_gb_const(g, 1);
            }
            tw_value *same = tw_gb_binary(g, TW_GRAPH_EQUAL, tw_gb_iota(g, TW_I64, t->rank, row, i),
                                          tw_gb_iota(g, TW_I64, t->rank, column, j));
            tw_value *kept =
                tw_gb_where(g, same, t->value, tw_gb_scalar(g, t->value->type->elem, 0));
            t->value = tw_gb_reduce(g, TW_GRAPH_REDUCE_SUM, kept, 1u << j, false);
            drop_axis(t, j);
        }
}

/* Sums over the labels that are not in `kept`. */
static void sum_out(tw_gb *g, term *t, label_set kept)
{
    uint32_t axes = 0;
    for (unsigned i = 0; i < t->rank; i++)
        if (!has(kept, t->labels[i]))
            axes |= 1u << i;
    t->value = tw_gb_reduce(g, TW_GRAPH_REDUCE_SUM, t->value, axes, false);
    for (unsigned i = t->rank; i-- > 0;)
        if (axes >> i & 1)
            drop_axis(t, i);
}

/* Axes in the order of the labels, all of which t has. */
static void order(tw_gb *g, term *t, const unsigned char *labels, unsigned rank)
{
    int64_t perm[TW_MAX_RANK];
    for (unsigned i = 0; i < rank; i++)
        for (unsigned j = 0; j < t->rank; j++)
            if (t->labels[j] == labels[i])
                perm[i] = j;
    t->value = tw_gb_transpose(g, t->value, perm);
    memcpy(t->labels, labels, rank);
}

/* ---- Two operands ---- */

/* Labels of a pair by where they occur: in both and kept; in both and summed; in one. */
typedef struct classes {
    unsigned char batch[TW_MAX_RANK], inner[TW_MAX_RANK], left[TW_MAX_RANK], right[TW_MAX_RANK];
    unsigned n_batch, n_inner, n_left, n_right;
} classes;

static classes classify(const term *a, const term *b, label_set kept)
{
    classes c = {.n_batch = 0};
    label_set in_a = labels_of(a), in_b = labels_of(b);
    for (unsigned i = 0; i < a->rank; i++) {
        unsigned char l = a->labels[i];
        if (!has(in_b, l))
            c.left[c.n_left++] = l;
        else if (has(kept, l))
            c.batch[c.n_batch++] = l;
        else
            c.inner[c.n_inner++] = l;
    }
    for (unsigned i = 0; i < b->rank; i++)
        if (!has(in_a, b->labels[i]))
            c.right[c.n_right++] = b->labels[i];
    return c;
}

/* The operand as [batch..., first, second], both joined to one axis each. */
static tw_value *as_matrices(tw_gb *g, term *t, const classes *c, const unsigned char *first,
                             unsigned n_first, const unsigned char *second, unsigned n_second)
{
    unsigned char labels[3 * TW_MAX_RANK];
    tw_expr dims[TW_MAX_RANK];
    memcpy(labels, c->batch, c->n_batch);
    memcpy(labels + c->n_batch, first, n_first);
    memcpy(labels + c->n_batch + n_first, second, n_second);
    if (!t->value)
        return NULL;
    if (c->n_batch + 2 > TW_MAX_RANK)
        return tw_gb_error(g, "more than %d dimensions", TW_MAX_RANK);
    order(g, t, labels, t->rank);
    if (!t->value)
        return NULL;
    memcpy(dims, t->value->type->dims, c->n_batch * sizeof *dims);
    dims[c->n_batch] = tw_gb_product(g, t->value->type->dims + c->n_batch, n_first);
    dims[c->n_batch + 1] = tw_gb_product(g, t->value->type->dims + c->n_batch + n_first, n_second);
    return tw_gb_reshape(g, t->value, c->n_batch + 2, dims);
}

static tw_expr *size_of(const term *t, tw_expr *dims, unsigned char label)
{
    memcpy(dims, t->value->type->dims, t->rank * sizeof *dims);
    for (unsigned i = 0; i < t->rank; i++)
        if (t->labels[i] == label)
            return &dims[i];
    return NULL;
}

/* The axes of a label get one size in both; batches are broadcast by the product. */
static bool widen(tw_gb *g, term *a, term *b, unsigned char label)
{
    tw_expr dims[2][TW_MAX_RANK];
    tw_expr *x = size_of(a, dims[0], label), *y = size_of(b, dims[1], label);
    tw_expr size = tw_gb_common_size(g, *x, *y);
    if (!size)
        return tw_gb_error(g, "%s and %s differ in the size of a label",
                           tw_gb_type_text(g, a->value->type), tw_gb_type_text(g, b->value->type));
    *x = *y = size;
    a->value = tw_gb_expand(g, a->value, a->rank, dims[0]);
    b->value = a->value ? tw_gb_expand(g, b->value, b->rank, dims[1]) : NULL;
    return b->value;
}

/* a becomes the product of a and b, summed over what is not kept. */
static bool join(tw_gb *g, term *a, term *b, label_set kept)
{
    tw_expr dims[TW_MAX_RANK];
    classes c = classify(a, b, kept);
    unsigned rank = c.n_batch + c.n_left + c.n_right;
    if (rank > TW_MAX_RANK)
        return tw_gb_error(g, "more than %d dimensions", TW_MAX_RANK);
    for (unsigned i = 0; i < c.n_inner; i++)
        if (!widen(g, a, b, c.inner[i]))
            return false;
    tw_value *x = as_matrices(g, a, &c, c.left, c.n_left, c.inner, c.n_inner);
    tw_value *y = as_matrices(g, b, &c, c.inner, c.n_inner, c.right, c.n_right);
    tw_value *z = tw_gb_matmul(g, x, y, false, false);
    if (!z)
        return false;
    memcpy(dims, z->type->dims, c.n_batch * sizeof *dims);
    memcpy(dims + c.n_batch, a->value->type->dims + c.n_batch, c.n_left * sizeof *dims);
    memcpy(dims + c.n_batch + c.n_left, b->value->type->dims + c.n_batch + c.n_inner,
           c.n_right * sizeof *dims);
    memcpy(a->labels, c.batch, c.n_batch);
    memcpy(a->labels + c.n_batch, c.left, c.n_left);
    memcpy(a->labels + c.n_batch + c.n_left, c.right, c.n_right);
    a->rank = rank;
    a->value = tw_gb_reshape(g, z, rank, dims);
    return a->value != NULL;
}

/* ---- All ---- */

static bool check_result(einsum *e)
{
    label_set all = {0, 0}, seen = {0, 0};
    for (unsigned t = 0; t < e->n_terms; t++)
        for (unsigned i = 0; i < e->terms[t].rank; i++)
            add(&all, e->terms[t].labels[i]);
    for (unsigned i = 0; i < e->result.rank; i++) {
        if (!has(all, e->result.labels[i]) || has(seen, e->result.labels[i]))
            return tw_onnx_error(e->n, "the equation's result has a label that no operand has, or "
                                       "one twice");
        add(&seen, e->result.labels[i]);
    }
    return true;
}

bool tw_onnx_op_einsum(tw_onnx_node *n)
{
    bool ok = true;
    einsum *e = TW_NEW(n->im->arena, einsum);
    e->n = n;
    const char *equation = tw_onnx_string(n, "equation", "", &ok);
    if (!ok || !read_equation(e, equation) || !check_result(e))
        return false;
    for (unsigned t = 0; t < e->n_terms; t++)
        take_diagonals(n->g, &e->terms[t]);
    term *sum = &e->terms[0];
    for (unsigned t = 0; t < e->n_terms; t++) {
        label_set later = labels_of(&e->result); /* what the rest still needs */
        for (unsigned k = t + 1; k < e->n_terms; k++)
            for (unsigned i = 0; i < e->terms[k].rank; i++)
                add(&later, e->terms[k].labels[i]);
        label_set own = later;
        for (unsigned i = 0; t > 0 && i < sum->rank; i++)
            add(&own, sum->labels[i]);
        if (!e->terms[t].value)
            return false;
        sum_out(n->g, &e->terms[t], own);
        if (t > 0 && (!e->terms[t].value || !join(n->g, sum, &e->terms[t], later)))
            return false;
        if (t > 0)
            sum_out(n->g, sum, later);
    }
    if (!sum->value)
        return false;
    order(n->g, sum, e->result.labels, e->result.rank);
    return tw_onnx_set(n, 0, sum->value);
}
