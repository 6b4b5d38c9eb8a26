/* detect.h: where in a picture text stands. */
#ifndef DETECT_H
#define DETECT_H

#include <stddef.h>

#include "network.h"
#include "picture.h"

/* A line of text: a rectangle around its centre, in the picture's pixels. (ux, uy) is the unit
 * vector along the line, (-uy, ux) the one down the line. */
typedef struct text_box {
    float x, y, width, height, ux, uy;
    float score; /* mean probability, 0…1 */
} text_box;

enum { MAX_BOXES = 256 };

/* Runs the detector (PP-OCR's: probability of text per pixel) and finds the lines, from top to
 * bottom. The number of boxes, or -1 with a message on stderr. */
int detect(network *detector, const picture *p, int times, text_box boxes[MAX_BOXES]);

#endif
