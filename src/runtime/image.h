/* image.h: a compiled model's file, checked, mapped and loaded. */
#ifndef TW_RUNTIME_IMAGE_H
#define TW_RUNTIME_IMAGE_H

#include "artifact/trailer.h"
#include "tilewright/model.h"
#include "tilewright/runtime.h"

/* Zero but for what tw_image_open sets. */
typedef struct tw_image {
    int fd;               /* stays open: the name that the dynamic linker knows refers to it */
    const uint8_t *bytes; /* the whole file */
    size_t size;
    tw_trailer trailer;
    void *handle; /* of dlopen */
    const tw_abi_model *model;
} tw_image;

/* Checks the file (all of it but the constants) and loads its code. `fd` is the image's from now
 * on, and closed on failure. `name` is for messages. */
tw_status tw_image_open(tw_image *image, int fd, const char *name);

/* Checks the constants against the file's index. */
tw_status tw_image_verify_constants(const tw_image *image, const char *name);

void tw_image_close(tw_image *image);

#endif
