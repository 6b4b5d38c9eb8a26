/* onednn.c: matrix products of oneDNN as a primitive, both operands plain. */
#include <oneapi/dnnl/dnnl.h>
#include <stdlib.h>

typedef struct product {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    dnnl_primitive_t primitive;
    dnnl_exec_arg_t args[3];
} product;

static dnnl_memory_desc_t describe(int batch, int rows, int columns, int transposed, int type)
{
    dnnl_memory_desc_t d;
    if (batch == 1)
        dnnl_memory_desc_create_with_tag(&d, 2, (dnnl_dims_t){rows, columns}, type,
                                         transposed ? dnnl_ba : dnnl_ab);
    else
        dnnl_memory_desc_create_with_tag(&d, 3, (dnnl_dims_t){batch, rows, columns}, type,
                                         transposed ? dnnl_acb : dnnl_abc);
    return d;
}

static dnnl_memory_t memory(product *p, dnnl_memory_desc_t d, void *data)
{
    dnnl_memory_t m;
    return dnnl_memory_create(&m, d, p->engine, data) == dnnl_success ? m : NULL;
}

/* The types are oneDNN's dnnl_data_type_t. NULL when oneDNN has no such product. */
void *onednn_create(int batch, int m, int n, int k, int ta, int tb, int type_a, int type_b,
                    int type_c, void *a, void *b, void *c)
{
    product *p = calloc(1, sizeof *p);
    dnnl_memory_desc_t da = describe(batch, m, k, ta, type_a);
    dnnl_memory_desc_t db = describe(batch, k, n, tb, type_b);
    dnnl_memory_desc_t dc = describe(batch, m, n, 0, type_c);
    dnnl_primitive_desc_t pd;
    if (!p || dnnl_engine_create(&p->engine, dnnl_cpu, 0) != dnnl_success ||
        dnnl_stream_create(&p->stream, p->engine, dnnl_stream_default_flags) != dnnl_success ||
        dnnl_matmul_primitive_desc_create(&pd, p->engine, da, db, NULL, dc, NULL) != dnnl_success ||
        dnnl_primitive_create(&p->primitive, pd) != dnnl_success)
        return NULL;
    p->args[0] = (dnnl_exec_arg_t){DNNL_ARG_SRC, memory(p, da, a)};
    p->args[1] = (dnnl_exec_arg_t){DNNL_ARG_WEIGHTS, memory(p, db, b)};
    p->args[2] = (dnnl_exec_arg_t){DNNL_ARG_DST, memory(p, dc, c)};
    return p;
}

int onednn_run(void *state)
{
    product *p = state;
    return dnnl_primitive_execute(p->primitive, p->stream, 3, p->args) != dnnl_success ||
           dnnl_stream_wait(p->stream) != dnnl_success;
}
