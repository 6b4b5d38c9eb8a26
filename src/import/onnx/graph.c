/* graph.c: nodes of a graph in order: inputs looked up, handlers called, outputs bound. */
#include "import/onnx/import.h"
#include "ir/diag_mark.h"

#include <string.h>

enum { DEFAULT_MAX_NODES = 250000, MAX_GRAPH_DEPTH = 64 };

tw_onnx_scope tw_onnx_scope_make(tw_onnx *im, tw_onnx_scope *parent, const tw_onnx_opsets *opsets)
{
    return (tw_onnx_scope){.parent = parent,
                           .region = im->g.b.region,
                           .values = tw_map_make(im->arena),
                           .declared = tw_map_make(im->arena),
                           .initializers = tw_map_make(im->arena),
                           .opsets = opsets,
                           .call = parent ? parent->call : NULL};
}

const char *tw_onnx_node_text(tw_onnx *im, const Onnx__NodeProto *node)
{
    const char *domain = tw_onnx_domain(node->domain), *type = tw_onnx_text(node->op_type);
    if (*domain)
        type = tw_arena_printf(im->arena, "%s::%s", domain, type);
    if (*tw_onnx_text(node->name))
        return tw_arena_printf(im->arena, "%s '%s'", type, node->name);
    for (size_t i = 0; i < node->n_output; i++)
        if (*node->output[i])
            return tw_arena_printf(im->arena, "%s (of '%s')", type, node->output[i]);
    return type;
}

/* ---- Names ---- */

/* In the scope's own region, where all that see the name see the value: before the operation whose
 * inner graph is being imported, if there is one. */
static tw_value *make_initializer(tw_onnx *im, tw_onnx_scope *scope, const Onnx__TensorProto *t)
{
    tw_builder here = im->g.b;
    while (im->g.b.region != scope->region) {
        im->g.b.before = im->g.b.region->parent;
        im->g.b.region = im->g.b.before->region;
    }
    im->g.b.loc = im->loc;
    const Onnx__SparseTensorProto *sparse = tw_map_get_ptr(&im->sparse, t);
    tw_value *value = sparse ? tw_onnx_sparse_tensor(im, sparse, t->name)
                             : tw_onnx_tensor(im, t, tw_onnx_text(t->name));
    im->g.b = here;
    if (value) {
        tw_value_set_name(value, t->name);
        tw_map_put_str(&scope->values, t->name, value);
    }
    return value;
}

/* The value; NULL with *failed when making its initializer failed. */
static tw_value *look_up(tw_onnx *im, tw_onnx_scope *scope, const char *name, bool *failed)
{
    for (; scope; scope = scope->parent) {
        tw_value *value = tw_map_get_str(&scope->values, name);
        if (value)
            return value;
        const Onnx__TensorProto *t = tw_map_get_str(&scope->initializers, name);
        if (t) {
            value = make_initializer(im, scope, t);
            *failed = !value;
            return value;
        }
    }
    return NULL;
}

tw_value *tw_onnx_lookup(tw_onnx *im, tw_onnx_scope *scope, const char *name)
{
    bool failed = false;
    return look_up(im, scope, name, &failed);
}

static bool add_initializer(tw_onnx *im, tw_onnx_scope *scope, Onnx__TensorProto *t, size_t i)
{
    if (!*tw_onnx_text(t->name))
        return tw_error(im->ctx, im->loc, "initializer %zu has no name", i);
    if (!tw_onnx_check_written(im, t))
        return false;
    if (tw_map_put_str(&scope->initializers, t->name, t))
        return tw_error(im->ctx, im->loc, "two initializers have the name '%s'", t->name);
    return true;
}

bool tw_onnx_initializers(tw_onnx *im, tw_onnx_scope *scope, const Onnx__GraphProto *graph)
{
    for (size_t i = 0; i < graph->n_initializer; i++)
        if (!add_initializer(im, scope, graph->initializer[i], i))
            return false;
    for (size_t i = 0; i < graph->n_sparse_initializer; i++) {
        const Onnx__SparseTensorProto *sparse = graph->sparse_initializer[i];
        if (!sparse->values)
            return tw_error(im->ctx, im->loc, "sparse initializer %zu has no values", i);
        tw_map_put_ptr(&im->sparse, sparse->values, (void *)sparse);
        if (!add_initializer(im, scope, sparse->values, i))
            return false;
    }
    return true;
}

