/* Tests of schedule primitives against the interpreter: on kernels of several kinds, seeded random
 * sequences of primitives must leave the results as they were, bit by bit. */
#include "interp/interp.h"
#include "schedule/schedule.h"
#include "schedule/schedule_impl.h"
#include "tilewright/compiler.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "schedule_kernels.h"

/* ---- Running ------------------------------------------------------------------------- */

static uint64_t seed;
static unsigned random_below(unsigned n)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return (unsigned)((seed * 0x2545f4914f6cdd1dull >> 33) % n);
}

static tw_context *new_context(void)
{
    tw_context *ctx = tw_context_create(0);
    assert_true(tw_register_all(ctx));
    return ctx;
}

static void print_diagnostics(tw_context *ctx)
{
    for (const tw_diagnostic *d = tw_diagnostics(ctx); d; d = d->next)
        fprintf(stderr, "%s\n", tw_diagnostic_text(ctx, d));
}

static tw_op *parse_kernel(tw_context *ctx, const char *text)
{
    tw_op *module = tw_parse(ctx, text, strlen(text), "kernel");
    if (!module || !tw_verify(ctx, module))
        print_diagnostics(ctx);
    assert_non_null(module);
    return tw_is_loop(module, TW_LOOP_KERNEL) ? module : module->regions[0].first;
}

enum { MAX_BUFFERS = 8 };
typedef struct memory {
    tw_interp_buffer buffers[MAX_BUFFERS];
    unsigned n, n_inputs;
} memory;

/* Arguments with small whole numbers, so that sums are exact in any order; outputs with 99. */
static memory make_memory(const tw_op *kernel)
{
    memory m = {.n = kernel->regions[0].n_args};
    m.n_inputs = m.n - (unsigned)tw_op_int(kernel, "outputs", 0);
    uint64_t numbers = 1234567;
    for (unsigned i = 0; i < m.n; i++) {
        tw_type type = kernel->regions[0].args[i]->type;
        int64_t count;
        assert_true(tw_type_static_count(type, &count));
        m.buffers[i].size = (size_t)count * tw_elem_bits(type->elem) / 8;
        m.buffers[i].data = malloc(m.buffers[i].size);
        for (int64_t k = 0; k < count; k++) {
            numbers = numbers * 6364136223846793005u + 1442695040888963407u;
            int value = i < m.n_inputs ? (int)(numbers >> 60) - 8 : 99;
            if (type->elem == TW_F32)
                ((float *)m.buffers[i].data)[k] = (float)value;
            else
                ((int64_t *)m.buffers[i].data)[k] = (int64_t)(numbers >> 61);
        }
    }
    return m;
}

static void free_memory(memory *m)
{
    for (unsigned i = 0; i < m->n; i++)
        free(m->buffers[i].data);
}

static bool run_kernel(tw_context *ctx, tw_op *kernel, memory *m, bool reverse)
{
    *m = make_memory(kernel);
    tw_interp_options options = {.max_steps = 200000000, .reverse_parallel = reverse};
    return tw_interp_run(ctx, kernel, m->buffers, m->n, &options);
}

/* Whether the kernel still verifies, runs without complaint and gives what is wanted. */
static bool gives(tw_context *ctx, tw_op *kernel, const memory *want)
{
    memory m = {.n = 0};
    bool good = tw_verify(ctx, kernel) && run_kernel(ctx, kernel, &m, random_below(2));
    for (unsigned i = want->n_inputs; good && i < want->n; i++)
        good = !memcmp(m.buffers[i].data, want->buffers[i].data, want->buffers[i].size);
    free_memory(&m);
    return good;
}

/* ---- Random steps -------------------------------------------------------------------- */

enum { MAX_REFS = 64 };
typedef struct state {
    tw_context *ctx;
    tw_schedule *s;
    tw_value *blocks[MAX_REFS];
    unsigned n_blocks;
    unsigned done[TW_SCHED_COUNT];
} state;

static void add_block(state *st, tw_value *block)
{
    if (block && st->n_blocks < MAX_REFS)
        st->blocks[st->n_blocks++] = block;
}

static void note_block(tw_op *block, void *data)
{
    state *st = data;
    add_block(st, tw_sched_get_block(st->s, tw_block_name(block)));
}

