"""Products, convolutions and pooling."""
import numpy as np
from builder import F16, F32, F64, I8, I32, U8, Refused
from families import family

CHANNELS = (1, 2, 3, 4, 5, 8, 8, 12, 16, 16, 24, 32)
SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 32, 33)


@family("linear", 4)
def matmul(b):
    dtype = b.choice((F32, F32, F32, F64, F16, I32))
    x = b.pick((dtype,), test=lambda v: v.rank)
    k = x.shape[-1]
    n = b.choice(SIZES)
    shape = [k, n] if x.rank <= 2 or b.chance(0.5) else [
        *[b.choice((1, d)) for d in x.shape[:-2]], k, n]
    if b.chance(0.1):
        shape = [k]
    y = b.fitted(dtype, shape) if b.chance(0.5) else b.weight(dtype, shape, -1, 1)
    if b.chance(0.15) and x.rank == 2:  # the other way round
        return b.emit("MatMul", [b.fitted(dtype, (b.choice(SIZES), x.shape[0])), x])
    return b.emit("MatMul", [x, y])


@family("linear", 2)
def gemm(b):
    dtype = b.choice((F32, F32, F64, F16))
    x = b.pick((dtype,), rank=2)
    trans_a, trans_b = b.int(0, 1), b.int(0, 1)
    m, k = x.shape[::-1] if trans_a else x.shape
    n = b.choice(SIZES)
    y = b.fitted(dtype, (n, k) if trans_b else (k, n))
    inputs = [x, y]
    if b.chance(0.7):
        inputs.append(b.fitted(dtype, b.choice(((n,), (1, n), (m, 1), (m, n), (1,), ()))))
    attrs = {"alpha": b.choice((0.5, 1.0, 1.5)), "beta": b.choice((0.25, 1.0))}
    return b.emit("Gemm", inputs, transA=trans_a, transB=trans_b,
                  **(attrs if b.chance(0.5) else {}))


EINSUMS = ("ij,jk->ik", "bij,bjk->bik", "bhid,bhjd->bhij", "ij->ji", "ij->i", "i,j->ij", "ij,ij->",
           "...ij,...jk->...ik", "bij,kj->bik", "abc,cd->abd", "ii->i", "bcxy,cd->bdxy")


@family("linear", 1)
def einsum(b):
    if b.opset < 12:
        raise Refused
    equation = b.choice(EINSUMS)
    dtype = b.choice((F32, F32, F64))
    sizes = {}
    operands = []
    for term in equation.split("->")[0].split(","):
        letters = term.replace("...", "z")
        shape = [sizes.setdefault(c, b.choice((1, 2, 3, 4, 5, 8))) for c in letters]
        operands.append(b.fitted(dtype, shape))
    return b.emit("Einsum", operands, equation=equation)


