/* blocks.c: the rule for large matrix products: blocks that stay in the caches, around the register
 * tiles of tiles.c.
 *
 * sum over k of x[i, k] * y[k, j], where x and y may have further axes that they share:
 *
 *     for ic, jc {                                  parallel: blocks of the result
 *       c[block] = 0
 *       for ko {                                    pieces of the sum
 *         xc = x[rows of ic, piece ko]              stays in the second cache
 *         for jr {
 *           yc = y[piece ko, columns of the tile]   stays in the nearest cache
 *           for ir {
 *             tile = 0
 *             for ki: tile += xc * yc
 *             c[tile] += tile
 *       } } }
 *       epilogue(c[block])
 *     }
 *
 * Copies are made where their rows lie far apart in memory, so that a tile's would meet in the
 * cache, and where enough tiles read them. A short sum stays whole: then the epilogue takes the
 * registers' results. */
#include "schedule/rules/rule.h"

typedef struct product {
    const tw_rule_block *main, *after;
    const tw_rule_access *x, *y; /* the operand of the rows, that of the columns */
    unsigned x_read, y_read;     /* their numbers among the buffers that the block reads */
    int k;
    tw_rule_tile tile;
} product;

typedef struct blocking {
    int64_t rows, columns; /* of a block */
    int64_t pieces, depth; /* of the sum, and steps of one */
    bool copy_x, copy_y;
} blocking;

/* ---- What is multiplied ---- */

static bool find_operands(product *p)
{
    const tw_rule_block *b = p->main;
    const tw_value *seen = NULL;
    unsigned n = 0;
    for (unsigned a = 0; a < b->n_accesses; a++) {
        const tw_rule_access *x = &b->accesses[a];
        if (x->is_store || x->buffer == b->store->buffer)
            continue;
        bool by_r = x->uses >> p->tile.r & 1, by_v = x->uses >> p->tile.v & 1;
        if (x->buffer == seen || x->masked || x->indirect || by_r == by_v ||
            !(x->uses >> p->k & 1) || n == 2)
            return false;
        *(by_r ? &p->x : &p->y) = x;
        *(by_r ? &p->x_read : &p->y_read) = n++;
        seen = x->buffer;
    }
    return p->x && p->y;
}

static bool find_product(const tw_rule *r, product *p)
{
    *p = (product){.main = tw_only_reduction(r->k), .k = -1};
    const tw_rule_block *b = p->main;
    for (unsigned i = 0; i < b->n_iters; i++) {
        if (!tw_expr_is_const(b->size[i]))
            return false;
        if (!b->reduce[i])
            continue;
        if (p->k >= 0)
            return false;
        p->k = (int)i;
    }
    tw_find_epilogue(r->k, b, &p->after);
    p->tile = tw_choose_tile(r, b, 0);
    return p->k >= 0 && p->tile.r >= 0 && find_operands(p);
}

/* ---- Sizes ---- */

enum {
    LEAST_DEPTH = 128,
    LEAST_TILES = 4,
    ENOUGH_BLOCKS = 16,
    MAX_BLOCKS = 64,
    COPIED = 4,
    FAR = 4
};

static int64_t element_bytes(const tw_rule_access *x)
{
    return (tw_elem_bits(x->buffer->type->elem) + 7) / 8;
}

/* The sum in the fewest equal pieces of at most `most` steps; whole when there are none. */
static void choose_pieces(int64_t steps, int64_t most, blocking *out)
{
    out->pieces = 1;
    out->depth = steps;
    for (int64_t n = (steps + most - 1) / most; n > 1 && steps / n >= LEAST_DEPTH; n++)
        if (steps % n == 0) {
            out->pieces = n;
            out->depth = steps / n;
            return;
        }
}

/* Cycles of one step of the sum, over all results cut into so many blocks: what threads wait
 * for when there are few, and what is copied, a vector in four cycles. */
static double block_cycles(const product *p, const blocking *size, int64_t by_m, int64_t by_n,
                           int64_t batch, bool fits)
{
    double m = (double)p->main->extent[p->tile.r], n = (double)p->main->extent[p->tile.v];
    double work = m * n / (2.0 * p->tile.lanes);
    double copied = (double)by_n * m * size->copy_x + (double)by_m * n * size->copy_y;
    double blocks = (double)(batch * by_m * by_n);
    return copied / COPIED + work / (2 * blocks) + (fits ? 0 : work * 0.1) + 0.01 * blocks;
}

