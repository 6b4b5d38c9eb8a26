"""Sizes that meet in broadcasting and are known only when the model runs: equal ones, 1, 0."""
import numpy as np

from case import MS, Case
from cases_linear import F32, rand

# What two symbols stand for.
PAIRS = ((5, 5), (1, 5), (5, 1), (1, 1), (0, 0), (0, 1), (1, 0))


def case(op, inputs, dims, attrs=None, **more):
    return Case(op, inputs, attrs or {}, dims=dict(enumerate(dims)), **{"domain": "", **more})


def elementwise():
    for a, b in PAIRS:
        dims = [(None, "a"), (None, "b")]
        x, y = rand(3, a), rand(3, b)
        for op in ("Add", "Sub", "Mul", "Less", "Max", "Min", "Sum", "Mean"):
            yield case(op, [x, y], dims)
        yield case("Pow", [np.abs(x), y], dims)
        yield case("Mod", [x, y + 3], dims, {"fmod": 1})
        yield case("And", [x > 0, y > 0], dims)
        yield case("BitwiseXor", [(x * 9).astype(np.int32), (y * 9).astype(np.int32)], dims)
        yield case("Add", [x, rand(b)], [(None, "a"), ("b",)], note="of lower rank")
        yield case("Add", [x, rand(1, b, 1, b)], [(None, "a"), (None, "c", None, "b")])
        yield case("Add", [rand(a, b), rand(b, a)], [("a", "b"), ("c", "d")], note="crosswise")


def several():
    for a, b in PAIRS:
        for c in {a, b, 1}:
            dims = [("a", 2), ("b", 2), ("c", 2)]
            x, y, z = rand(a, 2), rand(b, 2), rand(c, 2)
            for op in ("Sum", "Max", "Mean"):
                yield case(op, [x, y, z], dims)
            yield case("Where", [x > 0, y, z], dims)
            yield case("Where", [z > 0, rand(2), rand()], [("c", 2), (None,), ()])


def known_against_open():
    for a in (1, 5):
        yield case("Mul", [rand(3, a), rand(3, 5)], [(None, "a"), (None, None)])
        yield case("Mul", [rand(a, 5), rand(5)], [(None, "a"), (None,)])
    for a in (0, 1):
        yield case("Mul", [rand(3, a), rand(3, 0)], [(None, "a"), (None, None)])


def products():
    for a, b in PAIRS:
        yield case("MatMul", [rand(a, 2, 3), rand(b, 3, 4)], [("a", None, None), ("b", None, "n")])
        yield case("MatMul", [rand(a, b, 2, 3), rand(b, 1, 3, 4)],
                   [("a", "b", None, "k"), ("c", "d", "l", None)])
        yield case("MatMul", [rand(a, 20, 33), rand(b, 33, 40)], [("a", "m", "k"), ("b", "l", "n")])
        if b == 1 or a == b:
            yield case("Gemm", [rand(a, 3), rand(3, 4), rand(b, 4)],
                       [("a", None), (None, None), ("b", None)], {"beta": 0.5})
            yield case("Gemm", [rand(a, 3), rand(3, 4), rand(b, 1)],
                       [("a", None), (None, None), ("b", "c")])
            yield case("PRelu", [rand(3, a), rand(b)], [(None, "a"), ("b",)], opset=16)
            yield case("FusedMatMul", [rand(a, 3, 2), rand(b, 3, 4)],
                       [("a", None, None), ("b", None, None)], {"transA": 1}, domain=MS)


def shapes():
    for a, b in PAIRS:
        yield case("Expand", [rand(3, a), np.array([3, b], np.int64)], [(None, "a"), (None,)])
        yield case("Expand", [rand(a, 1), np.array([2, b, 4], np.int64)], [("a", "c"), (None,)],
                   const=(1,))


def quantised():
    for a, b in PAIRS:
        x, y = ((rand(2, n) * 20 + 100).astype(np.uint8) for n in (a, b))
        scale, zero = np.array(0.1, F32), np.array(100, np.uint8)
        for op in ("QLinearAdd", "QLinearMul"):
            yield case(op, [x, scale, zero, y, scale, zero, scale, zero],
                       [(None, "a"), (), (), (None, "b")], domain=MS, steps=1)
        if a == b:
            yield case("DequantizeLinear", [x, rand(b, low=0.1, high=1)], [(None, "a"), ("b",)],
                       {"axis": 1}, opset=13)


def cases():
    for group in (elementwise, several, known_against_open, products, shapes, quantised):
        yield from group()
