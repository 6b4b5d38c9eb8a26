/* trees.c: reads ensembles of decision trees and makes the routine that evaluates them.
 *
 * Both forms of the file become one: nodes, which compare a feature with a threshold, leaves, and
 * what each leaf votes for. A test of membership becomes a chain of comparisons; a comparison is
 * the set of its outcomes (below, equal, above, not comparable) for which it holds, so that what
 * NaN does is settled here. Everything that an evaluation relies on is checked: numbers of nodes,
 * leaves and targets, and that no way leads back. */
#include "import/onnx/trees.h"

#include "artifact/trees.h"
#include "ir/elem_data.h"

#include <math.h>
#include <string.h>

static const struct {
    const char *name;
    int outcomes;
} modes[] = {
    {"BRANCH_LEQ", TW_TREE_BELOW | TW_TREE_EQUAL},
    {"BRANCH_LT", TW_TREE_BELOW},
    {"BRANCH_GTE", TW_TREE_ABOVE | TW_TREE_EQUAL},
    {"BRANCH_GT", TW_TREE_ABOVE},
    {"BRANCH_EQ", TW_TREE_EQUAL},
    {"BRANCH_NEQ", TW_TREE_BELOW | TW_TREE_ABOVE | TW_TREE_NAN},
};

enum { EQ = 4, N_MODES = sizeof modes / sizeof *modes, MEMBER = N_MODES };

/* ---- Attributes ---- */

static const double *tensor_reals(tw_onnx_trees *t, const Onnx__TensorProto *tensor,
                                  const char *name, size_t *count)
{
    tw_type type;
    size_t bytes;
    int64_t n = 0;
    const void *data = tw_onnx_tensor_data(t->n->im, tensor, name, &type, &bytes);
    if (!data)
        return NULL;
    if (!tw_elem_is_float(type->elem))
        return tw_gb_error(t->n->g, "attribute '%s' holds %s, not floating-point numbers", name,
                           tw_elem_name(type->elem));
    if (type->elem == TW_F64)
        t->elem = TW_F64;
    tw_type_static_count(type, &n);
    double *out = TW_NEW_ARRAY(t->n->im->arena, double, (size_t)n + 1);
    for (size_t i = 0; i < (size_t)n; i++)
        out[i] = tw_elem_to_double(type->elem, tw_elem_load(type->elem, data, i));
    *count = (size_t)n;
    return out;
}

const double *tw_onnx_trees_reals(tw_onnx_trees *t, const char *name, size_t *count, bool *ok)
{
    const char *other = tw_arena_printf(t->n->im->arena, "%s_as_tensor", name);
    const Onnx__AttributeProto *tensor = tw_onnx_attr(t->n, other);
    if (!tensor)
        tensor = tw_onnx_attr(t->n, name);
    *count = 0;
    if (tensor && tensor->t) {
        const double *out = tensor_reals(t, tensor->t, name, count);
        *ok &= out != NULL;
        return out;
    }
    const float *list = tw_onnx_float_list(t->n, name, count, ok);
    double *out = TW_NEW_ARRAY(t->n->im->arena, double, *count + 1);
    for (size_t i = 0; i < *count; i++)
        out[i] = (double)list[i];
    return list ? out : NULL;
}

/* A list of integers that has as many entries as the others. */
static const int64_t *column(tw_onnx_trees *t, const char *name, size_t n, bool *ok)
{
    size_t count;
    const int64_t *list = tw_onnx_int_list(t->n, name, &count, ok);
    if (*ok && count != n)
        *ok =
            tw_onnx_error(t->n, "attribute '%s' has %zu entries, others have %zu", name, count, n);
    return list;
}

static bool check_count(tw_onnx_trees *t, const char *name, size_t count, size_t n)
{
    return count == n ||
           tw_onnx_error(t->n, "attribute '%s' has %zu entries, others have %zu", name, count, n);
}

/* For each node whether NaN takes the branch where the comparison holds; NULL: none does. */
static const int64_t *read_tracks(tw_onnx_trees *t, size_t n, bool *ok)
{
    const char *name = "nodes_missing_value_tracks_true";
    size_t count;
    const int64_t *list = tw_onnx_int_list(t->n, name, &count, ok);
    return *ok && count ? column(t, name, n, ok) : (*ok ? NULL : list);
}

