"""Matrix products, convolutions and activations of com.microsoft."""
import itertools

import numpy as np

from case import Case, evaluate

F32, F16, F64 = np.float32, np.float16, np.float64


def rand(*shape, dtype=F32, seed=0, low=-1.0, high=1.0):
    return np.random.default_rng(seed + sum(shape)).uniform(low, high, shape).astype(dtype)


def activations():
    for dtype in (F32, F16, F64):
        x = rand(3, 5, 8, dtype=dtype, low=-4, high=4)
        if dtype != F64:
            yield Case("Gelu", [x])
            yield Case("BiasGelu", [x, rand(8, dtype=dtype)], limit=1e-4 if dtype == F32 else 0)
        yield Case("QuickGelu", [x])
        yield Case("QuickGelu", [x], {"alpha": 1.0})
        yield Case("QuickGelu", [x], {"alpha": -0.5})
        yield Case("FastGelu", [x], limit=1e-3)
        yield Case("FastGelu", [x, rand(8, dtype=dtype)], limit=1e-3)
    yield Case("FastGelu", [rand(7), None], note="bias absent")
    yield Case("FastGelu", [rand(3, 0, 8)])
    yield Case("Gelu", [rand(2, 3, 4)], dims={0: ("n", "m", None)})
    yield Case("BiasGelu", [rand(2, 3, 4), rand(4)], dims={0: ("n", "m", None)})


def fused_matmul():
    for ta, tb, alpha in itertools.product((0, 1), (0, 1), (1.0, 0.5)):
        a, b = rand(2, 3, 4, 5), rand(2, 3, 5, 6)
        attrs = {"transA": ta, "transB": tb, "alpha": alpha}
        yield Case("FusedMatMul", [a.swapaxes(-1, -2) if ta else a,
                                   b.swapaxes(-1, -2) if tb else b], attrs)
        yield Case("FusedMatMul", [a[0, 0].T if ta else a[0, 0], b.swapaxes(-1, -2) if tb else b],
                   attrs)
    # transBatchA: the first axis stands before the last; [d0, d2, d1, m, k] read as batches.
    for ba, bb in ((1, 0), (0, 1), (1, 1)):
        for ta, tb in itertools.product((0, 1), (0, 1)):
            a, b = rand(2, 3, 4, 5), rand(2, 3, 5, 6)
            a = a.swapaxes(-1, -2) if ta else a
            b = b.swapaxes(-1, -2) if tb else b
            a = np.moveaxis(a, -2, 0) if ba else a
            b = np.moveaxis(b, -2, 0) if bb else b
            yield Case("FusedMatMul", [a, b], {"transA": ta, "transB": tb, "transBatchA": ba,
                                               "transBatchB": bb})
    yield Case("FusedMatMul", [rand(5), rand(5, 6)], {"transA": 1})
    yield Case("FusedMatMul", [rand(4, 5), rand(5)], {"transB": 1, "alpha": 2.0})
    yield Case("FusedMatMul", [rand(4, 5, dtype=F64), rand(5, 3, dtype=F64)])
    yield Case("FusedMatMul", [rand(2, 4, 5), rand(5, 3)], dims={0: ("b", "m", None)})
    for ta, tb in ((0, 0), (1, 1)):
        a, b = rand(4, 5), rand(5, 6)
        yield Case("TransposeMatMul", [a.T if ta else a, b.T if tb else b],
                   {"transA": ta, "transB": tb, "alpha": 0.25})


def large_matmul():
    """Sizes around the ends of register tiles and blocks, with and without pieces of the sum."""
    for m, n, k in ((1, 33, 700), (13, 31, 17), (15, 65, 40), (27, 48, 129), (57, 100, 64),
                    (1037, 40, 1030), (1027, 33, 1024), (266, 97, 4099), (533, 64, 2050),
                    (2100, 3, 512), (64, 0, 1030), (0, 64, 9), (40, 64, 0)):
        yield Case("FusedMatMul", [rand(m, k), rand(k, n)])
    for ta, tb in ((1, 0), (0, 1), (1, 1)):
        a, b = rand(1030, 1026), rand(1026, 40)
        yield Case("FusedMatMul", [a.T if ta else a, b.T if tb else b],
                   {"transA": ta, "transB": tb})
    yield Case("FusedGemm", [rand(1037, 1030), rand(1030, 40), rand(40)], {"activation": "Relu"})
    yield Case("FusedMatMul", [rand(2, 1037, 1030), rand(1030, 40)])
    yield Case("FusedMatMul", [rand(2, 300, 2050), rand(2, 2050, 70)], const=(1,))


ACTIVATIONS = {"Relu": [], "Tanh": [], "Sigmoid": [], "LeakyRelu": [0.2], "Clip": [-0.25, 0.5],
               "HardSigmoid": [0.3, 0.4]}
