/* schedule.c: the schedule object: steps are appended to the trace, carried out, replayed. */
#include "schedule/schedule_impl.h"

/* ---- References ---------------------------------------------------------------------- */

tw_op *tw_schedule_op(const tw_schedule *s, const tw_value *ref)
{
    tw_op *op = tw_map_get_ptr(&s->refs, ref);
    return op && tw_op_is_ancestor(s->kernel, op) ? op : NULL;
}

static bool do_get_block(const tw_step *step)
{
    const char *name = tw_op_string(step->op, "block", "");
    tw_op *block = tw_map_get_str(&step->s->blocks, name);
    if (!block || !tw_op_is_ancestor(step->s->kernel, block))
        return tw_step_refuse(step, "the kernel has no block \"%s\"", name);
    step->results[0] = block;
    return true;
}

static bool do_get_loops(const tw_step *step)
{
    tw_nest nest;
    if (!tw_nest_of(step->ctx, step->operands[0], &nest))
        return tw_step_refuse(step, "block \"%s\" has more than %d loops",
                              tw_block_name(step->operands[0]), TW_MAX_NEST);
    if (nest.n != step->op->n_results)
        return tw_step_refuse(step, "block \"%s\" has %u loops, not %u",
                              tw_block_name(step->operands[0]), nest.n, step->op->n_results);
    for (unsigned i = 0; i < nest.n; i++)
        step->results[i] = nest.loops[i];
    return true;
}

/* ---- Carrying out -------------------------------------------------------------------- */

static bool (*const primitives[TW_SCHED_COUNT])(const tw_step *step) = {
    [TW_SCHED_GET_BLOCK] = do_get_block,
    [TW_SCHED_GET_LOOPS] = do_get_loops,
    [TW_SCHED_SPLIT] = tw_do_split,
    [TW_SCHED_PAD] = tw_do_pad,
    [TW_SCHED_FUSE] = tw_do_fuse,
    [TW_SCHED_REORDER] = tw_do_reorder,
    [TW_SCHED_PARALLEL] = tw_do_parallel,
    [TW_SCHED_VECTORIZE] = tw_do_vectorize,
    [TW_SCHED_UNROLL] = tw_do_unroll,
    [TW_SCHED_COMPUTE_AT] = tw_do_compute_at,
    [TW_SCHED_REVERSE_COMPUTE_AT] = tw_do_reverse_compute_at,
    [TW_SCHED_COMPUTE_INLINE] = tw_do_compute_inline,
    [TW_SCHED_REVERSE_COMPUTE_INLINE] = tw_do_reverse_compute_inline,
    [TW_SCHED_CACHE_READ] = tw_do_cache_read,
    [TW_SCHED_CACHE_WRITE] = tw_do_cache_write,
    [TW_SCHED_SET_SCOPE] = tw_do_set_scope,
    [TW_SCHED_DECOMPOSE_REDUCTION] = tw_do_decompose_reduction,
    [TW_SCHED_RFACTOR] = tw_do_rfactor,
    [TW_SCHED_ANNOTATE] = tw_do_annotate,
    [TW_SCHED_TILE] = tw_do_tile,
    [TW_SCHED_BIND] = tw_do_bind,
    [TW_SCHED_PRAGMA] = tw_do_pragma,
    [TW_SCHED_LOOP_PARTITION] = tw_do_loop_partition,
    [TW_SCHED_STORAGE_ALIGN] = tw_do_storage_align,
    [TW_SCHED_TRANSFORM_LAYOUT] = tw_do_transform_layout,
    [TW_SCHED_TRANSFORM_BLOCK_LAYOUT] = tw_do_transform_block_layout,
    [TW_SCHED_SAMPLE_PERFECT_TILE] = tw_do_sample_perfect_tile,
    [TW_SCHED_SAMPLE_CATEGORICAL] = tw_do_sample_categorical,
    [TW_SCHED_SOFTWARE_PIPELINE] = tw_do_software_pipeline,
    [TW_SCHED_DOUBLE_BUFFER] = tw_do_double_buffer,
    [TW_SCHED_PAD_EINSUM] = tw_do_pad_einsum,
    [TW_SCHED_BLOCKIZE] = tw_do_blockize,
    [TW_SCHED_TENSORIZE] = tw_do_tensorize,
    [TW_SCHED_SAMPLE_COMPUTE_LOCATION] = tw_do_sample_compute_location,
};

