/* tiff.c: the first picture of a TIFF file, upright, by libtiff. */
#include "plugins/image/image.h"

#include <stdlib.h>
#include <string.h>
#include <tiffio.h>

typedef struct source {
    const uint8_t *data;
    size_t size, at;
} source;

static tmsize_t read_bytes(thandle_t handle, void *to, tmsize_t n)
{
    source *s = handle;
    size_t left = s->at < s->size ? s->size - s->at : 0;
    size_t count = n < 0 ? 0 : (size_t)n < left ? (size_t)n : left;
    memcpy(to, s->data + s->at * (count > 0), count);
    s->at += count;
    return (tmsize_t)count;
}

static tmsize_t write_bytes(thandle_t handle, void *from, tmsize_t n)
{
    (void)handle, (void)from, (void)n;
    return -1;
}

static toff_t seek(thandle_t handle, toff_t to, int whence)
{
    source *s = handle;
    s->at = (size_t)(whence == SEEK_CUR ? s->at + to : whence == SEEK_END ? s->size + to : to);
    return s->at;
}

static int finish(thandle_t handle)
{
    (void)handle;
    return 0;
}

static toff_t size_of(thandle_t handle)
{
    return ((source *)handle)->size;
}

static int ignore(TIFF *tiff, void *data, const char *module, const char *format, va_list args)
{
    (void)tiff, (void)data, (void)module, (void)format, (void)args;
    return 1;
}

static TIFF *open_tiff(source *s)
{
    TIFFOpenOptions *options = TIFFOpenOptionsAlloc();
    if (!options)
        return NULL;
    TIFFOpenOptionsSetMaxSingleMemAlloc(options, TW_IMAGE_MAX_BYTES);
    TIFFOpenOptionsSetErrorHandlerExtR(options, ignore, NULL);
    TIFFOpenOptionsSetWarningHandlerExtR(options, ignore, NULL);
    TIFF *tiff = TIFFClientOpenExt("picture", "rm", s, read_bytes, write_bytes, seek, finish,
                                   size_of, NULL, NULL, options);
    TIFFOpenOptionsFree(options);
    return tiff;
}

/* Colours that are not multiplied by the opacity stay so when it is dropped. */
static void keep_colours(TIFF *tiff)
{
    uint16_t n = 0, *kinds = NULL;
    if (TIFFGetField(tiff, TIFFTAG_EXTRASAMPLES, &n, &kinds) && n == 1 &&
        kinds[0] == EXTRASAMPLE_UNASSALPHA)
        TIFFSetField(tiff, TIFFTAG_EXTRASAMPLES, 1, (uint16_t[]){EXTRASAMPLE_ASSOCALPHA});
}

static tw_image_status read_picture(TIFF *tiff, tw_image *out)
{
    uint32_t width = 0, height = 0;
    if (!TIFFGetField(tiff, TIFFTAG_IMAGEWIDTH, &width) ||
        !TIFFGetField(tiff, TIFFTAG_IMAGELENGTH, &height))
        return TW_IMAGE_BROKEN;
    tw_image_status status = tw_image_allocate(out, width, height, sizeof(uint32_t));
    if (status != TW_IMAGE_OK)
        return status;
    keep_colours(tiff);
    size_t n = out->width * out->height;
    uint32_t *pixels = malloc(n * sizeof *pixels);
    if (!pixels)
        return TW_IMAGE_NO_MEMORY;
    bool fine = TIFFReadRGBAImageOriented(tiff, width, height, pixels, ORIENTATION_TOPLEFT, 1);
    for (size_t i = 0; fine && i < n; i++) {
        out->rgb[3 * i] = (uint8_t)TIFFGetR(pixels[i]);
        out->rgb[3 * i + 1] = (uint8_t)TIFFGetG(pixels[i]);
        out->rgb[3 * i + 2] = (uint8_t)TIFFGetB(pixels[i]);
    }
    free(pixels);
    return fine ? TW_IMAGE_OK : TW_IMAGE_BROKEN;
}

tw_image_status tw_image_decode_tiff(const uint8_t *data, size_t size, tw_image *out)
{
    source s = {data, size, 0};
    TIFF *tiff = open_tiff(&s);
    if (!tiff)
        return TW_IMAGE_BROKEN;
    tw_image_status status = read_picture(tiff, out);
    TIFFClose(tiff);
    return status;
}
