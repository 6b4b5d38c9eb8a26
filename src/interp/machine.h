/* machine.h: what a kernel is decoded to, and the state that runs it; private to src/interp.
 *
 * Each value of the IR has a place of `lanes` consecutive slots in one register file; buffers have
 * descriptors. A region is an array of instructions, each a function with operand places; regions
 * nest through the instructions that own them. */
#ifndef TW_INTERP_MACHINE_H
#define TW_INTERP_MACHINE_H

#include "base/arena.h"
#include "base/map.h"
#include "base/vec.h"
#include "dialect/loop/loop.h"
#include "interp/interp.h"
#include "ir/scalar.h"

#include <setjmp.h>

/* A lane: f64 in d, all narrower floating point in f, the rest in i (sign- or zero-extended). */
typedef union tw_slot {
    double d;
    float f;
    int64_t i;
} tw_slot;

/* Memory as a kernel sees it. `written` (NULL: all of it is) holds a stamp per element: 0 never
 * written, else that of the writing iteration of a parallel loop, see tw_machine. Both pointers are
 * to the start of the memory; the buffer begins at element `offset`. */
typedef struct tw_membuf {
    const tw_value *value;
    tw_elem elem;
    unsigned rank;
    const int64_t *dims, *strides; /* strides in elements */
    size_t count;
    void *data;
    uint32_t *written;
    size_t offset;
    size_t limit; /* elements of the memory: a view of parts may be larger than what is there */
    size_t thread_stride; /* of memory that each thread has of its own: elements; else 0 */
    bool read_only;
} tw_membuf;

/* Where an operand lies: a first slot, and 1 when each lane has its own slot, else 0. */
typedef struct tw_place {
    uint32_t slot, step;
} tw_place;

typedef struct tw_machine tw_machine;
typedef struct tw_instr tw_instr;
typedef void (*tw_exec)(tw_machine *m, const tw_instr *in);

struct tw_instr {
    tw_exec run;
    uint32_t dst, lanes;
    tw_place a, b, c;
    tw_elem elem, from; /* of the result; of the operand where that differs */
    int64_t imm;        /* predicate, kind of reduction … */
    const void *extra;  /* access, loop, block … */
    const tw_op *op;    /* for messages */
};

typedef struct tw_code {
    const tw_instr *ins;
    size_t n;
} tw_code;

/* A condition: all places >= 0. */
typedef struct tw_condition {
    const tw_place *terms;
    unsigned n;
} tw_condition;

typedef struct tw_mem_access {
    tw_membuf *buffer;
    const tw_place *index; /* one per axis of the buffer */
    tw_condition where;
    tw_place value; /* stored, or the other value of a masked load */
    bool any_lanes; /* a load that may meet elements never written */
} tw_mem_access;

typedef struct tw_loop_code {
    tw_place lower, upper;
    uint32_t variable;
    int64_t step;
    bool parallel;
    tw_code body;
} tw_loop_code;

typedef struct tw_block_code {
    unsigned n;
    const tw_place *bindings;
    const int64_t *extents;
    const bool *reduce;
    uint32_t first; /* slot of iteration variable 0; the others follow */
    tw_condition where;
    tw_code init, body;
} tw_block_code;

typedef struct tw_if_code {
    tw_condition where;
    tw_code then, other;
} tw_if_code;

/* A kernel or function, decoded for the sizes that symbols have. What a function does is decoded
 * when its turn comes, because the sizes may be bound just before. */
typedef struct tw_program {
    const tw_op *op;
    struct tw_decoder *function; /* of a function; else NULL */
    tw_membuf **args;            /* NULL: an output not provided yet */
    unsigned n_args;
    tw_slot *slots; /* constants are in place */
    size_t n_slots;
    tw_code body;
} tw_program;

typedef struct tw_call_code {
    tw_program *callee;
    tw_membuf **args;
    unsigned n;
} tw_call_code;

/* core.if and core.loop: buffers of one element. */
typedef struct tw_control_code {
    const tw_membuf *number, *trips, *condition;
    tw_code regions[2];
    struct tw_decoder *function; /* NULL, or: binds inside; decoded when their turn comes */
} tw_control_code;

struct tw_machine {
    tw_context *ctx;
    tw_arena *arena; /* of this run */
    tw_slot *r;      /* the running program's slots */
    const tw_op *kernel;
    uint64_t steps, max_steps;
    bool reverse_parallel, outputs_hold;
    /* Writes are stamped with `stamp`. In a parallel loop every iteration has its own, all above
     * `parallel_base`; meeting another one above it is a conflict. */
    uint32_t stamp, last_stamp, parallel_base;
    struct tw_threads *threads; /* of a kernel that runs on them (threads.h); else NULL */
    jmp_buf failed;
    tw_map programs;                 /* tw_op -> tw_program */
    tw_map symbols;                  /* name -> tw_op of the module */
    tw_map sizes;                    /* symbol -> int64_t */
    const tw_interp_buffer *buffers; /* the arguments of the whole run */
    void *run;                       /* what routines keep (tw_abi_host) */
};

