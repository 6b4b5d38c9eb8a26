/* roots.c: poly.roots, an operation whose result has as many elements as the data decides. It is no
 * loop nest, so a routine computes it: a function that models call by name while they run.
 *
 *     %r = poly.roots %c {symbols = ["n"]} : tensor<n x f64>      %c: c0 + c1 t + c2 t^2 */
#include "poly.h"

#include <math.h>
#include <tilewright/runtime.h>

/* in: f64[3], out: f64[n], ascending. */
static int32_t roots(const tw_abi_host *host, const tw_abi_value *in, uint32_t n_in,
                     tw_abi_value *out, uint32_t n_out, const int64_t *params)
{
    const double *c = in[0].data;
    double found[2];
    int64_t n = 0;
    double inside = c[1] * c[1] - 4 * c[2] * c[0];
    (void)n_in, (void)n_out, (void)params;
    if (c[2] == 0 && c[1] != 0)
        found[n++] = -c[0] / c[1];
    else if (c[2] != 0 && inside >= 0)
        for (int sign = -1; sign <= (inside > 0); sign += 2)
            found[n++] = (-c[1] + (c[2] > 0 ? sign : -sign) * sqrt(inside)) / (2 * c[2]);
    out[0].dims[0] = n;
    double *data = out[0].data = host->alloc(host, (size_t)(n + 1) * sizeof *data);
    if (!data)
        return host->error(host, 1, "poly.roots: no memory");
    for (int64_t i = 0; i < n; i++)
        data[i] = found[i];
    return 0;
}

const tw_op_routine poly_roots_routine = {.name = "poly_roots"};

bool poly_register_roots(void)
{
    return tw_routine_register("tw_rt_poly_roots", roots) == TW_STATUS_OK;
}
