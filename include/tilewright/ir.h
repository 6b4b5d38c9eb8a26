/* ir.h: the IR framework. Every level of IR is a dialect of this one structure.
 *
 * An operation has operands, results, attributes, regions and a location. A region is one list of
 * operations with arguments; control flow is structured, so a value dominates all that comes after
 * it in its region and in regions nested there. Types, attributes and expressions are immutable,
 * unique in their context and compared by pointer.
 *
 * All memory belongs to the context. When memory runs out, control goes to the handler of the
 * context (tw_context_guard); creating functions therefore never return NULL.
 * A context and its IR are used by one thread at a time; reading is free for all threads while
 * nobody writes. */
#ifndef TILEWRIGHT_IR_H
#define TILEWRIGHT_IR_H

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tilewright/diag.h"
#include "tilewright/elem.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef struct tw_arena tw_arena;
typedef const struct tw_type_s *tw_type;
typedef const struct tw_attr_s *tw_attr;
typedef const struct tw_expr_s *tw_expr;
typedef struct tw_op tw_op;
typedef struct tw_region tw_region;
typedef struct tw_value tw_value;
typedef struct tw_use tw_use;
typedef struct tw_op_def tw_op_def;
typedef struct tw_dialect tw_dialect;

/* ---- Context ------------------------------------------------------------------------------- */

/* A context without dialects but `builtin` types. `memory_limit` in bytes, 0: none. NULL when
 * memory cannot be had. */
tw_context *tw_context_create(size_t memory_limit);
void tw_context_destroy(tw_context *ctx);

/* Where exhaustion of memory jumps to (value 1); returns the earlier handler. */
jmp_buf *tw_context_guard(tw_context *ctx, jmp_buf *handler);
/* Calls work(data), then always(data), even when memory runs out in the work; exhaustion then goes
 * on to the handler outside. For what has to be closed or given back. Returns work's result. */
bool tw_context_finally(tw_context *ctx, bool (*work)(void *data), void (*always)(void *data),
                        void *data);

tw_arena *tw_context_arena(tw_context *ctx);
/* Zeroed bytes that live as long as the context. */
void *tw_context_alloc(tw_context *ctx, size_t size);
/* Runs `release(data)` when the context is destroyed, latest first (mapped files, LLVM objects). */
void tw_context_on_destroy(tw_context *ctx, void (*release)(void *data), void *data);
/* The one copy of a string in the context: equal strings have equal pointers. */
const char *tw_intern(tw_context *ctx, const char *text, size_t len);

tw_loc tw_loc_file(tw_context *ctx, const char *file, unsigned line, unsigned column);
tw_loc tw_loc_node(tw_context *ctx, const char *file, const char *node);

/* ---- Expressions: symbolic sizes and affine index arithmetic ----------------------------------
 */

/* Integer expressions over constants, dimensions (d0, d1 …: operands of the operation that holds
 * the expression) and named symbols (a tensor's symbolic sizes). Built in canonical form: constants
 * fold, sums are ordered, like terms join. Arithmetic that overflows 64 bits gives the invalid
 * expression, which absorbs everything and which verifiers refuse. */
typedef enum tw_expr_kind {
    TW_EXPR_CONST,
    TW_EXPR_DIM,
    TW_EXPR_SYM,
    TW_EXPR_ADD,
    TW_EXPR_MUL,
    TW_EXPR_FLOORDIV,
    TW_EXPR_CEILDIV,
    TW_EXPR_MOD, /* sign of the divisor */
    TW_EXPR_MIN,
    TW_EXPR_MAX,
    TW_EXPR_INVALID,
} tw_expr_kind;

struct tw_expr_s {
    tw_expr_kind kind;
    int64_t value;      /* CONST: the value; DIM: the index */
    const char *symbol; /* SYM: interned name */
    tw_expr lhs, rhs;   /* the others; in a sum or product a constant stands on the right */
    uint64_t hash;
};

tw_expr tw_expr_const(tw_context *ctx, int64_t value);
tw_expr tw_expr_dim(tw_context *ctx, unsigned index);
tw_expr tw_expr_sym(tw_context *ctx, const char *name);
tw_expr tw_expr_invalid(tw_context *ctx);
/* Any binary kind; a division or modulo by a constant not above 0 is invalid. */
tw_expr tw_expr_binary(tw_context *ctx, tw_expr_kind kind, tw_expr lhs, tw_expr rhs);
tw_expr tw_expr_add(tw_context *ctx, tw_expr a, tw_expr b);
tw_expr tw_expr_sub(tw_context *ctx, tw_expr a, tw_expr b);
tw_expr tw_expr_mul(tw_context *ctx, tw_expr a, tw_expr b);
tw_expr tw_expr_addc(tw_context *ctx, tw_expr a, int64_t b);
tw_expr tw_expr_mulc(tw_context *ctx, tw_expr a, int64_t b);

