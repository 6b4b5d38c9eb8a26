/* main_graph.c: the main graph as a function: arguments, nodes, results, then what nothing uses is
 * dropped. */
#include "import/onnx/import.h"

#include "base/vec.h"
#include "dialect/core/core.h"
#include "ir/diag_mark.h"

/* ---- Arguments ---- */

static bool check_size(tw_onnx *im, const char *name, tw_type type)
{
    tw_diag_mark mark = tw_diag_mark_here(im->ctx);
    if (tw_gb_check_type(&im->g, type))
        return true;
    const tw_diagnostic *d = tw_diag_since(im->ctx, mark);
    const char *fault = d ? d->message : "it has no valid size";
    tw_diag_rewind(im->ctx, mark);
    return tw_error(im->ctx, im->loc, "input '%s': %s", name, fault);
}

static bool add_inputs(tw_onnx *im, tw_onnx_scope *scope, const Onnx__GraphProto *graph,
                       tw_region *body)
{
    im->g.b.loc = im->loc;
    for (size_t i = 0; i < graph->n_input; i++) {
        const Onnx__ValueInfoProto *input = graph->input[i];
        const char *name = tw_onnx_text(input->name);
        if (!*name)
            return tw_error(im->ctx, im->loc, "input %zu has no name", i);
        /* An initializer of the name is a default; old models list all theirs so. */
        if (tw_map_get_str(&scope->initializers, name))
            continue;
        tw_value *arg;
        if (!tw_onnx_bundle_input(im, input, body, &arg))
            return false;
        tw_type type = arg ? NULL : tw_onnx_input_type(im, input);
        if (arg) {
            tw_map_put_str(&scope->values, name, arg);
            continue;
        }
        if (!type || !check_size(im, name, type) || !tw_onnx_fixed_input(im, input, &arg))
            return false;
        if (!arg)
            arg = tw_region_add_arg(body, type, name);
        if (tw_map_put_str(&scope->values, name, arg))
            return tw_error(im->ctx, im->loc, "two inputs have the name '%s'", name);
    }
    return true;
}

/* Symbols of a size, in order, each once. */
static void add_symbols(tw_onnx *im, tw_expr size)
{
    if (size->kind == TW_EXPR_SYM && !tw_map_put_str(&im->size_names, size->symbol, im))
        tw_vec_push(im->arena, &im->input_sizes, tw_attr_string(im->ctx, size->symbol));
    if (size->lhs) {
        add_symbols(im, size->lhs);
        add_symbols(im, size->rhs);
    }
}

static void find_input_symbols(tw_onnx *im, const tw_region *body)
{
    im->size_names = tw_map_make(im->arena);
    im->open_sizes = tw_map_make(im->arena);
    for (unsigned i = 0; i < body->n_args; i++)
        for (unsigned d = 0; d < body->args[i]->type->rank; d++)
            add_symbols(im, body->args[i]->type->dims[d]);
}

/* When binds define symbols, the module says which they are: those behind the inputs'. */
static void list_symbols(tw_onnx *im, tw_op *module)
{
    size_t n = im->input_sizes.len;
    if (!im->sizes.len)
        return;
    for (size_t i = 0; i < im->sizes.len; i++)
        tw_vec_push(im->arena, &im->input_sizes, im->sizes.data[i]);
    tw_op_set_attr(module, "symbols",
                   tw_attr_array(im->ctx, im->input_sizes.data, im->input_sizes.len));
    tw_op_set_attr(module, "input_symbols", tw_attr_int(im->ctx, (int64_t)n));
}

static void declare(tw_onnx_scope *scope, Onnx__ValueInfoProto *const *infos, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (infos[i]->name)
            tw_map_put_str(&scope->declared, infos[i]->name, infos[i]);
}

/* ---- Results ---- */

typedef struct results {
    TW_VEC(tw_value *) values;
    TW_VEC(tw_attr) names, contents;
    bool handles; /* some are sequences or optionals */
    tw_map seen;
} results;

