/* image.h: pictures in files of the usual formats become pixels: libtilewright-image.so, the
 * library of routines that models with ImageDecoder call.
 *
 * The bytes are not trusted: nothing crashes, and no more than TW_IMAGE_MAX_BYTES are allocated for
 * a picture, whatever it claims to be. */
#ifndef TW_PLUGINS_IMAGE_H
#define TW_PLUGINS_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TW_IMAGE_MAX_BYTES 500000000u

typedef enum tw_image_status {
    TW_IMAGE_OK,
    TW_IMAGE_BROKEN,    /* or of no format that is known */
    TW_IMAGE_TOO_LARGE, /* for TW_IMAGE_MAX_BYTES */
    TW_IMAGE_NO_MEMORY,
} tw_image_status;

typedef struct tw_image {
    size_t width, height; /* at least 1 */
    uint8_t *rgb;         /* height * width * 3, by malloc */
} tw_image;

/* A picture of whichever format the bytes begin like. The caller frees out->rgb after TW_IMAGE_OK;
 * else there is none. */
tw_image_status tw_image_decode(const uint8_t *data, size_t size, tw_image *out);

/* ---- Formats ---- */

/* Each decodes a file that begins like its format. */
typedef tw_image_status (*tw_image_decoder)(const uint8_t *data, size_t size, tw_image *out);

tw_image_status tw_image_decode_bmp(const uint8_t *data, size_t size, tw_image *out);
tw_image_status tw_image_decode_jp2(const uint8_t *data, size_t size, tw_image *out);
tw_image_status tw_image_decode_jpeg(const uint8_t *data, size_t size, tw_image *out);
tw_image_status tw_image_decode_png(const uint8_t *data, size_t size, tw_image *out);
tw_image_status tw_image_decode_pnm(const uint8_t *data, size_t size, tw_image *out);
tw_image_status tw_image_decode_tiff(const uint8_t *data, size_t size, tw_image *out);
tw_image_status tw_image_decode_webp(const uint8_t *data, size_t size, tw_image *out);

/* Room for a picture whose decoder needs `more` bytes for each pixel beside it. */
tw_image_status tw_image_allocate(tw_image *image, uint64_t width, uint64_t height, uint64_t more);

#endif
