/* tiles.c: the rule for sums of products and window reductions: register tiles.
 *
 * One reduction block whose result is contiguous along axis v. A tile of MR steps of a second axis
 * r by NV vectors of v is kept in registers while the reduction loops run; r is chosen so that one
 * operand is the same for all its steps:
 *
 *     for (outer axes) for vo for ro {            parallel over the outermost
 *       tile[MR][NV] = 0
 *       for (reduction axes) for ri in MR, vi in NV: tile[ri][vi] += a[..ri..] * b[..vi..]
 *       epilogue(tile)
 *     }
 *
 * MR and NV minimise an estimate of cycles: multiply-adds (2 a cycle), loads (2 a cycle) and the
 * latency of an accumulator (4 cycles), over all tiles with their remainders; they are bounded by
 * the registers of the target. Whether vo or ro is the outer one is decided by the bytes that
 * stream through the caches again and again. */
#include "schedule/rules/rule.h"

#include <string.h>

enum {
    MAX_ROWS = 30,
    MAX_OPEN_ROWS = 8,
    MAX_VECTORS = 8,
    FMA_LATENCY = 5,  /* 4, and what it takes to find the next one that is ready */
    TILE_CYCLES = 10, /* to start and end a tile */
    L2_BYTES = 24,    /* a cycle, of memory read in order */
    STRIDED_BYTES = 12,
    SMALL_REDUCTION = 4,
    WHOLE_ROWS = 8,
    PACKED_REDUCTION = 16, /* weights in a word */
    MASKED_COST = 5,
    LEAST_AHEAD = 3,
    MOST_AHEAD = 24, /* tiles of rows */
    LINE_BITS = 512
};

typedef tw_rule_tile tile;

const tw_rule_block *tw_only_reduction(const tw_kernel_blocks *k)
{
    const tw_rule_block *found = NULL;
    for (unsigned i = 0; i < k->n; i++)
        if (k->blocks[i].n_spatial < k->blocks[i].n_iters) {
            if (found)
                return NULL;
            found = &k->blocks[i];
        }
    return found;
}

bool tw_find_epilogue(const tw_kernel_blocks *k, const tw_rule_block *main,
                      const tw_rule_block **epilogue)
{
    *epilogue = NULL;
    if (!tw_is_internal(main->store->buffer))
        return k->n == 1;
    return k->n == 2 && tw_readers(k, main->store->buffer, epilogue) == 1 &&
           tw_is_injective(*epilogue);
}

bool tw_rule_fits_tiles(const tw_rule *r)
{
    const tw_rule_block *main = tw_only_reduction(r->k), *epilogue;
    if (!main || !main->store || main->sequential || main->has_loops || main->store->indirect)
        return false;
    int v = tw_contiguous_iter(main, main->store);
    return v >= 0 && !main->reduce[v] && tw_find_epilogue(r->k, main, &epilogue);
}

/* Whether some load is the same for all steps of axis i but differs along v. */
static bool reuses(const tw_rule_block *b, int i, int v)
{
    for (unsigned a = 0; a < b->n_accesses; a++) {
        const tw_rule_access *x = &b->accesses[a];
        if (!x->is_store && x->buffer != b->store->buffer && !(x->uses >> i & 1) &&
            (x->uses >> v & 1))
            return true;
    }
    return false;
}

/* Whether the outermost axis is one of several whose sizes are not known: the batch, most likely of
 * one. */
static bool has_batch(const tw_rule_block *b)
{
    unsigned open = 0;
    for (unsigned i = 1; i < b->n_iters; i++)
        open += !tw_expr_is_const(b->size[i]);
    return open && !tw_expr_is_const(b->size[0]);
}

static int choose_rows_axis(const tw_rule_block *b, int v, unsigned first)
{
    int found = -1, batch = !first && has_batch(b) ? 0 : (int)first - 1;
    for (int i = (int)b->n_iters - 1; i > batch; i--) {
        if (i == v || b->reduce[i] || b->extent[i] < 2)
            continue;
        if (reuses(b, i, v))
            return i;
        if (found < 0)
            found = i;
    }
    return found < 0 && !first && batch == 0 && v != 0 && reuses(b, 0, v) ? 0 : found;
}

/* Cycles of one reduction step of a tile. A load along r that does not vary with v is a broadcast,
 * one that varies with both cannot be kept. */
