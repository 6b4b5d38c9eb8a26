"""Strings: casts from and to numbers, and what moves them about."""
import numpy as np

from case import Case
from cases_linear import F16, F32, F64


def onnx(op, inputs, attrs=None, opset=19, **more):
    return Case(op, inputs, attrs or {}, domain="", opset=opset, **more)


def text(*items, shape=None):
    return np.array(items, object).reshape(shape or (len(items),))


def ints(*values):
    return np.array(values, np.int64)


STRING, FLOAT = 8, 1
OTHERS = {11: F64, 10: F16, 7: np.int64, 6: np.int32, 3: np.int8, 2: np.uint8, 13: np.uint64, 9: bool}


def casts():
    reals = [0, -0.0, 1, 1.5, 0.1, 1 / 3, 1e-5, 1e-4, 123456789, 1e7, 1e8, 1e38, 1e-38, 2.5e-10,
             np.inf, -np.inf, np.nan, 65504, 100]
    for dtype in (F16, F32, F64):
        with np.errstate(over="ignore"):
            yield onnx("Cast", [np.array(reals, dtype)], {"to": STRING})
    yield onnx("Cast", [np.array([1e308, 5e-324])], {"to": STRING})
    for dtype in (np.int8, np.uint8, np.int16, np.int32, np.int64, np.uint64):
        ends = np.iinfo(dtype)
        yield onnx("Cast", [np.array([[ends.min, 7, ends.max]], dtype)], {"to": STRING})
    yield onnx("Cast", [np.array([True, False])], {"to": STRING})
    numbers = ("1.5", "-inf", "1e3", "INF", "+INF", "-INF", "nan", "NaN", " 7", "+3", ".5", "5.",
               "1E-5", "-0", "0.1", "300", "99999999999999999999")
    for to in (FLOAT, 11, 10):
        yield onnx("Cast", [text(*numbers)], {"to": to})
    for to in OTHERS:
        yield onnx("Cast", [text("1", " 7", "+3", "-3", "3.9", "300", "0", "5.", shape=(2, 4))],
                   {"to": to})
    yield onnx("CastLike", [text("15", "-3"), ints(1)])
    yield onnx("Cast", [np.zeros((0, 3), F32)], {"to": STRING})


def scatters():
    for reverse in (1, -1):
        yield onnx("ScatterElements", [text("a", "b", "c"), ints(2, 0), text("X", "")])
        yield onnx("ScatterElements", [text(*"abcdef", shape=(2, 3)), ints(2, -1)[::reverse, None],
                                       text("X", "Y", shape=(2, 1))], {"axis": 1})
    yield onnx("ScatterND", [text("a", "b", "c"), ints(2, 0)[:, None], text("p", "q")])
    yield onnx("ScatterND", [text(*"abcdef", shape=(2, 3)), ints(1)[:, None],
                             text("p", "q", "r", shape=(1, 3))])


def pads():
    """onnxruntime pads no strings."""
    x = text(*"abcdef", shape=(2, 3))
    for mode in ("constant", "edge", "reflect", "wrap"):
        for value in (None, np.array("zz", object)):
            if value is not None and mode != "constant":
                continue
            fill = {"constant_values": "" if value is None else "zz"} if mode == "constant" else {}
            expected = np.pad(x, ((1, 0), (0, 2)), mode, **fill)
            for const in ((), (1,)):
                inputs = [x, ints(1, 0, 0, 2)] + ([value] if value is not None else [])
                yield onnx("Pad", inputs, {"mode": mode}, const=const, expected=[expected])
    yield onnx("Trilu", [x], expected=[text("a", "b", "c", "", "e", "f", shape=(2, 3))])
    yield onnx("CenterCropPad", [x, ints(3, 1)],
               expected=[text("b", "e", "", shape=(3, 1))], const=(1,))


def patterns():
    texts = text("ab", "AB", "aB", "Ab", "a\nb", "a\nB", "", "\u00c4b", "\u00e4b", "\u212ab", "kB", "a",
                 "b", "\u03c3\u03c2", "\u03a3\u03a3", "\u0436", "\u0416", "\u017f", "S", "\u0178", "\u1e9e",
                 "\u00df")
    for pattern in ("(?i)ab", "(?i:a)b", "(a(?i)b|k.)", "(?i)[^b]b", "(?i)[a-k]b", "(?s)a.b",
                    "(?s-i:.)+", "(?m)a$\n^b", "(?im)A$.?\n?^B", "(?i)\u00e4b", "(?i)kb",
                    "(?i)\u03c3+", "(?i)\u0436", "(?i)s", "(?i)[\u00df\u00ff]", "(?U)a*?b*",
                    "(?i)(?-i)ab", "((?i)a)b", "(?i)\\x41B", "(?i)[[:upper:]]+",
                    "(?i)[^[:upper:]]+", "(?i)\\w+", "(?i)\u017f"):
        yield onnx("RegexFullMatch", [texts], {"pattern": pattern}, opset=20)


def cases():
    yield from patterns()
    yield from casts()
    yield from scatters()
    yield from pads()
