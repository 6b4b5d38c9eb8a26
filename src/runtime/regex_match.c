/* regex_match.c: the machine that runs a pattern's program. It is at several instructions at once,
 * so that a text costs its length times the program's, whatever the pattern. */
#include "runtime/regex_program.h"

#include "runtime/letters.h"

#include <stdlib.h>

/* The instructions that the machine is at, each once. */
typedef struct states {
    uint32_t *list, *mark; /* mark[i] == round: instruction i is there */
    size_t n;
} states;

typedef struct machine {
    const tw_regex *re;
    const char *text, *at;
    states now, next;
    uint32_t *stack, round;
} machine;

static bool at_word_edge(const machine *m)
{
    bool before = m->at > m->text && tw_regex_is_word((unsigned char)m->at[-1]);
    return before != tw_regex_is_word((unsigned char)*m->at);
}

static bool holds(const machine *m, op place)
{
    switch (place) {
    case BEGIN:
        return m->at == m->text;
    case END:
        return !*m->at;
    case BEGIN_LINE:
        return m->at == m->text || m->at[-1] == '\n';
    case END_LINE:
        return !*m->at || *m->at == '\n';
    default:
        return at_word_edge(m) == (place == WORD);
    }
}

/* Adds an instruction and all that it leads to without a character. The stack holds each at most
 * twice. */
static void add(machine *m, states *to, uint32_t start)
{
    size_t n = 0;
    m->stack[n++] = start;
    while (n) {
        uint32_t i = m->stack[--n];
        if (to->mark[i] == m->round)
            continue;
        to->mark[i] = m->round;
        const instruction *in = &m->re->program[i];
        switch (in->op) {
        case SPLIT:
            m->stack[n++] = in->y;
            m->stack[n++] = in->x;
            break;
        case JUMP:
            m->stack[n++] = in->x;
            break;
        case BEGIN:
        case END:
        case BEGIN_LINE:
        case END_LINE:
        case WORD:
        case NO_WORD:
            if (holds(m, in->op))
                m->stack[n++] = i + 1;
            break;
        default:
            to->list[to->n++] = i;
        }
    }
}

static bool in_class(const tw_regex *re, const instruction *in, uint32_t c)
{
    for (uint32_t i = 0; i < in->y; i++)
        if (c >= re->ranges[in->x + i].low && c <= re->ranges[in->x + i].high)
            return true;
    return false;
}

static bool accepts(const tw_regex *re, const instruction *in, uint32_t c)
{
    if (in->op == ANY || in->op == ANY_LINE)
        return in->op == ANY_LINE || c != '\n';
    if (in->op != CHAR && in->op != CLASS)
        return false;
    uint32_t alike[TW_LETTERS_ALIKE] = {c};
    unsigned n = in->folded ? tw_letters_alike(c, alike) : 1;
    bool inside = false;
    for (unsigned i = 0; i < n && !inside; i++)
        inside = in->op == CHAR ? in->x == alike[i] : in_class(re, in, alike[i]);
    return inside != in->negated;
}

static bool run(machine *m)
{
    m->round = 1;
    add(m, &m->now, 0);
    while (*m->at && m->now.n) {
        uint32_t c = tw_regex_next_char(&m->at);
        m->round++;
        m->next.n = 0;
        for (size_t i = 0; i < m->now.n; i++)
            if (accepts(m->re, &m->re->program[m->now.list[i]], c))
                add(m, &m->next, m->now.list[i] + 1);
        states swapped = m->now;
        m->now = m->next;
        m->next = swapped;
    }
    for (size_t i = 0; i < m->now.n && !*m->at; i++)
        if (m->re->program[m->now.list[i]].op == MATCH)
            return true;
    return false;
}

bool tw_regex_matches(const tw_regex *re, const char *text, bool *failed)
{
    uint32_t *memory = calloc(7 * re->n + 2, sizeof *memory);
    *failed = !memory;
    if (!memory)
        return false;
    machine m = {.re = re,
                 .text = text,
                 .at = text,
                 .now = {memory, memory + re->n, 0},
                 .next = {memory + 2 * re->n, memory + 3 * re->n, 0},
                 .stack = memory + 4 * re->n};
    bool matches = run(&m);
    free(memory);
    return matches;
}