/* Defines a symbol; kernels decoded for another value are forgotten. */
void tw_machine_set_size(tw_machine *m, const char *symbol, int64_t value);
/* The value of an expression over symbols; false when one is not known. */
bool tw_machine_size(const tw_machine *m, tw_expr e, int64_t *out);
/* Gives argument i its memory, of that size exactly or at least; outputs get stamps, so that reads
 * before writes are seen. */
void tw_machine_bind(tw_machine *m, tw_program *program, unsigned i, tw_membuf *arg, bool exact);

/* Decodes a kernel or function once. Errors leave through tw_machine_fail. */
tw_program *tw_decode(tw_machine *m, const tw_op *op);
/* Adds a diagnostic that names the kernel and unwinds to the entry point. */
_Noreturn void tw_machine_fail(tw_machine *m, const tw_op *op, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

void tw_run_code(tw_machine *m, const tw_code *code);
/* Decodes and runs the operations of a function's region one by one. */
void tw_run_region(tw_machine *m, struct tw_decoder *d, const tw_region *region);
/* All of a function. */
void tw_run_function(tw_machine *m, tw_program *program);
/* Runs a program whose arguments are bound. */
void tw_run_program(tw_machine *m, tw_program *program);

/* Counts steps; fails when there are too many. */
void tw_machine_spend(tw_machine *m, const tw_op *op, uint64_t steps);
/* Sets the iteration variables of a block, checked; whether all reduce variables are 0. */
bool tw_block_enter(tw_machine *m, const tw_instr *in);

/* The instruction of an arithmetic operation on that element type; NULL when there is none. */
tw_exec tw_exec_arithmetic(tw_loop_kind kind, tw_elem elem);
/* The same of a binary node of index arithmetic. */
tw_exec tw_exec_expr(tw_expr_kind kind);

/* Instructions with state of their own. */
void tw_exec_cmp(tw_machine *m, const tw_instr *in); /* imm: place in tw_cmp_preds */
void tw_exec_select(tw_machine *m, const tw_instr *in);
void tw_exec_cast(tw_machine *m, const tw_instr *in); /* imm: saturate */
void tw_exec_bitcast(tw_machine *m, const tw_instr *in);
void tw_exec_copy(tw_machine *m, const tw_instr *in); /* also broadcast */
void tw_exec_ramp(tw_machine *m, const tw_instr *in);
void tw_exec_reduce_lanes(tw_machine *m, const tw_instr *in); /* extra: tw_exec of the operation */
void tw_exec_load(tw_machine *m, const tw_instr *in);
void tw_exec_load_f32(tw_machine *m, const tw_instr *in); /* one lane */
void tw_exec_store(tw_machine *m, const tw_instr *in);
void tw_exec_store_f32(tw_machine *m, const tw_instr *in);
void tw_exec_alloc(tw_machine *m, const tw_instr *in); /* extra: tw_membuf */
void tw_exec_view(tw_machine *m,
                  const tw_instr *in); /* extra: tw_membuf[2]: from, to; imm: offset */
void tw_exec_bind(tw_machine *m, const tw_instr *in); /* extra: tw_membuf */
void tw_exec_for(tw_machine *m, const tw_instr *in);
void tw_exec_block(tw_machine *m, const tw_instr *in);
void tw_exec_barrier(tw_machine *m, const tw_instr *in);
void tw_exec_if(tw_machine *m, const tw_instr *in);
void tw_exec_call(tw_machine *m, const tw_instr *in);
void tw_exec_core_if(tw_machine *m, const tw_instr *in);
void tw_exec_core_loop(tw_machine *m, const tw_instr *in);
void tw_exec_core_fail(tw_machine *m, const tw_instr *in);

/* "eq", "ne", "lt", "le", "gt", "ge", NULL. */
extern const char *const tw_cmp_preds[];

/* A slot as a number of the element type and back. */
static inline tw_number tw_slot_number(tw_elem elem, tw_slot s)
{
    if (elem == TW_F64)
        return (tw_number){.real = s.d};
    if (tw_elem_is_float(elem))
        return (tw_number){.real = s.f};
    return (tw_number){.integer = s.i};
}
static inline tw_slot tw_number_slot(tw_elem elem, tw_number v)
{
    if (elem == TW_F64)
        return (tw_slot){.d = v.real};
    if (tw_elem_is_float(elem))
        return (tw_slot){.f = (float)v.real};
    return (tw_slot){.i = v.integer};
}

#endif
