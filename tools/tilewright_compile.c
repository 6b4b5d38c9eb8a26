/* tilewright_compile.c: tilewright compile MODEL -o FILE. */
#include "tilewright.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { OPT_EMIT = 512, OPT_HEADER, OPT_ELIDE };

typedef struct compile_verb {
    tw_compile_args compile;
    const char *output;
} compile_verb;

static const struct argp_option options[] = {
    {"output", 'o', "FILE", 0, "Where the result goes (required); - is the standard output", 0},
    {"emit", OPT_EMIT, "model|object|asm|llvm|loop|graph", 0,
     "What is written (default model): a compiled model; an object file to link into a program; "
     "or the code at an inner stage, as text",
     0},
    {"header", OPT_HEADER, "FILE", 0,
     "With --emit object: where the C header goes; its names begin with that of the object file",
     0},
    {"elide", OPT_ELIDE, "N", 0,
     "With --emit graph or loop: leave out constants of more than N bytes (default 256; 0: none, "
     "so "
     "that tilewright-opt can read the text)",
     0},
    {0},
};

static const char *const emits[] = {"model", "object", "asm", "llvm", "loop", "graph"};

/* 0 is none for people, SIZE_MAX for the library. */
static bool parse_elide(const char *text, size_t *out)
{
    size_t digits = strspn(text, "0123456789");
    if (digits == 0 || text[digits] || digits > 15)
        return false;
    *out = strtoull(text, NULL, 10);
    if (*out == 0)
        *out = SIZE_MAX;
    return true;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    compile_verb *v = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &v->compile;
        break;
    case 'o':
        v->output = strcmp(arg, "-") ? arg : "/dev/stdout";
        break;
    case OPT_HEADER:
        v->compile.options.header = arg;
        break;
    case OPT_ELIDE:
        if (!parse_elide(arg, &v->compile.options.elide))
            argp_error(state, "--elide takes a number of bytes, not '%s'", arg);
        break;
    case OPT_EMIT:
        for (unsigned i = 0; i < sizeof emits / sizeof emits[0]; i++)
            if (!strcmp(arg, emits[i])) {
                v->compile.options.emit = (tw_emit)i;
                return 0;
            }
        argp_error(state, "--emit takes model, object, asm, llvm, loop or graph, not '%s'", arg);
        break;
    case ARGP_KEY_END:
        if (!v->output)
            argp_error(state, "-o FILE is missing");
        if (v->compile.options.header && v->compile.options.emit != TW_EMIT_OBJECT)
            argp_error(state, "--header goes with --emit object");
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static const struct argp_child children[] = {{&tw_compile_argp, 0, 0, 0}, {0}};
static const struct argp argp = {
    options, parse, "MODEL -o FILE", "Compile a model (ONNX) to native code.", children, 0, 0};

static bool compile(void *verb)
{
    compile_verb *v = verb;
    tw_compile_options o;
    tw_context *compiler = tw_open_compiler(&v->compile, &o);
    bool fine = compiler && tw_compile_file(compiler, v->compile.model, &o, v->output);
    if (compiler)
        tw_close_compiler(&v->compile, compiler);
    return fine;
}

int tw_verb_compile(int argc, char **argv)
{
    compile_verb v = {.output = NULL};
    return tw_run_verb(&argp, argc, argv, &v, &v.compile, compile);
}
