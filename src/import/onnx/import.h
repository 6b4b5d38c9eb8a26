/* import.h: the state of one ONNX import and what handlers of operators work with; private to
 * src/import/onnx. */
#ifndef TW_IMPORT_ONNX_IMPORT_H
#define TW_IMPORT_ONNX_IMPORT_H

#include "base/file.h"
#include "base/vec.h"
#include "import/build.h"
#include "import/known.h"
#include "import/onnx/onnx.h"
#include "import/onnx/onnx.pb-c.h"

typedef struct tw_onnx tw_onnx;
typedef struct tw_onnx_node tw_onnx_node;
typedef struct tw_onnx_bundle tw_onnx_bundle;

/* Makes the graph operations of a node and sets its outputs. False when an error was added. */
typedef bool (*tw_onnx_handler)(tw_onnx_node *n);

/* A row of the operator table: one operator over a range of operator set versions. */
typedef struct tw_onnx_op {
    const char *domain, *name;
    int since, until;
    int min_in, max_in; /* inputs; max_in -1: any number */
    tw_onnx_handler handler;
    int param; /* for handlers that serve several operators: often a tw_graph_kind */
} tw_onnx_op;

/* The row for an operator, or NULL. */
const tw_onnx_op *tw_onnx_find(const char *domain, const char *name, int64_t version);

/* Values of `param` for reductions that are no single graph operation. */
enum {
    TW_ONNX_L1 = TW_GRAPH_COUNT,
    TW_ONNX_L2,
    TW_ONNX_LOG_SUM,
    TW_ONNX_LOG_SUM_EXP,
    TW_ONNX_SUM_SQUARE,
};

/* Versions of the operator sets that a model or a function uses. */
typedef struct tw_onnx_opsets {
    Onnx__OperatorSetIdProto *const *items;
    size_t n;
} tw_onnx_opsets;

/* Version of a domain's operator set; 0 when it is not imported. */
int64_t tw_onnx_opset(const tw_onnx_opsets *sets, const char *domain);

/* Names that a graph's or function's nodes see. */
typedef struct tw_onnx_scope {
    struct tw_onnx_scope *parent; /* of a subgraph: what surrounds it */
    tw_region *region;            /* that the nodes' operations go to */
    tw_map values;                /* name -> tw_value */
    tw_map declared;              /* name -> ValueInfoProto */
    tw_map initializers;          /* name -> TensorProto (of a sparse one: its values), not yet
                                     made a constant */
    const tw_onnx_opsets *opsets;
    const struct tw_onnx_call *call; /* the function that is being inlined, or NULL */
} tw_onnx_scope;

/* A function being inlined. */
typedef struct tw_onnx_call {
    const struct tw_onnx_call *caller;
    const Onnx__FunctionProto *function;
    const Onnx__NodeProto *node; /* the call; its attributes replace references */
    const char *text;            /* the call, for diagnostics */
    unsigned depth;              /* calls around it */
} tw_onnx_call;

struct tw_onnx {
    tw_context *ctx;
    tw_arena *arena; /* gone when the import ends */
    tw_gb g;
    const tw_import_options *options;
    const char *file; /* for messages */
    const char *dir;  /* of external data, or NULL */
    tw_loc loc;       /* of the model as a whole */
    const unsigned char *data;
    size_t size;
    const Onnx__ModelProto *model;
    tw_onnx_opsets opsets;
    tw_map functions;  /* key -> FunctionProto */
    tw_map sparse;     /* TensorProto of values -> SparseTensorProto */
    tw_map data_files; /* location -> tw_file */
    tw_map kept;       /* locations that are no file of options->written */
    tw_map bound;      /* symbol -> size given by an option (tw_import_shape) */
    int64_t nodes;     /* handled so far */
    bool malformed;    /* an error tells of a graph that makes no sense for any data or sizes */
    tw_map size_names; /* of all symbols */
    tw_map open_sizes; /* symbols that no operation defines yet */
    size_t handles;    /* of sequences made so far */
    unsigned trials;   /* loops whose bodies are imported to see what states hold (op_loop.c) */
    size_t unknowns;   /* values of unknown type that trials have met */
    tw_onnx_bundle *unknown;            /* stands for them all */
    tw_map handle_inputs;               /* argument of main -> its bundle */
    TW_VEC(tw_attr) input_sizes, sizes; /* symbols of inputs; those that binds define (sizes.c) */
};

