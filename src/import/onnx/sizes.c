/* sizes.c: sizes that the model computes while it runs.
 *
 * Where an operator takes sizes from a tensor whose elements are not known while importing, small
 * integer operations make plain sizes of them (not negative, all special values resolved), and a
 * bind gives these to the types of what follows:
 *
 *     %d = …                                    the sizes, as an i64 vector
 *     graph.bind %d {symbols = ["y.0", ""], expect = ()[] -> (y.0, 64)}
 *     %y = graph.reshape %x : tensor<y.0 x 64 x f32>
 *
 * A size that the model declares as a number is taken at its word; running checks it. */
#include "import/onnx/import.h"

#include <limits.h>
#include <string.h>

/* ---- Declared sizes ---- */

static const Onnx__TensorShapeProto *declared_shape(tw_onnx_node *n, unsigned out)
{
    const char *name = out < n->n_out ? n->proto->output[out] : "";
    const Onnx__ValueInfoProto *info = tw_map_get_str(&n->scope->declared, name);
    const Onnx__TypeProto *type = info ? info->type : NULL;
    return type && type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE
               ? type->tensor_type->shape
               : NULL;
}

unsigned tw_onnx_declared_rank(tw_onnx_node *n, unsigned out)
{
    const Onnx__TensorShapeProto *shape = declared_shape(n, out);
    return shape ? (unsigned)shape->n_dim : UINT_MAX;
}

void tw_onnx_declared_dims(tw_onnx_node *n, unsigned out, unsigned rank, tw_expr *dims)
{
    const Onnx__TensorShapeProto *shape = declared_shape(n, out);
    for (unsigned i = 0; i < rank; i++) {
        const Onnx__TensorShapeProto__Dimension *d =
            shape && shape->n_dim == rank ? shape->dim[i] : NULL;
        bool number = d && d->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
        dims[i] = number && d->dim_value >= 0 ? tw_gb_const(n->g, d->dim_value) : NULL;
    }
}

/* ---- Sizes that inputs must have ---- */

bool tw_onnx_sized(tw_onnx_node *n, unsigned i, unsigned rank, const tw_expr *dims, tw_value **out)
{
    tw_gb *g = n->g;
    tw_value *v = tw_onnx_in(n, i);
    *out = v;
    if (!v)
        return true;
    tw_expr all[TW_MAX_RANK];
    bool fits = v->type->rank == rank;
    for (unsigned a = 0; fits && a < rank; a++) {
        all[a] = dims[a] ? dims[a] : v->type->dims[a];
        fits = !tw_gb_differ(g, v->type->dims[a], all[a]);
    }
    if (!fits) {
        for (unsigned a = 0; a < rank; a++)
            all[a] = dims[a] ? dims[a] : tw_expr_sym(n->ctx, "any");
        return tw_onnx_error(
            n, "input %u is %s; %s is needed", i, tw_gb_type_text(g, v->type),
            tw_gb_type_text(g, tw_type_tensor(n->ctx, v->type->elem, rank, all, NULL)));
    }
    const char *what = tw_arena_printf(g->arena, "sizes of input %u", i);
    for (unsigned a = 0; a < rank; a++)
        if (!tw_gb_check_equal(g, v->type->dims[a], all[a], what))
            return false;
    *out = tw_gb_conform(g, v, all);
    return *out != NULL;
}

/* ---- Binds ---- */

/* A name that no other size has. */
static const char *new_symbol(tw_onnx_node *n, size_t i)
{
    tw_onnx *im = n->im;
    const char *base = n->n_out && *n->proto->output[0] ? n->proto->output[0] : "size";
    for (size_t k = i;; k++) {
        const char *name = tw_arena_printf(im->arena, "%s.%zu", base, k);
        if (!tw_map_put_str(&im->size_names, name, im)) {
            tw_vec_push(im->arena, &im->sizes, tw_attr_string(im->ctx, name));
            return name;
        }
    }
}

static bool is_known(const tw_known *known, size_t i)
{
    return known && known->items[i].kind == TW_NUM_RATIO && known->items[i].den == 1;
}

