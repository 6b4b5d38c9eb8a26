/* regex.c: patterns become programs for a machine that is in several states at once (K. Thompson,
 * "Regular Expression Search Algorithm", 1968; R. Cox, "Regular Expression Matching: the Virtual
 * Machine Approach", 2009). Since all of a text must match, which way matches does not matter:
 * lazy forms are like greedy ones and groups take nothing. */
#include "runtime/regex.h"

#include "runtime/letters.h"
#include "runtime/regex_program.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_PROGRAM = 1 << 16, MAX_DEPTH = 1000, MAX_REPEAT = 1000 };

typedef struct parser {
    tw_regex *re;
    const char *at;
    const char *error;
    unsigned depth;
    bool quoted;             /* within \Q…\E */
    bool folded, all, lines; /* the flags i, s and m, of the group that is read */
} parser;

/* ---- Program ---- */

static bool fail(parser *p, const char *error)
{
    if (!p->error)
        p->error = error;
    return false;
}

static bool grow(void **data, size_t n, size_t *room, size_t size)
{
    if (n < *room)
        return true;
    size_t more = *room ? 2 * *room : 64;
    void *larger = realloc(*data, more * size);
    if (!larger)
        return false;
    *data = larger;
    *room = more;
    return true;
}

static bool emit(parser *p, instruction in)
{
    tw_regex *re = p->re;
    if (re->n >= MAX_PROGRAM)
        return fail(p, "the pattern is too large");
    if (!grow((void **)&re->program, re->n, &re->room, sizeof *re->program))
        return fail(p, "out of memory");
    re->program[re->n++] = in;
    return true;
}

static bool add_range(parser *p, uint32_t low, uint32_t high)
{
    tw_regex *re = p->re;
    if (re->n_ranges >= MAX_PROGRAM)
        return fail(p, "the pattern is too large");
    if (!grow((void **)&re->ranges, re->n_ranges, &re->room_ranges, sizeof *re->ranges))
        return fail(p, "out of memory");
    re->ranges[re->n_ranges++] = (range){low, high};
    return true;
}

/* Opens a gap of one instruction at `place`; targets behind it move. */
static bool insert(parser *p, size_t place, instruction in)
{
    tw_regex *re = p->re;
    if (!emit(p, in))
        return false;
    memmove(re->program + place + 1, re->program + place,
            (re->n - 1 - place) * sizeof *re->program);
    re->program[place] = in;
    for (size_t i = place + 1; i < re->n; i++) {
        instruction *k = &re->program[i];
        if (k->op == SPLIT || k->op == JUMP) {
            k->x += k->x >= place;
            k->y += k->y >= place;
        }
    }
    return true;
}

/* ---- Characters ---- */

uint32_t tw_regex_next_char(const char **at)
{
    const unsigned char *s = (const unsigned char *)*at;
    unsigned n = *s < 0x80 ? 1 : *s >> 5 == 6 ? 2 : *s >> 4 == 14 ? 3 : *s >> 3 == 30 ? 4 : 0;
    uint32_t c = n == 1 ? *s : *s & (0xffu >> (n + 1));
    for (unsigned i = 1; i < n; i++) {
        if (s[i] >> 6 != 2) {
            n = 0;
            break;
        }
        c = c << 6 | (s[i] & 0x3f);
    }
    *at += n ? n : 1;
    return n ? c : 0x110000u + *s;
}

