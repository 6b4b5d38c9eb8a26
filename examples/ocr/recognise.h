/* recognise.h: what a line of text says. */
#ifndef RECOGNISE_H
#define RECOGNISE_H

#include "detect.h"

/* The characters that the recogniser tells apart, class 0 being "none". */
typedef struct dictionary {
    char *text;         /* the file, its line ends replaced by zeros */
    const char **entry; /* `n` strings of UTF-8 */
    int n;
} dictionary;

/* Reads a file of one character a line; adds "none" and the space. False with a message. */
bool dictionary_read(dictionary *d, const char *path);
void dictionary_free(dictionary *d);

/* Writes the text in the box to `out`, zero-terminated and cut to `size` bytes. The mean
 * confidence of its characters, 0 when there are none, or -1 with a message on stderr. */
float recognise(network *recogniser, const dictionary *d, const picture *p, const text_box *box,
                int times, char *out, int size);

#endif