static double step_cycles(const tw_rule_block *b, const tile *t, unsigned rows)
{
    double fmas = rows * t->vectors / 2.0, loads = 0;
    for (unsigned a = 0; a < b->n_accesses; a++) {
        const tw_rule_access *x = &b->accesses[a];
        if (x->is_store || x->buffer == b->store->buffer)
            continue;
        double n = 1;
        if (x->uses >> t->v & 1)
            n *= t->vectors;
        if (t->r >= 0 && x->uses >> t->r & 1)
            n *= rows;
        loads += n / 2.0;
    }
    double chain = FMA_LATENCY; /* each accumulator is updated once a step */
    double most = fmas > loads ? fmas : loads;
    return most > chain ? most : chain;
}

/* Whether all operands have data for v up to a multiple of the tile's width. */
static bool can_pad(tw_context *ctx, const tw_rule_block *b, int v, int64_t extent)
{
    if (!tw_expr_is_const(b->size[v]))
        return false;
    for (unsigned a = 0; a < b->n_accesses; a++)
        if (b->accesses[a].buffer != b->store->buffer &&
            !tw_access_reaches(ctx, b, &b->accesses[a], (unsigned)v, extent))
            return false;
    return true;
}

static int64_t padded_extent(const tw_rule_block *b, const tile *t)
{
    int64_t width = (int64_t)t->lanes * t->vectors;
    return (b->extent[t->v] + width - 1) / width * width;
}

/* Cycles that a reduction step takes at least where what is the same for all rows does not stay in
 * the nearest cache from one tile to the next: few rows then wait for the second one. */
static double stream_cycles(const tw_rule *r, const tw_rule_block *b, const tile *t)
{
    double cycles = 0;
    for (unsigned a = 0; a < b->n_accesses; a++) {
        const tw_rule_access *x = &b->accesses[a];
        if (x->is_store || !(x->uses >> t->v & 1) || x->uses >> t->r & 1)
            continue;
        double step = t->vectors * t->lanes * tw_elem_bits(x->buffer->type->elem) / 8.0;
        double panel = step;
        bool strided = false;
        for (unsigned i = 0; i < b->n_iters; i++)
            if (b->reduce[i] && x->uses >> i & 1) {
                panel *= (double)b->extent[i];
                strided |= x->stride[i] > (int64_t)t->vectors * t->lanes;
            }
        if (panel > r->target->l1_bytes * 0.5)
            cycles += step / (strided ? STRIDED_BYTES : L2_BYTES);
    }
    return cycles;
}

static bool is_open(const tw_rule_block *b, const tile *t)
{
    return t->r >= 0 && !tw_expr_is_const(b->size[t->r]);
}

/* Cycles of a tile beside its multiply-adds, for each step of the sum. */
static double start_cycles(const tw_rule_block *b, const tile *t, unsigned rows)
{
    double steps = 1;
    for (unsigned i = 0; i < b->n_iters; i++)
        if (b->reduce[i])
            steps *= (double)b->extent[i];
    return (TILE_CYCLES + rows * t->vectors) / (steps > 1 ? steps : 1);
}

/* Along r, of which there are `extent`: whole tiles, and the rest. */
static double cycles_of_rows(const tw_rule *r, const tw_rule_block *b, const tile *t,
                             int64_t extent)
{
    unsigned left = (unsigned)(extent % t->rows);
    int64_t whole = extent / t->rows;
    double tile = step_cycles(b, t, t->rows) + start_cycles(b, t, t->rows), least = 0;
    if (t->r >= 0 && whole + (left > 0) > 1)
        least = stream_cycles(r, b, t);
    return (double)whole * (tile > least ? tile : least) +
           (left ? step_cycles(b, t, left) + start_cycles(b, t, left) + 1 : 0);
}

/* All rows; of a symbolic extent a row where there are few of them, and many: all count alike. */
static double row_cycles(const tw_rule *r, const tw_rule_block *b, const tile *t)
{
    static const int64_t sizes[] = {1, 2, 3, 4, 6, 8, 13, 16, 29, 50, 100};
    if (!is_open(b, t))
        return cycles_of_rows(r, b, t, t->r < 0 ? 1 : b->extent[t->r]);
    double cycles = 0;
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++)
        cycles += cycles_of_rows(r, b, t, sizes[i]) / (double)sizes[i];
    return cycles;
}

