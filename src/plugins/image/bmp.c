/* bmp.c: Windows bitmaps: 1 to 32 bits a pixel, palettes, bit masks, run lengths. */
#include "plugins/image/image.h"

#include <string.h>

enum { RGB = 0, RLE8 = 1, RLE4 = 2, BITFIELDS = 3, ALPHA_BITFIELDS = 6 };

typedef struct bitmap {
    const uint8_t *data;
    size_t size;
    size_t pixels; /* where they begin */
    int64_t width, height;
    bool top_down;
    unsigned bits, compression;
    uint32_t masks[3];
    const uint8_t *palette;
    unsigned n_colours, colour_bytes;
    tw_image *out;
} bitmap;

static uint32_t u16(const uint8_t *p)
{
    return (uint32_t)(p[0] | p[1] << 8);
}

static uint32_t u32(const uint8_t *p)
{
    return u16(p) | u16(p + 2) << 16;
}

/* ---- The header ---- */

static bool read_sizes(bitmap *b, uint32_t header)
{
    const uint8_t *h = b->data + 14;
    bool old = header == 12;
    b->width = old ? (int64_t)u16(h + 4) : (int32_t)u32(h + 4);
    b->height = old ? (int64_t)u16(h + 6) : (int32_t)u32(h + 8);
    b->bits = u16(h + (old ? 10 : 14));
    b->compression = old ? RGB : u32(h + 16);
    b->top_down = b->height < 0;
    b->height = b->height < 0 ? -b->height : b->height;
    return b->width > 0 && b->height > 0;
}

static void default_masks(bitmap *b)
{
    static const uint32_t narrow[3] = {0x7c00, 0x3e0, 0x1f}, wide[3] = {0xff0000, 0xff00, 0xff};
    memcpy(b->masks, b->bits == 16 ? narrow : wide, sizeof b->masks);
}

static bool read_header(bitmap *b)
{
    if (b->size < 14 + 12)
        return false;
    uint32_t header = u32(b->data + 14);
    b->pixels = u32(b->data + 10);
    if ((header != 12 && header < 40) || header > b->size - 14 || !read_sizes(b, header))
        return false;
    size_t end = 14 + header;
    default_masks(b);
    bool masked = b->compression == BITFIELDS || b->compression == ALPHA_BITFIELDS;
    if (masked) {
        size_t n = b->compression == BITFIELDS ? 12 : 16;
        if (header == 40)
            end += n; /* behind the header; in later ones within it */
        if ((b->bits != 16 && b->bits != 32) || b->size < 14 + 40 + 12 || end > b->size)
            return false;
        for (unsigned i = 0; i < 3; i++)
            b->masks[i] = u32(b->data + 14 + 40 + 4 * i);
    }
    b->colour_bytes = header == 12 ? 3 : 4;
    if (b->bits <= 8) {
        uint32_t used = header == 12 ? 0 : u32(b->data + 14 + 32);
        b->n_colours = used && used <= 1u << b->bits ? used : 1u << b->bits;
        b->palette = b->data + end;
        if ((b->size - end) / b->colour_bytes < b->n_colours)
            return false;
    }
    return b->pixels <= b->size;
}

/* ---- Pixels ---- */

static uint8_t *pixel(const bitmap *b, int64_t x, int64_t row)
{
    int64_t y = b->top_down ? row : b->height - 1 - row;
    return b->out->rgb + 3 * (y * b->width + x);
}

/* Colours that the palette lacks are black. */
static void put_colour(const bitmap *b, int64_t x, int64_t row, unsigned index)
{
    uint8_t *to = pixel(b, x, row);
    for (unsigned c = 0; index < b->n_colours && c < 3; c++)
        to[c] = b->palette[index * b->colour_bytes + 2 - c];
}

/* The bits under a mask, stretched to 0..255. */
static uint8_t component(uint32_t value, uint32_t mask)
{
    if (!mask)
        return 0;
    int shift = __builtin_ctz(mask);
    uint64_t most = mask >> shift;
    return (uint8_t)(((uint64_t)((value & mask) >> shift) * 255 + most / 2) / most);
}

