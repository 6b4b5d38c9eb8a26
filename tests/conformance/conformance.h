/* conformance.h: ONNX's own backend tests as cases, run in worker processes. */
#ifndef TW_TESTS_CONFORMANCE_H
#define TW_TESTS_CONFORMANCE_H

#include <stdbool.h>
#include <stddef.h>

/* One folder of the test data. */
typedef struct conf_case {
    char *key;      /* "node/test_abs" */
    char *model;    /* path of model.onnx */
    char *folder;   /* with test_data_set_*, or NULL: inputs are made up as onnx's runner does */
    char *expected; /* then: "…/light_vgg19_output_", the start of the names of output files */
    double rtol, atol;
    bool random; /* draws numbers: elements that are 0 here or there do not count */
} conf_case;

typedef struct conf_cases {
    conf_case *items;
    size_t n;
} conf_cases;

/* A larger array of `n` items; out of memory ends the program. */
void *conf_grow(void *items, size_t n, size_t size);

/* The cases below onnx/backend/test/data whose keys contain one of the words (none: all), sorted by
 * kind and name. False after a message when there is no such folder. */
bool conf_find(const char *data, char *const *words, size_t n_words, conf_cases *out);

typedef enum conf_status {
    CONF_PASS,
    CONF_VALUES, /* passes, but only with inputs known when the model is compiled */
    CONF_FAIL,
} conf_status;

typedef struct conf_result {
    conf_status status;
    char text[480]; /* why not: one line */
} conf_result;

/* Compiles, runs and compares one case in this process. `open`: with all sizes of inputs left open,
 * so that one compilation serves all shapes. */
void conf_run_case(const conf_case *c, int opt_level, bool open, conf_result *out);

/* The model with sizes of its inputs replaced by symbols and shapes of other values left out, in a
 * file of memory; -1 when that fails. `lists`: the lengths of lists of integers are open as well.
 */
int conf_open_model(const char *path, bool lists);
/* Whether the input of that name is a tensor in the model of conf_open_model that was made last. */
bool conf_is_open(const char *input);

/* The work of workers: all cases at each level; job i is case i / n_levels. */
typedef struct conf_jobs {
    const conf_cases *cases;
    const int *levels;
    size_t n_levels;
    bool open;        /* all sizes of inputs */
    unsigned workers; /* processes at once */
    unsigned seconds; /* for one job */
    size_t memory;    /* bytes of address space of a process */
} conf_jobs;

/* Runs all jobs; a job that crashes or takes too long fails alone. `results` has one for each. */
bool conf_run_all(const conf_jobs *jobs, conf_result *results);

/* ---- The list of what does not pass ---- */

/* The kind of reason that a text gives: "operator", "type", … */
const char *conf_category(const conf_result *r);

typedef struct conf_expected {
    const char *key, *category;
    int level; /* -1: at every level */
    bool met;
} conf_expected;

typedef struct conf_list {
    conf_expected *items;
    size_t n;
} conf_list;

/* Reads the list; false after a message. */
bool conf_read_list(const char *path, conf_list *out);
/* The entry for a case at a level, or NULL. */
conf_expected *conf_find_expected(const conf_list *list, const char *key, int level);
/* Rewrites the list from results; comments and cases that were not run stay. */
bool conf_write_list(const char *path, const conf_jobs *jobs, const conf_result *results);

#endif
