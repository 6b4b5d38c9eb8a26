/* shapes.c: types of the model's inputs, and declared types of other values.
 *
 * A dimension is a number, a named symbol, or nameless; nameless ones become symbols "x.dim0" of
 * their own. Options may fix inputs, and with them all symbols that occur there. */
#include "import/onnx/import.h"

#include "base/suggest.h"

#include <string.h>

static const Onnx__TypeProto__Tensor *tensor_type(const Onnx__ValueInfoProto *value)
{
    return value->type && value->type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE
               ? value->type->tensor_type
               : NULL;
}

/* The dimension's symbol; NULL when it has none. Exporters write "?" for what has no name. */
static const char *symbol_of(const Onnx__TensorShapeProto__Dimension *d)
{
    if (d->value_case != ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM)
        return NULL;
    return *d->dim_param && strcmp(d->dim_param, "?") ? d->dim_param : NULL;
}

static bool number_of(const Onnx__TensorShapeProto__Dimension *d, int64_t *out)
{
    *out = d->dim_value;
    return d->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE &&
           d->dim_value >= 0; /* exporters write -1 for an unknown size */
}

/* ---- Options ---- */

/* What an option says of a symbol. */
typedef struct binding {
    int64_t size;
    const char *input;
} binding;

const tw_import_shape *tw_onnx_given_shape(const tw_onnx *im, const char *name)
{
    for (size_t i = 0; i < im->options->n_shapes; i++)
        if (!strcmp(im->options->shapes[i].name, name))
            return &im->options->shapes[i];
    return NULL;
}

static bool bind(tw_onnx *im, const char *symbol, int64_t size, const char *input)
{
    binding *b = tw_map_get_str(&im->bound, symbol);
    if (b && b->size != size)
        return tw_error(im->ctx, im->loc,
                        "the shapes given for inputs '%s' and '%s' contradict each other: '%s' "
                        "would be %lld and %lld",
                        b->input, input, symbol, (long long)b->size, (long long)size);
    if (!b) {
        b = TW_NEW(im->arena, binding);
        *b = (binding){size, input};
        tw_map_put_str(&im->bound, symbol, b);
    }
    return true;
}

static bool bind_input(tw_onnx *im, const Onnx__ValueInfoProto *input, const tw_import_shape *given)
{
    const Onnx__TypeProto__Tensor *t = tensor_type(input);
    if (!t || !t->shape)
        return true;
    if (t->shape->n_dim != given->rank)
        return tw_error(im->ctx, im->loc,
                        "the shape given for input '%s' has %u dimensions, but the model declares "
                        "%zu",
                        given->name, given->rank, t->shape->n_dim);
    for (unsigned i = 0; i < given->rank; i++) {
        const Onnx__TensorShapeProto__Dimension *d = t->shape->dim[i];
        int64_t declared;
        if (given->dims[i] == -1)
            continue;
        if (given->dims[i] < 0)
            return tw_error(im->ctx, im->loc, "the shape given for input '%s' has the size %lld",
                            given->name, (long long)given->dims[i]);
        if (number_of(d, &declared) && declared != given->dims[i])
            return tw_error(im->ctx, im->loc,
                            "the shape given for input '%s' has %lld as dimension %u, but the "
                            "model declares %lld",
                            given->name, (long long)given->dims[i], i, (long long)declared);
        if (symbol_of(d) && !bind(im, symbol_of(d), given->dims[i], given->name))
            return false;
    }
    return true;
}

/* "; the inputs: 'a', 'b'", the first ones, and which may have been meant. */
static const char *inputs_text(tw_onnx *im, const Onnx__GraphProto *graph, const char *meant)
{
    enum { SHOWN = 8 };
    const char *text = "";
    for (size_t i = 0; i < graph->n_input && i < SHOWN; i++)
        text = tw_arena_printf(im->arena, "%s%s'%s'", text,
                               i ? ", " : "; the inputs: ", tw_onnx_text(graph->input[i]->name));
    if (graph->n_input > SHOWN)
        text = tw_arena_printf(im->arena, "%s, …", text);
    return meant ? tw_arena_printf(im->arena, "%s; did you mean '%s'?", text, meant) : text;
}