struct tw_onnx_node {
    tw_onnx *im;
    tw_gb *g;
    tw_context *ctx;
    tw_onnx_scope *scope;
    const Onnx__NodeProto *proto;
    const tw_onnx_op *op;
    int64_t version; /* of the operator set */
    size_t unknowns; /* of the import before it */
    unsigned n_in, n_out;
    tw_value **in;  /* NULL where left out */
    tw_value **out; /* to be set; those without a name need not be */
};

/* ---- Graphs ---- */

/* Imports the nodes of a graph into the scope. */
bool tw_onnx_nodes(tw_onnx *im, tw_onnx_scope *scope, Onnx__NodeProto *const *nodes, size_t n);
/* A subgraph on these inputs, its operations put where the builder stands; sets `out` to its
 * outputs, graph->n_output of them. */
bool tw_onnx_inline_graph(tw_onnx_node *n, const Onnx__GraphProto *graph, tw_value *const *in,
                          size_t n_in, tw_value **out);
/* The value of that name, or NULL: not defined (so far). */
tw_value *tw_onnx_lookup(tw_onnx *im, tw_onnx_scope *scope, const char *name);
tw_onnx_scope tw_onnx_scope_make(tw_onnx *im, tw_onnx_scope *parent, const tw_onnx_opsets *opsets);
/* Makes the initializers of a graph known by name. */
bool tw_onnx_initializers(tw_onnx *im, tw_onnx_scope *scope, const Onnx__GraphProto *graph);
/* The main graph: arguments, body and return of `func`. */
bool tw_onnx_main(tw_onnx *im, tw_op *func);
/* Inlines a call of a local function. */
bool tw_onnx_inline_function(tw_onnx_node *n, const Onnx__FunctionProto *function);
/* Makes the model's local functions known; the one that a node calls, or NULL. */
bool tw_onnx_functions(tw_onnx *im);
const Onnx__FunctionProto *tw_onnx_function(tw_onnx *im, const Onnx__NodeProto *node);
/* Refuses models with unknown operators, by one diagnostic that lists them all. */
bool tw_onnx_check_operators(tw_onnx *im);
/* "Conv 'layer1/conv'", for diagnostics. */
const char *tw_onnx_node_text(tw_onnx *im, const Onnx__NodeProto *node);
/* "" for the default domain's other name, ai.onnx. */
const char *tw_onnx_domain(const char *domain);
static inline const char *tw_onnx_text(const char *text)
{
    return text ? text : "";
}

/* ---- Operations with inner graphs ---- */

/* An attribute that is a graph; NULL with an error. */
const Onnx__GraphProto *tw_onnx_graph(tw_onnx_node *n, const char *name);
/* graph.if or graph.loop at the builder's place, so that inner graphs can be imported into its
 * regions; its results have no types yet. */
tw_op *tw_onnx_region_op(tw_onnx_node *n, tw_graph_kind kind, tw_value *const *operands,
                         unsigned n_operands, unsigned n_results);
/* x, which has one element of that type, as rank 0; NULL with an error. */
tw_value *tw_onnx_single(tw_onnx_node *n, tw_value *x, tw_elem elem, const char *what);
void tw_onnx_yield(tw_onnx_node *n, tw_value *const *values, unsigned count);

/* ---- Sequences and optionals ---- */

