/* check_threads.c: check-threads: runs kernels on the interpreter's threads and looks at what they
 * do.
 *
 * Each kernel with loops bound to threads runs on made-up numbers, once on threads and once with
 * its loops one after another. Races, barriers that not all reach, and results that differ are
 * errors; of bank conflicts and accesses that are not coalesced warnings tell. */
#include "interp/check_threads.h"

#include "base/arena.h"
#include "dialect/loop/loop.h"
#include "interp/interp.h"
#include "ir/elem_data.h"
#include "ir/scalar.h"

#include <string.h>

static bool is_bound(const tw_op *op)
{
    return tw_is_loop(op, TW_LOOP_FOR) && tw_loop_is_bound(op);
}

/* Small whole numbers, for sums to be exact. */
static void fill(tw_elem elem, unsigned char *bytes, size_t n, unsigned *state)
{
    for (size_t i = 0; i < n; i++) {
        *state = *state * 1664525u + 1013904223u;
        int value = (int)(*state >> 28);
        tw_number number = {.integer = elem == TW_BOOL ? value & 1 : value};
        if (tw_elem_is_float(elem))
            number.real = value - 8;
        tw_scalar_store(elem, bytes, i, number);
    }
}

/* Memory for the kernel's arguments; NULL with a diagnostic. */
static tw_interp_buffer *make_arguments(tw_context *ctx, const tw_op *kernel)
{
    const tw_region *body = &kernel->regions[0];
    tw_interp_buffer *out = TW_NEW_ARRAY(tw_context_arena(ctx), tw_interp_buffer, body->n_args + 1);
    unsigned state = 1;
    for (unsigned i = 0; i < body->n_args; i++) {
        tw_type type = body->args[i]->type;
        int64_t count;
        if (type->kind != TW_TYPE_BUFFER || type->elem == TW_STRING ||
            !tw_type_static_count(type, &count) || count > 1 << 28 ||
            !tw_elem_bytes(type->elem, (size_t)count, &out[i].size)) {
            tw_error(ctx, kernel->loc, "check-threads: argument %u is no buffer of a known size",
                     i);
            return NULL;
        }
        out[i].data = tw_context_alloc(ctx, out[i].size + 1);
        fill(type->elem, out[i].data, (size_t)count, &state);
    }
    return out;
}

static bool check_kernel(tw_pass_run *pass, tw_op *kernel)
{
    tw_context *ctx = pass->ctx;
    unsigned n = kernel->regions[0].n_args;
    int64_t inputs = n - tw_op_int(kernel, "outputs", 0);
    tw_interp_buffer *a = make_arguments(ctx, kernel), *b = a ? make_arguments(ctx, kernel) : NULL;
    tw_interp_options plain = {.partial_outputs = true},
                      threads = {.partial_outputs = true, .threads = true};
    if (!b || !tw_interp_run(ctx, kernel, a, n, &plain) ||
        !tw_interp_run(ctx, kernel, b, n, &threads))
        return false;
    for (int64_t i = inputs; i < (int64_t)n; i++)
        if (memcmp(a[i].data, b[i].data, a[i].size) != 0)
            return tw_error(ctx, kernel->loc,
                            "check-threads: on threads argument %lld is not what it is without "
                            "(map-threads puts barriers)",
                            (long long)i);
    return true;
}

static bool run(tw_pass_run *pass)
{
    return tw_loop_collect(pass->ctx, pass->root, is_bound).n == 0 ||
           check_kernel(pass, pass->root);
}

const tw_pass tw_pass_check_threads = {
    .name = "check-threads",
    .summary = "run kernels bound to threads in the interpreter and report races and slow accesses",
    .anchor = "loop.kernel",
    .run = run,
};
