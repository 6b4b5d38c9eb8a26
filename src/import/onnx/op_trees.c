/* op_trees.c: TreeEnsemble, TreeEnsembleRegressor and TreeEnsembleClassifier: what is done with the
 * votes of decision trees (trees.h).
 *
 * Where the specification is silent or engines differ from it, models get what onnxruntime gives
 * them: a single target is transformed by PROBIT alone, and how two classes become a label and two
 * scores depends on what was voted for. */
#include "artifact/trees.h"
#include "import/onnx/arith.h"
#include "import/onnx/ml.h"
#include "import/onnx/trees.h"

#include <math.h>
#include <string.h>

#define SELECT(c, a, b) tw_gb_where(g, c, a, b)
#define ABOVEC(a, c) tw_gb_binary_scalar(g, TW_GRAPH_GREATER, a, c)

static const char *const aggregates[] = {"AVERAGE", "SUM", "MIN", "MAX"};

static bool within(tw_onnx_node *n, const char *attribute, int64_t value, int count)
{
    return (value >= 0 && value < count) ||
           tw_onnx_error(n, "attribute '%s' is %lld; 0 to %d are known", attribute,
                         (long long)value, count - 1);
}

/* ---- Regression ---- */

/* "base_values"; *n is 0 when there are none. False with an error. */
static bool read_base(tw_onnx_trees *t, size_t *n, const double **values)
{
    bool ok = true;
    *values = tw_onnx_trees_reals(t, "base_values", n, &ok);
    return ok &&
           (*n == 0 || *n == (size_t)t->n_targets || (*n <= 2 && t->n_targets <= 2) ||
            tw_onnx_error(t->n, "%zu base values for %lld targets", *n, (long long)t->n_targets));
}

static bool check_targets(tw_onnx_trees *t, const char *what)
{
    return (t->n_targets > 0 && t->n_targets <= INT32_MAX) ||
           tw_onnx_error(t->n, "%s is %lld", what, (long long)t->n_targets);
}

static bool regress(tw_onnx_trees *t, int64_t aggregate, int64_t post, tw_elem elem)
{
    tw_gb *g = t->n->g;
    size_t n_base;
    const double *base;
    tw_value *scores, *voted;
    if (!read_base(t, &n_base, &base) || !tw_onnx_trees_scores(t, aggregate, &scores, &voted))
        return false;
    if (n_base && n_base != (size_t)t->n_targets)
        return tw_onnx_error(t->n, "%zu base values for %lld targets", n_base,
                             (long long)t->n_targets);
    if (n_base)
        scores = ADD(scores, tw_onnx_trees_constant(t, base, n_base));
    scores = tw_onnx_transform(g, post, scores);
    return tw_onnx_set(t->n, 0, tw_gb_cast(g, scores, elem));
}

bool tw_onnx_op_tree_ensemble(tw_onnx_node *n)
{
    bool ok = true;
    tw_onnx_trees t = {.n = n, .elem = TW_F32};
    int64_t aggregate = tw_onnx_int(n, "aggregate_function", TW_TREES_SUM, &ok);
    int64_t post = tw_onnx_int(n, "post_transform", TW_ONNX_PLAIN, &ok);
    t.n_targets = tw_onnx_int(n, "n_targets", 0, &ok);
    return ok && within(n, "aggregate_function", aggregate, 4) &&
           within(n, "post_transform", post, 5) && check_targets(&t, "attribute 'n_targets'") &&
           tw_onnx_check_elem(n, 0, TW_ONNX_FLOATS) && tw_onnx_read_trees(&t) &&
           regress(&t, aggregate, post, n->in[0]->type->elem);
}

bool tw_onnx_op_tree_ensemble_regressor(tw_onnx_node *n)
{
    bool ok = true;
    tw_onnx_trees t = {.n = n, .elem = TW_F32};
    int64_t aggregate = tw_onnx_choice(n, "aggregate_function", aggregates, 4, TW_TREES_SUM);
    int64_t post = tw_onnx_read_transform(n);
    t.n_targets = tw_onnx_int(n, "n_targets", 0, &ok);
    return ok && aggregate >= 0 && post >= 0 && check_targets(&t, "attribute 'n_targets'") &&
           tw_onnx_read_old_trees(&t, "target") && regress(&t, aggregate, post, TW_F32);
}

/* ---- Classification ---- */

typedef struct classes {
    tw_onnx_trees t;
    int64_t post;
    const double *base;
    size_t n_base;
    const Onnx__AttributeProto *texts; /* labels, or NULL */
    const int64_t *numbers;
    tw_value *scores, *voted;
    tw_value *label, *z; /* numbers of classes [rows]; scores as they are given [rows, classes] */
} classes;