static bool read_rows(const bitmap *b)
{
    size_t row = ((size_t)b->width * b->bits + 31) / 32 * 4;
    if ((b->size - b->pixels) / row < (size_t)b->height)
        return false;
    for (int64_t y = 0; y < b->height; y++)
        for (int64_t x = 0; x < b->width; x++) {
            const uint8_t *from = b->data + b->pixels + (size_t)y * row;
            if (b->bits <= 8) {
                unsigned per_byte = 8 / b->bits, at = (unsigned)(x % per_byte);
                unsigned shift = 8 - b->bits * (at + 1);
                put_colour(b, x, y, from[x / per_byte] >> shift & ((1u << b->bits) - 1));
                continue;
            }
            from += (size_t)x * (b->bits / 8);
            uint32_t value = b->bits == 16   ? u16(from)
                             : b->bits == 24 ? u16(from) | (uint32_t)from[2] << 16
                                             : u32(from);
            for (unsigned c = 0; c < 3; c++)
                pixel(b, x, y)[c] = component(value, b->masks[c]);
        }
    return true;
}

/* ---- Run lengths ---- */

typedef struct run_reader {
    const bitmap *b;
    const uint8_t *at, *end;
    int64_t x, y;
} run_reader;

static void put_run(run_reader *r, unsigned index)
{
    if (r->x < r->b->width && r->y < r->b->height)
        put_colour(r->b, r->x, r->y, index);
    r->x++;
}

/* `n` pixels one by one, padded to 16 bits. */
static bool read_absolute(run_reader *r, unsigned n)
{
    size_t bytes = r->b->bits == 4 ? (n + 1) / 2 : n;
    if ((size_t)(r->end - r->at) < bytes)
        return false;
    for (unsigned i = 0; i < n; i++)
        put_run(r, r->b->bits == 8 ? r->at[i] : r->at[i / 2] >> (i % 2 ? 0 : 4) & 15);
    bytes += bytes % 2;
    r->at += (size_t)(r->end - r->at) < bytes ? (size_t)(r->end - r->at) : bytes;
    return true;
}

/* Ends at the mark for it, or where all rows are filled. */
static bool read_runs(const bitmap *b)
{
    run_reader r = {b, b->data + b->pixels, b->data + b->size, 0, 0};
    while (r.y < b->height) {
        if (r.end - r.at < 2)
            return false;
        unsigned n = r.at[0], value = r.at[1];
        r.at += 2;
        for (unsigned i = 0; i < n; i++)
            put_run(&r, b->bits == 8 ? value : value >> (i % 2 ? 0 : 4) & 15);
        if (n)
            continue;
        if (value == 1)
            return true;
        if (value == 0) {
            r.x = 0;
            r.y++;
        } else if (value == 2) {
            if (r.end - r.at < 2)
                return false;
            r.x += r.at[0];
            r.y += r.at[1];
            r.at += 2;
        } else if (!read_absolute(&r, value)) {
            return false;
        }
    }
    return true;
}

tw_image_status tw_image_decode_bmp(const uint8_t *data, size_t size, tw_image *out)
{
    bitmap b = {.data = data, .size = size, .out = out};
    if (!read_header(&b))
        return TW_IMAGE_BROKEN;
    bool runs = (b.compression == RLE8 && b.bits == 8) || (b.compression == RLE4 && b.bits == 4);
    bool plain =
        b.compression == RGB || b.compression == BITFIELDS || b.compression == ALPHA_BITFIELDS;
    if ((!runs && !plain) ||
        (b.bits != 1 && b.bits != 4 && b.bits != 8 && b.bits != 16 && b.bits != 24 && b.bits != 32))
        return TW_IMAGE_BROKEN;
    tw_image_status status = tw_image_allocate(out, (uint64_t)b.width, (uint64_t)b.height, 0);
    if (status != TW_IMAGE_OK)
        return status;
    return (runs ? read_runs(&b) : read_rows(&b)) ? TW_IMAGE_OK : TW_IMAGE_BROKEN;
}
