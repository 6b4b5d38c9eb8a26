/* letters.c: the cases of letters, from tables of ranges. */
#include "runtime/letters.h"

#include <stddef.h>

/* Ranges of code points whose small letters are `step` behind the capital ones; of step 1: capital
 * and small ones by turns, capitals even or odd as the first one. */
static const struct {
    uint32_t first, last, step;
} capitals[] = {
    {'A', 'Z', 32},     {0xc0, 0xd6, 32},   {0xd8, 0xde, 32},    {0x100, 0x12f, 1},
    {0x132, 0x137, 1},  {0x139, 0x148, 1},  {0x14a, 0x177, 1},   {0x179, 0x17e, 1},
    {0x386, 0x386, 38}, {0x388, 0x38a, 37}, {0x38c, 0x38c, 64},  {0x38e, 0x38f, 63},
    {0x391, 0x3a1, 32}, {0x3a3, 0x3ab, 32}, {0x400, 0x40f, 80},  {0x410, 0x42f, 32},
    {0x460, 0x481, 1},  {0x48a, 0x4bf, 1},  {0x4c0, 0x4c0, 15},  {0x4c1, 0x4ce, 1},
    {0x4d0, 0x52f, 1},  {0x531, 0x556, 48}, {0x1e00, 0x1e95, 1}, {0x1ea0, 0x1eff, 1},
};

uint32_t tw_change_case(uint32_t c, bool upper)
{
    for (size_t i = 0; i < sizeof capitals / sizeof *capitals; i++) {
        uint32_t first = capitals[i].first, last = capitals[i].last, step = capitals[i].step;
        if (step == 1 && c >= first && c <= last)
            return first + ((c - first) & ~1u) + !upper;
        if (step > 1 && !upper && c >= first && c <= last)
            return c + step;
        if (step > 1 && upper && c >= first + step && c <= last + step)
            return c - step;
    }
    return c;
}

/* Letters with the same meaning as a small one, besides its capital. */
static const struct {
    uint32_t letter, small;
} others[] = {
    {0x17f, 's'},    {0x212a, 'k'},    {0x212b, 0xe5},  {0xb5, 0x3bc},   {0x178, 0xff},
    {0x1e9e, 0xdf},  {0x1e9b, 0x1e61}, {0x2126, 0x3c9}, {0x3c2, 0x3c3},  {0x345, 0x3b9},
    {0x1fbe, 0x3b9}, {0x3d0, 0x3b2},   {0x3d1, 0x3b8},  {0x3f4, 0x3b8},  {0x3d5, 0x3c6},
    {0x3d6, 0x3c0},  {0x3f0, 0x3ba},   {0x3f1, 0x3c1},  {0x3f5, 0x3b5},  {0x1c80, 0x432},
    {0x1c81, 0x434}, {0x1c82, 0x43e},  {0x1c83, 0x441}, {0x1c84, 0x442}, {0x1c85, 0x442},
    {0x1c86, 0x44a}, {0x1c87, 0x463},
};

unsigned tw_letters_alike(uint32_t c, uint32_t out[TW_LETTERS_ALIKE])
{
    enum { N = sizeof others / sizeof *others };
    uint32_t small = tw_change_case(c, false);
    unsigned n = 0;
    for (size_t i = 0; i < N; i++)
        if (others[i].letter == c)
            small = others[i].small;
    uint32_t capital = tw_change_case(small, true);
    out[n++] = small;
    if (capital != small)
        out[n++] = capital;
    for (size_t i = 0; i < N; i++)
        if (others[i].small == small)
            out[n++] = others[i].letter;
    return n;
}

bool tw_has_known_case(uint32_t c)
{
    static const uint32_t known[][2] = {
        {0, 0x17f},       {0x386, 0x3ce},     {0x400, 0x52f},        {0x531, 0x587},
        {0x590, 0x109f},  {0x1e00, 0x1e95},   {0x1e9e, 0x1e9e},      {0x1ea0, 0x1eff},
        {0x2000, 0x2131}, {0x2190, 0x24b5},   {0x2500, 0x2bff},      {0x3000, 0xa63f},
        {0xac00, 0xd7a3}, {0x1f000, 0x1ffff}, {0x10ffff, UINT32_MAX}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (c >= known[i][0] && c <= known[i][1])
            return true;
    return false;
}
