/* tilewright_bench.c: tilewright bench MODEL|FILE. */
#include "tilewright.h"

#include "base/arena.h"
#include "base/vec.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { OPT_SECONDS = 512, OPT_PROFILE, OPT_JSON };

typedef struct bench_verb {
    tw_compile_args compile;
    tw_input_args input;
    const char *model;
    double seconds;
    bool profile, json;
} bench_verb;

static const struct argp_option options[] = {
    {"seconds", OPT_SECONDS, "S", 0, "How long to measure (default 3)", 0},
    {"profile", OPT_PROFILE, 0, 0,
     "Time of each kernel, its rates, and their fractions of what one thread of this machine can "
     "do",
     0},
    {"json", OPT_JSON, 0, 0, "Print JSON", 0},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    bench_verb *v = state->input;
    char *end;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &v->compile;
        state->child_inputs[1] = &v->input;
        break;
    case OPT_SECONDS:
        v->seconds = strtod(arg, &end);
        if (end == arg || *end || !(v->seconds > 0 && v->seconds <= 3600))
            argp_error(state, "--seconds takes a number above 0, at most 3600, not '%s'", arg);
        break;
    case OPT_PROFILE:
        v->profile = true;
        break;
    case OPT_JSON:
        v->json = true;
        break;
    case ARGP_KEY_ARG:
        if (v->model)
            argp_error(state, "one MODEL, not also '%s'", arg);
        v->model = arg;
        break;
    case ARGP_KEY_END:
        if (!v->model)
            argp_error(state, "which MODEL?");
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static const struct argp_child children[] = {
    {&tw_compile_argp, 0, 0, 0}, {&tw_input_argp, 0, 0, 0}, {0}};
static const struct argp argp = {
    options, parse, "MODEL|FILE", "Measure the time of a model.", children, 0, 0};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

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
            return tw_report_runtime(v->model) == TW_EXIT_OK;
    tw_session_reset_profile(session);
    double start = now(), at = start;
    while (at - start < v->seconds || out->times.len < 3) {
        if (tw_session_run(session) != TW_STATUS_OK)
            return tw_report_runtime(v->model) == TW_EXIT_OK;
        double end = now();
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
    double seconds, calls; /* per run */
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
        rows[i] = (kernel_row){tw_model_kernel(model, i), t.seconds / (double)runs,
                               (double)t.calls / (double)runs};
        *total += rows[i].seconds;
    }
    if (n)
        qsort(rows, n, sizeof *rows, slowest_first);
    return rows;
}

/* Floor of a kernel's time: operations over peak, bytes over bandwidth, the larger. */
static double floor_seconds(const kernel_row *row, unsigned threads)
{
    double by_flops = row->calls * (double)row->info->flops / (tw_peak_flops() * threads);
    double by_bytes = row->calls * (double)row->info->bytes / tw_peak_bandwidth();
    return by_flops > by_bytes ? by_flops : by_bytes;
}

static void print_profile(bench_verb *v, const tw_model *model, const tw_session *session,
                          size_t runs, unsigned threads)
{
    double total;
    kernel_row *rows = kernel_rows(v, model, session, runs, &total);
    printf("\npeaks of one thread: %.1f GFLOP/s (f32), %.1f GB/s (memory)\n",
           tw_peak_flops() * 1e-9, tw_peak_bandwidth() * 1e-9);
    printf("%10s %6s %9s %8s %7s  %s\n", "ms", "share", "GFLOP/s", "GB/s", "floor", "kernel");
    for (size_t i = 0; i < tw_model_get_info(model)->kernels; i++) {
        const kernel_row *r = &rows[i];
        double s = r->seconds > 0 ? r->seconds : 1e-12;
        printf("%10.4f %5.1f%% %9.2f %8.2f %6.1f%%  %s (%s) x%g\n", r->seconds * 1e3,
               100 * r->seconds / (total > 0 ? total : 1),
               r->calls * (double)r->info->flops / s * 1e-9,
               r->calls * (double)r->info->bytes / s * 1e-9, 100 * floor_seconds(r, threads) / s,
               r->info->name, r->info->operators ? r->info->operators : "", r->calls);
    }
}