/* Names the results after what they refer to. */
static void name_result(tw_value *result, const tw_op *target)
{
    if (!result->name)
        tw_value_set_name(result, tw_is_loop(target, TW_LOOP_FOR) ? tw_loop_name(target)
                                                                  : tw_block_name(target));
}

/* Looks up what the operands refer to. */
static bool resolve_operands(const tw_step *step)
{
    for (unsigned i = 0; i < step->op->n_operands; i++) {
        const tw_value *ref = tw_operand(step->op, i);
        const int64_t *size = tw_map_get_ptr(&step->s->sizes, ref);
        step->operands[i] = tw_schedule_op(step->s, ref);
        step->sizes[i] = size ? *size : 0;
        if (!size && !step->operands[i])
            return tw_step_refuse(step, "%%%s is gone: an earlier step has replaced it",
                                  tw_buffer_name(ref));
    }
    return true;
}

static void note_results(const tw_step *step)
{
    for (unsigned i = 0; i < step->op->n_results; i++) {
        tw_value *result = tw_result(step->op, i);
        if (result->type == tw_sched_size_type(step->ctx)) {
            tw_map_put_ptr(&step->s->sizes, result, &step->drawn[i]);
            if (!result->name)
                tw_value_set_name(result, "size");
        } else {
            tw_map_put_ptr(&step->s->refs, result, step->results[i]);
            name_result(result, step->results[i]);
        }
    }
}

static tw_step new_step(tw_schedule *s, tw_op *op)
{
    tw_arena *arena = tw_context_arena(s->ctx);
    return (tw_step){.s = s,
                     .ctx = s->ctx,
                     .op = op,
                     .operands = TW_NEW_ARRAY(arena, tw_op *, op->n_operands),
                     .sizes = TW_NEW_ARRAY(arena, int64_t, op->n_operands),
                     .results = TW_NEW_ARRAY(arena, tw_op *, op->n_results),
                     .drawn = TW_NEW_ARRAY(arena, int64_t, op->n_results)};
}

/* Carries out a step of the trace; its operands are references of this schedule. */
static bool carry_out(tw_schedule *s, tw_op *op)
{
    tw_step step = new_step(s, op);
    if (!op->def->verify(s->ctx, op) || !resolve_operands(&step) ||
        !primitives[op->def->kind](&step))
        return false;
    note_results(&step);
    int since = tw_sched_since(op->def->kind);
    if (since > tw_op_int(s->trace, "version", 1))
        tw_op_set_attr(s->trace, "version", tw_attr_int(s->ctx, since));
    return true;
}

bool tw_step_also(const tw_step *step, tw_sched_kind kind, tw_op *const *operands, unsigned n,
                  const tw_named_attr *attrs, unsigned n_attrs, tw_op **results, unsigned n_results)
{
    /* The part reads its attributes and counts from an operation that stands in no trace. */
    tw_arena *arena = tw_context_arena(step->ctx);
    tw_value **refs = TW_NEW_ARRAY(arena, tw_value *, n);
    tw_type *types = TW_NEW_ARRAY(arena, tw_type, n_results);
    for (unsigned i = 0; i < n; i++)
        refs[i] = tw_operand(step->op, 0);
    for (unsigned i = 0; i < n_results; i++)
        types[i] = tw_sched_loop_type(step->ctx);
    tw_op *op = tw_op_create(step->ctx, &tw_sched_ops[kind], step->op->loc, refs, n, types,
                             n_results, attrs, n_attrs, 0);
    tw_step part = new_step(step->s, op);
    for (unsigned i = 0; i < n; i++)
        part.operands[i] = operands[i];
    bool good = primitives[kind](&part);
    for (unsigned i = 0; good && i < n_results; i++)
        results[i] = part.results[i];
    tw_op_erase(op);
    return good;
}

