"""Reductions, normalisations, sorting and running sums."""
import numpy as np
from builder import F16, F32, F64, I8, I32, I64, U8, Refused
from families import family
from ops_movement import with_axes

ALL_FLOATS = (F32, F32, F32, F64, F16)
PLAIN = """ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2
ReduceSumSquare""".split()


@family("reduce", 5)
def reduce(b):
    op = b.choice(PLAIN + ["ReduceLogSumExp", "ReduceLogSum"])
    x = b.pick(ALL_FLOATS + ((I32, I64) if op in PLAIN else ()), test=lambda v: v.size)
    if x.dtype.kind == "i" and op not in ("ReduceMax", "ReduceMin") and (
            b.wide or np.square(x.array.astype(np.float64)).sum() > 2**24):
        raise Refused  # onnxruntime adds integers as floating-point numbers
    if x.dtype.kind == "i" and op == "ReduceProd" and (
            np.abs(x.array.astype(np.float64)).clip(1).prod() > 2**24):
        raise Refused  # likewise; beyond the type's range it does not wrap
    if op == "ReduceLogSum":
        x = b.emit("Add", [b.emit("Abs", [x]), b.constant(np.array(0.5, x.dtype))])
    if op == "ReduceProd" and x.size > 64:
        raise Refused
    attrs = {} if b.chance(0.2) else {"keepdims": b.int(0, 1)}
    since = 13 if op == "ReduceSum" else 18
    if not x.rank or b.chance(0.1):
        if b.opset >= since and b.chance(0.3):
            attrs["noop_with_empty_axes"] = 1
        return b.emit(op, [x], **attrs)
    return with_axes(b, op, x, b.axes(x), since, **attrs)


@family("reduce", 2)
def arg(b):
    x = b.pick(ALL_FLOATS + (I32, I8, U8), test=lambda v: v.rank and v.size)
    attrs = {"select_last_index": 1} if b.opset >= 12 and b.chance(0.3) else {}
    return b.emit(b.choice(("ArgMax", "ArgMin")), [x], axis=b.axis(x), keepdims=b.int(0, 1),
                  **attrs)


@family("reduce", 4)
def softmax(b):
    x = b.pick(ALL_FLOATS, test=lambda v: v.rank and v.size)
    # Hardmax of nearly equal numbers is either's.
    ops = ("Softmax", "Softmax", "LogSoftmax") + ("Hardmax",) * b.exact
    return b.emit(b.choice(ops), [x], axis=b.axis(x))


@family("reduce", 2)
def layer_normalization(b):
    if b.opset < 17:
        raise Refused
    x = b.pick(ALL_FLOATS, test=lambda v: v.rank and v.size)
    axis = b.int(0, x.rank - 1)
    shape = x.shape[axis:]
    inputs = [x, b.weight(x.dtype, shape)] + [b.weight(x.dtype, shape)] * b.int(0, 1)
    return b.emit("LayerNormalization", inputs, axis=axis - x.rank if b.chance(0.5) else axis,
                  epsilon=b.choice((1e-5, 1e-2)))


@family("reduce", 1)
def rms_normalization(b):
    if b.opset < 23:
        raise Refused
    x = b.pick(ALL_FLOATS, test=lambda v: v.rank and v.size)
    axis = b.int(-x.rank, -1)
    return b.emit("RMSNormalization", [x, b.weight(x.dtype, x.shape[axis:])], axis=axis,
                  epsilon=1e-3)


@family("reduce", 1)
def instance_normalization(b):
    x = b.pick((F32, F32, F16), test=lambda v: v.rank >= 3 and v.size)
    shape = (x.shape[1],)
    return b.emit("InstanceNormalization", [x, b.weight(x.dtype, shape), b.weight(x.dtype, shape)],
                  epsilon=1e-2)


@family("reduce", 1)
def group_normalization(b):
    if b.opset < 21:
        raise Refused
    x = b.pick((F32, F32, F16), test=lambda v: v.rank >= 3 and v.size)
    groups = b.choice([g for g in (1, 2, 4, x.shape[1]) if x.shape[1] % g == 0])
    shape = (x.shape[1],)
    return b.emit("GroupNormalization", [x, b.weight(x.dtype, shape), b.weight(x.dtype, shape)],
                  num_groups=groups, epsilon=1e-2)


@family("reduce", 1)
def other_norm(b):
    x = b.pick(ALL_FLOATS, test=lambda v: v.rank >= 3 and v.size)
    op = b.choice(("LRN", "LpNormalization", "MeanVarianceNormalization"))
    if op == "LRN":
        return b.emit(op, [x], size=b.choice((1, 3, 5, 2)), alpha=0.1, beta=0.6, bias=1.0)
    if op == "LpNormalization":
        one = b.emit("Add", [b.emit("Abs", [x]), b.constant(np.array(0.5, x.dtype))])
        return b.emit(op, [one], axis=b.axis(x), p=b.int(1, 2))
    return b.emit(op, [x], axes=sorted(a % x.rank for a in b.axes(x)))


@family("reduce", 2)
def top_k(b):
    x = b.pick(ALL_FLOATS + (I32, I64), test=lambda v: v.rank and v.size)
    axis = b.axis(x)
    k = b.int(1, x.shape[axis])
    if b.opset < 10:
        return b.emit("TopK", [x], outputs=2, axis=axis, k=k)[0]
    if b.opset < 11:
        return b.emit("TopK", [x, b.ints([k])], outputs=2, axis=axis)[0]
    values, at = b.emit("TopK", [x, b.ints([k])], outputs=2, axis=axis, largest=b.int(0, 1),
                        sorted=1)
    return values


@family("reduce", 2)
def cumsum(b):
    x = b.pick((F32, F32, F64, I32, I64), test=lambda v: v.rank)
    axis = b.constant(np.array(b.axis(x), b.choice((I32, I64))))
    return b.emit("CumSum", [x, axis], exclusive=b.int(0, 1), reverse=b.int(0, 1))


@family("reduce", 0.7)
def loss(b):
    if b.opset < 13:
        raise Refused
    x = b.pick((F32, F32, F64), test=lambda v: v.rank >= 2 and v.size)
    shape = (x.shape[0], *x.shape[2:])
    target = b.constant(b.numpy.integers(0, x.shape[1], shape).astype(I64))
    inputs = [x, target] + [b.weight(x.dtype, (x.shape[1],), 0.5, 1.5)] * b.int(0, 1)
    return b.emit(b.choice(("SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss")), inputs,
                  reduction=b.choice(("mean", "sum", "none")))