static inline bool tw_expr_is_const(tw_expr e)
{
    return e->kind == TW_EXPR_CONST;
}
/* True and *out when the expression is a constant. */
bool tw_expr_as_const(tw_expr e, int64_t *out);

/* Replaces dimension i by dims[i] (NULL entries and i >= n stay). */
tw_expr tw_expr_substitute(tw_context *ctx, tw_expr e, const tw_expr *dims, size_t n);
/* Replaces symbols: `lookup` gives the replacement or NULL to keep. */
tw_expr tw_expr_bind_symbols(tw_context *ctx, tw_expr e,
                             tw_expr (*lookup)(void *data, const char *symbol), void *data);
/* Value with the given dimensions and symbols; false when one is missing or it overflows. */
bool tw_expr_eval(tw_expr e, const int64_t *dims, size_t n_dims,
                  bool (*symbol)(void *data, const char *name, int64_t *out), void *data,
                  int64_t *out);
/* The largest dimension index plus one; 0 when none occurs. */
unsigned tw_expr_dim_count(tw_expr e);
bool tw_expr_uses_dim(tw_expr e, unsigned index);

/* Inclusive bounds of a dimension. Unknown ends are INT64_MIN / INT64_MAX. There being a value in
 * range counts as known: a dimension in 0..n - 1 says that n is at least 1. */
typedef struct tw_range {
    int64_t lo, hi;
    tw_expr top; /* another upper bound, over symbols; or NULL */
} tw_range;
/* Conservative bounds of the expression, symbols being at least 0; numbers only (`top` is not made
 * use of, and NULL in the result). */
tw_range tw_expr_range(tw_expr e, const tw_range *dims, size_t n);
/* Whether the expression is at least that number, for all dimensions in range and all symbols, as
 * far as can be shown. Unlike tw_expr_range this knows that n - 1 - d0 >= 0 for d0 in 0..n - 1. */
bool tw_expr_at_least(tw_context *ctx, tw_expr e, int64_t least, const tw_range *dims, size_t n);
/* An upper bound of the expression over symbols alone, or NULL. */
tw_expr tw_expr_top(tw_context *ctx, tw_expr e, const tw_range *dims, size_t n);
/* Simplifies with the bounds of the dimensions: (d0*16 + d1) floordiv 16 -> d0 for d1 in 0..15,
 * (d0*n + d1) floordiv n -> d0 for d1 in 0..n - 1, and likewise mod, min, max, nested divisions.
 * Value is equal for all dimensions in range. */
tw_expr tw_expr_simplify(tw_context *ctx, tw_expr e, const tw_range *dims, size_t n);
/* Splits e = constant + sum of coefficient[i] * d(i); false when e is not linear in 0..n-1
 * (symbols, divisions by non-dividing constants …). `coefficients` has n entries. */
bool tw_expr_linear(tw_expr e, int64_t *coefficients, size_t n, int64_t *constant);

/* ---- Types ------------------------------------------------------------------------------------
 */

const char *tw_elem_name(tw_elem e); /* "f32", "i64", "bool" … */
bool tw_elem_parse(const char *text, size_t len, tw_elem *out);
unsigned tw_elem_bits(tw_elem e); /* storage: bool 8, index and string 64 */
bool tw_elem_is_float(tw_elem e);
bool tw_elem_is_int(tw_elem e); /* i4…i64, u4…u64, index; not bool */
bool tw_elem_is_signed(tw_elem e);

typedef enum tw_type_kind {
    TW_TYPE_SCALAR,  /* f32 */
    TW_TYPE_TENSOR,  /* tensor<2x?batch x f32>: a value, immutable */
    TW_TYPE_BUFFER,  /* buffer<2x3xf32, "local">: memory; row-major */
    TW_TYPE_VECTOR,  /* vec<8xf32> */
    TW_TYPE_FUNC,    /* (a, b) -> (c) */
    TW_TYPE_DIALECT, /* !dialect.name<parameters> */
} tw_type_kind;

enum { TW_MAX_RANK = 16 }; /* a larger rank is refused with a diagnostic */

struct tw_type_s {
    tw_type_kind kind;
    tw_elem elem;        /* SCALAR, TENSOR, BUFFER, VECTOR */
    unsigned rank;       /* TENSOR, BUFFER; VECTOR has 1 */
    const tw_expr *dims; /* TENSOR, BUFFER, VECTOR: constants or expressions over symbols */
    tw_attr layout;      /* TENSOR: see tw_layout_kind; NULL says nothing */
    const char *scope;   /* BUFFER: "" global, "local" registers or stack, "shared" … */
    const char *name;    /* DIALECT: "dialect.name" */
    tw_attr params;      /* DIALECT: array attribute or NULL */
    const tw_type *inputs, *results; /* FUNC */
    unsigned n_inputs, n_results;
    uint64_t hash;
};

/* What a tensor's axes are; its sizes are in memory order. The words stand for any number of axes
 * of space. A layout is an attribute, unique as all are: equal ones have equal pointers. */