/* A block that is there; NULL when none is left. */
static tw_value *random_block(state *st)
{
    for (int i = 0; i < 20; i++) {
        tw_value *b = st->blocks[random_below(st->n_blocks)];
        if (tw_schedule_op(st->s, b))
            return b;
    }
    return NULL;
}

static int loops_of(state *st, tw_value *block, tw_value **loops)
{
    return tw_sched_get_loops(st->s, block, loops, 16);
}

static bool random_split(state *st, tw_value *loop)
{
    int64_t factors[3];
    unsigned n = 2 + random_below(2), inferred = random_below(n);
    tw_value *out[3];
    for (unsigned i = 0; i < n; i++)
        factors[i] = i == inferred ? 0 : 1 + random_below(5);
    return tw_sched_split(st->s, loop, factors, n, out);
}

static bool random_reorder(state *st, tw_value **loops, int n)
{
    tw_value *some[16];
    unsigned count = 0;
    for (int i = 0; i < n; i++)
        if (random_below(3))
            some[count++] = loops[i];
    for (unsigned i = count; i > 1; i--) {
        unsigned k = random_below(i);
        tw_value *swap = some[i - 1];
        some[i - 1] = some[k];
        some[k] = swap;
    }
    return count > 1 && tw_sched_reorder(st->s, some, count);
}

static const char *const thread_axes[] = {"blockIdx.x",  "blockIdx.y",  "blockIdx.z", "threadIdx.x",
                                          "threadIdx.y", "threadIdx.z", "vthread"};

static bool random_tile(state *st, tw_value **loops, int n)
{
    int64_t factors[2] = {1 + random_below(5), 1 + random_below(5)};
    tw_value *out[4];
    unsigned at = random_below((unsigned)n), count = at + 1 < (unsigned)n ? 1 + random_below(2) : 1;
    return tw_sched_tile(st->s, &loops[at], factors, count, out);
}

static bool random_pipeline(state *st, tw_value *loop)
{
    int64_t stages[8], order[8], stage = 0;
    unsigned n = 0;
    for (const tw_op *op = tw_schedule_op(st->s, loop)->regions[0].first; op; op = op->next)
        n += !tw_is_loop(op, TW_LOOP_ALLOC);
    if (n > 8)
        return false;
    for (unsigned i = 0; i < n; i++) {
        stages[i] = stage += i ? random_below(2) : 0;
        order[i] = random_below(2) ? i : n - 1 - i;
    }
    return tw_sched_software_pipeline(st->s, loop, stages, random_below(2) ? order : NULL, n);
}

static void note_new_block(tw_op *block, void *data)
{
    state *st = data;
    for (unsigned i = 0; i < st->n_blocks; i++)
        if (tw_schedule_op(st->s, st->blocks[i]) == block)
            return;
    note_block(block, data);
}

static bool random_partition(state *st, tw_value *loop)
{
    tw_value *out[3];
    if (tw_sched_loop_partition(st->s, loop, out) < 0)
        return false;
    tw_each_block(tw_schedule_kernel(st->s), note_new_block, st);
    return true;
}

/* Maps over `rank` axes that tell all elements apart: axes in another order, one of them cut. */
static tw_attr random_layout(state *st, unsigned rank)
{
    tw_expr exprs[9];
    unsigned order[8], n = 0, cut = random_below(rank + 1);
    tw_expr size = tw_expr_const(st->ctx, 1 + random_below(4));
    for (unsigned i = 0; i < rank; i++)
        order[i] = i;
    for (unsigned i = rank; i > 1; i--) {
        unsigned k = random_below(i), swap = order[i - 1];
        order[i - 1] = order[k];
        order[k] = swap;
    }
    for (unsigned i = 0; i < rank; i++) {
        tw_expr d = tw_expr_dim(st->ctx, order[i]);
        exprs[n++] = order[i] == cut ? tw_expr_binary(st->ctx, TW_EXPR_FLOORDIV, d, size) : d;
    }
    if (cut < rank)
        exprs[n++] = tw_expr_binary(st->ctx, TW_EXPR_MOD, tw_expr_dim(st->ctx, cut), size);
    return tw_attr_map(st->ctx, rank, exprs, n);
}

