/* elf.h: what is done to 64-bit little-endian ELF relocatable objects besides linking them. */
#ifndef TW_LINK_ELF_H
#define TW_LINK_ELF_H

#include "base/map.h"
#include "link/link.h"

/* Adds the names of the object's undefined symbols to `undefined`, of its defined global ones to
 * `defined` (values: non-NULL). False with a diagnostic when it is no such object. */
bool tw_elf_symbols(tw_context *ctx, const tw_bytes *object, tw_map *defined, tw_map *undefined);

/* Rewrites an object in memory so that hidden global symbols become local, and two objects of this
 * kind can be linked into one program. `object` is changed in place. */
bool tw_elf_localize_hidden(tw_context *ctx, void *object, size_t size);

/* The parts of an object with one more read-only section, aligned to 4096, that defines the symbol
 * `symbol` (so far undefined): head, then section_size bytes of content, then tail. The section is
 * .rodata, or .lrodata (which linkers place apart) when it is large. */
typedef struct tw_elf_parts {
    tw_bytes head, tail; /* in the context's memory */
} tw_elf_parts;
bool tw_elf_add_section(tw_context *ctx, const tw_bytes *object, const char *symbol,
                        uint64_t section_size, tw_elf_parts *parts);

#endif
