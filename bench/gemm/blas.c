/* blas.c: matrix products of a BLAS library, whose cblas_sgemm gemm.py looks up. */
#include <stdlib.h>

typedef void sgemm_fn(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a,
                      int lda, const float *b, int ldb, float beta, float *c, int ldc);

typedef struct product {
    sgemm_fn *sgemm;
    int batch, m, n, k, ta, tb;
    const float *a, *b;
    float *c;
} product;

enum { ROW_MAJOR = 101, NO_TRANS = 111, TRANS = 112 };

void *blas_create(sgemm_fn *sgemm, int batch, int m, int n, int k, int ta, int tb, const float *a,
                  const float *b, float *c)
{
    product *p = malloc(sizeof *p);
    if (p)
        *p = (product){sgemm, batch, m, n, k, ta, tb, a, b, c};
    return p;
}

int blas_run(void *state)
{
    const product *p = state;
    for (long i = 0; i < p->batch; i++)
        p->sgemm(ROW_MAJOR, p->ta ? TRANS : NO_TRANS, p->tb ? TRANS : NO_TRANS, p->m, p->n, p->k, 1,
                 p->a + i * p->m * p->k, p->ta ? p->m : p->k, p->b + i * p->k * p->n,
                 p->tb ? p->k : p->n, 0, p->c + i * p->m * p->n, p->n);
    return 0;
}
