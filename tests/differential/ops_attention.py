"""Attention and what goes with it, as single operators."""
from builder import BOOL, F16, F32, I64, Refused
from families import family


@family("attention", 2)
def attention(b):
    if b.opset < 23:
        raise Refused
    dtype = b.choice((F32, F32, F16))
    groups, key_heads = b.choice((1, 1, 2, 3)), b.choice((1, 2))
    heads = groups * key_heads
    batch, length, keys = b.int(1, 2), b.int(1, 9), b.int(1, 9)
    width, value_width = b.choice((4, 8, 5)), b.choice((4, 8))
    flat = b.chance(0.4)

    def operand(count, rows, size):
        shape = (batch, rows, count * size) if flat else (batch, count, rows, size)
        return b.fitted(dtype, shape)

    inputs = [operand(heads, length, width), operand(key_heads, keys, width),
              operand(key_heads, keys, value_width)]
    attrs = {"q_num_heads": heads, "kv_num_heads": key_heads} if flat else {}
    if b.chance(0.5):
        shape = b.choice(((length, keys), (1, 1, length, keys), (batch, 1, length, keys),
                          (batch, heads, length, keys)))
        kind = b.choice((dtype, BOOL))
        if kind == BOOL:
            mask = b.numpy.integers(0, 2, shape).astype(bool)
            mask[..., 0] = True  # a row of none is not defined
            inputs.append(b.constant(mask))
        else:
            inputs.append(b.fitted(dtype, shape))
    if b.chance(0.3):
        attrs["is_causal"] = 1
    if b.chance(0.3):
        attrs["scale"] = 0.3
    if b.chance(0.2):
        attrs["softcap"] = 2.0
    return b.emit("Attention", inputs, **attrs)


@family("attention", 1)
def rotary_embedding(b):
    if b.opset < 23:
        raise Refused
    dtype = b.choice((F32, F32, F16))
    batch, heads, length, half = b.int(1, 2), b.int(1, 3), b.int(1, 6), b.choice((2, 3, 4))
    flat = b.chance(0.4)
    x = b.fitted(dtype, (batch, length, heads * 2 * half) if flat else
                 (batch, heads, length, 2 * half))
    most = length + 3
    positions = b.constant(b.numpy.integers(0, most, (batch, length)).astype(I64))
    tables = [b.weight(dtype, (most, half), -1, 1) for _ in range(2)]
    attrs = {"num_heads": heads} if flat else {}
    return b.emit("RotaryEmbedding", [x, *tables, positions], interleaved=b.int(0, 1), **attrs)
