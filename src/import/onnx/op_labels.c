/* op_labels.c: tables that elements are looked up in: LabelEncoder, CategoryMapper. */
#include "import/onnx/ml.h"

static tw_value *texts_of(tw_onnx_node *n, const char *name)
{
    const Onnx__AttributeProto *a = tw_onnx_attr(n, name);
    return tw_onnx_text_constant(n, a ? a->strings : NULL, a ? a->n_strings : 0, 1);
}

/* The values of the keys that the elements of x are, or the one for those that are no keys. */
static tw_value *look_up(tw_onnx_node *n, tw_value *keys, tw_value *values, tw_value *absent)
{
    tw_value *x = n->in[0], *out;
    if (!keys || !values || !absent)
        return NULL;
    tw_onnx_result result = {values->type->elem, x->type->rank, {NULL}};
    for (unsigned i = 0; i < x->type->rank; i++)
        result.dims[i] = x->type->dims[i];
    return tw_onnx_routine(n, "look_up", (tw_value *[]){x, keys, values, absent}, 4, NULL, 0,
                           &result, 1, &out)
               ? out
               : NULL;
}

/* ---- LabelEncoder ---- */

/* "keys" or "values" in one of their forms; NULL with an error. */
static tw_value *read_column(tw_onnx_node *n, const char *what)
{
    bool ok = true;
    size_t count;
    const char *texts = tw_arena_printf(n->im->arena, "%s_strings", what);
    const char *ints = tw_arena_printf(n->im->arena, "%s_int64s", what);
    const char *reals = tw_arena_printf(n->im->arena, "%s_floats", what);
    const Onnx__AttributeProto *tensor =
        tw_onnx_attr(n, tw_arena_printf(n->im->arena, "%s_tensor", what));
    if (tensor && tensor->t)
        return tw_onnx_tensor(n->im, tensor->t, "");
    if (tw_onnx_attr(n, texts))
        return texts_of(n, texts);
    if (tw_onnx_attr(n, ints)) {
        const int64_t *list = tw_onnx_int_list(n, ints, &count, &ok);
        return ok ? tw_gb_ints(n->g, list, count) : NULL;
    }
    if (tw_onnx_attr(n, reals)) {
        const float *list = tw_onnx_float_list(n, reals, &count, &ok);
        return ok ? tw_onnx_floats(n->g, list, count) : NULL;
    }
    return tw_gb_error(n->g, "there are no %s", what);
}

/* What elements become that are no keys. */
static tw_value *read_default(tw_onnx_node *n, tw_elem elem)
{
    bool ok = true;
    static const ProtobufCBinaryData unused = {7, (uint8_t *)"_Unused"};
    const Onnx__AttributeProto *tensor = tw_onnx_attr(n, "default_tensor");
    const Onnx__AttributeProto *text = tw_onnx_attr(n, "default_string");
    if (tensor && tensor->t)
        return tw_onnx_tensor(n->im, tensor->t, "");
    if (elem == TW_STRING)
        return tw_onnx_text_constant(n, text ? &text->s : &unused, 1, 0);
    double value = tw_elem_is_float(elem) ? tw_onnx_float(n, "default_float", 0, &ok)
                                          : (double)tw_onnx_int(n, "default_int64", -1, &ok);
    return ok ? tw_gb_scalar(n->g, elem, value) : NULL;
}

bool tw_onnx_op_label_encoder(tw_onnx_node *n)
{
    tw_value *x = n->in[0];
    tw_value *keys = read_column(n, "keys"), *values = keys ? read_column(n, "values") : NULL;
    tw_value *absent = values ? read_default(n, values->type->elem) : NULL;
    int64_t count = 0;
    if (!absent)
        return false;
    if (keys->type->elem != x->type->elem || absent->type->elem != values->type->elem ||
        !tw_type_static_count(absent->type, &count) || count != 1)
        return tw_onnx_error(n, "input %s, keys %s, values %s and default %s do not fit",
                             tw_gb_type_text(n->g, x->type), tw_gb_type_text(n->g, keys->type),
                             tw_gb_type_text(n->g, values->type),
                             tw_gb_type_text(n->g, absent->type));
    return tw_onnx_set(n, 0, look_up(n, keys, values, absent));
}

/* ---- Strings and their numbers ---- */

/* Strings become numbers or numbers strings, as x is one or the other. */
static bool translate(tw_onnx_node *n, const char *texts, tw_value *numbers)
{
    bool ok = true;
    static char unused[] = "_Unused";
    const ProtobufCBinaryData none = {sizeof unused - 1, (uint8_t *)unused};
    const Onnx__AttributeProto *other = tw_onnx_attr(n, "default_string");
    int64_t absent = tw_onnx_int(n, "default_int64", -1, &ok);
    bool is_text = n->in[0]->type->elem == TW_STRING;
    if (!ok || !tw_onnx_check_elem(n, 0, 1 << TW_STRING | 1 << TW_I64))
        return false;
    tw_value *text = texts_of(n, texts);
    tw_value *y = is_text ? look_up(n, text, numbers, tw_gb_scalar(n->g, TW_I64, (double)absent))
                          : look_up(n, numbers, text,
                                    tw_onnx_text_constant(n, other ? &other->s : &none, 1, 0));
    return tw_onnx_set(n, 0, y);
}

bool tw_onnx_op_category_mapper(tw_onnx_node *n)
{
    bool ok = true;
    size_t count;
    const Onnx__AttributeProto *texts = tw_onnx_attr(n, "cats_strings");
    const int64_t *numbers = tw_onnx_int_list(n, "cats_int64s", &count, &ok);
    size_t n_texts = texts ? texts->n_strings : 0;
    if (!ok || count == 0 || count != n_texts)
        return ok && tw_onnx_error(n, "%zu strings for %zu numbers", n_texts, count);
    return translate(n, "cats_strings", tw_gb_ints(n->g, numbers, count));
}

/* The first version: strings are numbered by their places in a list. */
bool tw_onnx_op_label_encoder_1(tw_onnx_node *n)
{
    const Onnx__AttributeProto *texts = tw_onnx_attr(n, "classes_strings");
    if (!texts || !texts->n_strings)
        return tw_onnx_error(n, "attribute 'classes_strings' is missing");
    tw_expr count = tw_gb_const(n->g, (int64_t)texts->n_strings);
    return translate(n, "classes_strings", tw_gb_iota(n->g, TW_I64, 1, &count, 0));
}
