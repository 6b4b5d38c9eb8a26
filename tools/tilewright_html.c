/* tilewright_html.c: tilewright inspect --html REPORT.html: one page with all there is to see of a
 * compilation. The page is report.html, built in, with the data where it says @DATA@: JSON, in
 * which no '<' is left, so that nothing a model says can end the script element that it is in. */
#include "snapshots.h"
#include "tilewright.h"

#include "base/arena.h"
#include "base/file.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

extern const char tw_report_page[];
extern const size_t tw_report_page_size;

/* ---- Writing ---- */

/* JSON text; '<' only stands in strings. */
static void put_json(FILE *to, const char *text)
{
    for (const char *at; (at = strchr(text, '<')); text = at + 1)
        fprintf(to, "%.*s\\u003c", (int)(at - text), text);
    fputs(text, to);
}

static void put_item(FILE *to, cJSON *item)
{
    char *text = cJSON_PrintUnformatted(item);
    put_json(to, text ? text : "null");
    cJSON_free(text);
    cJSON_Delete(item);
}

static void put_string(FILE *to, const char *text)
{
    put_item(to, cJSON_CreateString(text));
}

/* ---- Parts ---- */

static void put_stages(FILE *to, const tw_snapshots *s)
{
    fputs("\"states\":[", to);
    for (size_t i = 0; i < s->states.len; i++) {
        fputs(i ? ",\n" : "\n", to);
        put_json(to, s->states.data[i]);
    }
    fputs("],\n\"stages\":[", to);
    for (size_t i = 0; i < s->stages.len; i++) {
        const tw_snapshot *stage = &s->stages.data[i];
        fputs(i ? ",\n{\"pass\":" : "\n{\"pass\":", to);
        put_string(to, stage->pass ? stage->pass : "");
        fputs(",\"s\":[", to);
        for (size_t k = 0; k < stage->states.len; k++)
            fprintf(to, "%s%zu", k ? "," : "", stage->states.data[k]);
        fputs("]}", to);
    }
    fputs("],\n", to);
}

/* Milliseconds of a call of kernel i, which has that name, in the profile; or -1. */
static double profiled_ms(const cJSON *profile, size_t i, const char *name)
{
    const cJSON *k;
    cJSON_ArrayForEach(k, cJSON_GetObjectItem(profile, "kernels"))
    {
        double index = cJSON_GetNumberValue(cJSON_GetObjectItem(k, "index"));
        double ms = cJSON_GetNumberValue(cJSON_GetObjectItem(k, "ms"));
        double calls = cJSON_GetNumberValue(cJSON_GetObjectItem(k, "calls"));
        const char *own = cJSON_GetStringValue(cJSON_GetObjectItem(k, "name"));
        if (index == (double)i && own && !strcmp(own, name) && calls > 0)
            return ms / calls;
    }
    return -1;
}

static void put_kernels(FILE *to, const tw_model *model, const tw_snapshots *s,
                        const cJSON *profile)
{
    size_t n = tw_model_get_info(model)->kernels;
    fputs("\"kernels\":[", to);
    for (size_t i = 0; i < n; i++) {
        const tw_kernel_info *k = tw_model_kernel(model, i);
        cJSON *o = cJSON_CreateObject();
        double ms = profile ? profiled_ms(profile, i, k->name) : -1;
        cJSON_AddNumberToObject(o, "index", (double)i);
        cJSON_AddStringToObject(o, "name", k->name);
        cJSON_AddStringToObject(o, "operators", k->operators ? k->operators : "");
        cJSON_AddNumberToObject(o, "flops", (double)k->flops);
        cJSON_AddNumberToObject(o, "bytes", (double)k->bytes);
        if (ms >= 0)
            cJSON_AddNumberToObject(o, "ms", ms);
        if (s->calls.len == n) {
            cJSON_AddStringToObject(o, "types", s->calls.data[i].types);
            cJSON_AddStringToObject(o, "node", s->calls.data[i].node);
        }
        fputs(i ? ",\n" : "\n", to);
        put_item(to, o);
    }
    fputs("],\n", to);
}

static void put_profile(FILE *to, const cJSON *profile)
{
    cJSON *o = profile ? cJSON_CreateObject() : cJSON_CreateNull();
    static const char *const names[][2] = {
        {"peak_gflops", "gflops"}, {"peak_gbps", "gbps"}, {"threads", "threads"}};
    for (size_t i = 0; profile && i < sizeof names / sizeof *names; i++)
        cJSON_AddNumberToObject(o, names[i][1],
                                cJSON_GetObjectItem(profile, names[i][0])->valuedouble);
    fputs("\"profile\":", to);
    put_item(to, o);
    fputs(",\n", to);
}

