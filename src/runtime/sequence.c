/* sequence.c: the table of a run's sequences. */
#include "runtime/sequence.h"
#include "runtime/model.h"
#include "runtime/routines.h"

#include <stdio.h>
#include <string.h>

struct tw_sequences {
    tw_sequence *all; /* handle h is all[h - 1] */
    size_t n, room;
};

/* ---- Items ----------------------------------------------------------------------------------- */

static size_t rounded(size_t size)
{
    return (size + TW_ABI_ALIGN - 1) / TW_ABI_ALIGN * TW_ABI_ALIGN;
}

/* One block: the item, its dims, its data. */
tw_item *tw_item_new(const tw_abi_host *host, const tw_abi_value *like, bool borrowed)
{
    size_t bytes, head = rounded(sizeof(tw_item) + like->rank * sizeof(int64_t));
    if (!tw_tensor_bytes((tw_elem)like->elem, like->dims, like->rank, &bytes)) {
        tw_rt_fail(host, "a tensor of a sequence is too large");
        return NULL;
    }
    tw_item *item = host->alloc(host, head + (borrowed ? 0 : bytes));
    if (!item) {
        tw_rt_no_memory(host);
        return NULL;
    }
    *item = (tw_item){.value = *like, .refs = 1, .borrowed = borrowed};
    item->value.dims = (int64_t *)(item + 1);
    if (like->rank)
        memcpy(item->value.dims, like->dims, like->rank * sizeof(int64_t));
    if (!borrowed)
        item->value.data = (uint8_t *)item + head;
    return item;
}

tw_item *tw_item_copy(const tw_abi_host *host, const tw_abi_value *value)
{
    size_t bytes;
    tw_item *item = tw_item_new(host, value, false);
    if (item && tw_tensor_bytes((tw_elem)value->elem, value->dims, value->rank, &bytes) && bytes)
        memcpy(item->value.data, value->data, bytes);
    return item;
}

void tw_item_release(const tw_abi_host *host, tw_item *item)
{
    if (item && !--item->refs)
        host->free(host, item);
}

/* ---- Lists ----------------------------------------------------------------------------------- */

static void release_list(const tw_abi_host *host, tw_item_list *list)
{
    if (!list || --list->refs)
        return;
    for (size_t i = 0; i < list->n; i++)
        tw_item_release(host, list->items[i]);
    host->free(host, list->items);
    host->free(host, list);
}

/* Twice the room at least. */
static bool grow(const tw_abi_host *host, void **memory, size_t *room, size_t used, size_t wanted,
                 size_t bytes)
{
    if (wanted <= *room)
        return true;
    size_t more = wanted > 2 * *room ? wanted : 2 * *room;
    more = more < 4 ? 4 : more;
    void *fresh = more > PTRDIFF_MAX / bytes ? NULL : host->alloc(host, more * bytes);
    if (!fresh) {
        tw_rt_no_memory(host);
        return false;
    }
    if (used)
        memcpy(fresh, *memory, used * bytes);
    host->free(host, *memory);
    *memory = fresh;
    *room = more;
    return true;
}

/* For that many items; with one reference. */
static tw_item_list *new_list(const tw_abi_host *host, size_t room)
{
    tw_item_list *list = host->alloc(host, sizeof *list);
    if (!list) {
        tw_rt_no_memory(host);
        return NULL;
    }
    *list = (tw_item_list){.refs = 1};
    void *items = NULL;
    if (grow(host, &items, &list->room, 0, room, sizeof *list->items)) {
        list->items = items;
        return list;
    }
    host->free(host, list);
    return NULL;
}

/* There is room for them. */
static void add_items(tw_item_list *list, tw_item *const *items, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        list->items[list->n++] = items[i];
        items[i]->refs++;
    }
}

/* ---- The table ------------------------------------------------------------------------------- */

static tw_sequences *table_of(const tw_abi_host *host)
{
    tw_sequences *t = host->run ? *host->run : NULL;
    if (t)
        return t;
    t = host->run ? host->alloc(host, sizeof *t) : NULL;
    if (!t) {
        host->run ? tw_rt_no_memory(host) : tw_rt_fail(host, "this host has no sequences");
        return NULL;
    }
    *t = (tw_sequences){0};
    *host->run = t;
    return t;
}