/* Appends a step with these references and attributes and carries it out; NULL when refused. */
static tw_op *add_step(tw_schedule *s, tw_sched_kind kind, tw_value *const *refs, unsigned n_refs,
                       unsigned n_results, const tw_named_attr *attrs, unsigned n_attrs)
{
    tw_type *types = TW_NEW_ARRAY(tw_context_arena(s->ctx), tw_type, n_results);
    for (unsigned i = 0; i < n_results; i++)
        types[i] = tw_sched_type_of(s->ctx, tw_sched_result_spec(kind)[0]);
    tw_op *op = tw_op_create(s->ctx, &tw_sched_ops[kind], s->kernel->loc, refs, n_refs, types,
                             n_results, attrs, n_attrs, 0);
    tw_op_insert(op, &s->trace->regions[0], NULL);
    if (carry_out(s, op))
        return op;
    tw_op_erase(op);
    return NULL;
}

static tw_value *add_block_step(tw_schedule *s, tw_sched_kind kind, tw_value *const *refs,
                                unsigned n_refs, const tw_named_attr *attrs, unsigned n_attrs)
{
    tw_op *op = add_step(s, kind, refs, n_refs, 1, attrs, n_attrs);
    return op ? tw_result(op, 0) : NULL;
}

/* Gives the step's results; false when it was refused. */
static bool results_of(tw_op *op, tw_value **out)
{
    for (unsigned i = 0; op && i < op->n_results; i++)
        out[i] = tw_result(op, i);
    return op != NULL;
}

static bool add_plain_step(tw_schedule *s, tw_sched_kind kind, tw_value *const *refs,
                           unsigned n_refs)
{
    return add_step(s, kind, refs, n_refs, 0, NULL, 0) != NULL;
}

/* ---- Schedules ----------------------------------------------------------------------- */

static void note_block(tw_op *block, void *data)
{
    tw_schedule *s = data;
    tw_map_put_str(&s->blocks, tw_block_name(block), block);
}

tw_schedule *tw_schedule_create(tw_context *ctx, tw_op *kernel, const char *target)
{
    tw_arena *arena = tw_context_arena(ctx);
    tw_schedule *s = TW_NEW(arena, tw_schedule);
    *s = (tw_schedule){.ctx = ctx,
                       .kernel = kernel,
                       .refs = tw_map_make(arena),
                       .blocks = tw_map_make(arena),
                       .sizes = tw_map_make(arena)};
    tw_schedule_seed(s, 0);
    s->trace = tw_op_create(ctx, &tw_sched_ops[TW_SCHED_SCHEDULE], kernel->loc, NULL, 0, NULL, 0,
                            NULL, 0, 1);
    tw_op_set_attr(s->trace, "kernel", tw_attr_symbol(ctx, tw_op_string(kernel, "sym_name", "")));
    tw_op_set_attr(s->trace, "version", tw_attr_int(ctx, 1));
    if (target) {
        tw_op_set_attr(s->trace, "target", tw_attr_string(ctx, target));
        tw_op_set_attr(kernel, "target", tw_attr_string(ctx, target));
    }
    tw_each_block(kernel, note_block, s);
    return s;
}

tw_op *tw_schedule_kernel(const tw_schedule *s)
{
    return s->kernel;
}

tw_op *tw_schedule_trace(const tw_schedule *s)
{
    return s->trace;
}

const char *tw_schedule_text(const tw_schedule *s)
{
    return tw_print(s->ctx, s->trace, &(tw_print_options){0});
}

void tw_schedule_seed(tw_schedule *s, uint64_t seed)
{
    s->random = seed * 0x9e3779b97f4a7c15u + 0x2545f4914f6cdd1du;
}

unsigned tw_step_random(const tw_step *step, unsigned n)
{
    uint64_t x = step->s->random;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    step->s->random = x;
    return (unsigned)((x * 0x2545f4914f6cdd1du >> 33) % n);
}

tw_schedule *tw_schedule_replay_with(tw_context *ctx, tw_op *kernel, const tw_op *trace,
                                     const tw_replay_options *options)
{
    if (!trace->def->verify(ctx, trace))
        return NULL;
    tw_schedule *s = tw_schedule_create(ctx, kernel, tw_op_string(trace, "target", NULL));
    tw_cloner *cloner = tw_cloner_create(ctx);
    tw_schedule_seed(s, options->seed);
    tw_schedule_set_library(s, trace->region ? trace->region->parent : NULL);
    for (const tw_op *op = trace->regions[0].first; op; op = op->next) {
        tw_op *copy = tw_op_clone(cloner, op);
        if (options->redraw)
            tw_op_set_attr(copy, "decision", NULL);
        tw_op_insert(copy, &s->trace->regions[0], NULL);
        if (!carry_out(s, copy)) {
            tw_op_erase(copy);
            return NULL;
        }
        if (options->after_step)
            options->after_step(options->data, s, copy);
    }
    return s;
}

