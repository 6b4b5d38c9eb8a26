/* npz.c: reading and writing NumPy's array files; libzip does the archives. */
#include "base/npz.h"

#include "base/arena.h"
#include "base/checked.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zip.h>

enum {
    MAGIC_SIZE = 6,
    MAX_HEADER = 1 << 16,
    MAX_RATIO = 1032, /* of deflate: 258 bytes from 2 bits */
};
static const char magic[MAGIC_SIZE] = {(char)0x93, 'N', 'U', 'M', 'P', 'Y'};

static const struct {
    char kind;
    unsigned bytes;
    tw_elem elem;
} types[] = {
    {'f', 8, TW_F64}, {'f', 4, TW_F32}, {'f', 2, TW_F16}, {'i', 8, TW_I64},
    {'i', 4, TW_I32}, {'i', 2, TW_I16}, {'i', 1, TW_I8},  {'u', 8, TW_U64},
    {'u', 4, TW_U32}, {'u', 2, TW_U16}, {'u', 1, TW_U8},  {'b', 1, TW_BOOL},
};
enum { N_TYPES = sizeof types / sizeof types[0] };

/* Where bytes come from: a zip member or a plain file. */
typedef struct source {
    tw_context *ctx;
    const char *path, *member;
    zip_file_t *zipped;
    FILE *plain;
    uint64_t left; /* bytes not read yet */
} source;

static bool bad(const source *s, const char *what)
{
    return s->member ? tw_error(s->ctx, NULL, "%s: member '%s': %s", s->path, s->member, what)
                     : tw_error(s->ctx, NULL, "%s: %s", s->path, what);
}

static bool read_bytes(source *s, void *to, uint64_t n)
{
    if (n > s->left)
        return bad(s, "the array is truncated");
    s->left -= n;
    for (char *at = to; n;) {
        uint64_t piece = n < (1u << 30) ? n : (1u << 30);
        int64_t got =
            s->zipped ? zip_fread(s->zipped, at, piece) : (int64_t)fread(at, 1, piece, s->plain);
        if (got <= 0)
            return bad(s, "the array cannot be read: the file is truncated or damaged");
        at += got;
        n -= (uint64_t)got;
    }
    return true;
}

bool tw_array_size(tw_elem elem, unsigned rank, const int64_t *dims, size_t *size)
{
    int64_t count;
    if (!tw_product_i64(dims, (int)rank, &count) ||
        !tw_mul_i64(count, tw_elem_bits(elem), &count) || !tw_add_i64(count, 7, &count))
        return false;
    *size = (size_t)(count / 8);
    return true;
}

/* ---- The header: a Python dictionary of three known keys ---- */

typedef struct header {
    tw_elem elem;
    bool swapped, fortran;
    unsigned rank;
    int64_t dims[TW_MAX_RANK];
} header;

/* The text behind `'key':`, or NULL. */
static const char *value_of(const char *text, const char *key)
{
    char quoted[32];
    snprintf(quoted, sizeof quoted, "'%s'", key);
    const char *at = strstr(text, quoted);
    at = at ? strchr(at + strlen(quoted), ':') : NULL;
    if (!at)
        return NULL;
    for (at++; *at == ' ';)
        at++;
    return at;
}

static bool parse_descr(const source *s, const char *at, header *h)
{
    if (!at || *at != '\'')
        return bad(s, "its element type is not a plain one");
    char order = at[1], kind = order ? at[2] : '\0';
    char *end = NULL;
    unsigned long bytes = kind ? strtoul(at + 3, &end, 10) : 0;
    for (int i = 0; i < N_TYPES; i++)
        if (kind == types[i].kind && bytes == types[i].bytes && end && *end == '\'') {
            h->elem = types[i].elem;
            h->swapped = order == '>' && bytes > 1;
            return true;
        }
    return tw_error(s->ctx, NULL,
                    "%s: element type '%.*s' is not supported (bool, integers, f2, f4, f8 are)",
                    s->path, (int)strcspn(at + 1, "'"), at + 1);
}

static bool parse_dims(const source *s, const char *at, header *h)
{
    if (!at || *at != '(')
        return bad(s, "its header has no shape");
    for (at++; *at && *at != ')';) {
        if (*at == ',' || *at == ' ') {
            at++;
            continue;
        }
        char *end;
        errno = 0;
        long long dim = strtoll(at, &end, 10);
        if (errno || end == at || dim < 0)
            return bad(s, "its shape is malformed");
        if (h->rank == TW_MAX_RANK)
            return bad(s, "its rank is above 16");
        h->dims[h->rank++] = dim;
        at = *end == 'L' ? end + 1 : end;
    }
    return *at == ')' || bad(s, "its shape is malformed");
}