/* From now on the vector's elements are known to be the sizes. */
static void learn(tw_gb *g, const tw_value *v, const tw_expr *sizes, size_t n)
{
    tw_known *known = TW_NEW(g->arena, tw_known);
    *known = (tw_known){n, tw_known_items(g, n)};
    for (size_t i = 0; i < n; i++)
        known->items[i] = (tw_num){.kind = TW_NUM_RATIO, .num = sizes[i], .den = 1};
    tw_map_put_ptr(&g->known, v, known);
}

const tw_expr *tw_onnx_bind_sizes(tw_onnx_node *n, tw_value *v, const tw_expr *hints,
                                  const char *what)
{
    tw_gb *g = n->g;
    int64_t count = 0;
    if (!v)
        return NULL;
    if (!tw_type_static_count(v->type, &count))
        return tw_gb_error(g, "%s: how many there are must be known when the model is compiled",
                           what);
    const tw_known *known = tw_known_of(g, v);
    tw_expr *sizes = TW_NEW_ARRAY(g->arena, tw_expr, (size_t)count + 1);
    tw_attr *symbols = TW_NEW_ARRAY(g->arena, tw_attr, (size_t)count + 1);
    bool open = false, checked = false;
    for (size_t i = 0; i < (size_t)count; i++) {
        tw_expr hint = hints ? hints[i] : NULL;
        bool bound = !is_known(known, i) && !hint;
        sizes[i] = is_known(known, i) ? known->items[i].num
                   : hint             ? hint
                                      : tw_expr_sym(n->ctx, new_symbol(n, i));
        symbols[i] = tw_attr_string(n->ctx, bound ? sizes[i]->symbol : "");
        open |= bound;
        checked |= !is_known(known, i) && hint;
    }
    if (!open && !checked)
        return sizes;
    tw_build(&g->b, &tw_graph_ops[TW_GRAPH_BIND], &v, 1, NULL, 0, "symbols",
             tw_attr_array(n->ctx, symbols, (size_t)count), "expect",
             checked ? tw_attr_map(n->ctx, 0, sizes, (size_t)count) : NULL, "what",
             tw_attr_string(n->ctx, what), NULL);
    learn(g, v, sizes, (size_t)count);
    return sizes;
}

tw_expr tw_onnx_bind_size(tw_onnx_node *n, tw_value *v, tw_expr hint, const char *what)
{
    const tw_expr *size =
        tw_onnx_bind_sizes(n, tw_gb_reshape(n->g, v, 0, NULL), hint ? &hint : NULL, what);
    return size ? *size : NULL;
}

/* ---- Routines ---- */

tw_expr tw_onnx_new_size(tw_onnx_node *n)
{
    const char *symbol = new_symbol(n, 0);
    tw_map_put_str(&n->im->open_sizes, symbol, n->im);
    return tw_expr_sym(n->ctx, symbol);
}

bool tw_onnx_routine(tw_onnx_node *n, const char *name, tw_value *const *operands,
                     unsigned n_operands, const int64_t *params, size_t n_params,
                     const tw_onnx_result *results, unsigned n_results, tw_value **out)
{
    tw_gb *g = n->g;
    TW_VEC(tw_attr) symbols = {0};
    tw_type *types = TW_NEW_ARRAY(g->arena, tw_type, n_results);
    for (unsigned i = 0; i < n_operands; i++)
        if (!operands[i])
            return false;
    for (unsigned r = 0; r < n_results; r++) {
        for (unsigned i = 0; i < results[r].rank; i++) {
            const char *symbol = results[r].dims[i]->symbol;
            bool defines = symbol && tw_map_get_str(&n->im->open_sizes, symbol);
            if (defines)
                tw_map_put_str(&n->im->open_sizes, symbol, NULL);
            tw_vec_push(g->arena, &symbols, tw_attr_string(n->ctx, defines ? symbol : ""));
        }
        types[r] = tw_type_tensor(n->ctx, results[r].elem, results[r].rank, results[r].dims, NULL);
    }
    tw_op *op = tw_build(&g->b, &tw_graph_ops[TW_GRAPH_ROUTINE], operands, n_operands, types,
                         n_results, "name", tw_attr_string(n->ctx, name), "params",
                         n_params ? tw_attr_ints(n->ctx, params, n_params) : NULL, "symbols",
                         tw_attr_array(n->ctx, symbols.data, symbols.len), NULL);
    for (unsigned r = 0; r < n_results; r++)
        out[r] = tw_result(op, r);
    return true;
}

