"""Operators of com.microsoft that exported models have."""
import numpy as np
from builder import F16, F32
from families import family
from graph import MICROSOFT


def emit(b, op, inputs, outputs=1, **attrs):
    return b.emit(op, inputs, outputs=outputs, domain=MICROSOFT, **attrs)


@family("microsoft", 1)
def activation(b):
    op = b.choice(("Gelu", "QuickGelu", "FastGelu", "BiasGelu"))
    x = b.pick((F32,), test=lambda v: v.rank and v.size)
    inputs = [x]
    if op == "BiasGelu" or (op == "FastGelu" and b.chance(0.5)):
        inputs.append(b.weight(x.dtype, x.shape[-1:]))
    return emit(b, op, inputs, **({"alpha": 1.3} if op == "QuickGelu" and b.chance(0.5) else {}))


@family("microsoft", 1)
def fused_matmul(b):
    x = b.pick((F32,), test=lambda v: v.rank >= 2 and v.size)
    trans_a, trans_b = b.int(0, 1), b.int(0, 1)
    k = x.shape[-2] if trans_a else x.shape[-1]
    n = b.choice((1, 3, 8, 16, 17))
    y = b.fitted(F32, (n, k) if trans_b else (k, n))
    return emit(b, "FusedMatMul", [x, y], transA=trans_a, transB=trans_b,
                alpha=b.choice((1.0, 0.5)))


@family("microsoft", 1)
def skip_normalization(b):
    x = b.pick((F32, F32, F16), rank=3, test=lambda v: v.size)
    skip = b.fitted(x.dtype, x.shape)
    size = x.shape[-1:]
    gamma = b.weight(x.dtype, size)
    if b.chance(0.4):
        return emit(b, "SkipSimplifiedLayerNormalization", [x, skip, gamma], epsilon=1e-2)
    inputs = [x, skip, gamma] + [b.weight(x.dtype, size)] * b.int(0, 1)
    return emit(b, "SkipLayerNormalization", inputs, epsilon=1e-2)


@family("microsoft", 1)
def fused_conv(b):
    x = b.pick((F32,), rank=4, test=lambda v: v.size)
    channels, out = x.shape[1], b.choice((1, 3, 8, 16))
    scale = 1 / np.sqrt(channels)
    inputs = [x, b.weight(F32, (out, channels, 1, 1), -scale, scale)]
    if b.chance(0.5):
        inputs.append(b.weight(F32, (out,)))
    return emit(b, "FusedConv", inputs, activation=b.choice(("Relu", "Sigmoid", "Tanh")))
