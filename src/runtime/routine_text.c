/* routine_text.c: routines over strings. Text is UTF-8, ends with a zero byte, and stays where it
 * is: what a routine makes of it lies in memory that the session keeps until its next run.
 *
 *   tw_rt_text         u8 bytes, the texts one after another -> strings; params: their sizes
 *   tw_rt_equal_text   a, b of one shape -> bool
 *   tw_rt_concat_text  a, b of one shape -> strings
 *   tw_rt_split_text   x, delimiter (scalar; empty: white space) -> parts [x..., most parts], empty
 *                      behind the last part of each, i64 numbers of parts [x...]; params: how many
 *                      times to split at most, or -1
 *   tw_rt_normalize_text  x [n] or [1, n], stop words [k] -> x without these, one empty text if
 *                      nothing is left; params: 0 case stays, 1 lower, 2 upper; whether stop words
 *                      are told apart by case
 *   tw_rt_match_text   x, pattern (scalar, see regex.h) -> bool: all of the text matches */
#include "runtime/letters.h"
#include "runtime/regex.h"
#include "runtime/routines.h"

#include <string.h>

/* ---- Tools ---- */

static char **texts_of(const tw_abi_value *v)
{
    return v->data;
}

static void copy_dims(tw_abi_value *out, const tw_abi_value *in)
{
    for (uint32_t i = 0; i < in->rank; i++)
        out->dims[i] = in->dims[i];
}

/* ---- Constants, comparison, joining ---- */

int32_t tw_rt_text(const tw_abi_host *host, const tw_abi_value *in, uint32_t n_in,
                   tw_abi_value *out, uint32_t n_out, const int64_t *params)
{
    char *at = in->data;
    (void)n_in;
    (void)n_out;
    for (uint32_t i = 0; i < out->rank; i++)
        out->dims[i] = params[i];
    if (!tw_rt_provide(host, out))
        return 1;
    for (int64_t i = 0, n = tw_rt_count(out); i < n; i++, at += strlen(at) + 1)
        texts_of(out)[i] = at;
    return 0;
}

int32_t tw_rt_equal_text(const tw_abi_host *host, const tw_abi_value *in, uint32_t n_in,
                         tw_abi_value *out, uint32_t n_out, const int64_t *params)
{
    (void)n_in;
    (void)n_out;
    (void)params;
    copy_dims(out, in);
    if (!tw_rt_provide(host, out))
        return 1;
    for (int64_t i = 0, n = tw_rt_count(out); i < n; i++)
        ((uint8_t *)out->data)[i] = !strcmp(texts_of(&in[0])[i], texts_of(&in[1])[i]);
    return 0;
}

int32_t tw_rt_concat_text(const tw_abi_host *host, const tw_abi_value *in, uint32_t n_in,
                          tw_abi_value *out, uint32_t n_out, const int64_t *params)
{
    (void)n_in;
    (void)n_out;
    (void)params;
    size_t total = 1;
    copy_dims(out, in);
    if (!tw_rt_provide(host, out))
        return 1;
    int64_t n = tw_rt_count(out);
    for (int64_t i = 0; i < n; i++)
        total += strlen(texts_of(&in[0])[i]) + strlen(texts_of(&in[1])[i]) + 1;
    char *at = host->keep(host, total);
    if (!at)
        return tw_rt_no_memory(host);
    for (int64_t i = 0; i < n; i++) {
        texts_of(out)[i] = at;
        for (int k = 0; k < 2; k++) {
            size_t len = strlen(texts_of(&in[k])[i]);
            memcpy(at, texts_of(&in[k])[i], len);
            at += len;
        }
        *at++ = 0;
    }
    return 0;
}

/* ---- Splitting ---- */

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Takes the next part off the text: where it begins and how long it is; false when there is none.
 * `last`: all that is left is one part. */
static bool next_part(const char **text, const char *delimiter, bool last, const char **part,
                      size_t *len)
{
    const char *at = *text;
    if (!at)
        return false;
    if (*delimiter) {
        const char *end = last ? NULL : strstr(at, delimiter);
        *part = at;
        *len = end ? (size_t)(end - at) : strlen(at);
        *text = end ? end + strlen(delimiter) : NULL;
        return true;
    }
    while (is_space(*at))
        at++;
    *part = at;
    while (*at && (last || !is_space(*at)))
        at++;
    *len = (size_t)(at - *part);
    *text = *at ? at : NULL;
    return *len > 0;
}

static int64_t count_parts(const char *text, const char *delimiter, int64_t most, size_t *bytes)
{
    int64_t n = 0;
    const char *part;
    size_t len;
    while (next_part(&text, delimiter, most >= 0 && n == most, &part, &len)) {
        *bytes += len + 1;
        n++;
    }
    return n;
}

