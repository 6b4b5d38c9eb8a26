"""Quantised operators of com.microsoft.

Weights of the forms that onnxruntime multiplies by vpmaddubsw stay in 7 bits: on processors without
VNNI it saturates sums of pairs."""
import itertools

import numpy as np

from case import Case, evaluate
from cases_linear import F16, F32, rand

U8, I8, I32 = np.uint8, np.int8, np.int32


def scalar(value, dtype=F32):
    return np.array(value, dtype)


def ints(dtype, *shape, seed=0, low=None, high=None):
    info = np.iinfo(dtype)
    rng = np.random.default_rng(seed + sum(shape))
    return rng.integers(info.min if low is None else low, info.max + 1 if high is None else high,
                        shape).astype(dtype)


def weights(dtype, *shape, seed=0):
    low = 64 if dtype == U8 else -63
    return ints(dtype, *shape, seed=seed, low=low, high=low + 127)


ZERO = {U8: 120, I8: -5}


def element_wise():
    for dtype in (U8, I8):
        a, zero = ints(dtype, 2, 3, 8), scalar(ZERO[dtype], dtype)
        x = [a, scalar(0.02), zero]
        out = [scalar(0.03), scalar(ZERO[dtype] + 3, dtype)]
        for op in ("QLinearAdd", "QLinearMul"):
            for b in (ints(dtype, 2, 3, 8, seed=1), ints(dtype, 8, seed=1),
                      ints(dtype, 3, 1, seed=1), scalar(9, dtype)):
                yield Case(op, x + [b, scalar(0.017), scalar(3, dtype)] + out, steps=1,
                           const=(1, 2, 4, 5, 6, 7))
            yield Case(op, x + [b, scalar(0.017), scalar(3, dtype)] + out, steps=1,
                       dims={0: ("n", None, "m")})
            # onnxruntime checks types of all zero points, and so takes none that is left out.
            y = {"QLinearAdd": a * F32(0.02) + b * F32(0.017),
                 "QLinearMul": a * F32(0.02) * (b * F32(0.017))}[op] / F32(0.03)
            y = np.clip(np.round(y), *(np.iinfo(dtype).min, np.iinfo(dtype).max)).astype(dtype)
            for end in ([], [None]):
                yield Case(op, [a, x[1], None, b, scalar(0.017), None, out[0], *end], steps=1,
                           expected=[y])
        for op, attrs in (("QLinearSigmoid", {}), ("QLinearLeakyRelu", {}),
                          ("QLinearLeakyRelu", {"alpha": 0.3})):
            scale = [scalar(1 / 256) if op == "QLinearSigmoid" else scalar(0.03)]
            yield Case(op, x + scale + out[1:], attrs, steps=1, const=(1, 2, 3, 4))
            yield Case(op, x + scale + out[1:], attrs, steps=1)
            yield Case(op, [a, x[1], None] + scale + [None], attrs, steps=1)
        condition = np.random.default_rng(1).random((2, 3, 1)) > 0.5
        yield Case("QLinearWhere", [condition] + x + [ints(dtype, 8, seed=1), scalar(0.017),
                                                      scalar(3, dtype)] + out, steps=1)


def pools():
    for dtype in (U8, I8):
        x = [ints(dtype, 2, 4, 7, 6), scalar(0.02), scalar(ZERO[dtype], dtype)]
        out = [scalar(0.015), scalar(ZERO[dtype] + 3, dtype)]
        last = [np.moveaxis(x[0], 1, -1)] + x[1:]
        forms = [{"kernel_shape": [3, 3]}, {"kernel_shape": [2, 3], "strides": [2, 1]},
                 {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]},
                 {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1},
                 {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1},
                 {"kernel_shape": [3, 3], "auto_pad": "SAME_UPPER"}]
        for attrs, first in itertools.product(forms, (True, False)):
            yield Case("QLinearAveragePool", (x if first else last) + out,
                       {**attrs, "channels_last": int(not first)}, steps=1)
        yield Case("QLinearAveragePool", [x[0][..., 0]] + x[1:] + out, {"kernel_shape": [3]},
                   steps=1)
        yield Case("QLinearGlobalAveragePool", x + out, steps=1)
        yield Case("QLinearGlobalAveragePool", x + out, {"channels_last": 0}, steps=1)
        yield Case("QLinearGlobalAveragePool", last + out, {"channels_last": 1}, steps=1)
        yield Case("NhwcMaxPool", [last[0]], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]})
        yield Case("NhwcMaxPool", [last[0]], {"kernel_shape": [2, 2], "strides": [2, 2]})
        mean = (x[0].astype(F32) - ZERO[dtype]) * F32(0.02)
        for axes, keep in itertools.product(([1], [2, 3], [-1]), (0, 1)):
            y = np.mean(mean, axis=tuple(axes), keepdims=bool(keep))
            low = np.iinfo(dtype)
            y = np.clip(np.round(y / F32(0.015)) + ZERO[dtype] + 3, low.min, low.max).astype(dtype)
            yield Case("QLinearReduceMean", x + out, {"axes": axes, "keepdims": keep},
                       expected=[y], steps=1)