/* ---- Values of sizes and indices ---- */

bool tw_onnx_is_known(tw_onnx_node *n, unsigned i)
{
    size_t count;
    return !tw_onnx_in(n, i) || tw_known_exprs(n->g, n->in[i], &count);
}

tw_value *tw_onnx_index_list(tw_onnx_node *n, unsigned i)
{
    tw_value *v = tw_onnx_in(n, i);
    if (!v)
        return tw_gb_error(n->g, "input %u is missing", i);
    if (!tw_onnx_check_integers(n, i))
        return NULL;
    tw_expr count = tw_gb_product(n->g, v->type->dims, v->type->rank);
    return tw_gb_reshape(n->g, tw_gb_cast(n->g, v, TW_I64), 1, &count);
}

tw_value *tw_onnx_index_vector(tw_onnx_node *n, unsigned i, size_t *count)
{
    int64_t elements;
    tw_value *v = tw_onnx_index_list(n, i);
    if (!v)
        return NULL;
    if (!tw_type_static_count(v->type, &elements))
        return tw_gb_error(n->g,
                           "input %u ('%s') is %s: how many elements it has must be known when the "
                           "model is compiled",
                           i, n->proto->input[i], tw_gb_type_text(n->g, n->in[i]->type));
    *count = (size_t)elements;
    return v;
}

tw_value *tw_onnx_index_exactly(tw_onnx_node *n, unsigned i, tw_expr count)
{
    tw_gb *g = n->g;
    tw_value *v = tw_onnx_index_list(n, i);
    if (!v)
        return NULL;
    if (tw_gb_differ(g, v->type->dims[0], count))
        return tw_gb_error(g, "input %u ('%s') is %s; %s elements are needed", i,
                           n->proto->input[i], tw_gb_type_text(g, n->in[i]->type),
                           tw_print_expr(n->ctx, count, NULL));
    const char *what = tw_arena_printf(g->arena, "numbers of elements of input %u", i);
    return tw_gb_check_equal(g, v->type->dims[0], count, what) ? tw_gb_conform(g, v, &count) : NULL;
}

tw_value *tw_onnx_index_scalar(tw_onnx_node *n, unsigned i)
{
    size_t count;
    tw_value *v = tw_onnx_index_vector(n, i, &count);
    if (v && count != 1)
        return tw_gb_error(n->g, "input %u ('%s') is %s; a scalar is needed", i, n->proto->input[i],
                           tw_gb_type_text(n->g, n->in[i]->type));
    return v ? tw_gb_reshape(n->g, v, 0, NULL) : NULL;
}

tw_value *tw_onnx_number(tw_gb *g, int64_t value)
{
    return tw_gb_reshape(g, tw_gb_ints(g, &value, 1), 0, NULL);
}

tw_value *tw_onnx_item(tw_gb *g, tw_value *v, size_t i)
{
    tw_expr one = tw_gb_const(g, 1);
    return tw_gb_reshape(g, tw_gb_slice_axis(g, v, 0, tw_gb_const(g, (int64_t)i), 1, one), 0, NULL);
}

tw_value *tw_onnx_sizes_of(tw_gb *g, tw_value *x)
{
    tw_type type = tw_type_tensor_static(g->ctx, TW_I64, 1, (int64_t[]){x->type->rank});
    return TW_GB_EMIT(g, SHAPE, &x, 1, type, {0});
}

tw_value *tw_onnx_size_of(tw_gb *g, tw_value *x, unsigned axis)
{
    return tw_onnx_item(g, tw_onnx_sizes_of(g, x), axis);
}

tw_value *tw_onnx_size_value(tw_gb *g, tw_expr size)
{
    int64_t known;
    if (tw_expr_as_const(size, &known))
        return tw_onnx_number(g, known);
    tw_value *sized = tw_gb_splat(g, TW_BOOL, 0, 1, &size);
    return sized ? tw_onnx_size_of(g, sized, 0) : NULL;
}