/* New variables: the old ones in another order, the first of them cut when it divides. */
static bool random_block_layout(state *st, tw_value *block)
{
    tw_attr old = tw_op_attr(tw_schedule_op(st->s, block), "extents");
    unsigned n = (unsigned)old->u.map.n, cut = random_below(4);
    if (n < 1 || n > 6)
        return false;
    int64_t extents[8];
    tw_expr exprs[8];
    tw_value *out[8];
    for (unsigned i = 0; i < n; i++) {
        unsigned to = (i + cut) % n;
        extents[to] = old->u.map.exprs[i]->value;
        exprs[i] = tw_expr_dim(st->ctx, to);
    }
    unsigned total = n;
    if (cut > 1 && extents[0] % cut == 0) {
        for (unsigned i = 0; i < n; i++)
            if (exprs[i] == tw_expr_dim(st->ctx, 0))
                exprs[i] = tw_expr_add(st->ctx,
                                       tw_expr_mulc(st->ctx, tw_expr_dim(st->ctx, 0), (int64_t)cut),
                                       tw_expr_dim(st->ctx, n));
        extents[0] /= cut;
        extents[total++] = cut;
    }
    return tw_sched_transform_block_layout(st->s, block, tw_attr_map(st->ctx, total, exprs, n),
                                           extents, total, out);
}

static bool random_buffer_layout(state *st, tw_value *block)
{
    tw_block_info b;
    const char *why;
    if (!tw_block_analyse(st->ctx, tw_schedule_op(st->s, block), &b, &why))
        return false;
    tw_value *buffer = tw_block_written(&b, 0);
    return buffer && buffer->type->rank < 6 &&
           tw_sched_transform_layout(st->s, block, 0, random_layout(st, buffer->type->rank));
}

/* Loop-wise steps on a loop of the block. */
static bool random_loop_step(state *st, tw_sched_kind kind, tw_value *block)
{
    tw_value *loops[16];
    int n = loops_of(st, block, loops);
    if (n < 1)
        return false;
    unsigned at = random_below((unsigned)n);
    switch (kind) {
    case TW_SCHED_SPLIT:
        return n < 8 && random_split(st, loops[at]);
    case TW_SCHED_PAD:
        return tw_sched_pad(st->s, block, loops[at], 2 + (int64_t)random_below(12));
    case TW_SCHED_FUSE:
        return n - (int)at >= 2 &&
               tw_sched_fuse(st->s, &loops[at], 2 + random_below((unsigned)(n - (int)at) - 1));
    case TW_SCHED_REORDER:
        return random_reorder(st, loops, n);
    case TW_SCHED_PARALLEL:
        return tw_sched_parallel(st->s, loops[at], NULL);
    case TW_SCHED_VECTORIZE:
        return tw_sched_vectorize(st->s, loops[at]);
    case TW_SCHED_UNROLL:
        return tw_sched_unroll(st->s, loops[at]);
    case TW_SCHED_TILE:
        return n < 8 && random_tile(st, loops, n);
    case TW_SCHED_BIND:
        return tw_sched_bind(st->s, loops[at], thread_axes[random_below(7)]);
    case TW_SCHED_PRAGMA:
        return tw_sched_pragma(st->s, loops[at], "auto_unroll_max_step",
                               tw_attr_int(st->ctx, (int64_t)random_below(64)));
    case TW_SCHED_LOOP_PARTITION:
        return random_partition(st, loops[at]);
    case TW_SCHED_SOFTWARE_PIPELINE:
        return random_pipeline(st, loops[at]);
    case TW_SCHED_BLOCKIZE:
        if (random_below(3)) /* what is in one block no other step can change */
            return false;
        add_block(st, tw_sched_blockize(st->s, loops[at]));
        return !tw_schedule_op(st->s, block);
    case TW_SCHED_DOUBLE_BUFFER:
        return tw_sched_double_buffer(st->s, block, loops[at]);
    case TW_SCHED_SAMPLE_PERFECT_TILE: {
        tw_value *sizes[2], *out[2];
        return n < 8 && tw_sched_sample_perfect_tile(st->s, loops[at], 2, 8, sizes) &&
               tw_sched_split_sampled(st->s, loops[at], sizes, 2, out);
    }
    default:
        return false;
    }
}

