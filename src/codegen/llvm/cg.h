/* cg.h: shared by the files of the LLVM code generator: the state of one LLVM module being made,
 * of one function in it, and what the files offer each other.
 *
 * A worker thread owns a tw_cg with its LLVM context and arena, and only reads the IR. An error
 * leaves the worker by longjmp (tw_cg_fail), so that nothing here returns a status. */
#ifndef TW_CODEGEN_LLVM_CG_H
#define TW_CODEGEN_LLVM_CG_H

#include "base/arena.h"
#include "base/map.h"
#include "base/vec.h"
#include "codegen/llvm/codegen.h"
#include "dialect/loop/loop.h"

#include <llvm-c/Core.h>
#include <llvm-c/TargetMachine.h>
#include <setjmp.h>

enum { TW_CG_MAX_LANES = 256 };

/* ---- State ------------------------------------------------------------------------------------
 */

/* A 64-bit scalar that index arithmetic takes as given, with bounds of its value. */
typedef struct tw_cg_atom {
    LLVMValueRef value;
    tw_range range;
} tw_cg_atom;

/* An index in the form constant + sum of coef * atom + step * lane + vector. */
enum { TW_CG_MAX_TERMS = 12 };
typedef struct tw_cg_term {
    unsigned atom; /* index into fn->atoms; terms are in this order, outer values first */
    int64_t coef;
} tw_cg_term;
typedef struct tw_cg_lin {
    int64_t constant;
    int64_t step;        /* grows by this from lane to lane */
    unsigned lanes;      /* 0: scalar */
    unsigned n;          /* terms */
    LLVMValueRef vector; /* <lanes x i64> that is added, or NULL */
    tw_range range;      /* of `vector` */
    tw_cg_term terms[TW_CG_MAX_TERMS];
} tw_cg_lin;

/* What is known of a buffer. Of a kernel's argument: in all of its calls. */
typedef struct tw_cg_buffer {
    const tw_value *root; /* views of one buffer have one root; others do not overlap … */
    bool aliased;         /* … unless this says so */
    bool written;
    bool stack;     /* a slot of the function, which optimization may put into registers */
    unsigned align; /* what its pointer is a multiple of, in bytes */
} tw_cg_buffer;

/* What an IR value is in the function being made. */
typedef struct tw_cg_value {
    LLVMValueRef value; /* in registers; of a buffer: the pointer; NULL when only `lin` is there */
    const tw_cg_lin *lin; /* of an index value, or NULL */
    tw_cg_buffer buffer;
} tw_cg_value;

/* What the entry of a model has in one array of 64-bit words on its stack, if binds or memory of
 * the host make it necessary: the symbols, then pointers. Functions that it is cut into share it.
 */
typedef struct tw_cg_frame {
    tw_map places;     /* buffer whose pointer it holds -> index + 1 */
    size_t heap, size; /* index of the first pointer to memory that is given back; words in all */
} tw_cg_frame;

/* A place that has been fetched ahead. */
typedef struct tw_cg_fetch {
    LLVMValueRef base;
    tw_cg_lin index;
} tw_cg_fetch;

/* A function's blocks: entry (stack slots, symbols) -> allocations from the host -> body -> exit
 * (frees, returns the status). */
typedef struct tw_cg_func {
    LLVMValueRef value;
    LLVMValueRef host, arena, symbols; /* arguments */
    LLVMValueRef constants;            /* of the entry; else NULL */
    const tw_op *model;                /* of the entry: its core.func; else NULL */
    const tw_cg_frame *frame; /* of the entry: what `symbols` points to; NULL: the host's */
    bool owns_frame;          /* not one of the functions that share it */
    LLVMValueRef status_out;  /* outlined: i32 * for an error code; else NULL */
    LLVMValueRef status;      /* stack slot of the code to return */
    LLVMBasicBlockRef entry, body, exit;
    LLVMBasicBlockRef allocated; /* the last block before the body */
    tw_map values;               /* tw_value -> tw_cg_value */
    tw_map symbol_atoms;         /* name -> atom number + 1 */
    TW_VEC(tw_cg_atom) atoms;
    TW_VEC(LLVMValueRef) heap;  /* stack slots of pointers to free */
    LLVMBasicBlockRef fetching; /* where `fetched` was */
    TW_VEC(tw_cg_fetch) fetched;
    uint64_t stack_bytes;
    unsigned calls; /* of kernels so far */
    bool parallel;  /* inside a parallel loop */
} tw_cg_func;

