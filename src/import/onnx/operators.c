/* operators.c: the table of operators, from operators.def. */
#include "import/onnx/import.h"

#include <limits.h>
#include <string.h>

#define OP(domain, name, since, until, min_in, max_in, handler, param)                             \
    bool tw_onnx_op_##handler(tw_onnx_node *n);
#include "import/onnx/operators.def"
#undef OP

enum { NEWEST = INT_MAX, MANY = -1 };

#define OP(domain, name, since, until, min_in, max_in, handler, param)                             \
    {domain, name, since, until, min_in, max_in, tw_onnx_op_##handler, param},
static const tw_onnx_op table[] = {
#include "import/onnx/operators.def"
};
#undef OP

enum { N_OPERATORS = sizeof table / sizeof *table };

static int compare(const tw_onnx_op *row, const char *domain, const char *name, int64_t version)
{
    int order = strcmp(row->domain, domain);
    if (order == 0)
        order = strcmp(row->name, name);
    if (order == 0)
        order = row->until < version ? -1 : row->since > version ? 1 : 0;
    return order;
}

const tw_onnx_op *tw_onnx_find(const char *domain, const char *name, int64_t version)
{
    size_t low = 0, high = N_OPERATORS;
    while (low < high) {
        size_t middle = (low + high) / 2;
        int order = compare(&table[middle], domain, name, version);
        if (order == 0)
            return &table[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

bool tw_onnx_operators(size_t i, tw_onnx_operator *out)
{
    if (i >= N_OPERATORS)
        return false;
    const tw_onnx_op *row = &table[i];
    *out =
        (tw_onnx_operator){row->domain, row->name, row->since,
                           row->until == NEWEST && !*row->domain ? TW_ONNX_MAX_OPSET : row->until};
    return true;
}

const char *tw_onnx_domain(const char *domain)
{
    domain = tw_onnx_text(domain);
    return strcmp(domain, "ai.onnx") ? domain : "";
}

int64_t tw_onnx_opset(const tw_onnx_opsets *sets, const char *domain)
{
    for (size_t i = 0; i < sets->n; i++)
        if (!strcmp(tw_onnx_domain(sets->items[i]->domain), domain))
            return sets->items[i]->version;
    return 0;
}