/* Whether "x[3]" is an element of the input x. */
static bool is_element(const char *name, const char *input, const Onnx__ValueInfoProto *info)
{
    size_t len = strlen(input);
    return !tensor_type(info) && !strncmp(name, input, len) && name[len] == '[';
}

bool tw_onnx_bind_shapes(tw_onnx *im, const Onnx__GraphProto *graph)
{
    im->bound = tw_map_make(im->arena);
    for (size_t k = 0; k < im->options->n_shapes; k++) {
        const tw_import_shape *given = &im->options->shapes[k];
        tw_suggestion near = {.name = given->name};
        bool found = false;
        for (size_t i = 0; i < graph->n_input; i++) {
            const char *name = tw_onnx_text(graph->input[i]->name);
            tw_suggest(&near, name);
            found = found || is_element(given->name, name, graph->input[i]);
            if (strcmp(name, given->name))
                continue;
            found = true;
            if (!bind_input(im, graph->input[i], given))
                return false;
        }
        if (!found)
            return tw_error(im->ctx, im->loc, "a shape is given for '%s', which is no input%s",
                            given->name, inputs_text(im, graph, near.best));
    }
    return true;
}

bool tw_onnx_open_inputs(tw_onnx *im, tw_onnx_scope *scope, const Onnx__GraphProto *graph)
{
    const tw_import_options *o = im->options;
    tw_map inputs = tw_map_make(im->arena);
    for (size_t i = 0; i < graph->n_input; i++)
        tw_map_put_str(&inputs, tw_onnx_text(graph->input[i]->name), graph->input[i]);
    for (size_t k = 0; k < o->n_values; k++)
        if (tw_map_get_str(&inputs, o->values[k].name))
            tw_map_put_str(&scope->initializers, o->values[k].name, NULL);
    for (size_t k = 0; k < o->n_open_inputs; k++) {
        tw_suggestion near = {.name = o->open_inputs[k]};
        bool found = tw_map_get_str(&inputs, near.name) != NULL;
        if (found)
            tw_map_put_str(&scope->initializers, near.name, NULL);
        for (size_t i = 0; !found && i < graph->n_input; i++) {
            const char *name = tw_onnx_text(graph->input[i]->name);
            tw_suggest(&near, name);
            found = is_element(near.name, name, graph->input[i]);
        }
        if (!found)
            return tw_error(im->ctx, im->loc, "the model has no input '%s'%s", near.name,
                            inputs_text(im, graph, near.best));
    }
    return true;
}

/* ---- Inputs ---- */

static tw_expr dimension(tw_onnx *im, const Onnx__ValueInfoProto *input,
                         const Onnx__TensorShapeProto__Dimension *d, const tw_import_shape *given,
                         unsigned i)
{
    int64_t number;
    if (given && given->dims[i] >= 0)
        return tw_expr_const(im->ctx, given->dims[i]);
    if (d && number_of(d, &number))
        return tw_expr_const(im->ctx, number);
    if (!d || !symbol_of(d))
        return tw_expr_sym(im->ctx, tw_arena_printf(im->arena, "%s.dim%u", input->name, i));
    const binding *b = tw_map_get_str(&im->bound, symbol_of(d));
    return b ? tw_expr_const(im->ctx, b->size) : tw_expr_sym(im->ctx, symbol_of(d));
}

static bool check_dimension(tw_onnx *im, const char *name,
                            const Onnx__TensorShapeProto__Dimension *d)
{
    if (d->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE && d->dim_value < -1)
        return tw_gb_error(&im->g, "input '%s' has the negative size %lld", name,
                           (long long)d->dim_value);
    return true;
}

