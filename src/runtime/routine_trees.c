/* routine_trees.c: tw_rt_tree_ensemble: the votes of decision trees for each row of features.
 *
 *   in      x [rows, features], thresholds [nodes]: f32 or f64; nodes [nodes, 4]: feature, outcomes
 *           for which the comparison holds (artifact/trees.h), where to go then, where to go else;
 *           roots [trees]; starts [leaves + 1]: the votes of leaf i are starts[i] ... starts[i + 1]
 *           - 1; targets [votes] of votes; weights [votes] of votes
 *   out     scores [rows, targets]; whether there was any vote (bool), without which a score is 0
 *   params  aggregate (artifact/trees.h), number of targets
 *
 * Ways and roots are numbers of nodes, or ~ those of leaves. All numbers are within bounds and no
 * way leads back, which who makes the tables has checked. Each tree is walked by a block of rows at
 * once, so that it stays in the cache; blocks run in parallel. */
#include "runtime/routines.h"

#include "artifact/trees.h"

#include <string.h>

enum { BLOCK = 64 }; /* rows */

typedef struct forest {
    const int32_t *nodes, *roots, *starts, *targets;
    const void *x, *thresholds, *weights;
    int64_t rows, features, n_targets, trees, aggregate;
    void *scores;
    uint8_t *voted;
} forest;

/* For each floating-point type: the leaf that a row gets to, what its votes do, and a range of
 * blocks. */
#define DEFINE(T)                                                                                  \
    static int32_t leaf_##T(const forest *f, int32_t at, const T *row)                             \
    {                                                                                              \
        const T *thresholds = f->thresholds;                                                       \
        while (at >= 0) {                                                                          \
            const int32_t *node = f->nodes + 4 * (int64_t)at;                                      \
            T v = row[node[0]], t = thresholds[at];                                                \
            int outcome = (v < t) * TW_TREE_BELOW | (v == t) * TW_TREE_EQUAL |                     \
                          (v > t) * TW_TREE_ABOVE | (v != v) * TW_TREE_NAN;                        \
            at = node[outcome & node[1] ? 2 : 3];                                                  \
        }                                                                                          \
        return ~at;                                                                                \
    }                                                                                              \
                                                                                                   \
    static void vote_##T(const forest *f, int32_t leaf, T *scores, uint8_t *voted)                 \
    {                                                                                              \
        const T *weights = f->weights;                                                             \
        for (int32_t i = f->starts[leaf]; i < f->starts[leaf + 1]; i++) {                          \
            T *score = &scores[f->targets[i]], w = weights[i];                                     \
            bool first = !voted[f->targets[i]];                                                    \
            voted[f->targets[i]] = 1;                                                              \
            if (f->aggregate == TW_TREES_MIN)                                                      \
                *score = first || w < *score ? w : *score;                                         \
            else if (f->aggregate == TW_TREES_MAX)                                                 \
                *score = first || w > *score ? w : *score;                                         \
            else                                                                                   \
                *score += w;                                                                       \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    static void blocks_##T(void *ctx, int64_t begin, int64_t end)                                  \
    {                                                                                              \
        const forest *f = ctx;                                                                     \
        int64_t last = end * BLOCK < f->rows ? end * BLOCK : f->rows;                              \
        const T *x = f->x;                                                                         \
        T *scores = f->scores;                                                                     \
        for (int64_t block = begin * BLOCK; block < last; block += BLOCK)                          \
            for (int64_t tree = 0; tree < f->trees; tree++)                                        \
                for (int64_t r = block; r < block + BLOCK && r < last; r++)                        \
                    vote_##T(f, leaf_##T(f, f->roots[tree], x + r * f->features),                  \
                             scores + r * f->n_targets, f->voted + r * f->n_targets);              \
        if (f->aggregate == TW_TREES_AVERAGE)                                                      \
            for (int64_t i = begin * BLOCK * f->n_targets; i < last * f->n_targets; i++)           \
                scores[i] /= (T)f->trees;                                                          \
    }

DEFINE(float)
DEFINE(double)

int32_t tw_rt_tree_ensemble(const tw_abi_host *host, const tw_abi_value *in, uint32_t n_in,
                            tw_abi_value *out, uint32_t n_out, const int64_t *params)
{
    (void)n_in;
    for (uint32_t i = 0; i < n_out; i++) {
        out[i].dims[0] = in->dims[0];
        out[i].dims[1] = params[1];
        if (!tw_rt_provide(host, &out[i]))
            return 1;
        memset(out[i].data, 0, (size_t)tw_rt_count(&out[i]) * tw_rt_elem_bytes(out[i].elem));
    }
    forest f = {.nodes = in[2].data,
                .roots = in[3].data,
                .starts = in[4].data,
                .targets = in[5].data,
                .x = in[0].data,
                .thresholds = in[1].data,
                .weights = in[6].data,
                .rows = in[0].dims[0],
                .features = in[0].dims[1],
                .n_targets = params[1],
                .trees = in[3].dims[0],
                .aggregate = params[0],
                .scores = out[0].data,
                .voted = out[1].data};
    host->parallel_for(host, (f.rows + BLOCK - 1) / BLOCK,
                       in->elem == TW_F64 ? blocks_double : blocks_float, &f);
    return 0;
}
