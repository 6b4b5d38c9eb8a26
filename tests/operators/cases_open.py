"""Operators whose sizes are left open, and lists (of axes, pads …) whose length is."""
import itertools

import numpy as np

from case import Case
from cases_linear import F32, rand

ALL = {0: ("n", "c", "h", "w")}


def onnx(op, inputs, attrs=None, dims=None, opset=19, **more):
    return Case(op, inputs, attrs or {}, domain="", opset=opset, dims=dims or {}, **more)


def ints(*values):
    return np.array(values, np.int64)


def resizes():
    x = rand(1, 2, 15, 16)
    for scales in ((1, 1, 0.6, 0.6), (1, 1, 0.613, 1.7), (1, 1, 2, 0.5)):
        by_scale = [x, None, np.array(scales, F32)]
        for const in ((2,), ()):
            for mode in ("linear", "cubic"):
                yield onnx("Resize", by_scale, {"mode": mode, "antialias": 1}, ALL, const=const)
            yield onnx("Resize", by_scale, {"mode": "cubic", "exclude_outside": 1}, ALL, const=const)
            yield onnx("Resize", by_scale, {"mode": "nearest"}, ALL, const=const)
        roi = np.array([0, 0, 0.1, 0.2, 1, 1, 0.8, 1.1], F32)
        for mode in ("nearest", "linear", "cubic"):
            yield onnx("Resize", [x, roi, np.array(scales, F32)],
                       {"mode": mode, "coordinate_transformation_mode": "tf_crop_and_resize",
                        "extrapolation_value": 3.0}, ALL, const=(1, 2))
    for policy, mode in itertools.product(("not_larger", "not_smaller"), ("linear", "nearest")):
        for sizes in ((9, 4), (20, 31)):
            attrs = {"mode": mode, "keep_aspect_ratio_policy": policy, "axes": [2, 3]}
            yield onnx("Resize", [x, None, None, ints(*sizes)], attrs, ALL, const=(3,))
    yield onnx("Resize", [x, None, None, ints(1, 2, 7, 30)], {"mode": "linear", "antialias": 1}, ALL,
               const=(3,))
    yield onnx("Upsample", [x, np.array([1, 1, 1.37, 2], F32)], {"mode": "linear"}, ALL, 9, const=(1,))
    yield onnx("Upsample", [x], {"mode": "linear", "scales": [1.0, 1.0, 1.37, 2.0]}, ALL, 7)
    wide = rand(1, 60)  # sizes are products of floats: 0.7 * 60 is 42, 1.05 * 60 is 62
    for scale, dims in itertools.product((0.7, 0.9, 1.05, 2.3), ({}, {0: ("n", "w")})):
        yield onnx("Resize", [wide, None, np.array([1, scale], F32)], {"mode": "nearest"}, dims,
                   const=(2,))


def reductions():
    x, dims = rand(2, 3, 4), {0: ("a", "b", "c"), 1: ("k",)}
    for op, axes in itertools.product(
            ("ReduceMax", "ReduceSum", "ReduceMean", "ReduceLogSumExp", "ReduceL2"),
            ((-1, 0), (1,), (0, 1, 2), ())):
        for noop in (0, 1):
            yield onnx(op, [x, ints(*axes)], {"keepdims": 1, "noop_with_empty_axes": noop}, dims)


def lists():
    x, two = rand(4, 6), ("a", "b")
    yield onnx("Slice", [x, ints(1), ints(5)], dims={0: two, 1: ("k",), 2: ("l",)})
    yield onnx("Slice", [x, ints(3, -1), ints(0, -7), ints(0, -1), ints(-1, -2)],
               dims={0: two, **{i: ("k",) for i in range(1, 5)}})
    yield onnx("Slice", [x, ints(), ints(), ints(), ints()],
               dims={0: two, **{i: ("k",) for i in range(1, 5)}})
    yield onnx("Slice", [x, ints(2), ints(5), ints(1)], dims={1: ("k",)}, const=(3,))
    for mode in ("constant", "edge", "wrap"):
        yield onnx("Pad", [x, ints(1, 0, 2, 3)], {"mode": mode}, {0: two, 1: ("k",)})
        yield onnx("Pad", [x, ints(1, 2), None, ints(-1)], {"mode": mode},
                   {0: two, 1: ("k",), 3: ("l",)})
    yield onnx("Tile", [x, ints(2, 3)], dims={0: two, 1: ("k",)})
    yield onnx("Split", [x, ints(1, 3, 2)], {"axis": 1}, {0: two, 1: ("k",)}, outputs=3)


def grids():
    for spatial in (2, 3):
        theta = rand(2, spatial, spatial + 1)
        size = ints(2, 3, 4, 5, 6)[:spatial + 2]
        yield onnx("AffineGrid", [theta, size], {"align_corners": 0}, {0: ("n", None, None), 1: ("k",)},
                   opset=20)


def masks():
    """Ends of the keys, or ends and starts: the number of entries of the mask says which."""
    x, w, bias = rand(2, 5, 8), rand(8, 24, seed=1), rand(24, seed=2)
    for mask in ([3, 5], [4, 5, 1, 0]):
        for dims in ({0: ("b", "s", None), 3: ("m",)}, {0: ("b", "s", None)}, {3: ("m",)}):
            yield Case("Attention", [x, w, bias, np.array(mask, np.int32)], {"num_heads": 2}, dims=dims)


def samples():
    """Statistics for each element of a sample."""
    for shape in ((2, 3, 4), (2, 3, 4, 5), (2, 3)):
        x = rand(*shape)
        stats = [rand(*shape[1:], seed=s) for s in (1, 2, 3)] + [np.abs(rand(*shape[1:], seed=4))]
        for opset in (7, 8):
            attrs = {"epsilon": 0.1, "spatial": 0}
            yield onnx("BatchNormalization", [x, *stats], attrs, opset=opset)
            yield onnx("BatchNormalization", [x, *stats], attrs, opset=opset,
                       dims={i: tuple(f"d{k}" for k in range(i > 0, x.ndim)) for i in range(5)})


def cases():
    yield from resizes()
    yield from reductions()
    yield from lists()
    yield from grids()
    yield from masks()
    yield from samples()