tw_type tw_onnx_input_type(tw_onnx *im, const Onnx__ValueInfoProto *input)
{
    tw_expr dims[TW_MAX_RANK];
    tw_elem elem;
    const char *name = tw_onnx_text(input->name);
    const Onnx__TypeProto__Tensor *t = tensor_type(input);
    const tw_import_shape *given = tw_onnx_given_shape(im, name);
    if (!t)
        return tw_gb_error(&im->g, "input '%s' is no tensor; only tensors are supported", name);
    if (!tw_onnx_elem(t->elem_type, &elem))
        return tw_gb_error(&im->g, "input '%s' has element type %s (%d), which is not supported",
                           name, tw_onnx_elem_name(t->elem_type), t->elem_type);
    if (!t->shape && !given)
        return tw_gb_error(&im->g, "input '%s' has no shape; give one (--shape)", name);
    size_t rank = t->shape ? t->shape->n_dim : given->rank;
    if (rank > TW_MAX_RANK)
        return tw_gb_error(&im->g, "input '%s' has %zu dimensions; at most %d are supported", name,
                           rank, TW_MAX_RANK);
    for (unsigned i = 0; i < rank; i++) {
        if (t->shape && !check_dimension(im, name, t->shape->dim[i]))
            return NULL;
        dims[i] = dimension(im, input, t->shape ? t->shape->dim[i] : NULL, given, i);
    }
    return tw_type_tensor(im->ctx, elem, (unsigned)rank, dims, NULL);
}

bool tw_onnx_fixed_input(tw_onnx *im, const Onnx__ValueInfoProto *input, tw_value **value)
{
    *value = NULL;
    for (size_t i = 0; i < im->options->n_values; i++) {
        const tw_array *a = &im->options->values[i];
        if (strcmp(a->name, input->name))
            continue;
        tw_type type = tw_onnx_input_type(im, input);
        if (!type)
            return false;
        if (type->elem != a->elem)
            return tw_error(im->ctx, im->loc,
                            "the value given for input '%s' is %s, but the model declares %s",
                            a->name, tw_elem_name(a->elem), tw_elem_name(type->elem));
        type = tw_type_tensor_static(im->ctx, a->elem, a->rank, a->dims);
        *value = tw_gb_constant(&im->g, type, a->data, a->size, a->name);
        return true;
    }
    return true;
}

/* ---- Declared types ---- */

bool tw_onnx_check_declared(tw_onnx *im, const tw_onnx_scope *scope, const char *name,
                            const tw_value *value)
{
    const Onnx__ValueInfoProto *declared = tw_map_get_str(&scope->declared, name);
    const Onnx__TypeProto__Tensor *t = declared ? tensor_type(declared) : NULL;
    tw_elem elem;
    if (t && tw_onnx_as_bundle(value) && t->elem_type)
        return tw_gb_error(&im->g, "'%s' is declared to be a tensor, but is a sequence or optional",
                           name);
    if (!t || value->type->kind != TW_TYPE_TENSOR)
        return true;
    if (t->has_elem_type && t->elem_type &&
        (!tw_onnx_elem(t->elem_type, &elem) || elem != value->type->elem))
        return tw_gb_error(&im->g, "'%s' is declared to be of element type %s, but is %s", name,
                           tw_onnx_elem_name(t->elem_type), tw_gb_type_text(&im->g, value->type));
    if (!t->shape)
        return true;
    if (t->shape->n_dim != value->type->rank)
        return tw_gb_error(&im->g, "'%s' is declared to have %zu dimensions, but is %s", name,
                           t->shape->n_dim, tw_gb_type_text(&im->g, value->type));
    for (unsigned i = 0; i < value->type->rank; i++) {
        int64_t is, said;
        if (number_of(t->shape->dim[i], &said) && tw_expr_as_const(value->type->dims[i], &is) &&
            is != said)
            return tw_gb_error(&im->g, "'%s' is declared to have %lld as dimension %u, but is %s",
                               name, (long long)said, i, tw_gb_type_text(&im->g, value->type));
    }
    return true;
}