typedef enum tw_layout_kind {
    TW_LAYOUT_PLAIN,   /* NULL: batch, channels, space to operations that ask; else anything */
    TW_LAYOUT_NHWC,    /* tensor<1x56x56x64xf32, NHWC>: batch, space, channels */
    TW_LAYOUT_NCHWC,   /* tensor<1x4x56x56x16xf32, NCHW16c>: batch, blocks of channels, space, the
                          channels of a block */
    TW_LAYOUT_UNKNOWN, /* another attribute, which verifiers refuse */
} tw_layout_kind;

tw_attr tw_layout_nhwc(tw_context *ctx);
tw_attr tw_layout_nchwc(tw_context *ctx, int64_t block); /* block >= 1 */
/* *block: channels of a block; 1 for the other kinds. */
tw_layout_kind tw_layout_read(tw_attr layout, int64_t *block);

tw_type tw_type_scalar(tw_context *ctx, tw_elem elem);
tw_type tw_type_tensor(tw_context *ctx, tw_elem elem, unsigned rank, const tw_expr *dims,
                       tw_attr layout);
/* The tensor type with another layout, or none. */
tw_type tw_type_with_layout(tw_context *ctx, tw_type type, tw_attr layout);
/* A tensor of constant sizes, all >= 0. */
tw_type tw_type_tensor_static(tw_context *ctx, tw_elem elem, unsigned rank, const int64_t *dims);
tw_type tw_type_buffer(tw_context *ctx, tw_elem elem, unsigned rank, const tw_expr *dims,
                       const char *scope);
tw_type tw_type_vector(tw_context *ctx, tw_elem elem, int64_t lanes);
tw_type tw_type_func(tw_context *ctx, const tw_type *inputs, unsigned n_inputs,
                     const tw_type *results, unsigned n_results);
tw_type tw_type_dialect(tw_context *ctx, const char *name, tw_attr params);

/* True when all dimensions are constants; then *count (may be NULL) is the number of elements,
 * or false when that overflows. */
bool tw_type_is_static(tw_type type);
bool tw_type_static_count(tw_type type, int64_t *count);
/* Constant dimension i; the caller knows that it is one. */
int64_t tw_type_dim(tw_type type, unsigned i);

/* ---- Attributes ---------------------------------------------------------------------------------
 */

typedef enum tw_attr_kind {
    TW_ATTR_UNIT,   /* present, no value */
    TW_ATTR_BOOL,   /* true */
    TW_ATTR_INT,    /* 3 : 64-bit */
    TW_ATTR_FLOAT,  /* 1.5, nan, inf: double, printed so that it reads back equal */
    TW_ATTR_STRING, /* "text" with escapes; any bytes */
    TW_ATTR_SYMBOL, /* @name, @"any name" */
    TW_ATTR_TYPE,
    TW_ATTR_ARRAY, /* [a, b] */
    TW_ATTR_DICT,  /* {a = 1, b = 2}: sorted by name */
    TW_ATTR_DENSE, /* constant tensor: dense<…> : tensor<…> */
    TW_ATTR_MAP,   /* (d0, d1) -> (d0 + 1, d1): expressions over n dimensions */
    TW_ATTR_ANY,   /* in tw_attr_spec only: any kind */
} tw_attr_kind;

typedef struct tw_named_attr {
    const char *name; /* interned */
    tw_attr value;
} tw_named_attr;

struct tw_attr_s {
    tw_attr_kind kind;
    uint64_t hash;
    union {
        int64_t integer; /* BOOL, INT */
        double real;     /* FLOAT */
        struct {
            const char *text;
            size_t len;
        } string;     /* STRING, SYMBOL */
        tw_type type; /* TYPE */
        struct {
            const tw_attr *items;
            size_t n;
        } array;
        struct {
            const tw_named_attr *items;
            size_t n;
        } dict;
        /* DENSE: row-major little-endian bytes, 4-bit elements packed low first. Never copied: the
         * creator keeps `data` alive as long as the context. Unique by (type, data pointer).
         * Strings: an array of char pointers. */
        struct {
            tw_type type;
            const void *data;
            size_t size;
        } dense;
        struct {
            unsigned n_dims;
            const tw_expr *exprs;
            size_t n;
        } map;
    } u;
};

tw_attr tw_attr_unit(tw_context *ctx);
tw_attr tw_attr_bool(tw_context *ctx, bool value);
tw_attr tw_attr_int(tw_context *ctx, int64_t value);
tw_attr tw_attr_float(tw_context *ctx, double value);
tw_attr tw_attr_string(tw_context *ctx, const char *text);
tw_attr tw_attr_string_n(tw_context *ctx, const char *text, size_t len);
tw_attr tw_attr_symbol(tw_context *ctx, const char *name);
tw_attr tw_attr_type(tw_context *ctx, tw_type type);
tw_attr tw_attr_array(tw_context *ctx, const tw_attr *items, size_t n);
tw_attr tw_attr_ints(tw_context *ctx, const int64_t *values, size_t n); /* ARRAY of INT */
tw_attr tw_attr_dict(tw_context *ctx, const tw_named_attr *items, size_t n);
tw_attr tw_attr_dense(tw_context *ctx, tw_type tensor_type, const void *data, size_t size);
tw_attr tw_attr_map(tw_context *ctx, unsigned n_dims, const tw_expr *exprs, size_t n);

