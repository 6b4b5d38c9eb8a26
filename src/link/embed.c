/* embed.c: the form for those who link a model into their program: one object, which holds code,
 * descriptor and constants, and a C header that stands alone.
 *
 *   objects, descriptor ─▶ lld -r ─▶ hidden symbols made local ─▶ + section of constants */
#include "link/descriptor.h"
#include "link/elf.h"
#include "link/link_impl.h"
#include "link/sink.h"
#include "tilewright/ir.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool check_form(tw_context *ctx, const tw_artifact *a, const char *prefix)
{
    bool identifier = isalpha((unsigned char)prefix[0]) || prefix[0] == '_';
    for (const char *p = prefix; *p; p++)
        identifier &= isalnum((unsigned char)*p) || *p == '_';
    if (!identifier)
        return tw_error(ctx, NULL, "'%s' cannot be a prefix: it must be a C identifier", prefix);
    if (a->model.n_variants != 1)
        return tw_error(ctx, NULL, "an object holds code for one CPU level, not for %u",
                        a->model.n_variants);
    return true;
}

const char *tw_artifact_prefix(tw_context *ctx, const char *name)
{
    const char *slash = strrchr(name, '/'), *base = slash ? slash + 1 : name;
    const char *dot = strrchr(base, '.');
    size_t len = dot && dot != base ? (size_t)(dot - base) : strlen(base);
    bool digit = isdigit((unsigned char)base[0]);
    char *prefix = tw_context_alloc(ctx, len + 3);
    char *out = prefix;
    if (digit || len == 0)
        *out++ = 'm';
    for (size_t i = 0; i < len; i++)
        *out++ = isalnum((unsigned char)base[i]) ? base[i] : '_';
    return prefix;
}

/* ---- Object ---------------------------------------------------------------------------------- */

typedef struct object_job {
    const tw_artifact *artifact;
    tw_bytes code;
    tw_elf_parts parts;
} object_job;

static bool write_object(tw_context *ctx, void *data, int fd)
{
    const object_job *job = data;
    tw_sink sink = {.ctx = ctx, .fd = fd};
    tw_sink_begin(&sink, 0);
    if (!job->artifact->model.constants_size)
        return tw_sink_write(&sink, job->code.data, job->code.size);
    if (!tw_sink_write(&sink, job->parts.head.data, job->parts.head.size))
        return false;
    tw_sink_begin(&sink, 0);
    return tw_artifact_stream_constants(job->artifact, &sink) &&
           tw_sink_write(&sink, job->parts.tail.data, job->parts.tail.size);
}

bool tw_artifact_write_object(tw_context *ctx, const tw_artifact *a, const char *prefix,
                              const char *path)
{
    uint64_t size = a->model.constants_size;
    object_job job = {.artifact = a};
    if (!check_form(ctx, a, prefix) || !tw_artifact_link_object(ctx, a, prefix, &job.code) ||
        !tw_elf_localize_hidden(ctx, (void *)job.code.data, job.code.size))
        return false;
    const char *symbol = tw_arena_printf(tw_context_arena(ctx), "%s_constants", prefix);
    if (size && !tw_elf_add_section(ctx, &job.code, symbol, size, &job.parts))
        return false;
    return tw_artifact_replace_file(ctx, path, 0666, write_object, &job);
}

/* ---- Header ---------------------------------------------------------------------------------- */

static const char *c_type(uint32_t elem)
{
    static const char *const types[TW_ELEM_COUNT] = {
        [TW_F64] = "double",        [TW_F32] = "float",          [TW_F16] = "uint16_t",
        [TW_BF16] = "uint16_t",     [TW_F8E4M3FN] = "uint8_t",   [TW_F8E5M2] = "uint8_t",
        [TW_I64] = "int64_t",       [TW_I32] = "int32_t",        [TW_I16] = "int16_t",
        [TW_I8] = "int8_t",         [TW_U64] = "uint64_t",       [TW_U32] = "uint32_t",
        [TW_U16] = "uint16_t",      [TW_U8] = "uint8_t",         [TW_I4] = "uint8_t",
        [TW_U4] = "uint8_t",        [TW_BOOL] = "uint8_t",       [TW_STRING] = "const char *",
        [TW_INDEX] = "int64_t",     [TW_F8E4M3FNUZ] = "uint8_t", [TW_F8E5M2FNUZ] = "uint8_t",
        [TW_F8E8M0FNU] = "uint8_t", [TW_F4E2M1FN] = "uint8_t",   [TW_I2] = "uint8_t",
        [TW_U2] = "uint8_t",
    };
    return types[elem];
}

