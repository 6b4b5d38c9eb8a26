/* attr.c: what handlers read: attributes, axes, and inputs whose values must be known. */
#include "import/onnx/import.h"

#include <string.h>

/* ---- Attributes ---- */

static const Onnx__AttributeProto *find(Onnx__AttributeProto *const *items, size_t n,
                                        const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(tw_onnx_text(items[i]->name), name))
            return items[i];
    return NULL;
}

const Onnx__AttributeProto *tw_onnx_attr(const tw_onnx_node *n, const char *name)
{
    const Onnx__AttributeProto *a = find(n->proto->attribute, n->proto->n_attribute, name);
    /* A reference is to the call of the function that the node is in; the attribute there may be a
     * reference again, to the call of the function that it is in. */
    for (const tw_onnx_call *call = n->scope->call; a && *tw_onnx_text(a->ref_attr_name);
         call = call->caller) {
        if (!call)
            return NULL;
        const char *to = a->ref_attr_name;
        a = find(call->node->attribute, call->node->n_attribute, to);
        if (!a)
            return find(call->function->attribute_proto, call->function->n_attribute_proto, to);
    }
    return a;
}

/* The attribute, checked to be of a type; old models leave the type out. */
static const Onnx__AttributeProto *typed(tw_onnx_node *n, const char *name,
                                         Onnx__AttributeProto__AttributeType type, const char *what,
                                         bool *ok)
{
    const Onnx__AttributeProto *a = tw_onnx_attr(n, name);
    if (!a || !a->has_type || a->type == type)
        return a;
    *ok = tw_onnx_error(n, "attribute '%s' must be %s", name, what);
    return NULL;
}

#define TYPED(n, name, type, what, ok)                                                             \
    typed(n, name, ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__##type, what, ok)

int64_t tw_onnx_int(tw_onnx_node *n, const char *name, int64_t absent, bool *ok)
{
    const Onnx__AttributeProto *a = TYPED(n, name, INT, "an integer", ok);
    return a ? a->i : absent;
}

double tw_onnx_float(tw_onnx_node *n, const char *name, double absent, bool *ok)
{
    const Onnx__AttributeProto *a = TYPED(n, name, FLOAT, "a floating-point number", ok);
    return a ? (double)a->f : absent;
}

const char *tw_onnx_string(tw_onnx_node *n, const char *name, const char *absent, bool *ok)
{
    const Onnx__AttributeProto *a = TYPED(n, name, STRING, "a string", ok);
    return a ? tw_arena_strndup(n->im->arena, (const char *)a->s.data, a->s.len) : absent;
}

const int64_t *tw_onnx_int_list(tw_onnx_node *n, const char *name, size_t *count, bool *ok)
{
    static const int64_t none[1];
    const Onnx__AttributeProto *a = TYPED(n, name, INTS, "a list of integers", ok);
    *count = a ? a->n_ints : 0;
    return !a ? NULL : a->n_ints ? a->ints : none;
}

const float *tw_onnx_float_list(tw_onnx_node *n, const char *name, size_t *count, bool *ok)
{
    static const float none[1];
    const Onnx__AttributeProto *a = TYPED(n, name, FLOATS, "a list of floating-point numbers", ok);
    *count = a ? a->n_floats : 0;
    return !a ? NULL : a->n_floats ? a->floats : none;
}

bool tw_onnx_max_outputs(tw_onnx_node *n, unsigned n_out)
{
    for (unsigned i = n_out; i < n->n_out; i++)
        if (tw_onnx_wants(n, i))
            return tw_onnx_error(n, "output %u ('%s') is not supported; the operator gives %u", i,
                                 n->proto->output[i], n_out);
    return true;
}

/* ---- Axes ---- */

bool tw_onnx_axis(tw_onnx_node *n, int64_t axis, unsigned rank, unsigned *out)
{
    if (axis < -(int64_t)rank || axis >= (int64_t)rank)
        return tw_onnx_error(n, "axis %lld is out of range for a tensor of rank %u",
                             (long long)axis, rank);
    *out = (unsigned)(axis < 0 ? axis + rank : axis);
    return true;
}

bool tw_onnx_axes(tw_onnx_node *n, const int64_t *axes, size_t count, unsigned rank, uint32_t *out)
{
    *out = 0;
    for (size_t i = 0; i < count; i++) {
        unsigned axis;
        if (!tw_onnx_axis(n, axes[i], rank, &axis))
            return false;
        if (*out >> axis & 1)
            return tw_onnx_error(n, "axis %lld occurs twice", (long long)axes[i]);
        *out |= 1u << axis;
    }
    return true;
}

bool tw_onnx_axes_operand(tw_onnx_node *n, unsigned i, int64_t since, unsigned rank, uint32_t *out,
                          bool *given)
{
    size_t count = 0;
    const int64_t *axes = NULL;
    bool ok = true;
    *out = 0;
    if (n->version < since) {
        axes = tw_onnx_int_list(n, "axes", &count, &ok);
        /* Operators made of one in older versions may come with a single number. */
        if (!ok)
            return false;
    } else if (tw_onnx_in(n, i)) {
        axes = tw_onnx_known_ints(n, i, &count);
        if (!axes)
            return false;
    }
    *given = axes != NULL;
    return tw_onnx_axes(n, axes, count, rank, out);
}

/* ---- Inputs ---- */

static void *not_known(tw_onnx_node *n, unsigned i)
{
    const char *name = i < n->n_in ? n->proto->input[i] : "";
    return tw_gb_error(n->g,
                       "input %u ('%s') determines a shape or an index, so its value must be known "
                       "when the model is compiled, but it depends on the model's data",
                       i, name);
}

bool tw_onnx_check_integers(tw_onnx_node *n, unsigned i)
{
    const tw_value *x = tw_onnx_in(n, i);
    return !x || tw_elem_is_int(x->type->elem) ||
           tw_onnx_error(n, "input %u ('%s') has element type %s; integers are needed", i,
                         n->proto->input[i], tw_elem_name(x->type->elem));
}

const int64_t *tw_onnx_known_ints(tw_onnx_node *n, unsigned i, size_t *count)
{
    if (!tw_onnx_check_integers(n, i))
        return NULL;
    const int64_t *ints = tw_known_ints(n->g, tw_onnx_in(n, i), count);
    return ints ? ints : not_known(n, i);
}

const tw_expr *tw_onnx_known_exprs(tw_onnx_node *n, unsigned i, size_t *count)
{
    if (!tw_onnx_check_integers(n, i))
        return NULL;
    const tw_expr *exprs = tw_known_exprs(n->g, tw_onnx_in(n, i), count);
    return exprs ? exprs : not_known(n, i);
}

const double *tw_onnx_known_reals(tw_onnx_node *n, unsigned i, size_t *count)
{
    const double *reals = tw_known_reals(n->g, tw_onnx_in(n, i), count);
    return reals ? reals : not_known(n, i);
}

bool tw_onnx_check_elem(tw_onnx_node *n, unsigned i, uint32_t allowed)
{
    const tw_value *x = tw_onnx_in(n, i);
    if (!x || allowed >> x->type->elem & 1)
        return true;
    const char *names = "";
    for (int e = 0; e < TW_ELEM_COUNT; e++)
        if (allowed >> e & 1)
            names = tw_arena_printf(n->im->arena, "%s%s%s", names, *names ? ", " : "",
                                    tw_elem_name((tw_elem)e));
    return tw_onnx_error(n, "input %u ('%s') has element type %s; accepted are %s", i,
                         n->proto->input[i], tw_elem_name(x->type->elem), names);
}
