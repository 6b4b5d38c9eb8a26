/* tilewright_bisect.c: tilewright bisect MODEL: which optional pass, and which of its changes,
 * first makes a result wrong.
 *
 * Binary search with the limits of --pass-limit and --rewrite-limit: first over the runs of
 * optional passes (a pass on one function or kernel is a run), then over the changes of the run
 * that was found. Each trial compiles and runs in a process of its own: one that crashes is wrong.
 */
#include "tilewright.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct bisect_verb {
    tw_compile_args compile;
    tw_reference reference;
    unsigned threads;
} bisect_verb;

static error_t parse(int key, char *arg, struct argp_state *state)
{
    bisect_verb *v = state->input;
    (void)arg;
    if (key != ARGP_KEY_INIT)
        return ARGP_ERR_UNKNOWN;
    state->child_inputs[0] = &v->compile;
    state->child_inputs[1] = &v->reference;
    state->child_inputs[2] = &v->threads;
    return 0;
}

static const struct argp_child children[] = {
    {&tw_compile_argp, 0, 0, 0}, {&tw_reference_argp, 0, 0, 0}, {&tw_threads_argp, 0, 0, 0}, {0}};
static const struct argp argp = {
    NULL,
    parse,
    "MODEL",
    "Find the optional pass, and its change, that first makes a result wrong: against the "
    "reference "
    "outputs, or without --data against the results at -O 0 for inputs that are made up. Exit code "
    "0 when the results are right.",
    children,
    0,
    0};

/* ---- Trials ---- */

/* What a trial tells the process that waits for it, in memory that both have. */
typedef struct outcome {
    bool right;
    int signal;            /* that ended the trial, or 0 */
    tw_pass_limits limits; /* the numbers count; the texts are here: */
    char pass[128], root[512], rule[2048];
} outcome;

typedef struct bisection {
    bisect_verb *verb;
    outcome *outcome; /* of the last trial */
    FILE *ir;         /* gets the IR after the run that the trial ends with, */
    bool ir_before;   /* or before it; NULL: not wanted */
    uint64_t trials;
} bisection;

static void keep_text(char *to, size_t size, const char *text)
{
    snprintf(to, size, "%s", text ? text : "");
}

/* In the child, around each run of a pass: what is known so far. */
static void follow(void *data, const tw_pass *pass, tw_op *root, bool after)
{
    bisection *b = data;
    outcome *o = b->outcome;
    if (!pass->optional)
        return;
    o->limits = b->verb->compile.limits;
    keep_text(o->pass, sizeof o->pass, pass->name);
    keep_text(o->root, sizeof o->root, o->limits.last_root);
    keep_text(o->rule, sizeof o->rule, o->limits.last_rule);
    if (after != b->ir_before && b->ir && o->limits.runs_seen == o->limits.runs)
        fputs(tw_print(tw_op_context(root), root, &(tw_print_options){.elide = 256}), b->ir);
}

static void attempt(bisection *b)
{
    tw_compile_args *args = &b->verb->compile;
    tw_model *model = NULL;
    args->options.passes.observe = follow;
    args->options.passes.observe_data = b;
    b->outcome->right = tw_load_model(args, &b->verb->reference.inputs, &model) &&
                        tw_reference_check(&b->verb->reference, args, model, b->verb->threads);
    b->outcome->limits.runs_seen = args->limits.runs_seen;
    tw_report(args->ctx);
    if (b->ir)
        fflush(b->ir);
}

/* Compiles with `runs` runs of optional passes and `changes` of the pass (NULL: all), runs,
 * compares. The outcome is in b; false when there is no process for it. */
static bool try(bisection *b, uint64_t runs, const char *pass, uint64_t changes, bool quiet)
{
    tw_compile_args *args = &b->verb->compile;
    *b->outcome = (outcome){.right = false};
    args->limits = (tw_pass_limits){.runs = runs, .pass = pass, .changes = changes};
    b->trials++;
    fflush(NULL);
    pid_t child = fork();
    if (child < 0)
        return tw_error(args->ctx, NULL, "no process for a trial: %m");
    if (child == 0) {
        if (quiet && (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr)))
            _exit(TW_EXIT_FAILED);
        attempt(b);
        fflush(NULL);
        _exit(TW_EXIT_OK);
    }
    int status;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    b->outcome->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    b->outcome->right = b->outcome->right && status == 0;
    return true;
}

