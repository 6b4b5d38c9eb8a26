/* tilewright_bench.c: tilewright bench MODEL|FILE. */
#include "tilewright.h"

#include "base/clock.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>

enum { OPT_SECONDS = 512, OPT_PROFILE, OPT_JSON };

typedef struct bench_verb {
    tw_compile_args compile;
    tw_input_args input;
    unsigned threads;
    double seconds;
    bool profile, json;
    tw_peaks peaks; /* of the threads, for the profile */
} bench_verb;

static const struct argp_option options[] = {
    {"seconds", OPT_SECONDS, "S", 0, "How long to measure (default 3)", 0},
    {"profile", OPT_PROFILE, 0, 0,
     "Time of each kernel, its rates, and the larger of their fractions of what these threads of "
     "this machine can do, measured",
     0},
    {"json", OPT_JSON, 0, 0, "Print JSON", 0},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    bench_verb *v = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &v->compile;
        state->child_inputs[1] = &v->input;
        state->child_inputs[2] = &v->threads;
        v->input.ctx = v->compile.ctx;
        break;
    case OPT_SECONDS:
        if (!tw_parse_real(arg, &v->seconds) || v->seconds == 0 || v->seconds > 3600)
            argp_error(state, "--seconds takes a number above 0, at most 3600, not '%s'", arg);
        break;
    case OPT_PROFILE:
        v->profile = true;
        break;
    case OPT_JSON:
        v->json = true;
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static const struct argp_child children[] = {
    {&tw_compile_argp, 0, 0, 0}, {&tw_input_argp, 0, 0, 0}, {&tw_threads_argp, 0, 0, 0}, {0}};
static const struct argp argp = {
    options, parse, "MODEL|FILE", "Measure the time of a model.", children, 0, 0};

/* Sorted seconds of single runs. */
typedef struct samples {
    TW_VEC(double) times;
} samples;

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static bool measure(bench_verb *v, tw_session *session, samples *out)
{
    tw_arena *arena = tw_context_arena(v->compile.ctx);
    for (int i = 0; i < 2; i++) /* warm up: page faults, caches */
        if (tw_session_run(session) != TW_STATUS_OK)
            return tw_runtime_error(v->compile.ctx);
    tw_session_reset_profile(session);
    double start = tw_seconds_now(), at = start;
    while (at - start < v->seconds || out->times.len < 3) {
        if (tw_session_run(session) != TW_STATUS_OK)
            return tw_runtime_error(v->compile.ctx);
        double end = tw_seconds_now();
        tw_vec_push(arena, &out->times, end - at);
        at = end;
    }
    qsort(out->times.data, out->times.len, sizeof *out->times.data, ascending);
    return true;
}

static double percentile(const samples *s, double p)
{
    size_t i = (size_t)(p * (double)(s->times.len - 1) + 0.5);
    return s->times.data[i];
}

/* One kernel's figures per run of the model. */
typedef struct kernel_row {
    const tw_kernel_info *info;
    size_t index;
    double seconds, calls; /* per run */
    double flops, bytes;   /* per call */
} kernel_row;

static int slowest_first(const void *a, const void *b)
{
    double x = ((const kernel_row *)a)->seconds, y = ((const kernel_row *)b)->seconds;
    return (x < y) - (x > y);
}

static kernel_row *kernel_rows(bench_verb *v, const tw_model *model, const tw_session *session,
                               size_t runs, double *total)
{
    size_t n = tw_model_get_info(model)->kernels;
    kernel_row *rows = TW_NEW_ARRAY(tw_context_arena(v->compile.ctx), kernel_row, n);
    *total = 0;
    for (size_t i = 0; i < n; i++) {
        tw_kernel_time t = tw_session_kernel_time(session, i);
        rows[i] = (kernel_row){.info = tw_model_kernel(model, i),
                               .index = i,
                               .seconds = t.seconds / (double)runs,
                               .calls = (double)t.calls / (double)runs,
                               .flops = (double)t.flops,
                               .bytes = (double)t.bytes};
        *total += rows[i].seconds;
    }
    if (n)
        qsort(rows, n, sizeof *rows, slowest_first);
    return rows;
}

/* Operations over their peak, bytes over theirs: the larger is the least time of a kernel. */
static double least_seconds(const bench_verb *v, const kernel_row *row)
{
    double by_flops = row->calls * row->flops / v->peaks.flops;
    double by_bytes = row->calls * row->bytes / v->peaks.bandwidth;
    return by_flops > by_bytes ? by_flops : by_bytes;
}

static void print_profile(bench_verb *v, const tw_model *model, const tw_session *session,
                          size_t runs)
{
    double total;
    kernel_row *rows = kernel_rows(v, model, session, runs, &total);
    printf(
        "\npeaks of %u thread%s: %.1f GFLOP/s (f32), %.1f GB/s (memory); data in caches can come "
        "faster\n",
        v->threads, v->threads > 1 ? "s" : "", v->peaks.flops * 1e-9, v->peaks.bandwidth * 1e-9);
    printf("%10s %6s %9s %8s %7s  %s\n", "ms", "share", "GFLOP/s", "GB/s", "of peak", "kernel");
    for (size_t i = 0; i < tw_model_get_info(model)->kernels; i++) {
        const kernel_row *r = &rows[i];
        double s = r->seconds > 0 ? r->seconds : 1e-12;
        printf("%10.4f %5.1f%% %9.2f %8.2f %6.1f%%  %s (%s) x%g\n", r->seconds * 1e3,
               100 * r->seconds / (total > 0 ? total : 1), r->calls * r->flops / s * 1e-9,
               r->calls * r->bytes / s * 1e-9, 100 * least_seconds(v, r) / s, r->info->name,
               r->info->operators ? r->info->operators : "", r->calls);
    }
}

static cJSON *json_of_kernel(const bench_verb *v, const kernel_row *row, double total)
{
    cJSON *k = cJSON_CreateObject();
    double s = row->seconds > 0 ? row->seconds : 1e-12;
    cJSON_AddNumberToObject(k, "index", (double)row->index);
    cJSON_AddStringToObject(k, "name", row->info->name);
    cJSON_AddStringToObject(k, "operators", row->info->operators ? row->info->operators : "");
    cJSON_AddNumberToObject(k, "ms", row->seconds * 1e3);
    cJSON_AddNumberToObject(k, "share", row->seconds / (total > 0 ? total : 1));
    cJSON_AddNumberToObject(k, "calls", row->calls);
    cJSON_AddNumberToObject(k, "flops", row->flops);
    cJSON_AddNumberToObject(k, "bytes", row->bytes);
    cJSON_AddNumberToObject(k, "gflops", row->calls * row->flops / s * 1e-9);
    cJSON_AddNumberToObject(k, "gbps", row->calls * row->bytes / s * 1e-9);
    cJSON_AddNumberToObject(k, "floor_ms", least_seconds(v, row) * 1e3);
    cJSON_AddNumberToObject(k, "of_peak", least_seconds(v, row) / s);
    return k;
}

static void print_json(bench_verb *v, const samples *s, const tw_model *model,
                       const tw_session *session)
{
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "model", v->compile.model);
    cJSON_AddStringToObject(root, "cpu", tw_model_get_info(model)->cpu);
    cJSON_AddNumberToObject(root, "threads", v->threads);
    cJSON_AddNumberToObject(root, "runs", (double)s->times.len);
    cJSON_AddNumberToObject(root, "min_ms", s->times.data[0] * 1e3);
    cJSON_AddNumberToObject(root, "p50_ms", percentile(s, 0.5) * 1e3);
    cJSON_AddNumberToObject(root, "p90_ms", percentile(s, 0.9) * 1e3);
    cJSON_AddNumberToObject(root, "p99_ms", percentile(s, 0.99) * 1e3);
    if (v->profile) {
        double total;
        kernel_row *rows = kernel_rows(v, model, session, s->times.len, &total);
        cJSON_AddNumberToObject(root, "peak_gflops", v->peaks.flops * 1e-9);
        cJSON_AddNumberToObject(root, "peak_gbps", v->peaks.bandwidth * 1e-9);
        cJSON *kernels = cJSON_AddArrayToObject(root, "kernels");
        for (size_t i = 0; i < tw_model_get_info(model)->kernels; i++)
            cJSON_AddItemToArray(kernels, json_of_kernel(v, &rows[i], total));
    }
    char *text = cJSON_Print(root);
    puts(text);
    cJSON_free(text);
    cJSON_Delete(root);
}

