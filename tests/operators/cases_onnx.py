"""Operators of ai.onnx that sample, carry a state, or draw random numbers."""
import itertools

import numpy as np

from case import Case, evaluate, sparse_tensor
from cases_linear import F16, F32, F64, rand


def onnx(op, inputs, attrs=None, *, opset=22, **more):
    return Case(op, inputs, attrs or {}, domain="", opset=opset, **more)


def deform():
    for groups, offset_groups, spatial in itertools.product((1, 2), (1, 2), (1, 2)):
        sizes, kernel = (7, 6)[:spatial], (3, 2)[:spatial]
        attrs = {"group": groups, "offset_group": offset_groups, "strides": [2, 1][:spatial],
                 "pads": [1, 0, 1, 1][:spatial] + [1, 0, 1, 1][:spatial], "dilations": [1] * spatial}
        x, w = rand(2, 4, *sizes), rand(6, 4 // groups, *kernel)
        out = [(n + 2 * p - k) // s + 1 for n, p, k, s in
               zip(sizes, attrs["pads"], kernel, attrs["strides"])]
        taps = int(np.prod(kernel))
        offset = rand(2, offset_groups * taps * spatial, *out, low=-2, high=2)
        mask = rand(2, offset_groups * taps, *out, low=0)
        if spatial == 2:
            yield onnx("DeformConv", [x, w, offset], attrs)
            yield onnx("DeformConv", [x, w, offset, rand(6), mask], attrs)
            yield onnx("DeformConv", [x, w, offset, None, mask], {**attrs, "kernel_shape": kernel},
                       opset=19)


def roi_align():
    x = rand(2, 3, 9, 12)
    rois = np.array([[0, 0, 8, 8], [-3, 2, 4, 10], [1.5, 0.5, 3, 2.25], [5, 5, 30, 9],
                     [-20, -7, 40, 31], [2, 1, 2.5, 44], [-900, 2, 1100, 4]], F32)
    entries = np.array([0, 1, 1, 0, 1, 0, 0], np.int64)
    for mode, opset, samples, scale in itertools.product(("avg", "max"), (10, 16), (0, 1, 3),
                                                         (1.0, 0.5)):
        attrs = {"mode": mode, "sampling_ratio": samples, "spatial_scale": scale,
                 "output_height": 3, "output_width": 2}
        yield onnx("RoiAlign", [x, rois, entries], attrs, opset=opset)
        if opset == 16:
            yield onnx("RoiAlign", [x, rois, entries],
                       {**attrs, "coordinate_transformation_mode": "output_half_pixel"},
                       opset=opset)
    attrs = {"output_height": 3, "output_width": 2}
    yield onnx("RoiAlign", [x, rois[:0], entries[:0]], attrs, opset=16)
    yield onnx("RoiAlign", [x.astype(F64), rois.astype(F64), entries], attrs, opset=16)
    nowhere = np.array([[6, 6, 3, 8], [7, 7, 2, 2], [1, 1, 1, 1]], F32)
    for mode in ("avg", "max"):  # no samples; onnxruntime divides by the size of none
        yield onnx("RoiAlign", [x, nowhere, entries[:3]], {**attrs, "mode": mode}, opset=16,
                   expected=[np.zeros((3, 3, 3, 2), F32)])


def resizes():
    """Axes that are too long for a table of where each place comes from."""
    tall, long = rand(1, 1, 3, 40000), rand(1, 1, 5, 150000)
    plain = ({"mode": "nearest"}, {"mode": "linear"}, {"mode": "cubic"},
             {"mode": "nearest", "nearest_mode": "ceil"}, {"mode": "cubic", "exclude_outside": 1})
    smooth = ({"mode": "linear", "antialias": 1}, {"mode": "cubic", "antialias": 1})
    for x, size, kinds, limit in ((tall, [1, 1, 4, 70000], plain, 0),
                                  (long, [1, 1, 2, 67000], plain, 0),
                                  (tall, [1, 1, 3, 80000], plain, 0),
                                  (long, [1, 1, 2, 3], smooth, 3e-3)):
        for attrs, coordinates in itertools.product(kinds, ("half_pixel", "asymmetric")):
            yield onnx("Resize", [x, None, None, np.array(size, np.int64)],
                       {**attrs, "coordinate_transformation_mode": coordinates}, const=(3,),
                       opset=19, limit=limit)


def affine_grids():
    """Sizes of 1 too, where aligned corners fall together."""
    for sizes, corners, const in itertools.product(((3, 4), (1, 3), (4, 1), (1, 1), (2, 3, 4),
                                                    (1, 2, 1)), (0, 1), ((), (1,))):
        n = len(sizes)
        yield onnx("AffineGrid", [rand(2, n, n + 1), np.array((2, 1, *sizes), np.int64)],
                   {"align_corners": corners}, const=const)


def determinants():
    for shape, dtype in itertools.product(((1, 1), (2, 2), (5, 5), (2, 3, 4, 4), (0, 3, 3)),
                                          (F32, F64)):
        x = rand(*shape, dtype=dtype)
        yield onnx("Det", [x], limit=1e-4,
                   expected=None if dtype == F32 else [np.array(np.linalg.det(x))])
    yield onnx("Det", [np.array([[0, 1, 2], [0, 0, 3], [4, 5, 6]], F32)])
    yield onnx("Det", [np.ones((3, 3), F32)], limit=1e-4, expected=[np.array(0, F32)])
    x = rand(3, 4)
    for axis, exclusive, reverse in itertools.product((0, -1), (0, 1), (0, 1)):
        y = np.flip(x, axis) if reverse else x
        y = np.cumprod(y, axis)
        if exclusive:
            y = np.roll(y, 1, axis)
            np.moveaxis(y, axis, 0)[0] = 1
        y = np.flip(y, axis) if reverse else y
        yield onnx("CumProd", [x, np.array(axis, np.int64)],
                   {"exclusive": exclusive, "reverse": reverse}, opset=26, const=(1,),
                   expected=[np.ascontiguousarray(y)])


def transforms():
    """In f64 to its precision, in f32 to that of the result."""
    for n, parts, inverse, dtype in itertools.product((1, 7, 16), (1, 2), (0, 1), (F32, F64)):
        x = rand(2, n, 3, parts, dtype=dtype)
        values = x[..., 0] + (1j * x[..., 1] if parts == 2 else 0)
        y = (np.fft.ifft if inverse else np.fft.fft)(values.astype(np.complex128), axis=1)
        y = np.stack([y.real, y.imag], -1).astype(dtype)
        yield onnx("DFT", [x, None, np.array(1, np.int64)], {"inverse": inverse}, opset=20,
                   const=(2,), expected=[y], limit=1e-13 if dtype == F64 else 2e-7)
    x, window = rand(1, 64, 1, dtype=F64), rand(16, dtype=F64, low=0.1)
    frames = np.stack([x[0, i:i + 16, 0] * window for i in range(0, 49, 8)])
    y = np.fft.rfft(frames)
    yield onnx("STFT", [x, np.array(8, np.int64), window], opset=17, const=(1,), limit=1e-13,
               expected=[np.stack([y.real, y.imag], -1)[None]])


def training():
    x, v = rand(3, 4, 5, 2), [rand(4, seed=s, low=0.5, high=2) for s in range(4)]
    mean, var = x.mean((0, 2, 3)), x.var((0, 2, 3))
    for momentum in (0.9, 0.25):
        y = (x - mean[:, None, None]) / np.sqrt(var + 1e-3)[:, None, None]
        y = y * v[0][:, None, None] + v[1][:, None, None]
        new = [old * momentum + now * (1 - momentum) for old, now in ((v[2], mean), (v[3], var))]
        attrs = {"epsilon": 1e-3, "momentum": momentum}
        expected = [a.astype(F32) for a in (y, *new, mean, var)]
        yield onnx("BatchNormalization", [x, *v], {**attrs, "training_mode": 1}, opset=15,
                   outputs=3, expected=expected[:3])
        yield onnx("BatchNormalization", [x, *v], attrs, opset=9, outputs=5, expected=expected)


def states():
    for dtype, last, dilation in itertools.product((F32, F16), (0, 1), (1, 2)):
        x, w, b = rand(2, 4, 6, dtype=dtype), rand(4, 1, 3, dtype=dtype), rand(4, dtype=dtype)
        past = rand(2, 4, 2 * dilation, dtype=dtype)
        if last:
            x, past = x.swapaxes(1, 2), past.swapaxes(1, 2)
        attrs = {"channels_last": last, "dilation": dilation}
        attrs = {k: v for k, v in attrs.items() if v != (k == "dilation")}
        for activation in ("none", "silu"):
            more = {**attrs, "activation": activation}
            yield Case("CausalConvWithState", [x, w], more, 2)
            yield Case("CausalConvWithState", [x, w, b, past], more, 2)
            yield Case("CausalConvWithState", [x, w, None, past], more, 2)
    rules = {"linear": (0, 0), "gated": (1, 0), "delta": (0, 1), "gated_delta": (1, 1)}
    for (rule, (gated, delta)), (q_heads, heads) in itertools.product(
            rules.items(), ((2, 2), (4, 2), (1, 2))):
        q, k, v = rand(2, 3, q_heads * 4), rand(2, 3, heads * 4), rand(2, 3, heads * 5)
        attrs = {"q_num_heads": q_heads, "kv_num_heads": heads, "update_rule": rule}
        past = rand(2, heads, 4, 5)
        for each, scalar in ((4, heads), (1, 1)):
            decay = [rand(2, 3, heads * each, low=-1, high=0)] if gated else [None]
            beta = [rand(2, 3, scalar, low=0)] if delta else []
            if q_heads > 1 or heads == 2:
                yield Case("LinearAttention", [q, k, v, None, *decay, *beta], attrs, 2)
                yield Case("LinearAttention", [q, k, v, past, *decay, *beta],
                           {**attrs, "scale": 0.5}, 2)


def ngrams():
    x = np.array([[1, 1, 3, 3, 3, 7], [8, 6, 7, 5, 6, 8]], np.int64)
    pool = {"ngram_counts": [0, 4], "ngram_indexes": [0, 1, 2, 3, 4, 5, 8],
            "pool_int64s": [2, 3, 5, 4, 5, 6, 7, 8, 6, 7]}
    weights = {"weights": [0.5, 2.0, 1.5, 3.0, 0.25, 4.0, 0.75]}
    for mode, (low, high), skips, row in itertools.product(
            ("TF", "IDF", "TFIDF"), ((1, 1), (1, 2), (2, 2)), (0, 2, 5), (x, x[0])):
        attrs = {**pool, "mode": mode, "min_gram_length": low, "max_gram_length": high,
                 "max_skip_count": skips}
        yield onnx("TfIdfVectorizer", [row], attrs, opset=9)
        yield onnx("TfIdfVectorizer", [row.astype(np.int32)], {**attrs, **weights}, opset=9)
        texts = {k: v for k, v in attrs.items() if k != "pool_int64s"}
        texts["pool_strings"] = [str(i) for i in pool["pool_int64s"]]
        yield onnx("TfIdfVectorizer", [row.astype(str).astype(object)], {**texts, **weights},
                   opset=9, const=(0,))


def roi_pools():
    x = rand(2, 3, 9, 12)
    rois = np.array([[0, 0, 0, 8, 8], [1, -3, 2, 4, 10], [1, 1.5, 0.5, 3, 2.5], [0, 5, 5, 30, 9],
                     [1, 20, 3, 25, 4], [0, 6, 6, 2, 2]], F32)
    for scale, shape in itertools.product((1.0, 0.5), ((3, 2), (1, 1), (7, 5))):
        yield onnx("MaxRoiPool", [x, rois], {"pooled_shape": shape, "spatial_scale": scale}, opset=20,
                   dims={0: (None, None, "h", None), 1: ("regions", None)})


def sparse_constants():
    for shape, dtype in itertools.product(((3, 4), (5,), (2, 3, 4), (3, 0)), (F32, F64, np.int64)):
        x = (rand(*shape, low=-9, high=9) * (rand(*shape, low=0) < 0.4)).astype(dtype)
        yield onnx("Add", [x, x], sparse=(0, 1), expected=[x + x])
        for linear in (False, True):
            yield onnx("Constant", [], {"sparse_value": sparse_tensor(x, "", linear)}, expected=[x])


def first_versions():
    """Forms of operator set 1, which onnxruntime has in later ones alone."""
    x = rand(2, 6, 4)
    parts = [x[:, :1], x[:, 1:4], x[:, 4:]]
    yield onnx("Split", [x, np.array([1, 3, 2], F32)], {"axis": 1}, outputs=3, opset=1, const=(1,),
               expected=parts)
    yield onnx("Tile", [x, np.array(2, F32), np.array(1, F32)], {}, opset=1, const=(1, 2),
               expected=[np.tile(x, (1, 2, 1))])
    yield onnx("Split", [x], {"axis": 1, "split": [1, 3, 2]}, outputs=3, opset=1, expected=parts)
    yield onnx("Split", [x], {"axis": 1}, outputs=3, opset=1, expected=np.split(x, 3, 1))
    scale, bias = rand(6), rand(6)
    y = evaluate("InstanceNormalization", [x, scale, bias], {"epsilon": 0.1})
    yield onnx("InstanceNormalization", [x, scale, bias], {"epsilon": 0.1, "consumed_inputs": [0]},
               opset=1, expected=[y])
    for op, gates in (("RNN", 1), ("GRU", 3), ("LSTM", 4)):
        inputs = [rand(3, 2, 4), rand(1, gates * 5, 4), rand(1, gates * 5, 5)]
        attrs = {"hidden_size": 5}
        y = evaluate(op, inputs, attrs)
        yield onnx(op, inputs, {**attrs, "output_sequence": 1}, opset=1, expected=[y])


def moments(mean, deviation, low=None, high=None):
    """A check of the first output: its moments, within five standard errors or so, and range."""
    def check(y):
        y = y.astype(np.float64)
        error = 5 * deviation / np.sqrt(y.size)
        assert abs(y.mean() - mean) < error, f"mean {y.mean():.4g}, not {mean:.4g}"
        assert abs(y.std() - deviation) < error, f"deviation {y.std():.4g}, not {deviation:.4g}"
        assert low is None or (y.min() >= low and y.max() <= high + 1e-6), f"{y.min()} … {y.max()}"
        half = len(y.ravel()) // 2
        both = np.corrcoef(y.ravel()[:half], y.ravel()[half:2 * half])[0, 1]
        assert abs(both) < 5 / np.sqrt(half), f"halves correlate: {both:.3g}"
    return check


def random():
    like = np.zeros((40, 50), F32)
    for more in ({}, {"seed": 3.0}):
        for op, inputs, attrs in (("Uniform", [], {"shape": [40, 50]}), ("UniformLike", [like], {}),
                                  ("Uniform", [], {"shape": [2000], "dtype": 11})):
            dtype = F64 if attrs.get("dtype") == 11 else F32
            name, shape = f"Random{op}", tuple(attrs.get("shape", like.shape))
            yield onnx(name, inputs, {**attrs, **more}, check=moments(0.5, 12 ** -0.5, 0, 1),
                       expected=[np.zeros(shape, dtype)])
            yield onnx(name, inputs, {**attrs, **more, "low": -3.0, "high": 5.0},
                       check=moments(1, 8 * 12 ** -0.5, -3, 5), expected=[np.zeros(shape, dtype)])
        for op, inputs, attrs in (("Normal", [], {"shape": [40, 50]}), ("NormalLike", [like], {}),
                                  ("NormalLike", [like], {"dtype": 10})):
            dtype = F16 if attrs.get("dtype") == 10 else F32
            yield onnx(f"Random{op}", inputs, {**attrs, **more}, check=moments(0, 1),
                       expected=[np.zeros((40, 50), dtype)])
            yield onnx(f"Random{op}", inputs, {**attrs, **more, "mean": 2.0, "scale": 0.5},
                       check=moments(2, 0.5), expected=[np.zeros((40, 50), dtype)])
        p = np.full((40, 50), 0.3, F32)
        yield onnx("Bernoulli", [p], more, check=moments(0.3, 0.21 ** 0.5, 0, 1), expected=[like])
        yield onnx("Bernoulli", [p], {**more, "dtype": 7},
                   check=moments(0.3, 0.21 ** 0.5, 0, 1), expected=[like.astype(np.int64)])
        odds = np.log(np.array([[0.2, 0.5, 0.3]] * 4, F32))
        yield onnx("Multinomial", [odds], {**more, "sample_size": 500, "dtype": 7},
                   check=moments(1.1, 0.7, 0, 2), expected=[np.zeros((4, 500), np.int64)])
    x = np.ones((40, 50), F32)
    for ratio, const in itertools.product((0.25, 0.5), ((1, 2), ())):
        yield onnx("Dropout", [x, np.array(ratio, F32), np.array(True)], {"seed": 4}, outputs=2,
                   const=const, check=moments(1, (ratio / (1 - ratio)) ** 0.5, 0, 1 / (1 - ratio)),
                   expected=[x, x > 0])
        yield onnx("Dropout", [x, np.array(ratio, F32), np.array(False)], {"seed": 4}, outputs=2,
                   const=const)
    yield onnx("Dropout", [x, np.array(0, F32), np.array(True)], outputs=2, const=(1, 2))


def wide_windows():
    """Windows wider than the padded input, which ceil_mode allows by less than a stride."""
    for size, kernel, stride, pads in ((2, 3, 2, [0, 0]), (2, 4, 3, [0, 0]), (1, 5, 3, [1, 1]),
                                       (3, 6, 4, [0, 0]), (2, 3, 2, [1, 0])):
        attrs = {"kernel_shape": [kernel], "strides": [stride], "pads": pads, "ceil_mode": 1}
        x = rand(1, 2, size)
        yield onnx("MaxPool", [x], attrs)
        yield onnx("MaxPool", [x], attrs, outputs=2)
        yield onnx("LpPool", [x], attrs)
        yield onnx("AveragePool", [x], attrs)
        yield onnx("AveragePool", [x], {**attrs, "count_include_pad": 1})
    yield onnx("MaxPool", [rand(1, 2, 4, 2)], {"kernel_shape": [3, 3], "strides": [2, 2],
                                               "ceil_mode": 1})
    # Nothing but padding under a window: its mean is 0.
    yield onnx("AveragePool", [rand(1, 2, 1, 3)], {"kernel_shape": [2, 1], "pads": [1, 0, 1, 0],
                                                   "dilations": [2, 2], "strides": [2, 1]})


def cropping_pads():
    x = np.arange(6, dtype=F32)
    for mode, pads in itertools.product(("wrap", "edge", "reflect", "constant"), (
            [-1, 1], [2, -2], [-2, 3], [-2, -1], [-5, 0])):
        for const in ((), (1,)):
            yield onnx("Pad", [x, np.array(pads, np.int64)], {"mode": mode}, const=const)
    yield onnx("Pad", [rand(4, 5), np.array([-1, 3, 2, -2], np.int64)], {"mode": "wrap"})


def cases():
    yield from deform()
    yield from roi_align()
    yield from affine_grids()
    yield from resizes()
    yield from determinants()
    yield from transforms()
    yield from training()
    yield from states()
    yield from ngrams()
    yield from roi_pools()
    yield from first_versions()
    yield from sparse_constants()
    yield from random()
    yield from wide_windows()
    yield from cropping_pads()
