"""Operators that few models have."""
import numpy as np
from builder import F32, F64, I64, Refused
from families import family
from ops_linear import image, window
from graph import elem
from onnx import helper


def since(b, version):
    if b.opset < version:
        raise Refused


@family("more", 1)
def grid_sample(b):
    since(b, 16)
    x = b.pick((F32,), rank=4, test=lambda v: v.size)
    grid = b.weight(F32, (x.shape[0], b.int(1, 6), b.int(1, 6), 2), -1.2, 1.2)
    modes = ("linear", "nearest", "cubic") if b.opset >= 20 else ("bilinear", "nearest", "bicubic")
    mode = b.choice(modes)
    # Of cubic curves at a border, onnxruntime's differ from those of ONNX's reference.
    padding = b.choice(("zeros", "reflection") + ("border",) * ("cubic" not in mode))
    return b.emit("GridSample", [x, grid], mode=mode, align_corners=b.int(0, 1),
                  padding_mode=padding)


@family("more", 1)
def center_crop_pad(b):
    since(b, 18)
    x = b.pick((F32, F64, I64), test=lambda v: v.rank)
    axes = sorted(a % x.rank for a in b.axes(x))
    sizes = [max(1, x.shape[a] + b.int(-3, 3)) for a in axes]
    return b.emit("CenterCropPad", [x, b.ints(sizes)], axes=axes)


@family("more", 0.7)
def col2im(b):
    since(b, 18)
    kernel, size = [b.int(1, 3), b.int(1, 3)], [b.int(3, 6), b.int(3, 6)]
    blocks = (size[0] - kernel[0] + 1) * (size[1] - kernel[1] + 1)
    x = b.fitted(F32, (b.int(1, 2), b.int(1, 3) * kernel[0] * kernel[1], blocks))
    return b.emit("Col2Im", [x, b.ints(size), b.ints(kernel)])


@family("more", 1)
def dft(b):
    since(b, 17)
    x = b.pick((F32,), test=lambda v: v.rank >= 2 and v.size and v.rank < 5)
    shape = (*x.shape, 1)
    x = b.emit("Reshape", [x, b.ints(shape)])
    axis = b.int(1, len(shape) - 2)
    if shape[axis] > 64:  # onnxruntime loses more than an operator may
        raise Refused
    # Not kept, as imaginary parts that should be zero are next to zero instead.
    onesided = b.int(0, 1)
    if b.opset < 20:
        return b.emit("DFT", [x], keep=False, axis=axis, onesided=onesided)
    return b.emit("DFT", [x, None, b.constant(np.array(axis, I64))], keep=False,
                  onesided=onesided)


@family("more", 0.7)
def stft(b):
    since(b, 17)
    length, frame, step = b.int(16, 60), b.choice((4, 8, 16, 6)), b.choice((2, 4, 5))
    x = b.fitted(F32, (b.int(1, 2), length, 1))
    x = b.emit("Reshape", [x, b.ints((x.shape[0], length, 1))])
    return b.emit("STFT", [x, b.constant(np.array(step, I64)), b.weight(F32, (frame,)),
                           b.constant(np.array(frame, I64))], keep=False, onesided=b.int(0, 1))


@family("more", 0.5)
def made_window(b):
    since(b, 17)
    op = b.choice(("HannWindow", "HammingWindow", "BlackmanWindow"))
    y = b.emit(op, [b.constant(np.array(b.int(4, 20), I64))], periodic=b.int(0, 1))
    # Off zero, about which the ends are as rounding has it, and so is their sign.
    return b.emit("Add", [y, b.constant(np.array(0.5, F32))])


@family("more", 1)
def pool_with_indices(b):
    x = image(b, (F32, F32, F64))
    kernel, attrs = window(b, x.shape[2:])
    attrs.pop("auto_pad", None)
    if b.opset < 10:
        attrs.pop("dilations", None)
    if b.opset < 8:
        raise Refused
    y, at = b.emit("MaxPool", [x], outputs=2, kernel_shape=kernel, **attrs)
    if b.chance(0.4) and b.opset >= 9 and not attrs:
        return b.emit("MaxUnpool", [y, at], kernel_shape=kernel)
    return y


@family("more", 3)
def branches(b):
    """An If whose branch the model's shapes decide, or its data."""
    since(b, 13)
    x = b.pick((F32, F32, F64, I64), test=lambda v: v.rank and v.size)
    if b.chance(0.5):
        left, right = b.emit("Size", [b.emit("Shape", [x], keep=False)], keep=False), b.constant(
            np.array(b.choice((x.rank, 3)), I64))
    else:
        axes = {"axes": list(range(x.rank))} if b.opset < 18 else {}
        left = b.emit("ReduceMax", [x], keep=False, keepdims=0, **axes)
        right = b.constant(np.array(b.choice((0, 1)), x.dtype))
    condition = b.emit(b.choice(("Equal", "Less", "Greater")), [left, right], keep=False)
    captured = [x] + [b.fitted(x.dtype, x.shape)] * b.int(0, 1)
    then = branch(b, captured, "then_branch")
    return b.emit("If", [condition], captured=captured, then_branch=then,
                  else_branch=branch(b, captured, "else_branch"))


def branch(b, captured, name):
    """One to three nodes on the captured values."""
    nodes, value = [], captured[0].name
    for _ in range(b.int(1, 3)):
        out = b.name("b")
        if len(captured) > 1 and b.chance(0.5):
            nodes.append(helper.make_node(b.choice(("Add", "Sub", "Max")),
                                          [value, captured[1].name], [out]))
        else:
            nodes.append(helper.make_node(b.choice(("Neg", "Abs", "Relu", "Sign", "Identity")),
                                          [value], [out]))
        value = out
    info = helper.make_tensor_value_info(value, elem(captured[0].array), None)
    return helper.make_graph(nodes, name, [], [info])


@family("more", 0.7)
def affine_grid(b):
    since(b, 20)
    count = b.int(1, 2)
    theta = b.fitted(F32, (count, 2, 3))
    return b.emit("AffineGrid", [theta, b.ints((count, 2, b.int(1, 6), b.int(1, 6)))],
                  align_corners=b.int(0, 1))
