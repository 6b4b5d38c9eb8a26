/* conformance.c: runs ONNX's backend tests at several levels and compares the outcome with the list
 * of what is known not to pass. A case off that list that fails, and one on it that passes or fails
 * for a reason of another kind, make the run fail. The closing line counts; listed cases count as
 * skipped. */
#include "conformance.h"

#include "tilewright/runtime.h"

#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct args {
    const char *data, *list;
    unsigned jobs, seconds, megabytes;
    int levels[4];
    size_t n_levels;
    bool update, verbose, open;
    const char *without;
    char **words;
    size_t n_words;
} args;

static const struct argp_option options[] = {
    {"data", 'd', "DIR", 0, "onnx/backend/test/data of the onnx package", 0},
    {"list", 'l', "FILE", 0, "The list of cases that do not pass", 0},
    {"without", 'w', "WORD", 0, "Leave out cases whose names contain it", 0},
    {"level", 'O', "LEVEL", 0, "Run at this level (default: 0 and 3)", 0},
    {"jobs", 'j', "N", 0, "Processes at once (default: the CPUs it may use)", 0},
    {"seconds", 's', "N", 0, "Time for one case (default 600)", 0},
    {"memory", 'm', "MB", 0, "Memory for one process (default 4096)", 0},
    {"open", 'p', 0, 0, "Compile with all sizes of inputs left open", 0},
    {"update", 'u', 0, 0, "Rewrite the list, as far as cases are run", 0},
    {"verbose", 'v', 0, 0, "Print a line for each case", 0},
    {0},
};

static unsigned count(struct argp_state *state, const char *text)
{
    char *end;
    unsigned long value = strtoul(text, &end, 10);
    if (*end || !value || value > 1 << 20)
        argp_error(state, "not a number: '%s'", text);
    return (unsigned)value;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    args *a = state->input;
    switch (key) {
    case 'd':
        a->data = arg;
        return 0;
    case 'l':
        a->list = arg;
        return 0;
    case 'w':
        a->without = arg;
        return 0;
    case 'O':
        if (a->n_levels == sizeof a->levels / sizeof *a->levels)
            argp_error(state, "too many levels");
        a->levels[a->n_levels++] = atoi(arg);
        return 0;
    case 'j':
        a->jobs = count(state, arg);
        return 0;
    case 's':
        a->seconds = count(state, arg);
        return 0;
    case 'm':
        a->megabytes = count(state, arg);
        return 0;
    case 'p':
        a->open = true;
        return 0;
    case 'u':
        a->update = true;
        return 0;
    case 'v':
        a->verbose = true;
        return 0;
    case ARGP_KEY_ARGS:
        a->words = state->argv + state->next;
        a->n_words = (size_t)(state->argc - state->next);
        return 0;
    case ARGP_KEY_END:
        if (!a->data)
            argp_error(state, "--data is needed");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

typedef struct totals {
    size_t passed, with_values, failed, listed;
} totals;

/* Keeps the cases that have data: what a model is run on decides its sizes. */
static void keep_data(conf_cases *cases)
{
    size_t n = 0;
    for (size_t i = 0; i < cases->n; i++)
        if (cases->items[i].folder)
            cases->items[n++] = cases->items[i];
    cases->n = n;
}

/* Compares one outcome with the list and prints what is not as it should be. */
static void judge(const args *a, const conf_list *list, const conf_case *c, int level,
                  const conf_result *r, totals *t)
{
    conf_expected *e = conf_find_expected(list, c->key, level);
    const char *verdict = "PASS";
    t->passed += r->status == CONF_PASS;
    t->with_values += r->status == CONF_VALUES;
    if (e)
        e->met = true;
    if (r->status == CONF_PASS ? e != NULL : !e || strcmp(e->category, conf_category(r)) != 0) {
        verdict = "FAIL";
        t->failed++;
        t->passed -= r->status == CONF_PASS;
    } else if (e) {
        verdict = "LISTED";
        t->listed++;
    }
    if (a->verbose || !strcmp(verdict, "FAIL"))
        printf("%s %s@O%d %s%s%s\n", verdict, c->key, level,
               r->status == CONF_PASS ? "" : conf_category(r), r->status == CONF_PASS ? "" : ": ",
               r->status != CONF_PASS ? r->text
               : e                    ? "passes: take it from the list"
                                      : "");
}

static void leave_out(const char *word, conf_cases *cases)
{
    size_t n = 0;
    for (size_t i = 0; word && i < cases->n; i++)
        if (!strstr(cases->items[i].key, word))
            cases->items[n++] = cases->items[i];
    cases->n = word ? n : cases->n;
}

static bool report(const args *a, conf_list *list, const conf_jobs *jobs,
                   const conf_result *results)
{
    totals all = {0};
    for (size_t k = 0; k < jobs->n_levels; k++) {
        totals t = {0};
        for (size_t i = 0; i < jobs->cases->n; i++)
            judge(a, list, &jobs->cases->items[i], jobs->levels[k],
                  &results[i * jobs->n_levels + k], &t);
        printf("-O%d: %zu of %zu pass, %zu more with inputs known when compiling; %zu are listed\n",
               jobs->levels[k], t.passed, jobs->cases->n, t.with_values, t.listed);
        all.passed += t.passed;
        all.failed += t.failed;
        all.listed += t.listed;
    }
    for (size_t i = 0; !a->n_words && jobs->n_levels > 1 && i < list->n; i++)
        if (!list->items[i].met) {
            printf("FAIL %s is listed, but there is no such case\n", list->items[i].key);
            all.failed++;
        }
    printf("%zu passed, %zu failed, %zu skipped\n", all.passed, all.failed, all.listed);
    return !all.failed;
}

int main(int argc, char **argv)
{
    static const struct argp argp = {
        options, parse, "[WORD...]", "Runs ONNX's backend tests whose names contain a word.", 0,
        0,       0};
    args a = {.jobs = tw_default_threads(), .seconds = 600, .megabytes = 4096};
    conf_cases cases;
    conf_list list = {0};
    argp_err_exit_status = 2;
    argp_parse(&argp, argc, argv, 0, NULL, &a);
    if (!a.n_levels) {
        a.levels[a.n_levels++] = 0;
        a.levels[a.n_levels++] = 3;
    }
    if (!conf_find(a.data, a.words, a.n_words, &cases))
        return 2;
    leave_out(a.without, &cases);
    if (a.open)
        keep_data(&cases);
    conf_jobs jobs = {
        &cases, a.levels, a.n_levels, a.open, a.jobs, a.seconds, (size_t)a.megabytes << 20};
    conf_result *results = calloc(cases.n * a.n_levels + 1, sizeof *results);
    if (!results || !conf_run_all(&jobs, results)) {
        perror("conformance");
        return 2;
    }
    if (a.update && a.list && !conf_write_list(a.list, &jobs, results))
        return 2;
    if (a.list && !conf_read_list(a.list, &list))
        return 2;
    return report(&a, &list, &jobs, results) ? 0 : 1;
}
