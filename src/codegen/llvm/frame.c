/* frame.c: sizes that the model computes, and the memory that only they say how much of.
 *
 *     %t = loop.alloc : buffer<nz.0xf32>     behind     loop.bind %n {symbols = ["nz.0"]}
 *
 * The entry has an array on its stack that takes the place of the host's symbols:
 *
 *     batch, ..., nz.0, ..., pointers of outputs, pointers of other buffers
 *
 * loop.bind stores into it, kernels get it as their symbols, and so do the functions that the entry
 * is cut into. At the exit all buffers that have memory give it back. */
#include "codegen/llvm/cg.h"

#include "dialect/core/core.h"
#include "tilewright/model.h"

/* ---- Layout ---- */

typedef struct layout {
    tw_cg *cg;
    tw_cg_frame *frame;
    tw_loop_kind kind; /* whose pointers are given places in this walk */
} layout;

static void add_place(layout *l, const tw_value *buffer)
{
    tw_map_put_ptr(&l->frame->places, buffer, (void *)(uintptr_t)++l->frame->size);
}

static bool give_place(tw_op *op, void *data)
{
    layout *l = data;
    if (l->kind == TW_LOOP_ALLOC && tw_is_loop(op, TW_LOOP_ROUTINE))
        for (unsigned i = 0; i < op->n_results; i++)
            add_place(l, &op->results[i]);
    if (!tw_is_loop(op, l->kind))
        return true;
    if (l->kind == TW_LOOP_PROVIDE)
        add_place(l, tw_operand(op, 0));
    else if (tw_op_attr(op, "later") ||
             (!tw_op_attr(op, "offset") && !tw_type_is_static(op->results[0].type)))
        add_place(l, &op->results[0]);
    return true;
}

const tw_cg_frame *tw_cg_frame_of(tw_cg *cg, tw_op *func)
{
    const tw_cg_program *program = cg->program;
    size_t n_symbols = program->symbols ? program->symbols->u.array.n : 0;
    tw_cg_frame *frame = TW_NEW(cg->arena, tw_cg_frame);
    *frame = (tw_cg_frame){.places = tw_map_make(cg->arena), .size = n_symbols};
    layout l = {cg, frame, TW_LOOP_PROVIDE};
    tw_walk(func, give_place, &l);
    frame->heap = frame->size;
    l.kind = TW_LOOP_ALLOC;
    tw_walk(func, give_place, &l);
    return frame->size > program->input_symbols ? frame : NULL;
}

static LLVMValueRef word(tw_cg *cg, size_t index)
{
    return tw_cg_offset(cg, cg->fn->symbols, tw_cg_i64(cg, 8 * (int64_t)index));
}

void tw_cg_frame_open(tw_cg *cg, const tw_cg_frame *frame)
{
    tw_cg_func *fn = cg->fn;
    LLVMValueRef given = fn->symbols;
    size_t inputs = cg->program->input_symbols;
    fn->frame = frame;
    fn->symbols = tw_cg_alloca(cg, LLVMArrayType2(cg->i64, frame->size), 8, "frame");
    for (size_t i = 0; i < inputs; i++) {
        LLVMValueRef from = tw_cg_offset(cg, given, tw_cg_i64(cg, 8 * (int64_t)i));
        LLVMBuildStore(cg->b, LLVMBuildLoad2(cg->b, cg->i64, from, ""), word(cg, i));
    }
    LLVMBuildMemSet(cg->b, word(cg, inputs), LLVMConstInt(cg->i8, 0, false),
                    tw_cg_i64(cg, 8 * (int64_t)(frame->size - inputs)), 8);
    fn->owns_frame = true;
}

const char *tw_cg_where(tw_cg *cg, const tw_op *op)
{
    return op->loc && op->loc->node ? tw_arena_printf(cg->arena, "node %s: ", op->loc->node) : "";
}

/* ---- Memory ---- */

static void release(tw_cg *cg, LLVMValueRef memory)
{
    LLVMTypeRef args[] = {cg->ptr, cg->ptr};
    LLVMTypeRef signature = LLVMFunctionType(cg->void_t, args, 2, false);
    LLVMValueRef f = tw_cg_host_field(cg, offsetof(tw_abi_host, free), cg->ptr);
    LLVMBuildCall2(cg->b, signature, f, (LLVMValueRef[]){cg->fn->host, memory}, 2, "");
}