def structure():
    for dtype in (U8, I8):
        out = [scalar(0.03), scalar(ZERO[dtype], dtype)]
        parts = []
        for i in range(3):
            parts += [ints(dtype, 2, 3 + i, 4, seed=i), scalar(0.02 + 0.01 * i), scalar(i, dtype)]
        yield Case("QLinearConcat", out + parts, {"axis": 1}, steps=1)
        yield Case("QLinearConcat", out + parts, {"axis": -2}, steps=1,
                   const=(0, 1, 3, 4, 6, 7, 9, 10))
        yield Case("QLinearConcat", out + parts[:3] + [parts[0], *out], {"axis": 2}, steps=1)
        x = [ints(dtype, 2, 3, 4), scalar(0.05), scalar(ZERO[dtype], dtype)]
        out = [scalar(1 / 256), scalar(0 if dtype == U8 else -128, dtype)]
        for opset, axis in itertools.product((12, 13), (0, 1, -1)):
            yield Case("QLinearSoftmax", x + out, {"opset": opset, "axis": axis}, steps=1)
        for opset in (12, 13):
            yield Case("QLinearSoftmax", x + out, {"opset": opset}, steps=1)


def convolutions():
    for dtype, wt in ((U8, U8), (U8, I8), (I8, I8)):
        x, w = ints(dtype, 2, 4, 7, 6), weights(wt, 6, 4, 3, 3)
        z = scalar(64 if wt == U8 else 0, wt)
        rest = [scalar(0.01), z, scalar(0.2), scalar(ZERO[dtype], dtype)]
        head = [x, scalar(0.02), scalar(ZERO[dtype], dtype), w]
        last = [np.ascontiguousarray(np.moveaxis(x, 1, -1))] + head[1:]
        bias = ints(I32, 6, low=-1000, high=1000)
        for attrs in ({}, {"pads": [1, 1, 1, 1]}, {"strides": [2, 2]}):
            yield Case("QLinearConv", head + rest, attrs, steps=1)
            yield Case("QLinearConv", last + rest + [bias], {**attrs, "channels_last": 1}, steps=1)


