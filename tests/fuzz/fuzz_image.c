/* fuzz_image.c: files of pictures. */
#include "plugins/image/image.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tw_image image;
    if (tw_image_decode(data, size, &image) == TW_IMAGE_OK) {
        if (!image.rgb || !image.width || !image.height)
            abort();
        free(image.rgb);
    } else if (image.rgb || image.width || image.height) {
        abort();
    }
    return 0;
}