void tw_cg_frame_close(tw_cg *cg)
{
    const tw_cg_frame *frame = cg->fn->frame;
    if (!frame || !cg->fn->owns_frame || frame->heap == frame->size)
        return;
    LLVMValueRef begin = tw_cg_i64(cg, (int64_t)frame->heap);
    LLVMValueRef end = tw_cg_i64(cg, (int64_t)frame->size);
    tw_cg_loop loop = tw_cg_loop_begin(cg, begin, end, 1, true, "buffer");
    LLVMValueRef at = LLVMBuildGEP2(cg->b, cg->i64, cg->fn->symbols, &loop.phi, 1, "");
    release(cg, LLVMBuildLoad2(cg->b, cg->ptr, at, ""));
    tw_cg_loop_end(cg, &loop);
}

bool tw_cg_in_frame(const tw_cg *cg, const tw_value *buffer)
{
    const tw_cg_frame *frame = cg->fn->frame;
    return frame && tw_map_get_ptr(&frame->places, buffer);
}

static LLVMValueRef pointer_word(tw_cg *cg, const tw_value *buffer)
{
    return word(cg, (size_t)(uintptr_t)tw_map_get_ptr(&cg->fn->frame->places, buffer) - 1);
}

LLVMValueRef tw_cg_frame_pointer(tw_cg *cg, const tw_value *buffer)
{
    return LLVMBuildLoad2(cg->b, cg->ptr, pointer_word(cg, buffer), "");
}

void tw_cg_check_size(tw_cg *cg, const tw_op *op, tw_type type)
{
    LLVMValueRef fits = tw_cg_size_fits(cg, op, type);
    tw_cg_exit_if(cg, LLVMBuildNot(cg->b, fits, ""),
                  tw_arena_printf(cg->arena,
                                  "%sthe sizes that the data gives a tensor are negative "
                                  "or too large",
                                  tw_cg_where(cg, op)));
}

static LLVMValueRef bytes_of(tw_cg *cg, const tw_op *op, tw_type type)
{
    tw_cg_lin bits = tw_cg_count(cg, op, type, 0);
    bits = tw_cg_lin_mul(cg, &bits, &(tw_cg_lin){.constant = tw_elem_bits(type->elem)});
    bits.constant += 7;
    bits = tw_cg_lin_divide(cg, &bits, 8, false);
    return tw_cg_lin_value(cg, &bits);
}

/* What the buffer had may be from an earlier round of a loop. */
void tw_cg_frame_set(tw_cg *cg, const tw_value *buffer, LLVMValueRef memory)
{
    LLVMValueRef at = pointer_word(cg, buffer);
    release(cg, LLVMBuildLoad2(cg->b, cg->ptr, at, ""));
    LLVMBuildStore(cg->b, memory, at);
}

/* Memory of that type for the buffer. */
static void give_memory(tw_cg *cg, const tw_op *op, const tw_value *buffer, tw_type type)
{
    tw_cg_check_size(cg, op, type);
    tw_cg_frame_set(cg, buffer, LLVMConstNull(cg->ptr));
    LLVMTypeRef args[] = {cg->ptr, cg->i64};
    LLVMTypeRef signature = LLVMFunctionType(cg->ptr, args, 2, false);
    LLVMValueRef alloc = tw_cg_host_field(cg, offsetof(tw_abi_host, alloc), cg->ptr);
    LLVMValueRef values[] = {cg->fn->host, bytes_of(cg, op, type)};
    LLVMValueRef memory = LLVMBuildCall2(cg->b, signature, alloc, values, 2, "");
    LLVMBuildStore(cg->b, memory, pointer_word(cg, buffer));
    tw_cg_exit_if(cg, LLVMBuildIsNull(cg->b, memory, ""), "no memory for an intermediate value");
}

void tw_cg_frame_alloc(tw_cg *cg, tw_op *op)
{
    if (!tw_op_attr(op, "later"))
        give_memory(cg, op, &op->results[0], op->results[0].type);
}

void tw_cg_renew(tw_cg *cg, tw_op *op)
{
    give_memory(cg, op, tw_operand(op, 0), tw_op_attr(op, "type")->u.type);
}

