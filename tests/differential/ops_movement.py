"""Operators that move elements: shapes, parts, indices."""
import numpy as np
from builder import BOOL, F16, F32, F64, I8, I32, I64, INTS, U8, Refused
from families import family

ANY = (F32, F32, F64, F16, I64, I32, I8, U8, BOOL)


def factors(b, size, rank):
    """A shape of this rank and size."""
    dims = [1] * rank
    rest, prime = size, 2
    while rest > 1 and rank:
        if rest % prime:
            prime += 1
        else:
            dims[b.int(0, rank - 1)] *= prime
            rest //= prime
    return dims


@family("movement", 4)
def reshape(b):
    x = b.pick()
    rank = b.int(0 if x.size == 1 else 1, 5)
    shape = [0, *x.shape[1:]] if not x.size and x.rank else factors(b, x.size, rank)
    if x.size:
        for i in range(min(len(shape), x.rank)):
            if shape[i] == x.shape[i] and b.chance(0.5):
                shape[i] = 0
        if shape and b.chance(0.4):
            at = b.int(0, rank - 1)
            if shape[at]:
                shape[at] = -1
    elif b.chance(0.5):
        return b.emit("Reshape", [x, b.ints([x.shape[-1] if x.shape and x.shape[-1] else 0, 0])],
                      allowzero=1)
    return b.emit("Reshape", [x, b.ints(shape)])


@family("movement", 4)
def transpose(b):
    x = b.pick(test=lambda v: v.rank >= 2)
    order = list(range(x.rank))
    b.random.shuffle(order)
    if b.chance(0.1):
        return b.emit("Transpose", [x])
    return b.emit("Transpose", [x], perm=order)


@family("movement", 1)
def flatten(b):
    x = b.pick()
    return b.emit("Flatten", [x], axis=b.int(-x.rank, x.rank))


@family("movement", 2)
def squeeze(b):
    x = b.pick(test=lambda v: 1 in v.shape)
    ones = [i for i, d in enumerate(x.shape) if d == 1]
    axes = b.random.sample(ones, b.int(1, len(ones)))
    return with_axes(b, "Squeeze", x, [a - x.rank if b.chance(0.3) else a for a in axes])


@family("movement", 2)
def unsqueeze(b):
    x = b.pick(test=lambda v: v.rank < 5)
    rank = x.rank + b.int(1, min(2, 5 - x.rank))
    axes = b.random.sample(range(rank), rank - x.rank)
    return with_axes(b, "Unsqueeze", x, [a - rank if b.chance(0.3) else a for a in axes])


def with_axes(b, op, x, axes, since=13, **attrs):
    """Axes as an attribute, or since a version as an operand."""
    if b.opset < since:
        return b.emit(op, [x], axes=[int(a) for a in axes], **attrs)
    return b.emit(op, [x, b.ints(axes)], **attrs)


@family("movement", 5)
def slice_(b):
    x = b.pick(test=lambda v: v.rank)
    axes, starts, ends, steps = b.axes(x), [], [], []
    for axis in axes:
        size = x.shape[axis]
        step = b.choice((1, 1, 1, 2, 3, -1, -2))
        start, end = sorted((b.int(0, size), b.int(0, size)))
        if start == end and b.chance(0.9):
            start, end = 0, size
        if step < 0:
            start, end = end - 1 if end else 0, start - 1 if start else -size - 1
        elif b.chance(0.3):
            start, end = start - size if start < size else start, b.choice((end, 2**62))
        starts.append(start), ends.append(end), steps.append(step)
    if b.opset < 10:
        if set(steps) != {1}:
            raise Refused
        return b.emit("Slice", [x], starts=starts, ends=ends, axes=axes)
    dtype = b.choice((I64, I64, I32))
    if dtype == I32:
        ends = [min(e, 2**31 - 1) for e in ends]
    inputs = [x] + [b.constant(np.array(v, dtype)) for v in (starts, ends, axes, steps)]
    return b.emit("Slice", inputs[:4] if set(steps) == {1} and b.chance(0.5) else inputs)


@family("movement", 4)
def concat(b):
    x = b.pick(test=lambda v: v.rank)
    axis = b.axis(x)
    parts = [x]
    for _ in range(b.int(0, 3)):
        shape = list(x.shape)
        shape[axis] = b.choice((x.shape[axis], b.int(1, 6)))
        found = [v for v in b.pool if v.dtype == x.dtype and v.rank == x.rank and all(
            p == q or i == axis % x.rank for i, (p, q) in enumerate(zip(v.shape, x.shape)))]
        parts.append(b.choice(found) if found and b.chance(0.7) else b.fitted(x.dtype, shape))
    b.random.shuffle(parts)
    return b.emit("Concat", parts, axis=axis)