tw_schedule *tw_schedule_replay(tw_context *ctx, tw_op *kernel, const tw_op *trace)
{
    return tw_schedule_replay_with(ctx, kernel, trace, &(tw_replay_options){0});
}

/* ---- Steps --------------------------------------------------------------------------- */

tw_value *tw_sched_get_block(tw_schedule *s, const char *name)
{
    tw_named_attr attr = {"block", tw_attr_string(s->ctx, name)};
    return add_block_step(s, TW_SCHED_GET_BLOCK, NULL, 0, &attr, 1);
}

int tw_sched_get_loops(tw_schedule *s, tw_value *block, tw_value **out, int max)
{
    tw_op *target = tw_schedule_op(s, block);
    tw_nest nest = {.n = 0};
    if (target)
        tw_nest_of(s->ctx, target, &nest);
    tw_op *op = add_step(s, TW_SCHED_GET_LOOPS, &block, 1, nest.n, NULL, 0);
    if (!op)
        return -1;
    int n = (int)nest.n < max ? (int)nest.n : max;
    for (int i = 0; i < n; i++)
        out[i] = tw_result(op, (unsigned)i);
    return n;
}

bool tw_sched_split(tw_schedule *s, tw_value *loop, const int64_t *factors, unsigned n,
                    tw_value **out)
{
    tw_named_attr attr = {"factors", tw_attr_ints(s->ctx, factors, n)};
    return results_of(add_step(s, TW_SCHED_SPLIT, &loop, 1, n, &attr, 1), out);
}

tw_value *tw_sched_fuse(tw_schedule *s, tw_value *const *loops, unsigned n)
{
    tw_op *op = add_step(s, TW_SCHED_FUSE, loops, n, 1, NULL, 0);
    return op ? tw_result(op, 0) : NULL;
}

bool tw_sched_reorder(tw_schedule *s, tw_value *const *loops, unsigned n)
{
    return add_plain_step(s, TW_SCHED_REORDER, loops, n);
}

bool tw_sched_parallel(tw_schedule *s, tw_value *loop, tw_attr when)
{
    tw_named_attr attr = {"when", when};
    return add_step(s, TW_SCHED_PARALLEL, &loop, 1, 0, &attr, when != NULL) != NULL;
}

bool tw_sched_vectorize(tw_schedule *s, tw_value *loop)
{
    return add_plain_step(s, TW_SCHED_VECTORIZE, &loop, 1);
}

bool tw_sched_unroll(tw_schedule *s, tw_value *loop)
{
    return add_plain_step(s, TW_SCHED_UNROLL, &loop, 1);
}

bool tw_sched_compute_at(tw_schedule *s, tw_value *block, tw_value *loop)
{
    return add_plain_step(s, TW_SCHED_COMPUTE_AT, (tw_value *[]){block, loop}, 2);
}

bool tw_sched_reverse_compute_at(tw_schedule *s, tw_value *block, tw_value *loop)
{
    return add_plain_step(s, TW_SCHED_REVERSE_COMPUTE_AT, (tw_value *[]){block, loop}, 2);
}

bool tw_sched_compute_inline(tw_schedule *s, tw_value *block)
{
    return add_plain_step(s, TW_SCHED_COMPUTE_INLINE, &block, 1);
}

bool tw_sched_reverse_compute_inline(tw_schedule *s, tw_value *block)
{
    return add_plain_step(s, TW_SCHED_REVERSE_COMPUTE_INLINE, &block, 1);
}

tw_value *tw_sched_cache_read(tw_schedule *s, tw_value *block, unsigned read, const char *scope)
{
    tw_named_attr attrs[] = {{"read", tw_attr_int(s->ctx, read)},
                             {"scope", tw_attr_string(s->ctx, scope)}};
    return add_block_step(s, TW_SCHED_CACHE_READ, &block, 1, attrs, 2);
}

