/* cases.c: finds the cases in the folders of onnx/backend/test/data. */
#include "conformance.h"

#include <cjson/cJSON.h>
#include <dirent.h>
#include <stdarg.h>
#include <stdio.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The folder `real` names models elsewhere; those in `light` are there. */
static const char *const kinds[] = {"node", "simple", "pytorch-operator", "pytorch-converted",
                                    "real"};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

/* As onnx.backend.test.loader has them. */
static const double default_rtol = 1e-3, default_atol = 1e-7;

static char *text(const char *format, ...) __attribute__((format(printf, 1, 2)));
static char *text(const char *format, ...)
{
    char *out = NULL;
    va_list args;
    va_start(args, format);
    if (vasprintf(&out, format, args) < 0)
        abort();
    va_end(args);
    return out;
}

void *conf_grow(void *items, size_t n, size_t size)
{
    void *grown = realloc(items, n * size);
    if (!grown)
        abort();
    return grown;
}

static cJSON *read_json(const char *path)
{
    char bytes[4096];
    FILE *file = fopen(path, "rb");
    if (!file)
        return NULL;
    size_t n = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    return cJSON_ParseWithLength(bytes, n);
}

static double number(const cJSON *json, const char *name, double absent)
{
    const cJSON *item = cJSON_GetObjectItem(json, name);
    return cJSON_IsNumber(item) ? item->valuedouble : absent;
}

/* A model of `light`: its data.json gives the path below the package's parent. */
static bool find_light(const char *data, const cJSON *json, const char *name, conf_case *c)
{
    const cJSON *url = cJSON_GetObjectItem(json, "url");
    const char *base = cJSON_IsString(url) ? strstr(url->valuestring, "/light/") : NULL;
    if (!base)
        return false;
    c->key = text("light/%s", name);
    c->model = text("%s%s", data, base);
    c->expected = text("%s%.*s_output_", data, (int)(strlen(base) - strlen(".onnx")), base);
    return true;
}

/* onnx's data come from numpy's generator, and no operator has to draw the same numbers. What such
 * a case draws is 0 or a value that does not depend on it. */
static bool is_random(const char *name)
{
    static const char *const prefixes[] = {"test_bernoulli", "test_training_dropout"};
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (!strncmp(name, prefixes[i], strlen(prefixes[i])))
            return !strstr(name, "zero_ratio");
    return false;
}

/* The rounding errors that a case's expected numbers have themselves: those of an inverse transform
 * are an f32 transform's, 1.9e-7 where the exact result is 0. */
static double noise_of(const char *name)
{
    return !strncmp(name, "test_dft_inverse", strlen("test_dft_inverse")) ? 2e-7 : 0;
}

/* Fills in the case of a folder; false when there is none in it. */
static bool make_case(const char *data, const char *kind, const char *name, conf_case *c)
{
    char *folder = text("%s/%s/%s", data, kind, name), *facts = text("%s/data.json", folder);
    cJSON *json = read_json(facts);
    *c = (conf_case){.model = text("%s/model.onnx", folder),
                     .rtol = number(json, "rtol", default_rtol),
                     .atol = fmax(number(json, "atol", default_atol), noise_of(name)),
                     .random = is_random(name)};
    bool found = access(c->model, R_OK) == 0;
    if (found) {
        c->key = text("%s/%s", kind, name);
        c->folder = folder;
    } else {
        found = json && find_light(data, json, name, c);
        free(folder);
    }
    cJSON_Delete(json);
    free(facts);
    return found;
}

static bool wanted(const char *key, char *const *words, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strstr(key, words[i]))
            return true;
    return n == 0;
}

bool conf_find(const char *data, char *const *words, size_t n_words, conf_cases *out)
{
    size_t cap = 0;
    *out = (conf_cases){0};
    for (size_t k = 0; k < N_KINDS; k++) {
        struct dirent **entries;
        char *folder = text("%s/%s", data, kinds[k]);
        int n = scandir(folder, &entries, NULL, alphasort);
        if (n < 0) {
            fprintf(stderr, "%s: %m\n", folder);
            return false;
        }
        free(folder);
        for (int i = 0; i < n; i++) {
            conf_case c;
            if (entries[i]->d_name[0] == '.' ||
                !make_case(data, kinds[k], entries[i]->d_name, &c) ||
                !wanted(c.key, words, n_words))
                continue;
            if (out->n == cap)
                out->items = conf_grow(out->items, cap = 2 * cap + 64, sizeof c);
            out->items[out->n++] = c;
        }
        for (int i = 0; i < n; i++)
            free(entries[i]);
        free(entries);
    }
    return true;
}
