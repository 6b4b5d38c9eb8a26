/* lifetimes.c: a tree over the steps.
 *
 * An item meets the steps first..last if it covers step `first`, or starts behind it up to `last`.
 * Each node of the tree stands for a run of steps and lists the items that cover all of it (but not
 * its parent's), and those that start in it. So the items that cover a step are the lists on the
 * way from its leaf to the root, and those that start in a range are the lists of the few nodes
 * that make up the range. */
#include "lower/lifetimes.h"

#include "base/vec.h"

typedef TW_VEC(void *) item_list;

typedef struct tree_node {
    item_list covering, starting;
} tree_node;

struct tw_lifetimes {
    tw_arena *arena;
    size_t leaves;    /* a power of two */
    tree_node *nodes; /* node i has the children 2 * i and 2 * i + 1; 1 is the root */
};

tw_lifetimes *tw_lifetimes_create(tw_arena *arena, size_t steps)
{
    tw_lifetimes *t = TW_NEW(arena, tw_lifetimes);
    *t = (tw_lifetimes){.arena = arena, .leaves = 1};
    while (t->leaves < steps)
        t->leaves *= 2;
    t->nodes = TW_NEW_ARRAY(arena, tree_node, 2 * t->leaves);
    return t;
}

/* The nodes that make up the steps first..last, at most two a level; returns their number. */
enum { MAX_PARTS = 2 * 8 * sizeof(size_t) };
static unsigned parts_of(const tw_lifetimes *t, size_t first, size_t last, tree_node **out)
{
    unsigned n = 0;
    size_t lo = first + t->leaves, hi = last + t->leaves + 1; /* hi not included */
    for (; lo < hi; lo /= 2, hi /= 2) {
        if (lo % 2)
            out[n++] = &t->nodes[lo++];
        if (hi % 2)
            out[n++] = &t->nodes[--hi];
    }
    return n;
}

void tw_lifetimes_add(tw_lifetimes *t, size_t first, size_t last, void *item)
{
    tree_node *parts[MAX_PARTS];
    for (unsigned n = parts_of(t, first, last, parts); n-- > 0;)
        tw_vec_push(t->arena, &parts[n]->covering, item);
    for (size_t i = first + t->leaves; i > 0; i /= 2)
        tw_vec_push(t->arena, &t->nodes[i].starting, item);
}

static bool append(const item_list *list, size_t max, void **out, size_t *n)
{
    for (size_t i = 0; i < list->len; i++) {
        if (*n == max)
            return false;
        out[(*n)++] = list->data[i];
    }
    return true;
}

bool tw_lifetimes_find(const tw_lifetimes *t, size_t first, size_t last, size_t max, void **out,
                       size_t *n)
{
    tree_node *parts[MAX_PARTS];
    *n = 0;
    for (size_t i = first + t->leaves; i > 0; i /= 2)
        if (!append(&t->nodes[i].covering, max, out, n))
            return false;
    if (first == last)
        return true;
    for (unsigned k = parts_of(t, first + 1, last, parts); k-- > 0;)
        if (!append(&parts[k]->starting, max, out, n))
            return false;
    return true;
}