static bool read_header(source *s, header *h)
{
    unsigned char start[MAGIC_SIZE + 2] = {0}, length[4] = {0};
    if (!read_bytes(s, start, sizeof start))
        return false;
    if (memcmp(start, magic, MAGIC_SIZE) || start[6] < 1 || start[6] > 3)
        return bad(s, "not a NumPy array (.npy)");
    if (!read_bytes(s, length, start[6] == 1 ? 2 : 4))
        return false;
    uint32_t size = length[0] | (uint32_t)length[1] << 8 | (uint32_t)length[2] << 16 |
                    (uint32_t)length[3] << 24;
    if (size > MAX_HEADER)
        return bad(s, "its header is too large");
    char *text = tw_context_alloc(s->ctx, size + 1u);
    if (!read_bytes(s, text, size))
        return false;
    const char *order = value_of(text, "fortran_order");
    h->fortran = order && !strncmp(order, "True", 4);
    return parse_descr(s, value_of(text, "descr"), h) && parse_dims(s, value_of(text, "shape"), h);
}

/* ---- Data ---- */

static void swap_bytes(void *data, size_t size, unsigned width)
{
    for (char *at = data; size >= width; at += width, size -= width)
        for (unsigned i = 0; i < width / 2; i++) {
            char c = at[i];
            at[i] = at[width - 1 - i];
            at[width - 1 - i] = c;
        }
}

/* Any byte but 0 is true. */
static void normalise_bools(uint8_t *data, size_t size)
{
    for (size_t i = 0; i < size; i++)
        data[i] = data[i] != 0;
}

/* Column-major to row-major, walking the result in order. */
static void *reorder(tw_context *ctx, const tw_array *a, unsigned width)
{
    char *to = tw_context_alloc(ctx, a->size);
    int64_t index[TW_MAX_RANK] = {0};
    for (size_t at = 0; at < a->size; at += width) {
        int64_t from = 0;
        for (unsigned i = a->rank; i-- > 0;)
            from = from * a->dims[i] + index[i];
        memcpy(to + at, (const char *)a->data + (size_t)from * width, width);
        for (unsigned i = a->rank; i-- > 0;) {
            if (++index[i] < a->dims[i])
                break;
            index[i] = 0;
        }
    }
    return to;
}

static bool read_array(source *s, tw_array *out)
{
    header h = {.rank = 0};
    if (!read_header(s, &h))
        return false;
    *out = (tw_array){.name = s->member, .elem = h.elem, .rank = h.rank};
    memcpy(out->dims, h.dims, sizeof h.dims);
    if (!tw_array_size(h.elem, h.rank, h.dims, &out->size))
        return bad(s, "its shape is too large");
    if (out->size > s->left)
        return bad(s, "the array is truncated");
    unsigned width = tw_elem_bits(h.elem) / 8;
    out->data = tw_context_alloc(s->ctx, out->size);
    if (!read_bytes(s, out->data, out->size))
        return false;
    if (h.swapped)
        swap_bytes(out->data, out->size, width);
    if (h.elem == TW_BOOL)
        normalise_bools(out->data, out->size);
    if (h.fortran && h.rank > 1)
        out->data = reorder(s->ctx, out, width);
    return true;
}

bool tw_npy_read(tw_context *ctx, const char *path, tw_array *out)
{
    source s = {.ctx = ctx, .path = path, .plain = fopen(path, "rb")};
    if (!s.plain)
        return tw_error(ctx, NULL, "%s: %s", path, strerror(errno));
    long end = fseek(s.plain, 0, SEEK_END) ? -1 : ftell(s.plain);
    s.left = end > 0 && !fseek(s.plain, 0, SEEK_SET) ? (uint64_t)end : 0;
    bool fine = read_array(&s, out);
    fclose(s.plain);
    return fine;
}

static bool read_member(tw_context *ctx, zip_t *archive, const char *path, zip_uint64_t i,
                        tw_array *out)
{
    zip_stat_t stat;
    zip_stat_init(&stat);
    const zip_uint64_t needed = ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_NAME;
    if (zip_stat_index(archive, i, 0, &stat) || (stat.valid & needed) != needed)
        return tw_error(ctx, NULL, "%s: member %llu cannot be read", path, (unsigned long long)i);
    size_t len = strlen(stat.name);
    if (len > 4 && !strcmp(stat.name + len - 4, ".npy"))
        len -= 4;
    source s = {
        .ctx = ctx, .path = path, .member = tw_intern(ctx, stat.name, len), .left = stat.size};
    if (stat.size / MAX_RATIO > stat.comp_size)
        return bad(&s, "it cannot be as large as the archive says");
    s.zipped = zip_fopen_index(archive, i, 0);
    if (!s.zipped)
        return bad(&s, zip_strerror(archive));
    bool fine = read_array(&s, out);
    zip_fclose(s.zipped);
    return fine;
}