@family("movement", 3)
def split(b):
    x = b.pick(test=lambda v: v.rank and max(v.shape) > 1)
    axis = b.choice([i for i, d in enumerate(x.shape) if d > 1])
    size = x.shape[axis]
    count = b.int(1, min(4, size))
    cuts = sorted(b.random.sample(range(1, size), count - 1)) if count > 1 else []
    parts = np.diff([0, *cuts, size]).tolist()
    axis -= x.rank if b.chance(0.3) else 0
    if b.chance(0.3) and size % count == 0:
        extra = {"num_outputs": count} if b.opset >= 18 else {}
        return b.emit("Split", [x], outputs=count, axis=axis, **extra)
    if b.opset < 13:
        return b.emit("Split", [x], outputs=count, axis=axis, split=parts)
    return b.emit("Split", [x, b.ints(parts)], outputs=count, axis=axis)


@family("movement", 3)
def pad(b):
    x = b.pick(test=lambda v: v.rank and v.size)
    mode = b.choice(("constant", "constant", "edge", "reflect"))
    pads = []
    for end in range(2):
        for size in x.shape:
            most = min(3, size - 1) if mode == "reflect" else 3
            pads.append(0 if b.chance(0.5) else b.int(0, most))
    if mode == "constant" and b.chance(0.3):
        at = b.int(0, x.rank - 1)
        if x.shape[at] > 1:
            pads[at + b.choice((0, x.rank))] = -1
    if b.opset < 11:
        return b.emit("Pad", [x], pads=pads, mode=mode, value=1.5)
    inputs = [x, b.ints(pads)]
    if mode == "constant" and (b.chance(0.5) or x.dtype == BOOL):
        inputs.append(b.constant(b.data(x.dtype, ())))
    return b.emit("Pad", inputs, mode=mode)


@family("movement", 2)
def tile(b):
    x = b.pick(test=lambda v: v.rank)
    return b.emit("Tile", [x, b.ints([b.choice((1, 1, 2, 3)) for _ in x.shape])])


@family("movement", 2)
def expand(b):
    x = b.pick(test=lambda v: v.rank < 5)
    shape = [b.choice((1, 2, 3)) for _ in range(b.int(0, 2 if x.rank < 4 else 0))] + [
        b.choice((1, 2, 5, 8)) if d == 1 else b.choice((1, d)) for d in x.shape]
    return b.emit("Expand", [x, b.ints(shape)])


@family("movement", 3)
def gather(b):
    x = b.pick(test=lambda v: v.rank and v.size)
    axis = b.axis(x)
    return b.emit("Gather", [x, indices(b, x.shape[axis], b.shape(b.int(0, 2), 12))], axis=axis)


def indices(b, size, shape):
    """Indices of an axis, at times negative, at times computed."""
    dtype = b.choice((I64, I64, I32))
    found = [v for v in b.pool if v.dtype == dtype and v.shape == tuple(shape)]
    if found and b.chance(0.5):
        return b.emit("Mod", [b.choice(found), b.constant(np.array(size, dtype))], fmod=b.int(0, 1))
    low = -size if b.chance(0.3) else 0
    array = b.numpy.integers(low, size, shape)
    if b.chance(0.5):
        return b.constant(array.astype(dtype))
    return b.parameter_input(array.astype(dtype))


@family("movement", 2)
def gather_elements(b):
    x = b.pick(test=lambda v: v.rank and v.size)
    axis = b.axis(x)
    shape = [b.int(1, d) for d in x.shape]
    shape[axis] = b.int(1, 6)
    return b.emit("GatherElements", [x, indices(b, x.shape[axis], shape)], axis=axis)


@family("movement", 1.5)
def gather_nd(b):
    x = b.pick(test=lambda v: v.rank and v.size)
    batch = b.int(0, x.rank - 1) if b.opset >= 12 and b.chance(0.3) else 0
    depth = b.int(1, x.rank - batch)
    shape = x.shape[:batch] + b.shape(b.int(0, 1), 5, 0)
    parts = [b.numpy.integers(0, x.shape[batch + i], (*shape, 1)) for i in range(depth)]
    attrs = {"batch_dims": batch} if batch else {}
    return b.emit("GatherND", [x, b.constant(np.concatenate(parts, -1).astype(I64))], **attrs)