/* Blocks of rows and columns, of as many whole tiles as the last one allows. */
static void choose_blocks(const tw_rule *r, const product *p, blocking *out)
{
    const tw_rule_block *b = p->main;
    int64_t m = b->extent[p->tile.r], n = b->extent[p->tile.v], batch = 1;
    int64_t height = p->tile.rows, width = (int64_t)p->tile.vectors * p->tile.lanes;
    for (unsigned i = 0; i < b->n_spatial; i++)
        batch *= (int)i == p->tile.r || (int)i == p->tile.v ? 1 : b->extent[i];
    double least = 1e300;
    for (int64_t by_m = 1; by_m <= MAX_BLOCKS; by_m++)
        for (int64_t by_n = 1; by_n <= MAX_BLOCKS; by_n++) {
            int64_t rows = ((m + by_m - 1) / by_m + height - 1) / height * height;
            int64_t columns = ((n + by_n - 1) / by_n + width - 1) / width * width;
            /* A last tile of few columns is taken apart where it is the last of all blocks'. */
            bool whole = n % width ? by_n == 1 : columns * (by_n - 1) < n;
            if (!whole || (by_m > 1 && rows * (by_m - 1) >= m))
                continue;
            bool fits = !out->copy_x || rows * out->depth * element_bytes(p->x) <=
                                            (int64_t)r->target->l2_bytes * 11 / 20;
            double cycles = block_cycles(p, out, by_m, by_n, batch, fits);
            if (cycles < least) {
                least = cycles;
                out->rows = rows;
                out->columns = columns;
            }
        }
}

static bool choose_blocking(const tw_rule *r, product *p, blocking *out)
{
    const tw_rule_block *b = p->main;
    int64_t m = b->extent[p->tile.r], n = b->extent[p->tile.v], steps = b->extent[p->k];
    int64_t width = (int64_t)p->tile.vectors * p->tile.lanes, tiles = m / p->tile.rows;
    bool large = m * steps * element_bytes(p->x) > FAR * (int64_t)r->target->l2_bytes;
    if (tiles < LEAST_TILES || !large)
        return false;
    choose_pieces(steps, r->target->l1_bytes * 14 / 5 / (width * element_bytes(p->y)), out);
    out->copy_y = p->y->stride[p->k] > width;
    out->copy_x = p->x->stride[p->k] > 1 && n / width >= LEAST_TILES;
    choose_blocks(r, p, out);
    return true;
}

bool tw_rule_fits_blocks(const tw_rule *r)
{
    product p;
    blocking size;
    return tw_rule_fits_tiles(r) && find_product(r, &p) && choose_blocking(r, &p, &size);
}

/* ---- The schedule ---- */

/* Loops around the block that makes the results, or adds to them. */
typedef struct nest {
    tw_value *outer[TW_RULE_MAX_LOOPS]; /* batches, blocks of rows, blocks of columns */
    unsigned n_outer;
    tw_value *sum;                                          /* pieces of it, or all its steps */
    tw_value *block_rows, *block_columns;                   /* of one block */
    tw_value *columns, *rows, *tile_rows, *vectors, *lanes; /* the same, cut into tiles */
} nest;

static tw_value *block_loop(const nest *n)
{
    return n->outer[n->n_outer - 1];
}