/* A string literal; names may hold any bytes. */
static void print_literal(FILE *out, const char *text)
{
    fputc('"', out);
    for (; *text; text++)
        if (*text == '"' || *text == '\\' || *text == '?')
            fprintf(out, "\\%c", *text);
        else if (isprint((unsigned char)*text))
            fputc(*text, out);
        else
            fprintf(out, "\\%03o", (unsigned char)*text);
    fputc('"', out);
}

/* A sequence or optional is a handle that the runtime makes: see tw_model_load_linked. */
static void print_contents(FILE *out, const char *upper, const char *kind, uint32_t i,
                           const tw_abi_tensor *t)
{
    fprintf(out, "\n/* A handle of %s%s of tensors of %s, for the runtime (TW_ABI_SEQUENCE). */\n",
            t->flags & TW_ABI_OPTIONAL ? "an optional" : "a sequence",
            t->flags & TW_ABI_OPTIONAL && t->flags & TW_ABI_SEQUENCE ? " sequence" : "",
            tw_elem_name(t->elem));
    fprintf(out, "#define %s_%s_%u_TYPE uint64_t\n", upper, kind, i);
}

static void print_tensor(FILE *out, const char *upper, const char *kind, uint32_t i,
                         const tw_abi_tensor *t)
{
    int64_t count = 1;
    bool fixed = true;
    fprintf(out, "\n#define %s_%s_%u_NAME ", upper, kind, i);
    print_literal(out, t->name);
    if (t->flags & (TW_ABI_SEQUENCE | TW_ABI_OPTIONAL)) {
        print_contents(out, upper, kind, i, t);
        return;
    }
    fprintf(out, "\n#define %s_%s_%u_ELEM \"%s\"\n", upper, kind, i, tw_elem_name(t->elem));
    fprintf(out, "#define %s_%s_%u_TYPE %s\n", upper, kind, i, c_type(t->elem));
    fprintf(out, "#define %s_%s_%u_RANK %u\n", upper, kind, i, t->rank);
    if (t->rank)
        fprintf(out, "#define %s_%s_%u_DIMS {", upper, kind, i);
    for (uint32_t d = 0; d < t->rank; d++) {
        fixed = fixed && t->dims[d] >= 0 && !__builtin_mul_overflow(count, t->dims[d], &count);
        fprintf(out, "%" PRId64 "%s", t->dims[d], d + 1 < t->rank ? ", " : "}\n");
    }
    if (fixed)
        fprintf(out, "#define %s_%s_%u_COUNT %" PRId64 "\n", upper, kind, i, count);
}

static const char prototypes[] =
    "/* Runs the model on the calling thread: row-major data of %1$s_N_INPUTS inputs and\n"
    " * %1$s_N_OUTPUTS outputs, aligned to their types, and an arena of %2$s,\n"
    " * aligned to %1$s_ALIGN, that holds nothing between runs; none of them may overlap. Returns\n"
    " * 0, or a positive code when the model reports an error. Threads with arenas of their own "
    "may\n"
    " * run it at once. */\n"
    "int32_t %3$s_run(const void *const *inputs, void *const *outputs, void *arena%4$s);\n\n"
    "/* The same with a host: threads, memory, messages, profiling (see tilewright/model.h). */\n"
    "struct tw_abi_host;\n"
    "int32_t %3$s_run_on(const struct tw_abi_host *host, const void *const *inputs,\n"
    "                    void *const *outputs, void *arena%4$s);\n\n"
    "/* For tw_model_load_linked of tilewright/runtime.h. */\n"
    "struct tw_abi_model;\n"
    "extern const struct tw_abi_model %3$s_model;\n";

