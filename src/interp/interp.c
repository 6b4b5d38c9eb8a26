/* interp.c: entry points of the interpreter: binding of arguments, failures, final checks. */
#include "interp/interp.h"

#include "interp/threads.h"
#include "ir/elem_data.h"
#include "ir/scratch.h"

#include <stdarg.h>
#include <string.h>

_Noreturn void tw_machine_fail(tw_machine *m, const tw_op *op, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const char *text = tw_arena_vprintf(tw_context_arena(m->ctx), format, args);
    va_end(args);
    const char *name = m->kernel ? tw_op_string(m->kernel, "sym_name", "?") : "?";
    tw_error(m->ctx, op->loc, "interpreting '@%s': %s", name, text);
    longjmp(m->failed, 1);
}

void tw_machine_bind(tw_machine *m, tw_program *program, unsigned i, tw_membuf *arg, bool exact)
{
    const tw_interp_buffer *given = &m->buffers[i];
    size_t bytes;
    if (!tw_elem_bytes(arg->elem, arg->count, &bytes) || bytes > given->size ||
        (exact && bytes != given->size))
        tw_machine_fail(m, program->op, "argument %u takes %zu bytes, %zu given", i, bytes,
                        given->size);
    arg->data = given->data;
    arg->read_only = (int64_t)i < (int64_t)program->n_args - tw_op_int(program->op, "outputs", 0);
    arg->written = arg->read_only ? NULL : TW_NEW_ARRAY(m->arena, uint32_t, arg->count);
    for (size_t e = 0; m->outputs_hold && arg->written && e < arg->count; e++)
        arg->written[e] = m->stamp;
    program->args[i] = arg;
}

static void bind_arguments(tw_machine *m, tw_program *program, unsigned n)
{
    if (n != program->n_args)
        tw_machine_fail(m, program->op, "%u buffers given for %u arguments", n, program->n_args);
    for (unsigned i = 0; i < n; i++)
        if (program->args[i])
            tw_machine_bind(m, program, i, program->args[i], true);
}

static void check_outputs(tw_machine *m, const tw_program *program)
{
    for (unsigned i = 0; i < program->n_args; i++) {
        const tw_membuf *arg = program->args[i];
        if (!arg)
            tw_machine_fail(m, program->op, "output %u was not provided", i);
        for (size_t e = 0; arg->written && e < arg->count; e++)
            if (!arg->written[e])
                tw_machine_fail(m, program->op, "element %zu of output %u was never written", e, i);
    }
}

static void run(tw_machine *m, const tw_op *op, const tw_interp_buffer *buffers, unsigned n,
                const tw_interp_options *options)
{
    m->programs = tw_map_make(m->arena);
    m->symbols = tw_map_make(m->arena);
    m->sizes = tw_map_make(m->arena);
    m->buffers = buffers;
    for (size_t i = 0; options && i < options->n_sizes; i++)
        tw_machine_set_size(m, options->sizes[i].symbol, options->sizes[i].value);
    for (tw_op *o = op->region ? op->region->first : NULL; o; o = o->next)
        if (o->def->traits & TW_TRAIT_SYMBOL)
            tw_map_put_str(&m->symbols, tw_op_string(o, "sym_name", ""), o);
    m->threads = options && options->threads && tw_is_loop(op, TW_LOOP_KERNEL)
                     ? tw_threads_of(m->arena, op)
                     : NULL;
    int64_t count = 1;
    for (unsigned i = 0; m->threads && i < TW_THREAD_AXES; i++)
        count *= m->threads->block[i];
    if (count > 1024)
        tw_machine_fail(m, op, "a block has at most 1024 threads, not %lld", (long long)count);
    tw_program *program = tw_decode(m, op);
    m->kernel = op;
    bind_arguments(m, program, n);
    tw_run_program(m, program);
    if (m->threads && options->stats)
        *options->stats = m->threads->stats;
    if (!options || !options->partial_outputs)
        check_outputs(m, program);
}

/* One run: what it needs, and whether it went well. */
typedef struct interpretation {
    tw_machine machine;
    tw_op *op;
    const tw_interp_buffer *buffers;
    unsigned n;
    const tw_interp_options *options;
    bool fine;
} interpretation;

static void interpret(tw_arena *scratch, void *data)
{
    interpretation *i = data;
    i->machine.arena = scratch;
    if (setjmp(i->machine.failed))
        return;
    run(&i->machine, i->op, i->buffers, i->n, i->options);
    i->fine = true;
}

bool tw_interp_run(tw_context *ctx, tw_op *op, const tw_interp_buffer *buffers, unsigned n,
                   const tw_interp_options *options)
{
    interpretation i = {.machine = {.ctx = ctx, .kernel = op, .parallel_base = UINT32_MAX},
                        .op = op,
                        .buffers = buffers,
                        .n = n,
                        .options = options};
    i.machine.stamp = i.machine.last_stamp = 1;
    i.machine.max_steps = options ? options->max_steps : 0;
    i.machine.outputs_hold = options && options->outputs_hold;
    i.machine.reverse_parallel = options && options->reverse_parallel;
    tw_with_scratch(ctx, interpret, &i);
    return i.fine;
}
