"""Operators that compute each element alone."""
import numpy as np
from builder import BOOL, F16, F32, F64, I8, I32, I64, INTS, RARE, U8, Refused
from families import family
from graph import elem

ALL_FLOATS = (F32, F64, F16)
NUMBERS = ALL_FLOATS + INTS + RARE

ANY_RANGE = ("Neg Abs Sign Sigmoid Tanh Relu Erf Sin Cos Atan Softplus Softsign Elu Selu LeakyRelu "
             "HardSigmoid ThresholdedRelu Celu HardSwish Mish Gelu Exp Floor Ceil Round Sinh Cosh "
             "Asinh Identity Shrink Swish").split()
SINCE = {"ThresholdedRelu": 10, "Mish": 18, "Gelu": 20, "HardSwish": 14, "Celu": 12, "Swish": 24}
ALPHA = "Elu LeakyRelu HardSigmoid ThresholdedRelu Celu Selu Swish".split()


@family("elementwise", 6)
def unary(b):
    op = b.choice(ANY_RANGE)
    if b.opset < SINCE.get(op, 1):
        raise Refused
    attrs = {}
    if op in ALPHA and b.chance(0.5):
        attrs["alpha"] = round(b.random.uniform(0.1, 1.5), 2)
    if op == "Gelu" and b.chance(0.5):
        attrs["approximate"] = b.choice(("tanh", "none"))
    if op in ("HardSwish", "Gelu"):
        return b.emit(op, [b.pick((F32, F16))], **attrs)  # onnxruntime computes f64 in f32
    if op == "Shrink":
        attrs = {"lambd": round(b.random.uniform(0, 1), 2), "bias": b.choice((0.0, 0.25))}
        return b.emit(op, [b.pick((F32, F16))], **attrs)  # as for HardSwish
    if op in ("Neg", "Abs", "Sign", "Relu", "Identity") and b.chance(0.3):
        return b.emit(op, [b.pick((I32, I64, I8))], **attrs)
    return b.emit(op, [b.pick()], **attrs)


@family("elementwise", 2)
def unary_limited(b):
    """Functions that are defined for some numbers alone, mostly of those."""
    op = b.choice("Log Sqrt Reciprocal Asin Acos Acosh Atanh Tan".split())
    x = b.pick(ALL_FLOATS)
    one = b.constant(np.array(1, x.dtype))
    if op in ("Log", "Sqrt", "Reciprocal"):
        x = b.emit("Abs", [x])
        if op != "Sqrt" or b.chance(0.5):
            x = b.emit("Add", [x, b.constant(np.array(b.choice((0.5, 1, 0.01)), x.dtype))])
    elif op == "Acosh":
        x = b.emit("Add", [b.emit("Abs", [x]), b.constant(np.array(1.25, x.dtype))])
    else:
        x = b.emit("Mul", [b.emit("Tanh", [x]), b.constant(np.array(0.9, x.dtype))])
    if op == "Reciprocal" and b.chance(0.3):
        return b.emit("Div", [one, x])
    return b.emit(op, [x])


@family("elementwise", 8)
def binary(b):
    op = b.choice(("Add", "Sub", "Mul", "Add", "Sub", "Mul", "Max", "Min", "Sum", "Mean"))
    x = b.pick()
    y = b.partner(x)
    operands = [x, y] if b.chance(0.5) else [y, x]
    if op in ("Max", "Min", "Sum", "Mean"):
        operands += [b.partner(x) for _ in range(b.int(-1, 2))]
    return b.emit(op, operands)


@family("elementwise", 2)
def divide(b):
    x = b.pick(NUMBERS)
    y = b.partner(x)
    if x.dtype.kind in "iu":
        y = nonzero(b, y)
    else:
        y = b.emit("Add", [b.emit("Abs", [y]), b.constant(np.array(0.5, y.dtype))])
    return b.emit("Div", [x, y])


def nonzero(b, y):
    """Integers without 0 and -1 (which overflows)."""
    bad = b.emit("Equal", [y, b.constant(np.array(0, y.dtype))]) if y.dtype.kind == "u" else b.emit(
        "Equal", [b.emit("Max", [y, b.constant(np.array(-1, y.dtype))]),
                  b.emit("Min", [y, b.constant(np.array(0, y.dtype))])])
    return b.emit("Where", [bad, b.constant(np.array(b.choice((2, 3, 7)), y.dtype)), y])


