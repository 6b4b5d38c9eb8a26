/* decode.c: tells formats by their first bytes, and tw_rt_image_decode, the routine.
 *
 *   in      bytes of a file [n]
 *   out     pixels [height, width, channels] u8; [0, 0, channels] when the file cannot be decoded
 *   params  pixel format: 0 RGB, 1 BGR, 2 grey */
#include "plugins/image/image.h"

#include "tilewright/model.h"

#include <stdlib.h>
#include <string.h>

/* ---- Formats ---- */

static const struct {
    const char *magic;
    size_t len, at;
    tw_image_decoder decode;
} formats[] = {
    {"BM", 2, 0, tw_image_decode_bmp},
    {"\xff\xd8\xff", 3, 0, tw_image_decode_jpeg},
    {"\x89PNG\r\n\x1a\n", 8, 0, tw_image_decode_png},
    {"II*\0", 4, 0, tw_image_decode_tiff},
    {"MM\0*", 4, 0, tw_image_decode_tiff},
    {"II+\0", 4, 0, tw_image_decode_tiff},
    {"MM\0+", 4, 0, tw_image_decode_tiff},
    {"WEBP", 4, 8, tw_image_decode_webp},
    {"\0\0\0\x0cjP  \r\n\x87\n", 12, 0, tw_image_decode_jp2},
    {"\xff\x4f\xff\x51", 4, 0, tw_image_decode_jp2},
    {"P1", 2, 0, tw_image_decode_pnm},
    {"P2", 2, 0, tw_image_decode_pnm},
    {"P3", 2, 0, tw_image_decode_pnm},
    {"P4", 2, 0, tw_image_decode_pnm},
    {"P5", 2, 0, tw_image_decode_pnm},
    {"P6", 2, 0, tw_image_decode_pnm},
};

tw_image_status tw_image_decode(const uint8_t *data, size_t size, tw_image *out)
{
    *out = (tw_image){0};
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        size_t len = formats[i].len, at = formats[i].at;
        if (size < at + len || memcmp(data + at, formats[i].magic, len) != 0)
            continue;
        tw_image_status status = formats[i].decode(data, size, out);
        if (status != TW_IMAGE_OK) {
            free(out->rgb);
            *out = (tw_image){0};
        }
        return status;
    }
    return TW_IMAGE_BROKEN;
}

tw_image_status tw_image_allocate(tw_image *image, uint64_t width, uint64_t height, uint64_t more)
{
    if (width == 0 || height == 0)
        return TW_IMAGE_BROKEN;
    if (width > TW_IMAGE_MAX_BYTES || height > TW_IMAGE_MAX_BYTES || more > 1000 ||
        width > TW_IMAGE_MAX_BYTES / (3 + more) / height)
        return TW_IMAGE_TOO_LARGE;
    *image = (tw_image){(size_t)width, (size_t)height, calloc((size_t)(width * height), 3)};
    return image->rgb ? TW_IMAGE_OK : TW_IMAGE_NO_MEMORY;
}

/* ---- The routine ---- */

enum { RGB, BGR, GREY };

/* What the pixel format makes of a pixel, in place of its own three bytes or fewer. */
static void convert(const tw_image *image, int64_t format, uint8_t *out)
{
    const uint8_t *p = image->rgb;
    for (size_t i = 0, n = image->width * image->height; i < n; i++, p += 3) {
        if (format == GREY) /* the weights of ITU-R 601 */
            *out++ = (uint8_t)((p[0] * 19595u + p[1] * 38470u + p[2] * 7471u + 0x8000u) >> 16);
        else
            for (int c = 0; c < 3; c++)
                *out++ = p[format == BGR ? 2 - c : c];
    }
}

__attribute__((visibility("default"))) int32_t tw_rt_image_decode(const tw_abi_host *host,
                                                                  const tw_abi_value *in,
                                                                  uint32_t n_in, tw_abi_value *out,
                                                                  uint32_t n_out,
                                                                  const int64_t *params)
{
    tw_image image;
    (void)n_in, (void)n_out;
    tw_image_status status = tw_image_decode(in->data, (size_t)in->dims[0], &image);
    if (status == TW_IMAGE_TOO_LARGE)
        return host->error(host, 1, "ImageDecoder: the picture takes more than 500 MB");
    if (status == TW_IMAGE_NO_MEMORY)
        return host->error(host, 1, "ImageDecoder: no memory for the picture");
    int64_t channels = params[0] == GREY ? 1 : 3;
    out->dims[0] = (int64_t)image.height;
    out->dims[1] = (int64_t)image.width;
    out->dims[2] = channels;
    out->data = host->alloc(host, image.height * image.width * (size_t)channels + 1);
    if (out->data)
        convert(&image, params[0], out->data);
    free(image.rgb);
    return out->data ? 0 : host->error(host, 1, "ImageDecoder: no memory for the pixels");
}
