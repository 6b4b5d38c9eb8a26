/* pnm.c: portable bitmaps, greymaps and pixmaps, as text or binary. */
#include "plugins/image/image.h"

#include <ctype.h>

typedef struct reader {
    const uint8_t *at, *end;
} reader;

/* A number behind white space and comments. */
static bool read_number(reader *r, uint32_t *out)
{
    while (r->at < r->end && (isspace(*r->at) || *r->at == '#')) {
        if (*r->at == '#')
            while (r->at < r->end && *r->at != '\n')
                r->at++;
        else
            r->at++;
    }
    uint64_t value = 0;
    const uint8_t *start = r->at;
    while (r->at < r->end && isdigit(*r->at) && value <= UINT32_MAX)
        value = value * 10 + (uint64_t)(*r->at++ - '0');
    *out = (uint32_t)value;
    return r->at > start && value <= UINT32_MAX;
}

typedef struct header {
    unsigned channels;
    uint32_t most; /* the value that is white; 0 in bitmaps, where 1 is black */
    bool text;
} header;

/* A bit of a text bitmap: digits need no space between them. */
static bool read_bit(reader *r, uint32_t *out)
{
    while (r->at < r->end && isspace(*r->at))
        r->at++;
    *out = r->at < r->end ? (uint32_t)(*r->at - '0') : 2;
    return *out <= 1 && r->at++ < r->end;
}

static bool read_sample(reader *r, const header *h, uint32_t *out)
{
    if (h->text)
        return h->most ? read_number(r, out) && *out <= h->most : read_bit(r, out);
    size_t bytes = h->most > 255 ? 2 : 1;
    if ((size_t)(r->end - r->at) < bytes)
        return false;
    *out = bytes == 2 ? (uint32_t)(r->at[0] << 8 | r->at[1]) : *r->at;
    r->at += bytes;
    return *out <= h->most;
}

static bool read_pixels(reader *r, const header *h, tw_image *out)
{
    for (size_t i = 0; i < out->width * out->height; i++)
        for (unsigned c = 0; c < 3; c++) {
            uint32_t value;
            uint8_t *to = &out->rgb[3 * i + c];
            if (c >= h->channels)
                *to = to[-1];
            else if (!read_sample(r, h, &value))
                return false;
            else /* rounded to the nearest */
                *to = h->most ? (uint8_t)((value * 510u + h->most) / (2 * h->most))
                              : (value ? 0 : 255);
        }
    return true;
}

/* Rows of bits, each padded to a byte. */
static bool read_bits(const reader *r, tw_image *out)
{
    size_t row = (out->width + 7) / 8;
    if ((size_t)(r->end - r->at) / row < out->height)
        return false;
    for (size_t y = 0; y < out->height; y++)
        for (size_t x = 0; x < out->width; x++) {
            uint8_t *to = &out->rgb[3 * (y * out->width + x)];
            to[0] = to[1] = to[2] = r->at[y * row + x / 8] >> (7 - x % 8) & 1 ? 0 : 255;
        }
    return true;
}

tw_image_status tw_image_decode_pnm(const uint8_t *data, size_t size, tw_image *out)
{
    int kind = data[1] - '0'; /* 1 to 6 */
    reader r = {data + 2, data + size};
    uint32_t width, height;
    header h = {.channels = kind % 3 == 0 ? 3 : 1, .text = kind <= 3};
    if (!read_number(&r, &width) || !read_number(&r, &height))
        return TW_IMAGE_BROKEN;
    if (kind % 3 != 1 && (!read_number(&r, &h.most) || h.most == 0 || h.most > 65535))
        return TW_IMAGE_BROKEN;
    if (!h.text && (r.at == r.end || !isspace(*r.at++)))
        return TW_IMAGE_BROKEN;
    tw_image_status status = tw_image_allocate(out, width, height, 0);
    if (status != TW_IMAGE_OK)
        return status;
    return (kind == 4 ? read_bits(&r, out) : read_pixels(&r, &h, out)) ? TW_IMAGE_OK
                                                                       : TW_IMAGE_BROKEN;
}
