/* picture.c: PNG through libpng's simplified interface; sampling and drawing. */
#include "picture.h"

#include <math.h>
#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool picture_read(picture *p, const char *path)
{
    png_image image = {.version = PNG_IMAGE_VERSION};
    *p = (picture){0};
    if (png_image_begin_read_from_file(&image, path)) {
        image.format = PNG_FORMAT_RGB;
        *p = (picture){(int)image.width, (int)image.height, malloc(PNG_IMAGE_SIZE(image))};
        if (p->rgb && png_image_finish_read(&image, NULL, p->rgb, 0, NULL))
            return true;
    }
    fprintf(stderr, "%s: %s\n", path, image.message[0] ? image.message : "out of memory");
    png_image_free(&image);
    picture_free(p);
    return false;
}

bool picture_write(const picture *p, const char *path)
{
    png_image image = {.version = PNG_IMAGE_VERSION,
                       .width = (png_uint_32)p->width,
                       .height = (png_uint_32)p->height,
                       .format = PNG_FORMAT_RGB};
    if (png_image_write_to_file(&image, path, 0, p->rgb, 0, NULL))
        return true;
    fprintf(stderr, "%s: %s\n", path, image.message);
    return false;
}

void picture_free(picture *p)
{
    free(p->rgb);
    *p = (picture){0};
}

bool picture_enlarge(const picture *p, int factor, int margin, picture *out)
{
    int width = p->width * factor + margin, height = p->height * factor;
    size_t size = (size_t)width * (size_t)height * 3;
    *out = (picture){width, height, malloc(size)};
    if (!out->rgb)
        return false;
    memset(out->rgb, 255, size);
    for (int y = 0; y < height; y++)
        for (int x = 0; x < p->width * factor; x++)
            memcpy(out->rgb + 3 * ((size_t)y * width + x),
                   p->rgb + 3 * ((size_t)(y / factor) * p->width + x / factor), 3);
    return true;
}

static float clamp(float v, float lo, float hi)
{
    return fminf(fmaxf(v, lo), hi);
}

void picture_sample(const picture *p, float x, float y, float rgb[3])
{
    x = clamp(x, 0, (float)(p->width - 1));
    y = clamp(y, 0, (float)(p->height - 1));
    int x0 = (int)x, y0 = (int)y;
    int x1 = x0 + 1 < p->width ? x0 + 1 : x0, y1 = y0 + 1 < p->height ? y0 + 1 : y0;
    float fx = x - (float)x0, fy = y - (float)y0;
    const unsigned char *row0 = p->rgb + 3 * (size_t)y0 * p->width;
    const unsigned char *row1 = p->rgb + 3 * (size_t)y1 * p->width;
    for (int c = 0; c < 3; c++) {
        float top = (1 - fx) * row0[3 * x0 + c] + fx * row0[3 * x1 + c];
        float bottom = (1 - fx) * row1[3 * x0 + c] + fx * row1[3 * x1 + c];
        rgb[c] = (1 - fy) * top + fy * bottom;
    }
}

static void dot(picture *p, int x, int y)
{
    if (x >= 0 && y >= 0 && x < p->width && y < p->height)
        memcpy(p->rgb + 3 * ((size_t)y * p->width + x), "\xe0\x20\x20", 3);
}

void picture_line(picture *p, float x0, float y0, float x1, float y1)
{
    int steps = (int)ceilf(fmaxf(fabsf(x1 - x0), fabsf(y1 - y0))) + 1;
    for (int i = 0; i <= steps; i++) {
        float t = (float)i / (float)steps;
        dot(p, (int)lroundf(x0 + t * (x1 - x0)), (int)lroundf(y0 + t * (y1 - y0)));
    }
}

void picture_number(picture *p, int x, int y, int size, int number)
{
    /* Rows of three dots, the top one in the highest bits. */
    static const unsigned short digits[10] = {075557, 026227, 071747, 071717, 055711,
                                              074717, 074757, 071111, 075757, 075717};
    char text[16];
    snprintf(text, sizeof text, "%d", number);
    for (const char *c = text; *c; c++, x += 4 * size)
        for (int i = 0; i < 15 * size * size; i++) {
            int row = i / (3 * size), column = i % (3 * size);
            int bit = 14 - (row / size * 3 + column / size);
            if (*c >= '0' && *c <= '9' && digits[*c - '0'] >> bit & 1)
                dot(p, x + column, y + row);
        }
}
