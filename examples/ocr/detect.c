/* detect.c: probability map -> connected regions -> rotated rectangles.
 *
 * The detector is trained on shrunken lines (Liao et al., Real-time Scene Text Detection with
 * Differentiable Binarization, 2020), so each rectangle is grown by area * RATIO / perimeter. */
#include "detect.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const float THRESHOLD = 0.3f, MIN_SCORE = 0.5f, RATIO = 1.6f;
enum { MIN_PIXELS = 16 };

/* Colours as the detector was trained on: blue, green, red, by mean and deviation of ImageNet. */
static void fill_input(network *n, const picture *p)
{
    static const float mean[3] = {0.485f, 0.456f, 0.406f}, deviation[3] = {0.229f, 0.224f, 0.225f};
    int height = (int)n->in[2], width = (int)n->in[3];
    float sx = (float)p->width / (float)width, sy = (float)p->height / (float)height;
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++) {
            float rgb[3];
            picture_sample(p, ((float)x + 0.5f) * sx - 0.5f, ((float)y + 0.5f) * sy - 0.5f, rgb);
            for (int c = 0; c < 3; c++)
                n->input[((size_t)c * height + y) * width + x] =
                    (rgb[2 - c] / 255 - mean[c]) / deviation[c];
        }
}

/* Collects the indices of the region of `seed` in `region`, and marks them in `seen`. */
static int flood(const float *map, unsigned char *seen, int height, int width, int seed,
                 int *region)
{
    int n = 0;
    seen[seed] = 1;
    region[n++] = seed;
    for (int i = 0; i < n; i++) {
        int y = region[i] / width, x = region[i] % width;
        for (int k = 0; k < 4; k++) {
            int v = y + (k == 0) - (k == 1), u = x + (k == 2) - (k == 3), at = v * width + u;
            if (v < 0 || u < 0 || v >= height || u >= width || seen[at] || map[at] <= THRESHOLD)
                continue;
            seen[at] = 1;
            region[n++] = at;
        }
    }
    return n;
}

/* The rectangle along the region's main axis, grown, in the map's pixels. */
static text_box enclose(const float *map, int width, const int *region, int n)
{
    double sx = 0, sy = 0, sxx = 0, sxy = 0, syy = 0, sum = 0;
    for (int i = 0; i < n; i++) {
        int row = region[i] / width, column = region[i] % width;
        double x = column, y = row;
        sx += x, sy += y, sxx += x * x, sxy += x * y, syy += y * y;
        sum += map[region[i]];
    }
    double cx = sx / n, cy = sy / n;
    double angle = 0.5 * atan2(2 * (sxy / n - cx * cy), (sxx / n - cx * cx) - (syy / n - cy * cy));
    text_box b = {.ux = (float)cos(angle), .uy = (float)sin(angle), .score = (float)(sum / n)};
    float lo_u = INFINITY, hi_u = -INFINITY, lo_v = INFINITY, hi_v = -INFINITY;
    for (int i = 0; i < n; i++) {
        int row = region[i] / width, column = region[i] % width;
        float x = (float)column - (float)cx, y = (float)row - (float)cy;
        float u = x * b.ux + y * b.uy, v = y * b.ux - x * b.uy;
        lo_u = fminf(lo_u, u), hi_u = fmaxf(hi_u, u), lo_v = fminf(lo_v, v), hi_v = fmaxf(hi_v, v);
    }
    float u = (lo_u + hi_u) / 2, v = (lo_v + hi_v) / 2;
    b.x = (float)cx + u * b.ux - v * b.uy;
    b.y = (float)cy + u * b.uy + v * b.ux;
    b.width = hi_u - lo_u + 1;
    b.height = hi_v - lo_v + 1;
    float grow = RATIO * b.width * b.height / (b.width + b.height);
    b.width += grow;
    b.height += grow;
    return b;
}

/* From the map's pixels to the picture's; the two scales are nearly equal. */
static text_box to_picture(text_box b, float scale_x, float scale_y)
{
    b.x = (b.x + 0.5f) * scale_x - 0.5f;
    b.y = (b.y + 0.5f) * scale_y - 0.5f;
    b.width *= scale_x;
    b.height *= scale_y;
    return b;
}

static int by_position(const void *a, const void *b)
{
    float ya = ((const text_box *)a)->y, yb = ((const text_box *)b)->y;
    return (ya > yb) - (ya < yb);
}

int detect(network *n, const picture *p, int times, text_box boxes[MAX_BOXES])
{
    const int64_t *dims;
    fill_input(n, p);
    const float *map = network_run(n, times, &dims);
    if (!map)
        return -1;
    int height = (int)dims[2], width = (int)dims[3], pixels = height * width, count = 0;
    unsigned char *seen = calloc((size_t)pixels, 1);
    int *region = malloc((size_t)pixels * sizeof *region);
    if (!seen || !region) {
        fprintf(stderr, "out of memory\n");
        count = -1;
    }
    for (int seed = 0; count >= 0 && count < MAX_BOXES && seed < pixels; seed++) {
        if (seen[seed] || map[seed] <= THRESHOLD)
            continue;
        int size = flood(map, seen, height, width, seed, region);
        text_box b = enclose(map, width, region, size);
        if (size >= MIN_PIXELS && b.score >= MIN_SCORE)
            boxes[count++] =
                to_picture(b, (float)p->width / (float)width, (float)p->height / (float)height);
    }
    free(seen);
    free(region);
    if (count > 0)
        qsort(boxes, (size_t)count, sizeof *boxes, by_position);
    return count;
}