/* What is known of a value that may be a sequence or an optional, and of the tensors inside. */
typedef struct tw_onnx_content {
    bool sequence, optional;   /* neither: it is a tensor */
    tw_elem elem;              /* TW_ELEM_COUNT: not known, for there is no tensor */
    int rank;                  /* or one of: */
    tw_expr dims[TW_MAX_RANK]; /* numbers and sizes of inputs; NULL: unknown, or they differ */
} tw_onnx_content;
enum { TW_ONNX_ANY_RANK = -1, /* unknown, or they differ */ TW_ONNX_NO_TENSOR = -2 };

/* A sequence, or an optional that holds one value or none. Names stand for bundles as they stand
 * for values. Where it is known while the model is imported how many values there are, nothing of
 * the bundle is left in the graph: operators work on the values inside. Where it is not, the bundle
 * is a handle, a u64 scalar, and routines of the runtime work on what it leads to. */
struct tw_onnx_bundle {
    tw_value value; /* what stands for it, of a type that is no tensor's */
    tw_onnx_content content;
    size_t n;
    tw_value **items;  /* values or bundles */
    tw_value *handle;  /* NULL: they are known */
    tw_value *made;    /* the handle that known ones were given (sequence.c), or NULL */
    tw_region *region; /* that sees all of them */
};

/* Of known values: the items are copied. `elem` tells of what type tensors would be if there are
 * none. */
tw_value *tw_onnx_bundle_of(tw_onnx *im, bool optional, tw_value *const *items, size_t n);
tw_value *tw_onnx_bundle_of_none(tw_onnx *im, const tw_onnx_content *content);
/* The bundle that the value stands for, or NULL: it is a tensor. */
static inline const tw_onnx_bundle *tw_onnx_as_bundle(const tw_value *value)
{
    return value->type->kind == TW_TYPE_TENSOR ? NULL : (const tw_onnx_bundle *)value;
}
/* Input i as a sequence; NULL with an error. */
const tw_onnx_bundle *tw_onnx_sequence(tw_onnx_node *n, unsigned i);
/* The tensors in a list of values, inner ones and handles in their places. */
typedef struct tw_onnx_leaves {
    TW_VEC(tw_value *) tensors;
} tw_onnx_leaves;
void tw_onnx_add_leaves(tw_onnx *im, tw_value *value, tw_onnx_leaves *out);
/* The value again, its tensors being the next ones from *leaves on. */
tw_value *tw_onnx_with_leaves(tw_onnx *im, const tw_value *like, tw_value *const **leaves);
/* Whether both are built alike, apart from the sizes of tensors. */
bool tw_onnx_same_structure(const tw_value *a, const tw_value *b);
/* An input of the main graph that is a sequence or optional: the tensors "x[0]", "x[1]" … that the
 * options give shapes for, which become arguments of the function; or without those a handle. Sets
 * *out; NULL: the input is a tensor. */
bool tw_onnx_bundle_input(tw_onnx *im, const Onnx__ValueInfoProto *input, tw_region *body,
                          tw_value **out);
/* The name of element i of x: "x[i]". */
const char *tw_onnx_element_name(tw_arena *arena, const char *name, size_t i);

/* ---- Those whose lengths only the run knows (sequence.c) ---- */

/* Of a value; of a declared type: false with an error when it is none that is supported. */
tw_onnx_content tw_onnx_content_of(tw_onnx *im, const tw_value *value);
bool tw_onnx_declared_content(tw_onnx *im, const Onnx__TypeProto *type, const char *name,
                              tw_onnx_content *out);
/* Widens *a to what holds for b as well, and says whether that has changed it. False when both
 * cannot be. */
bool tw_onnx_join_content(tw_onnx_content *a, const tw_onnx_content *b, bool *changed);
/* The bundle of a handle. */
tw_value *tw_onnx_held(tw_onnx *im, const tw_onnx_content *content, tw_value *handle);
/* The handle of a bundle; NULL with an error. */
tw_value *tw_onnx_handle(tw_onnx_node *n, tw_value *value);
/* A call of tw_rt_sequence_NAME that gives a handle. */
tw_value *tw_onnx_handle_routine(tw_onnx_node *n, const char *name, tw_value *const *operands,
                                 unsigned n_operands, const int64_t *params, size_t n_params);
