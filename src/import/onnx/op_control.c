/* op_control.c: If. A branch that is known to be taken is inlined; otherwise both become regions of
 * a graph.if.
 *
 * Where a tensor has other sizes in one branch than in the other both give its sizes, too, and a
 * bind behind the operation makes symbols of them. Where a sequence has another length it becomes a
 * handle (sequence.c).
 *
 * Models guard against sizes that do not occur by branches that make no sense for the sizes that
 * do: one that cannot be imported, or whose results have other ranks, becomes graph.fail, with a
 * warning. */
#include "import/onnx/import.h"

#include "ir/diag_mark.h"

/* ---- Inner graphs ---- */

const Onnx__GraphProto *tw_onnx_graph(tw_onnx_node *n, const char *name)
{
    const Onnx__AttributeProto *a = tw_onnx_attr(n, name);
    return a && a->g ? a->g : tw_gb_error(n->g, "attribute '%s' must be a graph", name);
}

tw_op *tw_onnx_region_op(tw_onnx_node *n, tw_graph_kind kind, tw_value *const *operands,
                         unsigned n_operands, unsigned n_results)
{
    const tw_type *unknown = TW_NEW_ARRAY(n->im->arena, tw_type, n_results);
    tw_op *op = tw_op_create(n->ctx, &tw_graph_ops[kind], n->g->b.loc, operands, n_operands,
                             unknown, n_results, NULL, 0, (unsigned)tw_graph_ops[kind].n_regions);
    tw_op_insert(op, n->g->b.region, n->g->b.before);
    return op;
}

tw_value *tw_onnx_single(tw_onnx_node *n, tw_value *x, tw_elem elem, const char *what)
{
    if (!x)
        return NULL;
    if (x->type->elem != elem)
        return tw_gb_error(n->g, "%s is %s, not of %s", what, tw_gb_type_text(n->g, x->type),
                           tw_elem_name(elem));
    return x->type->rank ? tw_gb_reshape(n->g, x, 0, NULL) : x;
}

void tw_onnx_yield(tw_onnx_node *n, tw_value *const *values, unsigned count)
{
    tw_build(&n->g->b, &tw_graph_ops[TW_GRAPH_YIELD], values, count, NULL, 0, NULL);
}

/* ---- If ---- */

typedef struct branch {
    const Onnx__GraphProto *graph;
    const char *name;
    tw_region *region;
    tw_onnx_leaves leaves; /* tensors in `out` */
    tw_value **out;        /* NULL: it cannot be imported */
    const char *fault;     /* then: why */
} branch;

static bool open_branch(tw_onnx_node *n, branch *b, const char *attribute, const char *name)
{
    b->name = name;
    b->graph = tw_onnx_graph(n, attribute);
    if (!b->graph)
        return false;
    return b->graph->n_output == n->n_out ||
           tw_onnx_error(n, "the %s branch has %zu outputs; %u are needed", name,
                         b->graph->n_output, n->n_out);
}

static void erase_all(tw_region *region)
{
    while (region->last)
        tw_op_erase(region->last);
}

/* Imports the branch into its region, or notes why it does not suit the sizes at hand. False when
 * it is malformed. */
static bool import_branch(tw_onnx_node *n, branch *b)
{
    tw_diag_mark mark = tw_diag_mark_here(n->ctx);
    tw_builder here = n->g->b;
    tw_value **out = TW_NEW_ARRAY(n->im->arena, tw_value *, n->n_out + 1);
    n->g->b = tw_builder_at_end(n->ctx, b->region, here.loc);
    if (tw_onnx_inline_graph(n, b->graph, NULL, 0, out) || tw_onnx_met_unknown(n)) {
        b->out = out;
    } else if (!n->im->malformed) {
        const tw_diagnostic *d = tw_diag_since(n->ctx, mark);
        b->fault = d ? d->message : "it has too many mistakes";
        tw_diag_rewind(n->ctx, mark);
        erase_all(b->region);
    }
    n->g->b = here;
    return !n->im->malformed;
}

/* The tensors that a branch gives, those of sequences and optionals included. */
static void list_leaves(tw_onnx_node *n, branch *b)
{
    for (unsigned i = 0; i < n->n_out; i++)
        tw_onnx_add_leaves(n->im, b->out[i], &b->leaves);
}

/* The region of a branch that cannot be imported. */
static bool fill_in(tw_onnx_node *n, branch *b, const branch *other)
{
    tw_builder here = n->g->b;
    const char *message =
        tw_arena_printf(n->im->arena, "the %s branch of %s cannot be computed: %s", b->name,
                        here.loc->node, b->fault);
    tw_warning(n->ctx, here.loc, "a run ends with an error when it takes this way: %s", message);
    n->g->b = tw_builder_at_end(n->ctx, b->region, here.loc);
    tw_build(&n->g->b, &tw_graph_ops[TW_GRAPH_FAIL], NULL, 0, NULL, 0, "message",
             tw_attr_string(n->ctx, message), NULL);
    bool good = true;
    for (size_t i = 0; i < other->leaves.tensors.len && good; i++) {
        tw_type type = other->leaves.tensors.data[i]->type;
        tw_value *zeros = tw_gb_splat(n->g, type->elem, 0, type->rank, type->dims);
        tw_vec_push(n->im->arena, &b->leaves.tensors, zeros);
        good = zeros != NULL;
    }
    b->out = other->out;
    n->g->b = here;
    return good;
}

