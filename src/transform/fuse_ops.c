/* fuse_ops.c: groups of operations that become one kernel each.
 *
 *   %0 = graph.conv %x, %w …
 *   %1 = graph.add %0, %b
 *   %2 = graph.add %1, %y          // a residual
 *   %3 = graph.relu %2
 *     =>
 *   %3 = graph.group "conv_add_add_relu" (%x, %w, %b, %y) { … graph.yield }
 *
 * The rules, by fusion class:
 *  - A complex operation (convolution, product) or a reduction takes what is element-wise on its
 *    result's shape behind it (its epilogue), diamonds included.
 *  - A reduction takes injective producers before it; complex operations take none, as each element
 *    of their operands is read again for every tile of the result.
 *  - Injective operations join the group that all their users are in.
 *  - An opaque operation is alone. Every operation that computes ends up in a group.
 *  - Constants of one element are copied into the groups that use them; others are operands.
 *  - A reshape at a group's border stays outside: it is a view of the same memory.
 *
 * All values of a group but the last's are used in it alone (fuse_results.c makes groups of several
 * results of some). So every path that leaves a group leaves it at its end, where the group will
 * stand: no cycle can arise, and operands are there in time. Each phase looks at each operation and
 * each use a bounded number of times. */
#include "transform/fuse_impl.h"
#include "transform/transform.h"

#include <stdlib.h>
#include <string.h>

int tw_fuse_number(const tw_fuser *f, const tw_op *op)
{
    return op->region == f->region ? (int)(intptr_t)tw_map_get_ptr(&f->numbers, op) - 1 : -1;
}

static int new_group(tw_fuser *f, tw_fusion_class kind, unsigned anchor)
{
    tw_vec_push(f->arena, &f->groups, ((tw_fuse_group){.kind = kind, .anchor = anchor}));
    return (int)f->groups.len - 1;
}

void tw_fuse_add_member(tw_fuser *f, unsigned n, int group)
{
    tw_fuse_group *g = &f->groups.data[group];
    f->nodes.data[n].group = group;
    if (!g->members.len || n > g->place)
        g->place = n;
    tw_vec_push(f->arena, &g->members, n);
}

/* ---- Epilogues ---- */

/* Node numbers whose turn is still to come, each once. */
typedef struct pending_set {
    unsigned items[2 * TW_FUSE_MAX_OPS];
    unsigned n;
} pending_set;

static bool add_pending(pending_set *p, unsigned item)
{
    for (unsigned i = 0; i < p->n; i++)
        if (p->items[i] == item)
            return true;
    if (p->n == sizeof p->items / sizeof *p->items)
        return false;
    p->items[p->n++] = item;
    return true;
}

static unsigned take_first(pending_set *p)
{
    unsigned best = 0;
    for (unsigned i = 1; i < p->n; i++)
        if (p->items[i] < p->items[best])
            best = i;
    unsigned item = p->items[best];
    p->items[best] = p->items[--p->n];
    return item;
}

/* Adds the users of node n. JOINS, unless one is no node here or there are too many: then n can
 * only be the last of a group. */
static tw_fuse_why add_users(const tw_fuser *f, unsigned n, pending_set *p)
{
    const tw_op *op = f->nodes.data[n].op;
    for (unsigned i = 0; i < op->n_results; i++)
        for (const tw_use *u = op->results[i].uses; u; u = u->next) {
            int user = tw_fuse_number(f, u->user);
            if (user < 0)
                return TW_FUSE_WHY_NESTED;
            if (!add_pending(p, (unsigned)user))
                return TW_FUSE_WHY_SEVERAL;
        }
    return TW_FUSE_WHY_JOINS;
}

/* The anchor and as much behind it as fits: users are taken in order of the program; whenever none
 * is pending when one is taken, all paths from the anchor meet in it, and the group may end there.
 */