/* What all workers know of the module; written before they start. */
typedef struct tw_cg_program {
    tw_attr symbols;      /* names, or NULL */
    size_t input_symbols; /* that many of them are sizes of inputs */
    tw_map symbol_places; /* name -> number + 1 */
    tw_map kernels;       /* name -> loop.kernel */
    tw_map args;          /* loop.kernel -> array of tw_cg_buffer, one per argument */
    tw_op **calls;        /* the core.call of the entry function, in order */
    size_t n_calls;
} tw_cg_program;

typedef struct tw_cg {
    tw_arena *arena;
    const tw_target *target;
    const tw_codegen_options *options;
    const tw_cg_program *program;
    LLVMContextRef llvm;
    LLVMModuleRef module;
    LLVMBuilderRef b;    /* always at the end of a block */
    LLVMBuilderRef side; /* for the entry block, see tw_cg_at_entry */
    LLVMTypeRef void_t, i1, i8, i16, i32, i64, half, f32, f64, ptr;
    tw_cg_func *fn;
    jmp_buf *handler;  /* of tw_cg_fail and of the arena */
    const char *error; /* set by tw_cg_fail or by a diagnostic of LLVM */
    bool lost;         /* LLVM left by a fatal error: its objects must not be touched */
    tw_loc error_loc;
} tw_cg;

