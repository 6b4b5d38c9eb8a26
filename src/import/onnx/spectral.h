/* spectral.h: windows and Fourier transforms of sizes that the model computes. */
#ifndef TW_IMPORT_ONNX_SPECTRAL_H
#define TW_IMPORT_ONNX_SPECTRAL_H

#include "import/onnx/import.h"

/* a0 + a1 cos(turn) + a2 cos(2 turn) */
typedef struct tw_window_terms {
    double a0, a1, a2;
} tw_window_terms;

/* A window of as many points as input 0 says; f32. */
tw_value *tw_onnx_window_runtime(tw_onnx_node *n, bool periodic, tw_window_terms terms);

/* What a transform turns into what. */
typedef struct tw_transform_sizes {
    tw_expr n_in, n_out;       /* points */
    tw_value *length;          /* i64 scalar: the period */
    int64_t c_in, c_out;       /* 1: real, 2: real and imaginary part */
    bool inverse, real_result; /* real_result: from half a spectrum */
    tw_elem elem;              /* of the computation */
} tw_transform_sizes;

/* Its matrix, [n_in * c_in, n_out * c_out]. */
tw_value *tw_onnx_transform_runtime(tw_gb *g, const tw_transform_sizes *t);
/* DFT along an axis (an i64 scalar), of a length, or of data that the run decides; `t` without
 * sizes and length. */
tw_value *tw_onnx_dft_runtime(tw_onnx_node *n, tw_value *axis, bool onesided, tw_transform_sizes t);
/* Short-time transform of a signal [batch, time, parts], computed in the element type. */
tw_value *tw_onnx_stft_runtime(tw_onnx_node *n, tw_value *signal, bool onesided, int64_t parts,
                               tw_elem elem);
/* f32[bins, filters] */
tw_value *tw_onnx_mel_runtime(tw_onnx_node *n);

#endif
