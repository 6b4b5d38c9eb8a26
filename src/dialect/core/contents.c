/* contents.c: inputs and outputs of a function that are sequences or optionals.
 *
 *     func @main(%xs: tensor<u64>) attributes {
 *         input_contents = [{dims = [-1, 4], elem = "f32", kind = "sequence"}]} { … }
 *
 * Such a value is a handle; what it leads to is known while the model runs. Its entry in the list
 * says what the tensors inside are (sizes that are not fixed are -1; without `dims` they may have
 * any number of dimensions), and of which kind it is: "sequence", "optional", a tensor or nothing,
 * or "optional sequence". Tensors have a unit as entry. */
#include "dialect/core/core.h"

#include <string.h>

static const char *const kinds[] = {"", "sequence", "optional", "optional sequence"};

static tw_attr field(tw_attr dict, const char *name)
{
    for (size_t i = 0; i < dict->u.dict.n; i++)
        if (!strcmp(dict->u.dict.items[i].name, name))
            return dict->u.dict.items[i].value;
    return NULL;
}

static bool read_kind(tw_attr text, tw_core_contents *out)
{
    for (unsigned i = 1; text && text->kind == TW_ATTR_STRING && i < 4; i++)
        if (!strcmp(text->u.string.text, kinds[i])) {
            out->sequence = i & 1;
            out->optional = i & 2;
            return true;
        }
    return false;
}

static bool read_dims(tw_attr dims, tw_core_contents *out)
{
    out->any_rank = !dims;
    if (!dims)
        return true;
    if (dims->kind != TW_ATTR_ARRAY || dims->u.array.n > TW_MAX_RANK)
        return false;
    out->rank = (unsigned)dims->u.array.n;
    for (unsigned i = 0; i < out->rank; i++) {
        tw_attr size = dims->u.array.items[i];
        if (size->kind != TW_ATTR_INT || size->u.integer < -1)
            return false;
        out->dims[i] = size->u.integer;
    }
    return true;
}

/* False when the entry is none of the forms. */
static bool read_entry(tw_attr entry, tw_core_contents *out)
{
    *out = (tw_core_contents){.elem = TW_ELEM_COUNT};
    if (entry->kind == TW_ATTR_UNIT)
        return true;
    if (entry->kind != TW_ATTR_DICT)
        return false;
    tw_attr elem = field(entry, "elem");
    return read_kind(field(entry, "kind"), out) && read_dims(field(entry, "dims"), out) && elem &&
           elem->kind == TW_ATTR_STRING &&
           tw_elem_parse(elem->u.string.text, elem->u.string.len, &out->elem);
}

bool tw_core_contents_of(const tw_op *func, const char *list, unsigned i, tw_core_contents *out)
{
    tw_attr entries = tw_op_attr(func, list);
    return entries && i < entries->u.array.n && read_entry(entries->u.array.items[i], out) &&
           (out->sequence || out->optional);
}

tw_attr tw_core_contents_attr(tw_context *ctx, const tw_core_contents *c)
{
    tw_attr dims = c->any_rank ? NULL : tw_attr_ints(ctx, c->dims, c->rank);
    tw_named_attr fields[3] = {
        {"elem", tw_attr_string(ctx, tw_elem_name(c->elem))},
        {"kind", tw_attr_string(ctx, kinds[c->sequence + 2 * c->optional])},
        {"dims", dims},
    };
    return tw_attr_dict(ctx, fields, dims ? 3 : 2);
}

bool tw_core_verify_contents(tw_context *ctx, const tw_op *func, const char *list,
                             const tw_type *types, unsigned n)
{
    tw_attr entries = tw_op_attr(func, list);
    tw_core_contents c;
    bool good = !entries || entries->u.array.n == n;
    for (unsigned i = 0; good && entries && i < n; i++)
        good = read_entry(entries->u.array.items[i], &c) &&
               (entries->u.array.items[i]->kind == TW_ATTR_UNIT ||
                (types[i]->elem == TW_U64 && types[i]->rank == 0));
    return good || tw_error(ctx, func->loc,
                            "'%s' of func needs %u entries: unit, or {dims, elem, kind} for a "
                            "handle, which is a u64 scalar",
                            list, n);
}