tw_value *tw_sched_cache_write(tw_schedule *s, tw_value *block, unsigned write, const char *scope)
{
    tw_named_attr attrs[] = {{"write", tw_attr_int(s->ctx, write)},
                             {"scope", tw_attr_string(s->ctx, scope)}};
    return add_block_step(s, TW_SCHED_CACHE_WRITE, &block, 1, attrs, 2);
}

bool tw_sched_pad(tw_schedule *s, tw_value *block, tw_value *loop, int64_t extent)
{
    tw_named_attr attr = {"extent", tw_attr_int(s->ctx, extent)};
    return add_step(s, TW_SCHED_PAD, (tw_value *[]){block, loop}, 2, 0, &attr, 1) != NULL;
}

bool tw_sched_set_scope(tw_schedule *s, tw_value *block, unsigned write, const char *scope)
{
    tw_named_attr attrs[] = {{"write", tw_attr_int(s->ctx, write)},
                             {"scope", tw_attr_string(s->ctx, scope)}};
    return add_step(s, TW_SCHED_SET_SCOPE, &block, 1, 0, attrs, 2) != NULL;
}

tw_value *tw_sched_decompose_reduction(tw_schedule *s, tw_value *block, tw_value *loop)
{
    return add_block_step(s, TW_SCHED_DECOMPOSE_REDUCTION, (tw_value *[]){block, loop}, 2, NULL, 0);
}

tw_value *tw_sched_rfactor(tw_schedule *s, tw_value *block, tw_value *loop, int axis)
{
    tw_named_attr attr = {"axis", tw_attr_int(s->ctx, axis)};
    return add_block_step(s, TW_SCHED_RFACTOR, (tw_value *[]){block, loop}, 2, &attr, 1);
}

bool tw_sched_tile(tw_schedule *s, tw_value *const *loops, const int64_t *factors, unsigned n,
                   tw_value **out)
{
    tw_named_attr attr = {"factors", tw_attr_ints(s->ctx, factors, n)};
    return results_of(add_step(s, TW_SCHED_TILE, loops, n, 2 * n, &attr, 1), out);
}

bool tw_sched_bind(tw_schedule *s, tw_value *loop, const char *thread)
{
    tw_named_attr attr = {"thread", tw_attr_string(s->ctx, thread)};
    return add_step(s, TW_SCHED_BIND, &loop, 1, 0, &attr, 1) != NULL;
}

bool tw_sched_pragma(tw_schedule *s, tw_value *loop, const char *key, tw_attr value)
{
    tw_named_attr attrs[] = {{"key", tw_attr_string(s->ctx, key)}, {"value", value}};
    return add_step(s, TW_SCHED_PRAGMA, &loop, 1, 0, attrs, 2) != NULL;
}

int tw_sched_loop_partition(tw_schedule *s, tw_value *loop, tw_value *out[3])
{
    tw_op *target = tw_schedule_op(s, loop);
    unsigned n = target ? tw_partition_parts(s->ctx, target) : 0;
    return results_of(add_step(s, TW_SCHED_LOOP_PARTITION, &loop, 1, n, NULL, 0), out) ? (int)n
                                                                                       : -1;
}

bool tw_sched_storage_align(tw_schedule *s, tw_value *block, unsigned write, unsigned axis,
                            int64_t factor, int64_t offset)
{
    tw_named_attr attrs[] = {{"write", tw_attr_int(s->ctx, write)},
                             {"axis", tw_attr_int(s->ctx, axis)},
                             {"factor", tw_attr_int(s->ctx, factor)},
                             {"offset", tw_attr_int(s->ctx, offset)}};
    return add_step(s, TW_SCHED_STORAGE_ALIGN, &block, 1, 0, attrs, 4) != NULL;
}

bool tw_sched_transform_layout(tw_schedule *s, tw_value *block, unsigned write, tw_attr map)
{
    tw_named_attr attrs[] = {{"write", tw_attr_int(s->ctx, write)}, {"map", map}};
    return add_step(s, TW_SCHED_TRANSFORM_LAYOUT, &block, 1, 0, attrs, 2) != NULL;
}

bool tw_sched_transform_block_layout(tw_schedule *s, tw_value *block, tw_attr map,
                                     const int64_t *extents, unsigned n, tw_value **out)
{
    tw_named_attr attrs[] = {{"map", map}, {"extents", tw_attr_ints(s->ctx, extents, n)}};
    return results_of(add_step(s, TW_SCHED_TRANSFORM_BLOCK_LAYOUT, &block, 1, n, attrs, 2), out);
}