int32_t tw_rt_split_text(const tw_abi_host *host, const tw_abi_value *in, uint32_t n_in,
                         tw_abi_value *out, uint32_t n_out, const int64_t *params)
{
    const char *delimiter = texts_of(&in[1])[0];
    (void)n_in;
    (void)n_out;
    int64_t n = tw_rt_count(in), widest = 0, most = params[0];
    size_t bytes = 1; /* the first byte is the empty text */
    copy_dims(&out[1], in);
    if (!tw_rt_provide(host, &out[1]))
        return 1;
    int64_t *counts = out[1].data;
    for (int64_t i = 0; i < n; i++) {
        counts[i] = count_parts(texts_of(in)[i], delimiter, most, &bytes);
        widest = counts[i] > widest ? counts[i] : widest;
    }
    copy_dims(&out[0], in);
    out[0].dims[in->rank] = widest;
    char *at = host->keep(host, bytes), *empty = at;
    if (!at)
        return tw_rt_no_memory(host);
    if (!tw_rt_provide(host, &out[0]))
        return 1;
    *at++ = 0;
    for (int64_t i = 0; i < n; i++) {
        const char *text = texts_of(in)[i], *part;
        size_t len;
        for (int64_t k = 0; k < widest; k++) {
            bool more =
                k < counts[i] && next_part(&text, delimiter, most >= 0 && k == most, &part, &len);
            texts_of(&out[0])[i * widest + k] = more ? at : empty;
            if (!more)
                continue;
            memcpy(at, part, len);
            at[len] = 0;
            at += len + 1;
        }
    }
    return 0;
}

/* ---- Case ---- */

/* Copies the text in another case (0: as it is); the place behind it. Code points below 0x800 have
 * two bytes or fewer before and after, those up to 0xffff three. */
static char *copy_case(char *to, const char *text, int64_t action)
{
    const unsigned char *s = (const unsigned char *)text;
    while (*s) {
        unsigned n = *s < 0x80 ? 1 : (*s & 0xe0) == 0xc0 ? 2 : (*s & 0xf0) == 0xe0 ? 3 : 0;
        for (unsigned i = 1; i < n; i++)
            n = (s[i] & 0xc0) == 0x80 ? n : 0;
        if (!n || !action) { /* other planes have no case that is changed; nor has broken text */
            *to++ = (char)*s++;
            continue;
        }
        uint32_t c = n == 1   ? s[0]
                     : n == 2 ? (s[0] & 0x1fu) << 6 | (s[1] & 0x3fu)
                              : (s[0] & 0x0fu) << 12 | (s[1] & 0x3fu) << 6 | (s[2] & 0x3fu);
        s += n;
        c = tw_change_case(c, action == 2);
        if (c < 0x80) {
            *to++ = (char)c;
        } else if (c < 0x800) {
            *to++ = (char)(0xc0 | c >> 6);
            *to++ = (char)(0x80 | (c & 0x3f));
        } else {
            *to++ = (char)(0xe0 | c >> 12);
            *to++ = (char)(0x80 | (c >> 6 & 0x3f));
            *to++ = (char)(0x80 | (c & 0x3f));
        }
    }
    *to++ = 0;
    return to;
}

/* ---- Normalising ---- */

/* Whether the text, or its lower form beside it when case does not count, is a stop word. */
static bool is_stop(const char *text, char *const *stops, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (!strcmp(text, stops[i]))
            return true;
    return false;
}

/* Lower forms of all texts, in kept memory; NULL when there is none. */
static char **lower_all(const tw_abi_host *host, char *const *texts, int64_t n)
{
    size_t total = 1;
    for (int64_t i = 0; i < n; i++)
        total += 2 * strlen(texts[i]) + 1;
    char **out = host->keep(host, (size_t)n * sizeof *out + total);
    char *at = out ? (char *)(out + n) : NULL;
    for (int64_t i = 0; at && i < n; i++) {
        out[i] = at;
        at = copy_case(at, texts[i], 1);
    }
    return out;
}

int32_t tw_rt_normalize_text(const tw_abi_host *host, const tw_abi_value *in, uint32_t n_in,
                             tw_abi_value *out, uint32_t n_out, const int64_t *params)
{
    (void)n_in;
    (void)n_out;
    int64_t n = tw_rt_count(&in[0]), n_stops = tw_rt_count(&in[1]), kept = 0;
    char **x = texts_of(&in[0]), **stops = texts_of(&in[1]), **compared = x;
    if (!params[1]) {
        compared = lower_all(host, x, n);
        stops = lower_all(host, stops, n_stops);
        if (!compared || !stops)
            return tw_rt_no_memory(host);
    }
    size_t total = 1;
    for (int64_t i = 0; i < n; i++) {
        bool stays = !is_stop(compared[i], stops, n_stops);
        kept += stays;
        total += stays ? 2 * strlen(x[i]) + 1 : 0;
    }
    out->dims[0] = 1;
    out->dims[out->rank - 1] = kept ? kept : 1;
    char *at = host->keep(host, total), *empty = at;
    if (!at)
        return tw_rt_no_memory(host);
    if (!tw_rt_provide(host, out))
        return 1;
    *at++ = 0;
    texts_of(out)[0] = empty;
    for (int64_t i = 0, k = 0; i < n; i++)
        if (!is_stop(compared[i], stops, n_stops)) {
            texts_of(out)[k++] = at;
            at = copy_case(at, x[i], params[0]);
        }
    return 0;
}

/* ---- Patterns ---- */

int32_t tw_rt_match_text(const tw_abi_host *host, const tw_abi_value *in, uint32_t n_in,
                         tw_abi_value *out, uint32_t n_out, const int64_t *params)
{
    const char *error;
    bool failed = false;
    (void)n_in;
    (void)n_out;
    (void)params;
    copy_dims(out, in);
    if (!tw_rt_provide(host, out))
        return 1;
    tw_regex *re = tw_regex_compile(texts_of(&in[1])[0], &error);
    if (!re)
        return tw_rt_fail(host, error);
    for (int64_t i = 0, n = tw_rt_count(out); i < n && !failed; i++)
        ((uint8_t *)out->data)[i] = tw_regex_matches(re, texts_of(in)[i], &failed);
    tw_regex_free(re);
    return failed ? tw_rt_no_memory(host) : 0;
}
