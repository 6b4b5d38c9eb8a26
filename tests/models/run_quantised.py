#!/usr/bin/env python3
"""Products of quantised tensors, as models hold them, against exact sums.

    run_quantised.py --tilewright COMMAND [--work DIR]

One model has every form: MatMulInteger and ConvInteger, whose results are exact, and the same
products between DequantizeLinear and QuantizeLinear, which may differ by one step where the
rounding of floating point decides. It is compiled at all levels and for each instruction set, which
have code of their own for these products.

Another holds products of u8 and i8 compiled with --saturate-products, against sums whose pairs of
neighbours saturate to 16 bits. A third one holds products with weights of few bits in blocks, which
are unpacked where they are multiplied, against sums of 64 bits.
"""
import argparse
import itertools
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from common import Report, Tilewright, load

U8, I8, F32 = np.uint8, np.int8, np.float32
ELEM = {U8: TensorProto.UINT8, I8: TensorProto.INT8}
# Attributes of a convolution; numbers of input channels, output channels and groups.
CONVS = [({"pads": [1, 1, 1, 1], "strides": [2, 2]}, 3, 17, 1), ({}, 8, 16, 1),
         ({"dilations": [2, 1]}, 5, 6, 1), ({"pads": [0, 1, 2, 1]}, 6, 6, 6),
         ({"pads": [1, 1, 1, 1]}, 8, 12, 2), ({"pads": [1, 1, 1, 1]}, 16, 32, 2),
         ({"strides": [2, 1]}, 12, 48, 2)]
MATMULS = [((3, 7), 5), ((2, 6, 32), 48), ((1, 64), 33), ((0, 8), 4)]
CPUS = ["x86-64-v2", "x86-64-v3", "x86-64-v4", "host"]


def random(rng, dtype, shape):
    info = np.iinfo(dtype)
    return rng.integers(info.min, info.max + 1, shape).astype(dtype)


def conv(x, w, attrs, groups):
    """The convolution of integers."""
    pads = attrs.get("pads", [0] * 4)
    strides, dilations = attrs.get("strides", [1, 1]), attrs.get("dilations", [1, 1])
    x = np.pad(x, ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])))
    spans = [d * (k - 1) + 1 for d, k in zip(dilations, w.shape[2:])]
    windows = np.lib.stride_tricks.sliding_window_view(x, spans, axis=(2, 3))
    windows = windows[:, :, ::strides[0], ::strides[1], ::dilations[0], ::dilations[1]]
    parts = zip(np.split(windows, groups, axis=1), np.split(w, groups, axis=0))
    return np.concatenate([np.einsum("nchwij,ocij->nohw", a, b) for a, b in parts], axis=1)


class Model:
    def __init__(self):
        self.graph = onnx.GraphProto(name="quantised")
        self.rng = np.random.default_rng(1)
        self.feeds, self.expected, self.n = {}, {}, 0

    def name(self, what):
        self.n += 1
        return f"{what}{self.n}"

    def constant(self, value):
        name = self.name("c")
        self.graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def input(self, value):
        name = self.name("x")
        kind = helper.np_dtype_to_tensor_dtype(value.dtype)
        self.graph.input.append(helper.make_tensor_value_info(name, kind, value.shape))
        self.feeds[name] = value
        return name

    def node(self, op, inputs, **attrs):
        name = self.name("y")
        self.graph.node.append(helper.make_node(op, inputs, [name], **attrs))
        return name

    def output(self, name, value):
        self.graph.output.append(onnx.ValueInfoProto(name=name))
        self.expected[name] = value

    def product(self, integer, real, attrs, x, w, channel, compute):
        """The integer operator, and `real` between dequantisation and quantisation, for zero
        points that are 0, in the middle of the range, or one for each output channel."""
        n = w.shape[channel]
        shape = [n if i == channel else 1 for i in range(w.ndim)]
        middle = {U8: 128, I8: 0}[w.dtype.type]
        some = random(self.rng, w.dtype, n)
        for x_zero, w_zero in itertools.product((0, 97), (middle, 3, some)):
            exact = compute(x.astype(np.int64) - x_zero,
                            w.astype(np.int64) - np.reshape(w_zero, shape if np.ndim(w_zero) else ()))
            xz = self.constant(np.array(x_zero, x.dtype))
            wz = self.constant(np.array(w_zero, w.dtype))
            y = self.node(integer, [self.input(x), self.constant(w), xz, wz], **attrs)
            self.output(y, exact.astype(np.int32))
            self.dequantised(real, attrs, x, w, xz, wz, np.ndim(w_zero), channel, exact)

    def dequantised(self, real, attrs, x, w, xz, wz, per_channel, channel, exact):
        n = w.shape[channel]
        scale = np.linspace(0.01, 0.03, n, dtype=F32) if per_channel else F32(0.015)
        axis = {"axis": channel} if per_channel else {}
        a = self.node("DequantizeLinear", [self.input(x), self.constant(F32(0.02)), xz])
        b = self.node("DequantizeLinear", [self.constant(w), self.constant(scale), wz], **axis)
        y = self.node(real, [a, b], **attrs)
        over = F32(max(np.abs(exact).max(initial=0) * 0.0006 / 120, 1e-3))
        y = self.node("QuantizeLinear", [y, self.constant(over), self.constant(I8(4))])
        along = np.reshape(scale, [-1] + [1] * (exact.ndim - 2) if real == "Conv" else -1)
        value = exact * (np.float64(F32(0.02)) * along) if per_channel else exact * (0.02 * scale)
        self.output(y, np.clip(np.round(value / over) + 4, -128, 127).astype(I8))


