/* run_case.c: one case at one level: its data sets are read, the model is compiled for their
 * shapes, loaded, run, and compared as onnx's runner does: element type, shape, and
 * |is - should| <= atol + rtol * |should|; integers, booleans and strings exactly. */
#include "conformance.h"

#include "base/arena.h"
#include "driver/values.h"
#include "import/onnx/data_set.h"
#include "ir/scalar.h"
#include "tilewright/compiler.h"
#include "tilewright/runtime.h"

#include <glob.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct state {
    const conf_case *c;
    int opt_level;
    bool open;
    char model[64]; /* path of the model with open sizes */
    tw_context *ctx;
    conf_result *result;
    tw_arrays inputs, outputs; /* of the data set */
    bool fixed;                /* inputs were made constants */
} state;

static bool fail(state *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool fail(state *s, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(s->result->text, sizeof s->result->text, format, args);
    va_end(args);
    for (char *at = s->result->text; (at = strpbrk(at, "\n\r"));)
        *at = ' ';
    return false;
}

/* Fails with the first error of the context, without the name of the file in front. */
static bool fail_diagnostic(state *s)
{
    for (const tw_diagnostic *d = tw_diagnostics(s->ctx); d; d = d->next)
        if (d->severity == TW_ERROR) {
            const char *text = tw_diagnostic_text(s->ctx, d), *error = strstr(text, "error: ");
            return fail(s, "%s", error ? error + strlen("error: ") : text);
        }
    return fail(s, "failed without a diagnostic");
}

/* ---- Comparison ---- */

static bool compare(state *s, const tw_array *want, const void *is)
{
    size_t n = 1, wrong = 0, first = 0;
    for (unsigned i = 0; i < want->rank; i++)
        n *= (size_t)want->dims[i];
    bool real = tw_elem_is_float(want->elem);
    double worst = 0;
    for (size_t i = 0; i < n; i++) {
        bool same;
        if (want->elem == TW_STRING) {
            same = !strcmp(((char *const *)want->data)[i], ((char *const *)is)[i]);
        } else {
            tw_number a = tw_scalar_load(want->elem, is, i);
            tw_number b = tw_scalar_load(want->elem, want->data, i);
            double error = real ? fabs(a.real - b.real) : (double)(a.integer - b.integer);
            same = real ? a.real == b.real || (isnan(a.real) && isnan(b.real)) ||
                              (isfinite(b.real) && error <= s->c->atol + s->c->rtol * fabs(b.real))
                        : a.integer == b.integer;
            if (s->c->random)
                same |= real ? a.real == 0 || b.real == 0 : a.integer == 0 || b.integer == 0;
            worst = !same && fabs(error) > worst ? fabs(error) : worst;
        }
        if (!same && !wrong++)
            first = i;
    }
    if (!wrong)
        return true;
    if (want->elem == TW_STRING)
        return fail(s, "wrong result: '%s': %zu of %zu strings differ", want->name, wrong, n);
    tw_number a = tw_scalar_load(want->elem, is, first);
    tw_number b = tw_scalar_load(want->elem, want->data, first);
    return fail(s,
                "wrong result: '%s': %zu of %zu differ by up to %g; element %zu is %.9g, not %.9g",
                want->name, wrong, n, worst, first, real ? a.real : (double)a.integer,
                real ? b.real : (double)b.integer);
}

static bool compare_array(state *s, const tw_array *is, const tw_array *want)
{
    if (is->elem != want->elem)
        return fail(s, "wrong result: '%s' is %s, not %s", want->name, tw_elem_name(is->elem),
                    tw_elem_name(want->elem));
    if (is->rank != want->rank)
        return fail(s, "wrong result: '%s' has rank %u, not %u", want->name, is->rank, want->rank);
    for (unsigned d = 0; d < want->rank; d++)
        if (is->dims[d] != want->dims[d])
            return fail(s, "wrong result: '%s' has %lld as dimension %u, not %lld", want->name,
                        (long long)is->dims[d], d, (long long)want->dims[d]);
    return compare(s, want, is->data);
}

/* Whether the name is that of an empty sequence, of which the model, knowing it, has no output. */
static bool is_known_empty(state *s, const tw_model *model, const char *name)
{
    size_t len = strlen(name);
    if (len < 2 || strcmp(name + len - 2, "[]") != 0)
        return false;
    return tw_model_find_output(model, tw_intern(s->ctx, name, len - 2)) < 0;
}

static bool compare_outputs(state *s, const tw_model *model, const tw_session *session)
{
    size_t n = tw_model_get_info(model)->outputs, found = 0;
    for (size_t i = 0; i < n; i++) {
        tw_arrays list = tw_output_arrays(s->ctx, session, model, i);
        for (size_t k = 0; k < list.n; k++) {
            const tw_array *want = tw_arrays_find(&s->outputs, list.items[k].name);
            if (!want && strchr(list.items[k].name, '['))
                return fail(s, "wrong result: there is no '%s'", list.items[k].name);
            if (want && !compare_array(s, &list.items[k], want))
                return false;
            found += want != NULL;
        }
    }
    for (size_t i = 0; i < s->outputs.n; i++)
        found += is_known_empty(s, model, s->outputs.items[i].name);
    return found == s->outputs.n || fail(s, "wrong result: %zu of %zu outputs are not there",
                                         s->outputs.n - found, s->outputs.n);
}

/* ---- Running ---- */

/* arange(n) / n, as onnx's runner makes inputs of the light models. */
static bool dummy_input(state *s, const tw_tensor_info *info, tw_array *out)
{
    if (info->elem != TW_F32 || !info->is_static)
        return fail(s, "input '%s' is not f32 of fixed shape", info->name);
    *out = (tw_array){.name = info->name, .elem = info->elem, .rank = info->rank};
    memcpy(out->dims, info->dims, info->rank * sizeof *info->dims);
    out->size = info->size;
    float *data = out->data = tw_context_alloc(s->ctx, info->size);
    size_t n = info->size / sizeof *data;
    for (size_t i = 0; i < n; i++)
        data[i] = (float)((double)i / (double)n);
    return true;
}

static bool set_inputs(state *s, const tw_model *model, tw_session *session)
{
    for (size_t i = 0; i < tw_model_get_info(model)->inputs; i++) {
        const tw_tensor_info *info = tw_model_input(model, i);
        tw_array made;
        tw_arrays dummy = {&made, 1};
        bool given = tw_value_given(s->ctx, info, &s->inputs);
        if (!given && s->c->folder)
            return fail(s, "wrong result: input '%s' has no data", info->name);
        if (!given && !dummy_input(s, info, &made))
            return false;
        if (!tw_set_input(s->ctx, session, model, i, given ? &s->inputs : &dummy))
            return fail_diagnostic(s);
    }
    return true;
}

static bool run_model(state *s, tw_model *model)
{
    tw_session *session;
    /* Data in the files lies at any address. */
    tw_session_options options = {.threads = 1, .unaligned = true};
    if (tw_session_create(model, &options, &session) != TW_STATUS_OK)
        return fail(s, "%s", tw_last_error());
    bool fine = set_inputs(s, model, session) &&
                (tw_session_run(session) == TW_STATUS_OK || fail(s, "%s", tw_last_error())) &&
                compare_outputs(s, model, session);
    tw_session_destroy(session);
    return fine;
}

/* ---- Compiling ---- */

/* Inputs that say what is to be computed rather than on what: integers, short vectors of others. */
static bool decides(const tw_array *a)
{
    return !tw_elem_is_float(a->elem) || a->rank <= 1;
}

static bool compile(state *s, bool fix, int *fd)
{
    size_t n = s->inputs.n;
    tw_shape *shapes = TW_NEW_ARRAY(tw_context_arena(s->ctx), tw_shape, n);
    tw_input_value *values = TW_NEW_ARRAY(tw_context_arena(s->ctx), tw_input_value, n);
    tw_compile_options options = {
        .opt_level = s->opt_level, .threads = 1, .shapes = shapes, .values = values};
    for (size_t i = 0; i < n; i++) {
        const tw_array *a = &s->inputs.items[i];
        if (strstr(a->name, "[]")) /* an empty sequence, which needs no shapes */
            continue;
        if (fix && decides(a))
            values[options.n_values++] =
                (tw_input_value){a->name, a->elem, a->rank, a->dims, a->data, a->size};
        else if (!s->open || !conf_is_open(a->name))
            shapes[options.n_shapes++] = (tw_shape){a->name, a->rank, a->dims};
    }
    return tw_compile_to_fd(s->ctx, s->open ? s->model : s->c->model, &options, fd) ||
           fail_diagnostic(s);
}

/* Compiles, if need be with inputs as constants. */
static bool compile_somehow(state *s, int *fd)
{
    if (compile(s, false, fd))
        return true;
    if (!strstr(s->result->text, "must be known when the model is compiled"))
        return false;
    tw_diagnostics_clear(s->ctx);
    s->fixed = true;
    return compile(s, true, fd);
}

static bool run_set(state *s)
{
    int fd;
    tw_model *model;
    if (!compile_somehow(s, &fd))
        return false;
    tw_status status = tw_model_load_fd(fd, s->c->key, NULL, &model);
    close(fd);
    if (status != TW_STATUS_OK)
        return fail(s, "%s", tw_last_error());
    bool fine = run_model(s, model);
    tw_model_free(model);
    return fine;
}

/* ---- Data sets ---- */

static bool run_folder(state *s)
{
    glob_t sets;
    char pattern[4096];
    snprintf(pattern, sizeof pattern, "%s/test_data_set_*", s->c->folder);
    if (glob(pattern, 0, NULL, &sets) != 0)
        return fail(s, "there are no data sets");
    bool fine = true;
    for (size_t i = 0; fine && i < sets.gl_pathc; i++)
        fine = (tw_onnx_read_data_set(s->ctx, s->c->model, sets.gl_pathv[i], &s->inputs,
                                      &s->outputs) ||
                fail_diagnostic(s)) &&
               run_set(s);
    globfree(&sets);
    return fine;
}

static bool run_light(state *s)
{
    return (tw_onnx_read_outputs(s->ctx, s->c->model, s->c->expected, &s->outputs) ||
            fail_diagnostic(s)) &&
           run_set(s);
}

static bool run_model_file(state *s)
{
    return s->c->folder ? run_folder(s) : run_light(s);
}

/* With sizes open; when a result's rank would depend on the length of a list, with the lengths of
 * lists as they are. */
static bool run_open(state *s)
{
    bool fine = false;
    for (int lists = 1; (!fine || s->fixed) && lists >= 0; lists--) {
        int fd = conf_open_model(s->c->model, lists);
        if (fd < 0)
            return fail(s, "cannot rewrite the model");
        snprintf(s->model, sizeof s->model, "/proc/self/fd/%d", fd);
        tw_diagnostics_clear(s->ctx);
        s->fixed = false;
        fine = run_model_file(s);
        close(fd);
    }
    return fine;
}

void conf_run_case(const conf_case *c, int opt_level, bool open, conf_result *out)
{
    static state s; /* static: used after the jump */
    jmp_buf full;
    *out = (conf_result){.status = CONF_FAIL};
    s = (state){
        .c = c, .opt_level = opt_level, .open = open, .ctx = tw_context_create(0), .result = out};
    if (!s.ctx || setjmp(full)) {
        fail(&s, "out of memory");
    } else {
        tw_context_guard(s.ctx, &full);
        if (open ? run_open(&s) : run_model_file(&s))
            out->status = s.fixed ? CONF_VALUES : CONF_PASS;
    }
    if (out->status == CONF_VALUES)
        fail(&s, "passes with inputs known when the model is compiled");
    tw_context_destroy(s.ctx);
}
