/* routine.c: calls of the runtime's routines.
 *
 *     %y = loop.routine %x {name = "unique", symbols = ["y.0"]} : buffer<y.0 x f32>
 * becomes
 *     in[0] = { x, dims of x }, out[0] = { NULL, room }
 *     if (status = tw_rt_unique(host, in, 1, out, 1, params)) return status
 *     symbols[y.0] = out[0].dims[0]
 *     frame[y] = out[0].data */
#include "codegen/llvm/cg.h"

#include "artifact/abi.h"

#include <string.h>

/* An array of tw_abi_value on the stack, and one of all dims. */
typedef struct values {
    LLVMValueRef list, dims;
    unsigned n, n_dims;
} values;

static LLVMValueRef stack_array(tw_cg *cg, LLVMTypeRef element, uint64_t n, const char *name)
{
    return tw_cg_alloca(cg, LLVMArrayType2(element, n ? n : 1), 8, name);
}

static values new_values(tw_cg *cg, unsigned n, unsigned n_dims)
{
    LLVMTypeRef value = LLVMArrayType2(cg->i8, sizeof(tw_abi_value));
    return (values){.list = stack_array(cg, value, n, "values"),
                    .dims = stack_array(cg, cg->i64, n_dims, "dims")};
}

static LLVMValueRef field(tw_cg *cg, LLVMValueRef list, unsigned i, size_t offset)
{
    return tw_cg_offset(cg, list, tw_cg_i64(cg, (int64_t)(i * sizeof(tw_abi_value) + offset)));
}

/* The next value; of an operand the dims as well. */
static void add_value(tw_cg *cg, const tw_op *op, values *v, tw_type type, LLVMValueRef data,
                      bool with_dims)
{
    LLVMValueRef dims = tw_cg_offset(cg, v->dims, tw_cg_i64(cg, 8 * (int64_t)v->n_dims));
    for (unsigned i = 0; with_dims && i < type->rank; i++) {
        tw_cg_lin size = tw_cg_expr(cg, op, 0, type->dims[i]);
        LLVMValueRef at = tw_cg_offset(cg, dims, tw_cg_i64(cg, 8 * (int64_t)i));
        LLVMBuildStore(cg->b, tw_cg_lin_value(cg, &size), at);
    }
    LLVMBuildStore(cg->b, data, field(cg, v->list, v->n, offsetof(tw_abi_value, data)));
    LLVMBuildStore(cg->b, dims, field(cg, v->list, v->n, offsetof(tw_abi_value, dims)));
    LLVMBuildStore(cg->b, tw_cg_int(cg->i32, type->elem),
                   field(cg, v->list, v->n, offsetof(tw_abi_value, elem)));
    LLVMBuildStore(cg->b, tw_cg_int(cg->i32, type->rank),
                   field(cg, v->list, v->n, offsetof(tw_abi_value, rank)));
    v->n++;
    v->n_dims += type->rank;
}

/* A constant array of the integers. */
static LLVMValueRef params_of(tw_cg *cg, const tw_op *op)
{
    tw_attr list = tw_op_attr(op, "params");
    size_t n = list ? list->u.array.n : 0;
    LLVMValueRef *items = TW_NEW_ARRAY(cg->arena, LLVMValueRef, n + 1);
    for (size_t i = 0; i < n; i++)
        items[i] = tw_cg_i64(cg, list->u.array.items[i]->u.integer);
    if (!n)
        return LLVMConstNull(cg->ptr);
    LLVMValueRef array = LLVMConstArray2(cg->i64, items, n);
    LLVMValueRef global = LLVMAddGlobal(cg->module, LLVMTypeOf(array), "params");
    LLVMSetInitializer(global, array);
    LLVMSetGlobalConstant(global, true);
    LLVMSetLinkage(global, LLVMPrivateLinkage);
    LLVMSetAlignment(global, 8);
    return global;
}

static LLVMValueRef call(tw_cg *cg, const tw_op *op, const values *in, const values *out)
{
    const char *name =
        tw_arena_printf(cg->arena, "%s%s", TW_ROUTINE_PREFIX, tw_op_string(op, "name", ""));
    LLVMTypeRef types[] = {cg->ptr, cg->ptr, cg->i32, cg->ptr, cg->i32, cg->ptr};
    LLVMTypeRef type = LLVMFunctionType(cg->i32, types, 6, false);
    LLVMValueRef f = LLVMGetNamedFunction(cg->module, name);
    if (!f)
        f = LLVMAddFunction(cg->module, name, type);
    LLVMValueRef args[] = {cg->fn->host,
                           in->list,
                           tw_cg_int(cg->i32, in->n),
                           out->list,
                           tw_cg_int(cg->i32, out->n),
                           params_of(cg, op)};
    return LLVMBuildCall2(cg->b, type, f, args, 6, "");
}

/* The sizes that the routine has set: those that define symbols, or the others. */
static void take_sizes(tw_cg *cg, const tw_op *op, const values *out, bool define)
{
    tw_attr symbols = tw_op_attr(op, "symbols");
    size_t n = 0;
    for (unsigned r = 0; r < op->n_results; r++)
        for (unsigned i = 0; i < op->results[r].type->rank; i++, n++) {
            const char *symbol = symbols ? symbols->u.array.items[n]->u.string.text : "";
            if (!*symbol == define)
                continue;
            LLVMValueRef at = tw_cg_offset(cg, out->dims, tw_cg_i64(cg, 8 * (int64_t)n));
            LLVMValueRef size = LLVMBuildLoad2(cg->b, cg->i64, at, "");
            if (define)
                tw_cg_define_symbol(cg, op, size, symbol);
            else
                tw_cg_require_size(cg, op, size, n, op->results[r].type->dims[i]);
        }
}

void tw_cg_routine(tw_cg *cg, tw_op *op)
{
    unsigned in_dims = 0, out_dims = 0;
    for (unsigned i = 0; i < op->n_operands; i++)
        in_dims += tw_operand(op, i)->type->rank;
    for (unsigned i = 0; i < op->n_results; i++)
        out_dims += op->results[i].type->rank;
    values in = new_values(cg, op->n_operands, in_dims);
    values out = new_values(cg, op->n_results, out_dims);
    for (unsigned i = 0; i < op->n_operands; i++)
        add_value(cg, op, &in, tw_operand(op, i)->type, tw_cg_use(cg, op, i), true);
    for (unsigned i = 0; i < op->n_results; i++)
        add_value(cg, op, &out, op->results[i].type, LLVMConstNull(cg->ptr), false);
    LLVMValueRef status = call(cg, op, &in, &out);
    for (unsigned i = 0; i < op->n_results; i++) { /* of a failed call as well: to be freed */
        LLVMValueRef at = field(cg, out.list, i, offsetof(tw_abi_value, data));
        tw_cg_frame_set(cg, &op->results[i], LLVMBuildLoad2(cg->b, cg->ptr, at, ""));
    }
    LLVMValueRef failed = LLVMBuildICmp(cg->b, LLVMIntNE, status, tw_cg_int(cg->i32, 0), "");
    tw_cg_return_at(cg, failed, status, tw_cg_where(cg, op));
    take_sizes(cg, op, &out, true);
    take_sizes(cg, op, &out, false); /* which may use what has just been defined */
}