/* Results of different ranks: only one of the branches can be compiled. It is that of the rank that
 * the model declares, or else of the lower one: exporters write "squeeze it if the size is 1", and
 * what follows needs it squeezed. */
static void choose_rank(tw_onnx_node *n, branch *yes, branch *no)
{
    for (unsigned i = 0; i < n->n_out; i++) {
        if (tw_onnx_as_bundle(yes->out[i]) || tw_onnx_as_bundle(no->out[i]))
            continue;
        tw_type a = yes->out[i]->type, b = no->out[i]->type;
        if (a->rank == b->rank)
            continue;
        unsigned declared = tw_onnx_declared_rank(n, i);
        bool first = declared == a->rank || (declared != b->rank && a->rank < b->rank);
        branch *other = first ? no : yes;
        other->fault = tw_arena_printf(
            n->im->arena, "an output is %s in the then branch and %s in the else branch",
            tw_gb_type_text(n->g, a), tw_gb_type_text(n->g, b));
        other->out = NULL;
        other->leaves = (tw_onnx_leaves){0};
        erase_all(other->region);
        return;
    }
}

/* Both branches must agree on the type of a tensor, save its sizes. */
static bool unify(tw_onnx_node *n, tw_type a, tw_type b)
{
    return (a->elem == b->elem && a->rank == b->rank) ||
           tw_onnx_error(n,
                         "an output is %s in one branch and %s in the other; element type and "
                         "number of dimensions must be the same",
                         tw_gb_type_text(n->g, a), tw_gb_type_text(n->g, b));
}

static bool varies(const branch *yes, const branch *no, size_t i)
{
    return yes->leaves.tensors.data[i]->type != no->leaves.tensors.data[i]->type;
}

/* Lets the branch give the sizes of tensors that vary, too. */
static bool add_sizes(tw_onnx_node *n, branch *b, const branch *yes, const branch *no, size_t count)
{
    tw_builder here = n->g->b;
    bool good = true;
    n->g->b = tw_builder_at_end(n->ctx, b->region, here.loc);
    for (size_t i = 0; i < count && good; i++) {
        tw_value *sizes =
            varies(yes, no, i) ? tw_onnx_sizes_of(n->g, b->leaves.tensors.data[i]) : NULL;
        good = sizes || !varies(yes, no, i);
        if (sizes)
            tw_vec_push(n->im->arena, &b->leaves.tensors, sizes);
    }
    n->g->b = here;
    return good;
}

static bool has_bundles(const tw_onnx_node *n, const branch *b)
{
    for (unsigned i = 0; i < n->n_out; i++)
        if (tw_onnx_as_bundle(b->out[i]))
            return true;
    return false;
}

/* The type of result i, of which `sizes` are the sizes; what both branches say of a size is so. */
static tw_type bind_type(tw_onnx_node *n, const branch *yes, const branch *no, size_t i,
                         tw_value *sizes)
{
    tw_type a = yes->leaves.tensors.data[i]->type, b = no->leaves.tensors.data[i]->type;
    tw_expr hints[TW_MAX_RANK] = {0};
    if (!has_bundles(n, yes))
        tw_onnx_declared_dims(n, (unsigned)i, a->rank, hints);
    for (unsigned d = 0; d < a->rank; d++)
        hints[d] = a->dims[d] == b->dims[d] ? a->dims[d] : hints[d];
    const tw_expr *dims = tw_onnx_bind_sizes(n, sizes, hints, "sizes of what a branch gives");
    return dims ? tw_type_tensor(n->ctx, a->elem, a->rank, dims, NULL) : NULL;
}

/* The sequence or optional that a branch gives as a handle, made in its region. */
static tw_value *held(tw_onnx_node *n, branch *b, unsigned i, const tw_onnx_content *content)
{
    tw_builder here = n->g->b;
    n->g->b = tw_builder_at_end(n->ctx, b->region, here.loc);
    tw_value *handle = tw_onnx_handle(n, b->out[i]);
    n->g->b = here;
    return tw_onnx_held(n->im, content, handle);
}