static void print_json(bench_verb *v, const samples *s, const tw_model *model,
                       const tw_session *session, unsigned threads)
{
    cJSON *root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "model", v->model);
    cJSON_AddStringToObject(root, "cpu", tw_model_get_info(model)->cpu);
    cJSON_AddNumberToObject(root, "threads", threads);
    cJSON_AddNumberToObject(root, "runs", (double)s->times.len);
    cJSON_AddNumberToObject(root, "min_ms", s->times.data[0] * 1e3);
    cJSON_AddNumberToObject(root, "p50_ms", percentile(s, 0.5) * 1e3);
    cJSON_AddNumberToObject(root, "p90_ms", percentile(s, 0.9) * 1e3);
    cJSON_AddNumberToObject(root, "p99_ms", percentile(s, 0.99) * 1e3);
    if (v->profile) {
        double total;
        kernel_row *rows = kernel_rows(v, model, session, s->times.len, &total);
        cJSON_AddNumberToObject(root, "peak_gflops", tw_peak_flops() * 1e-9);
        cJSON_AddNumberToObject(root, "peak_gbps", tw_peak_bandwidth() * 1e-9);
        cJSON *kernels = cJSON_AddArrayToObject(root, "kernels");
        for (size_t i = 0; i < tw_model_get_info(model)->kernels; i++) {
            cJSON *k = cJSON_CreateObject();
            cJSON_AddStringToObject(k, "name", rows[i].info->name);
            cJSON_AddStringToObject(k, "operators",
                                    rows[i].info->operators ? rows[i].info->operators : "");
            cJSON_AddNumberToObject(k, "ms", rows[i].seconds * 1e3);
            cJSON_AddNumberToObject(k, "calls", rows[i].calls);
            cJSON_AddNumberToObject(k, "flops", (double)rows[i].info->flops);
            cJSON_AddNumberToObject(k, "bytes", (double)rows[i].info->bytes);
            cJSON_AddNumberToObject(k, "floor_ms", floor_seconds(&rows[i], threads) * 1e3);
            cJSON_AddItemToArray(kernels, k);
        }
    }
    char *text = cJSON_Print(root);
    puts(text);
    cJSON_free(text);
    cJSON_Delete(root);
}

static bool bench(bench_verb *v)
{
    tw_context *ctx = v->compile.ctx;
    tw_arrays given;
    tw_model *model;
    if (!tw_prepare(&v->compile) || !tw_read_inputs(ctx, &v->input, "", &given) ||
        !tw_load_any(&v->compile, v->model, &given, &model))
        return false;
    tw_array *bound =
        TW_NEW_ARRAY(tw_context_arena(ctx), tw_array, tw_model_get_info(model)->inputs);
    unsigned threads = v->input.threads ? v->input.threads : tw_default_threads();
    tw_session_options options = {.threads = threads, .profile = v->profile};
    tw_session *session =
        tw_bind_inputs(ctx, model, &given, bound) ? tw_open_session(model, &options, bound) : NULL;
    samples s = {0};
    bool fine = session && measure(v, session, &s);
    if (fine && v->json) {
        print_json(v, &s, model, session, threads);
    } else if (fine) {
        printf("%s: %zu runs, %u thread%s, code for %s\n", v->model, s.times.len, threads,
               threads > 1 ? "s" : "", tw_model_get_info(model)->cpu);
        printf("min %.3f ms, p50 %.3f ms, p90 %.3f ms, p99 %.3f ms\n", s.times.data[0] * 1e3,
               percentile(&s, 0.5) * 1e3, percentile(&s, 0.9) * 1e3, percentile(&s, 0.99) * 1e3);
        if (v->profile)
            print_profile(v, model, session, s.times.len, threads);
    }
    tw_session_destroy(session);
    tw_model_free(model);
    return fine;
}

int tw_verb_bench(int argc, char **argv)
{
    bench_verb v = {.seconds = 3};
    v.compile.ctx = tw_context_create(0);
    argp_parse(&argp, argc, argv, 0, NULL, &v);
    bool fine = bench(&v);
    return tw_finish(&v.compile, fine);
}
