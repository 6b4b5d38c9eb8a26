"""Groups of operators as exporters write them, which passes recognise."""
import numpy as np
from builder import F32, Refused, Value
from families import family
from ops_linear import image
from ops_movement import factors


def scalar(b, x, value):
    return b.constant(np.array(value, x.dtype))


@family("patterns", 1)
def gelu(b):
    x = b.pick((b.floating(),))
    half = b.emit("Mul", [x, scalar(b, x, 0.5)])
    erf = b.emit("Erf", [b.emit("Div", [x, scalar(b, x, 1.4142135)])])
    return b.emit("Mul", [half, b.emit("Add", [erf, scalar(b, x, 1)])])


@family("patterns", 1)
def silu(b):
    x = b.pick((b.floating(),))
    return b.emit("Mul", [x, b.emit("Sigmoid", [x])])


@family("patterns", 1)
def hard_swish(b):
    x = b.pick((b.floating(),))
    y = b.emit("Clip", [b.emit("Add", [x, scalar(b, x, 3)]), scalar(b, x, 0), scalar(b, x, 6)])
    return b.emit("Div", [b.emit("Mul", [x, y]), scalar(b, x, 6)])


@family("patterns", 1.5)
def layer_norm(b):
    if b.opset >= 18:
        mean = lambda v: b.emit("ReduceMean", [v, b.ints([-1])])  # noqa: E731
    else:
        mean = lambda v: b.emit("ReduceMean", [v], axes=[-1])  # noqa: E731
    x = b.pick((b.floating(),), test=lambda v: v.rank and v.size)
    centred = b.emit("Sub", [x, mean(x)])
    square = b.emit("Pow", [centred, scalar(b, x, 2)]) if b.chance(0.5) else b.emit(
        "Mul", [centred, centred])
    deviation = b.emit("Sqrt", [b.emit("Add", [mean(square), scalar(b, x, 1e-2)])])
    y = b.emit("Mul", [b.emit("Div", [centred, deviation]), b.weight(x.dtype, x.shape[-1:])])
    return b.emit("Add", [y, b.weight(x.dtype, x.shape[-1:])])


@family("patterns", 2)
def attention(b):
    heads, width = b.choice((1, 2, 4)), b.choice((2, 4, 8))
    length = b.choice((1, 3, 8, 9, 9, 70))
    dtype = b.choice((F32, F32, b.floating()))
    x = b.fitted(dtype, (1, length, heads * width))
    parts = []
    for order in ((0, 2, 1, 3), (0, 2, 3, 1), (0, 2, 1, 3)):
        y = b.emit("MatMul", [x, b.weight(dtype, (heads * width, heads * width), -0.5, 0.5)])
        if b.chance(0.5):
            y = b.emit("Add", [y, b.weight(dtype, (heads * width,))])
        y = b.emit("Reshape", [y, b.ints([0, 0, heads, width] if b.chance(0.5) else
                                         [1, -1, heads, width])])
        parts.append(b.emit("Transpose", [y], perm=order))
    scores = b.emit("MatMul", parts[:2])
    scores = b.emit("Div", [scores, scalar(b, scores, width**0.5)])
    if b.chance(0.5):
        scores = b.emit("Add", [scores, b.fitted(dtype, (1, 1, length, length))])
    if b.chance(0.5):
        seen = np.tril(np.ones((length, length), bool), b.choice((0, 0, 0, 1, -1)))
        if length > 2 and b.chance(0.1):
            seen[1, 0] = False  # no causal mask
        fill = np.array(b.choice((-np.inf, np.finfo(dtype).min)), dtype)
        if b.chance(0.5):
            scores = b.emit("Where", [b.constant(seen), scores, b.constant(fill)])
        else:
            added = np.where(seen, np.array(0, dtype), fill)
            scores = b.emit("Add", [scores, b.constant(added)])
    y = b.emit("MatMul", [b.emit("Softmax", [scores], axis=-1), parts[2]])
    y = b.emit("Transpose", [y], perm=[0, 2, 1, 3])
    return b.emit("Reshape", [y, b.ints([0, 0, heads * width])])


