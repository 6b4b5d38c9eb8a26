/* tilewright_compile.c: tilewright compile MODEL -o FILE. */
#include "tilewright.h"

#include <string.h>

enum { OPT_EMIT = 512, OPT_HEADER };

typedef struct compile_verb {
    tw_compile_args compile;
    const char *model, *output;
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
    {0},
};

static const char *const emits[] = {"model", "object", "asm", "llvm", "loop", "graph"};

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
    case OPT_EMIT:
        for (unsigned i = 0; i < sizeof emits / sizeof emits[0]; i++)
            if (!strcmp(arg, emits[i])) {
                v->compile.options.emit = (tw_emit)i;
                return 0;
            }
        argp_error(state, "--emit takes model, object, asm, llvm, loop or graph, not '%s'", arg);
        break;
    case ARGP_KEY_ARG:
        if (v->model)
            argp_error(state, "one MODEL, not also '%s'", arg);
        v->model = arg;
        break;
    case ARGP_KEY_END:
        if (!v->model)
            argp_error(state, "which MODEL?");
        if (!v->output)
            argp_error(state, "-o FILE is missing");
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static const struct argp_child children[] = {{&tw_compile_argp, 0, 0, 0}, {0}};
static const struct argp argp = {
    options, parse, "MODEL -o FILE", "Compile a model (ONNX) to native code.", children, 0, 0};

int tw_verb_compile(int argc, char **argv)
{
    compile_verb v = {.model = NULL};
    v.compile.ctx = tw_context_create(0);
    argp_parse(&argp, argc, argv, 0, NULL, &v);
    bool fine = tw_prepare(&v.compile) &&
                tw_compile_file(v.compile.ctx, v.model, &v.compile.options, v.output);
    return tw_finish(&v.compile, fine);
}