GEMM_ACTIVATIONS = {"Relu": {}, "Tanh": {}, "Sigmoid": {}, "LeakyRelu": {"alpha": 0.2},
                    "HardSigmoid": {"alpha": 0.3, "beta": 0.4}, "Elu": {"alpha": 0.5},
                    "Softplus": {}, "Softsign": {}, "ThresholdedRelu": {"alpha": 0.3},
                    "Selu": {"alpha": 1.5, "gamma": 0.9}, "ScaledTanh": {"alpha": 0.7, "beta": 0.9},
                    "ParametricSoftplus": {"alpha": 0.6, "beta": 0.5}}


def fused_gemm():
    a, b, c = rand(4, 5), rand(5, 6), rand(6)
    for name, params in GEMM_ACTIVATIONS.items():
        yield Case("FusedGemm", [a, b, c], {"activation": name, **{f"activation_{k}": v
                                                                   for k, v in params.items()}})
    yield Case("FusedGemm", [a, b], {"activation": "Relu", "alpha": 0.5})
    yield Case("FusedGemm", [a.T, b.T, rand(4, 1)],
               {"activation": "LeakyRelu", "activation_alpha": 0.1, "transA": 1, "transB": 1,
                "alpha": 0.5, "beta": 2.0})
    yield Case("FusedGemm", [a, b, None], {"activation": "Tanh"})


def fused_conv():
    x, w, b = rand(2, 4, 7, 6), rand(6, 4, 3, 3), rand(6)
    for name, params in ACTIVATIONS.items():
        attrs = {"activation": name, **({"activation_params": params} if params else {})}
        yield Case("FusedConv", [x, w, b], {**attrs, "pads": [1, 1, 1, 1]})
    z = rand(2, 6, 7, 6)
    yield Case("FusedConv", [x, w, b, z], {"activation": "Relu", "pads": [1, 1, 1, 1]})
    yield Case("FusedConv", [x, w, None, z], {"activation": "Relu", "pads": [1, 1, 1, 1]})
    yield Case("FusedConv", [x, w, b, z], {"pads": [1, 1, 1, 1]}, note="no activation")
    yield Case("FusedConv", [x, w], {"activation": "Relu", "strides": [2, 2]})
    yield Case("FusedConv", [x, rand(8, 1, 3, 3)],
               {"activation": "Tanh", "group": 4, "auto_pad": "SAME_UPPER"})
    yield Case("FusedConv", [rand(1, 3, 9), rand(5, 3, 2)],
               {"activation": "Relu", "dilations": [2], "kernel_shape": [2]})


def nhwc_conv():
    """onnxruntime has these for other processors only: Conv between transposes says the same."""
    x, w, b = rand(2, 4, 7, 6), rand(6, 4, 3, 3), rand(6)
    last = np.ascontiguousarray(np.moveaxis(x, 1, -1))
    for attrs in ({}, {"strides": [2, 1], "pads": [1, 0, 1, 2]}, {"dilations": [2, 2]},
                  {"auto_pad": "SAME_LOWER", "kernel_shape": [3, 3]}):
        for more in ([b], [None], []):
            y = np.moveaxis(evaluate("Conv", [x, w, *more], attrs), 1, -1)
            yield Case("NhwcConv", [last, w, *more], attrs, expected=[y])
            z = rand(*y.shape, seed=9)
            yield Case("NhwcFusedConv", [last, w, *more] + [None] * (1 - len(more)) + [z],
                       {**attrs, "activation": "Relu"}, expected=[np.maximum(y + z, 0)])
    y = np.moveaxis(evaluate("Conv", [x, rand(8, 1, 3, 3)], {"group": 4}), 1, -1)
    yield Case("NhwcConv", [last, rand(8, 1, 3, 3)], {"group": 4}, expected=[y])


def plain():
    """Operators that are those of ai.onnx under another domain."""
    x = rand(3, 4, 5)
    yield Case("GatherND", [x, np.array([[0, 1], [2, -1]], np.int64)])
    for upper in (0, 1):
        yield Case("Trilu", [x], {"upper": upper})
        yield Case("Trilu", [x, np.array(-1, np.int64)], {"upper": upper}, const=(1,))
    grid = rand(2, 3, 2, 2, low=-1.2, high=1.2)
    for mode in ("bilinear", "nearest"):
        for padding in ("zeros", "border"):
            yield Case("GridSample", [rand(2, 3, 4, 5), grid],
                       {"mode": mode, "padding_mode": padding, "align_corners": 1})


def cases():
    yield from plain()
    yield from activations()
    yield from fused_matmul()
    yield from large_matmul()
    yield from fused_gemm()
    yield from fused_conv()
    yield from nhwc_conv()