/* ---- Nodes ---- */

static bool add_node(tw_onnx_trees *t, int64_t feature, int outcomes, bool track, double threshold,
                     int32_t then, int32_t other)
{
    tw_arena *arena = t->n->im->arena;
    if (feature < 0 || feature > INT32_MAX)
        return tw_onnx_error(t->n, "a node compares feature %lld", (long long)feature);
    if (t->thresholds.len >= INT32_MAX / 4)
        return tw_onnx_error(t->n, "more than %d nodes", INT32_MAX / 4);
    if (isnan(threshold)) /* which nothing is comparable with */
        outcomes = outcomes & TW_TREE_NAN ? TW_TREE_ALWAYS : 0, threshold = 0;
    if (track)
        outcomes |= TW_TREE_NAN;
    tw_vec_push(arena, &t->nodes, (int32_t)feature);
    tw_vec_push(arena, &t->nodes, outcomes);
    tw_vec_push(arena, &t->nodes, then);
    tw_vec_push(arena, &t->nodes, other);
    tw_vec_push(arena, &t->thresholds, threshold);
    return true;
}

/* Whether no way through the nodes leads back, by taking away nodes that nothing leads to. */
static bool check_acyclic(tw_onnx_trees *t)
{
    size_t n = t->thresholds.len, n_free = 0, done = 0;
    uint32_t *leading = TW_NEW_ARRAY(t->n->im->arena, uint32_t, n + 1);
    int32_t *free_nodes = TW_NEW_ARRAY(t->n->im->arena, int32_t, n + 1);
    memset(leading, 0, n * sizeof *leading);
    for (size_t i = 0; i < 2 * n; i++)
        if (t->nodes.data[4 * (i / 2) + 2 + i % 2] >= 0)
            leading[t->nodes.data[4 * (i / 2) + 2 + i % 2]]++;
    for (size_t i = 0; i < n; i++)
        if (!leading[i])
            free_nodes[n_free++] = (int32_t)i;
    while (done < n_free) {
        const int32_t *node = t->nodes.data + 4 * (size_t)free_nodes[done++];
        for (int i = 2; i < 4; i++)
            if (node[i] >= 0 && --leading[node[i]] == 0)
                free_nodes[n_free++] = node[i];
    }
    return done == n || tw_onnx_error(t->n, "the nodes of a tree lead back to one another");
}

/* ---- TreeEnsembleRegressor, TreeEnsembleClassifier ---- */

typedef struct old_nodes {
    size_t n;
    const int64_t *trees, *ids, *features, *then, *other, *tracks;
    const double *values;
    const ProtobufCBinaryData *modes;
    tw_map places;    /* (tree, id) -> number of the node + 1, by address */
    int32_t *numbers; /* as a child: of each node */
} old_nodes;

static size_t place_of(const old_nodes *o, int64_t tree, int64_t id)
{
    return (size_t)(uintptr_t)tw_map_get(&o->places, (int64_t[]){tree, id}, 2 * sizeof(int64_t));
}

static bool is_leaf(const ProtobufCBinaryData *mode)
{
    return mode->len == 4 && !memcmp(mode->data, "LEAF", 4);
}

static bool read_columns(tw_onnx_trees *t, old_nodes *o)
{
    bool ok = true;
    size_t n_values;
    const Onnx__AttributeProto *a = tw_onnx_attr(t->n, "nodes_modes");
    o->n = a ? a->n_strings : 0;
    o->modes = a ? a->strings : NULL;
    o->trees = column(t, "nodes_treeids", o->n, &ok);
    o->ids = column(t, "nodes_nodeids", o->n, &ok);
    o->features = column(t, "nodes_featureids", o->n, &ok);
    o->then = column(t, "nodes_truenodeids", o->n, &ok);
    o->other = column(t, "nodes_falsenodeids", o->n, &ok);
    o->tracks = read_tracks(t, o->n, &ok);
    o->values = tw_onnx_trees_reals(t, "nodes_values", &n_values, &ok);
    if (!ok || !check_count(t, "nodes_values", n_values, o->n))
        return false;
    return o->n || tw_onnx_error(t->n, "there are no nodes");
}