/* Of all tiles. A last column whose lanes must be masked is slow: its accumulators go through
 * memory. */
static double total_cycles(const tw_rule *r, const tw_rule_block *b, const tile *t)
{
    int64_t width = (int64_t)t->lanes * t->vectors;
    int64_t whole_columns = padded_extent(b, t) / width;
    double columns = (double)whole_columns;
    if ((b->extent[t->v] % width && !t->padded) || !tw_expr_is_const(b->size[t->v]))
        columns += MASKED_COST;
    return columns * row_cycles(r, b, t);
}

static void consider(const tw_rule *r, const tw_rule_block *b, tile t, tile *best, double *least)
{
    bool fits = t.rows * t.vectors + t.vectors + 1 <= r->target->vector_registers;
    bool filled = (int64_t)(t.vectors - 1) * t.lanes < b->extent[t.v];
    if (!fits || !filled)
        return;
    t.padded = can_pad(r->ctx, b, t.v, padded_extent(b, &t));
    double cycles = total_cycles(r, b, &t);
    /* Larger tiles, of which there are several forms for the rest of a symbolic axis, must pay. */
    if (cycles < *least * (is_open(b, &t) ? 0.97 : 0.999)) {
        *least = cycles;
        *best = t;
    }
}

tile tw_choose_tile(const tw_rule *r, const tw_rule_block *b, unsigned first)
{
    tile best = {.v = tw_contiguous_iter(b, b->store), .vectors = 1, .rows = 1};
    best.r = choose_rows_axis(b, best.v, first);
    best.lanes = tw_rule_lanes(r, b->store->buffer->type->elem, b->extent[best.v]);
    int64_t rows = best.r < 0 ? 1 : b->extent[best.r];
    if (is_open(b, &best) && rows > MAX_OPEN_ROWS)
        rows = MAX_OPEN_ROWS; /* each number of rows in the rest gets code of its own */
    double least = 1e300;
    /* Inside of loops that run at once, a rest would make it hard to see that these do not meet. */
    bool whole = first && best.r >= 0 && b->extent[best.r] % WHOLE_ROWS == 0;
    tile t = best;
    for (; t.lanes >= 4 || t.lanes == best.lanes; t.lanes /= 2)
        for (t.vectors = 1; t.vectors <= MAX_VECTORS; t.vectors++)
            for (t.rows = 1; t.rows <= MAX_ROWS && t.rows <= rows; t.rows++)
                if (!whole || rows % t.rows == 0)
                    consider(r, b, t, &best, &least);
    return best;
}

/* Bytes that a load touches over the iteration space of the axes it uses. */
static double footprint(const tw_rule_block *b, const tw_rule_access *x)
{
    double bytes = tw_elem_bits(x->buffer->type->elem) / 8.0;
    for (unsigned i = 0; i < b->n_iters; i++)
        if (x->uses >> i & 1)
            bytes *= (double)b->extent[i];
    int64_t count;
    double whole = tw_type_static_count(x->buffer->type, &count)
                       ? (double)count * tw_elem_bits(x->buffer->type->elem) / 8.0
                       : bytes;
    return bytes < whole ? bytes : whole;
}

/* Cost of streaming that many bytes once more, when they stay in a cache between. */
static double stream_cost(const tw_rule *r, double bytes)
{
    if (bytes <= r->target->l1_bytes * 0.5)
        return 0;
    return bytes <= r->target->l2_bytes * 0.7 ? bytes : bytes * 4;
}

/* Whether the loop over column blocks goes outside the one over row blocks. */
static bool columns_outside(const tw_rule *r, const tw_rule_block *b, const tile *t)
{
    if (t->r < 0)
        return true;
    double columns = (double)b->extent[t->v] / (t->lanes * t->vectors);
    double rows = (double)b->extent[t->r] / t->rows, outside = 0, inside = 0;
    for (unsigned a = 0; a < b->n_accesses; a++) {
        const tw_rule_access *x = &b->accesses[a];
        if (x->is_store || x->buffer == b->store->buffer)
            continue;
        double bytes = footprint(b, x);
        bool by_v = x->uses >> t->v & 1, by_r = x->uses >> t->r & 1;
        if (!by_v)
            outside += columns * stream_cost(r, bytes);
        if (!by_r) {
            /* Axes between count too: the whole operand passes once per step of all outer rows. */
            double passes = rows;
            for (unsigned i = 0; i < b->n_spatial; i++)
                if ((int)i != t->v && (int)i != t->r && !(x->uses >> i & 1))
                    passes *= (double)b->extent[i];
            inside += passes * stream_cost(r, bytes);
        }
        if (by_v && by_r) /* neighbours along v lie together in memory */
            outside += bytes;
    }
    return outside <= inside;
}

