/* session_sequence.c: sequences and optionals as inputs and outputs of a session. The model's code
 * gets and gives handles; before a run the inputs' tensors are put into the table of sequences,
 * after it all but the outputs' are dropped. */
#include "runtime/error.h"
#include "runtime/host.h"
#include "runtime/sequence.h"
#include "runtime/session.h"

#include <stdlib.h>
#include <string.h>

/* ---- Inputs ---------------------------------------------------------------------------------- */

static tw_status check_element(const tw_session *s, const tw_tensor_info *info, size_t k,
                               const tw_element *e)
{
    size_t bytes, align = tw_runtime_elem_bits(info->elem) / 8;
    if (info->any_rank ? e->rank > TW_ABI_MAX_RANK : e->rank != info->rank)
        return tw_fail(TW_STATUS_INVALID, "input '%s': element %zu has rank %u, not %u", info->name,
                       k, e->rank, info->any_rank ? TW_ABI_MAX_RANK : info->rank);
    for (unsigned d = 0; d < e->rank; d++) {
        int64_t fixed = info->any_rank ? -1 : info->dims[d];
        if (e->dims[d] < 0 || (fixed >= 0 && e->dims[d] != fixed))
            return tw_fail(TW_STATUS_INVALID,
                           "input '%s': dimension %u of element %zu is %lld, which should be %lld",
                           info->name, d, k, (long long)e->dims[d], (long long)fixed);
    }
    if (!tw_tensor_bytes(info->elem, e->dims, e->rank, &bytes))
        return tw_fail(TW_STATUS_INVALID, "input '%s': element %zu is too large", info->name, k);
    if (!e->data && bytes)
        return tw_fail(TW_STATUS_INVALID, "input '%s': element %zu has no data", info->name, k);
    if (!s->unaligned && align > 1 && (uintptr_t)e->data % align)
        return tw_fail(TW_STATUS_INVALID,
                       "input '%s': the data of element %zu is not aligned to %zu bytes",
                       info->name, k, align);
    return TW_STATUS_OK;
}

/* Copies of the descriptions, and their dims behind them; NULL: no memory. */
static tw_abi_value *describe(const tw_tensor_info *info, const tw_element *elements, size_t n)
{
    size_t dims = 0;
    for (size_t k = 0; k < n; k++)
        dims += elements[k].rank;
    tw_abi_value *values = calloc(1, n * sizeof *values + dims * sizeof(int64_t) + 1);
    int64_t *at = (int64_t *)(values + n);
    for (size_t k = 0; values && k < n; k++) {
        const tw_element *e = &elements[k];
        values[k] = (tw_abi_value){
            .data = (void *)(uintptr_t)e->data, .dims = at, .elem = info->elem, .rank = e->rank};
        for (unsigned d = 0; d < e->rank; d++)
            *at++ = e->dims[d];
    }
    return values;
}

static tw_status set(tw_session *s, size_t i, const tw_element *elements, size_t n, bool absent)
{
    const tw_tensor_info *info = tw_model_input(s->model, i);
    if (!info)
        return tw_fail(TW_STATUS_INVALID, "there is no input %zu: the model has %zu", i,
                       s->model->info.inputs);
    if (info->kind == TW_VALUE_TENSOR)
        return tw_fail(TW_STATUS_INVALID, "input '%s' is a tensor", info->name);
    if (absent && info->kind == TW_VALUE_SEQUENCE)
        return tw_fail(TW_STATUS_INVALID, "input '%s' is no optional", info->name);
    if (!absent && info->kind == TW_VALUE_OPTIONAL && n != 1)
        return tw_fail(TW_STATUS_INVALID, "input '%s' is one tensor or absent; %zu are given",
                       info->name, n);
    for (size_t k = 0; k < n; k++) {
        tw_status status = check_element(s, info, k, &elements[k]);
        if (status != TW_STATUS_OK)
            return status;
    }
    tw_abi_value *values = describe(info, elements, n);
    if (!values)
        return tw_fail_memory();
    tw_bound_input *in = &s->inputs[i];
    free(in->elements);
    in->elements = values;
    in->n_elements = n;
    in->absent = absent;
    in->data = &in->handle;
    return TW_STATUS_OK;
}

