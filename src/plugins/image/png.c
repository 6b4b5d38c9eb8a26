/* png.c: PNG by libpng: the samples as they are, without gamma; 16 bits lose their lower byte. */
#include "plugins/image/image.h"

#include <png.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

typedef struct source {
    const uint8_t *at, *end;
} source;

static void read_bytes(png_structp png, png_bytep to, size_t n)
{
    source *s = png_get_io_ptr(png);
    if ((size_t)(s->end - s->at) < n)
        png_error(png, "the data end early");
    memcpy(to, s->at, n);
    s->at += n;
}

static void fail(png_structp png, png_const_charp message)
{
    (void)message;
    png_longjmp(png, 1);
}

static void ignore(png_structp png, png_const_charp message)
{
    (void)png, (void)message;
}

static tw_image_status read_rows(png_structp png, png_infop info, tw_image *out)
{
    png_read_info(png, info);
    png_set_expand(png);
    png_set_strip_16(png);
    png_set_strip_alpha(png);
    png_set_gray_to_rgb(png);
    int passes = png_set_interlace_handling(png);
    png_read_update_info(png, info);
    tw_image_status status =
        tw_image_allocate(out, png_get_image_width(png, info), png_get_image_height(png, info), 0);
    if (status != TW_IMAGE_OK)
        return status;
    if (png_get_rowbytes(png, info) != out->width * 3)
        return TW_IMAGE_BROKEN;
    for (int pass = 0; pass < passes; pass++)
        for (size_t y = 0; y < out->height; y++)
            png_read_row(png, out->rgb + y * out->width * 3, NULL);
    png_read_end(png, NULL);
    return TW_IMAGE_OK;
}

tw_image_status tw_image_decode_png(const uint8_t *data, size_t size, tw_image *out)
{
    source s = {data, data + size};
    volatile tw_image_status status = TW_IMAGE_BROKEN;
    png_structp png = png_create_read_struct(PNG_LIBPNG_VER_STRING, NULL, fail, ignore);
    png_infop info = png ? png_create_info_struct(png) : NULL;
    if (info && !setjmp(png_jmpbuf(png))) {
        png_set_read_fn(png, &s, read_bytes);
        png_set_user_limits(png, TW_IMAGE_MAX_BYTES, TW_IMAGE_MAX_BYTES);
        png_set_chunk_malloc_max(png, TW_IMAGE_MAX_BYTES / 8);
        status = read_rows(png, info, out);
    }
    png_destroy_read_struct(&png, &info, NULL);
    return status;
}