static bool read_classes(classes *c)
{
    bool ok = true;
    size_t n;
    tw_onnx_node *node = c->t.n;
    c->post = tw_onnx_read_transform(node);
    c->texts = tw_onnx_attr(node, "classlabels_strings");
    c->numbers = tw_onnx_int_list(node, "classlabels_int64s", &n, &ok);
    if (c->texts && !c->texts->n_strings)
        c->texts = NULL;
    c->t.n_targets = (int64_t)(c->texts ? c->texts->n_strings : n);
    if (!ok || c->post < 0 || !check_targets(&c->t, "the number of class labels") ||
        !tw_onnx_read_old_trees(&c->t, "class") || !read_base(&c->t, &c->n_base, &c->base))
        return false;
    return tw_onnx_trees_scores(&c->t, TW_TREES_SUM, &c->scores, &c->voted);
}

/* The labels are the classes with the highest scores among those that were voted for. */
static bool many_classes(classes *c)
{
    tw_gb *g = c->t.n->g;
    tw_value *none = tw_gb_scalar(g, c->t.elem, -INFINITY);
    if (c->n_base)
        c->scores = ADD(c->scores, tw_onnx_trees_constant(&c->t, c->base, c->n_base));
    c->label = tw_onnx_best(g, c->n_base ? c->scores : SELECT(c->voted, c->scores, none));
    c->z = tw_onnx_transform(g, c->post, c->scores);
    return c->label && c->z;
}

/* One class: its score decides between the labels 0 and 1. */
static const int64_t zero_or_one[2] = {0, 1};

static bool one_class(classes *c)
{
    tw_gb *g = c->t.n->g;
    if (c->texts || c->n_base > 1)
        return tw_onnx_error(c->t.n, c->texts ? "a single class whose label is a string"
                                              : "two base values for a single class");
    if (c->n_base)
        c->scores = ADDC(c->scores, c->base[0]);
    c->numbers = zero_or_one;
    c->label = tw_gb_cast(g, tw_gb_squeeze(g, ABOVEC(c->scores, 0), 2), TW_I64);
    c->z = tw_onnx_transform(g, c->post, c->scores);
    return c->label && c->z;
}

static tw_value *column(tw_gb *g, tw_value *x, int64_t i)
{
    return tw_gb_slice_axis(g, x, 1, tw_gb_const(g, i), 1, tw_gb_const(g, 1));
}

/* Two classes. When all votes are for one of them and none is negative, they are chances. */
static bool two_classes(classes *c)
{
    tw_gb *g = c->t.n->g;
    bool for_class[2] = {false, false}, positive = true;
    for (size_t i = 0; i < c->t.n_votes; i++) {
        for_class[c->t.targets[i]] = true;
        positive &= !(c->t.weights[i] < 0);
    }
    bool chances = positive && !(for_class[0] && for_class[1]);
    if (c->post == TW_ONNX_PROBIT)
        return tw_onnx_error(
            c->t.n, "post_transform PROBIT of a single score for two classes; engines do not say "
                    "what the second score is");
    if (c->n_base == 2 && for_class[1])
        return tw_onnx_error(c->t.n, "base values for both of two classes, with votes for the "
                                     "second one; engines do not agree on what that means");
    tw_value *zero = tw_gb_scalar(g, c->t.elem, 0);
    tw_value *first = column(g, c->scores, 0), *second = column(g, c->scores, 1);
    tw_value *voted = column(g, c->voted, 0), *both = column(g, c->voted, 1);
    if (c->n_base)
        first = SELECT(voted, ADDC(first, c->base[0]), zero);
    tw_value *above = ABOVEC(SELECT(both, second, first), chances ? 0.5 : 0);
    tw_value *two[2] = {first, second};
    tw_value *z = above ? tw_onnx_transform(g, c->post, tw_gb_concat(g, two, 2, 1)) : NULL;
    if (c->n_base != 2)
        z = SELECT(both, z, tw_onnx_score_pair(g, c->post, first, chances));
    c->label = tw_gb_cast(g, tw_gb_squeeze(g, above, 2), TW_I64);
    c->z = z;
    return c->label && z;
}

bool tw_onnx_op_tree_ensemble_classifier(tw_onnx_node *n)
{
    classes c = {.t = {.n = n, .elem = TW_F32}};
    tw_gb *g = n->g;
    if (!read_classes(&c))
        return false;
    size_t count = (size_t)c.t.n_targets;
    if (!(count == 1 ? one_class(&c) : count == 2 ? two_classes(&c) : many_classes(&c)))
        return false;
    tw_value *labels = c.texts ? tw_onnx_text_constant(n, c.texts->strings, count, 1)
                               : tw_gb_ints(g, c.numbers, count == 1 ? 2 : count);
    return tw_onnx_set(n, 0, tw_gb_gather(g, labels, c.label, 0)) &&
           tw_onnx_set(n, 1, tw_gb_cast(g, c.z, TW_F32));
}
