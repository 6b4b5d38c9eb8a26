/* webp.c: WebP by libwebp; its animations are no pictures. */
#include "plugins/image/image.h"

#include <webp/decode.h>

tw_image_status tw_image_decode_webp(const uint8_t *data, size_t size, tw_image *out)
{
    int width, height;
    if (!WebPGetInfo(data, size, &width, &height) || width <= 0 || height <= 0)
        return TW_IMAGE_BROKEN;
    /* Lossless ones are decoded as four bytes a pixel first. */
    tw_image_status status = tw_image_allocate(out, (uint64_t)width, (uint64_t)height, 4);
    if (status != TW_IMAGE_OK)
        return status;
    size_t row = out->width * 3;
    return WebPDecodeRGBInto(data, size, out->rgb, row * out->height, (int)row) ? TW_IMAGE_OK
                                                                                : TW_IMAGE_BROKEN;
}