/* At the end of a trip of the loop, before what it yields: of the sequences that the trip has made
 * only these stay, as other handles, which are put in the place of the given ones. */
bool tw_onnx_keep_only(tw_onnx_node *n, tw_op *loop, tw_value **handles, unsigned count);
/* The number of dimensions of its tensors: what is known of these, else what the model declares of
 * output 0, which has `more` of them. -1 with an error. */
int tw_onnx_item_rank(tw_onnx_node *n, const tw_onnx_content *content, int more);
/* A value of which a trial of a loop does not know what it is: nodes that use it are left out, and
 * the trial ends with an import that is not used. */
tw_value *tw_onnx_unknown(tw_onnx_node *n);
/* Something of the type of `like`, for what is known of a result all the same; NULL when `like` is
 * NULL or unknown. The node's handler sets it as an output and returns false. */
tw_value *tw_onnx_stand_in(tw_onnx_node *n, const tw_value *like);
/* Whether the node, or one in its inner graphs, has met such a value. */
static inline bool tw_onnx_met_unknown(const tw_onnx_node *n)
{
    return n->im->unknowns != n->unknowns;
}
/* The tensor at a position (an i64 scalar) of such a sequence. */
tw_value *tw_onnx_item_at(tw_onnx_node *n, const tw_onnx_bundle *s, tw_value *position);
/* Its length, an i64 scalar. */
tw_value *tw_onnx_length(tw_onnx_node *n, const tw_onnx_bundle *s);
/* Operators on bundles of which one is a handle, or with positions that only the run knows. */
bool tw_onnx_insert_runtime(tw_onnx_node *n);
bool tw_onnx_erase_runtime(tw_onnx_node *n);
bool tw_onnx_join_runtime(tw_onnx_node *n, int64_t axis, bool fresh);
bool tw_onnx_split_runtime(tw_onnx_node *n, unsigned axis, bool keep);
bool tw_onnx_map_runtime(tw_onnx_node *n, const Onnx__GraphProto *body);

/* ---- Types and tensors ---- */

/* The element type of a TensorProto data type; false when there is none. */
bool tw_onnx_elem(int32_t data_type, tw_elem *out);
const char *tw_onnx_elem_name(int32_t data_type);
/* The data of a tensor, its type and size; NULL with an error. It lies in the file if it can. */
const void *tw_onnx_tensor_data(tw_onnx *im, const Onnx__TensorProto *tensor, const char *name,
                                tw_type *type, size_t *bytes);
/* A constant of the tensor's data, which stays in the file if it can. NULL with an error. */
tw_value *tw_onnx_tensor(tw_onnx *im, const Onnx__TensorProto *tensor, const char *name);
/* The same of a sparse tensor, its other elements being 0. */
tw_value *tw_onnx_sparse_tensor(tw_onnx *im, const Onnx__SparseTensorProto *tensor,
                                const char *name);
/* The type of a graph input, symbols that options fix replaced; NULL with an error. */
tw_type tw_onnx_input_type(tw_onnx *im, const Onnx__ValueInfoProto *input);
/* The shape that the options give for that name, or NULL. */
const tw_import_shape *tw_onnx_given_shape(const tw_onnx *im, const char *name);
/* Takes away the defaults of inputs that the options say to have a value. */
bool tw_onnx_open_inputs(tw_onnx *im, tw_onnx_scope *scope, const Onnx__GraphProto *graph);
/* Takes the shapes of the options: symbols of inputs get their sizes. */
bool tw_onnx_bind_shapes(tw_onnx *im, const Onnx__GraphProto *graph);
/* The value that options give to an input, as a constant. Sets *value to NULL when there is none;
 * false with an error when it does not fit the declared type. */
bool tw_onnx_fixed_input(tw_onnx *im, const Onnx__ValueInfoProto *input, tw_value **value);
/* Checks the declared type of a value against the inferred one. */
bool tw_onnx_check_declared(tw_onnx *im, const tw_onnx_scope *scope, const char *name,
                            const tw_value *value);
