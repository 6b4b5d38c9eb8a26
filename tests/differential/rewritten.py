"""Groups of operators that graph rewrites look for: forms of exporters, slices, scales, pads."""
import numpy as np
from builder import F32, Refused
from families import family
from ops_linear import image
from patterns import scalar


def mean_of(b, x, keep=True):
    flag = {} if keep else {"keepdims": 0}
    if b.opset >= 18:
        return b.emit("ReduceMean", [x, b.ints([-1])], **flag)
    return b.emit("ReduceMean", [x], axes=[-1], **flag)


def either(b, x, op, low, high):
    """x and a constant, the operands of what commutes in either order."""
    c = b.weight(x.dtype, b.choice(((), (1,), x.shape[-1:])) if x.rank else (), low, high)
    return b.emit(op, [x, c] if op in ("Sub", "Div") or b.chance(0.5) else [c, x])


@family("rewritten", 1.5)
def activation_form(b):
    x = b.pick((b.floating(),))
    c = lambda value: scalar(b, x, value)  # noqa: E731
    mul = lambda *v: b.emit("Mul", b.random.sample(v, 2))  # noqa: E731
    add = lambda *v: b.emit("Add", b.random.sample(v, 2))  # noqa: E731
    form = b.int(0, 4)
    if form == 0:
        return b.emit("Div", [x, add(b.emit("Exp", [b.emit("Neg", [x])]), c(1))])
    if form == 1:
        six = b.emit("Clip", [add(x, c(3)), c(0), c(6)])
        return mul(mul(x, c(1 / 6)), six) if b.chance(0.5) else mul(x, mul(six, c(1 / 6)))
    if form == 2:
        six = b.emit("Relu", [b.emit("Min", [add(x, c(3)), c(6)])])
        return b.emit("Div", [six, c(6)])
    if form == 3:
        cube = mul(mul(mul(x, c(0.044715)), x), x) if b.chance(0.5) else mul(
            b.emit("Pow", [x, c(3)]), c(0.044715))
        inner = b.emit("Tanh", [mul(add(x, cube), c(np.sqrt(2 / np.pi)))])
    else:
        inner = b.emit("Erf", [mul(x, c(np.sqrt(0.5)))])
    return mul(x, mul(add(inner, c(1)), c(0.5))) if b.chance(0.5) else mul(
        mul(x, c(0.5)), add(inner, c(1)))


@family("rewritten", 1.5)
def norm_form(b):
    x = b.pick((b.floating(),), test=lambda v: v.rank and v.size)
    m = mean_of(b, x)
    d = b.emit("Sub", [x, m])
    rms = b.chance(0.3)
    v = mean_of(b, b.emit("Mul", [x, x] if rms else [d, d]))
    i = b.emit("Reciprocal", [b.emit("Sqrt", [b.emit("Add", [v, scalar(b, x, 1e-2)])])])
    if b.chance(0.6):
        i = b.emit("Mul", [i, b.weight(x.dtype, x.shape[-1:])])
    if rms:
        return b.emit("Mul", [x, i])
    y, bias = b.emit("Mul", [x, i]), b.weight(x.dtype, x.shape[-1:])
    if b.chance(0.4):
        return b.emit("Add", [y, b.emit("Sub", [bias, b.emit("Mul", [m, i])])])
    back = b.emit("Mul", [b.emit("Neg", [m]), i])
    return b.emit("Add", [y, b.emit("Add", [back, bias]) if b.chance(0.6) else back])


def random_slice(b, x, axis=None):
    if b.opset < 10 or not x.rank or not x.size:
        raise Refused
    axis = b.int(0, x.rank - 1) if axis is None else axis
    size, step = x.shape[axis], b.choice((1, 1, 2, 3, -1))
    first = b.int(0, size - 1)
    begin, end = (first, b.int(first + 1, size)) if step > 0 else (first, -size - 1)
    return b.emit("Slice", [x, b.ints([begin]), b.ints([end]), b.ints([axis]), b.ints([step])])