/* Whether the innermost steps of the sum are to be copies: few (colour channels, window columns),
 * or those that take what they need out of one word. */
static bool unrolls_sum(const tw_rule *r, const tw_rule_block *b, const tile *t, tw_value *loop)
{
    int64_t extent = tw_rule_extent(r, loop);
    uint32_t last = UINT32_C(1) << (b->n_iters - 1), v = UINT32_C(1) << t->v;
    bool reused = false;
    for (unsigned a = 0; a < b->n_accesses; a++) {
        const tw_rule_access *x = &b->accesses[a];
        uint32_t uses = x->is_store || x->buffer == b->store->buffer ? 0 : x->uses;
        uint32_t sums = 0;
        for (unsigned i = 0; i < b->n_iters; i++)
            sums |= b->reduce[i] ? uses & UINT32_C(1) << i : 0;
        reused |= (uses & v) && sums && !(uses & last);
    }
    return extent <= (reused ? PACKED_REDUCTION : SMALL_REDUCTION);
}

/* The loops after splitting. */
typedef struct nest {
    tw_value *outer[TW_RULE_MAX_LOOPS], *reduce[TW_RULE_MAX_LOOPS], *inner[4];
    unsigned n_outer, n_reduce, n_inner;
    unsigned joinable; /* leading outer loops that may be fused */
} nest;

static bool split_axis(tw_rule *r, tw_value *loop, const int64_t *factors, unsigned n,
                       tw_value **out)
{
    return tw_sched_split(r->s, loop, factors, n, out);
}

/* The first loops stay as they are. */
static bool make_nest(tw_rule *r, const tw_rule_block *b, unsigned first, const tile *t,
                      tw_value *block, nest *out)
{
    tw_value *loops[TW_RULE_MAX_LOOPS], *v[3] = {0}, *rows[2] = {0};
    int n = tw_sched_get_loops(r->s, block, loops, TW_RULE_MAX_LOOPS);
    if (n != (int)b->n_iters)
        return n >= 0 && tw_error(r->ctx, b->op->loc, "block '%s' is not in a plain nest", b->name);
    if (t->padded && padded_extent(b, t) != b->extent[t->v] &&
        !tw_sched_pad(r->s, block, loops[t->v], padded_extent(b, t)))
        return false;
    if (!split_axis(r, loops[t->v], (int64_t[]){0, t->vectors, t->lanes}, 3, v))
        return false;
    if (t->r >= 0 && !split_axis(r, loops[t->r], (int64_t[]){0, t->rows}, 2, rows))
        return false;
    bool v_outside = columns_outside(r, b, t);
    for (unsigned i = first; i < b->n_iters; i++)
        if (!b->reduce[i] && (int)i != t->v && (int)i != t->r &&
            !(b->extent[i] > 1 && reuses(b, (int)i, t->v)))
            out->outer[out->n_outer++] = loops[i]; /* batch axes */
    if (v_outside)
        out->outer[out->n_outer++] = v[0];
    for (unsigned i = first; i < b->n_iters; i++)
        if (!b->reduce[i] && (int)i != t->v && (int)i != t->r && b->extent[i] > 1 &&
            reuses(b, (int)i, t->v))
            out->outer[out->n_outer++] = loops[i];
    if (rows[0])
        out->outer[out->n_outer++] = rows[0];
    if (!v_outside)
        out->outer[out->n_outer++] = v[0];
    out->joinable = out->n_outer;
    for (unsigned i = 0; i < b->n_iters; i++)
        if (b->reduce[i])
            out->reduce[out->n_reduce++] = loops[i];
    if (rows[1])
        out->inner[out->n_inner++] = rows[1];
    out->inner[out->n_inner++] = v[1];
    out->inner[out->n_inner++] = v[2];

    tw_value *order[TW_RULE_MAX_LOOPS];
    unsigned total = 0;
    for (unsigned i = 0; i < out->n_outer; i++)
        order[total++] = out->outer[i];
    for (unsigned i = 0; i < out->n_reduce; i++)
        order[total++] = out->reduce[i];
    for (unsigned i = 0; i < out->n_inner; i++)
        order[total++] = out->inner[i];
    return tw_sched_reorder(r->s, order, total);
}