@family("patterns", 1.5)
def residual(b):
    """Two convolutions beside a shortcut, then perhaps a squeeze-excite."""
    x = image(b, (F32,))
    channels, ones = x.shape[1], [1] * (x.rank - 2)
    y = x
    for _ in range(2):
        kernel = [b.choice((1, 3)) for _ in ones]
        scale = 1 / np.sqrt(channels * np.prod(kernel))
        y = b.emit("Conv", [y, b.weight(F32, (channels, channels, *kernel), -scale, scale),
                            b.weight(F32, (channels,))], pads=[k // 2 for k in kernel * 2])
        y = b.emit("Relu", [y])
    if b.chance(0.5):
        gate = b.emit("GlobalAveragePool", [y])
        gate = b.emit("Conv", [gate, b.weight(F32, (channels, channels, *ones), -0.5, 0.5)])
        y = b.emit("Mul", [y, b.emit(b.choice(("Sigmoid", "HardSigmoid")), [gate])])
    return b.emit("Add", [x, y])


@family("patterns", 1)
def channel_shuffle(b):
    x = image(b)
    if x.shape[1] % 2 or x.rank != 4:
        raise Refused
    n, c, h, w = x.shape
    y = b.emit("Reshape", [x, b.ints([n, 2, c // 2, h, w])])
    y = b.emit("Transpose", [y], perm=[0, 2, 1, 3, 4])
    return b.emit("Reshape", [y, b.ints([n, -1, h, w])])


def branch(b, x, channels):
    """A convolution of x with that many channels, or what is element by element."""
    kernel = [b.choice((1, 3)) for _ in x.shape[2:]]
    if channels == x.shape[1] and b.chance(0.3):
        return b.emit(b.choice(("Relu", "Sigmoid", "Abs", "Neg")), [x])
    scale = 1 / np.sqrt(x.shape[1] * np.prod(kernel))
    y = b.emit("Conv", [x, b.weight(F32, (channels, x.shape[1], *kernel), -scale, scale)],
               pads=[k // 2 for k in kernel * 2])
    return b.emit("Relu", [y]) if b.chance(0.7) else y


@family("patterns", 2)
def dense_block(b):
    """Each layer reads all before it: concatenations that begin with one another."""
    parts = [image(b, (F32,))]
    for _ in range(b.int(2, 4)):
        x = b.emit("Concat", parts, axis=1) if len(parts) > 1 else parts[0]
        x = b.emit("Mul", [x, b.weight(F32, (x.shape[1], *[1] * (x.rank - 2)))])
        parts.append(branch(b, b.emit("Relu", [x]), b.choice((1, 3, 4, 16, 17))))
        if b.chance(0.2):
            b.random.shuffle(parts)
    return b.emit("Concat", parts, axis=1)


@family("patterns", 2)
def branches(b):
    """Branches of an image, or of slices of its channels, joined along some axis."""
    x = image(b, (F32,))
    cut = b.int(1, x.shape[1] - 1) if x.shape[1] > 1 and b.opset >= 10 else 0
    first = second = x
    if cut and b.chance(0.7):
        first = b.emit("Slice", [x, b.ints([0]), b.ints([cut]), b.ints([1])])
        second = b.emit("Slice", [x, b.ints([cut]), b.ints([x.shape[1]]), b.ints([1])])
    axis = b.choice((1, 1, 1, 0, x.rank - 1))
    channels = b.choice((1, 2, 5, 8, 24))
    parts = [branch(b, first, channels if axis != 1 else b.choice((1, 2, 5, 8, 24))),
             branch(b, second, channels)]
    if axis == 1 and b.chance(0.6):
        parts.append(b.choice((first, second, parts[0])))
    return b.emit("Concat", parts, axis=axis)


@family("patterns", 1)
def siblings(b):
    """Convolutions of one image with the same window, mostly, and what reads each alone."""
    x = image(b, (F32,))
    kernel, act = b.choice((1, 3)), b.choice(("Relu", "Sigmoid", None))
    parts = []
    for channels in (b.choice((1, 3, 8)), b.choice((1, 3, 20)), 5)[:b.int(2, 3)]:
        kernels = [kernel if b.chance(0.9) else 1 for _ in x.shape[2:]]
        scale = 1 / np.sqrt(x.shape[1] * np.prod(kernels))
        inputs = [x, b.weight(F32, (channels, x.shape[1], *kernels), -scale, scale)]
        inputs += [b.weight(F32, (channels,))] * b.chance(0.8)
        y = b.emit("Conv", inputs, pads=[k // 2 for k in kernels * 2])
        y = b.emit(act, [y]) if act else y
        if b.chance(0.9):
            y = b.emit("Conv", [y, b.weight(F32, (4, channels, *kernels), -scale, scale)],
                       pads=[k // 2 for k in kernels * 2])
        parts.append(y)
    return b.emit("Concat", parts, axis=1)


@family("patterns", 1)
def shape_arithmetic(b):
    """Reshape by a shape that the model computes."""
    x = b.pick(test=lambda v: v.rank >= 2 and v.size)
    shape = b.emit("Shape", [x], keep=False)
    first = b.emit("Gather", [shape, b.constant(np.array(0, np.int64))], keep=False)
    if b.opset >= 13:
        first = b.emit("Unsqueeze", [first, b.ints([0])], keep=False)
    else:
        first = b.emit("Unsqueeze", [first], axes=[0], keep=False)
    return b.emit("Reshape", [x, b.emit("Concat", [first, b.ints([-1])], axis=0, keep=False)])


@family("patterns", 1)
def twice(b):
    """The same computed twice over, by two nodes."""
    x = b.pick((b.floating(),))
    op = b.choice(("Tanh", "Sigmoid", "Abs", "Relu"))
    return b.emit(b.choice(("Add", "Mul", "Sub", "Max")), [b.emit(op, [x]), b.emit(op, [x])])


@family("patterns", 2)
def nearly_again(b):
    """A node of before once more: the same, or with another attribute or operand."""
    if not b.graph.nodes:
        raise Refused
    node = b.choice(b.graph.nodes)
    inputs = [Value(name, b.graph.values[name]) if name else None for name in node.inputs]
    attrs = dict(node.attrs)
    change = b.int(0, 2)
    ints = [name for name, value in attrs.items() if type(value) is int]
    if change == 0 and ints:
        attrs[b.choice(ints)] = b.int(0, 1)
    elif change == 1:
        at = b.int(0, len(inputs) - 1) if inputs else 0
        same = [v for v in b.pool if inputs and inputs[at] and v.dtype == inputs[at].dtype
                and v.shape == inputs[at].shape]
        if same and not inputs[at].name.startswith("c"):
            inputs[at] = b.choice(same)
    again = b.emit(node.op, inputs, outputs=len(node.outputs), domain=node.domain,
                   captured=[Value(n, b.graph.values[n]) for n in node.captured], **attrs)
    again = again if isinstance(again, Value) else again[0]
    first = Value(node.outputs[0], b.graph.values[node.outputs[0]])
    if again.shape == first.shape and again.dtype.kind == "f" and b.chance(0.5):
        return b.emit(b.choice(("Add", "Sub", "Max")), [again, first])
    return again


@family("patterns", 1)
def chain_of_moves(b):
    x = b.pick(test=lambda v: v.rank >= 2 and v.size)
    for _ in range(b.int(2, 4)):
        if b.chance(0.5) and x.rank >= 2:
            order = list(range(x.rank))
            b.random.shuffle(order)
            x = b.emit("Transpose", [x], perm=order)
        else:
            x = b.emit("Reshape", [x, b.ints(factors(b, x.size, b.int(2, 5)))])
    return x


def normalised(b, x):
    """Along rows, or a sum of them."""
    how = b.int(0, 3)
    if how == 0 and b.opset >= 17:
        weights = [b.weight(x.dtype, x.shape[-1:]) for _ in range(b.int(1, 2))]
        return b.emit("LayerNormalization", [x, *weights], axis=-1, epsilon=1e-2)
    if how == 1:
        least = b.emit("ReduceMin", [x, b.ints([-1])] if b.opset >= 18 else [x], keepdims=1,
                       **({} if b.opset >= 18 else {"axes": [-1]}))
        return b.emit("Sub", [x, least])
    return b.emit(b.choice(("Softmax", "LogSoftmax")), [x], axis=x.rank - 1)


def rolled(b, x, axis, shift):
    first = b.emit("Slice", [x, b.ints([shift]), b.ints([2**31]), b.ints([axis])])
    second = b.emit("Slice", [x, b.ints([0]), b.ints([shift]), b.ints([axis])])
    return b.emit("Concat", [first, second], axis=axis)


@family("patterns", 2, since=10)
def windows(b):
    """A sum that is normalised, perhaps rolled and cut into windows, and then added to."""
    batch, height, width, channels = b.choice((1, 2)), b.choice((2, 4)), 6, b.choice((1, 5, 16, 40))
    x = b.fitted(F32, (batch, height, width, channels))
    total = b.emit("Add", [x, b.emit("Tanh", [b.fitted(F32, x.shape)])])
    y = normalised(b, total)
    shift, cut = b.int(0, 2), b.chance(0.7)
    for axis in (1, 2) if shift else ():
        y = rolled(b, y, axis, 1)
    if cut:
        y = b.emit("Reshape", [y, b.ints([batch, height // 2, 2, width // 2, 2, channels])])
        y = b.emit("Transpose", [y], perm=[0, 1, 3, 2, 4, 5])
        y = b.emit("Reshape", [y, b.ints([-1, 4, channels])])
    if b.chance(0.7):
        y = b.emit("MatMul", [y, b.weight(F32, (channels, channels), -0.3, 0.3)])
    if cut:
        y = b.emit("Reshape", [y, b.ints([batch, height // 2, width // 2, 2, 2, channels])])
        y = b.emit("Transpose", [y], perm=[0, 1, 3, 2, 4, 5])
        y = b.emit("Reshape", [y, b.ints([batch, height, width, channels])])
    for axis in (1, 2) if shift == 2 else ():
        y = rolled(b, y, axis, y.shape[axis] - 1)
    total = b.emit("Add", [total, y])
    return b.emit("Add", [normalised(b, total), total]) if b.chance(0.5) else normalised(b, total)