static bool random_move(state *st, tw_sched_kind kind, tw_value *block)
{
    tw_value *other = random_block(st), *loops[16];
    if (!other || other == block)
        return false;
    int n = loops_of(st, other, loops);
    if (n < 1)
        return false;
    tw_value *loop = loops[random_below((unsigned)n)];
    return kind == TW_SCHED_COMPUTE_AT ? tw_sched_compute_at(st->s, block, loop)
                                       : tw_sched_reverse_compute_at(st->s, block, loop);
}

static bool random_block_step(state *st, tw_sched_kind kind, tw_value *block)
{
    tw_value *loops[16], *made = NULL;
    int n;
    switch (kind) {
    case TW_SCHED_COMPUTE_INLINE:
        return tw_sched_compute_inline(st->s, block);
    case TW_SCHED_REVERSE_COMPUTE_INLINE:
        return tw_sched_reverse_compute_inline(st->s, block);
    case TW_SCHED_CACHE_READ:
        made = tw_sched_cache_read(st->s, block, random_below(2), random_below(2) ? "local" : "");
        break;
    case TW_SCHED_CACHE_WRITE:
        made = tw_sched_cache_write(st->s, block, 0, "local");
        break;
    case TW_SCHED_SET_SCOPE:
        return tw_sched_set_scope(st->s, block, 0, "local");
    case TW_SCHED_PAD_EINSUM: {
        int64_t padding[8];
        unsigned n = (unsigned)tw_op_attr(tw_schedule_op(st->s, block), "extents")->u.map.n;
        for (unsigned i = 0; i < n && i < 8; i++)
            padding[i] = 1 + random_below(6);
        bool good = n <= 8 && tw_sched_pad_einsum(st->s, block, padding, n);
        if (good)
            tw_each_block(tw_schedule_kernel(st->s), note_new_block, st);
        return good;
    }
    case TW_SCHED_STORAGE_ALIGN:
        return tw_sched_storage_align(st->s, block, 0, random_below(2), 1 + random_below(8),
                                      random_below(3));
    case TW_SCHED_TRANSFORM_LAYOUT:
        return random_buffer_layout(st, block);
    case TW_SCHED_TRANSFORM_BLOCK_LAYOUT:
        return random_block_layout(st, block);
    case TW_SCHED_SAMPLE_CATEGORICAL:
        return tw_sched_sample_categorical(st->s, (int64_t[]){1, 2, 5}, (double[]){0, 1, 2.5}, 3) !=
               NULL;
    case TW_SCHED_SAMPLE_COMPUTE_LOCATION: {
        tw_value *loop = tw_sched_sample_compute_location(st->s, block);
        return loop && tw_sched_compute_at(st->s, block, loop);
    }
    case TW_SCHED_ANNOTATE:
        return tw_sched_annotate(st->s, block, "hint", tw_attr_int(st->ctx, 1));
    default:
        n = loops_of(st, block, loops);
        if (n < 1)
            return false;
        made = kind == TW_SCHED_RFACTOR
                   ? tw_sched_rfactor(st->s, block, loops[random_below((unsigned)n)],
                                      (int)random_below(4) - 2)
                   : tw_sched_decompose_reduction(st->s, block, loops[random_below((unsigned)n)]);
    }
    add_block(st, made);
    return made != NULL;
}