/* ---- One node ---- */

/* An error that no choice of data or sizes makes up for. */
#define malformed(n, ...) ((n)->im->malformed = true, tw_onnx_error(n, __VA_ARGS__))

/* Whether the name is an input of the function being inlined, which the call leaves out. */
static bool is_absent_argument(const tw_onnx_scope *scope, const char *name)
{
    const Onnx__FunctionProto *f = scope->call ? scope->call->function : NULL;
    for (size_t i = 0; f && i < f->n_input; i++)
        if (!strcmp(f->input[i], name))
            return true;
    return false;
}

static bool gather_inputs(tw_onnx_node *n)
{
    n->n_in = (unsigned)n->proto->n_input;
    n->in = TW_NEW_ARRAY(n->im->arena, tw_value *, n->n_in);
    for (unsigned i = 0; i < n->n_in; i++) {
        const char *name = n->proto->input[i];
        bool failed = false;
        if (!*name)
            continue;
        n->in[i] = look_up(n->im, n->scope, name, &failed);
        if (!n->in[i] && !is_absent_argument(n->scope, name))
            return !failed && malformed(n,
                                        "input %u: nothing before this node gives '%s'; "
                                        "nodes must be sorted and free of cycles",
                                        i, name);
    }
    return true;
}

/* Operators that work on sequences and optionals, or hand them on. */
static bool takes_bundles(const tw_onnx_op *op)
{
    static const char *const names[] = {"ConcatFromSequence",
                                        "Identity",
                                        "If",
                                        "Loop",
                                        "Optional",
                                        "OptionalGetElement",
                                        "OptionalHasElement",
                                        "SequenceAt",
                                        "SequenceConstruct",
                                        "SequenceErase",
                                        "SequenceInsert",
                                        "SequenceLength",
                                        "SequenceMap"};
    bool found = false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        found |= !*op->domain && !strcmp(op->name, names[i]);
    return found;
}

static bool check_inputs(tw_onnx_node *n)
{
    for (unsigned i = 0; i < n->n_in; i++)
        if (n->in[i] && tw_onnx_as_bundle(n->in[i]) && !takes_bundles(n->op))
            return tw_onnx_error(n, "input %u ('%s') is a sequence or optional, not a tensor", i,
                                 n->proto->input[i]);
    return true;
}

static bool check_input_count(tw_onnx_node *n)
{
    int most = n->op->max_in < 0 ? (int)n->n_in : n->op->max_in;
    if ((int)n->n_in > most)
        return malformed(n, "%u inputs; at most %d are accepted", n->n_in, most);
    for (int i = 0; i < n->op->min_in; i++)
        if (!tw_onnx_in(n, (unsigned)i))
            return malformed(n, "input %d is missing; %d %s needed", i, n->op->min_in,
                             n->op->min_in > 1 ? "are" : "is");
    return true;
}

static bool bind_outputs(tw_onnx_node *n)
{
    for (unsigned i = 0; i < n->n_out; i++) {
        const char *name = n->proto->output[i];
        if (!*name)
            continue;
        if (!n->out[i])
            return tw_onnx_error(n, "output %u ('%s') is not supported", i, name);
        if (tw_map_get_str(&n->scope->values, name) ||
            tw_map_get_str(&n->scope->initializers, name))
            return malformed(n, "output %u: the name '%s' is taken already", i, name);
        tw_map_put_str(&n->scope->values, name, n->out[i]);
        if (n->im->unknown && n->out[i] == &n->im->unknown->value)
            continue;
        if (!n->out[i]->name && !tw_onnx_as_bundle(n->out[i]))
            tw_value_set_name(n->out[i], name);
        if (!tw_onnx_check_declared(n->im, n->scope, name, n->out[i]))
            return false;
    }
    return true;
}

