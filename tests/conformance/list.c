/* list.c: the list of cases that do not pass, not_passing.txt, and the kinds of reasons in it.
 *
 * A line is `node/test_unique…@O3 operator: what the compiler says`, without @O3 when it holds at
 * every level. Only the category is compared: a wrong result cannot hide behind another reason. */
#include "conformance.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Categories by what the text contains; the first row that fits. */
static const struct {
    const char *part, *category;
} reasons[] = {
    {"passes with inputs known", "values"},
    {"number of dimensions of the result depends", "rank"},
    {"wrong result", "wrong"},
    {"crash:", "crash"},
    {"ai.onnx.preview.training", "training"},
    {"raining", "training"},
    {"Sequence", "sequence"},
    {"is no tensor", "sequence"},
    {"not known (with counts)", "operator"},
    {"depends on the model's data", "control"},
    {"in one branch", "form"},
    {"element type", "type"},
    {"string", "string"},
    {"output", "form"},
};

const char *conf_category(const conf_result *r)
{
    for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
        if (strstr(r->text, reasons[i].part))
            return reasons[i].category;
    return r->status == CONF_PASS ? "" : "other";
}

/* One line of the list; NULL for a comment. The line is cut up and kept. */
static bool parse_line(char *line, conf_expected *out)
{
    line[strcspn(line, "\n")] = 0;
    if (!*line || *line == '#')
        return false;
    char *space = strchr(line, ' '), *colon = space ? strchr(space, ':') : NULL;
    *out = (conf_expected){.key = line, .category = "", .level = -1};
    if (space)
        *space = 0;
    if (colon) {
        *colon = 0;
        out->category = space + 1;
    }
    char *at = strstr(line, "@O");
    if (at) {
        *at = 0;
        out->level = atoi(at + 2);
    }
    return true;
}

bool conf_read_list(const char *path, conf_list *out)
{
    *out = (conf_list){0};
    FILE *file = fopen(path, "r");
    if (!file) {
        fprintf(stderr, "%s: %m\n", path);
        return false;
    }
    size_t cap = 0;
    char line[2048];
    while (fgets(line, sizeof line, file)) {
        conf_expected entry;
        char *copy = strdup(line);
        if (!copy || !parse_line(copy, &entry)) {
            free(copy);
            continue;
        }
        if (out->n == cap)
            out->items = conf_grow(out->items, cap = 2 * cap + 64, sizeof entry);
        out->items[out->n++] = entry;
    }
    fclose(file);
    return true;
}

conf_expected *conf_find_expected(const conf_list *list, const char *key, int level)
{
    for (size_t i = 0; i < list->n; i++)
        if (!strcmp(list->items[i].key, key) &&
            (list->items[i].level < 0 || list->items[i].level == level))
            return &list->items[i];
    return NULL;
}

/* ---- Writing ---- */

typedef struct lines {
    char **items;
    size_t n, cap;
} lines;

static void add_line(lines *all, char *line)
{
    if (all->n == all->cap)
        all->items = conf_grow(all->items, all->cap = 2 * all->cap + 64, sizeof *all->items);
    if (!line)
        abort();
    all->items[all->n++] = line;
}

/* Whether the line speaks of a case that was run. */
static bool is_of(const char *line, const conf_cases *cases)
{
    size_t len = strcspn(line, " @");
    for (size_t i = 0; i < cases->n; i++)
        if (strlen(cases->items[i].key) == len && !memcmp(cases->items[i].key, line, len))
            return true;
    return false;
}

/* The lines of the file that stay: comments first, then those of cases that were not run. */
static void read_rest(const char *path, const conf_cases *cases, lines *comments, lines *rest)
{
    char line[2048];
    FILE *file = fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
        if (*line == '#')
            add_line(comments, strdup(line));
        else if (*line != '\n' && !is_of(line, cases))
            add_line(rest, strdup(line));
    if (file)
        fclose(file);
}

/* Whether a case ends in the same way at all levels. */
static bool same_everywhere(const conf_result *r, size_t n)
{
    for (size_t i = 1; i < n; i++)
        if (r[i].status != r[0].status || strcmp(conf_category(&r[i]), conf_category(&r[0])))
            return false;
    return true;
}

static void add_results(const conf_jobs *jobs, const conf_result *results, lines *out)
{
    for (size_t i = 0; i < jobs->cases->n; i++) {
        const conf_result *r = &results[i * jobs->n_levels];
        bool same = same_everywhere(r, jobs->n_levels);
        for (size_t k = 0; k < (same ? 1 : jobs->n_levels); k++) {
            char level[16] = "", *line;
            if (!same)
                snprintf(level, sizeof level, "@O%d", jobs->levels[k]);
            if (r[k].status == CONF_PASS)
                continue;
            if (asprintf(&line, "%s%s %s: %s\n", jobs->cases->items[i].key, level,
                         conf_category(&r[k]), r[k].text) < 0)
                abort();
            add_line(out, line);
        }
    }
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Writes the lines, if there is a file, and frees them. */
static void put_lines(lines *all, FILE *file)
{
    for (size_t i = 0; i < all->n; i++) {
        if (file)
            fputs(all->items[i], file);
        free(all->items[i]);
    }
    free(all->items);
}

bool conf_write_list(const char *path, const conf_jobs *jobs, const conf_result *results)
{
    lines comments = {0}, all = {0};
    read_rest(path, jobs->cases, &comments, &all);
    add_results(jobs, results, &all);
    if (all.n)
        qsort(all.items, all.n, sizeof *all.items, by_text);
    FILE *file = fopen(path, "w");
    if (!file)
        fprintf(stderr, "%s: %m\n", path);
    put_lines(&comments, file);
    put_lines(&all, file);
    return file && fclose(file) == 0;
}