static void grow_epilogue(tw_fuser *f, unsigned anchor, tw_fusion_class kind)
{
    unsigned members[TW_FUSE_MAX_OPS] = {anchor}, n = 1, fits = 1;
    pending_set pending = {0};
    const tw_op *op = f->nodes.data[anchor].op;
    tw_fuse_why why = op->n_results == 1 ? add_users(f, anchor, &pending) : TW_FUSE_WHY_RESULTS;
    unsigned next = anchor;
    while (why == TW_FUSE_WHY_JOINS && pending.n) {
        next = take_first(&pending);
        why = n == TW_FUSE_MAX_OPS ? TW_FUSE_WHY_LARGE
                                   : tw_fuse_fits_epilogue(f, f->nodes.data[next].op, op);
        if (why == TW_FUSE_WHY_JOINS && f->nodes.data[next].group >= 0)
            why = TW_FUSE_WHY_TAKEN;
        if (why != TW_FUSE_WHY_JOINS)
            break;
        members[n++] = next;
        if (!pending.n)
            fits = n;
        why = add_users(f, next, &pending);
    }
    int group = new_group(f, kind, anchor);
    f->groups.data[group].stop = next;
    f->groups.data[group].why = why;
    for (unsigned i = 0; i < fits; i++) {
        tw_fuse_add_member(f, members[i], group);
        f->nodes.data[members[i]].epilogue = i > 0;
    }
}

/* Later anchors first: where two meet in a sum, the one that is computed last takes it. */
static void make_epilogues(tw_fuser *f, tw_fusion_class kind)
{
    for (size_t i = f->nodes.len; i-- > 0;) {
        const tw_fuse_node *node = &f->nodes.data[i];
        if (node->group < 0 && node->op->def->fusion == kind && tw_fuse_is_kernel_op(node->op))
            grow_epilogue(f, (unsigned)i, kind);
    }
}

/* ---- Injective operations ---- */

/* The group that all users of the node are in, or -1 and why there is none. */
static int group_of_users(const tw_fuser *f, const tw_op *op, tw_fuse_why *why)
{
    int group = -1;
    for (const tw_use *u = op->results[0].uses; u; u = u->next) {
        int user = tw_fuse_number(f, u->user);
        int other = user < 0 ? -1 : f->nodes.data[user].group;
        *why = user < 0                                     ? TW_FUSE_WHY_NESTED
               : u->user->def->traits & TW_TRAIT_TERMINATOR ? TW_FUSE_WHY_OUTPUT
               : other < 0                                  ? TW_FUSE_WHY_OPAQUE
               : group >= 0 && other != group               ? TW_FUSE_WHY_SEVERAL
                                                            : TW_FUSE_WHY_JOINS;
        if (*why != TW_FUSE_WHY_JOINS)
            return -1;
        group = other;
    }
    return group;
}

/* Last to first, so that users have their groups. */
static void join_users(tw_fuser *f)
{
    for (size_t i = f->nodes.len; i-- > 0;) {
        tw_fuse_node *node = &f->nodes.data[i];
        if (node->group >= 0 || !tw_fuse_is_kernel_op(node->op))
            continue;
        int group = -1;
        node->why = TW_FUSE_WHY_OPAQUE;
        if (tw_fuse_is_injective(node->op))
            group = group_of_users(f, node->op, &node->why);
        if (group >= 0)
            node->why =
                tw_fuse_fits_group(f, (unsigned)i, &f->groups.data[group], &node->replicated);
        if (node->why != TW_FUSE_WHY_JOINS)
            group = -1;
        if (group < 0) {
            node->replicated = false;
            group =
                new_group(f, tw_fuse_is_injective(node->op) ? TW_FUSE_INJECTIVE : TW_FUSE_OPAQUE,
                          (unsigned)i);
        }
        tw_fuse_add_member(f, (unsigned)i, group);
    }
}

/* ---- Views ---- */

static int by_number(const void *a, const void *b)
{
    unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;
    return x < y ? -1 : x > y;
}

void tw_fuse_sort_members(tw_fuse_group *g)
{
    if (g->members.len)
        qsort(g->members.data, g->members.len, sizeof *g->members.data, by_number);
}

static bool is_reshape(const tw_fuser *f, unsigned n)
{
    return tw_is_graph(f->nodes.data[n].op, TW_GRAPH_RESHAPE);
}