/* host->output(index, dims) */
void tw_cg_provide(tw_cg *cg, tw_op *op)
{
    const tw_value *output = tw_operand(op, 0);
    tw_type type = output->type;
    const tw_op *func = output->region->parent;
    int64_t inputs = (int64_t)output->region->n_args - tw_op_int(func, "outputs", 0);
    tw_cg_check_size(cg, op, type);
    LLVMTypeRef array = LLVMArrayType2(cg->i64, type->rank ? type->rank : 1);
    LLVMValueRef dims = tw_cg_alloca(cg, array, 8, "dims");
    for (unsigned i = 0; i < type->rank; i++) {
        tw_cg_lin dim = tw_cg_expr(cg, op, 0, type->dims[i]);
        LLVMBuildStore(cg->b, tw_cg_lin_value(cg, &dim),
                       tw_cg_offset(cg, dims, tw_cg_i64(cg, 8 * (int64_t)i)));
    }
    LLVMTypeRef args[] = {cg->ptr, cg->i32, cg->ptr};
    LLVMTypeRef signature = LLVMFunctionType(cg->ptr, args, 3, false);
    LLVMValueRef f = tw_cg_host_field(cg, offsetof(tw_abi_host, output), cg->ptr);
    LLVMValueRef index = tw_cg_int(cg->i32, output->index - inputs);
    LLVMValueRef values[] = {cg->fn->host, index, dims};
    LLVMValueRef memory = LLVMBuildCall2(cg->b, signature, f, values, 3, "");
    LLVMBuildStore(cg->b, memory, pointer_word(cg, output));
    tw_cg_exit_if(cg, LLVMBuildIsNull(cg->b, memory, ""), "no memory for an output");
}

/* ---- Symbols ---- */

/* Stores the value as the symbol's once it is seen to be a size. */
void tw_cg_define_symbol(tw_cg *cg, const tw_op *op, LLVMValueRef value, const char *symbol)
{
    size_t place = tw_cg_symbol_place(cg, op, symbol);
    if (place < cg->program->input_symbols)
        tw_cg_fail(cg, op, "loop.bind of '%s', which is the size of an input", symbol);
    LLVMValueRef wrong = LLVMBuildICmp(cg->b, LLVMIntUGT, value, tw_cg_i64(cg, INT32_MAX), "");
    const char *form = "%s%s: size '%s' is negative or above 2147483647: ";
    const char *texts[] = {tw_arena_printf(cg->arena, form, tw_cg_where(cg, op),
                                           tw_op_string(op, "what", "sizes"), symbol),
                           ""};
    tw_cg_exit_with(cg, wrong, texts, &value, 1);
    LLVMBuildStore(cg->b, value, word(cg, place));
}

void tw_cg_require_size(tw_cg *cg, const tw_op *op, LLVMValueRef value, size_t i, tw_expr wanted)
{
    tw_cg_lin lin = tw_cg_expr(cg, op, 0, wanted);
    LLVMValueRef values[] = {value, tw_cg_lin_value(cg, &lin)};
    LLVMValueRef wrong = LLVMBuildICmp(cg->b, LLVMIntNE, value, values[1], "");
    const char *expr = tw_print_expr_on(cg->arena, wanted);
    bool fixed = tw_expr_is_const(wanted); /* not "4, which is 4" */
    const char *texts[] = {
        tw_arena_printf(cg->arena, "%s%s: number %zu is ", tw_cg_where(cg, op),
                        tw_op_string(op, "what", "sizes"), i),
        tw_arena_printf(cg->arena, fixed ? ", not %s" : ", not %s, which is ", expr), ""};
    tw_cg_exit_with(cg, wrong, texts, values, fixed ? 1 : 2);
}

void tw_cg_bind(tw_cg *cg, tw_op *op)
{
    tw_attr symbols = tw_op_attr(op, "symbols"), expect = tw_op_attr(op, "expect");
    LLVMValueRef from = tw_cg_use(cg, op, 0);
    size_t n = symbols->u.array.n;
    LLVMValueRef *values = TW_NEW_ARRAY(cg->arena, LLVMValueRef, n);
    for (size_t i = 0; i < n; i++) {
        const char *symbol = symbols->u.array.items[i]->u.string.text;
        LLVMValueRef at = tw_cg_offset(cg, from, tw_cg_i64(cg, 8 * (int64_t)i));
        values[i] = LLVMBuildLoad2(cg->b, cg->i64, at, "");
        if (*symbol)
            tw_cg_define_symbol(cg, op, values[i], symbol);
    }
    for (size_t i = 0; expect && i < n; i++)
        tw_cg_require_size(cg, op, values[i], i, expect->u.map.exprs[i]);
}