def products():
    for at, bt in ((U8, U8), (U8, I8), (I8, I8)):
        za, zb = scalar(ZERO[at], at), scalar(70 if bt == U8 else 3, bt)
        per_column = rand(6, low=0.01, high=0.03)
        zeros = np.full(6, 70 if bt == U8 else 3, bt)
        a, b = ints(at, 4, 5), weights(bt, 5, 6)
        op = "MatMulIntegerToFloat"
        yield Case(op, [a, b, scalar(0.02), scalar(0.03)])
        yield Case(op, [a, b, scalar(0.02), scalar(0.03), za, zb, rand(6)], const=(1, 3, 5, 6))
        yield Case(op, [a, b, scalar(0.02), per_column, za, zeros, rand(6)])
        yield Case(op, [a, b, scalar(0.02), scalar(0.03), None, zb])
        yield Case(op, [a, b, scalar(0.02), scalar(0.03), za, None, rand(6)])
        yield Case(op, [ints(at, 2, 3, 4, 5), weights(bt, 2, 3, 5, 6), scalar(0.02), scalar(0.03),
                        za, zb])
        op = "QGemm"
        for ta, tb, alpha in itertools.product((0, 1), (0, 1), (1.0, 0.5)):
            attrs = {"transA": ta, "transB": tb, "alpha": alpha}
            head = [a.T if ta else a, scalar(0.02), za, b.T if tb else b, scalar(0.03), zb]
            c = ints(I32, 6, low=-3000, high=3000)
            yield Case(op, head, attrs)
            yield Case(op, head + [c], attrs)
            yield Case(op, head + [c, scalar(0.1), scalar(ZERO[at], at)], attrs, steps=1)
            yield Case(op, head + [None, scalar(0.1), scalar(ZERO[at], at)], attrs, steps=1)
        yield Case(op, head[:4] + [per_column, zeros, ints(I32, 4, 6, low=-99, high=99)], attrs)
    for bt in (U8, I8):
        op = "DynamicQuantizeMatMul"
        x, b, z = rand(2, 4, 5), weights(bt, 5, 6), scalar(70 if bt == U8 else 0, bt)
        yield Case(op, [x, b, scalar(0.02)])
        yield Case(op, [x, b, scalar(0.02), z, rand(6)], const=(1, 2, 3, 4))
        yield Case(op, [x, b, scalar(0.02), None, rand(6)], const=(1,))
        yield Case(op, [x, b, rand(6, low=0.01, high=0.03), np.full(6, z, bt)], const=(1, 2, 3))
        yield Case(op, [x[0] + 2, b, scalar(0.02), z], dims={0: ("m", None)})
    yield Case("MulInteger", [ints(U8, 3, 4), None, ints(U8, 4)],
               expected=[ints(U8, 3, 4).astype(I32) * ints(U8, 4)])
    yield Case("MulInteger", [ints(I8, 3, 4), scalar(3, I8), ints(I8, 4), scalar(-2, I8)],
               expected=[(ints(I8, 3, 4).astype(I32) - 3) * (ints(I8, 4).astype(I32) + 2)])


def pack(values, bits):
    """Numbers along the last axis, the first one in the lowest bits of a byte."""
    each = 8 // bits
    values = np.pad(values, [(0, 0)] * (values.ndim - 1) + [(0, -values.shape[-1] % each)])
    values = values.reshape(*values.shape[:-1], -1, each).astype(np.uint32)
    return (values << (bits * np.arange(each))).sum(-1).astype(U8)


