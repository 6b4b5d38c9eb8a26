"""Normalisations of com.microsoft, and those that onnxruntime adds to the default domain."""
import itertools

import numpy as np

from case import Case
from cases_linear import F16, F32, F64, rand


def layer():
    """LayerNormalization of older operator sets is onnxruntime's own, too."""
    for dtype, axis in itertools.product((F32, F64), (-1, 1, 0)):
        x = rand(2, 3, 8, dtype=dtype)
        shape = x.shape[axis if axis >= 0 else 2:]
        scale, bias = rand(*shape, dtype=dtype), rand(*shape, dtype=dtype, seed=1)
        common = dict(domain="", opset=12)
        stats = 3 if dtype == F32 else 1
        yield Case("LayerNormalization", [x, scale, bias], {"axis": axis}, stats, **common)
        yield Case("LayerNormalization", [x, scale], {"axis": axis, "epsilon": 0.1}, **common)
        yield Case("SimplifiedLayerNormalization", [x, scale], {"axis": axis}, **common)
        yield Case("SimplifiedLayerNormalization", [x, scale],
                   {"axis": axis, "epsilon": 0.1, "stash_type": 1}, 2, **common)
    x, scale = rand(2, 3, 8, dtype=F16), rand(8, dtype=F16)
    yield Case("SimplifiedLayerNormalization", [x, scale], {}, domain="", opset=12)
    yield Case("SimplifiedLayerNormalization", [rand(2, 3, 8), rand(8)], domain="", opset=20,
               dims={0: ("b", "s", None)})


def skip_layer():
    for dtype in (F32, F16):
        x, skip = rand(2, 3, 8, dtype=dtype), rand(2, 3, 8, dtype=dtype, seed=1)
        gamma, beta, bias = (rand(8, dtype=dtype, seed=s) for s in (2, 3, 4))
        for name, more in (("SkipLayerNormalization", [beta]),
                           ("SkipSimplifiedLayerNormalization", [])):
            yield Case(name, [x, skip, gamma] + more)
            yield Case(name, [x, skip, gamma], {"epsilon": 0.05})
            yield Case(name, [x, skip, gamma] + more + [bias], {"epsilon": 1e-6})
            yield Case(name, [x, skip, gamma] + [None] * len(more) + [bias], outputs=4,
                       skip_outputs=(1, 2))
            yield Case(name, [x, skip, gamma] + more, outputs=4, skip_outputs=(1, 2))
            yield Case(name, [x, skip[:1], gamma] + more, note="skip broadcasts")
            yield Case(name, [x, skip[0], gamma] + more, note="skip of rank 2")
            yield Case(name, [x[0], skip[0], gamma] + more)
        yield Case("SkipLayerNormalization", [x, skip, gamma, beta],
                   dims={0: ("b", "s", None), 1: ("b", "s", None)})


def embed_layer():
    rng = np.random.default_rng(5)
    for dtype in (F32, F16):
        ids = rng.integers(0, 10, (2, 4)).astype(np.int32)
        segments = rng.integers(0, 2, (2, 4)).astype(np.int32)
        word, place, segment = (rand(n, 8, dtype=dtype, seed=n) for n in (10, 6, 2))
        gamma, beta = rand(8, dtype=dtype, seed=2), rand(8, dtype=dtype, seed=3)
        mask = np.array([[1, 1, 1, 0], [1, 1, 0, 0]], np.int32)
        places = rng.integers(0, 6, (2, 4)).astype(np.int32)
        full = [ids, segments, word, place, segment, gamma, beta]
        plain = [ids, None, word, place, None, gamma, beta]
        op = "EmbedLayerNormalization"
        yield Case(op, full, {"epsilon": 1e-3}, 2)
        yield Case(op, full + [mask], outputs=2)
        yield Case(op, full + [mask, places], outputs=3)
        yield Case(op, full + [None, places], outputs=3, skip_outputs=(1,))
        yield Case(op, full + [mask, places[:1]], outputs=2)
        yield Case(op, plain, outputs=2)
        yield Case(op, plain + [mask], {"mask_index_type": 1}, 2)
        yield Case(op, plain, {"mask_index_type": 0}, 3, skip_outputs=(1,))
    yield Case(op, full + [mask], outputs=2, dims={i: ("b", "s") for i in (0, 1, 7)})


def cases():
    yield from layer()
    yield from skip_layer()
    yield from embed_layer()