/* ---- Search ---- */

/* What is searched: the number of runs, or of the changes of one pass in so many runs. */
typedef struct range {
    uint64_t runs;
    const char *pass;
    uint64_t right, wrong; /* numbers known to be so; wrong 0: not known yet */
} range;

static bool try_number(bisection *b, const range *r, uint64_t n)
{
    return r->pass ? try(b, r->runs, r->pass, n, true) : try(b, n, NULL, 0, true);
}

/* Narrows the range until its ends are neighbours. */
static bool search(bisection *b, range *r)
{
    for (uint64_t step = 1; !r->wrong; step *= 2) { /* after a crash there is no upper end yet */
        uint64_t n = r->right + step;
        if (!try_number(b, r, n))
            return false;
        *(b->outcome->right ? &r->right : &r->wrong) = n;
    }
    while (r->wrong - r->right > 1) {
        uint64_t middle = r->right + (r->wrong - r->right) / 2;
        if (!try_number(b, r, middle))
            return false;
        *(b->outcome->right ? &r->right : &r->wrong) = middle;
    }
    return true;
}

/* ---- The operations before and after ---- */

typedef struct line {
    const char *key, *text; /* key: numbers of values replaced, for they shift */
    size_t number;
} line;
typedef TW_VEC(line) line_list;

static int by_key(const void *a, const void *b)
{
    const line *x = a, *y = b;
    int order = strcmp(x->key, y->key);
    return order ? order : (x->number > y->number) - (x->number < y->number);
}

static int by_number(const void *a, const void *b)
{
    const line *x = a, *y = b;
    return (x->number > y->number) - (x->number < y->number);
}

/* The text with %12 as % . */
static const char *key_of(tw_context *ctx, const char *text)
{
    char *key = tw_context_alloc(ctx, strlen(text) + 1), *to = key;
    while (*text) {
        *to++ = *text;
        if (*text++ == '%')
            text += strspn(text, "0123456789");
    }
    return key;
}

static line_list read_lines(tw_context *ctx, FILE *file)
{
    line_list lines = {0};
    char *text = NULL;
    size_t size = 0;
    rewind(file);
    while (getline(&text, &size, file) >= 0) {
        text[strcspn(text, "\n")] = 0;
        const char *begin = text + strspn(text, " ");
        const char *copy = tw_intern(ctx, begin, strlen(begin));
        tw_vec_push(tw_context_arena(ctx), &lines, ((line){key_of(ctx, copy), copy, lines.len}));
    }
    free(text);
    if (lines.len)
        qsort(lines.data, lines.len, sizeof *lines.data, by_key);
    return lines;
}

/* Prints the lines of `a` that `b` lacks, in order. */
static void print_missing(tw_context *ctx, const char *mark, const line_list *a, const line_list *b)
{
    enum { MOST = 40 };
    line_list missing = {0};
    for (size_t i = 0, k = 0; i < a->len;) {
        int order = k < b->len ? strcmp(a->data[i].key, b->data[k].key) : -1;
        if (order < 0)
            tw_vec_push(tw_context_arena(ctx), &missing, a->data[i]);
        i += order <= 0;
        k += order >= 0;
    }
    if (missing.len)
        qsort(missing.data, missing.len, sizeof *missing.data, by_number);
    for (size_t i = 0; i < missing.len && i < MOST; i++)
        printf("  %s %s\n", mark, missing.data[i].text);
    if (missing.len > MOST)
        printf("  %s and %zu more lines\n", mark, missing.len - MOST);
}

/* ---- Report ---- */

/* The IR around the run that the trial of number n ends with. */
static bool keep_ir(bisection *b, const range *r, uint64_t n, bool before, line_list *out)
{
    b->ir = tmpfile();
    b->ir_before = before;
    if (!b->ir)
        return tw_error(b->verb->compile.ctx, NULL, "no temporary file: %m");
    bool fine = try_number(b, r, n);
    *out = read_lines(b->verb->compile.ctx, b->ir);
    fclose(b->ir);
    b->ir = NULL;
    return fine;
}