/* Takes member i out; it stays where it is, as a view. */
static void drop_member(tw_fuser *f, tw_fuse_group *g, size_t i)
{
    f->nodes.data[g->members.data[i]].group = -1;
    memmove(&g->members.data[i], &g->members.data[i + 1],
            (g->members.len - i - 1) * sizeof *g->members.data);
    g->members.len--;
}

/* Reshapes of what comes from outside, and those at the end, leave the group. */
static void trim_views(tw_fuser *f, int group)
{
    tw_fuse_group *g = &f->groups.data[group];
    tw_fuse_sort_members(g);
    for (size_t i = 0; i < g->members.len;) {
        const tw_op *op = f->nodes.data[g->members.data[i]].op;
        const tw_op *source = is_reshape(f, g->members.data[i]) ? tw_operand(op, 0)->op : op;
        int n = source ? tw_fuse_number(f, source) : -1;
        if (is_reshape(f, g->members.data[i]) && (n < 0 || f->nodes.data[n].group != group))
            drop_member(f, g, i);
        else
            i++;
    }
    while (g->members.len && is_reshape(f, g->members.data[g->members.len - 1]))
        drop_member(f, g, g->members.len - 1);
    if (g->members.len)
        g->place = g->members.data[g->members.len - 1];
}

/* ---- Building ---- */

/* The parts of a group operation while it is put together. */
typedef struct assembly {
    tw_fuser *f;
    int group;
    tw_region *region;
    tw_map inside; /* value from outside -> value in the region */
    TW_VEC(tw_value *) operands, results;
    TW_VEC(tw_op *) members;
} assembly;

static bool is_scalar_constant(const tw_value *value)
{
    int64_t n;
    return tw_graph_constant_value(value) && value->type->elem != TW_STRING &&
           tw_type_static_count(value->type, &n) && n == 1;
}

static bool is_member(const assembly *a, const tw_op *op)
{
    int n = op ? tw_fuse_number(a->f, op) : -1;
    return n >= 0 && a->f->nodes.data[n].group == a->group;
}

/* Collects what the members need from outside and what is needed of them outside. */
static void collect_borders(assembly *a)
{
    tw_arena *arena = a->f->arena;
    for (size_t i = 0; i < a->members.len; i++) {
        tw_op *op = a->members.data[i];
        for (unsigned k = 0; k < op->n_operands; k++) {
            tw_value *v = tw_operand(op, k);
            if (is_member(a, v->op) || is_scalar_constant(v) || tw_map_get_ptr(&a->inside, v))
                continue;
            tw_map_put_ptr(&a->inside, v, v);
            tw_vec_push(arena, &a->operands, v);
        }
        for (unsigned k = 0; k < op->n_results; k++) {
            bool outside = i + 1 == a->members.len;
            for (const tw_use *u = op->results[k].uses; u && !outside; u = u->next)
                outside = !is_member(a, u->user);
            if (outside)
                tw_vec_push(arena, &a->results, &op->results[k]);
        }
    }
}

static const char *short_name(const tw_op *op)
{
    const char *dot = strchr(op->def->name, '.');
    return dot ? dot + 1 : op->def->name;
}

/* "conv_add_relu"; a long group ends with the number of its operations. */
static const char *group_name(const assembly *a)
{
    enum { MAX_PARTS = 6 };
    const char *name = short_name(a->members.data[0]);
    for (size_t i = 1; i < a->members.len && i < MAX_PARTS; i++)
        name = tw_arena_printf(a->f->arena, "%s_%s", name, short_name(a->members.data[i]));
    if (a->members.len > MAX_PARTS)
        name = tw_arena_printf(a->f->arena, "%s_of_%zu", name, a->members.len);
    return name;
}

/* The member that is first to use the value. */
static const tw_op *first_user(const assembly *a, const tw_value *value)
{
    for (size_t i = 0; i < a->members.len; i++)
        for (unsigned k = 0; k < a->members.data[i]->n_operands; k++)
            if (tw_operand(a->members.data[i], k) == value)
                return a->members.data[i];
    return NULL;
}