static bool count_node(tw_onnx *im)
{
    int64_t most = im->options->max_nodes ? im->options->max_nodes : DEFAULT_MAX_NODES;
    return im->nodes++ < most ||
           tw_gb_error(&im->g, "the model has more than %lld nodes when its functions are inlined",
                       (long long)most);
}

/* "F 'f' / G 'g' / Relu 'r'"; of deep calls the outer ones and the node itself, for all nodes of a
 * large model have such a text. */
static const char *text_in_call(tw_onnx *im, const tw_onnx_call *call, const char *text)
{
    enum { SHOWN_CALLS = 8 };
    bool deep = call->depth >= SHOWN_CALLS;
    while (call->depth >= SHOWN_CALLS)
        call = call->caller;
    return tw_arena_printf(im->arena, "%s / %s%s", call->text, deep ? "... / " : "", text);
}

/* Whether an input is a value that a trial does not know. */
static bool uses_unknown(const tw_onnx_node *n)
{
    bool uses = false;
    for (unsigned i = 0; n->im->unknown && i < n->n_in; i++)
        uses |= n->in[i] == &n->im->unknown->value;
    return uses;
}

/* What the node gives is not known either, but for what its handler has said. */
static bool give_unknown(tw_onnx_node *n)
{
    for (unsigned i = 0; i < n->n_out; i++)
        n->out[i] = n->out[i] ? n->out[i] : tw_onnx_unknown(n);
    return bind_outputs(n);
}

static bool import_node(tw_onnx *im, tw_onnx_scope *scope, const Onnx__NodeProto *proto)
{
    const char *domain = tw_onnx_domain(proto->domain), *text = tw_onnx_node_text(im, proto);
    tw_onnx_node n = {.im = im,
                      .g = &im->g,
                      .ctx = im->ctx,
                      .scope = scope,
                      .proto = proto,
                      .version = tw_onnx_opset(scope->opsets, domain),
                      .unknowns = im->unknowns,
                      .n_out = (unsigned)proto->n_output};
    if (scope->call)
        text = text_in_call(im, scope->call, text);
    im->g.b.loc = tw_loc_node(im->ctx, im->file, text);
    if (!count_node(im) || !gather_inputs(&n))
        return false;
    n.out = TW_NEW_ARRAY(im->arena, tw_value *, n.n_out + 1);
    const Onnx__FunctionProto *function = tw_onnx_function(im, proto);
    if (function) {
        tw_loc loc = im->g.b.loc;
        bool ok = tw_onnx_inline_function(&n, function);
        im->g.b.loc = loc;
        return ok && bind_outputs(&n);
    }
    n.op = tw_onnx_find(domain, tw_onnx_text(proto->op_type), n.version);
    if (!n.op)
        return tw_onnx_error(&n, "unknown operator");
    if (uses_unknown(&n))
        return give_unknown(&n);
    size_t errors = tw_error_count(im->ctx);
    tw_diag_mark mark = tw_diag_mark_here(im->ctx);
    tw_builder here = im->g.b;
    if (check_input_count(&n) && check_inputs(&n) && n.op->handler(&n) && bind_outputs(&n))
        return true;
    if (tw_onnx_met_unknown(&n) && !im->malformed) {
        tw_diag_rewind(im->ctx, mark);
        im->g.b = here;
        return give_unknown(&n);
    }
    /* Whatever a handler refuses, the node is named. */
    return tw_error_count(im->ctx) == errors &&
           tw_onnx_error(&n, "this form of the operator is not supported");
}

bool tw_onnx_nodes(tw_onnx *im, tw_onnx_scope *scope, Onnx__NodeProto *const *nodes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!import_node(im, scope, nodes[i]))
            return false;
    return true;
}

/* ---- Subgraphs and functions ---- */

