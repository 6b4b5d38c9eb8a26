/* fuse_why.c: why two operations are in different kernels, out of what fuse_ops.c recorded when it
 * decided. */
#include "transform/fuse_impl.h"

const char *tw_fuse_why_text(tw_fuse_why why)
{
    static const char *const texts[] = {
#define TEXT(name, text) text,
        TW_FUSE_WHYS(TEXT)
#undef TEXT
    };
    return texts[why];
}

/* Where an epilogue ended it says why; its other users never had their turn, and might have been
 * refused themselves. */
static tw_fuse_why behind_epilogue(const tw_fuser *f, const tw_fuse_group *group, const tw_op *user)
{
    if (f->nodes.data[group->stop].op == user || group->why == TW_FUSE_WHY_NESTED ||
        group->why == TW_FUSE_WHY_OUTPUT || group->why == TW_FUSE_WHY_RESULTS)
        return group->why;
    tw_fuse_why own = tw_fuse_fits_epilogue(f, user, f->nodes.data[group->anchor].op);
    return own != TW_FUSE_WHY_JOINS ? own : TW_FUSE_WHY_CYCLE;
}

/* The node of the operation that a value is a result of, wherever that stands by now; or NULL. */
static const tw_fuse_node *maker(const tw_fuser *f, const tw_value *value)
{
    const tw_value *inner = tw_map_get_ptr(&f->origins, value);
    const tw_op *op = inner ? inner->op : value->op;
    size_t number = op ? (size_t)(uintptr_t)tw_map_get_ptr(&f->numbers, op) : 0;
    return number && tw_fuse_is_kernel_op(op) ? &f->nodes.data[number - 1] : NULL;
}

/* A reshape lies between: what would keep the two apart without it, or the reshape. */
static tw_fuse_why through_view(const tw_fuser *f, const tw_fuse_node *node, const tw_op *user)
{
    const tw_fuse_group *group = &f->groups.data[node->group];
    tw_fuse_why why = TW_FUSE_WHY_JOINS;
    if (group->kind == TW_FUSE_OPAQUE || !tw_fuse_is_kernel_op(user) ||
        user->def->fusion == TW_FUSE_OPAQUE)
        return TW_FUSE_WHY_OPAQUE;
    if (group->kind == TW_FUSE_COMPLEX || group->kind == TW_FUSE_REDUCTION)
        why = tw_fuse_fits_epilogue(f, user, f->nodes.data[group->anchor].op);
    else if (user->def->fusion == TW_FUSE_COMPLEX)
        return TW_FUSE_WHY_COMPLEX_LAST;
    if (why != TW_FUSE_WHY_JOINS && why != TW_FUSE_WHY_SHAPE)
        return why;
    int n = tw_fuse_number(f, user);
    return n >= 0 && f->nodes.data[n].epilogue ? TW_FUSE_WHY_TAKEN : TW_FUSE_WHY_VIEW;
}

tw_fuse_why tw_fuse_why_apart(const tw_fuser *f, const tw_value *value, const tw_op *user)
{
    const tw_fuse_node *node = maker(f, value);
    bool view = node && node->group < 0; /* a reshape, which left the kernel that it had joined */
    while (node && node->group < 0)
        node = maker(f, tw_operand(node->op, 0));
    if (!node || view)
        return node ? through_view(f, node, user) : TW_FUSE_WHY_JOINS;
    if (node->why != TW_FUSE_WHY_JOINS)
        return node->why;
    const tw_fuse_group *group = &f->groups.data[node->group];
    bool grown = group->kind == TW_FUSE_COMPLEX || group->kind == TW_FUSE_REDUCTION;
    return grown ? behind_epilogue(f, group, user) : TW_FUSE_WHY_SEVERAL;
}