/* For each operand why what makes it is another kernel; "" where no kernel makes it. */
static tw_attr explain(const assembly *a)
{
    tw_attr *texts = TW_NEW_ARRAY(a->f->arena, tw_attr, a->operands.len);
    for (size_t i = 0; i < a->operands.len; i++) {
        const tw_value *v = a->operands.data[i];
        tw_fuse_why why = tw_fuse_why_apart(a->f, v, first_user(a, v));
        texts[i] = tw_attr_string(a->f->ctx, why == TW_FUSE_WHY_JOINS ? "" : tw_fuse_why_text(why));
    }
    return tw_attr_array(a->f->ctx, texts, a->operands.len);
}

static tw_op *make_group_op(assembly *a)
{
    tw_op *last = a->members.data[a->members.len - 1];
    tw_context *ctx = a->f->ctx;
    tw_type *types = TW_NEW_ARRAY(a->f->arena, tw_type, a->results.len);
    for (size_t i = 0; i < a->results.len; i++)
        types[i] = a->results.data[i]->type;
    tw_named_attr name = {"sym_name", tw_attr_string(ctx, group_name(a))};
    tw_op *group =
        tw_op_create(ctx, &tw_graph_ops[TW_GRAPH_GROUP], last->loc, a->operands.data,
                     (unsigned)a->operands.len, types, (unsigned)a->results.len, &name, 1, 1);
    tw_op_insert(group, last->region, last);
    if (a->f->explain)
        tw_op_set_attr(group, TW_GRAPH_WHY_APART, explain(a));
    a->region = &group->regions[0];
    for (size_t i = 0; i < a->operands.len; i++) {
        const tw_value *v = a->operands.data[i];
        tw_map_put_ptr(&a->inside, v, tw_region_add_arg(a->region, v->type, v->name));
    }
    return group;
}

/* What `v`, an operand of a member, is inside the region. */
static tw_value *value_inside(assembly *a, tw_value *v)
{
    tw_value *known = tw_map_get_ptr(&a->inside, v);
    if (known || !is_scalar_constant(v))
        return known ? known : v;
    tw_op *copy = tw_op_clone(tw_cloner_create(a->f->ctx), v->op);
    tw_op_insert(copy, a->region, a->region->first);
    tw_map_put_ptr(&a->inside, v, tw_result(copy, 0));
    return tw_result(copy, 0);
}

static void move_members(assembly *a)
{
    for (size_t i = 0; i < a->members.len; i++) {
        tw_op *op = a->members.data[i];
        tw_op_insert(op, a->region, NULL);
        for (unsigned k = 0; k < op->n_operands; k++) {
            tw_value *before = tw_operand(op, k), *inside = value_inside(a, before);
            if (inside == before)
                continue;
            tw_op_set_operand(op, k, inside);
            if (is_scalar_constant(before) && !before->uses)
                tw_op_erase(before->op);
        }
    }
}

static void build_group(tw_fuser *f, int group)
{
    const tw_fuse_group *g = &f->groups.data[group];
    assembly a = {.f = f, .group = group, .inside = tw_map_make(f->arena)};
    for (size_t i = 0; i < g->members.len; i++)
        tw_vec_push(f->arena, &a.members, f->nodes.data[g->members.data[i]].op);
    collect_borders(&a);
    tw_op *op = make_group_op(&a);
    for (size_t i = 0; i < a.results.len; i++) {
        tw_value *inner = a.results.data[i], *outer = tw_result(op, (unsigned)i);
        outer->name = inner->name;
        tw_map_put_ptr(&f->origins, outer, inner);
        for (tw_use *u = inner->uses, *next; u; u = next) {
            next = u->next;
            if (!is_member(&a, u->user))
                tw_op_set_operand(u->user, u->index, outer);
        }
    }
    move_members(&a);
    tw_builder b = tw_builder_at_end(f->ctx, a.region, op->loc);
    tw_build(&b, &tw_graph_ops[TW_GRAPH_YIELD], a.results.data, (unsigned)a.results.len, NULL, 0,
             NULL);
}