bool tw_sched_software_pipeline(tw_schedule *s, tw_value *loop, const int64_t *stages,
                                const int64_t *order, unsigned n)
{
    tw_named_attr attrs[] = {{"stages", tw_attr_ints(s->ctx, stages, n)},
                             {"order", order ? tw_attr_ints(s->ctx, order, n) : NULL}};
    return add_step(s, TW_SCHED_SOFTWARE_PIPELINE, &loop, 1, 0, attrs, order ? 2 : 1) != NULL;
}

bool tw_sched_double_buffer(tw_schedule *s, tw_value *block, tw_value *loop)
{
    return add_plain_step(s, TW_SCHED_DOUBLE_BUFFER, (tw_value *[]){block, loop}, 2);
}

bool tw_sched_pad_einsum(tw_schedule *s, tw_value *block, const int64_t *padding, unsigned n)
{
    tw_named_attr attr = {"padding", tw_attr_ints(s->ctx, padding, n)};
    return add_step(s, TW_SCHED_PAD_EINSUM, &block, 1, 0, &attr, 1) != NULL;
}

tw_value *tw_sched_blockize(tw_schedule *s, tw_value *loop)
{
    return add_block_step(s, TW_SCHED_BLOCKIZE, &loop, 1, NULL, 0);
}

tw_value *tw_sched_tensorize(tw_schedule *s, tw_value *loop, const char *description,
                             const char *implementation)
{
    tw_named_attr attrs[] = {{"description", tw_attr_symbol(s->ctx, description)},
                             {"implementation", tw_attr_symbol(s->ctx, implementation)}};
    return add_block_step(s, TW_SCHED_TENSORIZE, &loop, 1, attrs, 2);
}

void tw_schedule_set_library(tw_schedule *s, const tw_op *module)
{
    s->library = module;
}

bool tw_sched_sample_perfect_tile(tw_schedule *s, tw_value *loop, unsigned n, int64_t max_innermost,
                                  tw_value **out)
{
    tw_named_attr attr = {"max_innermost", tw_attr_int(s->ctx, max_innermost)};
    return results_of(add_step(s, TW_SCHED_SAMPLE_PERFECT_TILE, &loop, 1, n, &attr, 1), out);
}

tw_value *tw_sched_sample_categorical(tw_schedule *s, const int64_t *candidates,
                                      const double *weights, unsigned n)
{
    tw_attr *probs = TW_NEW_ARRAY(tw_context_arena(s->ctx), tw_attr, n);
    for (unsigned i = 0; weights && i < n; i++)
        probs[i] = tw_attr_float(s->ctx, weights[i]);
    tw_named_attr attrs[] = {{"candidates", tw_attr_ints(s->ctx, candidates, n)},
                             {"probs", weights ? tw_attr_array(s->ctx, probs, n) : NULL}};
    return add_block_step(s, TW_SCHED_SAMPLE_CATEGORICAL, NULL, 0, attrs, weights ? 2 : 1);
}

tw_value *tw_sched_sample_compute_location(tw_schedule *s, tw_value *block)
{
    return add_block_step(s, TW_SCHED_SAMPLE_COMPUTE_LOCATION, &block, 1, NULL, 0);
}

bool tw_sched_split_sampled(tw_schedule *s, tw_value *loop, tw_value *const *sizes, unsigned n,
                            tw_value **out)
{
    tw_value **refs = TW_NEW_ARRAY(tw_context_arena(s->ctx), tw_value *, n + 1);
    refs[0] = loop;
    for (unsigned i = 0; i < n; i++)
        refs[i + 1] = sizes[i];
    return results_of(add_step(s, TW_SCHED_SPLIT, refs, n + 1, n, NULL, 0), out);
}

bool tw_sched_annotate(tw_schedule *s, tw_value *ref, const char *key, tw_attr value)
{
    tw_named_attr attrs[] = {{"key", tw_attr_string(s->ctx, key)}, {"value", value}};
    return add_step(s, TW_SCHED_ANNOTATE, &ref, 1, 0, attrs, 2) != NULL;
}