/* Whether the tensor's data, if it is external, lies in no file that is going to be written; an
 * error when it does. */
bool tw_onnx_check_written(tw_onnx *im, const Onnx__TensorProto *tensor);
/* Bytes of external data; NULL with an error at the builder's location. */
const unsigned char *tw_onnx_external(tw_onnx *im, const Onnx__TensorProto *tensor, size_t size);

/* ---- What handlers use ---- */

/* Adds an error at the node; false. */
#define tw_onnx_error(n, ...) (tw_gb_error((n)->g, __VA_ARGS__) != NULL)

/* Input i, or NULL when it is left out. */
static inline tw_value *tw_onnx_in(const tw_onnx_node *n, unsigned i)
{
    return i < n->n_in ? n->in[i] : NULL;
}
/* Whether output i is wanted. */
static inline bool tw_onnx_wants(const tw_onnx_node *n, unsigned i)
{
    return i < n->n_out && n->proto->output[i][0];
}
/* Sets output i; false when the value is NULL. */
static inline bool tw_onnx_set(tw_onnx_node *n, unsigned i, tw_value *value)
{
    if (i < n->n_out)
        n->out[i] = value;
    return value != NULL;
}
/* Refuses outputs beyond the first `n_out`. */
bool tw_onnx_max_outputs(tw_onnx_node *n, unsigned n_out);

/* The attribute, references to a function's attributes resolved; NULL when absent. */
const Onnx__AttributeProto *tw_onnx_attr(const tw_onnx_node *n, const char *name);
/* Attributes with a default for absent ones; one of another type is an error and sets *ok false. */
int64_t tw_onnx_int(tw_onnx_node *n, const char *name, int64_t absent, bool *ok);
double tw_onnx_float(tw_onnx_node *n, const char *name, double absent, bool *ok);
const char *tw_onnx_string(tw_onnx_node *n, const char *name, const char *absent, bool *ok);
/* NULL and *count = 0 when absent. */
const int64_t *tw_onnx_int_list(tw_onnx_node *n, const char *name, size_t *count, bool *ok);
const float *tw_onnx_float_list(tw_onnx_node *n, const char *name, size_t *count, bool *ok);

/* An axis attribute or value in 0..rank-1; negative ones count from the end. */
bool tw_onnx_axis(tw_onnx_node *n, int64_t axis, unsigned rank, unsigned *out);
/* A set of axes as bits; repeated ones are errors. */
bool tw_onnx_axes(tw_onnx_node *n, const int64_t *axes, size_t count, unsigned rank, uint32_t *out);
/* Axes from input `i` or, when the operator set is older than `since`, from the attribute "axes".
 * *given tells whether there were any. */
bool tw_onnx_axes_operand(tw_onnx_node *n, unsigned i, int64_t since, unsigned rank, uint32_t *out,
                          bool *given);

/* Whether input i is of integers, or left out; an error when not. */
bool tw_onnx_check_integers(tw_onnx_node *n, unsigned i);
/* Input i's elements, which must be known: numbers, or sizes that may be symbolic. NULL with an
 * error that names the input. */
const int64_t *tw_onnx_known_ints(tw_onnx_node *n, unsigned i, size_t *count);
const tw_expr *tw_onnx_known_exprs(tw_onnx_node *n, unsigned i, size_t *count);
const double *tw_onnx_known_reals(tw_onnx_node *n, unsigned i, size_t *count);

/* ---- Sizes that the model computes (sizes.c) ---- */

/* The sizes that the elements of an i64 vector (not negative) are: what is known of an element; or
 * else hints[i] (hints and each hint may be NULL), which is checked when the model runs; or else a
 * new symbol, which the element defines. NULL with an error. */
const tw_expr *tw_onnx_bind_sizes(tw_onnx_node *n, tw_value *v, const tw_expr *hints,
                                  const char *what);
