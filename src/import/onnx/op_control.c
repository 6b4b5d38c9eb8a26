/* op_control.c: control flow. A branch that is known to be taken is inlined. */
#include "import/onnx/import.h"

static const Onnx__GraphProto *branch(tw_onnx_node *n, const char *name)
{
    const Onnx__AttributeProto *a = tw_onnx_attr(n, name);
    return a && a->g ? a->g : tw_gb_error(n->g, "attribute '%s' must be a graph", name);
}

bool tw_onnx_op_if(tw_onnx_node *n)
{
    tw_expr condition;
    int64_t taken;
    const Onnx__GraphProto *yes = branch(n, "then_branch"), *no = branch(n, "else_branch");
    if (!yes || !no)
        return false;
    if (!tw_known_expr(n->g, n->in[0], &condition) || !tw_expr_as_const(condition, &taken))
        return tw_onnx_error(n,
                             "the condition '%s' depends on the model's data; only conditions "
                             "that are known when the model is compiled are supported",
                             n->proto->input[0]);
    return tw_onnx_inline_graph(n, taken ? yes : no, n->out);
}