/* Cuts the results into blocks, which run parallel. */
static bool make_blocks(tw_rule *r, const product *p, const blocking *size, tw_value *block,
                        nest *n)
{
    tw_value *loops[TW_RULE_MAX_LOOPS], *rows[2], *columns[2], *order[TW_RULE_MAX_LOOPS];
    const tw_rule_tile *t = &p->tile;
    if (tw_sched_get_loops(r->s, block, loops, TW_RULE_MAX_LOOPS) != (int)p->main->n_iters ||
        !tw_sched_split(r->s, loops[t->r], (int64_t[]){0, size->rows}, 2, rows) ||
        !tw_sched_split(r->s, loops[t->v], (int64_t[]){0, size->columns}, 2, columns))
        return false;
    for (int i = 0; i < (int)p->main->n_iters; i++)
        if (i != t->r && i != t->v && i != p->k)
            n->outer[n->n_outer++] = loops[i];
    n->outer[n->n_outer++] = rows[0];
    n->outer[n->n_outer++] = columns[0];
    n->sum = loops[p->k];
    n->block_rows = rows[1];
    n->block_columns = columns[1];
    unsigned count = n->n_outer;
    for (unsigned i = 0; i < count; i++)
        order[i] = n->outer[i];
    if (size->pieces > 1)
        order[count++] = n->sum;
    order[count++] = n->block_rows;
    order[count++] = n->block_columns;
    if (size->pieces <= 1)
        order[count++] = n->sum;
    return tw_sched_reorder(r->s, order, count) &&
           tw_rule_parallelize(r, n->outer, &n->n_outer, n->n_outer, p->main->work);
}

/* Cuts a block into tiles. That blocks do not meet has been seen before: rows of a last tile that
 * are masked could be those of the next block. */
static bool make_tiles(tw_rule *r, const product *p, nest *n)
{
    tw_value *rows[2], *columns[3];
    const tw_rule_tile *t = &p->tile;
    if (!tw_sched_split(r->s, n->block_rows, (int64_t[]){0, t->rows}, 2, rows) ||
        !tw_sched_split(r->s, n->block_columns, (int64_t[]){0, t->vectors, t->lanes}, 3, columns))
        return false;
    n->columns = columns[0];
    n->rows = rows[0];
    n->tile_rows = rows[1];
    n->vectors = columns[1];
    n->lanes = columns[2];
    tw_value *order[] = {n->columns, n->rows, n->tile_rows, n->vectors, n->lanes};
    return tw_sched_reorder(r->s, order, 5) &&
           tw_sched_annotate(r->s, n->rows, "partition", tw_attr_bool(r->ctx, true));
}

/* The last loop of a block in vectors. */
static bool vectorize_copy(tw_rule *r, tw_value *copy, tw_elem elem)
{
    tw_value *loops[TW_RULE_MAX_LOOPS];
    int depth = tw_sched_get_loops(r->s, copy, loops, TW_RULE_MAX_LOOPS);
    if (depth < 1)
        return false;
    unsigned lanes = tw_rule_lanes(r, elem, tw_rule_extent(r, loops[depth - 1]));
    return tw_rule_vectorize_inner(r, copy, (unsigned)depth - 1, lanes, false);
}

static bool make_copies(tw_rule *r, const product *p, const blocking *size, tw_value *block,
                        const nest *n)
{
    const struct copy {
        bool wanted;
        const tw_rule_access *of;
        unsigned read;
        tw_value *place;
    } copies[] = {{size->copy_x, p->x, p->x_read, size->pieces > 1 ? n->sum : block_loop(n)},
                  {size->copy_y, p->y, p->y_read, n->columns}};
    for (unsigned i = 0; i < 2; i++) {
        if (!copies[i].wanted)
            continue;
        tw_value *copy = tw_sched_cache_read(r->s, block, copies[i].read, "local");
        if (!copy || !tw_sched_compute_at(r->s, copy, copies[i].place) ||
            !vectorize_copy(r, copy, copies[i].of->buffer->type->elem))
            return false;
    }
    return true;
}

/* A tile: its loops go inside of that of the sum, the lanes to vectors, all else unrolled. The init
 * becomes a block in front. */
static bool finish_tile(tw_rule *r, tw_value *block, unsigned depth, unsigned lanes, tw_value *sum,
                        tw_value *rows, tw_value *vectors, tw_value *lane)
{
    tw_value *init = tw_sched_decompose_reduction(r->s, block, rows);
    return init && tw_sched_reorder(r->s, (tw_value *[]){sum, rows, vectors, lane}, 4) &&
           tw_sched_vectorize(r->s, lane) && tw_sched_unroll(r->s, vectors) &&
           tw_sched_unroll(r->s, rows) && tw_rule_vectorize_inner(r, init, depth, lanes, true);
}