/* Numbers nodes and leaves, and finds the roots: the first node of each tree. */
static bool number_nodes(tw_onnx_trees *t, old_nodes *o)
{
    tw_arena *arena = t->n->im->arena;
    tw_map trees = tw_map_make(arena);
    int32_t n_inner = 0, n_leaves = 0;
    o->places = tw_map_make(arena);
    o->numbers = TW_NEW_ARRAY(arena, int32_t, o->n);
    for (size_t i = 0; i < o->n; i++) {
        int64_t key[2] = {o->trees[i], o->ids[i]};
        o->numbers[i] = is_leaf(&o->modes[i]) ? ~n_leaves++ : n_inner++;
        if (tw_map_put(&o->places, key, sizeof key, (void *)(uintptr_t)(i + 1)))
            return tw_onnx_error(t->n, "tree %lld has the node %lld twice", (long long)key[0],
                                 (long long)key[1]);
        if (!tw_map_put(&trees, key, sizeof *key, o))
            tw_vec_push(arena, &t->roots, o->numbers[i]);
    }
    t->n_leaves = (size_t)n_leaves;
    return true;
}

static bool add_old_node(tw_onnx_trees *t, const old_nodes *o, size_t i)
{
    int outcomes = -1;
    const ProtobufCBinaryData *mode = &o->modes[i];
    size_t then = place_of(o, o->trees[i], o->then[i]);
    size_t other = place_of(o, o->trees[i], o->other[i]);
    for (int m = 0; m < N_MODES; m++)
        if (mode->len == strlen(modes[m].name) && !memcmp(mode->data, modes[m].name, mode->len))
            outcomes = modes[m].outcomes;
    if (outcomes < 0)
        return tw_onnx_error(t->n, "attribute 'nodes_modes' has the entry '%.*s'",
                             (int)(mode->len < 40 ? mode->len : 40), (const char *)mode->data);
    if (!then || !other)
        return tw_onnx_error(t->n, "node %lld of tree %lld leads to node %lld, which is missing",
                             (long long)o->ids[i], (long long)o->trees[i],
                             (long long)(then ? o->other[i] : o->then[i]));
    return add_node(t, o->features[i], outcomes, o->tracks && o->tracks[i] == 1, o->values[i],
                    o->numbers[then - 1], o->numbers[other - 1]);
}

/* A leaf may vote for several targets: counts them, then puts each leaf's side by side. */
static bool read_votes(tw_onnx_trees *t, const old_nodes *o, const char *what)
{
    bool ok = true;
    size_t n;
    tw_arena *arena = t->n->im->arena;
#define NAME(suffix) tw_arena_printf(arena, "%s_%s", what, suffix)
    const double *weights = tw_onnx_trees_reals(t, NAME("weights"), &n, &ok);
    const int64_t *ids = column(t, NAME("ids"), n, &ok);
    const int64_t *nodes = column(t, NAME("nodeids"), n, &ok);
    const int64_t *trees = column(t, NAME("treeids"), n, &ok);
#undef NAME
    if (!ok || n > INT32_MAX)
        return ok && tw_onnx_error(t->n, "%zu votes", n);
    t->starts = TW_NEW_ARRAY(arena, int32_t, t->n_leaves + 2);
    memset(t->starts, 0, (t->n_leaves + 2) * sizeof *t->starts);
    t->targets = TW_NEW_ARRAY(arena, int32_t, n + 1);
    t->weights = TW_NEW_ARRAY(arena, double, n + 1);
    int32_t *leaves = TW_NEW_ARRAY(arena, int32_t, n + 1);
    for (size_t i = 0; i < n; i++) {
        size_t place = place_of(o, trees[i], nodes[i]);
        if (!place || ids[i] < 0 || ids[i] >= t->n_targets)
            return tw_onnx_error(t->n, "vote %zu is of node %lld of tree %lld for number %lld", i,
                                 (long long)nodes[i], (long long)trees[i], (long long)ids[i]);
        leaves[i] = o->numbers[place - 1];
        if (leaves[i] < 0) /* votes of other nodes never count */
            t->starts[~leaves[i] + 2]++, t->n_votes++;
    }
    for (size_t i = 0; i < t->n_leaves; i++)
        t->starts[i + 2] += t->starts[i + 1];
    for (size_t i = 0; i < n; i++)
        if (leaves[i] < 0) {
            int32_t at = t->starts[~leaves[i] + 1]++;
            t->targets[at] = (int32_t)ids[i];
            t->weights[at] = weights[i];
        }
    return true;
}

