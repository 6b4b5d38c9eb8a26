"""Resizing, sequences, quantisation."""
import numpy as np
from builder import F16, F32, F64, I8, I32, U8, Refused
from families import family
from ops_linear import image, window

COORDINATES = ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel")


@family("sampling", 4)
def resize(b):
    mode = b.choice(("nearest", "nearest", "linear", "cubic"))
    # Of integers, interpolation hits whole numbers or just misses them, as rounding has it.
    x = image(b, (F32, F32, F32, F64, F16) + ((U8, I32) if mode == "nearest" else ()))
    attrs = {"mode": mode, "coordinate_transformation_mode": b.choice(COORDINATES)}
    if mode == "nearest":
        attrs["nearest_mode"] = b.choice(
            ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"))
    if mode == "cubic" and b.chance(0.5):
        attrs["cubic_coeff_a"] = -0.5
    if b.opset >= 18 and b.chance(0.2) and mode != "nearest":
        attrs["antialias"] = 1
    spatial = range(2, x.rank)
    if b.opset < 11:
        scales = b.constant(np.array([1, 1] + [b.choice((1, 2, 3)) for _ in spatial], np.float32))
        return b.emit("Upsample" if b.opset == 9 else "Resize", [x, scales],
                      mode="linear" if mode == "linear" else "nearest")
    empty = b.constant(np.array([], np.float32))
    if b.chance(0.5):
        scales = [1.0, 1.0] + [b.choice((1.0, 2.0, 2.0, 0.5, 1.5, 3.0)) for _ in spatial]
        if attrs["coordinate_transformation_mode"] == "align_corners" and any(
                d * s % 1 for d, s in zip(x.shape, scales)):
            raise Refused  # onnxruntime differs from ONNX's tests where a scaled size is cut
        return b.emit("Resize", [x, empty, b.constant(np.array(scales, np.float32))], **attrs)
    sizes = [*x.shape[:2], *(b.int(1, 12) for _ in spatial)]
    scales = [size / d for size, d in zip(sizes, x.shape)]
    if mode == "nearest" and any(s != float(np.float32(s)) for s in scales):
        raise Refused  # places between elements, which rounding of the scale decides
    return b.emit("Resize", [x, empty, empty, b.ints(sizes)], **attrs)


@family("sampling", 2)
def recurrent(b):
    op = b.choice(("RNN", "GRU", "LSTM", "LSTM"))
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[op]
    x = b.pick((F32,), rank=3, test=lambda v: v.size and v.shape[0] <= 16)
    hidden, direction = b.choice((1, 2, 3, 4, 5, 8)), b.choice(
        ("forward", "reverse", "bidirectional"))
    directions = 2 if direction == "bidirectional" else 1
    steps, batch, size = x.shape
    scale = lambda n: {"low": -1 / np.sqrt(n), "high": 1 / np.sqrt(n)}  # noqa: E731
    inputs = [x, b.weight(F32, (directions, gates * hidden, size), **scale(size)),
              b.weight(F32, (directions, gates * hidden, hidden), **scale(hidden))]
    if b.chance(0.7):
        inputs.append(b.weight(F32, (directions, 2 * gates * hidden)))
    if b.chance(0.5):
        lengths = None
        if b.chance(0.5):
            lengths = b.constant(b.numpy.integers(1, steps, batch, endpoint=True).astype(I32))
        inputs += [None] * (4 - len(inputs)) + [lengths]
        state = (directions, batch, hidden)
        inputs.append(b.fitted(F32, state) if b.chance(0.5) else None)
        if op == "LSTM" and b.chance(0.5):
            inputs.append(b.fitted(F32, state))
            if b.chance(0.5):
                inputs.append(b.weight(F32, (directions, 3 * hidden)))
    attrs = {"linear_before_reset": b.int(0, 1)} if op == "GRU" else {}
    return b.emit(op, inputs, outputs=3 if op == "LSTM" else 2, hidden_size=hidden,
                  direction=direction, **attrs)


def scale_of(b, shape=()):
    return b.constant(np.asarray(b.numpy.choice([0.125, 0.25, 0.5, 0.0625], shape)).astype(F32))


def zero_point(b, dtype, shape=()):
    low, high = (100, 150) if dtype == U8 else (-20, 20)
    return b.constant(np.asarray(b.numpy.integers(low, high, shape)).astype(dtype))


@family("quantised", 3)
def quantize(b):
    x = b.pick((F32,))
    dtype = b.choice((U8, I8))
    shape, attrs = (), {}
    if b.opset >= 13 and x.rank and b.chance(0.3):
        axis = b.axis(x)
        shape, attrs = (x.shape[axis],), {"axis": axis}
    scale, zero = scale_of(b, shape), zero_point(b, dtype, shape)
    y = b.emit("QuantizeLinear", [x, scale, zero], **attrs)
    return b.emit("DequantizeLinear", [y, scale, zero], **attrs) if b.chance(0.6) else y


@family("quantised", 2)
def dequantize(b):
    x = b.pick((U8, I8, I32))
    zero = [] if x.dtype == I32 else [zero_point(b, x.dtype)]
    return b.emit("DequantizeLinear", [x, scale_of(b), *zero])


@family("quantised", 1)
def dynamic_quantize(b):
    x = b.pick((F32,), test=lambda v: v.size)
    return b.emit("DynamicQuantizeLinear", [x], outputs=3)


@family("quantised", 1)
def qlinear_matmul(b):
    x = b.pick((U8, I8), test=lambda v: v.rank >= 2 and v.size)
    y = b.weight(x.dtype, (x.shape[-1], b.choice((1, 3, 8, 16, 17))))
    parameters = lambda: (scale_of(b), zero_point(b, x.dtype))  # noqa: E731
    return b.emit("QLinearMatMul", [x, *parameters(), y, *parameters(),
                                    b.constant(np.array(4.0, F32)), zero_point(b, x.dtype)])


@family("quantised", 1.5)
def qlinear_conv(b):
    x = image(b, (U8,))
    kernel, attrs = window(b, x.shape[2:])
    out = b.choice((1, 3, 8, 16))
    dtype = b.choice((U8, I8))
    w = b.weight(dtype, (out, x.shape[1], *kernel))
    per = (out,) if b.chance(0.3) and dtype == I8 else ()
    zero = b.constant(np.zeros(per, dtype)) if per else zero_point(b, dtype)
    inputs = [x, scale_of(b), zero_point(b, U8), w, scale_of(b, per), zero,
              b.constant(np.array(4.0, F32)), zero_point(b, U8)]
    if b.chance(0.5):
        inputs.append(b.weight(I32, (out,)))
    return b.emit("QLinearConv", inputs, **attrs)