tw_value *tw_onnx_join(tw_gb *g, tw_value *const *items, size_t n)
{
    tw_expr one = tw_gb_const(g, 1);
    tw_value **rows = TW_NEW_ARRAY(g->arena, tw_value *, n + 1);
    if (!n)
        return tw_gb_ints(g, NULL, 0);
    for (size_t i = 0; i < n; i++)
        if (!(rows[i] = tw_gb_reshape(g, items[i], 1, &one)))
            return NULL;
    return tw_gb_concat(g, rows, (unsigned)n, 0);
}

/* Negative ones count from the end; others out of range touch no position. */
tw_value *tw_onnx_spread(tw_gb *g, tw_value *axes, tw_value *values, unsigned rank, int64_t absent)
{
    tw_expr n = tw_gb_const(g, rank), count;
    if (!axes || !values)
        return NULL;
    count = axes->type->dims[0];
    if (count == tw_gb_const(g, 0))
        return tw_gb_expand(g, tw_onnx_number(g, absent), 1, &n);
    /* [rank, count]: which position each axis is; at most one in a row */
    tw_value *negative = tw_gb_binary_scalar(g, TW_GRAPH_LESS, axes, 0);
    tw_value *turned = tw_gb_binary_scalar(g, TW_GRAPH_ADD, axes, rank);
    tw_value *row = tw_gb_unsqueeze(g, tw_gb_where(g, negative, turned, axes), 1);
    tw_value *hit = tw_gb_binary(g, TW_GRAPH_EQUAL, row,
                                 tw_gb_unsqueeze(g, tw_gb_iota(g, TW_I64, 1, &n, 0), 2));
    tw_value *any = tw_gb_reduce(g, TW_GRAPH_REDUCE_SUM, tw_gb_cast(g, hit, TW_I64), 2, false);
    tw_value *chosen = tw_gb_where(g, hit, tw_gb_unsqueeze(g, values, 1), tw_onnx_number(g, 0));
    tw_value *sum = tw_gb_reduce(g, TW_GRAPH_REDUCE_SUM, chosen, 2, false);
    return tw_gb_where(g, tw_gb_binary_scalar(g, TW_GRAPH_GREATER, any, 0), sum,
                       tw_onnx_number(g, absent));
}

/* Row i of the comparison says which axis is the i-th that stays. */
tw_value *tw_onnx_gather_kept(tw_gb *g, tw_value *keep, tw_value *values, unsigned n)
{
    tw_expr rows = tw_gb_const(g, n), zero = tw_gb_const(g, 0);
    if (!keep || rows == zero)
        return keep ? tw_gb_ints(g, NULL, 0) : NULL;
    tw_value *one = tw_gb_cast(g, keep, TW_I64);
    tw_value *before = TW_GB_EMIT(g, CUMSUM, &one, 1, one->type, {"axis", tw_attr_int(g->ctx, 0)},
                                  {"exclusive", tw_attr_bool(g->ctx, true)});
    tw_value *hit = tw_gb_binary(g, TW_GRAPH_EQUAL, tw_gb_unsqueeze(g, before, 1),
                                 tw_gb_unsqueeze(g, tw_gb_iota(g, TW_I64, 1, &rows, 0), 2));
    hit = tw_gb_binary(g, TW_GRAPH_AND, hit, tw_gb_unsqueeze(g, keep, 1));
    tw_value *chosen =
        tw_gb_binary(g, TW_GRAPH_MUL, tw_gb_cast(g, hit, TW_I64), tw_gb_unsqueeze(g, values, 1));
    return tw_gb_reduce(g, TW_GRAPH_REDUCE_SUM, chosen, 2, false);
}

/* ---- Axes ---- */