/* ---- Operations
 * ----------------------------------------------------------------------------------- */

typedef enum tw_trait {
    TW_TRAIT_NONE = 0,
    TW_TRAIT_PURE = 1 << 0,        /* no effect: may be removed, merged, moved */
    TW_TRAIT_COMMUTATIVE = 1 << 1, /* in its first two operands */
    TW_TRAIT_TERMINATOR = 1 << 2,  /* ends its region */
    TW_TRAIT_SAME_TYPE = 1 << 3,   /* operands and results all have one type */
    TW_TRAIT_SYMBOL = 1 << 4,      /* has a `sym_name` attribute, unique in the parent's region */
    TW_TRAIT_ISOLATED = 1 << 5,    /* its regions use no values from outside */
    TW_TRAIT_ELEMENTWISE = 1 << 6, /* computes each element alone, after broadcasting */
} tw_trait;

/* How the fuser sees a graph operation (architecture: four classes, two of them refined). */
typedef enum tw_fusion_class {
    TW_FUSE_OPAQUE,      /* takes no part */
    TW_FUSE_ELEMENTWISE, /* injective: same index */
    TW_FUSE_BROADCAST,   /* injective: index with axes dropped */
    TW_FUSE_INJECTIVE,   /* injective: any index map */
    TW_FUSE_REDUCTION,   /* several inputs elements to one; root of its group */
    TW_FUSE_COMPLEX,     /* convolution, matrix product: with epilogue only */
} tw_fusion_class;

/* What an attribute must be. */
typedef struct tw_attr_spec {
    const char *name; /* NULL ends the list */
    tw_attr_kind kind;
    bool required;
    const char *summary;
} tw_attr_spec;

typedef struct tw_printer tw_printer;
typedef struct tw_parser tw_parser;

/* One operation of a dialect; static, immutable. */
struct tw_op_def {
    const char *name; /* "graph.matmul" */
    const char *summary;
    int n_operands; /* exact number, or -1 - minimum for "at least" */
    int n_results;  /* likewise */
    int n_regions;  /* likewise */
    uint32_t traits;
    tw_fusion_class fusion;
    const tw_attr_spec *attrs;                        /* NULL: any attributes */
    bool (*verify)(tw_context *ctx, const tw_op *op); /* beyond the table; NULL: nothing more */
    /* Custom syntax after the operation's name; NULL: the generic form. `print` is called for IR
     * that agrees with the table above; it returns false, before it prints a region, for what its
     * syntax cannot say, and then the generic form is used. */
    bool (*print)(tw_printer *p, const tw_op *op);
    bool (*parse)(tw_parser *p, const tw_op_def *def, tw_op **out);
    int kind; /* the dialect's own enum value, for switch */
};

struct tw_use {
    tw_op *user;
    unsigned index; /* operand number in user */
    tw_value *value;
    tw_use *prev, *next; /* the other uses of the value */
};

struct tw_value {
    tw_type type;
    tw_use *uses;      /* first use, in no particular order */
    tw_op *op;         /* the operation it is a result of, or NULL for a region argument */
    tw_region *region; /* the region it is an argument of, or NULL */
    unsigned index;    /* result or argument number */
    const char *name;  /* hint for printing (without %), interned, or NULL */
};

struct tw_region {
    tw_op *parent;
    unsigned index; /* among the parent's regions */
    tw_op *first, *last;
    tw_value **args;
    unsigned n_args;
};

struct tw_op {
    const tw_op_def *def;
    tw_loc loc;
    tw_region *region; /* that it stands in, or NULL */
    tw_op *prev, *next;
    unsigned n_operands, n_results, n_regions, n_attrs;
    tw_use *operands;
    tw_value *results;
    tw_region *regions;
    tw_named_attr *attrs; /* sorted by name */
    uint64_t order;       /* private: position in its region */
};

/* Creates an operation that stands nowhere yet. `attrs` in any order; regions are empty. */
tw_op *tw_op_create(tw_context *ctx, const tw_op_def *def, tw_loc loc, tw_value *const *operands,
                    unsigned n_operands, const tw_type *result_types, unsigned n_results,
                    const tw_named_attr *attrs, unsigned n_attrs, unsigned n_regions);

static inline tw_value *tw_operand(const tw_op *op, unsigned i)
{
    return op->operands[i].value;
}
static inline tw_value *tw_result(tw_op *op, unsigned i)
{
    return &op->results[i];
}
tw_context *tw_op_context(const tw_op *op);