/* What is said of a handle to those who look at the model. */
static tw_attr content_attr(tw_onnx *im, const tw_onnx_content *content)
{
    tw_core_contents c = {.sequence = content->sequence,
                          .optional = content->optional,
                          .any_rank = content->rank < 0,
                          .elem = content->elem == TW_ELEM_COUNT ? TW_F32 : content->elem};
    c.rank = c.any_rank ? 0 : (unsigned)content->rank;
    for (unsigned d = 0; d < c.rank; d++)
        if (!content->dims[d] || !tw_expr_as_const(content->dims[d], &c.dims[d]))
            c.dims[d] = -1;
    return tw_core_contents_attr(im->ctx, &c);
}

static void push_result(tw_onnx *im, results *r, tw_value *value, const char *name,
                        const tw_onnx_content *content)
{
    tw_vec_push(im->arena, &r->values, value);
    tw_vec_push(im->arena, &r->names, tw_attr_string(im->ctx, name));
    tw_vec_push(im->arena, &r->contents,
                content ? content_attr(im, content) : tw_attr_unit(im->ctx));
    r->handles |= content != NULL;
}

/* A sequence y of known length gives outputs y[0], y[1] …; an optional none, or that of what it
 * holds. */
static void push_bundle(tw_onnx *im, results *r, tw_value *value, const char *name)
{
    const tw_onnx_bundle *b = tw_onnx_as_bundle(value);
    if (!b || b->handle)
        push_result(im, r, b ? b->handle : value, name, b ? &b->content : NULL);
    for (size_t i = 0; b && i < b->n; i++)
        push_bundle(im, r, b->items[i],
                    b->content.optional ? name : tw_onnx_element_name(im->arena, name, i));
}

/* The value as what the model declares it to be: what only the run knows to be there is checked. */
static tw_value *as_declared(tw_onnx *im, tw_onnx_scope *scope, tw_value *value, const char *name)
{
    const Onnx__ValueInfoProto *info = tw_map_get_str(&scope->declared, name);
    const tw_onnx_bundle *b = tw_onnx_as_bundle(value);
    if (!b || !b->handle || !b->content.optional || !info || !info->type ||
        info->type->value_case != ONNX__TYPE_PROTO__VALUE_SEQUENCE_TYPE)
        return value;
    tw_onnx_node n = {.im = im, .g = &im->g, .ctx = im->ctx, .scope = scope};
    tw_onnx_content content = b->content;
    tw_value *handle = b->handle;
    content.optional = false;
    return tw_onnx_held(im, &content, tw_onnx_handle_routine(&n, "held", &handle, 1, NULL, 0));
}

static bool add_result(tw_onnx *im, tw_onnx_scope *scope, results *r, const char *name,
                       const char *what)
{
    size_t errors = tw_error_count(im->ctx);
    tw_value *value = *name ? tw_onnx_lookup(im, scope, name) : NULL;
    if (!value)
        return tw_error_count(im->ctx) == errors
                   ? tw_error(im->ctx, im->loc, "nothing gives the %s '%s'", what, name)
                   : false;
    if (tw_map_put_str(&r->seen, name, value))
        return tw_error(im->ctx, im->loc, "two outputs have the name '%s'", name);
    value = as_declared(im, scope, value, name);
    if (!value)
        return false;
    push_bundle(im, r, value, name);
    return tw_onnx_check_declared(im, scope, name, value);
}

static bool add_results(tw_onnx *im, tw_onnx_scope *scope, const Onnx__GraphProto *graph,
                        results *r)
{
    im->g.b.loc = im->loc;
    r->seen = tw_map_make(im->arena);
    for (size_t i = 0; i < graph->n_output; i++)
        if (!add_result(im, scope, r, tw_onnx_text(graph->output[i]->name), "output"))
            return false;
    for (size_t i = 0; i < im->options->n_extra_outputs; i++)
        if (!tw_map_get_str(&r->seen, im->options->extra_outputs[i]) &&
            !add_result(im, scope, r, im->options->extra_outputs[i], "additional output"))
            return false;
    return r->seen.len > 0 || tw_error(im->ctx, im->loc, "the model has no outputs");
}