@family("rewritten", 2)
def sliced_work(b):
    """A slice behind a product, a convolution, a pool, a reduction or a normalisation."""
    kind = b.int(0, 4)
    if kind == 0:
        x = b.pick((F32,), test=lambda v: 2 <= v.rank <= 4 and v.size)
        n = b.choice((1, 3, 8, 17))
        y = b.emit("MatMul", [x, b.weight(F32, (x.shape[-1], n), -0.5, 0.5)])
        y = b.emit("Add", [y, b.weight(F32, (n,))])
        if b.chance(0.3):
            y = b.emit("Reshape", [y, b.ints([1, *y.shape])])
    elif kind == 1:
        x = image(b, (F32,))
        kernel = [b.choice((1, 3)) for _ in x.shape[2:]]
        y = b.emit("Conv", [x, b.weight(F32, (5, x.shape[1], *kernel), -0.3, 0.3)],
                   pads=[k // 2 for k in kernel * 2])
    elif kind == 2:
        x = image(b, (F32,))
        y = b.emit(b.choice(("MaxPool", "AveragePool")), [x], kernel_shape=[2] * (x.rank - 2),
                   pads=[0] * (x.rank - 2) + [1] * (x.rank - 2))
    elif kind == 3:
        x = b.pick((F32,), test=lambda v: v.rank >= 2 and v.size)
        y = mean_of(b, x, keep=b.chance(0.5))
    else:
        x = b.pick((F32,), test=lambda v: v.rank >= 2 and v.size)
        y = b.emit("Softmax", [x], axis=b.int(0, x.rank - 1))
    for _ in range(b.int(0, 2)):
        y = b.emit(b.choice(("Relu", "Abs", "Neg", "Sigmoid")), [y])
    if b.chance(0.3) and y.rank > 1:
        order = list(range(y.rank))
        b.random.shuffle(order)
        y = b.emit("Transpose", [y], perm=order)
    if b.chance(0.3) and y.rank == 4 and kind == 1:
        c = y.shape[1]
        return b.emit("Conv", [y, b.weight(F32, (4, c, 1, 1), -0.3, 0.3)], strides=[2, 2])
    return random_slice(b, y)


@family("rewritten", 1.5)
def scales_and_shifts(b):
    x = image(b, (b.floating(),)) if b.chance(0.5) else b.pick((b.floating(),))
    channels = x.rank >= 3 and b.chance(0.5)
    y = x
    for _ in range(b.int(2, 5)):
        op = b.choice(("Mul", "Add", "Sub", "Div"))
        low, high = (0.5, 4) if op in ("Mul", "Div") else (-2, 2)
        if channels and b.chance(0.5):
            c = b.weight(x.dtype, (x.shape[1], *[1] * (x.rank - 2)), low, high)
            y = b.emit(op, [y, c])
        else:
            y = either(b, y, op, low, high)
    if y.shape != x.shape or y.dtype != F32:
        return y
    if x.rank == 4 and b.chance(0.5):
        return b.emit("Conv", [y, b.weight(F32, (3, x.shape[1], 1, 1), -0.5, 0.5)])
    if x.rank >= 2 and b.chance(0.5):
        return b.emit("MatMul", [y, b.weight(F32, (x.shape[-1], 3), -0.5, 0.5)])
    return y


@family("rewritten", 1.5)
def moves_to_and_fro(b):
    """Pads, slices, parts and gathers that as a whole move less, or nothing."""
    x = b.pick(test=lambda v: v.rank and v.size)
    axis = b.int(0, x.rank - 1)
    size, kind = x.shape[axis], b.int(0, 3)
    if kind == 0 and b.opset >= 13:
        pads = [b.int(0, 2) for _ in range(2 * x.rank)]
        y = b.emit("Pad", [x, b.ints(pads)])
        return random_slice(b, y, axis)
    if kind == 1 and b.opset >= 10 and size > 1:
        cut = b.int(1, size - 1)
        parts = [b.emit("Slice", [x, b.ints([i]), b.ints([j]), b.ints([axis])])
                 for i, j in ((0, cut), (cut, size))]
        if b.chance(0.2):
            parts.reverse()
        return b.emit("Concat", parts, axis=axis)
    if kind == 2:
        step = b.choice((1, 1, 2, -1))
        indices = np.arange(size)[::step][: b.int(1, size)] - (size if b.chance(0.3) else 0)
        one = b.chance(0.3)
        return b.emit("Gather", [x, b.constant(np.array(indices[0] if one else indices,
                                                        np.int64))], axis=axis)
    y = b.emit("Concat", [x, x, x], axis=axis)
    return random_slice(b, y, axis)