static void print_text(bench_verb *v, const samples *s, const tw_model *model,
                       const tw_session *session)
{
    printf("%s: %zu runs, %u thread%s, code for %s\n", v->compile.model, s->times.len, v->threads,
           v->threads > 1 ? "s" : "", tw_model_get_info(model)->cpu);
    printf("min %.4f ms, p50 %.4f ms, p90 %.4f ms, p99 %.4f ms\n", s->times.data[0] * 1e3,
           percentile(s, 0.5) * 1e3, percentile(s, 0.9) * 1e3, percentile(s, 0.99) * 1e3);
    if (v->profile)
        print_profile(v, model, session, s->times.len);
}

static bool bench(void *verb)
{
    bench_verb *v = verb;
    tw_context *ctx = v->compile.ctx;
    tw_arrays given, bound;
    tw_model *model;
    if (!tw_read_inputs(&v->input, v->compile.model, &given) ||
        !tw_load_model(&v->compile, &given, &model))
        return false;
    v->threads = v->threads ? v->threads : tw_default_threads();
    tw_session_options options = {.threads = v->threads, .profile = v->profile};
    tw_session *session = tw_bind_inputs(&v->compile, model, &given, &bound)
                              ? tw_open_session(ctx, model, &options, &bound)
                              : NULL;
    samples s = {0};
    bool fine = session && measure(v, session, &s);
    if (fine && v->profile && !tw_measure_peaks(v->threads, &v->peaks))
        fine = tw_error(ctx, NULL, "no memory or threads to measure the peaks of the machine with");
    if (fine)
        (v->json ? print_json : print_text)(v, &s, model, session);
    tw_session_destroy(session);
    tw_model_free(model);
    return fine;
}

int tw_verb_bench(int argc, char **argv)
{
    bench_verb v = {.seconds = 3};
    return tw_run_verb(&argp, argc, argv, &v, &v.compile, bench);
}