/* Sequences and optionals that are not built alike in both branches become handles. */
static bool agree(tw_onnx_node *n, branch *yes, branch *no)
{
    bool changed;
    for (unsigned i = 0; i < n->n_out; i++) {
        if (tw_onnx_same_structure(yes->out[i], no->out[i]))
            continue;
        if (!tw_onnx_as_bundle(yes->out[i]) && !tw_onnx_as_bundle(no->out[i]))
            continue; /* tensors: unify says what is wrong */
        tw_onnx_content content = tw_onnx_content_of(n->im, yes->out[i]);
        tw_onnx_content other = tw_onnx_content_of(n->im, no->out[i]);
        if (!tw_onnx_as_bundle(yes->out[i]) || !tw_onnx_as_bundle(no->out[i]) ||
            !tw_onnx_join_content(&content, &other, &changed))
            return tw_onnx_error(n,
                                 "output %u is a tensor, a sequence or an optional, of one element "
                                 "type, in one branch and not in the other",
                                 i);
        yes->out[i] = held(n, yes, i, &content);
        no->out[i] = held(n, no, i, &content);
        if (!yes->out[i] || !no->out[i])
            return false;
    }
    return true;
}

static void close_branch(tw_onnx_node *n, const branch *b, tw_region *region)
{
    tw_region_splice(region, NULL, b->region);
    tw_builder here = n->g->b;
    n->g->b = tw_builder_at_end(n->ctx, region, here.loc);
    tw_onnx_yield(n, b->leaves.tensors.data, (unsigned)b->leaves.tensors.len);
    n->g->b = here;
}

/* The operation proper, in place of `draft`, whose results are not known yet. */
static bool close_if(tw_onnx_node *n, tw_op *draft, branch *yes, branch *no)
{
    size_t count = yes->leaves.tensors.len;
    for (size_t i = 0; i < count; i++)
        if (!unify(n, yes->leaves.tensors.data[i]->type, no->leaves.tensors.data[i]->type))
            return false;
    if (!add_sizes(n, yes, yes, no, count) || !add_sizes(n, no, yes, no, count))
        return false;
    tw_value *condition = tw_operand(draft, 0);
    size_t all = yes->leaves.tensors.len, sizes = count;
    tw_op *op = tw_onnx_region_op(n, TW_GRAPH_IF, &condition, 1, (unsigned)all);
    tw_value **results = TW_NEW_ARRAY(n->im->arena, tw_value *, all + 1);
    tw_value *const *next = results;
    close_branch(n, yes, &op->regions[0]);
    close_branch(n, no, &op->regions[1]);
    tw_op_erase(draft);
    for (size_t i = 0; i < all; i++) {
        results[i] = tw_result(op, (unsigned)i);
        results[i]->type = yes->leaves.tensors.data[i]->type;
    }
    for (size_t i = 0; i < count; i++)
        if (varies(yes, no, i) && !(results[i]->type = bind_type(n, yes, no, i, results[sizes++])))
            return false;
    for (unsigned i = 0; i < n->n_out; i++)
        tw_onnx_set(n, i, tw_onnx_with_leaves(n->im, yes->out[i], &next));
    return tw_gb_verify(n->g, op);
}

/* On trial: what one of the branches says of a result. */
static bool import_trial(tw_onnx_node *n, const branch *yes, const branch *no)
{
    for (unsigned i = 0; i < n->n_out; i++) {
        n->out[i] = yes->out ? tw_onnx_stand_in(n, yes->out[i]) : NULL;
        if (!n->out[i] && no->out)
            n->out[i] = tw_onnx_stand_in(n, no->out[i]);
    }
    return false;
}

static bool import_if(tw_onnx_node *n, tw_value *condition, branch *yes, branch *no)
{
    tw_op *draft = tw_onnx_region_op(n, TW_GRAPH_IF, &condition, 1, 0);
    yes->region = &draft->regions[0];
    no->region = &draft->regions[1];
    if (!import_branch(n, yes) || !import_branch(n, no))
        return false;
    if (tw_onnx_met_unknown(n))
        return import_trial(n, yes, no);
    if (!yes->out && !no->out)
        return tw_onnx_error(n, "neither branch can be imported: then: %s; else: %s", yes->fault,
                             no->fault);
    if (yes->out && no->out && !agree(n, yes, no))
        return false;
    if (yes->out && no->out)
        choose_rank(n, yes, no);
    if (yes->out)
        list_leaves(n, yes);
    if (no->out)
        list_leaves(n, no);
    if ((!yes->out && !fill_in(n, yes, no)) || (!no->out && !fill_in(n, no, yes)))
        return false;
    return close_if(n, draft, yes, no);
}

bool tw_onnx_op_if(tw_onnx_node *n)
{
    tw_expr condition;
    int64_t taken;
    branch yes = {0}, no = {0};
    if (!open_branch(n, &yes, "then_branch", "then") || !open_branch(n, &no, "else_branch", "else"))
        return false;
    if (tw_known_expr(n->g, n->in[0], &condition) && tw_expr_as_const(condition, &taken))
        return tw_onnx_inline_graph(n, taken ? yes.graph : no.graph, NULL, 0, n->out);
    tw_value *single = tw_onnx_single(n, n->in[0], TW_BOOL, "the condition");
    return single && import_if(n, single, &yes, &no);
}