/* The whole sum in a tile. */
static bool schedule_whole(tw_rule *r, const product *p, const blocking *size)
{
    nest n = {.n_outer = 0};
    unsigned lanes = p->tile.lanes;
    tw_value *block = tw_sched_get_block(r->s, p->main->name), *epilogue;
    if (p->after) {
        epilogue = tw_sched_get_block(r->s, p->after->name);
        if (!tw_sched_set_scope(r->s, block, 0, "local"))
            return false;
    } else {
        epilogue = tw_sched_cache_write(r->s, block, 0, "local");
    }
    if (!epilogue || !make_blocks(r, p, size, block, &n) || !make_tiles(r, p, &n) ||
        !make_copies(r, p, size, block, &n) || !tw_sched_reverse_compute_at(r->s, epilogue, n.rows))
        return false;
    unsigned depth = n.n_outer + 2;
    return tw_rule_vectorize_inner(r, epilogue, depth, lanes, true) &&
           finish_tile(r, block, depth, lanes, n.sum, n.tile_rows, n.vectors, n.lanes);
}

/* Makes partial sums of the block's pieces; the block that adds them up. */
static tw_value *cut_sum(tw_rule *r, const product *p, const blocking *size, tw_value *block)
{
    tw_value *loops[TW_RULE_MAX_LOOPS], *k[2], *order[TW_RULE_MAX_LOOPS];
    if (tw_sched_get_loops(r->s, block, loops, TW_RULE_MAX_LOOPS) != (int)p->main->n_iters ||
        !tw_sched_split(r->s, loops[p->k], (int64_t[]){0, size->depth}, 2, k))
        return NULL;
    unsigned count = 0;
    order[count++] = k[0];
    order[count++] = k[1];
    for (int i = 0; i < (int)p->main->n_iters; i++)
        if (i != p->k)
            order[count++] = loops[i];
    return tw_sched_reorder(r->s, order, count) ? tw_sched_rfactor(r->s, block, k[0], 0) : NULL;
}

/* A tile of partial sums where it is added to the results. */
static bool tile_piece(tw_rule *r, const product *p, const blocking *size, tw_value *block,
                       const nest *n)
{
    tw_value *loops[TW_RULE_MAX_LOOPS], *columns[2];
    unsigned depth = n->n_outer + 3, lanes = p->tile.lanes;
    return tw_sched_compute_at(r->s, block, n->rows) &&
           tw_sched_set_scope(r->s, block, 0, "local") && make_copies(r, p, size, block, n) &&
           tw_sched_get_loops(r->s, block, loops, TW_RULE_MAX_LOOPS) == (int)depth + 3 &&
           tw_sched_split(r->s, loops[depth + 1], (int64_t[]){0, lanes}, 2, columns) &&
           finish_tile(r, block, depth, lanes, loops[depth + 2], loops[depth], columns[0],
                       columns[1]);
}

/* The sum in pieces. */
static bool schedule_pieces(tw_rule *r, const product *p, const blocking *size)
{
    nest n = {.n_outer = 0};
    unsigned lanes = p->tile.lanes;
    tw_value *block = tw_sched_get_block(r->s, p->main->name);
    tw_value *total = block ? cut_sum(r, p, size, block) : NULL;
    if (!total || !make_blocks(r, p, size, total, &n))
        return false;
    tw_value *init = tw_sched_decompose_reduction(r->s, total, n.sum);
    if (!init || !tw_rule_vectorize_inner(r, init, n.n_outer + 1, lanes, false) ||
        !make_tiles(r, p, &n) || !tile_piece(r, p, size, block, &n) ||
        !tw_sched_vectorize(r->s, n.lanes) || !tw_sched_unroll(r->s, n.vectors) ||
        !tw_sched_unroll(r->s, n.tile_rows))
        return false;
    if (!p->after)
        return true;
    tw_value *epilogue = tw_sched_get_block(r->s, p->after->name);
    return epilogue && tw_sched_set_scope(r->s, total, 0, "local") &&
           tw_sched_reverse_compute_at(r->s, epilogue, block_loop(&n)) &&
           tw_rule_vectorize_inner(r, epilogue, n.n_outer, lanes, false);
}

bool tw_rule_blocks(tw_rule *r)
{
    product p;
    blocking size;
    return find_product(r, &p) && choose_blocking(r, &p, &size) &&
           (size.pieces > 1 ? schedule_pieces : schedule_whole)(r, &p, &size);
}