/* A constant of strings, of rank 0 (one string) or 1. */
tw_value *tw_onnx_text_constant(tw_onnx_node *n, const ProtobufCBinaryData *items, size_t count,
                                unsigned rank);
/* The handler of a node which moves the elements of the inputs in `list` about, and the same for
 * strings: it gets their places (i64), and the strings are fetched from the places that its result
 * has. Place 0 is that of `filler`, or of an empty string where there is none. */
bool tw_onnx_move_text(tw_onnx_node *n, const unsigned *list, unsigned count, tw_value *filler,
                       tw_onnx_handler handler);
/* Casts of strings to numbers, and of numbers to strings. */
tw_value *tw_onnx_cast_text(tw_onnx_node *n, tw_value *x, tw_elem elem);
/* Equal of strings. */
tw_value *tw_onnx_equal_text(tw_onnx_node *n);
/* A size that a routine will decide. */
tw_expr tw_onnx_new_size(tw_onnx_node *n);
/* What a routine of the runtime makes of the operands. A new size is defined by the first of the
 * results' sizes that is it; others are checked. False with an error; out: the results. */
typedef struct tw_onnx_result {
    tw_elem elem;
    unsigned rank;
    tw_expr dims[TW_MAX_RANK];
} tw_onnx_result;
bool tw_onnx_routine(tw_onnx_node *n, const char *name, tw_value *const *operands,
                     unsigned n_operands, const int64_t *params, size_t n_params,
                     const tw_onnx_result *results, unsigned n_results, tw_value **out);
/* Likewise of a scalar. */
tw_expr tw_onnx_bind_size(tw_onnx_node *n, tw_value *v, tw_expr hint, const char *what);
/* Input i as one of that shape, NULL entries being any size: sizes that are not known to be so are
 * checked when the model runs. *out: the input with these sizes, or NULL when it is left out. False
 * with an error. */
bool tw_onnx_sized(tw_onnx_node *n, unsigned i, unsigned rank, const tw_expr *dims, tw_value **out);
/* The sizes that the model declares for output `out` as numbers; NULL for others. */
void tw_onnx_declared_dims(tw_onnx_node *n, unsigned out, unsigned rank, tw_expr *dims);
/* The number of dimensions that the model declares output `out` to have; UINT_MAX: none. */
unsigned tw_onnx_declared_rank(tw_onnx_node *n, unsigned out);
/* Whether all elements of input i are known, or the input is left out. */
bool tw_onnx_is_known(tw_onnx_node *n, unsigned i);
/* Input i as a vector of i64, of any length; one whose length *count must be fixed; one of `count`
 * elements, which running checks if it must; as a scalar. */
tw_value *tw_onnx_index_list(tw_onnx_node *n, unsigned i);
tw_value *tw_onnx_index_vector(tw_onnx_node *n, unsigned i, size_t *count);
tw_value *tw_onnx_index_exactly(tw_onnx_node *n, unsigned i, tw_expr count);
tw_value *tw_onnx_index_scalar(tw_onnx_node *n, unsigned i);
/* An i64 scalar. */
tw_value *tw_onnx_number(tw_gb *g, int64_t value);
/* Element i of a vector, as a scalar; a vector of scalars. */
tw_value *tw_onnx_item(tw_gb *g, tw_value *v, size_t i);
tw_value *tw_onnx_join(tw_gb *g, tw_value *const *items, size_t n);
/* The sizes of x as an i64 vector; one as a scalar. */
tw_value *tw_onnx_sizes_of(tw_gb *g, tw_value *x);
tw_value *tw_onnx_size_of(tw_gb *g, tw_value *x, unsigned axis);
/* A size, not negative, as an i64 scalar. */
tw_value *tw_onnx_size_value(tw_gb *g, tw_expr size);
/* A vector for all axes from one for some: values[i] at axes[i], elsewhere `absent`. */
tw_value *tw_onnx_spread(tw_gb *g, tw_value *axes, tw_value *values, unsigned rank, int64_t absent);
/* The n elements of `values` where the mask (bool) holds, in order. */
tw_value *tw_onnx_gather_kept(tw_gb *g, tw_value *keep, tw_value *values, unsigned n);