static bool random_step(state *st, tw_sched_kind *kind)
{
    static const tw_sched_kind kinds[] = {TW_SCHED_SPLIT,
                                          TW_SCHED_SPLIT,
                                          TW_SCHED_SPLIT,
                                          TW_SCHED_PAD,
                                          TW_SCHED_FUSE,
                                          TW_SCHED_REORDER,
                                          TW_SCHED_REORDER,
                                          TW_SCHED_REORDER,
                                          TW_SCHED_PARALLEL,
                                          TW_SCHED_VECTORIZE,
                                          TW_SCHED_UNROLL,
                                          TW_SCHED_COMPUTE_AT,
                                          TW_SCHED_COMPUTE_AT,
                                          TW_SCHED_COMPUTE_AT,
                                          TW_SCHED_REVERSE_COMPUTE_AT,
                                          TW_SCHED_REVERSE_COMPUTE_AT,
                                          TW_SCHED_REVERSE_COMPUTE_AT,
                                          TW_SCHED_COMPUTE_INLINE,
                                          TW_SCHED_REVERSE_COMPUTE_INLINE,
                                          TW_SCHED_CACHE_READ,
                                          TW_SCHED_CACHE_WRITE,
                                          TW_SCHED_SET_SCOPE,
                                          TW_SCHED_DECOMPOSE_REDUCTION,
                                          TW_SCHED_RFACTOR,
                                          TW_SCHED_TILE,
                                          TW_SCHED_BIND,
                                          TW_SCHED_PRAGMA,
                                          TW_SCHED_LOOP_PARTITION,
                                          TW_SCHED_LOOP_PARTITION,
                                          TW_SCHED_STORAGE_ALIGN,
                                          TW_SCHED_TRANSFORM_LAYOUT,
                                          TW_SCHED_TRANSFORM_BLOCK_LAYOUT,
                                          TW_SCHED_PAD_EINSUM,
                                          TW_SCHED_BLOCKIZE,
                                          TW_SCHED_SOFTWARE_PIPELINE,
                                          TW_SCHED_DOUBLE_BUFFER,
                                          TW_SCHED_DOUBLE_BUFFER,
                                          TW_SCHED_DOUBLE_BUFFER,
                                          TW_SCHED_SAMPLE_PERFECT_TILE,
                                          TW_SCHED_SAMPLE_CATEGORICAL,
                                          TW_SCHED_SAMPLE_COMPUTE_LOCATION,
                                          TW_SCHED_ANNOTATE};
    *kind = kinds[random_below(sizeof kinds / sizeof *kinds)];
    tw_value *block = random_block(st);
    if (!block)
        return false;
    switch (*kind) {
    case TW_SCHED_SPLIT:
    case TW_SCHED_PAD:
    case TW_SCHED_FUSE:
    case TW_SCHED_REORDER:
    case TW_SCHED_PARALLEL:
    case TW_SCHED_VECTORIZE:
    case TW_SCHED_UNROLL:
    case TW_SCHED_TILE:
    case TW_SCHED_BIND:
    case TW_SCHED_PRAGMA:
    case TW_SCHED_LOOP_PARTITION:
    case TW_SCHED_SOFTWARE_PIPELINE:
    case TW_SCHED_DOUBLE_BUFFER:
    case TW_SCHED_BLOCKIZE:
    case TW_SCHED_SAMPLE_PERFECT_TILE:
        return random_loop_step(st, *kind, block);
    case TW_SCHED_COMPUTE_AT:
    case TW_SCHED_REVERSE_COMPUTE_AT:
        return random_move(st, *kind, block);
    default:
        return random_block_step(st, *kind, block);
    }
}

static void complain(state *st, tw_op *kernel, const char *what, unsigned long long at)
{
    fprintf(stderr, "%s, seed %llu\n%s\n%s\n", what, at, tw_schedule_text(st->s),
            tw_print(st->ctx, kernel, &(tw_print_options){0}));
    print_diagnostics(st->ctx);
    fail();
}

/* The trace, printed, parsed and replayed on a fresh kernel, gives the same kernel. */
static void check_replay(state *st, const char *source, unsigned long long at)
{
    const char *text = tw_schedule_text(st->s);
    tw_op *fresh = parse_kernel(st->ctx, source);
    tw_op *trace = tw_parse(st->ctx, text, strlen(text), "trace");
    if (!trace || !tw_verify(st->ctx, trace))
        complain(st, tw_schedule_kernel(st->s), "the trace does not parse", at);
    if (!tw_is_sched(trace, TW_SCHED_SCHEDULE))
        trace = trace->regions[0].first;
    if (!tw_schedule_replay(st->ctx, fresh, trace))
        complain(st, tw_schedule_kernel(st->s), "the trace does not replay", at);
    const char *a = tw_print(st->ctx, tw_schedule_kernel(st->s), &(tw_print_options){0});
    const char *b = tw_print(st->ctx, fresh, &(tw_print_options){0});
    if (strcmp(a, b) != 0)
        complain(st, fresh, "the replayed kernel differs", at);
}

