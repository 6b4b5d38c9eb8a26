/* elf.c: reads and edits the section and symbol tables of relocatable objects.
 *
 * Objects come from the code generator or from lld, but every offset is checked all the same. */
#include "link/elf.h"
#include "tilewright/ir.h"

#include <elf.h>
#include <string.h>

/* A checked view of an object's tables. */
typedef struct view {
    const uint8_t *bytes;
    size_t size;
    const Elf64_Ehdr *header;
    const Elf64_Shdr *sections;
    size_t n_sections;
    const Elf64_Shdr *symtab; /* NULL: no symbols */
    const Elf64_Sym *symbols;
    size_t n_symbols;
    const char *names; /* zero-terminated at names[names_size - 1] */
    size_t names_size;
} view;

static bool inside(const view *v, uint64_t offset, uint64_t size)
{
    return offset <= v->size && size <= v->size - offset;
}

static bool open_symbols(view *v)
{
    for (size_t i = 0; i < v->n_sections; i++) {
        const Elf64_Shdr *s = &v->sections[i];
        if (s->sh_type != SHT_SYMTAB)
            continue;
        if (!inside(v, s->sh_offset, s->sh_size) || s->sh_offset % 8 || s->sh_link >= v->n_sections)
            return false;
        const Elf64_Shdr *strings = &v->sections[s->sh_link];
        if (!inside(v, strings->sh_offset, strings->sh_size) || !strings->sh_size)
            return false;
        v->symtab = s;
        v->symbols = (const Elf64_Sym *)(v->bytes + s->sh_offset);
        v->n_symbols = s->sh_size / sizeof(Elf64_Sym);
        v->names = (const char *)v->bytes + strings->sh_offset;
        v->names_size = strings->sh_size;
        if (v->names[v->names_size - 1] || s->sh_info > v->n_symbols)
            return false;
        for (size_t k = 0; k < v->n_symbols; k++)
            if (v->symbols[k].st_name >= v->names_size)
                return false;
    }
    return true;
}

static bool open_view(view *v, const void *bytes, size_t size)
{
    memset(v, 0, sizeof *v);
    v->bytes = bytes;
    v->size = size;
    v->header = bytes;
    if (size < sizeof(Elf64_Ehdr) || memcmp(bytes, ELFMAG, SELFMAG) ||
        v->header->e_ident[EI_CLASS] != ELFCLASS64 || v->header->e_ident[EI_DATA] != ELFDATA2LSB ||
        v->header->e_type != ET_REL || v->header->e_shentsize != sizeof(Elf64_Shdr))
        return false;
    uint64_t offset = v->header->e_shoff;
    v->n_sections = v->header->e_shnum;
    if (offset % 8 || !inside(v, offset, sizeof(Elf64_Shdr)))
        return false;
    v->sections = (const Elf64_Shdr *)(v->bytes + offset);
    if (v->n_sections == 0) /* more than fit the header */
        v->n_sections = v->sections[0].sh_size;
    return v->n_sections <= (size - offset) / sizeof(Elf64_Shdr) && open_symbols(v);
}

static bool refuse(tw_context *ctx)
{
    return tw_error(ctx, NULL, "not a relocatable 64-bit little-endian ELF object");
}

bool tw_elf_symbols(tw_context *ctx, const tw_bytes *object, tw_map *defined, tw_map *undefined)
{
    view v;
    if (!open_view(&v, object->data, object->size))
        return refuse(ctx);
    for (size_t i = 1; i < v.n_symbols; i++) {
        const Elf64_Sym *s = &v.symbols[i];
        if (ELF64_ST_BIND(s->st_info) == STB_LOCAL)
            continue;
        tw_map *map = s->st_shndx == SHN_UNDEF ? undefined : defined;
        tw_map_put_str(map, v.names + s->st_name, map);
    }
    return true;
}

/* ---- Hidden symbols become local ------------------------------------------------------------- */