bool tw_onnx_inline_graph(tw_onnx_node *n, const Onnx__GraphProto *graph, tw_value *const *in,
                          size_t n_in, tw_value **out)
{
    tw_onnx *im = n->im;
    tw_onnx_scope scope = tw_onnx_scope_make(im, n->scope, n->scope->opsets);
    if (graph->n_input != n_in)
        return malformed(n, "an inner graph with %zu inputs; %zu are needed", graph->n_input, n_in);
    for (size_t i = 0; i < n_in; i++)
        if (tw_map_put_str(&scope.values, tw_onnx_text(graph->input[i]->name), in[i]))
            return malformed(n, "an inner graph with two inputs '%s'", graph->input[i]->name);
    tw_loc loc = im->g.b.loc;
    if (!tw_onnx_initializers(im, &scope, graph) ||
        !tw_onnx_nodes(im, &scope, graph->node, graph->n_node))
        return false;
    im->g.b.loc = loc;
    for (size_t i = 0; i < graph->n_output; i++) {
        const char *name = tw_onnx_text(graph->output[i]->name);
        bool failed = false;
        out[i] = look_up(im, &scope, name, &failed);
        if (!out[i])
            return !failed && malformed(n, "the inner graph does not define its output '%s'", name);
    }
    return !tw_onnx_met_unknown(n);
}

static const char *function_key(tw_onnx *im, const char *domain, const char *name,
                                const char *overload)
{
    return tw_arena_printf(im->arena, "%s\n%s\n%s", tw_onnx_domain(domain), tw_onnx_text(name),
                           tw_onnx_text(overload));
}

bool tw_onnx_functions(tw_onnx *im)
{
    im->functions = tw_map_make(im->arena);
    for (size_t i = 0; i < im->model->n_functions; i++) {
        Onnx__FunctionProto *f = im->model->functions[i];
        if (tw_map_put_str(&im->functions, function_key(im, f->domain, f->name, f->overload), f))
            return tw_error(im->ctx, im->loc, "two functions have the name '%s'",
                            tw_onnx_text(f->name));
    }
    return true;
}

const Onnx__FunctionProto *tw_onnx_function(tw_onnx *im, const Onnx__NodeProto *node)
{
    if (im->functions.len == 0)
        return NULL;
    return tw_map_get_str(&im->functions,
                          function_key(im, node->domain, node->op_type, node->overload));
}

static bool may_call(tw_onnx_node *n, const Onnx__FunctionProto *f)
{
    unsigned depth = 0;
    for (const tw_onnx_call *c = n->scope->call; c; c = c->caller, depth++)
        if (c->function == f)
            return tw_onnx_error(n, "function '%s' calls itself", tw_onnx_text(f->name));
    if (depth == MAX_GRAPH_DEPTH)
        return tw_onnx_error(n, "functions call each other deeper than %d levels", MAX_GRAPH_DEPTH);
    if (n->n_in > f->n_input || n->n_out > f->n_output)
        return tw_onnx_error(n,
                             "a call with %u inputs and %u outputs of a function that has %zu and "
                             "%zu",
                             n->n_in, n->n_out, f->n_input, f->n_output);
    return true;
}

bool tw_onnx_inline_function(tw_onnx_node *n, const Onnx__FunctionProto *f)
{
    tw_onnx *im = n->im;
    if (!may_call(n, f))
        return false;
    tw_onnx_opsets sets = {f->opset_import, f->n_opset_import};
    tw_onnx_call call = {.caller = n->scope->call,
                         .function = f,
                         .node = n->proto,
                         .text = im->g.b.loc->node,
                         .depth = n->scope->call ? n->scope->call->depth + 1 : 0};
    tw_onnx_scope scope = tw_onnx_scope_make(im, NULL, sets.n ? &sets : &im->opsets);
    scope.call = &call;
    for (unsigned i = 0; i < n->n_in; i++)
        if (n->in[i])
            tw_map_put_str(&scope.values, f->input[i], n->in[i]);
    if (!tw_onnx_nodes(im, &scope, f->node, f->n_node))
        return false;
    for (unsigned i = 0; i < n->n_out; i++) {
        n->out[i] = tw_map_get_str(&scope.values, f->output[i]);
        if (!n->out[i] && tw_onnx_wants(n, i))
            return tw_onnx_error(n, "function '%s' does not define its output '%s'",
                                 tw_onnx_text(f->name), f->output[i]);
    }
    return true;
}