/* What is the same for all rows and comes from beyond the second cache is read by the tile of the
 * first rows, at the rate of that; so it is fetched one tile of columns ahead, while the others
 * compute. */
static bool fetch_ahead(tw_rule *r, const tw_rule_block *b, const tile *t, tw_value *block)
{
    unsigned read = 0;
    int64_t width = (int64_t)t->vectors * t->lanes;
    bool known = t->r >= 0 && tw_expr_is_const(b->size[t->r]);
    for (unsigned a = 0; known && a < b->n_accesses; a++) {
        const tw_rule_access *x = &b->accesses[a];
        if (x->is_store || x->buffer == b->store->buffer)
            continue;
        int64_t along = 0, tiles = b->extent[t->r] / t->rows;
        for (unsigned i = 0; i < b->n_iters; i++)
            if (b->reduce[i] && x->stride[i] > along)
                along = x->stride[i];
        bool same = x->stride[t->v] == 1 && !(x->uses >> t->r & 1);
        bool lines = along * tw_elem_bits(x->buffer->type->elem) % LINE_BITS == 0;
        if (same && lines && along > width && tiles >= LEAST_AHEAD && tiles <= MOST_AHEAD &&
            footprint(b, x) > 2.0 * r->target->l2_bytes && columns_outside(r, b, t))
            return tw_sched_annotate(r->s, block, "fetch_ahead",
                                     tw_attr_ints(r->ctx, (int64_t[]){read, width}, 2));
        read++;
    }
    return true;
}

/* `after`: the block that takes the results tile by tile, or NULL. */
static bool tile_block(tw_rule *r, const tw_rule_block *main, const tw_rule_block *after,
                       unsigned first, nest *n)
{
    tile t = tw_choose_tile(r, main, first);
    tw_value *block = tw_sched_get_block(r->s, main->name), *epilogue;
    if (after) {
        epilogue = tw_sched_get_block(r->s, after->name);
        if (!epilogue || !tw_sched_set_scope(r->s, block, 0, "local"))
            return false;
    } else {
        epilogue = tw_sched_cache_write(r->s, block, 0, "local");
    }
    if (!block || !epilogue || !make_nest(r, main, first, &t, block, n))
        return false;
    tw_value *tile_loop = n->outer[n->n_outer - 1];
    if (!tw_sched_reverse_compute_at(r->s, epilogue, tile_loop))
        return false;
    tw_value *init = tw_sched_decompose_reduction(r->s, block, n->reduce[0]);
    if (!init)
        return false;
    unsigned depth = first + n->n_outer;
    bool fine = tw_rule_vectorize_inner(r, init, depth, t.lanes, true) &&
                tw_rule_vectorize_inner(r, epilogue, depth, t.lanes, true) &&
                (t.lanes < 2 || tw_sched_vectorize(r->s, n->inner[n->n_inner - 1]));
    for (unsigned i = 0; fine && i + (t.lanes > 1) < n->n_inner; i++)
        fine = tw_sched_unroll(r->s, n->inner[i]);
    if (fine && unrolls_sum(r, main, &t, n->reduce[n->n_reduce - 1]))
        fine = tw_sched_unroll(r->s, n->reduce[n->n_reduce - 1]);
    return fine && fetch_ahead(r, main, &t, block);
}

bool tw_rule_tile_inner(tw_rule *r, const tw_rule_block *main, const tw_rule_block *after,
                        unsigned first)
{
    nest n = {.n_outer = 0};
    return tile_block(r, main, after, first, &n);
}

bool tw_rule_tiles(tw_rule *r)
{
    const tw_rule_block *main = tw_only_reduction(r->k), *after;
    tw_find_epilogue(r->k, main, &after);
    nest n = {.n_outer = 0};
    if (!tile_block(r, main, after, 0, &n))
        return false;
    unsigned outer = n.n_outer;
    return tw_rule_parallelize(r, n.outer, &outer, n.joinable, main->work);
}