bool tw_onnx_read_old_trees(tw_onnx_trees *t, const char *votes)
{
    old_nodes o = {0};
    if (!read_columns(t, &o) || o.n > INT32_MAX / 4 || !number_nodes(t, &o))
        return false;
    for (size_t i = 0; i < o.n; i++)
        if (o.numbers[i] >= 0 && !add_old_node(t, &o, i))
            return false;
    return check_acyclic(t) && read_votes(t, &o, votes);
}

/* ---- TreeEnsemble ---- */

typedef struct new_nodes {
    size_t n;
    const uint8_t *modes;
    const int64_t *features, *then, *other, *then_leaf, *other_leaf, *tracks;
    const double *splits, *members;
    size_t n_members, next_member;
} new_nodes;

/* What a node leads to. Nodes after the first of a chain have numbers from n on. */
static bool child(tw_onnx_trees *t, const new_nodes *o, int64_t id, int64_t leaf, int32_t *out)
{
    size_t n = leaf ? t->n_leaves : o->n;
    *out = leaf ? ~(int32_t)id : (int32_t)id;
    return (id >= 0 && (size_t)id < n) || tw_onnx_error(t->n, "a node leads to %s %lld of %zu",
                                                        leaf ? "leaf" : "node", (long long)id, n);
}

static bool read_modes(tw_onnx_trees *t, new_nodes *o)
{
    tw_type type = NULL;
    const Onnx__AttributeProto *a = tw_onnx_attr(t->n, "nodes_modes");
    if (!a || !a->t)
        return tw_onnx_error(t->n, "attribute 'nodes_modes' is missing");
    o->modes = tw_onnx_tensor_data(t->n->im, a->t, "nodes_modes", &type, &o->n);
    if (o->modes && type->elem != TW_U8)
        return tw_onnx_error(t->n, "attribute 'nodes_modes' holds %s; u8 is needed",
                             tw_elem_name(type->elem));
    for (size_t i = 0; o->modes && i < o->n; i++)
        if (o->modes[i] > MEMBER)
            return tw_onnx_error(t->n, "attribute 'nodes_modes' has the entry %d", o->modes[i]);
    return o->modes && (o->n || tw_onnx_error(t->n, "there are no nodes"));
}

static bool read_new_columns(tw_onnx_trees *t, new_nodes *o)
{
    bool ok = true;
    size_t n_splits;
    if (!read_modes(t, o))
        return false;
    o->features = column(t, "nodes_featureids", o->n, &ok);
    o->then = column(t, "nodes_truenodeids", o->n, &ok);
    o->other = column(t, "nodes_falsenodeids", o->n, &ok);
    o->then_leaf = column(t, "nodes_trueleafs", o->n, &ok);
    o->other_leaf = column(t, "nodes_falseleafs", o->n, &ok);
    o->tracks = read_tracks(t, o->n, &ok);
    o->splits = tw_onnx_trees_reals(t, "nodes_splits", &n_splits, &ok);
    o->members = tw_onnx_trees_reals(t, "membership_values", &o->n_members, &ok);
    return ok && check_count(t, "nodes_splits", n_splits, o->n);
}

