/* resize.h: resizing whose scales are values that the model computes. */
#ifndef TW_IMPORT_ONNX_RESIZE_H
#define TW_IMPORT_ONNX_RESIZE_H

#include "import/onnx/import.h"

typedef struct tw_onnx_resize {
    const char *mode, *coordinates, *nearest; /* as graph.resize has them */
    double cubic, outside;
    bool exclude_outside, antialias;
    /* Of each axis; a scale of NULL: the axis stays. All values are scalars. */
    tw_value *scale[TW_MAX_RANK];                            /* f32 */
    tw_value *size[TW_MAX_RANK];                             /* i64, of the result */
    tw_value *roi_start[TW_MAX_RANK], *roi_end[TW_MAX_RANK]; /* f32; for tf_crop_and_resize */
    tw_expr dims[TW_MAX_RANK];                               /* of the result */
} tw_onnx_resize;

/* x resized, one axis after the other. */
tw_value *tw_onnx_resize_axes(tw_onnx_node *n, tw_value *x, const tw_onnx_resize *r);

#endif