static int hex(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* \xHH or \x{H…}, behind the x. */
static bool hex_char(parser *p, uint32_t *c)
{
    bool braces = *p->at == '{';
    unsigned digits = 0;
    p->at += braces;
    for (*c = 0; digits < (braces ? 8u : 2u) && hex(*p->at) >= 0; digits++)
        *c = *c << 4 | (uint32_t)hex(*p->at++);
    if (!digits || (!braces && digits != 2) || (braces && *p->at++ != '}') || *c > 0x10ffff)
        return fail(p, "a wrong \\x");
    return true;
}

/* The character that an escape stands for; false when it stands for none. */
static bool escaped(parser *p, uint32_t *c)
{
    static const char letters[] = "afnrtv", meanings[] = "\a\f\n\r\t\v";
    const char *at = *p->at ? strchr(letters, *p->at) : NULL;
    if (*p->at == 'x') {
        p->at++;
        return hex_char(p, c);
    }
    if (at) {
        p->at++;
        *c = (uint32_t)meanings[at - letters];
        return true;
    }
    if (!*p->at || tw_regex_is_word((unsigned char)*p->at))
        return fail(p, "an escape that is not known");
    *c = tw_regex_next_char(&p->at);
    return true;
}

static bool emit_char(parser *p, uint32_t c)
{
    if (p->folded && !tw_has_known_case(c))
        return fail(p,
                    "a letter, of a script whose cases are not known, where case does not count");
    return emit(p, (instruction){.op = CHAR, .x = c, .folded = p->folded});
}

/* ---- Classes ---- */

typedef struct named_class {
    const char *name;
    range ranges[4];
    unsigned n;
} named_class;

static const named_class classes[] = {
    {"d", {{'0', '9'}}, 1},
    {"w", {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}, 4},
    {"s", {{'\t', '\n'}, {'\f', '\r'}, {' ', ' '}}, 3},
    {"alnum", {{'0', '9'}, {'A', 'Z'}, {'a', 'z'}}, 3},
    {"alpha", {{'A', 'Z'}, {'a', 'z'}}, 2},
    {"ascii", {{0, 0x7f}}, 1},
    {"blank", {{'\t', '\t'}, {' ', ' '}}, 2},
    {"cntrl", {{0, 0x1f}, {0x7f, 0x7f}}, 2},
    {"digit", {{'0', '9'}}, 1},
    {"graph", {{'!', '~'}}, 1},
    {"lower", {{'a', 'z'}}, 1},
    {"print", {{' ', '~'}}, 1},
    {"punct", {{'!', '/'}, {':', '@'}, {'[', '`'}, {'{', '~'}}, 4},
    {"space", {{'\t', '\r'}, {' ', ' '}}, 2},
    {"upper", {{'A', 'Z'}}, 1},
    {"word", {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}, 4},
    {"xdigit", {{'0', '9'}, {'A', 'F'}, {'a', 'f'}}, 3},
};

static const named_class *find_class(const char *name, size_t len)
{
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (strlen(classes[i].name) == len && !memcmp(classes[i].name, name, len))
            return &classes[i];
    return NULL;
}

/* The ranges of a class, or what lies between them. */
static bool add_class(parser *p, const named_class *class, bool negated)
{
    uint32_t next = 0;
    for (unsigned i = 0; i < class->n; i++) {
        range r = class->ranges[i];
        if (!negated && !add_range(p, r.low, r.high))
            return false;
        if (negated && r.low > next && !add_range(p, next, r.low - 1))
            return false;
        next = r.high + 1;
    }
    return !negated || add_range(p, next, UINT32_MAX);
}

/* \d and its like at p->at, behind the backslash; NULL: another escape. */
static const named_class *letter_class(const parser *p, bool *negated)
{
    if (!*p->at || !strchr("dwsDWS", *p->at))
        return NULL;
    char low = (char)(*p->at | 0x20);
    *negated = low != *p->at;
    return find_class(&low, 1);
}

/* One character of a class in brackets. */
static bool class_char(parser *p, uint32_t *c)
{
    if (!*p->at)
        return fail(p, "a [ without ]");
    if (*p->at == '\\') {
        p->at++;
        return escaped(p, c);
    }
    *c = tw_regex_next_char(&p->at);
    return true;
}

/* [:name:], \d, a character or a range. */
static bool class_item(parser *p)
{
    bool negated = false;
    const char *end = p->at[0] == '[' && p->at[1] == ':' ? strstr(p->at + 2, ":]") : NULL;
    if (end) {
        negated = p->at[2] == '^';
        const char *name = p->at + 2 + negated;
        const named_class *class = find_class(name, (size_t)(end - name));
        p->at = end + 2;
        return class ? add_class(p, class, negated) : fail(p, "an unknown [:class:]");
    }
    if (*p->at == '\\') {
        p->at++;
        const named_class *class = letter_class(p, &negated);
        if (class) {
            p->at++;
            return add_class(p, class, negated);
        }
        p->at--;
    }
    uint32_t low, high;
    if (!class_char(p, &low))
        return false;
    high = low;
    if (p->at[0] == '-' && p->at[1] != ']' && p->at[1]) {
        p->at++;
        if (!class_char(p, &high))
            return false;
    }
    if (p->folded && !(tw_has_known_case(low) && tw_has_known_case(high)))
        return fail(p,
                    "a letter, of a script whose cases are not known, where case does not count");
    return high >= low ? add_range(p, low, high) : fail(p, "a range from high to low");
}

/* Behind the [. */
static bool brackets(parser *p)
{
    size_t first = p->re->n_ranges;
    bool negated = *p->at == '^';
    p->at += negated;
    do
        if (!class_item(p))
            return false;
    while (*p->at != ']');
    p->at++;
    return emit(p, (instruction){.op = CLASS,
                                 .x = (uint32_t)first,
                                 .y = (uint32_t)(p->re->n_ranges - first),
                                 .negated = negated,
                                 .folded = p->folded});
}

/* ---- Expressions ---- */

static bool alternatives(parser *p);

/* Flags at p->at, behind (?, and what ends them: a : for a group, or a ) that is left. False when
 * there are none. U is about which match is taken. */
static bool flags(parser *p)
{
    bool on = true;
    for (const char *at = p->at;; at++)
        switch (*at) {
        case 'i':
            p->folded = on;
            break;
        case 's':
            p->all = on;
            break;
        case 'm':
            p->lines = on;
            break;
        case 'U':
            break;
        case '-':
            if (!on || !strchr("ismU", at[1]) || !at[1])
                return false;
            on = false;
            break;
        case ':':
        case ')':
            p->at = at + (*at == ':');
            return true;
        default:
            return false;
        }
}

/* Behind the (, with flags of its own. */
static bool group(parser *p)
{
    parser before = *p;
    if (*p->at == '?' && strchr("ismU-", p->at[1]) && p->at[1]) {
        p->at++;
        if (!flags(p))
            return fail(p, "flags that are not known");
        if (*p->at == ')' && p->at[-1] != ':') { /* for the rest of the group that this is in */
            p->at++;
            return true;
        }
    } else if (*p->at == '?') {
        const char *name = p->at[1] == 'P' ? p->at + 2 : p->at + 1;
        const char *end = *name == '<' ? strchr(name, '>') : NULL;
        if (p->at[1] == ':')
            p->at += 2;
        else if (end)
            p->at = end + 1;
        else
            return fail(p, "a group of a kind that is not known");
    }
    if (++p->depth > MAX_DEPTH)
        return fail(p, "groups nest too deep");
    if (!alternatives(p))
        return false;
    p->depth--;
    p->folded = before.folded;
    p->all = before.all;
    p->lines = before.lines;
    return *p->at++ == ')' || (p->at--, fail(p, "a ( without )"));
}

/* Behind a backslash. */
static bool escape(parser *p)
{
    static const struct {
        char letter;
        op op;
    } places[] = {{'A', BEGIN}, {'z', END}, {'b', WORD}, {'B', NO_WORD}};
    bool negated = false;
    uint32_t c;
    const named_class *class = letter_class(p, &negated);
    size_t first = p->re->n_ranges;
    if (class) {
        p->at++;
        return add_class(p, class, negated) &&
               emit(p, (instruction){.op = CLASS,
                                     .x = (uint32_t)first,
                                     .y = (uint32_t)(p->re->n_ranges - first),
                                     .folded = p->folded});
    }
    for (size_t i = 0; i < sizeof places / sizeof *places; i++)
        if (*p->at == places[i].letter) {
            p->at++;
            return emit(p, (instruction){.op = places[i].op});
        }
    return escaped(p, &c) && emit_char(p, c);
}

static bool atom(parser *p)
{
    switch (*p->at) {
    case '(':
        p->at++;
        return group(p);
    case '[':
        p->at++;
        return brackets(p);
    case '\\':
        p->at++;
        return escape(p);
    case '.':
        p->at++;
        return emit(p, (instruction){.op = p->all ? ANY_LINE : ANY});
    case '^':
        p->at++;
        return emit(p, (instruction){.op = p->lines ? BEGIN_LINE : BEGIN});
    case '$':
        p->at++;
        return emit(p, (instruction){.op = p->lines ? END_LINE : END});
    case '*':
    case '+':
    case '?':
        return fail(p, "nothing before *, + or ?");
    default:
        return emit_char(p, tw_regex_next_char(&p->at));
    }
}

/* {n}, {n,} or {n,m}; false without an error when it is none of these, but a character. */
static bool read_counts(parser *p, int *least, int *most)
{
    char *end;
    const char *at = p->at + 1;
    if (*at < '0' || *at > '9')
        return false;
    long low = strtol(at, &end, 10), high = low;
    if (*end == ',') {
        at = end + 1;
        high = *at == '}' ? -1 : strtol(at, &end, 10);
        if (*at == '}')
            end = (char *)at;
    }
    if (*end != '}')
        return false;
    if (low > MAX_REPEAT || high > MAX_REPEAT || (high >= 0 && high < low))
        return fail(p, "a wrong number of repeats");
    p->at = end + 1;
    *least = (int)low;
    *most = (int)high;
    return true;
}

/* Appends a copy of the instructions from `first` to before `end`. */
static bool copy(parser *p, size_t first, size_t end)
{
    size_t offset = p->re->n - first;
    for (size_t i = first; i < end; i++) {
        instruction in = p->re->program[i];
        if (in.op == SPLIT || in.op == JUMP) {
            in.x += (uint32_t)offset;
            in.y += (uint32_t)offset;
        }
        if (!emit(p, in))
            return false;
    }
    return true;
}

/* What stands from `first` on, `least` to `most` times (-1: any number). */
static bool repeat(parser *p, size_t first, int least, int most)
{
    tw_regex *re = p->re;
    size_t end = re->n, size = end - first;
    for (int i = 1; i < least; i++)
        if (!copy(p, first, end))
            return false;
    if (least == 0 && most == 0) {
        re->n = first;
        return true;
    }
    if (most < 0) {
        size_t last = re->n - size;
        if (least) /* L: x; split L, next */
            return emit(p,
                        (instruction){.op = SPLIT, .x = (uint32_t)last, .y = (uint32_t)re->n + 1});
        return insert(
                   p, first,
                   (instruction){.op = SPLIT, .x = (uint32_t)first + 1, .y = (uint32_t)end + 2}) &&
               emit(p, (instruction){.op = JUMP, .x = (uint32_t)first});
    }
    if (least == 0) { /* split next, behind; x */
        if (!insert(p, first,
                    (instruction){.op = SPLIT, .x = (uint32_t)first + 1, .y = (uint32_t)end + 1}))
            return false;
        least = 1;
        first++;
        end++;
    }
    for (int i = least; i < most; i++) {
        size_t at = re->n;
        if (!emit(p, (instruction){.op = SPLIT,
                                   .x = (uint32_t)at + 1,
                                   .y = (uint32_t)(at + 1 + size)}) ||
            !copy(p, first, end))
            return false;
    }
    return true;
}

static bool repeated(parser *p)
{
    size_t first = p->re->n;
    if (p->quoted ? !emit_char(p, tw_regex_next_char(&p->at)) : !atom(p))
        return false;
    if (p->quoted && p->at[0] == '\\' && p->at[1] == 'E') { /* what is last may be repeated */
        p->quoted = false;
        p->at += 2;
    }
    while (!p->quoted) {
        int least = 0, most = -1;
        if (*p->at == '{') {
            if (!read_counts(p, &least, &most))
                return !p->error;
        } else if (*p->at && strchr("*+?", *p->at)) {
            least = *p->at == '+';
            most = *p->at == '?' ? 1 : -1;
            p->at++;
        } else {
            return true;
        }
        p->at += *p->at == '?';
        if (!repeat(p, first, least, most))
            return false;
    }
    return true;
}

static bool sequence(parser *p)
{
    while (*p->at) {
        if (!p->quoted && (*p->at == '|' || *p->at == ')'))
            return true;
        if (p->at[0] == '\\' && p->at[1] == (p->quoted ? 'E' : 'Q')) {
            p->quoted = !p->quoted;
            p->at += 2;
        } else if (!repeated(p)) {
            return false;
        }
    }
    return true;
}

/* split A, B; A: a; jump end; B: the others; end: */
static bool alternatives(parser *p)
{
    size_t first = p->re->n;
    if (!sequence(p))
        return false;
    if (*p->at != '|')
        return true;
    p->at++;
    if (++p->depth > MAX_DEPTH)
        return fail(p, "groups or alternatives nest too deep");
    if (!insert(p, first, (instruction){.op = SPLIT, .x = (uint32_t)first + 1, .y = 0}))
        return false;
    size_t jump = p->re->n;
    if (!emit(p, (instruction){.op = JUMP}))
        return false;
    p->re->program[first].y = (uint32_t)p->re->n;
    if (!alternatives(p))
        return false;
    p->re->program[jump].x = (uint32_t)p->re->n;
    p->depth--;
    return true;
}

tw_regex *tw_regex_compile(const char *pattern, const char **error)
{
    tw_regex *re = calloc(1, sizeof *re);
    parser p = {.re = re, .at = pattern};
    *error = "out of memory";
    if (!re)
        return NULL;
    if (alternatives(&p) && *p.at)
        fail(&p, "a ) without (");
    if (!p.error)
        emit(&p, (instruction){.op = MATCH});
    if (!p.error)
        return re;
    *error = p.error;
    tw_regex_free(re);
    return NULL;
}

void tw_regex_free(tw_regex *re)
{
    if (!re)
        return;
    free(re->program);
    free(re->ranges);
    free(re);
}
