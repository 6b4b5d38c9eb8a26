/* check.c: refuses, before anything is imported, models with operators that are not known: one
 * diagnostic that lists them all. So are attributes that are given twice, and references to those
 * of a function outside of functions. */
#include "import/onnx/import.h"

typedef struct check {
    tw_onnx *im;
    tw_map unknown; /* text -> count */
    bool in_function;
    bool fine; /* the attributes, so far */
} check;

static void check_nodes(check *c, const tw_onnx_opsets *sets, Onnx__NodeProto *const *nodes,
                        size_t n);

/* Depth is bounded by that of the file's messages. */
static void check_attribute(check *c, const tw_onnx_opsets *sets, const Onnx__AttributeProto *a)
{
    if (a->g)
        check_nodes(c, sets, a->g->node, a->g->n_node);
    for (size_t i = 0; i < a->n_graphs; i++)
        check_nodes(c, sets, a->graphs[i]->node, a->graphs[i]->n_node);
}

static bool attribute_error(check *c, const Onnx__NodeProto *node, const char *what,
                            const char *name)
{
    tw_loc loc = tw_loc_node(c->im->ctx, c->im->file, tw_onnx_node_text(c->im, node));
    return tw_error(c->im->ctx, loc, "attribute '%s' %s", name, what);
}

static bool check_attributes(check *c, const Onnx__NodeProto *node)
{
    tw_map seen = tw_map_make(c->im->arena);
    for (size_t i = 0; i < node->n_attribute; i++) {
        Onnx__AttributeProto *a = node->attribute[i];
        const char *name = tw_onnx_text(a->name);
        if (*tw_onnx_text(a->ref_attr_name) && !c->in_function)
            return attribute_error(c, node, "refers to one of a function, but no function is here",
                                   name);
        if (node->n_attribute > 1 && tw_map_put_str(&seen, name, a))
            return attribute_error(c, node, "is given twice", name);
    }
    return true;
}

static void check_node(check *c, const tw_onnx_opsets *sets, const Onnx__NodeProto *node)
{
    const char *domain = tw_onnx_domain(node->domain), *name = tw_onnx_text(node->op_type);
    int64_t version = tw_onnx_opset(sets, domain);
    if (!tw_onnx_function(c->im, node) && !tw_onnx_find(domain, name, version)) {
        const char *text = tw_arena_printf(c->im->arena, "%s%s%s version %lld", domain,
                                           *domain ? "::" : "", name, (long long)version);
        size_t *count = tw_map_get_str(&c->unknown, text);
        if (!count) {
            count = TW_NEW(c->im->arena, size_t);
            tw_map_put_str(&c->unknown, text, count);
        }
        ++*count;
    }
    c->fine = c->fine && check_attributes(c, node);
    for (size_t i = 0; i < node->n_attribute; i++)
        check_attribute(c, sets, node->attribute[i]);
}

static void check_nodes(check *c, const tw_onnx_opsets *sets, Onnx__NodeProto *const *nodes,
                        size_t n)
{
    for (size_t i = 0; i < n; i++)
        check_node(c, sets, nodes[i]);
}

bool tw_onnx_check_operators(tw_onnx *im)
{
    enum { MAX_LISTED = 200 };
    check c = {.im = im, .unknown = tw_map_make(im->arena), .fine = true};
    const Onnx__ModelProto *model = im->model;
    check_nodes(&c, &im->opsets, model->graph->node, model->graph->n_node);
    c.in_function = true;
    for (size_t i = 0; i < model->n_functions; i++) {
        const Onnx__FunctionProto *f = model->functions[i];
        tw_onnx_opsets sets = {f->opset_import, f->n_opset_import};
        check_nodes(&c, sets.n ? &sets : &im->opsets, f->node, f->n_node);
    }
    if (c.unknown.len == 0 || !c.fine)
        return c.fine;
    const char *list = "";
    for (size_t i = 0; i < c.unknown.len && i < MAX_LISTED; i++)
        list = tw_arena_printf(
            im->arena, "%s%s%.*s (%zu)", list, i ? ", " : "", (int)c.unknown.entries[i].key_len,
            (const char *)c.unknown.entries[i].key, *(size_t *)c.unknown.entries[i].value);
    return tw_error(im->ctx, im->loc,
                    "%zu operator%s of the model %s not known (with counts): %s%s", c.unknown.len,
                    c.unknown.len > 1 ? "s" : "", c.unknown.len > 1 ? "are" : "is", list,
                    c.unknown.len > MAX_LISTED ? ", ..." : "");
}
