/* print_names.c: unique names for the values of an operation and all inside.
 *
 * Of a long hint the end is kept, which tells a model's names from one another.
 *
 * A value keeps its hint when no value that is visible at its definition has it, and gets `_1`,
 * `_2` … behind it otherwise; one without a hint gets a number. What a region defines is forgotten
 * at its end, and an isolated operation starts afresh, so that neighbours use the same short names.
 * A text's names are all free when it is parsed and printed again, so they stay. */
#include "ir/print_impl.h"
#include "ir/traverse.h"

#include <string.h>

/* The value that a table had at a key, to be put back at the end of a region. */
typedef struct undo {
    tw_map *map;
    const char *key;
    void *value;
} undo;

/* What is forgotten at the end of a region. */
typedef struct frame {
    size_t undo_len;
    tw_map *taken, *suffixes;
    uint64_t number;
} frame;

typedef struct naming {
    tw_printer *p;
    tw_map *taken;    /* names in use */
    tw_map *suffixes; /* name -> last suffix tried, as an integer */
    uint64_t number;  /* the next number */
    TW_VEC(undo) undos;
    TW_VEC(frame) frames;
} naming;

static void put(naming *n, tw_map *map, const char *key, void *value)
{
    void *earlier = tw_map_put_str(map, key, value);
    undo u = {map, key, earlier};
    tw_vec_push(n->p->arena, &n->undos, u);
}

/* A printed name has at most LONGEST bytes, suffix included: such names print as they are. */
enum { LONGEST = 64, SUFFIX = 21, TAIL = 40 };

/* The last TAIL bytes, from the beginning of a character on, if there are more than `most`. */
static const char *shorten(const char *hint, size_t most)
{
    size_t len = strlen(hint);
    if (len <= most)
        return hint;
    const char *from = hint + len - TAIL;
    for (size_t i = 0; i < 3 && ((unsigned char)*from & 0xc0) == 0x80; i++)
        from++;
    return from;
}

static const char *unique_name(naming *n, const char *hint)
{
    const char *name = shorten(hint, LONGEST);
    if (tw_map_get_str(n->taken, name)) {
        const char *base = shorten(name, LONGEST - SUFFIX);
        uintptr_t suffix = (uintptr_t)tw_map_get_str(n->suffixes, base);
        do
            name = tw_arena_printf(n->p->arena, "%s_%zu", base, (size_t)++suffix);
        while (tw_map_get_str(n->taken, name));
        put(n, n->suffixes, base, (void *)suffix);
    }
    put(n, n->taken, name, n);
    return name;
}

/* The name with % and, when it is none by itself, in quotes. */
static const char *spell(tw_printer *p, const char *name)
{
    size_t len = strlen(name), start = p->out.len;
    if (tw_text_is_name(name, len))
        return tw_arena_printf(p->arena, "%%%s", name);
    tw_pr_text(p, "%");
    tw_pr_string(p, name, len);
    const char *text = tw_arena_strndup(p->arena, p->out.data + start, p->out.len - start);
    p->out.len = start;
    return text;
}

static void name_value(naming *n, const tw_value *value)
{
    tw_printer *p = n->p;
    const char *text = value->name && value->name[0]
                           ? spell(p, unique_name(n, value->name))
                           : tw_arena_printf(p->arena, "%%%llu", (unsigned long long)n->number++);
    tw_map_put_ptr(&p->names, value, (void *)text);
}

static tw_map *new_map(naming *n)
{
    tw_map *map = TW_NEW(n->p->arena, tw_map);
    *map = tw_map_make(n->p->arena);
    return map;
}

static void begin_region(naming *n, tw_region *region)
{
    frame f = {n->undos.len, n->taken, n->suffixes, n->number};
    tw_vec_push(n->p->arena, &n->frames, f);
    if (region->parent->def->traits & TW_TRAIT_ISOLATED) {
        n->taken = new_map(n);
        n->suffixes = new_map(n);
        n->number = 0;
    }
    for (unsigned i = 0; i < region->n_args; i++)
        name_value(n, region->args[i]);
}

static void end_region(naming *n)
{
    frame f = n->frames.data[--n->frames.len];
    while (n->undos.len > f.undo_len) {
        undo u = n->undos.data[--n->undos.len];
        tw_map_put_str(u.map, u.key, u.value);
    }
    n->taken = f.taken;
    n->suffixes = f.suffixes;
    n->number = f.number;
}

void tw_pr_assign_names(tw_printer *p, tw_op *op)
{
    naming n = {.p = p};
    n.taken = new_map(&n);
    n.suffixes = new_map(&n);
    tw_traversal t = {.root = op};
    for (tw_step step; (step = tw_traverse(&t)) != TW_STEP_DONE;)
        if (step == TW_STEP_OP)
            for (unsigned i = 0; i < t.op->n_results; i++)
                name_value(&n, &t.op->results[i]);
        else if (step == TW_STEP_REGION)
            begin_region(&n, t.region);
        else if (step == TW_STEP_REGION_END)
            end_region(&n);
}