/* Takes over the caller's reference to the list, also when it fails. */
static uint64_t add_sequence(const tw_abi_host *host, tw_sequence s)
{
    tw_sequences *t = table_of(host);
    void *all = t ? t->all : NULL;
    if (!t || !grow(host, &all, &t->room, t->n, t->n + 1, sizeof *t->all)) {
        release_list(host, s.list);
        return 0;
    }
    t->all = all;
    t->all[t->n++] = s;
    return t->n;
}

bool tw_sequence_find(const tw_abi_host *host, uint64_t handle, tw_sequence *out)
{
    const tw_sequences *t = host->run ? *host->run : NULL;
    *out = (tw_sequence){0};
    if (!handle || !t || handle > t->n) {
        tw_rt_fail(host, handle ? "there is no such sequence" : "the optional holds nothing");
        return false;
    }
    *out = t->all[handle - 1];
    return true;
}

uint64_t tw_sequence_insert(const tw_abi_host *host, const tw_sequence *s, size_t at,
                            tw_item *const *more, size_t n)
{
    tw_item_list *list = s->list;
    for (size_t i = 0; i < n; i++)
        if (!more[i])
            return 0;
    if (!list && !n)
        return add_sequence(host, *s);
    if (list && at == s->n && s->n == list->n) {
        void *items = list->items;
        if (!grow(host, &items, &list->room, list->n, list->n + n, sizeof *list->items))
            return 0;
        list->items = items;
        list->refs++;
        add_items(list, more, n);
        return add_sequence(host, (tw_sequence){list, s->n + n});
    }
    list = new_list(host, s->n + n);
    if (!list)
        return 0;
    if (s->list)
        add_items(list, s->list->items, at);
    add_items(list, more, n);
    if (s->list)
        add_items(list, s->list->items + at, s->n - at);
    return add_sequence(host, (tw_sequence){list, s->n + n});
}

uint64_t tw_sequence_erase(const tw_abi_host *host, const tw_sequence *s, size_t at)
{
    tw_item_list *list = s->list;
    if (at + 1 == s->n) { /* the last one: the others stay where they are */
        list->refs++;
        return add_sequence(host, (tw_sequence){list, s->n - 1});
    }
    list = new_list(host, s->n - 1);
    if (!list)
        return 0;
    add_items(list, s->list->items, at);
    add_items(list, s->list->items + at + 1, s->n - at - 1);
    return add_sequence(host, (tw_sequence){list, s->n - 1});
}

/* ---- Lifetimes ------------------------------------------------------------------------------- */

int64_t tw_sequences_mark(const tw_abi_host *host)
{
    const tw_sequences *t = host->run ? *host->run : NULL;
    return t ? (int64_t)t->n : 0;
}

/* Items behind the end of the only sequence that a list has are of no use any more. */
static void trim(const tw_abi_host *host, tw_sequence *s)
{
    while (s->list && s->list->refs == 1 && s->list->n > s->n)
        tw_item_release(host, s->list->items[--s->list->n]);
}

static void drop_from(const tw_abi_host *host, tw_sequences *t, size_t first)
{
    while (t->n > first)
        release_list(host, t->all[--t->n].list);
}

bool tw_sequences_keep(const tw_abi_host *host, int64_t mark, uint64_t *const *handles, uint32_t n)
{
    tw_sequences *t = table_of(host);
    if (!t)
        return false;
    tw_sequence *kept = n ? host->alloc(host, n * sizeof *kept) : NULL;
    bool fine = n == 0 || kept || (tw_rt_no_memory(host), false);
    uint32_t found = 0;
    for (; fine && found < n; found++) {
        kept[found] = (tw_sequence){0};
        fine = !*handles[found] || tw_sequence_find(host, *handles[found], &kept[found]);
        if (fine && kept[found].list)
            kept[found].list->refs++;
    }
    if (fine && mark >= 0 && (size_t)mark < t->n)
        drop_from(host, t, (size_t)mark);
    for (uint32_t i = 0; i < found; i++) {
        trim(host, &kept[i]);
        if (fine && *handles[i])
            fine = (*handles[i] = add_sequence(host, kept[i])) != 0;
        else
            release_list(host, kept[i].list);
    }
    host->free(host, kept);
    return fine;
}

void tw_sequences_free(const tw_abi_host *host)
{
    tw_sequences *t = host->run ? *host->run : NULL;
    if (!t)
        return;
    drop_from(host, t, 0);
    host->free(host, t->all);
    host->free(host, t);
    *host->run = NULL;
}