/* Attributes by name; NULL when absent. Setting NULL removes. */
tw_attr tw_op_attr(const tw_op *op, const char *name);
void tw_op_set_attr(tw_op *op, const char *name, tw_attr value);
/* Typed access with a default for absent ones; the verifier has checked the kind. */
int64_t tw_op_int(const tw_op *op, const char *name, int64_t absent);
double tw_op_float(const tw_op *op, const char *name, double absent);
bool tw_op_bool(const tw_op *op, const char *name, bool absent);
const char *tw_op_string(const tw_op *op, const char *name, const char *absent); /* or symbol */
/* Copies an array of ints to out (at most `max`); the number, or -1 when absent. */
int tw_op_ints(const tw_op *op, const char *name, int64_t *out, int max);

void tw_op_set_operand(tw_op *op, unsigned i, tw_value *value);
/* Replaces the whole operand list. */
void tw_op_set_operands(tw_op *op, tw_value *const *operands, unsigned n);
void tw_value_replace_all(tw_value *from, tw_value *to);
bool tw_value_has_one_use(const tw_value *value);
void tw_value_set_name(tw_value *value, const char *name);

tw_value *tw_region_add_arg(tw_region *region, tw_type type, const char *name);
/* Removes argument i, which has no uses. */
void tw_region_remove_arg(tw_region *region, unsigned i);

/* Placing. `before` NULL: at the end. An operation that stands somewhere is moved. */
void tw_op_insert(tw_op *op, tw_region *region, tw_op *before);
void tw_op_remove(tw_op *op); /* takes it out; operands stay */
/* Takes it out for good with all inside; its results have no uses. */
void tw_op_erase(tw_op *op);
/* Moves all operations of `from` to `to`, before `before`. */
void tw_region_splice(tw_region *to, tw_op *before, tw_region *from);

/* Both in one region: whether a stands before b. Amortised constant time. */
bool tw_op_is_before(tw_op *a, tw_op *b);
/* Whether the value may be used by the operation. */
bool tw_value_dominates(const tw_value *value, tw_op *user);
/* The closest enclosing operation of that definition, `op` itself excluded; or NULL. */
tw_op *tw_op_enclosing(const tw_op *op, const tw_op_def *def);
bool tw_op_is_ancestor(const tw_op *ancestor, const tw_op *op); /* true when equal */

/* Maps values while cloning; zero-initialise, set ctx. */
typedef struct tw_cloner tw_cloner;
tw_cloner *tw_cloner_create(tw_context *ctx);
void tw_cloner_map(tw_cloner *c, const tw_value *from, tw_value *to);
tw_value *tw_cloner_lookup(tw_cloner *c, const tw_value *from); /* `from` itself if unmapped */
/* A copy that stands nowhere; operands are mapped, results and region arguments get mapped. */
tw_op *tw_op_clone(tw_cloner *c, const tw_op *op);

/* Calls visit for op and all inside, outer first; visit may erase or replace the op it gets.
 * Stops and returns false when visit does. */
bool tw_walk(tw_op *root, bool (*visit)(tw_op *op, void *data), void *data);

/* ---- Builder
 * -------------------------------------------------------------------------------------- */

/* Where and with which location operations are made. */
typedef struct tw_builder {
    tw_context *ctx;
    tw_region *region;
    tw_op *before; /* NULL: at the end */
    tw_loc loc;
} tw_builder;

tw_builder tw_builder_at_end(tw_context *ctx, tw_region *region, tw_loc loc);
tw_builder tw_builder_before(tw_context *ctx, tw_op *op); /* with op's location */

/* Creates and inserts. Attributes follow as (const char *name, tw_attr value) pairs, closed by
 * NULL; a NULL value leaves the attribute out. The operation has no regions unless its def has a
 * fixed number, which it then gets, empty. */
tw_op *tw_build(tw_builder *b, const tw_op_def *def, tw_value *const *operands, unsigned n_operands,
                const tw_type *result_types, unsigned n_results, ...);

/* ---- Dialects
 * ---------------------------------------------------------------------------------------- */

typedef struct tw_type_def {
    const char *name; /* "dialect.name"; NULL ends the list */
    bool (*verify)(tw_context *ctx, tw_loc loc, tw_attr params);
} tw_type_def;

struct tw_dialect {
    const char *name; /* prefix of its operations */
    const char *summary;
    const tw_op_def *ops; /* n_ops entries; ops[i].kind == i */
    size_t n_ops;
    const tw_type_def *types; /* NULL: none */
};

/* Makes the dialect's operations known to the parser. False (with a diagnostic) when another
 * dialect of the name is there. */
bool tw_dialect_register(tw_context *ctx, const tw_dialect *dialect);
const tw_op_def *tw_op_def_find(const tw_context *ctx, const char *name);
size_t tw_dialect_count(const tw_context *ctx);
const tw_dialect *tw_dialect_at(const tw_context *ctx, size_t i);

