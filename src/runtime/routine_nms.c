/* routine_nms.c: tw_rt_non_max_suppression: of overlapping boxes those with the highest scores.
 *
 *   in      boxes f32[batch, n, 4], scores f32[batch, classes, n], i64 scalar: how many of each
 *           class at most, f32 scalars: the overlap (intersection over union) above which the box
 *           of lower score goes, the score that a box must be above
 *   out     i64[k, 3]: batch, class, box
 *   params  0: boxes are two corners (y1, x1, y2, x2) in any order; 1: centre and size (x, y, w, h)
 */
#include "runtime/routines.h"

#include <stdlib.h>

typedef struct box {
    float y1, x1, y2, x2;
} box;

typedef struct candidate {
    float score;
    int64_t index;
} candidate;

typedef struct nms {
    const float *boxes, *scores;
    int64_t batches, classes, n, most;
    float overlap, least;
    bool centred;
    candidate *candidates; /* n */
    int64_t *chosen;       /* triples */
    int64_t n_chosen;
} nms;

static float lower(float a, float b)
{
    return a < b ? a : b;
}

static float higher(float a, float b)
{
    return a > b ? a : b;
}

static box box_at(const nms *s, int64_t batch, int64_t i)
{
    const float *b = s->boxes + (batch * s->n + i) * 4;
    if (s->centred)
        return (box){b[1] - b[3] / 2, b[0] - b[2] / 2, b[1] + b[3] / 2, b[0] + b[2] / 2};
    return (box){lower(b[0], b[2]), lower(b[1], b[3]), higher(b[0], b[2]), higher(b[1], b[3])};
}

static bool overlaps(const nms *s, const box *a, const box *b)
{
    float height = lower(a->y2, b->y2) - higher(a->y1, b->y1);
    float width = lower(a->x2, b->x2) - higher(a->x1, b->x1);
    float area_a = (a->y2 - a->y1) * (a->x2 - a->x1), area_b = (b->y2 - b->y1) * (b->x2 - b->x1);
    if (height <= 0 || width <= 0 || area_a <= 0 || area_b <= 0)
        return false;
    float common = height * width;
    return common / (area_a + area_b - common) > s->overlap;
}

/* Highest score first; of equal ones the first box. */
static int by_score(const void *a, const void *b)
{
    const candidate *x = a, *y = b;
    if (x->score != y->score)
        return x->score < y->score ? 1 : -1;
    return (x->index > y->index) - (x->index < y->index);
}

static void choose(nms *s, int64_t batch, int64_t class)
{
    const float *scores = s->scores + (batch * s->classes + class) * s->n;
    int64_t n = 0, begin = s->n_chosen;
    for (int64_t i = 0; i < s->n; i++)
        if (scores[i] > s->least)
            s->candidates[n++] = (candidate){scores[i], i};
    if (n > 1)
        qsort(s->candidates, (size_t)n, sizeof *s->candidates, by_score);
    for (int64_t i = 0; i < n && s->n_chosen - begin < s->most; i++) {
        box b = box_at(s, batch, s->candidates[i].index);
        bool stays = true;
        for (int64_t k = begin; stays && k < s->n_chosen; k++) {
            box earlier = box_at(s, batch, s->chosen[3 * k + 2]);
            stays = !overlaps(s, &b, &earlier);
        }
        if (!stays)
            continue;
        int64_t *row = s->chosen + 3 * s->n_chosen++;
        row[0] = batch;
        row[1] = class;
        row[2] = s->candidates[i].index;
    }
}

static int32_t write(const tw_abi_host *host, const nms *s, tw_abi_value *out)
{
    out->dims[0] = s->n_chosen;
    out->dims[1] = 3;
    if (!tw_rt_provide(host, out))
        return 1;
    for (int64_t i = 0; i < 3 * s->n_chosen; i++)
        ((int64_t *)out->data)[i] = s->chosen[i];
    return 0;
}

int32_t tw_rt_non_max_suppression(const tw_abi_host *host, const tw_abi_value *in, uint32_t n_in,
                                  tw_abi_value *out, uint32_t n_out, const int64_t *params)
{
    (void)n_in;
    (void)n_out;
    nms s = {.boxes = in[0].data,
             .scores = in[1].data,
             .batches = in[1].dims[0],
             .classes = in[1].dims[1],
             .n = in[1].dims[2],
             .most = *(const int64_t *)in[2].data,
             .overlap = *(const float *)in[3].data,
             .least = *(const float *)in[4].data,
             .centred = params[0]};
    if (in[0].dims[0] != s.batches || in[0].dims[1] != s.n || in[0].dims[2] != 4)
        return tw_rt_fail(host, "non-maximum suppression: boxes and scores do not fit");
    int64_t most = s.most < 0 ? 0 : s.most < s.n ? s.most : s.n;
    size_t rows = (size_t)(s.batches * s.classes * most) + 1;
    s.candidates = host->alloc(host, ((size_t)s.n + 1) * sizeof *s.candidates);
    s.chosen = host->alloc(host, 3 * rows * sizeof *s.chosen);
    int32_t status = s.candidates && s.chosen ? 0 : tw_rt_no_memory(host);
    for (int64_t b = 0; !status && b < s.batches; b++)
        for (int64_t c = 0; c < s.classes; c++)
            choose(&s, b, c);
    if (!status)
        status = write(host, &s, out);
    host->free(host, s.chosen);
    host->free(host, s.candidates);
    return status;
}
