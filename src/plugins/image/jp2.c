/* jp2.c: JPEG 2000, as a file or a bare codestream, by OpenJPEG. */
#include "plugins/image/image.h"

#include <openjpeg.h>
#include <stdlib.h>
#include <string.h>

/* ---- Bytes ---- */

typedef struct source {
    const uint8_t *data;
    size_t size, at;
} source;

static OPJ_SIZE_T read_bytes(void *to, OPJ_SIZE_T n, void *data)
{
    source *s = data;
    size_t left = s->size - s->at, count = n < left ? n : left;
    memcpy(to, s->data + s->at, count);
    s->at += count;
    return count ? count : (OPJ_SIZE_T)-1;
}

static OPJ_OFF_T skip(OPJ_OFF_T n, void *data)
{
    source *s = data;
    if (n < 0 || (size_t)n > s->size - s->at)
        return -1;
    s->at += (size_t)n;
    return n;
}

static OPJ_BOOL seek(OPJ_OFF_T to, void *data)
{
    source *s = data;
    if (to < 0 || (size_t)to > s->size)
        return OPJ_FALSE;
    s->at = (size_t)to;
    return OPJ_TRUE;
}

static opj_stream_t *open_stream(source *s)
{
    opj_stream_t *stream = opj_stream_create(1 << 16, OPJ_TRUE);
    if (!stream)
        return NULL;
    opj_stream_set_user_data(stream, s, NULL);
    opj_stream_set_user_data_length(stream, s->size);
    opj_stream_set_read_function(stream, read_bytes);
    opj_stream_set_skip_function(stream, skip);
    opj_stream_set_seek_function(stream, seek);
    return stream;
}

/* ---- Pixels ---- */

/* A sample as 0..255; components may be coarser than the picture. */
static int sample(const opj_image_t *image, unsigned c, size_t x, size_t y)
{
    const opj_image_comp_t *comp = &image->comps[c];
    size_t cx = x / comp->dx, cy = y / comp->dy;
    cx = cx < comp->w ? cx : comp->w - 1;
    cy = cy < comp->h ? cy : comp->h - 1;
    int64_t value = comp->data[cy * comp->w + cx];
    if (comp->sgnd)
        value += INT64_C(1) << (comp->prec - 1);
    value =
        comp->prec > 8 ? value >> (comp->prec - 8) : value * 255 / ((INT64_C(1) << comp->prec) - 1);
    return (int)(value < 0 ? 0 : value > 255 ? 255 : value);
}

static uint8_t clamped(double v)
{
    return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : v + 0.5);
}

static void put_pixels(const opj_image_t *image, tw_image *out)
{
    bool grey = image->numcomps < 3, ycc = image->color_space == OPJ_CLRSPC_SYCC && !grey;
    for (size_t y = 0; y < out->height; y++)
        for (size_t x = 0; x < out->width; x++) {
            uint8_t *to = &out->rgb[3 * (y * out->width + x)];
            int v[3];
            for (unsigned c = 0; c < 3; c++)
                v[c] = sample(image, grey ? 0 : c, x, y);
            double luma = v[0], cb = v[1] - 128, cr = v[2] - 128;
            to[0] = ycc ? clamped(luma + 1.402 * cr) : (uint8_t)v[0];
            to[1] = ycc ? clamped(luma - 0.344136 * cb - 0.714136 * cr) : (uint8_t)v[1];
            to[2] = ycc ? clamped(luma + 1.772 * cb) : (uint8_t)v[2];
        }
}

static bool has_samples(const opj_image_t *image)
{
    for (unsigned c = 0; c < (image->numcomps < 3 ? 1 : 3); c++) {
        const opj_image_comp_t *comp = &image->comps[c];
        if (!comp->data || !comp->w || !comp->h || !comp->dx || !comp->dy || !comp->prec ||
            comp->prec > 31)
            return false;
    }
    return image->numcomps > 0;
}

/* ---- Decoding ---- */

static tw_image_status decode(opj_codec_t *codec, opj_stream_t *stream, opj_image_t **image,
                              tw_image *out)
{
    opj_dparameters_t parameters;
    opj_set_default_decoder_parameters(&parameters);
    if (!opj_setup_decoder(codec, &parameters) || !opj_read_header(stream, codec, image))
        return TW_IMAGE_BROKEN;
    const opj_image_t *i = *image;
    if (i->x1 <= i->x0 || i->y1 <= i->y0)
        return TW_IMAGE_BROKEN;
    /* Samples are decoded as 32 bits, a tile and the picture of them. */
    tw_image_status status =
        tw_image_allocate(out, i->x1 - i->x0, i->y1 - i->y0, 8 * (uint64_t)i->numcomps);
    if (status != TW_IMAGE_OK)
        return status;
    if (!opj_decode(codec, stream, *image) || !opj_end_decompress(codec, stream) ||
        !has_samples(*image))
        return TW_IMAGE_BROKEN;
    put_pixels(*image, out);
    return TW_IMAGE_OK;
}

tw_image_status tw_image_decode_jp2(const uint8_t *data, size_t size, tw_image *out)
{
    source s = {data, size, 0};
    tw_image_status status = TW_IMAGE_NO_MEMORY;
    opj_image_t *image = NULL;
    opj_stream_t *stream = open_stream(&s);
    opj_codec_t *codec = opj_create_decompress(data[0] ? OPJ_CODEC_J2K : OPJ_CODEC_JP2);
    if (stream && codec)
        status = decode(codec, stream, &image, out);
    opj_image_destroy(image);
    if (codec)
        opj_destroy_codec(codec);
    if (stream)
        opj_stream_destroy(stream);
    return status;
}