/* Extension points: a function or table of another layer for an operation of any dialect, found
 * by the address of `iface` (a static object that the layer defines), for instance how graph.conv
 * lowers to loops. */
void tw_iface_set(tw_context *ctx, const tw_op_def *def, const void *iface, const void *impl);
const void *tw_iface_get(const tw_context *ctx, const tw_op_def *def, const void *iface);

/* ---- Text
 * -------------------------------------------------------------------------------------------- */

/* The IR as text, zero-terminated, in the context's memory. Names are made unique; locations are
 * printed when asked for; dense data above `elide` bytes prints as dense<elided> when elide > 0. */
typedef struct tw_print_options {
    bool locations;
    size_t elide;
} tw_print_options;
const char *tw_print(tw_context *ctx, const tw_op *op, const tw_print_options *options);
const char *tw_print_type(tw_context *ctx, tw_type type);
const char *tw_print_attr(tw_context *ctx, tw_attr attr);
/* `dim_names` for d0…, or NULL. */
const char *tw_print_expr(tw_context *ctx, tw_expr e, const char *const *dim_names);
/* On an arena of the caller's, for threads that must not touch the context. */
const char *tw_print_expr_on(tw_arena *arena, tw_expr e);

/* Parses one top-level operation (a module; a bare list of operations is wrapped in one). NULL with
 * diagnostics that carry line, column and the source line. `file` is for messages. */
tw_op *tw_parse(tw_context *ctx, const char *text, size_t len, const char *file);
tw_type tw_parse_type(tw_context *ctx, const char *text);
tw_attr tw_parse_attr(tw_context *ctx, const char *text);