tw_status tw_session_set_input_sequence(tw_session *s, size_t i, const tw_element *elements,
                                        size_t n)
{
    return set(s, i, elements, n, false);
}

tw_status tw_session_set_input_absent(tw_session *s, size_t i)
{
    return set(s, i, NULL, 0, true);
}

/* ---- Around a run ---------------------------------------------------------------------------- */

static bool make_input(tw_session *s, tw_bound_input *in)
{
    tw_sequence made = {0};
    tw_abi_host *host = &s->host;
    tw_item **items = host->alloc(host, (in->n_elements + 1) * sizeof *items);
    if (!items)
        return host->error(host, 1, "out of memory"), false;
    size_t n = 0;
    for (; n < in->n_elements; n++)
        if (!(items[n] = tw_item_new(host, &in->elements[n], true)))
            break;
    in->handle = n == in->n_elements ? tw_sequence_insert(host, &made, 0, items, n) : 0;
    for (size_t k = 0; k < n; k++)
        tw_item_release(host, items[k]);
    host->free(host, items);
    return in->handle != 0;
}

bool tw_session_begin_sequences(tw_session *s)
{
    bool fine = true;
    for (size_t i = 0; fine && i < s->model->info.inputs; i++) {
        s->inputs[i].handle = 0;
        if (s->model->inputs[i].kind != TW_VALUE_TENSOR && !s->inputs[i].absent)
            fine = make_input(s, &s->inputs[i]);
    }
    return fine;
}

/* Data of inputs is the user's; outputs have copies. */
static bool own_items(tw_session *s, const tw_sequence *sequence)
{
    for (size_t k = 0; k < sequence->n; k++) {
        tw_item **place = &sequence->list->items[k];
        if (!(*place)->borrowed)
            continue;
        tw_item *copy = tw_item_copy(&s->host, &(*place)->value);
        if (!copy)
            return false;
        tw_item_release(&s->host, *place);
        *place = copy;
    }
    return true;
}

static bool finish_output(tw_session *s, size_t i)
{
    tw_sequence sequence;
    const tw_tensor_info *info = &s->model->outputs[i];
    uint64_t handle = *(const uint64_t *)s->outputs[i].data;
    if (!handle && info->kind != TW_VALUE_SEQUENCE)
        return true;
    return tw_sequence_find(&s->host, handle, &sequence) && own_items(s, &sequence);
}

bool tw_session_end_sequences(tw_session *s)
{
    uint32_t n = 0;
    bool fine = true;
    for (size_t i = 0; fine && i < s->model->info.outputs; i++)
        if (s->model->outputs[i].kind != TW_VALUE_TENSOR) {
            s->handles[n++] = s->outputs[i].data;
            fine = finish_output(s, i);
        }
    return fine && (!s->sequences || tw_sequences_keep(&s->host, 0, s->handles, n));
}

/* ---- Outputs --------------------------------------------------------------------------------- */

static bool find_output(const tw_session *s, size_t i, tw_sequence *out)
{
    if (!s->ran || i >= s->model->info.outputs || s->model->outputs[i].kind == TW_VALUE_TENSOR)
        return false;
    uint64_t handle = *(const uint64_t *)s->outputs[i].data;
    return handle && tw_sequence_find(&s->host, handle, out);
}

long tw_session_output_length(const tw_session *s, size_t i)
{
    tw_sequence sequence;
    return find_output(s, i, &sequence) ? (long)sequence.n : -1;
}

bool tw_session_output_element(const tw_session *s, size_t i, size_t k, tw_element *out)
{
    tw_sequence sequence;
    *out = (tw_element){0};
    if (!find_output(s, i, &sequence) || k >= sequence.n)
        return false;
    const tw_abi_value *v = &sequence.list->items[k]->value;
    *out = (tw_element){v->data, v->dims, v->rank};
    return true;
}
