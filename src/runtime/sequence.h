/* sequence.h: the sequences of a run. A model has them as handles, u64 scalars: 0 is an optional
 * that holds nothing, others are places in a table that lives as long as the run. A sequence never
 * changes; an optional tensor is a sequence of one.
 *
 *   table   1: list A, 2 items    A: x y z     An item is a tensor that lists share. Appending to
 *           2: list A, 3 items       | | |     all of a list grows it in place, so that a sequence
 *           3: list B, 1 item     B: y         built item by item costs as much as its items; other
 *                                              changes make a list of its own, of the same items.
 *
 * Trips of a loop leave their sequences at the end of the table; all but the loop's states are
 * dropped when a trip ends (tw_sequences_keep). */
#ifndef TW_RUNTIME_SEQUENCE_H
#define TW_RUNTIME_SEQUENCE_H

#include "tilewright/model.h"

#include <stdbool.h>

/* A tensor; `value` has its own dims, and its own data unless that is borrowed. */
typedef struct tw_item {
    tw_abi_value value;
    uint64_t refs;
    bool borrowed; /* data of an input, which lives until the run ends */
} tw_item;

typedef struct tw_item_list {
    uint64_t refs;
    size_t n, room;
    tw_item **items;
} tw_item_list;

/* The first n items of a list (NULL when there are none). */
typedef struct tw_sequence {
    tw_item_list *list;
    size_t n;
} tw_sequence;

typedef struct tw_sequences tw_sequences;

/* The sequence of a handle; false after host->error: it is 0 or none of the run's. */
bool tw_sequence_find(const tw_abi_host *host, uint64_t handle, tw_sequence *out);

/* A handle for the items of `s` with those in `more` put in at `at`, 0 <= at <= s->n. The caller
 * keeps its references to the items; NULL ones make it fail. 0 after host->error. */
uint64_t tw_sequence_insert(const tw_abi_host *host, const tw_sequence *s, size_t at,
                            tw_item *const *more, size_t n);
/* Without item `at`. */
uint64_t tw_sequence_erase(const tw_abi_host *host, const tw_sequence *s, size_t at);

/* A tensor like that one, with one reference: with room for its data, a copy of it, or (borrowed)
 * the data as it lies there. NULL after host->error. */
tw_item *tw_item_new(const tw_abi_host *host, const tw_abi_value *like, bool borrowed);
tw_item *tw_item_copy(const tw_abi_host *host, const tw_abi_value *value);
void tw_item_release(const tw_abi_host *host, tw_item *item);

/* How many sequences there are so far. */
int64_t tw_sequences_mark(const tw_abi_host *host);
/* Drops all sequences made since the mark but those of the handles, which are replaced by new ones.
 * False after host->error. */
bool tw_sequences_keep(const tw_abi_host *host, int64_t mark, uint64_t *const *handles, uint32_t n);
/* Drops all. */
void tw_sequences_free(const tw_abi_host *host);

#endif