typedef struct op_list {
    tw_arena *arena;
    TW_VEC(tw_op *) ops;
} op_list;

static bool list_op(tw_op *op, void *data)
{
    op_list *list = data;
    tw_vec_push(list->arena, &list->ops, op);
    return true;
}

/* Operations that became superfluous: shape arithmetic, unused initializers. */
static void drop_unused(tw_onnx *im, tw_op *func)
{
    op_list all = {.arena = im->arena};
    tw_walk(func, list_op, &all);
    for (size_t k = all.ops.len; k-- > 1;) {
        tw_op *op = all.ops.data[k];
        bool used = !(op->def->traits & TW_TRAIT_PURE);
        for (unsigned i = 0; i < op->n_results; i++)
            used |= op->results[i].uses != NULL;
        if (!used)
            tw_op_erase(op);
    }
}

static tw_attr argument_names(tw_onnx *im, const tw_region *body)
{
    tw_attr *names = TW_NEW_ARRAY(im->arena, tw_attr, body->n_args);
    for (unsigned i = 0; i < body->n_args; i++)
        names[i] = tw_attr_string(im->ctx, body->args[i]->name);
    return tw_attr_array(im->ctx, names, body->n_args);
}

/* Which inputs are handles; NULL when none is. */
static tw_attr input_contents(tw_onnx *im, const tw_region *body)
{
    tw_attr *list = TW_NEW_ARRAY(im->arena, tw_attr, body->n_args);
    for (unsigned i = 0; i < body->n_args; i++) {
        const tw_onnx_bundle *b = tw_map_get_ptr(&im->handle_inputs, body->args[i]);
        list[i] = b ? content_attr(im, &b->content) : tw_attr_unit(im->ctx);
    }
    return im->handle_inputs.len ? tw_attr_array(im->ctx, list, body->n_args) : NULL;
}

bool tw_onnx_main(tw_onnx *im, tw_op *func)
{
    const Onnx__GraphProto *graph = im->model->graph;
    tw_region *body = tw_core_body(func);
    tw_onnx_scope scope = tw_onnx_scope_make(im, NULL, &im->opsets);
    results r = {0};
    declare(&scope, graph->value_info, graph->n_value_info);
    declare(&scope, graph->output, graph->n_output);
    im->handle_inputs = tw_map_make(im->arena);
    if (!tw_onnx_initializers(im, &scope, graph) || !tw_onnx_bind_shapes(im, graph) ||
        !tw_onnx_open_inputs(im, &scope, graph) || !add_inputs(im, &scope, graph, body))
        return false;
    find_input_symbols(im, body);
    if (!tw_onnx_nodes(im, &scope, graph->node, graph->n_node) ||
        !add_results(im, &scope, graph, &r))
        return false;
    list_symbols(im, tw_op_enclosing(func, &tw_core_ops[TW_CORE_MODULE]));
    im->g.b.loc = im->loc;
    tw_core_return(&im->g.b, r.values.data, (unsigned)r.values.len);
    tw_core_func_update_type(func);
    tw_op_set_attr(func, "input_names", argument_names(im, body));
    tw_op_set_attr(func, "output_names", tw_attr_array(im->ctx, r.names.data, r.names.len));
    tw_attr inputs = input_contents(im, body);
    if (inputs)
        tw_op_set_attr(func, "input_contents", inputs);
    if (r.handles)
        tw_op_set_attr(func, "output_contents",
                       tw_attr_array(im->ctx, r.contents.data, r.contents.len));
    drop_unused(im, func);
    return true;
}