/* Each leaf has one vote. */
static bool read_leaves(tw_onnx_trees *t)
{
    bool ok = true;
    tw_arena *arena = t->n->im->arena;
    const double *weights = tw_onnx_trees_reals(t, "leaf_weights", &t->n_leaves, &ok);
    const int64_t *ids = column(t, "leaf_targetids", t->n_leaves, &ok);
    if (!ok || t->n_leaves > INT32_MAX)
        return ok && tw_onnx_error(t->n, "%zu leaves", t->n_leaves);
    t->n_votes = t->n_leaves;
    t->starts = TW_NEW_ARRAY(arena, int32_t, t->n_leaves + 1);
    t->targets = TW_NEW_ARRAY(arena, int32_t, t->n_leaves + 1);
    t->weights = TW_NEW_ARRAY(arena, double, t->n_leaves + 1);
    for (size_t i = 0; i <= t->n_leaves; i++)
        t->starts[i] = (int32_t)i;
    for (size_t i = 0; i < t->n_leaves; i++) {
        if (ids[i] < 0 || ids[i] >= t->n_targets)
            return tw_onnx_error(t->n, "leaf %zu is for target %lld of %lld", i, (long long)ids[i],
                                 (long long)t->n_targets);
        t->targets[i] = (int32_t)ids[i];
        t->weights[i] = weights[i];
    }
    return true;
}

/* The members of the next set, which ends with NaN. */
static bool next_set(tw_onnx_trees *t, new_nodes *o, const double **set, size_t *n)
{
    size_t end = o->next_member;
    while (end < o->n_members && !isnan(o->members[end]))
        end++;
    if (end == o->n_members)
        return tw_onnx_error(t->n, "attribute 'membership_values' has fewer sets than there are "
                                   "nodes of the mode BRANCH_MEMBER");
    *set = o->members + o->next_member;
    *n = end - o->next_member;
    o->next_member = end + 1;
    return true;
}

/* A node that tests for membership, which so far compares with the first member alone, goes on to
 * nodes for the others, which come behind all that the model numbers. */
static bool add_members(tw_onnx_trees *t, size_t node, const double *set, size_t n)
{
    size_t at = node;
    const int32_t first[4] = {t->nodes.data[4 * node], t->nodes.data[4 * node + 1],
                              t->nodes.data[4 * node + 2], t->nodes.data[4 * node + 3]};
    for (size_t k = 1; k < n; k++) {
        t->nodes.data[4 * at + 3] = (int32_t)t->thresholds.len;
        at = t->thresholds.len;
        if (!add_node(t, first[0], first[1], false, set[k], first[2], first[3]))
            return false;
    }
    return true;
}

static bool add_new_node(tw_onnx_trees *t, const new_nodes *o, size_t i, double threshold)
{
    int32_t then, other;
    int outcomes = modes[o->modes[i] == MEMBER ? EQ : o->modes[i]].outcomes;
    return child(t, o, o->then[i], o->then_leaf[i], &then) &&
           child(t, o, o->other[i], o->other_leaf[i], &other) &&
           add_node(t, o->features[i], outcomes, o->tracks && o->tracks[i] == 1, threshold, then,
                    other);
}

static bool add_new_nodes(tw_onnx_trees *t, new_nodes *o)
{
    const double *set;
    size_t n;
    o->next_member = 0;
    for (size_t i = 0; i < o->n; i++) {
        double threshold = o->splits[i];
        if (o->modes[i] == MEMBER) {
            if (!next_set(t, o, &set, &n))
                return false;
            threshold = n ? set[0] : NAN; /* nothing is a member of the empty set */
        }
        if (!add_new_node(t, o, i, threshold))
            return false;
    }
    o->next_member = 0;
    for (size_t i = 0; i < o->n; i++)
        if (o->modes[i] == MEMBER && (!next_set(t, o, &set, &n) || !add_members(t, i, set, n)))
            return false;
    return true;
}

bool tw_onnx_read_trees(tw_onnx_trees *t)
{
    bool ok = true;
    new_nodes o = {0};
    size_t n_roots;
    const int64_t *roots = tw_onnx_int_list(t->n, "tree_roots", &n_roots, &ok);
    if (!ok || !read_leaves(t) || !read_new_columns(t, &o) || o.n > INT32_MAX / 4 ||
        !add_new_nodes(t, &o))
        return false;
    for (size_t i = 0; i < n_roots; i++) {
        int32_t root;
        if (!child(t, &o, roots[i], 0, &root))
            return false;
        tw_vec_push(t->n->im->arena, &t->roots, root);
    }
    return (n_roots || tw_onnx_error(t->n, "there are no trees")) && check_acyclic(t);
}