/* For custom syntax. Printing: */
enum { TW_MAX_EXPR_DIMS = 64 }; /* different values in an operation's index expressions */
void tw_p_text(tw_printer *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
void tw_p_value(tw_printer *p, const tw_value *value);                          /* %name */
void tw_p_operands(tw_printer *p, const tw_op *op, unsigned first, unsigned n); /* %a, %b */
void tw_p_type(tw_printer *p, tw_type type);
void tw_p_attr(tw_printer *p, tw_attr attr);
/* An expression whose dimension i prints as values[i]. */
void tw_p_expr(tw_printer *p, tw_expr e, tw_value *const *values);
/* Brings maps over the operands first to first + n - 1 (NULL: no map) into the form that the parser
 * makes of their text, which has them in this order: over `values` (room for TW_MAX_EXPR_DIMS), the
 * operands that are used, each once, in the order in which they appear. False when there is no such
 * form; then only the generic one can say it. */
bool tw_p_maps(tw_printer *p, const tw_op *op, unsigned first, unsigned n, tw_attr *maps,
               size_t n_maps, tw_value **values);
/* ` {a = 1}` of the attributes not in `skip` (NULL-terminated); nothing when none is left. */
void tw_p_attrs(tw_printer *p, const tw_op *op, const char *const *skip);
/* ` attributes {a = 1}` likewise, for operations where `{` begins a region. */
void tw_p_attributes(tw_printer *p, const tw_op *op, const char *const *skip);
/* ` {a = 1} : type, type`, the usual end of an operation: tw_p_attrs and the results' types. */
void tw_p_tail(tw_printer *p, const tw_op *op, const char *const *skip);
/* What follows the name in the generic form, for hooks that serve several operations. */
void tw_p_generic(tw_printer *p, const tw_op *op);
/* `{` newline, indented operations, `}`; arguments are the custom syntax's business. */
void tw_p_region(tw_printer *p, const tw_region *region);
/* Two regions in one pair of braces: `word { … }` with the operations of `inner`, unless it is
 * empty, before those of `region`. */
void tw_p_double_region(tw_printer *p, const char *word, const tw_region *inner,
                        const tw_region *region);
/* `(%a: type, %b: type)` of a region. */
void tw_p_arguments(tw_printer *p, const tw_region *region);
/* @name, in quotes where it must be. */
void tw_p_symbol(tw_printer *p, const char *name);
void tw_p_string(tw_printer *p, const char *text); /* "text" with escapes */

/* Parsing; each returns false with a diagnostic at the place, the first one only. Results are
 * interned or in the context's memory. */
tw_context *tw_q_context(tw_parser *p);
tw_loc tw_q_loc(tw_parser *p); /* of the next token */
bool tw_q_error(tw_parser *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Whether the next token is this; `try` consumes it then, without a diagnostic otherwise. */
bool tw_q_peek(tw_parser *p, const char *punctuation_or_keyword);
bool tw_q_try(tw_parser *p, const char *punctuation_or_keyword);
bool tw_q_expect(tw_parser *p, const char *punctuation_or_keyword);
bool tw_q_int(tw_parser *p, int64_t *out);
bool tw_q_string(tw_parser *p, const char **out); /* without zero bytes */
bool tw_q_symbol(tw_parser *p, const char **out); /* @name, without @ */
bool tw_q_peek_symbol(tw_parser *p);
bool tw_q_keyword(tw_parser *p, const char **out); /* an identifier */
bool tw_q_type(tw_parser *p, tw_type *out);
bool tw_q_attr(tw_parser *p, tw_attr *out);
bool tw_q_value(tw_parser *p, tw_value **out); /* %name that is defined */
/* None or more values with commas between; stops before the definition that begins with %x = . */
bool tw_q_values(tw_parser *p, tw_value ***out, unsigned *n);
/* ` {a = 1}` if there; set on the operation. */
bool tw_q_attrs(tw_parser *p, tw_op *op);
bool tw_q_attributes(tw_parser *p, tw_op *op); /* ` attributes {a = 1}` likewise */
/* Types with commas between, at least one. */
bool tw_q_types(tw_parser *p, tw_type **out, unsigned *n);
/* The usual end ` {a = 1} : type, type`, both parts if they are there; creates the operation with
 * these attributes as well and with empty regions if the definition has a fixed number. */
bool tw_q_tail(tw_parser *p, const tw_op_def *def, tw_value *const *operands, unsigned n_operands,
               const tw_named_attr *attrs, unsigned n_attrs, tw_op **out);
/* The rest of an operation in the generic form. */
bool tw_q_generic(tw_parser *p, const tw_op_def *def, tw_op **out);
/* An expression over %values: each value met is added to `values` if it is not there (at most
 * TW_MAX_EXPR_DIMS in all) and becomes the dimension of its position. */
bool tw_q_expr(tw_parser *p, tw_value **values, unsigned *n_values, tw_expr *out);
/* %name that will be an argument of a region: `hint` is for tw_region_add_arg. */
typedef struct tw_q_name {
    const char *hint; /* NULL for a number */
    uint64_t number;
    tw_loc loc;
} tw_q_name;
bool tw_q_new_name(tw_parser *p, tw_q_name *out);
/* `(%a: type, %b: type)`, all of it; whether `(%` is next. */
bool tw_q_peek_arguments(tw_parser *p);
bool tw_q_arguments(tw_parser *p, tw_q_name **names, tw_type **types, unsigned *n);
/* `{ ops }` into the region, whose arguments, added before by tw_region_add_arg, have these names
 * inside. */
bool tw_q_region(tw_parser *p, tw_region *region, const tw_q_name *names);
/* `{ word { ops } ops }`: the reverse of tw_p_double_region; the names are those of both. */
bool tw_q_double_region(tw_parser *p, const char *word, tw_region *inner, tw_region *region,
                        const tw_q_name *names);
/* The number of names to the left of `=`; the operation must have as many results. */
unsigned tw_q_result_count(tw_parser *p);

/* ---- Verifier
 * ------------------------------------------------------------------------------------------ */

/* Whether the operation agrees with its table: numbers of operands, results and regions, required
 * attributes and the kinds of all. Attributes whose names hold a dot are free to all. */
bool tw_op_fits_table(const tw_op *op);

/* Checks op and all inside: the tables (counts, attributes, traits), dominance, use lists,
 * symbols, types, and each operation's own verify. All errors are reported, up to the limit. */
bool tw_verify(tw_context *ctx, tw_op *op);

/* ---- Passes
 * -------------------------------------------------------------------------------------------- */

typedef struct tw_pass tw_pass;
/* What a pass gets: its options as parsed from `name{key=value flag}`. */
typedef struct tw_pass_run {
    tw_context *ctx;
    tw_op *root; /* an operation of the pass's anchor */
    const tw_pass *pass;
    tw_attr options;  /* DICT of strings and ints (a flag: 1); never NULL; checked by the table */
    void *user;       /* of the pipeline: the driver's compilation state, or NULL */
    uint64_t changes; /* the pass counts its rewrites here: reported and used by bisection */
    uint64_t max_changes; /* stop rewriting after that many (UINT64_MAX: no bound) */
} tw_pass_run;

struct tw_pass {
    const char *name; /* "fold-constants" */
    const char *summary;
    const char *anchor; /* name of the operation it runs on ("core.module"): run on each that is
                           not inside another; NULL: on whatever the pipeline runs on */
    bool optional;      /* results are the same without it: may be disabled */
    bool (*run)(tw_pass_run *run);
    /* Names of INT, STRING and UNIT (flag) options; NULL: takes none. */
    const tw_attr_spec *options;
};

bool tw_pass_register(tw_context *ctx, const tw_pass *pass);
const tw_pass *tw_pass_find(const tw_context *ctx, const char *name);
size_t tw_pass_count(const tw_context *ctx);
const tw_pass *tw_pass_at(const tw_context *ctx, size_t i);

/* An option of the running pass, or `absent` when it is not given. */
int64_t tw_pass_int(const tw_pass_run *run, const char *name, int64_t absent); /* flags too */
const char *tw_pass_string(const tw_pass_run *run, const char *name, const char *absent);

/* Bounds that find what makes a result wrong, and counters of what they bound; the pipelines of one
 * compilation share them. Passes that results depend on always run. */
typedef struct tw_pass_limits {
    uint64_t runs;    /* of optional passes that happen, a pass on one operation being a run */
    const char *pass; /* of this pass's changes, those of all its runs together, or NULL */
    uint64_t changes; /* so many happen */
    /* Counters, zero at first: */
    uint64_t runs_seen;    /* runs of optional passes, those that did not happen included */
    uint64_t changes_seen; /* of `pass` */
    /* The last run of an optional pass that happened or began: */
    const tw_pass *last_pass;
    const char *last_root;    /* what it ran on: "core.func @main" */
    uint64_t last_changes;    /* what it changed, */
    uint64_t earlier_changes; /* and earlier runs of this pass together */
    const char *last_rule;    /* the name of the pattern that it applied last, or NULL */
} tw_pass_limits;

typedef struct tw_pipeline_options {
    bool verify_each;        /* after every pass; the default of the tools */
    bool timing;             /* collects seconds per pass, see tw_pipeline_report */
    const char *dump_before; /* pass name, "all" or NULL */
    const char *dump_after;
    const char *const *disable; /* pass names, NULL-terminated, or NULL; unknown or mandatory ones
                                   are errors */
    tw_pass_limits *limits;     /* NULL: none */
    /* Called before and after each run of a pass; NULL: not. */
    void (*observe)(void *data, const tw_pass *pass, tw_op *root, bool after);
    void *observe_data;
    /* Where dumps go. Never NULL when a dump is asked for. */
    void (*dump)(void *data, const char *title, const char *text);
    void *dump_data;
    void *user;
} tw_pipeline_options;

/* Runs `a,b{x=1 flag},func(c,d)`: passes in order, nested ones on each operation of that name
 * (core. may be left out). Every pass takes `max-changes=N` for bisection. Nothing runs when the
 * text is wrong; otherwise stops at the first failure, with an error that names the pass. */
bool tw_run_pipeline(tw_context *ctx, tw_op *root, const char *pipeline,
                     const tw_pipeline_options *options);
/* Adds to the seconds of a stage ("import", "link"), which may consist of passes and more. `stage`
 * must live as long as the context. */
void tw_timing_add(tw_context *ctx, const char *stage, double seconds);
/* Tables, since the context was made: seconds per stage, when there are any; seconds and changes
 * per pass. */
const char *tw_pipeline_report(tw_context *ctx);

/* ---- Rewriting
 * ------------------------------------------------------------------------------------------ */

typedef struct tw_rewriter tw_rewriter;

/* Tried on operations of `root` (NULL: any). Returns true when it changed something, and then only
 * through the rewriter. */
typedef struct tw_pattern {
    const char *name;
    const tw_op_def *root;
    int benefit; /* higher first */
    bool (*apply)(tw_rewriter *rw, tw_op *op, const void *data);
    const void *data;
} tw_pattern;

tw_context *tw_rw_context(tw_rewriter *rw);
/* A builder before op; what it makes is put on the worklist. */
tw_builder *tw_rw_builder(tw_rewriter *rw, tw_op *before);
/* Replaces all results and erases. */
void tw_rw_replace(tw_rewriter *rw, tw_op *op, tw_value *const *values);
void tw_rw_erase(tw_rewriter *rw, tw_op *op); /* results have no uses */
/* After an in-place change (attributes, operands). */
void tw_rw_changed(tw_rewriter *rw, tw_op *op);

/* Applies the patterns inside root until none applies, removing dead pure operations. Ends: after
 * 64 rewrites per operation of the input the rest is left with a warning that names the pattern.
 * `max_changes` bounds the changes (applications and removals), which are added to *changes (may
 * be NULL). */
void tw_rewrite_greedily(tw_context *ctx, tw_op *root, const tw_pattern *patterns, size_t n,
                         uint64_t max_changes, uint64_t *changes);

/* Dialect conversion: what must not be left afterwards is rewritten by the patterns. */
typedef enum tw_legality { TW_LEGAL, TW_ILLEGAL, TW_LEGAL_UNKNOWN } tw_legality;
/* False, and the IR as before, when an illegal operation remains inside root; the diagnostic names
 * it. When all went well the operations inside root are new ones. */
bool tw_convert(tw_context *ctx, tw_op *root, tw_legality (*legality)(const tw_op *op, void *data),
                void *data, const tw_pattern *patterns, size_t n);

/* ---- Plugins
 * -------------------------------------------------------------------------------------------- */

enum { TW_PLUGIN_API = 1 };
/* A plugin is a shared object that exports this; it registers dialects, interfaces and passes. */
typedef bool (*tw_plugin_entry)(tw_context *ctx, int api_version);
#define TW_PLUGIN_SYMBOL "tw_plugin_register"
/* Loads and runs it; it stays loaded. False with a diagnostic. */
bool tw_plugin_load(tw_context *ctx, const char *path);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