@family("elementwise", 1)
def modulo(b):
    x = b.pick(NUMBERS)
    y = b.partner(x)
    if x.dtype.kind in "iu":
        return b.emit("Mod", [x, nonzero(b, y)], fmod=b.int(0, 1))
    y = b.emit("Add", [b.emit("Abs", [y]), b.constant(np.array(0.5, y.dtype))])
    return b.emit("Mod", [x, y], fmod=1)


@family("elementwise", 1)
def power(b):
    x = b.pick(ALL_FLOATS)
    if b.chance(0.6):  # exponents that compilers treat apart
        y = b.constant(np.array(b.choice((2, 3, 0, 1, 2, 4)), b.choice((x.dtype, F32, I64))))
    else:
        x = b.emit("Add", [b.emit("Abs", [x]), b.constant(np.array(0.25, x.dtype))])
        y = b.partner(x) if b.chance(0.5) else b.constant(
            np.array(b.choice((0.5, -0.5, -1, 1.7, -2)), x.dtype))
    return b.emit("Pow", [x, y])


@family("elementwise", 3)
def compare(b):
    op = b.choice("Equal Less Greater LessOrEqual GreaterOrEqual".split())
    x = b.pick(NUMBERS + ((BOOL,) if op == "Equal" else ()))
    return b.emit(op, [x, b.partner(x)])


@family("elementwise", 2)
def logic(b):
    x = b.pick((BOOL,))
    op = b.choice(("And", "Or", "Xor", "Not"))
    return b.emit(op, [x] if op == "Not" else [x, b.partner(x)])


@family("elementwise", 3)
def where(b):
    x = b.pick()
    y = b.partner(x)
    shape = b.choice((x.shape, np.broadcast_shapes(x.shape, y.shape), (1,) * x.rank))
    return b.emit("Where", [b.fitted(BOOL, shape), x, y] if b.chance(0.5)
                  else [b.fitted(BOOL, shape), y, x])


@family("elementwise", 4)
def cast(b):
    x = b.pick()
    to = b.choice((F32, F32, F64, F16, I64, I32, I8, U8, BOOL, b.choice(RARE)))
    if x.dtype.kind == "f" and to.kind in "iu":
        if not np.isfinite(x.array).all():
            raise Refused
        low, high = (0, 100) if to.kind == "u" else (-100, 100)
        if x.size and not (np.min(x.array) > low and np.max(x.array) < high):
            x = b.emit("Clip", [x, b.constant(np.array(low, x.dtype)),
                                b.constant(np.array(high, x.dtype))])
    if b.opset >= 19 and b.chance(0.1):
        return b.emit("CastLike", [x, b.weight(to, ())])
    return b.emit("Cast", [x], to=elem(np.empty(0, to)))


@family("elementwise", 2)
def clip(b):
    x = b.pick(ALL_FLOATS + (I32, I64, I8))
    low, high = (b.constant(np.array(v, x.dtype)) for v in b.choice(((0, 6), (-1, 1), (0, 1))))
    if b.opset < 11:
        return b.emit("Clip", [x], min=float(low.array), max=float(high.array))
    inputs = b.choice(([x, low, high], [x, None, high], [x, low], [x]))
    return b.emit("Clip", inputs)


@family("elementwise", 1)
def prelu(b):
    x = b.pick(ALL_FLOATS)
    axis = b.int(0, x.rank)
    shape = [d if b.chance(0.6) else 1 for d in x.shape[axis:]]
    return b.emit("PRelu", [x, b.weight(x.dtype, shape)])


@family("elementwise", 1)
def bits(b):
    if b.chance(0.4):
        x = b.pick((U8, *RARE[1:]))
        return b.emit("BitShift", [x, b.constant(np.array(b.int(0, 7), x.dtype))],
                      direction=b.choice(("LEFT", "RIGHT")))
    if b.opset < 18:
        raise Refused
    x = b.pick(INTS + RARE)
    op = b.choice(("BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitwiseNot"))
    return b.emit(op, [x] if op == "BitwiseNot" else [x, b.partner(x)])


@family("elementwise", 0.7)
def special(b):
    """NaN and infinities, made and looked for."""
    x = b.pick(ALL_FLOATS)
    zero = b.constant(np.array(0, x.dtype))
    return b.emit(b.choice(("IsNaN", "IsInf")), [b.emit("Add", [x, zero])])