static bool becomes_local(const Elf64_Sym *s)
{
    return ELF64_ST_BIND(s->st_info) != STB_LOCAL && s->st_shndx != SHN_UNDEF &&
           (ELF64_ST_VISIBILITY(s->st_other) == STV_HIDDEN ||
            ELF64_ST_VISIBILITY(s->st_other) == STV_INTERNAL);
}

/* Local symbols stand first. Fills in order[new] = old and position[old] = new; returns the number
 * of local ones. */
static size_t new_order(const view *v, uint32_t *order, uint32_t *position)
{
    size_t n = 0, locals = v->symtab->sh_info, first_global;
    for (size_t i = 0; i < locals; i++)
        order[n++] = (uint32_t)i;
    for (size_t i = locals; i < v->n_symbols; i++)
        if (becomes_local(&v->symbols[i]))
            order[n++] = (uint32_t)i;
    first_global = n;
    for (size_t i = locals; i < v->n_symbols; i++)
        if (!becomes_local(&v->symbols[i]))
            order[n++] = (uint32_t)i;
    for (size_t i = 0; i < n; i++)
        position[order[i]] = (uint32_t)i;
    return first_global;
}

/* Relocations name symbols by number. */
static bool renumber_relocations(const view *v, uint8_t *bytes, const uint32_t *position)
{
    for (size_t i = 0; i < v->n_sections; i++) {
        const Elf64_Shdr *s = &v->sections[i];
        if (s->sh_type == SHT_REL || s->sh_type == SHT_GROUP || s->sh_type == SHT_SYMTAB_SHNDX)
            return false;
        if (s->sh_type != SHT_RELA)
            continue;
        if (!inside(v, s->sh_offset, s->sh_size) || s->sh_offset % 8)
            return false;
        Elf64_Rela *r = (Elf64_Rela *)(bytes + s->sh_offset);
        for (size_t n = s->sh_size / sizeof *r; n; n--, r++) {
            if (ELF64_R_SYM(r->r_info) >= v->n_symbols)
                return false;
            r->r_info =
                ELF64_R_INFO((uint64_t)position[ELF64_R_SYM(r->r_info)], ELF64_R_TYPE(r->r_info));
        }
    }
    return true;
}

bool tw_elf_localize_hidden(tw_context *ctx, void *object, size_t size)
{
    view v;
    if (!open_view(&v, object, size))
        return refuse(ctx);
    if (!v.symtab)
        return true;
    tw_arena *arena = tw_context_arena(ctx);
    uint32_t *order = TW_NEW_ARRAY(arena, uint32_t, v.n_symbols);
    uint32_t *position = TW_NEW_ARRAY(arena, uint32_t, v.n_symbols);
    size_t locals = new_order(&v, order, position);
    if (!renumber_relocations(&v, object, position))
        return tw_error(ctx, NULL, "the object has sections of a kind that is not supported");

    const Elf64_Sym *old = tw_arena_memdup(arena, v.symbols, v.n_symbols * sizeof(Elf64_Sym));
    Elf64_Sym *symbols = (Elf64_Sym *)((uint8_t *)object + v.symtab->sh_offset);
    for (size_t i = 0; i < v.n_symbols; i++) {
        symbols[i] = old[order[i]];
        if (i < locals && ELF64_ST_BIND(symbols[i].st_info) != STB_LOCAL) {
            symbols[i].st_info = ELF64_ST_INFO(STB_LOCAL, ELF64_ST_TYPE(symbols[i].st_info));
            symbols[i].st_other = STV_DEFAULT;
        }
    }
    Elf64_Shdr *symtab = (Elf64_Shdr *)((uint8_t *)object + ((const uint8_t *)v.symtab - v.bytes));
    symtab->sh_info = (uint32_t)locals;
    return true;
}

/* ---- One more section ------------------------------------------------------------------------ */

enum { SECTION_ALIGN = 4096, LARGE = 1 << 30 };
#ifndef SHF_X86_64_LARGE
#define SHF_X86_64_LARGE (1 << 28)
#endif