/* Leaves the worker with an error at `op` (NULL: none in particular). */
_Noreturn void tw_cg_fail(tw_cg *cg, const tw_op *op, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- types.c ----------------------------------------------------------------------------------
 */

/* Type of an element in registers (bool: i1; bf16: i16; f8, i4: i8), in memory (bool: i8). */
LLVMTypeRef tw_cg_elem(tw_cg *cg, tw_elem elem);
LLVMTypeRef tw_cg_storage(tw_cg *cg, tw_elem elem);
/* `t`, or a vector of it when lanes > 0. */
LLVMTypeRef tw_cg_vector(LLVMTypeRef t, unsigned lanes);
/* `like`'s shape with elements of type t. */
LLVMTypeRef tw_cg_like(LLVMTypeRef t, LLVMTypeRef like);
unsigned tw_cg_lanes(tw_type type); /* of an IR type; 0: scalar */
unsigned tw_cg_llvm_lanes(LLVMTypeRef t);
LLVMTypeRef tw_cg_scalar(LLVMTypeRef t); /* of a vector: its element type */
LLVMTypeRef tw_cg_type(tw_cg *cg, tw_type type);

/* Constants of any scalar or vector type. */
LLVMValueRef tw_cg_int(LLVMTypeRef t, int64_t value);
LLVMValueRef tw_cg_real(LLVMTypeRef t, double value);
LLVMValueRef tw_cg_i64(tw_cg *cg, int64_t value);
/* <first, first + step, ...> of integers. */
LLVMValueRef tw_cg_iota(LLVMTypeRef scalar, unsigned lanes, int64_t first, int64_t step);
LLVMValueRef tw_cg_splat(tw_cg *cg, LLVMValueRef scalar, unsigned lanes); /* 0: as it is */
/* Lanes first, first + step ... (`lanes` of them) of the vectors a and b behind one another. */
LLVMValueRef tw_cg_shuffle(tw_cg *cg, LLVMValueRef a, LLVMValueRef b, unsigned lanes, int first,
                           int step);

/* Calls the intrinsic `name` overloaded on the n types. */
LLVMValueRef tw_cg_intrinsic(tw_cg *cg, const char *name, const LLVMTypeRef *types, unsigned n,
                             LLVMValueRef *args, unsigned n_args);
/* The common case: overloaded on the first argument's type. */
LLVMValueRef tw_cg_intrinsic1(tw_cg *cg, const char *name, LLVMValueRef a);
LLVMValueRef tw_cg_intrinsic2(tw_cg *cg, const char *name, LLVMValueRef a, LLVMValueRef b);

/* loop.dot4 of i32 or vectors of them. */
LLVMValueRef tw_cg_dot4(tw_cg *cg, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c);

/* Adds what all functions have: target, nounwind, hidden visibility. */
void tw_cg_function_attributes(tw_cg *cg, LLVMValueRef function);
void tw_cg_attribute(tw_cg *cg, LLVMValueRef function, LLVMAttributeIndex at, const char *name,
                     uint64_t value);

/* ---- index.c ----------------------------------------------------------------------------------
 */

tw_cg_lin tw_cg_lin_const(int64_t value);
/* A new atom. Range INT64_MIN..INT64_MAX: not known. */
tw_cg_lin tw_cg_lin_atom(tw_cg *cg, LLVMValueRef value, tw_range range);
/* a + factor * b, wrapping. */
tw_cg_lin tw_cg_lin_add(tw_cg *cg, const tw_cg_lin *a, const tw_cg_lin *b, int64_t factor);
tw_cg_lin tw_cg_lin_mul(tw_cg *cg, const tw_cg_lin *a, const tw_cg_lin *b);
/* a floordiv c, or a mod c, for c > 0. */
tw_cg_lin tw_cg_lin_divide(tw_cg *cg, const tw_cg_lin *a, int64_t c, bool mod);
tw_range tw_cg_lin_range(tw_cg *cg, const tw_cg_lin *a);
/* As a value: i64, or <lanes x i64>. */
LLVMValueRef tw_cg_lin_value(tw_cg *cg, const tw_cg_lin *a);
/* Without the part that differs from lane to lane. */
tw_cg_lin tw_cg_lin_base(const tw_cg_lin *a);
/* Whether all lanes have one value. */
bool tw_cg_lin_uniform(const tw_cg_lin *a);
/* The form of an index value of the IR. */
tw_cg_lin tw_cg_lin_of(tw_cg *cg, const tw_op *user, tw_value *value);
/* An expression whose dimension i is operand first + i of op. */
tw_cg_lin tw_cg_expr(tw_cg *cg, const tw_op *op, unsigned first, tw_expr e);
/* The number of a symbol of the module. */
size_t tw_cg_symbol_place(tw_cg *cg, const tw_op *op, const char *name);
/* Elements of a buffer type, or elements of dims from..rank-1. */
tw_cg_lin tw_cg_count(tw_cg *cg, const tw_op *op, tw_type buffer, unsigned from);

/* Does a set (expressions >= 0) hold? */
typedef struct tw_cg_mask {
    bool never;
    LLVMValueRef uniform; /* i1 for all lanes together, or NULL: holds */
    LLVMValueRef lanes;   /* <lanes x i1>, or NULL: holds */
} tw_cg_mask;
/* `set` NULL: all. */
tw_cg_mask tw_cg_set(tw_cg *cg, const tw_op *op, unsigned first, tw_attr set);

/* ---- lanes.c ----------------------------------------------------------------------------------
 */

typedef struct tw_cg_lanes_set {
    uint64_t words[TW_CG_MAX_LANES / 64];
} tw_cg_lanes_set;

tw_cg_lanes_set tw_cg_all_lanes(unsigned lanes);
bool tw_cg_lanes_within(const tw_cg_lanes_set *inner, const tw_cg_lanes_set *outer);
/* All lanes in which the set (over operands from `first` on; NULL: no condition) can hold, as far
 * as constants tell. */
tw_cg_lanes_set tw_cg_possible_lanes(const tw_op *op, unsigned first, tw_attr set, unsigned lanes);
/* The lanes of a <n x i1> constant; false when it is none. */
bool tw_cg_mask_constant(LLVMValueRef mask, tw_cg_lanes_set *out);
/* n when the set is lanes 0..n-1, n > 0; else 0. */
unsigned tw_cg_lanes_prefix(const tw_cg_lanes_set *set);
/* Whether what the vector holds in other lanes is never seen; false when that is not known. */
bool tw_cg_only_lanes_matter(const tw_value *v, const tw_cg_lanes_set *lanes);

/* ---- access.c, load.c, store.c ---------------------------------------------------------------
 */

void tw_cg_load(tw_cg *cg, tw_op *op);
void tw_cg_store(tw_cg *cg, tw_op *op);
/* pointer + bytes */
LLVMValueRef tw_cg_offset(tw_cg *cg, LLVMValueRef pointer, LLVMValueRef bytes);

/* ---- buffer.c ---------------------------------------------------------------------------------
 */

void tw_cg_alloc(tw_cg *cg, tw_op *op);
void tw_cg_view(tw_cg *cg, tw_op *op);
void tw_cg_constant_buffer(tw_cg *cg, tw_op *op);
/* A builder at the beginning of the function's entry block. */
LLVMBuilderRef tw_cg_at_entry(tw_cg *cg);
/* A stack slot in the entry block. */
LLVMValueRef tw_cg_alloca(tw_cg *cg, LLVMTypeRef type, unsigned align, const char *name);

/* ---- arith.c, cast.c, math.c ------------------------------------------------------------------
 */

/* Computes any operation that takes and gives register values. False when op is none. */
bool tw_cg_arith(tw_cg *cg, tw_op *op);
/* Register form of bool (i1) to and from its form in memory (i8); others stay. */
LLVMValueRef tw_cg_to_storage(tw_cg *cg, tw_elem elem, LLVMValueRef v);
LLVMValueRef tw_cg_from_storage(tw_cg *cg, tw_elem elem, LLVMValueRef v);
/* Whether the value is a constant (in all lanes one) other than NaN. */
bool tw_cg_is_number(LLVMValueRef v);
/* a to the power of b for integers, by squaring; a negative power gives the reciprocal cut to an
 * integer: 0 but for bases 1 and -1. */
LLVMValueRef tw_cg_int_pow(tw_cg *cg, LLVMValueRef a, LLVMValueRef b, bool is_signed);
/* The value as element type `to`; both register forms. */
LLVMValueRef tw_cg_cast(tw_cg *cg, LLVMValueRef v, tw_elem from, tw_elem to, bool saturate);
/* An 8-bit register form whose upper bits are anything, extended from the element's width. */
LLVMValueRef tw_cg_cut(tw_cg *cg, LLVMValueRef v, tw_elem elem);
/* Element type that arithmetic on elem is done in: f32 for narrow floats, else itself. */
tw_elem tw_cg_compute_elem(tw_cg *cg, tw_elem elem);
/* fmul+fadd or fma, as the target has it: where either rounding will do. */
LLVMValueRef tw_cg_muladd(tw_cg *cg, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c);
/* Mathematical function of f32 or f64 values, scalar or vector. */
LLVMValueRef tw_cg_math(tw_cg *cg, const tw_op *op, tw_loop_kind kind, LLVMValueRef a,
                        LLVMValueRef b);

/* ---- control.c, parallel.c, kernel.c ----------------------------------------------------------
 */

void tw_cg_region(tw_cg *cg, tw_region *region);
void tw_cg_op(tw_cg *cg, tw_op *op);
void tw_cg_for(tw_cg *cg, tw_op *op);
void tw_cg_parallel_for(tw_cg *cg, tw_op *op);
/* begin..end (i64) in steps; opens the body with the variable as the result. */
typedef struct tw_cg_loop {
    LLVMBasicBlockRef body, after;
    LLVMValueRef phi, end;
    int64_t step;
} tw_cg_loop;
tw_cg_loop tw_cg_loop_begin(tw_cg *cg, LLVMValueRef begin, LLVMValueRef end, int64_t step,
                            bool runs, const char *name);
void tw_cg_loop_end(tw_cg *cg, tw_cg_loop *loop);
/* A block that is entered when the condition holds; goes on behind it after tw_cg_endif. */
LLVMBasicBlockRef tw_cg_if(tw_cg *cg, LLVMValueRef condition);
void tw_cg_endif(tw_cg *cg, LLVMBasicBlockRef after);

void tw_cg_kernel(tw_cg *cg, tw_op *kernel);
LLVMTypeRef tw_cg_kernel_type(tw_cg *cg, const tw_op *kernel);
/* The kernel's function in this module, without a body if it was not there. */
LLVMValueRef tw_cg_kernel_declare(tw_cg *cg, const tw_op *kernel);
/* A symbol with the suffix of the options; not the name of a function of TW_IMPORTS. */
const char *tw_cg_symbol(tw_cg *cg, const char *name);
/* Tells LLVM what is known of pointer parameter `at` (from 0). */
void tw_cg_buffer_attributes(tw_cg *cg, LLVMValueRef f, unsigned at, const tw_cg_buffer *buffer);

/* Starts a function whose `value` and arguments are set: entry and body, where building goes on.
 * The other two add the exit, which frees and returns the status. */
void tw_cg_func_open(tw_cg *cg, tw_cg_func *fn);
void tw_cg_func_begin(tw_cg *cg, tw_cg_func *fn);
void tw_cg_func_end(tw_cg *cg);
/* Leaves the function when the condition holds: with a status, or with TW_CG_FAILED after telling
 * the host why. */
enum { TW_CG_FAILED = 1 };
void tw_cg_return_if(tw_cg *cg, LLVMValueRef condition, LLVMValueRef status);
/* The same; the host has been told why, and is told where ("node x: "; "": nothing). */
void tw_cg_return_at(tw_cg *cg, LLVMValueRef condition, LLVMValueRef status, const char *where);
void tw_cg_exit_if(tw_cg *cg, LLVMValueRef condition, const char *message);
/* The message is n + 1 texts with n numbers (i64) between them. */
void tw_cg_exit_with(tw_cg *cg, LLVMValueRef condition, const char *const *texts,
                     const LLVMValueRef *values, size_t n);
/* Loads a field of tw_abi_host. */
LLVMValueRef tw_cg_host_field(tw_cg *cg, size_t offset, LLVMTypeRef type);

/* ---- frame.c -----------------------------------------------------------------------------------
 */

/* What the entry's function needs, or NULL: nothing. */
const tw_cg_frame *tw_cg_frame_of(tw_cg *cg, tw_op *func);
/* Makes it in the function that has begun: the host's symbols, and no memory yet. */
void tw_cg_frame_open(tw_cg *cg, const tw_cg_frame *frame);
/* At the function's exit: gives memory back. */
void tw_cg_frame_close(tw_cg *cg);
/* Whether the frame holds the buffer's pointer; the pointer, loaded where the builder stands. */
bool tw_cg_in_frame(const tw_cg *cg, const tw_value *buffer);
LLVMValueRef tw_cg_frame_pointer(tw_cg *cg, const tw_value *buffer);
/* loop.alloc of a size that binds define, loop.renew, loop.bind, loop.provide. */
void tw_cg_frame_alloc(tw_cg *cg, tw_op *op);
void tw_cg_renew(tw_cg *cg, tw_op *op);
void tw_cg_bind(tw_cg *cg, tw_op *op);
/* "node Reshape 'r': ", or nothing. */
const char *tw_cg_where(tw_cg *cg, const tw_op *op);
void tw_cg_provide(tw_cg *cg, tw_op *op);
/* Makes memory that the host gave, or NULL, the buffer's; what it had is given back. */
void tw_cg_frame_set(tw_cg *cg, const tw_value *buffer, LLVMValueRef memory);
/* The value, checked to be a size, becomes the symbol's; or must be what is expected. */
void tw_cg_define_symbol(tw_cg *cg, const tw_op *op, LLVMValueRef value, const char *symbol);
void tw_cg_require_size(tw_cg *cg, const tw_op *op, LLVMValueRef value, size_t i, tw_expr wanted);
/* Leaves with an error when the sizes of a tensor are negative or too large. */
void tw_cg_check_size(tw_cg *cg, const tw_op *op, tw_type type);

/* ---- routine.c ---------------------------------------------------------------------------------
 */

void tw_cg_routine(tw_cg *cg, tw_op *op);

/* ---- entry.c, plan.c, callers.c
 * ------------------------------------------------------------------------
 */

/* The function that runs the model; its calls are numbered from 0 in the order of their text. */
void tw_cg_entry(tw_cg *cg, tw_op *func);
/* The function that plans memory for the model's symbols. */
void tw_cg_plan(tw_cg *cg, tw_op *func);
/* Whether (i1) the sizes of a tensor, which use symbols, are not negative and its bytes countable.
 */
LLVMValueRef tw_cg_size_fits(tw_cg *cg, const tw_op *op, tw_type type);
/* Of the entry: a pointer to an input, an output, a constant or into the arena, made where the
 * builder stands. NULL for other values. */
tw_cg_value *tw_cg_model_value(tw_cg *cg, const tw_value *value);
/* An operation of the core dialect in the entry; false when op is none. */
bool tw_cg_core(tw_cg *cg, tw_op *op);
/* Fills the program from the module. False with a diagnostic. */
bool tw_cg_program_fill(tw_context *ctx, tw_op *module, const tw_op *entry, tw_cg_program *out);

/* ---- Values ------------------------------------------------------------------------------------
 */

tw_cg_value *tw_cg_get(tw_cg *cg, const tw_op *user, const tw_value *value);
void tw_cg_set_value(tw_cg *cg, const tw_value *value, tw_cg_value v);
/* In registers (index forms are computed). */
LLVMValueRef tw_cg_use(tw_cg *cg, const tw_op *user, unsigned operand);
void tw_cg_define(tw_cg *cg, tw_op *op, LLVMValueRef result);

/* ---- target.c, emit.c -------------------------------------------------------------------------
 */

LLVMTargetMachineRef tw_cg_target_machine(tw_cg *cg);
/* Optimizes the module and gives its code; the caller disposes it. */
LLVMMemoryBufferRef tw_cg_emit(tw_cg *cg, LLVMTargetMachineRef machine);

#endif
