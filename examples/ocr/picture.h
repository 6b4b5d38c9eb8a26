/* picture.h: RGB pictures in memory, from and to PNG files. */
#ifndef PICTURE_H
#define PICTURE_H

#include <stdbool.h>

typedef struct picture {
    int width, height;
    unsigned char *rgb; /* height x width x 3, from malloc */
} picture;

/* False with a message on stderr. */
bool picture_read(picture *p, const char *path);
bool picture_write(const picture *p, const char *path);
void picture_free(picture *p);

/* `p` at `factor` times its size, each pixel repeated, with a white margin of `margin` pixels to
 * the right; false when out of memory. */
bool picture_enlarge(const picture *p, int factor, int margin, picture *out);

/* The colours 0…255 at a point, the centre of the first pixel being (0, 0); bilinear between
 * pixels, the border's colour outside. */
void picture_sample(const picture *p, float x, float y, float rgb[3]);

/* A red line between two points, clipped. */
void picture_line(picture *p, float x0, float y0, float x1, float y1);
/* A number in red, its top left corner at (x, y), `size` pixels a dot of its 3 x 5 digits. */
void picture_number(picture *p, int x, int y, int size, int number);

#endif