static const char plan_prototype[] =
    "\n/* Bytes of the arena for these sizes, negative when they are not possible; writes the dims "
    "of\n"
    " * all outputs, one after another. */\n"
    "int64_t %s_plan(const int64_t *symbols, int64_t *output_dims);\n";

static void print_header(FILE *out, const tw_abi_model *m, const char *prefix, const char *upper)
{
    const tw_abi_variant *v = &m->variants[0];
    fprintf(out, "/* Generated by tilewright " TW_VERSION " for %s, CPU %s. */\n", m->target,
            v->cpu);
    fprintf(out, "#ifndef TILEWRIGHT_%s_H\n#define TILEWRIGHT_%s_H\n\n", upper, upper);
    fprintf(out, "#include <stdint.h>\n\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n");
    fprintf(out, "#define %s_N_INPUTS %u\n", upper, m->n_inputs);
    fprintf(out, "#define %s_N_OUTPUTS %u\n", upper, m->n_outputs);
    fprintf(out, "#define %s_ALIGN %d\n", upper, TW_ABI_ALIGN);
    if (!m->n_symbols)
        fprintf(out, "#define %s_ARENA_SIZE %" PRIu64 "\n", upper, v->arena_size);
    for (uint32_t i = 0; i < m->n_symbols; i++) {
        fprintf(out, "#define %s_SYMBOL_%u ", upper, i);
        print_literal(out, m->symbols[i]);
        fputc('\n', out);
    }
    for (uint32_t i = 0; i < m->n_inputs; i++)
        print_tensor(out, upper, "INPUT", i, &m->inputs[i]);
    for (uint32_t i = 0; i < m->n_outputs; i++)
        print_tensor(out, upper, "OUTPUT", i, &m->outputs[i]);
    char arena[256];
    snprintf(arena, sizeof arena, m->n_symbols ? "%.100s_plan() bytes" : "%.100s_ARENA_SIZE bytes",
             m->n_symbols ? prefix : upper);
    fputc('\n', out);
    fprintf(out, prototypes, upper, arena, prefix, m->n_symbols ? ", const int64_t *symbols" : "");
    if (m->n_symbols)
        fprintf(out, plan_prototype, prefix);
    fprintf(out, "\n#ifdef __cplusplus\n}\n#endif\n#endif\n");
}

static bool write_text(tw_context *ctx, void *data, int fd)
{
    const tw_bytes *text = data;
    tw_sink sink = {.ctx = ctx, .fd = fd};
    tw_sink_begin(&sink, 0);
    return tw_sink_write(&sink, text->data, text->size);
}

/* The header as text, of the C library's memory. */
typedef struct header {
    tw_context *ctx;
    const char *path;
    char *text;
    size_t size;
} header;

static bool write_header(void *data)
{
    header *h = data;
    tw_bytes bytes = {h->text, h->size};
    return tw_artifact_replace_file(h->ctx, h->path, 0666, write_text, &bytes);
}

static void free_header(void *data)
{
    free(((header *)data)->text);
}

bool tw_artifact_write_header(tw_context *ctx, const tw_artifact *a, const char *prefix,
                              const char *path)
{
    if (!check_form(ctx, a, prefix))
        return false;
    char *upper = tw_arena_strdup(tw_context_arena(ctx), prefix);
    for (char *p = upper; *p; p++)
        *p = (char)toupper((unsigned char)*p);
    header h = {.ctx = ctx, .path = path};
    FILE *out = open_memstream(&h.text, &h.size);
    if (!out)
        return tw_error(ctx, NULL, "out of memory");
    print_header(out, &a->model, prefix, upper);
    if (!fclose(out))
        return tw_context_finally(ctx, write_header, free_header, &h);
    free(h.text);
    return tw_error(ctx, NULL, "out of memory");
}
