/* sample.h: elements of tensors at computed places; private to src/import/onnx. */
#ifndef TW_IMPORT_ONNX_SAMPLE_H
#define TW_IMPORT_ONNX_SAMPLE_H

#include "import/onnx/import.h"

enum { TW_ONNX_MAX_SPATIAL = 3 };
typedef enum { TW_ONNX_NEAREST, TW_ONNX_LINEAR, TW_ONNX_CUBIC } tw_onnx_interpolation;
/* What lies outside: zeros, the elements at the border, or the data mirrored. */
typedef enum { TW_ONNX_ZEROS, TW_ONNX_BORDER, TW_ONNX_REFLECTION } tw_onnx_outside;

typedef struct tw_onnx_sample {
    tw_gb *g;
    unsigned spatial;
    tw_onnx_interpolation mode;
    tw_onnx_outside padding;
    bool corners; /* of REFLECTION: mirrors at the centres of the border's elements */
    tw_value *sizes[TW_ONNX_MAX_SPATIAL]; /* f32 scalars; known ones are constants */
    tw_value *data; /* [batch, space, channels]; with a base [rows, channels] */
    tw_value *base; /* [batch, 1] of i64: the row where the batch entry's space begins; or NULL */
    tw_value *place[TW_ONNX_MAX_SPATIAL]; /* [batch, points] f32: coordinates, in elements */
    /* Computed from them: */
    tw_value *whole[TW_ONNX_MAX_SPATIAL];
    tw_value *weights[TW_ONNX_MAX_SPATIAL][4];
} tw_onnx_sample;

/* Arithmetic with numbers; `low` and `high` included. */
static inline tw_value *tw_onnx_plus_number(tw_gb *g, tw_value *x, double value)
{
    return value == 0 ? x : tw_gb_binary_scalar(g, TW_GRAPH_ADD, x, value);
}

static inline tw_value *tw_onnx_times_number(tw_gb *g, tw_value *x, double value)
{
    return tw_gb_binary_scalar(g, TW_GRAPH_MUL, x, value);
}

static inline tw_value *tw_onnx_hold_within(tw_gb *g, tw_value *x, double low, tw_value *high)
{
    x = tw_gb_binary_scalar(g, TW_GRAPH_MAX, x, low);
    return tw_gb_binary(g, TW_GRAPH_MIN, x, high);
}

/* The sizes of x's axes from 2 on, for s. */
void tw_onnx_sample_sizes(tw_onnx_sample *s, tw_value *x);

/* [batch, points, channels]: the weighted elements around each place, joined by ADD or MAX. */
tw_value *tw_onnx_sample_points(tw_onnx_sample *s, tw_graph_kind join);
/* Coordinates mirrored at the borders of axis i until they lie inside. */
tw_value *tw_onnx_reflect(const tw_onnx_sample *s, tw_value *x, unsigned i);

#endif
