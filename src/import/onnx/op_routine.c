/* op_routine.c: operators that a routine of the runtime computes. */
#include "import/onnx/import.h"

#include <string.h>

bool tw_onnx_op_unique(tw_onnx_node *n)
{
    bool ok = true;
    unsigned axis = 0;
    tw_value *x = n->in[0], *out[4];
    tw_type type = x->type;
    bool flat = !tw_onnx_attr(n, "axis");
    int64_t given = tw_onnx_int(n, "axis", 0, &ok), sorted = tw_onnx_int(n, "sorted", 1, &ok);
    if (!ok || (!flat && !tw_onnx_axis(n, given, type->rank, &axis)) ||
        !tw_onnx_check_elem(n, 0, TW_ONNX_NUMBERS | 1 << TW_BOOL | 1 << TW_STRING))
        return false;
    tw_expr along = flat ? tw_gb_product(n->g, type->dims, type->rank) : type->dims[axis];
    tw_expr count = tw_onnx_new_size(n);
    tw_onnx_result results[4] = {{type->elem, flat ? 1 : type->rank, {count}},
                                 {TW_I64, 1, {count}},
                                 {TW_I64, 1, {along}},
                                 {TW_I64, 1, {count}}};
    for (unsigned i = 0; !flat && i < type->rank; i++)
        results[0].dims[i] = i == axis ? count : type->dims[i];
    if (!tw_onnx_routine(n, "unique", &x, 1, (int64_t[]){flat ? -1 : (int64_t)axis, sorted}, 2,
                         results, 4, out))
        return false;
    for (unsigned i = 0; i < 4; i++)
        tw_onnx_set(n, i, out[i]);
    return true;
}

/* What a file that cannot be decoded becomes is a picture without pixels, so sizes differ freely.
 */
bool tw_onnx_op_image_decoder(tw_onnx_node *n)
{
    static const char *const formats[] = {"RGB", "BGR", "Grayscale"};
    bool ok = true;
    int64_t format = 3;
    const char *name = tw_onnx_string(n, "pixel_format", "RGB", &ok);
    for (int i = 0; ok && i < 3; i++)
        if (!strcmp(name, formats[i]))
            format = i;
    if (!ok || !tw_onnx_check_elem(n, 0, 1 << TW_U8))
        return false;
    if (format == 3 || n->in[0]->type->rank != 1)
        return tw_onnx_error(n,
                             "input 0 is %s and pixel_format '%s'; a vector of bytes and RGB, BGR "
                             "or Grayscale are accepted",
                             tw_gb_type_text(n->g, n->in[0]->type), name);
    tw_expr height = tw_onnx_new_size(n), width = tw_onnx_new_size(n);
    tw_onnx_result result = {TW_U8, 3, {height, width, tw_gb_const(n->g, format == 2 ? 1 : 3)}};
    tw_value *out;
    return tw_onnx_routine(n, "image_decode", n->in, 1, &format, 1, &result, 1, &out) &&
           tw_onnx_set(n, 0, out);
}

/* A scalar of that type: input i, or what stands for one that is left out. */
static tw_value *scalar(tw_onnx_node *n, unsigned i, tw_elem elem, double absent)
{
    tw_value *v = tw_onnx_in(n, i);
    if (!v)
        return tw_gb_scalar(n->g, elem, absent);
    tw_expr count = tw_gb_product(n->g, v->type->dims, v->type->rank);
    if (tw_gb_differ(n->g, count, tw_gb_const(n->g, 1)) || v->type->elem != elem)
        return tw_gb_error(n->g, "input %u is %s; a scalar of %s is needed", i,
                           tw_gb_type_text(n->g, v->type), tw_elem_name(elem));
    return tw_gb_reshape(n->g, v, 0, NULL);
}

bool tw_onnx_op_non_max_suppression(tw_onnx_node *n)
{
    bool ok = true;
    int64_t centred = tw_onnx_int(n, "center_point_box", 0, &ok);
    tw_type boxes = n->in[0]->type, scores = n->in[1]->type;
    if (!ok || !tw_onnx_check_elem(n, 0, 1 << TW_F32) || !tw_onnx_check_elem(n, 1, 1 << TW_F32))
        return false;
    if (boxes->rank != 3 || scores->rank != 3 || centred < 0 || centred > 1)
        return tw_onnx_error(n, "boxes %s and scores %s; both have three axes",
                             tw_gb_type_text(n->g, boxes), tw_gb_type_text(n->g, scores));
    tw_value *operands[5] = {n->in[0], n->in[1], scalar(n, 2, TW_I64, 0), scalar(n, 3, TW_F32, 0),
                             scalar(n, 4, TW_F32, (double)-3.402823466e38f)};
    tw_onnx_result result = {TW_I64, 2, {tw_onnx_new_size(n), tw_gb_const(n->g, 3)}};
    tw_value *out;
    return tw_onnx_routine(n, "non_max_suppression", operands, 5, &centred, 1, &result, 1, &out) &&
           tw_onnx_set(n, 0, out);
}
