/* ocr.c: reads the text in a picture, with two models that tilewright has compiled.
 *
 *     ocr DETECTOR RECOGNISER DICTIONARY IN.png OUT.png [THREADS]
 *
 * Prints a line of text a line, and the time that the models took; OUT.png shows where it found
 * them. */
#include <stdio.h>
#include <stdlib.h>

#include "recognise.h"

enum {
    TIMES = 5,   /* runs, of which the fastest is reported */
    SCALE = 2,   /* of the picture that shows the lines found */
    MARGIN = 40, /* to its right, in pixels, for their numbers */
};

/* Outlines a box on the enlarged picture, and numbers it. */
static void outline(picture *p, const text_box *b, int number)
{
    static const float corner[5][2] = {{-1, -1}, {1, -1}, {1, 1}, {-1, 1}, {-1, -1}};
    float x[5], y[5];
    for (int i = 0; i < 5; i++) {
        float u = corner[i][0] * b->width / 2, v = corner[i][1] * b->height / 2;
        x[i] = (b->x + 0.5f + u * b->ux - v * b->uy) * SCALE;
        y[i] = (b->y + 0.5f + u * b->uy + v * b->ux) * SCALE;
    }
    for (int i = 0; i < 4; i++)
        picture_line(p, x[i], y[i], x[i + 1], y[i + 1]);
    picture_number(p, p->width - MARGIN + 6, (int)((y[1] + y[2]) / 2) - 7, 3, number);
}

typedef struct reader {
    network detector, recogniser;
    dictionary dictionary;
    picture in, out;
} reader;

static bool read_lines(reader *r)
{
    text_box boxes[MAX_BOXES];
    int n = detect(&r->detector, &r->in, TIMES, boxes);
    if (n < 0 || !picture_enlarge(&r->in, SCALE, MARGIN, &r->out))
        return false;
    for (int i = 0; i < n; i++) {
        char text[1024];
        float confidence =
            recognise(&r->recogniser, &r->dictionary, &r->in, &boxes[i], TIMES, text, sizeof text);
        if (confidence < 0)
            return false;
        printf("%3d  %3.0f %%  %s\n", i + 1, 100 * (double)confidence, text);
        outline(&r->out, &boxes[i], i + 1);
    }
    printf("detector %.1f ms", 1e3 * r->detector.seconds);
    if (n > 0)
        printf(", recogniser %.1f ms a line", 1e3 * r->recogniser.seconds / n);
    printf(" (%u threads)\n", tw_default_threads());
    return true;
}

int main(int argc, char **argv)
{
    if (argc != 6 && argc != 7) {
        fprintf(stderr, "usage: %s DETECTOR RECOGNISER DICTIONARY IN.png OUT.png [THREADS]\n",
                argv[0]);
        return 2;
    }
    unsigned threads = argc == 7 ? (unsigned)strtoul(argv[6], NULL, 10) : 0;
    reader r = {0};
    bool fine = network_open(&r.detector, argv[1], threads) &&
                network_open(&r.recogniser, argv[2], threads) &&
                dictionary_read(&r.dictionary, argv[3]) && picture_read(&r.in, argv[4]) &&
                read_lines(&r) && picture_write(&r.out, argv[5]);
    network_close(&r.detector);
    network_close(&r.recogniser);
    dictionary_free(&r.dictionary);
    picture_free(&r.in);
    picture_free(&r.out);
    return fine ? 0 : 1;
}