def few_bits():
    op = "MatMulNBits"
    for bits, (k, n, block), dtype in itertools.product(
            (2, 4, 8), ((32, 6, 16), (64, 5, 32), (40, 3, 16)), (F32, F16)):
        blocks = -(-k // block)
        rng = np.random.default_rng(k + n + bits)
        numbers = rng.integers(0, 1 << bits, (n, blocks, block))
        b, scales = pack(numbers, bits), rand(n, blocks, dtype=dtype, low=0.01, high=0.1)
        attrs = {"K": k, "N": n, "bits": bits, "block_size": block}
        x = rand(2, 3, k, dtype=dtype)
        packed = pack(rng.integers(0, 1 << bits, (n, blocks)), bits)
        plain = rand(n, blocks, dtype=dtype, low=1, high=2)
        for const in ((), (1, 2, 3)):
            limit = 2e-2 if dtype == F16 else 1e-4
            yield Case(op, [x, b, scales], attrs, const=const[:2], limit=limit)
            yield Case(op, [x, b, scales, packed], attrs, const=const, limit=limit)
            yield Case(op, [x, b, scales, packed, None, rand(n, dtype=dtype)], attrs, const=const,
                       limit=limit)
        yield Case(op, [x, b, scales, None, None, rand(n, dtype=dtype)], attrs, limit=limit)
        yield Case(op, [x[0, 0], b, scales], attrs, limit=limit)
        yield Case(op, [x, b, scales], attrs, const=(1, 2), limit=limit,
                   dims={0: ("b", "s", None)})
        yield Case(op, [x, b, scales], {**attrs, "accuracy_level": 1}, const=(1, 2), limit=limit)
        if bits == 4:
            yield Case(op, [x, b, scales, plain], attrs, const=(1, 2, 3), limit=limit)
        if bits == 4 and dtype == F32:
            groups = np.random.default_rng(1).integers(0, blocks, blocks * block).astype(I32)
            yield Case(op, [x, b, scales, None, groups], attrs, const=(1, 2, 4), limit=limit)
            yield Case(op, [x, b.reshape(n, blocks, -1), scales.reshape(-1), packed.reshape(-1)],
                       attrs, const=(1, 2, 3), limit=limit)
    op = "GatherBlockQuantized"
    for bits, dtype in itertools.product((4, 8), (F32, F16)):
        rng = np.random.default_rng(bits)
        data, zeros = (pack(rng.integers(0, 1 << bits, (10, m)), bits) for m in (48, 3))
        scales = rand(10, 3, dtype=dtype, low=0.01, high=0.1)
        attrs = {"gather_axis": 0, "quantize_axis": 1, "block_size": 16, "bits": bits}
        for indices in (np.array([[1, 9, 0], [3, 3, 2]], np.int64), np.array([4], I32),
                        np.array(-2, np.int64)):
            yield Case(op, [data, indices, scales], attrs, const=(0, 2))
            yield Case(op, [data, indices, scales, zeros], attrs, const=(0, 2, 3))
            yield Case(op, [data, indices, scales, zeros], attrs)


def linear():
    x = rand(3, 4, low=-2, high=2)
    for dtype in (U8, I8):
        for scale, zero in ((scalar(0.02), scalar(ZERO[dtype], dtype)),
                            (rand(4, low=0.01, high=0.1), ints(dtype, 4))):
            attrs = {"axis": 1} if scale.ndim else {}
            yield Case("QuantizeLinear", [x, scale, zero], attrs, steps=1)
            yield Case("DequantizeLinear", [ints(dtype, 3, 4), scale, zero], attrs)
            yield Case("DequantizeLinear", [ints(dtype, 3, 4), scale], attrs)
    yield Case("QuantizeLinear", [x, scalar(0.02)], steps=1)
    yield Case("QuantizeLinear", [x, scalar(0.002), scalar(30000, np.uint16)], steps=1)
    yield Case("DequantizeLinear", [ints(np.int16, 3, 4), scalar(0.002), scalar(3, np.int16)])


def lstm():
    op, h, inputs, batch = "DynamicQuantizeLSTM", 8, 6, 2
    for wt, directions, columns in itertools.product((U8, I8), (1, 2), (False, True)):
        w, r = weights(wt, directions, inputs, 4 * h), weights(wt, directions, h, 4 * h)
        zero = 100 if wt == U8 else 0
        shape = (directions, 4 * h) if columns else (directions,)
        quantisation = [rand(*shape, low=0.01, high=0.02), np.full(shape, zero, wt),
                        rand(*shape, low=0.01, high=0.02, seed=1), np.full(shape, zero, wt)]
        b, p = rand(directions, 8 * h), rand(directions, 3 * h)
        start = [rand(directions, batch, h), rand(directions, batch, h, seed=1)]
        x = rand(4, batch, inputs)
        way = {"direction": "bidirectional"} if directions == 2 else {}
        common = dict(outputs=3, limit=2e-3, const=(1, 2, 8, 9, 10, 11))
        for given in ([None] * 5, [b, None, None, None, None], [b, None, *start, None],
                      [b, None, *start, p]):
            yield Case(op, [x, w, r, *given, *quantisation], {"hidden_size": h, **way}, **common)
        yield Case(op, [x, w, r, b, None, *start, p, *quantisation],
                   {"hidden_size": h, "input_forget": 1, "clip": 0.5, **way}, **common)
        if directions == 1:
            yield Case(op, [x, w, r, b, None, *start, p, *quantisation],
                       {"hidden_size": h, "direction": "reverse"}, **common)
            yield Case(op, [x[:, :1], w, r, b, np.array([3], I32), *[None] * 3, *quantisation],
                       {"hidden_size": h}, **common)
            yield Case(op, [x, w, r, b, None, *start, None, *quantisation],
                       {"hidden_size": h, "activations": ["HardSigmoid", "Relu", "Softsign"],
                        "activation_alpha": [0.3], "activation_beta": [0.4]}, **common)


def cases():
    yield from element_wise()
    yield from pools()
    yield from structure()
    yield from convolutions()
    yield from products()
    yield from few_bits()
    yield from linear()
    yield from lstm()