/* Operators with inputs that are known only when the model runs (slice_runtime.c and others). */
bool tw_onnx_slice_runtime(tw_onnx_node *n);
/* Pads axis `axis` by index arithmetic: `begin` is a scalar, `size` the result's. */
tw_value *tw_onnx_pad_axis(tw_gb *g, tw_value *x, unsigned axis, tw_value *begin, tw_expr size,
                           const char *mode, tw_value *value);
bool tw_onnx_pad_runtime(tw_onnx_node *n, const char *mode, tw_value *value);
bool tw_onnx_reshape_runtime(tw_onnx_node *n, bool allowzero);
bool tw_onnx_expand_runtime(tw_onnx_node *n);
bool tw_onnx_squeeze_runtime(tw_onnx_node *n);
bool tw_onnx_unsqueeze_runtime(tw_onnx_node *n);
bool tw_onnx_col2im_runtime(tw_onnx_node *n);
/* For each axis of x whether it is among the `*count` axes (an i64 vector) of input i; running
 * checks that they are axes of x, and different ones. */
tw_value *tw_onnx_axis_mask(tw_onnx_node *n, tw_value *x, unsigned i, tw_expr *count);
/* x with each axis cut in two, of which the second is whole where the mask holds and the first
 * elsewhere; `hints` of the first ones may be NULL. */
tw_value *tw_onnx_cut_axes(tw_onnx_node *n, tw_value *x, tw_value *mask, const tw_expr *hints);
/* Indices of the elements of a vector that are not zero, and their number, bound. */
tw_value *tw_onnx_nonzero(tw_onnx_node *n, tw_value *v, tw_expr hint);
/* Number of elements of a range of given ends and step, as a value. */
tw_expr tw_onnx_range_size(tw_onnx_node *n, tw_value *const *scalars);

/* Windows of convolutions and pools: one entry for each spatial axis. */
typedef struct tw_onnx_window {
    unsigned n; /* spatial axes */
    tw_expr kernel[TW_MAX_RANK];
    int64_t strides[TW_MAX_RANK], dilations[TW_MAX_RANK];
    tw_expr begin[TW_MAX_RANK], end[TW_MAX_RANK]; /* padding */
    bool same, lower;                             /* auto_pad: SAME_UPPER or SAME_LOWER */
} tw_onnx_window;

/* Attributes strides, dilations, pads, auto_pad for `spatial` axes; kernel is the caller's. */
bool tw_onnx_read_window(tw_onnx_node *n, unsigned spatial, tw_onnx_window *w);
/* The window's kernel from the attribute kernel_shape. */
bool tw_onnx_read_kernel(tw_onnx_node *n, tw_onnx_window *w);
/* Where input 0 has the maximum of each window of MaxPool: positions in the whole tensor, of shape
 * `dims`. */
tw_value *tw_onnx_pool_indices(tw_onnx_node *n, const tw_onnx_window *w, const tw_expr *dims);
/* dilation * (kernel - 1) + 1 */
tw_expr tw_onnx_window_extent(tw_onnx_node *n, const tw_onnx_window *w, unsigned i);
/* Sizes of the result along the spatial axes of x; fills in the padding of SAME and, for ceil_mode,
 * enlarges the one at the end to what the last window needs. False with an error. */
bool tw_onnx_window_sizes(tw_onnx_node *n, tw_onnx_window *w, const tw_expr *sizes, bool ceil_mode,
                          tw_expr *out);
/* Their graph attributes: strides, dilations, pads_begin, pads_end; n_attrs in all. */
enum { TW_ONNX_WINDOW_ATTRS = 4 };
void tw_onnx_window_attrs(tw_onnx_node *n, const tw_onnx_window *w, tw_named_attr *attrs);

/* ---- Pieces that several operators share ---- */