@family("movement", 1.5)
def scatter_elements(b):
    x = b.pick(test=lambda v: v.rank and v.size and v.dtype != BOOL)
    axis = b.axis(x)
    shape = [b.int(1, d) for d in x.shape]
    count = shape[axis]
    order = [b.numpy.permutation(x.shape[axis])[:count] for _ in
             range(int(np.prod(shape)) // count)]
    array = np.moveaxis(np.array(order).reshape(
        *[d for i, d in enumerate(shape) if i != axis % x.rank], count), -1, axis)
    attrs = {}
    if b.opset >= 16 and b.chance(0.4):
        # onnxruntime lets NaN lose
        known = ("max", "min") if b.opset >= 18 and not b.special else ()
        attrs["reduction"] = b.choice(("add", "mul") + known)
    return b.emit("ScatterElements", [x, b.constant(array.astype(I64)), b.fitted(x.dtype, shape)],
                  axis=axis, **attrs)


@family("movement", 1.5)
def scatter_nd(b):
    x = b.pick(test=lambda v: v.rank and v.size and v.dtype != BOOL)
    depth = b.int(1, x.rank)
    space = int(np.prod(x.shape[:depth]))
    count = b.int(1, min(6, space))
    places = np.unravel_index(b.numpy.permutation(space)[:count], x.shape[:depth])
    updates = b.fitted(x.dtype, (count, *x.shape[depth:]))
    attrs = {}
    if b.opset >= 16 and b.chance(0.4):
        attrs["reduction"] = b.choice(("add", "mul"))
    return b.emit("ScatterND", [x, b.constant(np.stack(places, -1).astype(I64)), updates], **attrs)


@family("movement", 1)
def depth_space(b):
    block = b.choice((2, 2, 3))
    if b.chance(0.5):
        x = b.pick(rank=4, test=lambda v: v.shape[1] % block**2 == 0)
        return b.emit("DepthToSpace", [x], blocksize=block, mode=b.choice(("DCR", "CRD")))
    x = b.pick(rank=4, test=lambda v: v.shape[2] % block == 0 and v.shape[3] % block == 0)
    return b.emit("SpaceToDepth", [x], blocksize=block)


@family("movement", 1)
def trilu(b):
    if b.opset < 14:
        raise Refused
    x = b.pick(test=lambda v: v.rank >= 2)
    return b.emit("Trilu", [x] + [b.constant(np.array(b.int(-3, 3), I64))] * b.int(0, 1),
                  upper=b.int(0, 1))


@family("movement", 0.7)
def reverse_sequence(b):
    x = b.pick(test=lambda v: v.rank >= 2 and v.size)
    time = b.int(0, 1)
    lengths = b.numpy.integers(1, x.shape[time], x.shape[1 - time], endpoint=True)
    return b.emit("ReverseSequence", [x, b.constant(lengths.astype(I64))], time_axis=time,
                  batch_axis=1 - time)


@family("movement", 0.7)
def compress(b):
    x = b.pick(test=lambda v: v.rank and v.size)
    axis = b.axis(x)
    keep = b.numpy.integers(0, 2, x.shape[axis]).astype(bool)
    return b.emit("Compress", [x, b.constant(keep)], axis=axis)


@family("movement", 0.7)
def one_hot(b):
    x = b.pick((I64, I32), test=lambda v: v.rank < 4 and v.size <= 200)
    depth = b.int(1, 9)
    at = b.emit("Mod", [x, b.constant(np.array(depth, x.dtype))])
    values = b.constant(np.array([0, b.choice((1, 3))], b.choice((F32, I64))))
    return b.emit("OneHot", [at, b.constant(np.array(depth, I64)), values],
                  axis=b.int(-x.rank - 1, x.rank))


@family("movement", 1)
def shape_of(b):
    x = b.pick()
    if b.chance(0.3):
        return b.emit("Size", [x])
    if b.opset >= 15 and b.chance(0.4):
        return b.emit("Shape", [x], start=b.int(-3, 1), end=b.int(0, 4))
    return b.emit("Shape", [x])


@family("movement", 0.5)
def made(b):
    """Values of no operand."""
    if b.chance(0.4):
        start, step, count = b.int(-4, 4), b.choice((1, 2, -3)), b.int(1, 9)
        dtype = b.choice((I64, I32, F32))
        return b.emit("Range", [b.constant(np.array(v, dtype)) for v in
                                (start, start + step * count, step)])
    if b.chance(0.5):
        return b.emit("EyeLike", [b.pick(INTS + (F32, F64), rank=2)], k=b.int(-2, 2))
    return b.emit("ConstantOfShape", [b.ints(b.shape())])