tw_value *tw_onnx_axis_mask(tw_onnx_node *n, tw_value *x, unsigned i, tw_expr *count)
{
    tw_gb *g = n->g;
    unsigned rank = x->type->rank;
    tw_value *axes = tw_onnx_index_list(n, i);
    int64_t known = 0;
    if (!axes)
        return NULL;
    *count = axes->type->dims[0];
    tw_expr_as_const(*count, &known);
    if (2 * rank > TW_MAX_RANK || known > rank)
        return tw_gb_error(g,
                           "%s axes, known when the model runs, of a tensor of rank %u; ranks to "
                           "%d are supported",
                           tw_print_expr(n->ctx, *count, NULL), rank, TW_MAX_RANK / 2);
    tw_value *ones = tw_gb_expand(g, tw_onnx_number(g, 1), 1, count);
    tw_value *hits = tw_onnx_spread(g, axes, ones, rank, 0);
    tw_value *mask = tw_gb_binary_scalar(g, TW_GRAPH_GREATER, hits, 0);
    tw_value *found = tw_gb_reduce(g, TW_GRAPH_REDUCE_SUM, tw_gb_cast(g, mask, TW_I64), 1, false);
    return tw_onnx_bind_size(n, found, *count, "number of different axes that the tensor has")
               ? mask
               : NULL;
}

/* The second size where it follows from the first and the whole. */
static tw_expr other_part(tw_gb *g, tw_expr whole, tw_expr part)
{
    tw_expr one = tw_gb_const(g, 1);
    if (whole == one)
        return one;
    if (!part)
        return NULL;
    return part == one ? whole : part == whole ? one : NULL;
}

tw_value *tw_onnx_cut_axes(tw_onnx_node *n, tw_value *x, tw_value *mask, const tw_expr *hints)
{
    tw_gb *g = n->g;
    if (!x || !mask)
        return NULL;
    unsigned rank = x->type->rank;
    tw_expr wanted[TW_MAX_RANK], one = tw_gb_const(g, 1), dims[2] = {tw_gb_const(g, rank), one};
    tw_value *sizes = tw_onnx_sizes_of(g, x), *unit = tw_onnx_number(g, 1);
    tw_value *parts[2] = {tw_gb_where(g, mask, unit, sizes), tw_gb_where(g, mask, sizes, unit)};
    for (unsigned i = 0; i < rank; i++) {
        tw_expr hint = x->type->dims[i] == one ? one : hints ? hints[i] : NULL;
        wanted[2 * i] = hint;
        wanted[2 * i + 1] = other_part(g, x->type->dims[i], hint);
    }
    for (int i = 0; i < 2; i++)
        parts[i] = tw_gb_reshape(g, parts[i], 2, dims);
    tw_expr flat = tw_gb_const(g, 2 * (int64_t)rank);
    tw_value *both = tw_gb_reshape(g, tw_gb_concat(g, parts, 2, 1), 1, &flat);
    const tw_expr *bound = tw_onnx_bind_sizes(n, both, wanted, "axes");
    return bound ? tw_gb_reshape(g, x, 2 * rank, bound) : NULL;
}

/* Element i that counts goes to the place that as many before it have taken; the others to one
 * place behind all. */
tw_value *tw_onnx_nonzero(tw_onnx_node *n, tw_value *v, tw_expr hint)
{
    tw_gb *g = n->g;
    if (!v)
        return NULL;
    tw_expr all = v->type->dims[0], more = tw_expr_addc(n->ctx, all, 1);
    tw_value *keep = tw_gb_cast(g, v, TW_BOOL), *ones = tw_gb_cast(g, keep, TW_I64);
    if (!ones)
        return NULL;
    tw_value *before = TW_GB_EMIT(g, CUMSUM, &ones, 1, ones->type, {"axis", tw_attr_int(g->ctx, 0)},
                                  {"exclusive", tw_attr_bool(g->ctx, true)});
    tw_value *place = tw_gb_where(g, keep, before, tw_onnx_size_of(g, v, 0));
    tw_value *operands[3] = {tw_gb_splat(g, TW_I64, 0, 1, &more), place,
                             tw_gb_iota(g, TW_I64, 1, &all, 0)};
    tw_value *found =
        TW_GB_EMIT(g, SCATTER_ELEMENTS, operands, 3, tw_type_tensor(g->ctx, TW_I64, 1, &more, NULL),
                   {"axis", tw_attr_int(g->ctx, 0)});
    tw_value *count = tw_gb_reduce(g, TW_GRAPH_REDUCE_SUM, ones, 1, false);
    tw_expr size = tw_onnx_bind_size(n, count, hint, "number of elements that are kept");
    return size ? tw_gb_slice_axis(g, found, 0, tw_gb_const(g, 0), 1, size) : NULL;
}