/* The passes to flat loops, with buffers made small, keep the meaning of the scheduled kernel. */
static void check_flat(state *st, const memory *want, unsigned long long at)
{
    static const char *const pipelines[] = {
        "lower-blocks,compact-buffers",
        "lower-blocks,simplify-loops,compact-buffers,simplify-loops",
        "lower-blocks,simplify-loops,compact-buffers,vectorize-loops,unroll-loops,simplify-loops",
        "lower-blocks,compact-buffers,vectorize-loops,unroll-loops,specialize-loops,simplify-loops",
    };
    tw_op *kernel = tw_schedule_kernel(st->s);
    const char *before = tw_print(st->ctx, kernel, &(tw_print_options){0});
    const char *pipeline = pipelines[at / 7 % 4];
    if (!tw_run_pipeline(st->ctx, kernel, pipeline, &(tw_pipeline_options){.verify_each = true}) ||
        !gives(st->ctx, kernel, want)) {
        fprintf(stderr, "before:\n%s\n", before);
        complain(st, kernel, pipeline, at);
    }
}

/* On threads, with barriers between its loops, the kernel gives the same: no races. What threads
 * cannot do in one kernel is refused. */
static void check_threads(state *st, const memory *want, unsigned long long at)
{
    tw_op *kernel = tw_schedule_kernel(st->s);
    if (!tw_run_pipeline(st->ctx, kernel, "map-threads", &(tw_pipeline_options){0})) {
        tw_diagnostics_clear(st->ctx);
        return;
    }
    memory m = make_memory(kernel);
    tw_interp_options options = {.max_steps = 200000000, .threads = true};
    bool good = tw_interp_run(st->ctx, kernel, m.buffers, m.n, &options);
    for (unsigned i = want->n_inputs; good && i < want->n; i++)
        good = !memcmp(m.buffers[i].data, want->buffers[i].data, want->buffers[i].size);
    free_memory(&m);
    if (!good)
        complain(st, kernel, "wrong on threads", at);
    tw_diagnostics_clear(st->ctx);
}

static unsigned long long total[TW_SCHED_COUNT];

static void random_sequence(const char *source, unsigned long long number)
{
    seed = number * 0x9e3779b97f4a7c15u + 1;
    tw_context *ctx = new_context();
    tw_op *kernel = parse_kernel(ctx, source);
    memory want;
    assert_true(run_kernel(ctx, kernel, &want, false));
    state st = {.ctx = ctx, .s = tw_schedule_create(ctx, kernel, NULL)};
    tw_schedule_seed(st.s, seed);
    tw_each_block(kernel, note_block, &st);
    unsigned steps = 1 + random_below(12);
    for (unsigned done = 0, tried = 0; done < steps && tried < 60; tried++) {
        tw_sched_kind kind;
        bool good = random_step(&st, &kind);
        tw_diagnostics_clear(ctx);
        if (!good)
            continue;
        done++;
        total[kind]++;
        if (!gives(ctx, kernel, &want))
            complain(&st, kernel, "wrong result", number);
    }
    check_replay(&st, source, number);
    check_threads(&st, &want, number);
    check_flat(&st, &want, number);
    free_memory(&want);
    tw_context_destroy(ctx);
}

static const char *const sources[] = {matmul, panels, chain,   convolution,
                                      rows,   scan,   windows, results};
enum { SOURCES = sizeof sources / sizeof *sources };

static void random_sequences_keep_the_meaning(void **state)
{
    (void)state;
    const char *count = getenv("TW_TEST_SEQUENCES"), *first = getenv("TW_TEST_FIRST");
    unsigned long long n = count ? strtoull(count, NULL, 10) : 1000;
    unsigned long long at = first ? strtoull(first, NULL, 10) : 0;
    for (unsigned long long i = at; i < at + n; i++)
        random_sequence(sources[i % SOURCES], i);
    /* Each primitive must have been accepted now and then. */
    for (unsigned k = 0; k < TW_SCHED_SCHEDULE; k++) {
        if (getenv("TW_TEST_SEQUENCES"))
            fprintf(stderr, "%s %llu\n", tw_sched_ops[k].name, total[k]);
        if (n >= 1000 && k != TW_SCHED_GET_BLOCK && k != TW_SCHED_GET_LOOPS &&
            k != TW_SCHED_TENSORIZE)
            assert_true(total[k] > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_sequences_keep_the_meaning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