/* ---- The routine ---- */

static tw_value *i32_constant(tw_onnx_trees *t, const int32_t *values, unsigned rank,
                              const int64_t *dims)
{
    tw_type type = tw_type_tensor_static(t->n->ctx, TW_I32, rank, dims);
    size_t bytes = (size_t)dims[0] * (rank == 2 ? (size_t)dims[1] : 1) * sizeof *values;
    void *data = tw_context_alloc(t->n->ctx, bytes + 1);
    memcpy(data, values, bytes);
    return tw_gb_constant(t->n->g, type, data, bytes, NULL);
}

tw_value *tw_onnx_trees_constant(tw_onnx_trees *t, const double *values, size_t n)
{
    tw_type type = tw_type_tensor_static(t->n->ctx, t->elem, 1, (int64_t[]){(int64_t)n});
    size_t size = tw_elem_bits(t->elem) / 8;
    void *data = tw_context_alloc(t->n->ctx, n * size + 1);
    for (size_t i = 0; i < n; i++)
        tw_elem_store(t->elem, data, i, tw_elem_from_double(t->elem, values[i]));
    return tw_gb_constant(t->n->g, type, data, n * size, NULL);
}

/* Input 0 as a matrix with all the features that are compared; NULL with an error. */
static tw_value *rows(tw_onnx_trees *t)
{
    tw_gb *g = t->n->g;
    tw_value *x = t->n->in[0];
    int32_t most = 0;
    for (size_t i = 0; i < t->nodes.len; i += 4)
        most = t->nodes.data[i] > most ? t->nodes.data[i] : most;
    if (!tw_onnx_check_elem(t->n, 0, TW_ONNX_FLOATS | TW_ONNX_INDICES))
        return NULL;
    if (x->type->rank == 1)
        x = tw_gb_unsqueeze(g, x, 1);
    if (!x || x->type->rank != 2)
        return tw_gb_error(g, "input 0 is %s; rows of features are needed",
                           tw_gb_type_text(g, t->n->in[0]->type));
    if (!tw_gb_check(g, tw_expr_sub(t->n->ctx, x->type->dims[1], tw_gb_const(g, (int64_t)most + 1)),
                     "the trees compare feature %d, but the input has fewer", most))
        return NULL;
    return tw_gb_cast(g, x, t->elem);
}

bool tw_onnx_trees_scores(tw_onnx_trees *t, int64_t aggregate, tw_value **scores, tw_value **voted)
{
    if (t->n->in[0]->type->elem == TW_F64)
        t->elem = TW_F64;
    tw_value *x = rows(t), *out[2];
    if (!x)
        return false;
    int64_t n_nodes = (int64_t)t->thresholds.len;
    tw_value *operands[] = {
        x,
        tw_onnx_trees_constant(t, t->thresholds.data, t->thresholds.len),
        i32_constant(t, t->nodes.data, 2, (int64_t[]){n_nodes, 4}),
        i32_constant(t, t->roots.data, 1, (int64_t[]){(int64_t)t->roots.len}),
        i32_constant(t, t->starts, 1, (int64_t[]){(int64_t)t->n_leaves + 1}),
        i32_constant(t, t->targets, 1, (int64_t[]){(int64_t)t->n_votes}),
        tw_onnx_trees_constant(t, t->weights, t->n_votes),
    };
    tw_expr dims[2] = {x->type->dims[0], tw_gb_const(t->n->g, t->n_targets)};
    tw_onnx_result results[2] = {{t->elem, 2, {dims[0], dims[1]}},
                                 {TW_BOOL, 2, {dims[0], dims[1]}}};
    if (!tw_onnx_routine(t->n, "tree_ensemble", operands, sizeof operands / sizeof *operands,
                         (int64_t[]){aggregate, t->n_targets}, 2, results, 2, out))
        return false;
    *scores = out[0];
    *voted = out[1];
    return true;
}
