/* routine.c: routines of the runtime in the interpreter. */
#include "interp/decode.h"

#include "runtime/routines.h"
#include "tilewright/runtime.h"

/* ---- A host with one thread that gives memory and takes messages ---- */

typedef struct routine_host {
    tw_abi_host host;
    tw_machine *m;
    const char *message; /* of the first error; NULL: none */
} routine_host;

/* Everything lives as long as the run. */
static void *allocate(const tw_abi_host *host, size_t size)
{
    routine_host *own = host->data;
    return tw_arena_alloc(own->m->arena, size);
}

static void release(const tw_abi_host *host, void *memory)
{
    (void)host;
    (void)memory;
}

static int32_t report(const tw_abi_host *host, int32_t code, const char *message)
{
    routine_host *own = host->data;
    if (code == 0)
        return 0; /* the machine says where */
    if (!own->message)
        own->message = tw_arena_strdup(own->m->arena, message);
    return code;
}

static void run_all(const tw_abi_host *host, int64_t count, tw_abi_body body, void *ctx)
{
    (void)host;
    if (count > 0)
        body(ctx, 0, count);
}

static routine_host new_host(tw_machine *m)
{
    return (routine_host){.host = {.version = TW_ABI_VERSION,
                                   .threads = 1,
                                   .parallel_for = run_all,
                                   .alloc = allocate,
                                   .free = release,
                                   .error = report,
                                   .keep = allocate,
                                   .run = &m->run},
                          .m = m};
}

/* ---- Running ---- */

static tw_abi_value value_of(const tw_membuf *buffer)
{
    size_t skip = buffer->offset * tw_elem_bits(buffer->elem) / 8;
    return (tw_abi_value){.data = (uint8_t *)buffer->data + skip,
                          .dims = (int64_t *)buffer->dims,
                          .elem = buffer->elem,
                          .rank = buffer->rank};
}

static void check_size(tw_machine *m, const tw_op *op, tw_expr wanted, size_t i, int64_t size)
{
    int64_t value;
    if (!tw_machine_size(m, wanted, &value) || value != size)
        tw_machine_fail(m, op, "%s: size %zu is %lld, not %s", tw_op_string(op, "what", "sizes"), i,
                        (long long)size, tw_print_expr(m->ctx, wanted, NULL));
}

/* Sizes that define symbols, then the others. */
static void take_sizes(tw_machine *m, const tw_op *op, const tw_abi_value *out)
{
    tw_attr symbols = tw_op_attr(op, "symbols");
    for (int define = 1; define >= 0; define--) {
        size_t n = 0;
        for (unsigned r = 0; r < op->n_results; r++)
            for (unsigned i = 0; i < out[r].rank; i++, n++) {
                const char *symbol = symbols ? symbols->u.array.items[n]->u.string.text : "";
                if (*symbol && define)
                    tw_machine_set_size(m, symbol, out[r].dims[i]);
                else if (!*symbol && !define)
                    check_size(m, op, op->results[r].type->dims[i], n, out[r].dims[i]);
            }
    }
}

static const int64_t *params_of(tw_machine *m, const tw_op *op)
{
    tw_attr list = tw_op_attr(op, "params");
    size_t n = list ? list->u.array.n : 0;
    int64_t *params = TW_NEW_ARRAY(m->arena, int64_t, n + 1);
    for (size_t i = 0; i < n; i++)
        params[i] = list->u.array.items[i]->u.integer;
    return params;
}

void tw_decode_routine(tw_decoder *d, const tw_op *op)
{
    tw_machine *m = d->m;
    routine_host host = new_host(m);
    host.host.data = &host;
    const char *name =
        tw_arena_printf(d->arena, "%s%s", TW_ROUTINE_PREFIX, tw_op_string(op, "name", ""));
    tw_abi_routine routine = tw_routine_find(name);
    tw_abi_value *in = TW_NEW_ARRAY(d->arena, tw_abi_value, op->n_operands + 1);
    tw_abi_value *out = TW_NEW_ARRAY(d->arena, tw_abi_value, op->n_results);
    if (!routine)
        tw_machine_fail(m, op, "there is no routine '%s'", name);
    for (unsigned i = 0; i < op->n_operands; i++)
        in[i] = value_of(tw_decode_buffer(d, op, tw_operand(op, i)));
    for (unsigned i = 0; i < op->n_results; i++) {
        tw_type type = op->results[i].type;
        out[i] = (tw_abi_value){.elem = type->elem,
                                .rank = type->rank,
                                .dims = TW_NEW_ARRAY(d->arena, int64_t, type->rank + 1)};
    }
    if (routine(&host.host, in, op->n_operands, out, op->n_results, params_of(m, op)))
        tw_machine_fail(m, op, "%s", host.message ? host.message : name);
    take_sizes(m, op, out);
    for (unsigned i = 0; i < op->n_results; i++)
        tw_decode_new_buffer(d, op, &op->results[i])->data = out[i].data;
}