/* NumPy's matmul: vectors become matrices and lose the axis again. */
tw_value *tw_onnx_matmul(tw_gb *g, tw_value *a, tw_value *b);
/* The same of integers less their zero points, which were the given bytes. */
tw_value *tw_onnx_integer_matmul(tw_gb *g, tw_value *a, tw_value *a_bytes, tw_value *b,
                                 tw_value *b_bytes);
/* The convolution that the node's attributes describe. */
tw_value *tw_onnx_conv(tw_onnx_node *n, tw_value *x, tw_value *weights);
/* Adds a vector of one number for each channel (axis 1); `bias` may be NULL. */
tw_value *tw_onnx_add_bias(tw_onnx_node *n, tw_value *y, tw_value *bias);

/* x with its last axis as axis 1 (channels of NHWC as those of NCHW), or (inwards false) back;
 * below rank 3 x itself. */
tw_value *tw_onnx_move_channels(tw_gb *g, tw_value *x, bool inwards);

/* An activation function that an attribute names; upper and lower case are the same. */
typedef struct tw_onnx_activation {
    char name[24];
    double alpha, beta;
} tw_onnx_activation;
/* Gives the function, by its name, the parameters that it has when the model gives none. */
void tw_onnx_activation_defaults(tw_onnx_activation *f);
tw_value *tw_onnx_activate(tw_gb *g, const tw_onnx_activation *f, tw_value *x);

/* Normalisation (kind: LAYER_NORM or RMS_NORM) over the axes from `axis` on; scale and bias
 * broadcast, and may be NULL. */
tw_value *tw_onnx_last_axes_norm(tw_onnx_node *n, tw_graph_kind kind, tw_value *x, tw_value *scale,
                                 tw_value *bias, unsigned axis, double epsilon);
/* What training takes from it: the mean (of LAYER_NORM), if output `mean` is wanted, and 1 /
 * deviation, if output `inverse` is. */
bool tw_onnx_norm_statistics(tw_onnx_node *n, tw_graph_kind kind, tw_value *x, unsigned axis,
                             double epsilon, unsigned mean, unsigned inverse);

/* Quantisation; all in f32 and, inside products, i32. */

/* round(x) + zero point, clamped, as the integer type; x is floating-point, zero NULL or of any
 * type. */
tw_value *tw_onnx_to_integer(tw_gb *g, tw_value *x, tw_value *zero, tw_elem elem);
/* x as u8, with the scale and zero point by which its range, widened to hold 0, becomes 0..255. */
tw_value *tw_onnx_dynamic_quantize(tw_gb *g, tw_value *x, tw_value **scale, tw_value **zero);
/* x as i32, less the zero point: NULL, a number, or one for each index of the axis. */
tw_value *tw_onnx_less_zero_point(tw_gb *g, tw_value *x, tw_value *zero, unsigned axis);
/* a * b as computed by integers: b's have a scale and a zero point (NULL: 0), one number or one for
 * each column; a is quantised by its own range. */
tw_value *tw_onnx_dynamic_matmul(tw_gb *g, tw_value *a, tw_value *b, tw_value *scale,
                                 tw_value *zero);

/* Whether input i has one of the element types (bits 1 << tw_elem); an error when not. */
bool tw_onnx_check_elem(tw_onnx_node *n, unsigned i, uint32_t allowed);
enum {
    TW_ONNX_FLOATS = 1 << TW_F64 | 1 << TW_F32 | 1 << TW_F16 | 1 << TW_BF16,
    TW_ONNX_SIGNED = 1 << TW_I64 | 1 << TW_I32 | 1 << TW_I16 | 1 << TW_I8,
    TW_ONNX_UNSIGNED = 1 << TW_U64 | 1 << TW_U32 | 1 << TW_U16 | 1 << TW_U8,
    TW_ONNX_INTS = TW_ONNX_SIGNED | TW_ONNX_UNSIGNED,
    TW_ONNX_INDICES = 1 << TW_I64 | 1 << TW_I32,
    TW_ONNX_NUMBERS = TW_ONNX_FLOATS | TW_ONNX_INTS,
};

#endif
