/* random_kernel.h: seeded random functions that become one or a few kernels, as text: element-wise
 * chains with broadcasts, matrix products and convolutions of odd sizes, windows, rows, reductions
 * over any axes, moved data. Sizes are 1 to 40, primes among them, few enough elements to be
 * interpreted often.
 *
 * Values are whole numbers and the operations of most families keep them so: sums are then exact in
 * any order, and results are compared bit by bit (`exact`). */
#ifndef TW_TESTS_RANDOM_KERNEL_H
#define TW_TESTS_RANDOM_KERNEL_H

#include "random_kernel_moves.h"
#include "random_kernel_sums.h"

static inline void random_kernel_make(random_kernel *r, uint64_t seed)
{
    static const struct {
        const char *name;
        rk_value (*make)(random_kernel *r);
    } families[] = {
        {"elementwise", rk_elementwise},
        {"matmul", rk_matmul},
        {"conv", rk_conv},
        {"moves", rk_moves},
        {"reduce", rk_reduce},
        {"softmax", rk_softmax},
        {"norm", rk_norm},
        {"pool", rk_pool},
        {"conv", rk_conv},
        {"moves", rk_moves},
        {"arg", rk_arg},
        {"packed", rk_packed_matmul},
        {"scan", rk_scan},
        {"deep", rk_deep},
        {"transposed", rk_conv_transpose},
        {"attention", rk_attention},
        {"heads", rk_heads},
        {"wide", rk_wide},
        {"elementwise", rk_elementwise},
        {"empty", rk_empty},
    };
    enum { FAMILIES = sizeof families / sizeof *families };
    *r = (random_kernel){.state = seed * 0x9e3779b97f4a7c15ull + 1, .seed = seed, .exact = true};
    r->points = rk_chance(r, 8) ? 24000 : 3000;
    r->family = families[seed % FAMILIES].name;
    rk_value v = families[seed % FAMILIES].make(r);
    if (v.input) /* a function computes something */
        v = rk_emit(r, v, "neg %s", rk_name(&v));
    bool two = r->extra.elem && r->extra.id != v.id;
    if (two)
        snprintf(r->text, sizeof r->text,
                 "module {\n  func @main(%s) -> (%s, %s) {\n%s    return %s, %s\n  }\n}\n",
                 r->inputs, rk_type(&r->extra), rk_type(&v), r->body, rk_name(&r->extra),
                 rk_name(&v));
    else
        snprintf(r->text, sizeof r->text,
                 "module {\n  func @main(%s) -> %s {\n%s    return %s\n  }\n}\n", r->inputs,
                 rk_type(&v), r->body, rk_name(&v));
}

#endif