/* ---- One region ---- */

/* With bisection only so many groups of several operations are made; the others fall apart. */
static void split_group(tw_fuser *f, int group)
{
    size_t n = f->groups.data[group].members.len;
    for (size_t i = 0; i + 1 < n; i++) {
        unsigned member = f->groups.data[group].members.data[i];
        tw_fuse_add_member(f, member, new_group(f, TW_FUSE_OPAQUE, member));
    }
    tw_fuse_group *g = &f->groups.data[group];
    g->members.data[0] = g->members.data[n - 1];
    g->members.len = 1;
}

/* Every user of an open expand gets its own, which then vanishes in the user's group. */
static void separate_open_expands(tw_context *ctx, tw_region *region)
{
    for (tw_op *op = region->first; op; op = op->next) {
        if (!tw_graph_is_open_expand(op))
            continue;
        const tw_op *user = op->results[0].uses ? op->results[0].uses->user : NULL;
        for (tw_use *u = op->results[0].uses, *next; u; u = next) {
            next = u->next;
            if (u->user == user || u->user->region != region)
                continue;
            tw_op *copy = tw_op_clone(tw_cloner_create(ctx), op);
            tw_op_insert(copy, region, op);
            tw_op_set_operand(u->user, u->index, tw_result(copy, 0));
        }
    }
}

static void fuse_region(tw_pass_run *pass, tw_region *region)
{
    tw_arena *arena = tw_context_arena(pass->ctx);
    tw_fuser f = {.ctx = pass->ctx,
                  .arena = arena,
                  .region = region,
                  .numbers = tw_map_make(arena),
                  .origins = tw_map_make(arena),
                  .explain = tw_pass_int(pass, "explain", 0),
                  .equal = {pass->ctx, tw_map_make(arena)}};
    separate_open_expands(pass->ctx, region);
    for (tw_op *op = region->first; op; op = op->next) {
        if (tw_graph_is_open_expand(op))
            tw_equal_sizes_add(&f.equal, op);
        tw_vec_push(arena, &f.nodes, ((tw_fuse_node){.op = op, .group = -1}));
        tw_map_put_ptr(&f.numbers, op, (void *)f.nodes.len);
    }
    make_epilogues(&f, TW_FUSE_COMPLEX);
    make_epilogues(&f, TW_FUSE_REDUCTION);
    join_users(&f);
    for (size_t i = 0; i < f.groups.len; i++)
        trim_views(&f, (int)i); /* first: a group that ends earlier may be in time */
    tw_fuse_join_consumers(&f);
    for (size_t i = 0; i < f.groups.len; i++)
        if (f.groups.data[i].members.len > 1 && pass->changes++ >= pass->max_changes) {
            pass->changes--;
            split_group(&f, (int)i);
        }
    for (size_t i = 0; i < f.groups.len; i++)
        if (f.groups.data[i].members.len)
            build_group(&f, (int)i);
}

typedef struct region_list {
    tw_arena *arena;
    TW_VEC(tw_region *) regions;
} region_list;

/* All regions but those of groups that are there already. */
static bool collect_regions(tw_op *op, void *data)
{
    region_list *list = data;
    if (!tw_is_graph(op, TW_GRAPH_GROUP))
        for (unsigned i = 0; i < op->n_regions; i++)
            tw_vec_push(list->arena, &list->regions, &op->regions[i]);
    return true;
}

static bool run(tw_pass_run *pass)
{
    region_list list = {.arena = tw_context_arena(pass->ctx)};
    tw_walk(pass->root, collect_regions, &list);
    for (size_t i = 0; i < list.regions.len; i++)
        fuse_region(pass, list.regions.data[i]);
    return true;
}

static const tw_attr_spec options[] = {
    {"explain", TW_ATTR_UNIT, false, "say of each operand of a group why its producer is outside"},
    {0},
};

const tw_pass tw_pass_fuse_ops = {
    .name = "fuse-ops",
    .summary = "groups of operations that become one kernel each",
    .anchor = "core.func",
    .optional = true,
    .run = run,
    .options = options,
};
