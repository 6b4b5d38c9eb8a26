/* values.c: from named arrays to a session and back. */
#include "driver/values.h"

#include "base/arena.h"
#include "base/vec.h"

#include <ctype.h>
#include <string.h>

static bool is_sequence(const tw_tensor_info *info)
{
    return info->kind & TW_VALUE_SEQUENCE;
}

static const char *element_name(tw_context *ctx, const char *name, size_t k)
{
    return tw_arena_printf(tw_context_arena(ctx), "%s[%zu]", name, k);
}

static const tw_array *element(tw_context *ctx, const tw_tensor_info *info, const tw_arrays *arrays,
                               size_t k)
{
    return tw_arrays_find(arrays, element_name(ctx, info->name, k));
}

bool tw_value_has(tw_context *ctx, const tw_tensor_info *info, const char *name)
{
    size_t len = strlen(info->name), k = 0;
    if (!is_sequence(info))
        return !strcmp(name, info->name);
    if (strncmp(name, info->name, len) != 0 || name[len] != '[')
        return false;
    for (const char *at = name + len + 1; isdigit((unsigned char)*at) && k < SIZE_MAX / 100; at++)
        k = k * 10 + (size_t)(*at - '0');
    return !strcmp(name + len, "[]") || !strcmp(name, element_name(ctx, info->name, k));
}

bool tw_value_given(tw_context *ctx, const tw_tensor_info *info, const tw_arrays *arrays)
{
    if (!is_sequence(info))
        return tw_arrays_find(arrays, info->name) || info->kind != TW_VALUE_TENSOR;
    const char *empty = tw_arena_printf(tw_context_arena(ctx), "%s[]", info->name);
    return element(ctx, info, arrays, 0) || tw_arrays_find(arrays, empty) ||
           info->kind != TW_VALUE_SEQUENCE;
}

static bool check_elem(tw_context *ctx, const tw_tensor_info *info, const tw_array *a)
{
    return a->elem == info->elem ||
           tw_error(ctx, NULL, "input '%s' is given as %s, but the model takes %s", a->name,
                    tw_elem_name(a->elem), tw_elem_name(info->elem));
}

static bool add_element(tw_context *ctx, const tw_tensor_info *info, const tw_array *a,
                        tw_element *out)
{
    *out = (tw_element){a->data, a->dims, a->rank};
    return check_elem(ctx, info, a);
}

/* Elements x[0] up to the first that is missing. */
static bool set_sequence(tw_context *ctx, tw_session *session, const tw_tensor_info *info, size_t i,
                         const tw_arrays *arrays)
{
    const tw_array *a;
    TW_VEC(tw_element) elements = {0};
    const char *empty = tw_arena_printf(tw_context_arena(ctx), "%s[]", info->name);
    for (size_t k = 0; (a = element(ctx, info, arrays, k)); k++) {
        tw_element e;
        if (!add_element(ctx, info, a, &e))
            return false;
        tw_vec_push(tw_context_arena(ctx), &elements, e);
    }
    bool absent =
        !elements.len && !tw_arrays_find(arrays, empty) && info->kind == TW_VALUE_OPTIONAL_SEQUENCE;
    tw_status status = absent
                           ? tw_session_set_input_absent(session, i)
                           : tw_session_set_input_sequence(session, i, elements.data, elements.len);
    return status == TW_STATUS_OK || tw_error(ctx, NULL, "%s", tw_last_error());
}

bool tw_set_input(tw_context *ctx, tw_session *session, const tw_model *model, size_t i,
                  const tw_arrays *arrays)
{
    const tw_tensor_info *info = tw_model_input(model, i);
    if (is_sequence(info))
        return set_sequence(ctx, session, info, i, arrays);
    const tw_array *a = tw_arrays_find(arrays, info->name);
    if (a && !check_elem(ctx, info, a))
        return false;
    tw_status status = a ? tw_session_set_input_shape(session, i, a->data, a->dims, a->rank)
                         : tw_session_set_input_absent(session, i);
    return status == TW_STATUS_OK || tw_error(ctx, NULL, "%s", tw_last_error());
}

tw_arrays tw_output_arrays(tw_context *ctx, const tw_session *session, const tw_model *model,
                           size_t i)
{
    tw_arena *arena = tw_context_arena(ctx);
    const tw_tensor_info *info = tw_model_output(model, i);
    long length = info->kind == TW_VALUE_TENSOR ? 1 : tw_session_output_length(session, i);
    size_t n = length < 0 ? 0 : (size_t)length;
    tw_arrays out = {TW_NEW_ARRAY(arena, tw_array, n + 1), n};
    if (!length) /* of a sequence */
        out.items[out.n++] = (tw_array){.name = tw_arena_printf(arena, "%s[]", info->name),
                                        .elem = info->elem,
                                        .rank = 1,
                                        .data = tw_context_alloc(ctx, 1)};
    for (size_t k = 0; k < n; k++) {
        tw_element e;
        tw_array *a = &out.items[k];
        if (info->kind == TW_VALUE_TENSOR)
            e = (tw_element){tw_session_output(session, i, NULL),
                             tw_session_output_dims(session, i), info->rank};
        else
            tw_session_output_element(session, i, k, &e);
        *a = (tw_array){.name = is_sequence(info) ? element_name(ctx, info->name, k) : info->name,
                        .elem = info->elem,
                        .rank = e.rank,
                        .data = (void *)(uintptr_t)e.data};
        if (e.rank)
            memcpy(a->dims, e.dims, e.rank * sizeof *e.dims);
        tw_array_size(a->elem, a->rank, a->dims, &a->size);
    }
    return out;
}