static void put_memory(FILE *to, const tw_model *model)
{
    const tw_model_info *info = tw_model_get_info(model);
    fprintf(to, "\"memory\":{\"symbolic\":%s,\"arena\":%llu,\"buffers\":[",
            info->symbols ? "true" : "false", (unsigned long long)info->arena_size);
    bool first = true;
    for (size_t i = 0; i < info->buffers; i++) {
        const tw_region_info *r = tw_model_buffer(model, i);
        if (r->first > r->last)
            continue; /* nothing uses it */
        cJSON *o = cJSON_CreateObject();
        cJSON_AddStringToObject(o, "name", r->name ? r->name : "");
        cJSON_AddStringToObject(o, "type", r->type);
        cJSON_AddNumberToObject(o, "offset", (double)r->offset);
        cJSON_AddNumberToObject(o, "size", (double)r->size);
        cJSON_AddNumberToObject(o, "first", r->first);
        cJSON_AddNumberToObject(o, "last", r->last);
        fputs(first ? "\n" : ",\n", to);
        put_item(to, o);
        first = false;
    }
    fputs("]}", to);
}

static void put_page(FILE *to, const tw_model *model, const tw_snapshots *s, const cJSON *profile)
{
    static const char mark[] = "@DATA@";
    const tw_model_info *info = tw_model_get_info(model);
    const char *at = strstr(tw_report_page, mark);
    fwrite(tw_report_page, 1, (size_t)(at - tw_report_page), to);
    fputs("{\"model\":", to);
    put_string(to, info->name);
    fputs(",\"about\":", to);
    put_string(to, tw_arena_printf(tw_context_arena(s->ctx), "%s, code for %s, %s", info->producer,
                                   info->cpu, info->target));
    fputs(",\n", to);
    put_stages(to, s);
    put_kernels(to, model, s, profile);
    put_profile(to, profile);
    put_memory(to, model);
    fputs("}", to);
    fputs(at + strlen(mark), to);
}

/* ---- The profile ---- */

static bool is_profile(const cJSON *profile)
{
    static const char *const numbers[] = {"peak_gflops", "peak_gbps", "threads"};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (!cJSON_IsNumber(cJSON_GetObjectItem(profile, numbers[i])))
            return false;
    return cJSON_IsArray(cJSON_GetObjectItem(profile, "kernels"));
}

/* What `bench --profile --json` printed; NULL after a diagnostic. */
static cJSON *read_profile(tw_context *ctx, const char *path)
{
    enum { MOST = 64 << 20 };
    tw_file file;
    const char *wrong = tw_file_map(path, MOST, &file);
    if (wrong) {
        tw_error(ctx, NULL, "%s: %s", path, wrong);
        return NULL;
    }
    cJSON *profile = cJSON_ParseWithLength((const char *)file.data, file.size);
    tw_file_unmap(&file);
    if (is_profile(profile))
        return profile;
    cJSON_Delete(profile);
    tw_error(ctx, NULL, "%s: not what `tilewright bench --profile --json` prints", path);
    return NULL;
}

/* ---- The report ---- */

static bool write_report(tw_compile_args *args, const char *path, const tw_model *model,
                         const tw_snapshots *s, const cJSON *profile)
{
    struct stat page, source;
    if (!stat(path, &page) && !stat(args->model, &source) && page.st_dev == source.st_dev &&
        page.st_ino == source.st_ino)
        return tw_error(args->ctx, NULL, "%s is the model; the report needs another name", path);
    FILE *to = fopen(path, "w");
    if (!to)
        return tw_error(args->ctx, NULL, "%s: %s", path, strerror(errno));
    put_page(to, model, s, profile);
    bool fine = !ferror(to);
    fine = !fclose(to) && fine;
    return fine || tw_error(args->ctx, NULL, "%s: cannot be written", path);
}

bool tw_write_html(tw_compile_args *args, const char *path, const char *profile_path)
{
    tw_arrays none = {0};
    tw_model *model;
    tw_snapshots snapshots = {.ctx = args->ctx};
    cJSON *profile = profile_path ? read_profile(args->ctx, profile_path) : NULL;
    if (profile_path && !profile)
        return false;
    args->keep_open = true;
    args->options.passes.observe = tw_snapshots_observe;
    args->options.passes.observe_data = &snapshots;
    bool fine = tw_load_model(args, &none, &model);
    if (fine) {
        fine = write_report(args, path, model, &snapshots, profile);
        tw_model_free(model);
    }
    cJSON_Delete(profile);
    return fine;
}
