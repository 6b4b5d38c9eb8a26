/* exec_control.c: loops, blocks, conditions and calls of the interpreter, and the control flow
 * between calls. */
#include "interp/threads.h"

#include <string.h>

void tw_machine_spend(tw_machine *m, const tw_op *op, uint64_t steps)
{
    m->steps += steps;
    if (m->max_steps && m->steps > m->max_steps)
        tw_machine_fail(m, op, "more than %llu steps", (unsigned long long)m->max_steps);
}

void tw_run_code(tw_machine *m, const tw_code *code)
{
    for (const tw_instr *in = code->ins, *end = in + code->n; in < end; in++)
        in->run(m, in);
}

static bool all_hold(const tw_machine *m, const tw_condition *where)
{
    for (unsigned i = 0; i < where->n; i++)
        if (m->r[where->terms[i].slot].i < 0)
            return false;
    return true;
}

static void run_serial(tw_machine *m, const tw_instr *in, int64_t lower, int64_t upper)
{
    const tw_loop_code *loop = in->extra;
    for (int64_t i = lower; i < upper; i += loop->step) {
        tw_machine_spend(m, in->op, loop->body.n + 1);
        m->r[loop->variable].i = i;
        tw_run_code(m, &loop->body);
    }
}

/* The outermost parallel loop: each iteration stamps its writes with a number of its own. */
static void run_parallel(tw_machine *m, const tw_instr *in, int64_t lower, int64_t upper)
{
    const tw_loop_code *loop = in->extra;
    int64_t trips = upper > lower ? (upper - lower + loop->step - 1) / loop->step : 0;
    uint32_t outer_stamp = m->stamp, outer_base = m->parallel_base;
    m->parallel_base = m->last_stamp;
    for (int64_t n = 0; n < trips; n++) {
        tw_machine_spend(m, in->op, loop->body.n + 1);
        if (m->last_stamp == UINT32_MAX - 1)
            tw_machine_fail(m, in->op, "more parallel iterations than can be told apart");
        m->stamp = ++m->last_stamp;
        int64_t trip = m->reverse_parallel ? trips - 1 - n : n;
        m->r[loop->variable].i = lower + trip * loop->step;
        tw_run_code(m, &loop->body);
    }
    m->stamp = outer_stamp;
    m->parallel_base = outer_base;
}

void tw_exec_for(tw_machine *m, const tw_instr *in)
{
    const tw_loop_code *loop = in->extra;
    int64_t lower = m->r[loop->lower.slot].i, upper = m->r[loop->upper.slot].i;
    if (loop->parallel && m->parallel_base == UINT32_MAX)
        run_parallel(m, in, lower, upper);
    else
        run_serial(m, in, lower, upper);
}

bool tw_block_enter(tw_machine *m, const tw_instr *in)
{
    const tw_block_code *block = in->extra;
    bool first = true;
    for (unsigned i = 0; i < block->n; i++) {
        int64_t v = m->r[block->bindings[i].slot].i;
        if (v < 0 || v >= block->extents[i])
            tw_machine_fail(m, in->op,
                            "block '%s': iteration variable %u is %lld, outside 0 to "
                            "%lld",
                            tw_op_string(in->op, "sym_name", "?"), i, (long long)v,
                            (long long)block->extents[i] - 1);
        m->r[block->first + i].i = v;
        first = first && (!block->reduce[i] || v == 0);
    }
    tw_machine_spend(m, in->op, block->body.n);
    return first;
}

void tw_exec_block(tw_machine *m, const tw_instr *in)
{
    const tw_block_code *block = in->extra;
    if (!all_hold(m, &block->where))
        return;
    if (tw_block_enter(m, in))
        tw_run_code(m, &block->init);
    tw_run_code(m, &block->body);
}

/* Loops run one after another without threads: nobody to wait for. */
void tw_exec_barrier(tw_machine *m, const tw_instr *in)
{
    (void)m;
    (void)in;
}

void tw_exec_if(tw_machine *m, const tw_instr *in)
{
    const tw_if_code *code = in->extra;
    tw_run_code(m, all_hold(m, &code->where) ? &code->then : &code->other);
}

void tw_run_program(tw_machine *m, tw_program *program)
{
    tw_slot *slots = m->r;
    const tw_op *kernel = m->kernel;
    m->r = program->slots;
    m->kernel = program->op;
    if (program->function)
        tw_run_function(m, program);
    else if (m->threads)
        tw_threads_run(m, program);
    else
        tw_run_code(m, &program->body);
    m->r = slots;
    m->kernel = kernel;
}

/* Binds the callee's arguments to the caller's memory; the last `outputs` may be written. */
void tw_exec_call(tw_machine *m, const tw_instr *in)
{
    const tw_call_code *call = in->extra;
    int64_t outputs = tw_op_int(call->callee->op, "outputs", 0);
    for (unsigned i = 0; i < call->n; i++) {
        const tw_membuf *from = call->args[i];
        tw_membuf *to = call->callee->args[i];
        if (to->elem != from->elem || to->count != from->count)
            tw_machine_fail(m, in->op, "argument %u has another type than the kernel's", i);
        to->data = from->data;
        to->written = from->written;
        to->offset = from->offset;
        to->limit = from->limit;
        to->read_only = from->read_only || (int64_t)i < (int64_t)call->n - outputs;
    }
    tw_run_program(m, call->callee);
}

/* ---- Control flow between kernels ---- */

static const void *single(tw_machine *m, const tw_instr *in, const tw_membuf *buffer, size_t size)
{
    if (buffer->written && !buffer->written[buffer->offset])
        tw_machine_fail(m, in->op, "'%s' reads what was never written", in->op->def->name);
    return (const char *)buffer->data + buffer->offset * size;
}

static bool condition_holds(tw_machine *m, const tw_instr *in)
{
    const tw_control_code *code = in->extra;
    return *(const unsigned char *)single(m, in, code->condition, 1) != 0;
}

static void run_inside(tw_machine *m, const tw_instr *in, unsigned region)
{
    const tw_control_code *code = in->extra;
    if (code->function)
        tw_run_region(m, code->function, &in->op->regions[region]);
    else
        tw_run_code(m, &code->regions[region]);
}

void tw_exec_core_if(tw_machine *m, const tw_instr *in)
{
    run_inside(m, in, condition_holds(m, in) ? 0 : 1);
}

void tw_exec_core_loop(tw_machine *m, const tw_instr *in)
{
    const tw_control_code *code = in->extra;
    const tw_membuf *number = code->number;
    int64_t trips;
    memcpy(&trips, single(m, in, code->trips, sizeof trips), sizeof trips);
    for (int64_t i = 0; i < trips && condition_holds(m, in); i++) {
        tw_machine_spend(m, in->op, code->regions[0].n + 1);
        memcpy((char *)number->data + number->offset * sizeof i, &i, sizeof i);
        if (number->written)
            number->written[number->offset] = m->stamp;
        run_inside(m, in, 0);
    }
}

void tw_exec_core_fail(tw_machine *m, const tw_instr *in)
{
    tw_machine_fail(m, in->op, "%s", tw_op_string(in->op, "message", ""));
}