def window(b, spatial, most=5):
    """Kernel and attributes of a window that fits into the axes (onnxruntime takes others, too)."""
    kernel = [b.choice([k for k in (1, 1, 2, 3, 3, 3, most) if k <= d]) for d in spatial]
    attrs = {}
    if b.chance(0.5):
        attrs["strides"] = [b.choice((1, 2, 2, 3)) for _ in spatial]
    if b.chance(0.3):
        attrs["dilations"] = [b.choice((1, 2) if 2 * k - 1 <= d else (1,))
                              for k, d in zip(kernel, spatial)]
    how = b.random.random()
    if how < 0.25:
        attrs["auto_pad"] = b.choice(("SAME_UPPER", "SAME_LOWER", "VALID"))
        if attrs["auto_pad"] != "VALID":  # onnxruntime forgets dilations then
            attrs.pop("dilations", None)
            if "strides" in attrs:  # and takes steps beyond the window for negative pads
                attrs["strides"] = [min(k, s) for k, s in zip(kernel, attrs["strides"])]
    elif how < 0.75:
        attrs["pads"] = [b.int(0, k // 2) for k in kernel * 2]
        if b.chance(0.5):
            attrs["pads"] = [k // 2 for k in kernel * 2]
    return kernel, attrs


def image(b, dtypes=(F32, F32, F32, F64, F16), least=1):
    """Batch, channels, one to three spatial axes."""
    rank = b.choice((4, 4, 4, 4, 3, 5))
    found = [v for v in b.pool if v.dtype in dtypes and v.rank == rank and v.size]
    if found and b.chance(0.85):
        return b.pick(dtypes, rank=rank, test=lambda v: v.size)
    spatial = b.shape(rank - 2, 150, 0)
    return b.fresh(b.choice(dtypes), (b.choice((1, 1, 2)), b.choice(CHANNELS), *spatial))


@family("linear", 7)
def conv(b):
    x = image(b)
    channels = x.shape[1]
    group = b.choice([1, 1, 1, channels] + [g for g in (2, 4) if channels % g == 0])
    out = group * b.choice((1, 2, 3, 4, 8)) if group > 1 else b.choice(CHANNELS)
    if group == channels and b.chance(0.6):
        out = channels
    kernel, attrs = window(b, x.shape[2:])
    scale = 1 / np.sqrt(channels // group * np.prod(kernel))
    shape = (out, channels // group, *kernel)
    low, high = (-1, 1) if b.exact else (-2 * scale, 2 * scale)
    inputs = [x, b.weight(x.dtype, shape, low, high)]
    if b.chance(0.6):
        inputs.append(b.weight(x.dtype, (out,)))
    if group > 1:
        attrs["group"] = group
    if b.chance(0.5):
        attrs["kernel_shape"] = kernel
    y = b.emit("Conv", inputs, **attrs)
    return after_conv(b, y)


def after_conv(b, y):
    """What networks put behind convolutions."""
    channels = y.shape[1]
    if b.chance(0.3):
        y = batch_norm(b, y)
    if b.chance(0.15):
        y = b.emit(b.choice(("Mul", "Add")),
                   [y, b.weight(y.dtype, (channels, *[1] * (y.rank - 2)))])
    if b.chance(0.2):
        y = b.emit("Add", [y, b.fitted(y.dtype, y.shape)])
    if b.chance(0.5):
        y = b.emit(b.choice(("Relu", "Sigmoid", "LeakyRelu", "HardSigmoid", "Tanh")), [y])
    return y


def batch_norm(b, x):
    channels = (x.shape[1],)
    return b.emit("BatchNormalization",
                  [x, b.weight(x.dtype, channels), b.weight(x.dtype, channels),
                   b.weight(x.dtype, channels, -1, 1), b.weight(x.dtype, channels, 0.5, 1.4)])


@family("linear", 1)
def batch_normalization(b):
    return batch_norm(b, b.pick((F32, F32, F64, F16), test=lambda v: v.rank >= 2 and v.size))


@family("linear", 2.5)
def conv_transpose(b):
    x = image(b)
    channels = x.shape[1]
    group = b.choice([1, 1] + [g for g in (2, channels) if channels % g == 0])
    out = b.choice((1, 2, 3, 4, 8))
    kernel, attrs = window(b, x.shape[2:], most=4)
    if any(s > k for s, k in zip(attrs.get("strides", kernel), kernel)):
        attrs.pop("auto_pad", None)  # onnxruntime gives another size than the specification
    if "strides" in attrs and b.chance(0.3):
        attrs["output_padding"] = [b.int(0, s - 1) for s in attrs["strides"]]
    scale = 1 / np.sqrt(channels)
    low, high = (-1, 1) if b.exact else (-scale, scale)
    inputs = [x, b.weight(x.dtype, (channels, out, *kernel), low, high)]
    if b.chance(0.5):
        inputs.append(b.weight(x.dtype, (out * group,)))
    return after_conv(b, b.emit("ConvTranspose", inputs, group=group, **attrs))


@family("linear", 3)
def pool(b):
    x = image(b)
    op = b.choice(("MaxPool", "AveragePool", "MaxPool", "AveragePool", "LpPool"))
    kernel, attrs = window(b, x.shape[2:])
    since = {"MaxPool": 10, "AveragePool": 19, "LpPool": 18}[op]
    if b.opset < since:
        attrs.pop("dilations", None)
    if b.chance(0.3) and "auto_pad" not in attrs and op != "LpPool":
        attrs["ceil_mode"] = 1
    if op == "AveragePool" and b.chance(0.4):
        attrs["count_include_pad"] = 1
    return b.emit(op, [x], kernel_shape=kernel, **attrs)


@family("linear", 1)
def global_pool(b):
    op = b.choice(("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool", "GlobalAveragePool"))
    return b.emit(op, [image(b)])


@family("linear", 0.7)
def matmul_integer(b):
    x = b.pick((U8, I8), test=lambda v: v.rank >= 2)
    y = b.fitted(b.choice((U8, I8)), (x.shape[-1], b.choice(SIZES)))
    inputs = [x, y]
    if b.chance(0.6):
        inputs += [b.constant(np.array(b.int(0, 5), x.dtype)),
                   b.constant(np.array(b.int(0, 5), y.dtype))]
    return b.emit("MatMulInteger", inputs)


@family("linear", 0.7)
def conv_integer(b):
    x = image(b, (U8,))
    kernel, attrs = window(b, x.shape[2:])
    w = b.weight(U8, (b.choice(CHANNELS), x.shape[1], *kernel))
    inputs = [x, w]
    if b.chance(0.6):
        inputs += [b.constant(np.array(b.int(0, 5), U8)), b.constant(np.array(b.int(0, 5), U8))]
    return b.emit("ConvInteger", inputs, **attrs)