static uint64_t round_up(uint64_t value, uint64_t multiple)
{
    return (value + multiple - 1) / multiple * multiple;
}

/* Points the undefined symbol at the start of section `index`. */
static bool define_symbol(const view *v, uint8_t *bytes, const char *symbol, size_t index,
                          uint64_t size)
{
    for (size_t i = 1; i < v->n_symbols; i++) {
        Elf64_Sym *s = (Elf64_Sym *)(bytes + v->symtab->sh_offset) + i;
        if (s->st_shndx != SHN_UNDEF || strcmp(v->names + s->st_name, symbol))
            continue;
        s->st_shndx = (uint16_t)index;
        s->st_value = 0;
        s->st_size = size;
        s->st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT);
        return true;
    }
    return false;
}

/* What follows the content: section names with one more, section headers with one more. */
static tw_bytes make_tail(tw_arena *arena, const view *v, uint64_t content, uint64_t content_size,
                          Elf64_Ehdr *header)
{
    bool large = content_size >= LARGE && v->header->e_machine == EM_X86_64;
    const char *section = large ? ".lrodata.constants" : ".rodata.constants";
    const Elf64_Shdr *names = &v->sections[v->header->e_shstrndx];
    uint64_t names_offset = content + content_size;
    uint64_t names_size = names->sh_size + strlen(section) + 1;
    uint64_t table = round_up(names_offset + names_size, 8);
    size_t size = table - names_offset + (v->n_sections + 1) * sizeof(Elf64_Shdr);
    uint8_t *tail = tw_arena_alloc(arena, size);
    memcpy(tail, v->bytes + names->sh_offset, names->sh_size);
    strcpy((char *)tail + names->sh_size, section);

    /* The tail itself need not be aligned as its place in the file is. */
    uint8_t *rows = tail + (table - names_offset);
    memcpy(rows, v->sections, v->n_sections * sizeof(Elf64_Shdr));
    Elf64_Shdr renamed = *names;
    renamed.sh_offset = names_offset;
    renamed.sh_size = names_size;
    memcpy(rows + v->header->e_shstrndx * sizeof renamed, &renamed, sizeof renamed);
    const Elf64_Shdr added = {
        .sh_name = (uint32_t)names->sh_size,
        .sh_type = SHT_PROGBITS,
        .sh_flags = SHF_ALLOC | (large ? SHF_X86_64_LARGE : 0),
        .sh_offset = content,
        .sh_size = content_size,
        .sh_addralign = SECTION_ALIGN,
    };
    memcpy(rows + v->n_sections * sizeof added, &added, sizeof added);
    header->e_shoff = table;
    header->e_shnum = (uint16_t)(v->n_sections + 1);
    return (tw_bytes){tail, size};
}

bool tw_elf_add_section(tw_context *ctx, const tw_bytes *object, const char *symbol,
                        uint64_t section_size, tw_elf_parts *parts)
{
    view v;
    if (!open_view(&v, object->data, object->size))
        return refuse(ctx);
    uint16_t names = v.header->e_shstrndx;
    if (!v.symtab || v.n_sections >= SHN_LORESERVE - 1 || names >= v.n_sections ||
        !inside(&v, v.sections[names].sh_offset, v.sections[names].sh_size))
        return tw_error(ctx, NULL, "the object has too many sections, or no symbols");
    tw_arena *arena = tw_context_arena(ctx);
    uint64_t content = round_up(object->size, SECTION_ALIGN);
    uint8_t *head = tw_arena_alloc(arena, content);
    memcpy(head, object->data, object->size);
    if (!define_symbol(&v, head, symbol, v.n_sections, section_size))
        return tw_error(ctx, NULL, "the object does not refer to '%s'", symbol);
    parts->tail = make_tail(arena, &v, content, section_size, (Elf64_Ehdr *)head);
    parts->head = (tw_bytes){head, content};
    return true;
}