bool tw_npz_read(tw_context *ctx, const char *path, tw_arrays *out)
{
    int code = 0;
    zip_t *archive = zip_open(path, ZIP_RDONLY, &code);
    if (!archive) {
        zip_error_t error;
        zip_error_init_with_code(&error, code);
        tw_error(ctx, NULL, "%s: not a readable archive of arrays (.npz): %s", path,
                 zip_error_strerror(&error));
        zip_error_fini(&error);
        return false;
    }
    zip_int64_t n = zip_get_num_entries(archive, 0);
    out->items = TW_NEW_ARRAY(tw_context_arena(ctx), tw_array, (size_t)(n > 0 ? n : 0));
    out->n = 0;
    bool fine = true;
    for (zip_int64_t i = 0; i < n && fine; i++)
        fine = read_member(ctx, archive, path, (zip_uint64_t)i, &out->items[out->n++]);
    zip_discard(archive);
    return fine;
}

const tw_array *tw_arrays_find(const tw_arrays *arrays, const char *name)
{
    for (size_t i = 0; i < arrays->n; i++)
        if (!strcmp(arrays->items[i].name, name))
            return &arrays->items[i];
    return NULL;
}

/* ---- Writing ---- */

static const char *descr_of(tw_context *ctx, tw_elem elem)
{
    for (int i = 0; i < N_TYPES; i++)
        if (types[i].elem == elem)
            return tw_arena_printf(tw_context_arena(ctx), "%c%c%u", types[i].bytes > 1 ? '<' : '|',
                                   types[i].kind, types[i].bytes);
    return NULL;
}

/* Header and data in one block of memory. */
static void *encode(tw_context *ctx, const tw_array *a, const char *descr, size_t *size)
{
    tw_arena *arena = tw_context_arena(ctx);
    const char *shape = "";
    for (unsigned i = 0; i < a->rank; i++)
        shape = tw_arena_printf(arena, "%s%lld,%s", shape, (long long)a->dims[i],
                                i + 1 < a->rank ? " " : "");
    const char *dict = tw_arena_printf(
        arena, "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descr, shape);
    size_t prefix = MAGIC_SIZE + 4, len = strlen(dict) + 1;
    size_t padded = (prefix + len + 63) / 64 * 64 - prefix;
    char *bytes = tw_context_alloc(ctx, prefix + padded + a->size);
    memcpy(bytes, magic, MAGIC_SIZE);
    bytes[6] = 1;
    bytes[8] = (char)(padded & 0xff);
    bytes[9] = (char)(padded >> 8);
    memset(bytes + prefix, ' ', padded);
    memcpy(bytes + prefix, dict, len - 1);
    bytes[prefix + padded - 1] = '\n';
    if (a->size)
        memcpy(bytes + prefix + padded, a->data, a->size);
    *size = prefix + padded + a->size;
    return bytes;
}

static bool add_member(tw_context *ctx, zip_t *archive, const char *path, const tw_array *a)
{
    const char *descr = descr_of(ctx, a->elem);
    if (!descr)
        return tw_error(ctx, NULL, "%s: '%s' has element type %s, which NumPy's files do not have",
                        path, a->name, tw_elem_name(a->elem));
    size_t size;
    void *bytes = encode(ctx, a, descr, &size);
    zip_source_t *src = zip_source_buffer(archive, bytes, size, 0);
    const char *name = tw_arena_printf(tw_context_arena(ctx), "%s.npy", a->name);
    zip_int64_t index = src ? zip_file_add(archive, name, src, ZIP_FL_ENC_UTF_8) : -1;
    if (index < 0) {
        zip_source_free(src);
        return tw_error(ctx, NULL, "%s: %s", path, zip_strerror(archive));
    }
    zip_set_file_compression(archive, (zip_uint64_t)index, ZIP_CM_STORE, 0);
    /* Equal arrays make equal files: in 1980, where the time of zip archives begins. */
    zip_file_set_mtime(archive, (zip_uint64_t)index, 315662400, 0);
    return true;
}

bool tw_npz_write(tw_context *ctx, const char *path, const tw_array *arrays, size_t n)
{
    int code = 0;
    zip_t *archive = zip_open(path, ZIP_CREATE | ZIP_TRUNCATE, &code);
    if (!archive)
        return tw_error(ctx, NULL, "%s: cannot be written", path);
    for (size_t i = 0; i < n; i++)
        if (!add_member(ctx, archive, path, &arrays[i])) {
            zip_discard(archive);
            return false;
        }
    if (zip_close(archive)) {
        tw_error(ctx, NULL, "%s: %s", path, zip_strerror(archive));
        zip_discard(archive);
        return false;
    }
    return true;
}
