/* recognise.c: cuts a line out of the picture, runs the recogniser, decodes its classes.
 *
 * The recogniser gives probabilities of classes for each step along the line (CTC: Graves et al.,
 * 2006): equal neighbours are one character, class 0 separates. */
#include "recognise.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *read_text(const char *path)
{
    FILE *f = fopen(path, "rb");
    char *text = NULL;
    size_t size = 0, room = 0, got = 0;
    do {
        size += got;
        if (size + 1 >= room) {
            char *more = realloc(text, room = 2 * room + 65536);
            if (!more)
                break;
            text = more;
        }
        got = f ? fread(text + size, 1, room - size - 1, f) : 0;
    } while (got > 0);
    if (text)
        text[size] = 0;
    if (f)
        fclose(f);
    return text;
}

bool dictionary_read(dictionary *d, const char *path)
{
    *d = (dictionary){.text = read_text(path)};
    int lines = 0;
    for (const char *c = d->text; c && *c; c++)
        lines += *c == '\n';
    d->entry = calloc((size_t)lines + 2, sizeof *d->entry);
    if (!d->entry || lines == 0) {
        fprintf(stderr, "%s: cannot be read, or holds no lines\n", path);
        dictionary_free(d);
        return false;
    }
    d->entry[d->n++] = "";
    for (char *line = d->text, *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = 0;
        d->entry[d->n++] = line;
    }
    d->entry[d->n++] = " ";
    return true;
}

void dictionary_free(dictionary *d)
{
    free(d->text);
    free(d->entry);
    *d = (dictionary){0};
}

/* The box, straightened, at the network's height; what is left of its width is zero. */
static void fill_input(network *n, const picture *p, const text_box *b)
{
    int height = (int)n->in[2], width = (int)n->in[3];
    float step = b->height / (float)height; /* of the picture's pixels a pixel */
    int used = (int)ceilf(b->width / step);
    if (used > width)
        used = width;
    float step_x = b->width / (float)used;
    for (int y = 0; y < height; y++)
        for (int x = 0; x < width; x++) {
            float u = ((float)x + 0.5f) * step_x - b->width / 2;
            float v = ((float)y + 0.5f) * step - b->height / 2, rgb[3] = {127.5f, 127.5f, 127.5f};
            if (x < used)
                picture_sample(p, b->x + u * b->ux - v * b->uy, b->y + u * b->uy + v * b->ux, rgb);
            for (int c = 0; c < 3; c++)
                n->input[((size_t)c * height + y) * width + x] = rgb[2 - c] / 127.5f - 1;
        }
}

static int best_class(const float *probability, int n)
{
    int best = 0;
    for (int i = 1; i < n; i++)
        if (probability[i] > probability[best])
            best = i;
    return best;
}

float recognise(network *n, const dictionary *d, const picture *p, const text_box *box, int times,
                char *out, int size)
{
    const int64_t *dims;
    fill_input(n, p, box);
    const float *classes = network_run(n, times, &dims);
    if (!classes)
        return -1;
    int steps = (int)dims[1], all = (int)dims[2], before = 0, found = 0, len = 0;
    float sum = 0;
    out[0] = 0;
    for (int t = 0; t < steps; t++) {
        const float *probability = classes + (size_t)t * all;
        int c = best_class(probability, all);
        if (c != before && c > 0 && c < d->n && len + (int)strlen(d->entry[c]) < size) {
            strcpy(out + len, d->entry[c]);
            len += (int)strlen(d->entry[c]);
            sum += probability[c];
            found++;
        }
        before = c;
    }
    return found ? sum / (float)found : 0;
}