def make_model():
    m = Model()
    for x_type, w_type in itertools.product((U8, I8), (U8, I8)):
        for shape, n in MATMULS:
            x, w = random(m.rng, x_type, shape), random(m.rng, w_type, (shape[-1], n))
            m.product("MatMulInteger", "MatMul", {}, x, w, 1, np.matmul)
        for attrs, channels, n, groups in CONVS:
            x = random(m.rng, x_type, (1, channels, 9, 8))
            w = random(m.rng, w_type, (n, channels // groups, 3, 3))
            both = {**attrs, "group": groups}
            m.product("ConvInteger", "Conv", both, x, w, 0,
                      lambda a, b, attrs=attrs, groups=groups: conv(a, b, attrs, groups))
    return m


def saturated(x, w):
    """Their product with pairs of neighbours along the sum added with saturation."""
    x, w = (np.pad(a.astype(np.int64), [(0, n % 2 if i == axis else 0) for i, n in enumerate(a.shape)])
            for a, axis in ((x, x.ndim - 1), (w, w.ndim - 2)))
    pairs = x[..., 0::2, None] * w[..., None, 0::2, :] + x[..., 1::2, None] * w[..., None, 1::2, :]
    return pairs.clip(-32768, 32767).sum(-2), (x @ w)


def make_saturating_model():
    """Extreme bytes, so that most pairs saturate; all operators that multiply matrices of bytes."""
    m = Model()
    one, zero = m.constant(F32(1)), m.constant(I8(0))
    for (shape, n), x_zero, w_zero in itertools.product(MATMULS, (0, 97), (0, 5)):
        x = m.rng.choice(np.array([0, 1, 254, 255], U8), shape)
        w = m.rng.choice(np.array([-128, -127, 126, 127], I8), (shape[-1], n))
        product, exact = saturated(x, w)
        correct = (x.astype(np.int64) - x_zero) @ (w.astype(np.int64) - w_zero) - exact
        assert exact.size == 0 or (product != exact).any()
        xz, wz = m.constant(np.array(x_zero, U8)), m.constant(np.array(w_zero, I8))
        y = m.node("MatMulInteger", [m.input(x), m.constant(w), xz, wz])
        m.output(y, (product + correct).astype(np.int32))
        y = m.node("QLinearMatMul", [m.input(x), one, xz, m.constant(w), one, wz,
                                     m.constant(F32(20000)), zero])
        m.output(y, np.clip(np.round((product + correct) / 20000), -128, 127).astype(I8))
    x, w = np.full((2, 4), -1, I8), np.full((4, 3), 127, I8)  # i8 by i8: exact as ever
    m.output(m.node("MatMulInteger", [m.input(x), m.constant(w)]),
             x.astype(np.int32) @ w.astype(np.int32))
    return m


def pack(numbers, bits):
    """Numbers along the last axis, the first one in the lowest bits of a byte."""
    each = 8 // bits
    numbers = np.pad(numbers, [(0, 0)] * (numbers.ndim - 1) + [(0, -numbers.shape[-1] % each)])
    parts = numbers.astype(np.int64).reshape(*numbers.shape[:-1], -1, each) & ((1 << bits) - 1)
    return (parts << (bits * np.arange(each))).sum(-1).astype(U8)


def matmul_nbits(m, x, k, n, bits, block, with_zeros):
    """MatMulNBits; the exact result."""
    blocks = -(-k // block)
    q = m.rng.integers(0, 1 << bits, (n, blocks, block))
    zeros = m.rng.integers(0, 1 << bits, (n, blocks)) if with_zeros else np.full((n, blocks),
                                                                                  1 << (bits - 1))
    scales = m.rng.uniform(0.01, 0.1, (n, blocks)).astype(F32)
    w = (q - zeros[..., None]) * scales[..., None].astype(np.float64)
    inputs = [m.input(x), m.constant(pack(q, bits)), m.constant(scales)]
    inputs += [m.constant(pack(zeros, bits))] * with_zeros
    y = m.node("MatMulNBits", inputs, domain="com.microsoft", K=k, N=n, bits=bits, block_size=block)
    m.output(y, x.astype(np.float64) @ w.reshape(n, -1)[:, :k].T)


def dequantised_matmul(m, x, k, n, elem, block, with_zeros, transposed):
    """MatMul with DequantizeLinear of 4-bit weights: in blocks along k, or (block 0) by column."""
    low = -8 if elem == TensorProto.INT4 else 0
    q = m.rng.integers(low, low + 16, (n, k) if transposed else (k, n))
    axis, count = (1, n) if transposed else (0, n)
    shape = list(q.shape)
    shape[axis] = -(-k // block) if block else 1
    scales = m.rng.uniform(0.01, 0.1, shape).astype(F32)
    zeros = m.rng.integers(low, low + 16, shape) if with_zeros else np.zeros(shape, np.int64)

    def along(v):
        return np.take(np.repeat(v, block, axis), range(k), axis) if block else v

    def four_bits(v):
        name = m.name("c")
        m.graph.initializer.append(helper.make_tensor(name, elem, v.shape, pack(v.ravel(), 4).tobytes(),
                                                      raw=True))
        return name

    def part(v):
        return v if block else v.reshape(count)

    attrs = {"axis": axis, "block_size": block} if block else {"axis": 1 - axis}
    inputs = [four_bits(q), m.constant(part(scales))] + [four_bits(part(zeros))] * with_zeros
    w = m.node("DequantizeLinear", inputs, **attrs)
    exact = (q - along(zeros)) * along(scales).astype(np.float64)
    if transposed:
        w, exact = m.node("Transpose", [w], perm=[1, 0]), exact.T
    m.output(m.node("MatMul", [m.input(x), w]), x.astype(np.float64) @ exact)


def make_few_bits_model():
    m = Model()
    for rows, k, n, block in itertools.product((1, 9), (128, 200), (40,), (16, 32, 64, 128, 256)):
        x = m.rng.standard_normal((rows, k)).astype(F32)
        for bits, zeros in itertools.product((2, 4, 8), (False, True)):
            matmul_nbits(m, x, k, n, bits, block, zeros)
    elems = (TensorProto.INT4, TensorProto.UINT4)
    for elem, block, zeros, transposed in itertools.product(elems, (0, 16, 32, 128), (False, True),
                                                            (False, True)):
        for rows, k, n in ((1, 128, 40), (5, 200, 12)):
            x = m.rng.standard_normal((2, rows, k)).astype(F32)
            dequantised_matmul(m, x, k, n, elem, block, zeros, transposed)
    return m


class Files:
    """Runs one of the models and compares."""

    def __init__(self, tw, work, m):
        self.tw, self.m = tw, m
        self.path, self.inputs, self.outputs = (work / n for n in ("q.onnx", "in.npz", "out.npz"))
        work.mkdir()
        onnx.save(helper.make_model(m.graph, opset_imports=[
            helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)], ir_version=10),
            self.path)
        np.savez(self.inputs, **m.feeds)

    def run(self, level, cpu, *more):
        self.tw("run", self.path, "--inputs", self.inputs, "--outputs", self.outputs, "-O", level,
                "--cpu", cpu, *more)
        got = load(self.outputs)
        for name, expected in self.m.expected.items():
            if expected.dtype == np.float64:
                most = np.abs(got[name] - expected).max() / np.abs(expected).max()
                assert most < 2e-6, f"{name} is off by {most}"
                continue
            steps = expected.dtype == I8
            off = np.abs(got[name].astype(np.int64) - expected)
            assert off.max(initial=0) <= steps, f"{name} is off by up to {off.max()}"
        return f"{len(self.m.expected)} products"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilewright", required=True)
    parser.add_argument("--work", type=Path)
    args = parser.parse_args()
    tw, report = Tilewright(args.tilewright), Report()
    with tempfile.TemporaryDirectory(dir=args.work) as work:
        exact = Files(tw, Path(work) / "exact", make_model())
        saturating = Files(tw, Path(work) / "saturating", make_saturating_model())
        few = Files(tw, Path(work) / "few", make_few_bits_model())
        for level in "0123":
            report.case(f"level {level}", lambda level=level: exact.run(level, "host"))
            report.case(f"level {level}, saturating", lambda level=level: saturating.run(
                level, "host", "--saturate-products"))
        for level in "03":
            report.case(f"level {level}, few bits", lambda level=level: few.run(level, "host"))
        for cpu in CPUS[:-1]:
            report.case(cpu, lambda cpu=cpu: exact.run("3", cpu))
            report.case(f"{cpu}, few bits", lambda cpu=cpu: few.run("3", cpu))
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
