/* print_attr.c: types, attributes and locations as text. */
#include "ir/print_impl.h"

#include <inttypes.h>
#include <string.h>

static void print_symbol_dim(tw_printer *p, unsigned index, const void *data)
{
    (void)data;
    tw_p_text(p, "d%u", index);
}

/* ---- Types ---- */

/* `2x3xf32`, or `batch x (seq * 2) x f32` when a size is not a number. */
static void print_shape(tw_printer *p, tw_type type)
{
    const char *separator = "x";
    for (unsigned i = 0; i < type->rank; i++)
        if (!type->dims[i] || type->dims[i]->kind != TW_EXPR_CONST || type->dims[i]->value < 0)
            separator = " x ";
    for (unsigned i = 0; i < type->rank; i++) {
        tw_expr dim = type->dims[i];
        bool plain = dim && (dim->kind == TW_EXPR_CONST || dim->kind == TW_EXPR_SYM);
        if (!plain)
            tw_pr_text(p, "(");
        tw_pr_expr(p, dim, print_symbol_dim, NULL);
        if (!plain)
            tw_pr_text(p, ")");
        tw_pr_text(p, separator);
    }
    tw_pr_text(p, tw_elem_name(type->elem));
}

static void print_type_list(tw_printer *p, const tw_type *types, unsigned n)
{
    tw_pr_text(p, "(");
    for (unsigned i = 0; i < n; i++) {
        tw_pr_text(p, i ? ", " : "");
        tw_p_type(p, types[i]);
    }
    tw_pr_text(p, ")");
}

static void print_dialect_type(tw_printer *p, tw_type type)
{
    tw_p_text(p, "!%s", type->name);
    tw_attr params = type->params;
    if (!params)
        return;
    tw_pr_text(p, "<");
    if (params->kind == TW_ATTR_ARRAY)
        for (size_t i = 0; i < params->u.array.n; i++) {
            tw_pr_text(p, i ? ", " : "");
            tw_p_attr(p, params->u.array.items[i]);
        }
    tw_pr_text(p, ">");
}

/* A bare word; what is none shows as it is, for messages. */
static void print_layout(tw_printer *p, tw_attr layout)
{
    int64_t block;
    if (tw_layout_read(layout, &block) != TW_LAYOUT_UNKNOWN)
        tw_pr_bytes(p, layout->u.string.text, layout->u.string.len);
    else
        tw_p_attr(p, layout);
}

void tw_p_type(tw_printer *p, tw_type type)
{
    if (!type) {
        tw_pr_text(p, "<null>");
        return;
    }
    if (!tw_pr_enter(p))
        return;
    switch (type->kind) {
    case TW_TYPE_SCALAR:
        tw_pr_text(p, tw_elem_name(type->elem));
        break;
    case TW_TYPE_TENSOR:
        tw_pr_text(p, "tensor<");
        print_shape(p, type);
        if (type->layout) {
            tw_pr_text(p, ", ");
            print_layout(p, type->layout);
        }
        tw_pr_text(p, ">");
        break;
    case TW_TYPE_BUFFER:
        tw_pr_text(p, "buffer<");
        print_shape(p, type);
        if (type->scope && type->scope[0]) {
            tw_pr_text(p, ", ");
            tw_pr_string(p, type->scope, strlen(type->scope));
        }
        tw_pr_text(p, ">");
        break;
    case TW_TYPE_VECTOR:
        tw_pr_text(p, "vec<");
        print_shape(p, type);
        tw_pr_text(p, ">");
        break;
    case TW_TYPE_FUNC:
        print_type_list(p, type->inputs, type->n_inputs);
        tw_pr_text(p, " -> ");
        print_type_list(p, type->results, type->n_results);
        break;
    case TW_TYPE_DIALECT:
        print_dialect_type(p, type);
        break;
    }
    tw_pr_leave(p);
}

/* ---- Attributes ---- */

static void print_map(tw_printer *p, tw_attr attr)
{
    tw_pr_text(p, "(");
    for (unsigned i = 0; i < attr->u.map.n_dims; i++)
        tw_p_text(p, i ? ", d%u" : "d%u", i);
    /* `[]` tells a map without dimensions from a function type. */
    tw_pr_text(p, attr->u.map.n_dims ? ") -> (" : ")[] -> (");
    for (size_t i = 0; i < attr->u.map.n; i++) {
        tw_pr_text(p, i ? ", " : "");
        tw_pr_expr(p, attr->u.map.exprs[i], print_symbol_dim, NULL);
    }
    tw_pr_text(p, ")");
}