/* What the last step of the range changed: it begins where the one before ended, or where the run
 * begins if it is the first. */
static bool print_step(bisection *b, const range *r, bool first)
{
    line_list before, after;
    if (!keep_ir(b, r, first ? r->wrong : r->right, first, &before) ||
        !keep_ir(b, r, r->wrong, false, &after))
        return false;
    if (!after.len) /* it crashed in there */
        return true;
    print_missing(b->verb->compile.ctx, "-", &before, &after);
    print_missing(b->verb->compile.ctx, "+", &after, &before);
    return true;
}

/* Searches the changes of the run, and says which one it is. */
static bool find_change(bisection *b, uint64_t run, const outcome *found)
{
    uint64_t earlier = found->limits.earlier_changes;
    range changes = {.runs = run, .pass = found->pass, .right = earlier};
    range runs = {.right = run - 1, .wrong = run};
    if (!found->signal)
        changes.wrong = earlier + found->limits.last_changes;
    if (!found->signal && !found->limits.last_changes)
        return print_step(b, &runs, true);
    if (!search(b, &changes) || !try_number(b, &changes, changes.wrong))
        return false;
    printf("its change %" PRIu64 " does it: --pass-limit %" PRIu64 " --rewrite-limit %s=%" PRIu64
           "\n",
           changes.wrong - earlier, run, found->pass, changes.wrong);
    if (*b->outcome->rule)
        printf("  rule: %s\n", b->outcome->rule);
    return print_step(b, &changes, changes.right == earlier);
}

static bool find_run(bisection *b, const outcome *all)
{
    range runs = {.wrong = all->signal ? 0 : all->limits.runs_seen};
    if (!try(b, 0, NULL, 0, false))
        return false;
    if (!b->outcome->right)
        return tw_error(b->verb->compile.ctx, NULL,
                        "the results are wrong without any optional pass as well: the import, the "
                        "lowering or the code is at fault, or the reference");
    if (!search(b, &runs) || !try_number(b, &runs, runs.wrong))
        return false;
    outcome found = *b->outcome;
    printf("run %" PRIu64 " of the optional passes makes it wrong: %s on %s (--pass-limit %" PRIu64
           ")\n",
           runs.wrong, found.pass, found.root, runs.wrong);
    if (found.signal)
        printf("  it ends with signal %d\n", found.signal);
    if (!find_change(b, runs.wrong, &found))
        return false;
    printf("%" PRIu64 " trials\n", b->trials);
    return false; /* something is wrong, and said */
}

/* ---- The verb ---- */

/* The reference: what was given, or what -O 0 computes. */
static bool get_reference(bisect_verb *v)
{
    if (v->reference.path)
        return tw_reference_read(&v->reference, &v->compile, NULL);
    tw_compile_options asked = v->compile.options;
    v->compile.options.opt_level = 0;
    v->compile.options.pipeline = NULL;
    bool fine = tw_reference_make(&v->reference, &v->compile, v->threads);
    v->compile.options = asked;
    return fine;
}

static bool bisect(void *verb)
{
    bisect_verb *v = verb;
    tw_context *ctx = v->compile.ctx;
    if (tw_is_compiled(v->compile.model))
        return tw_error(ctx, NULL, "%s is compiled; its passes can no longer be left out",
                        v->compile.model);
    bisection b = {.verb = v};
    b.outcome =
        mmap(NULL, sizeof *b.outcome, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (b.outcome == MAP_FAILED)
        return tw_error(ctx, NULL, "no memory for a trial's outcome: %m");
    bool fine = get_reference(v) && try(&b, UINT64_MAX, NULL, 0, false);
    if (fine && b.outcome->right)
        puts("the results are right");
    outcome all = *b.outcome;
    fine = fine && (all.right || find_run(&b, &all));
    munmap(b.outcome, sizeof *b.outcome);
    return fine;
}

int tw_verb_bisect(int argc, char **argv)
{
    bisect_verb v = {.threads = 0};
    return tw_run_verb(&argp, argc, argv, &v, &v.compile, bisect);
}