static void print_array(tw_printer *p, tw_attr attr)
{
    tw_pr_text(p, "[");
    for (size_t i = 0; i < attr->u.array.n; i++) {
        tw_pr_text(p, i ? ", " : "");
        tw_p_attr(p, attr->u.array.items[i]);
    }
    tw_pr_text(p, "]");
}

static bool listed(const char *name, const char *const *names)
{
    for (; names && *names; names++)
        if (!strcmp(name, *names))
            return true;
    return false;
}

void tw_pr_named_attrs(tw_printer *p, const tw_named_attr *attrs, size_t n, const char *const *skip)
{
    tw_pr_text(p, "{");
    bool first = true;
    for (size_t i = 0; i < n; i++) {
        if (listed(attrs[i].name, skip))
            continue;
        tw_pr_text(p, first ? "" : ", ");
        first = false;
        tw_pr_name(p, attrs[i].name, strlen(attrs[i].name));
        if (attrs[i].value && attrs[i].value->kind == TW_ATTR_UNIT)
            continue;
        tw_pr_text(p, " = ");
        tw_p_attr(p, attrs[i].value);
    }
    tw_pr_text(p, "}");
}

void tw_p_attr(tw_printer *p, tw_attr attr)
{
    if (!attr) {
        tw_pr_text(p, "<null>");
        return;
    }
    if (!tw_pr_enter(p))
        return;
    switch (attr->kind) {
    case TW_ATTR_UNIT:
        tw_pr_text(p, "unit");
        break;
    case TW_ATTR_BOOL:
        tw_pr_text(p, attr->u.integer ? "true" : "false");
        break;
    case TW_ATTR_INT:
        tw_p_text(p, "%" PRId64, attr->u.integer);
        break;
    case TW_ATTR_FLOAT:
        tw_pr_double(p, attr->u.real);
        break;
    case TW_ATTR_STRING:
        tw_pr_string(p, attr->u.string.text, attr->u.string.len);
        break;
    case TW_ATTR_SYMBOL:
        tw_pr_text(p, "@");
        tw_pr_name(p, attr->u.string.text, attr->u.string.len);
        break;
    case TW_ATTR_TYPE:
        tw_p_type(p, attr->u.type);
        break;
    case TW_ATTR_ARRAY:
        print_array(p, attr);
        break;
    case TW_ATTR_DICT:
        tw_pr_named_attrs(p, attr->u.dict.items, attr->u.dict.n, NULL);
        break;
    case TW_ATTR_DENSE:
        tw_pr_dense(p, attr);
        break;
    case TW_ATTR_MAP:
        print_map(p, attr);
        break;
    case TW_ATTR_ANY: /* of specifications, never of an attribute */
        break;
    }
    tw_pr_leave(p);
}

/* ---- API for single pieces ---- */

static tw_printer piece_printer(tw_context *ctx)
{
    return (tw_printer){
        .ctx = ctx, .arena = tw_context_arena(ctx), .names = tw_map_make(tw_context_arena(ctx))};
}

static const char *finish(tw_printer *p)
{
    tw_pr_bytes(p, "", 1);
    return p->out.data;
}

const char *tw_print_type(tw_context *ctx, tw_type type)
{
    tw_printer p = piece_printer(ctx);
    tw_p_type(&p, type);
    return finish(&p);
}

const char *tw_print_attr(tw_context *ctx, tw_attr attr)
{
    tw_printer p = piece_printer(ctx);
    tw_p_attr(&p, attr);
    return finish(&p);
}

static void print_named_dim(tw_printer *p, unsigned index, const void *data)
{
    tw_pr_text(p, ((const char *const *)data)[index]);
}

const char *tw_print_expr_on(tw_arena *arena, tw_expr e)
{
    tw_printer p = {.arena = arena};
    tw_pr_expr(&p, e, print_symbol_dim, NULL);
    return finish(&p);
}

const char *tw_print_expr(tw_context *ctx, tw_expr e, const char *const *dim_names)
{
    tw_printer p = piece_printer(ctx);
    tw_pr_expr(&p, e, dim_names ? print_named_dim : print_symbol_dim, dim_names);
    return finish(&p);
}
