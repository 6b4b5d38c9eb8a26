"""Attention and rotary embedding of com.microsoft."""
import itertools

import numpy as np

from case import Case, evaluate, reference
from cases_linear import F16, F32, rand

B, S, P, N, H = 2, 5, 3, 2, 8  # batch, sequence, earlier, heads, size of a head
D, T = N * H, P + S
I32 = np.int32


def masks(total):
    """One of each form, for B sequences."""
    full = (np.random.default_rng(3).random((B, S, total)) > 0.3).astype(I32)
    full[0, 1] = 0  # a row with nothing in it
    return {"ends": np.array([total - 1, total // 2], I32),
            "ends and starts": np.array([total, total - 1, 0, 1], I32),
            "keys": full[:, 0], "rows": full}


def self_attention():
    op = "Attention"
    x, w, b = rand(B, S, 12), rand(12, 3 * D), rand(3 * D)
    past = rand(2, B, N, P, H)
    for one_way in (0, 1):
        attrs = {"num_heads": N, "unidirectional": one_way}
        yield Case(op, [x, w, b], attrs, const=(1, 2))
        yield Case(op, [x, w, None], attrs)
        yield Case(op, [x, w, b, None, past], attrs, 2)
        for name, mask in masks(S).items():
            yield Case(op, [x, w, b, mask], attrs, note=name)
        for name, mask in masks(T).items():
            yield Case(op, [x, w, b, mask, past], attrs, 2, note=name)
        for batch, heads in itertools.product((1, B), (1, N)):
            yield Case(op, [x, w, b, None, None, rand(batch, heads, S, S)], attrs)
    yield Case(op, [x, w, b], {"num_heads": N, "scale": 0.7})
    yield Case(op, [x, w, b, masks(S)["keys"]], {"num_heads": N, "mask_filter_value": -1.5})
    yield Case(op, [x, rand(12, 2 * D + 2 * 6), rand(2 * D + 12)],
               {"num_heads": N, "qkv_hidden_sizes": [D, D, 12]})
    yield Case(op, [x, w, b, masks(S)["keys"]], {"num_heads": N},
               dims={0: ("b", "s", None), 3: ("b", "s")})
    yield Case(op, [x[:, :1], w, b, None, past], {"num_heads": N, "unidirectional": 1}, 2)


def multi_head():
    op, attrs = "MultiHeadAttention", {"num_heads": N}
    q, k, v = rand(B, S, D), rand(B, 4, D, seed=1), rand(B, 4, 12, seed=2)
    b = rand(2 * D + 12)
    past = [rand(B, N, P, H), rand(B, N, P, H, seed=1)]
    own = [q, rand(B, S, D, seed=1), rand(B, S, D, seed=2)]
    yield Case(op, [q, k, v], attrs)
    yield Case(op, [q, k, v, b], attrs)
    yield Case(op, [q, k, v, b], {**attrs, "scale": 0.3})
    yield Case(op, [q, k, v, None, np.array([3, 4], I32)], attrs)
    yield Case(op, [q, k, v, b, masks(4)["keys"]], attrs)
    yield Case(op, [q, k, v, b, masks(4)["rows"]], {**attrs, "mask_filter_value": -100.0})
    for batch, heads in itertools.product((1, B), (1, N)):
        yield Case(op, [q, k, v, None, None, rand(batch, heads, S, 4)], attrs)
    yield Case(op, [q, rand(B, N, 4, H), rand(B, N, 4, H, seed=1)], attrs, note="heads apart")
    for one_way in (0, 1):
        attrs = {"num_heads": N, "unidirectional": one_way}
        yield Case(op, own, attrs, 3)
        yield Case(op, own + [rand(3 * D)], attrs, 3)
        yield Case(op, own + [None, None, None] + past, attrs, 3)
        yield Case(op, own + [None, None, None] + past, attrs, 4, types={3: F32})
        yield Case(op, own + [rand(3 * D), masks(T)["keys"], None] + past, attrs, 3)
        yield Case(op, own + [None, None, rand(1, N, S, T)] + past, attrs, 3)
        yield Case(op, [x[:, :1] for x in own] + [None, None, None] + past, attrs, 3)
    # Packed forms run on other processors only: the same as the parts.
    plain = reference(Case(op, own, {"num_heads": N}))["y0"]
    parts = [x.reshape(B, S, N, 1, H) for x in own]
    yield Case(op, [np.concatenate(parts, 3)], {"num_heads": N}, expected=[plain])
    yield Case(op, [q, np.concatenate(parts[1:], 3)], {"num_heads": N}, expected=[plain])
    yield Case(op, own, {"num_heads": N}, dims={i: ("b", "s", None) for i in range(3)})


def quantised():
    op = "QAttention"
    rng = np.random.default_rng(4)
    past = rand(2, B, N, P, H)
    for wt in (np.uint8, np.int8):
        x = rng.integers(0, 256, (B, S, 12)).astype(np.uint8)
        w = rng.integers(-63, 64, (12, 3 * D)).astype(I32)
        w = (w + 64 if wt == np.uint8 else w).astype(wt)
        scales = [np.float32(0.01), np.float32(0.02)]
        zeros = [np.array(7, np.uint8), np.array(64 if wt == np.uint8 else 0, wt)]
        b = rand(3 * D)
        for one_way in (0, 1):
            attrs = {"num_heads": N, "unidirectional": one_way}
            head = [x, w, b] + [np.array(s) for s in scales]
            const = (1, 4, 7)
            if wt == np.int8:
                yield Case(op, head + [None, zeros[0]], attrs, const=const)
            yield Case(op, head + [None] + zeros, attrs, const=const)
            yield Case(op, head + [masks(S)["keys"]] + zeros, attrs, const=const)
            yield Case(op, head + [masks(S)["ends"]] + zeros, attrs, const=const)
            yield Case(op, head + [None] + zeros + [past], attrs, 2, const=const)
    per_column = rng.uniform(0.01, 0.03, 3 * D).astype(F32)
    yield Case(op, [x, w, b, np.array(scales[0]), per_column, None, zeros[0],
                    np.zeros(3 * D, np.int8)], {"num_heads": N, "scale": 0.4}, const=(1, 4, 7))


def group_query():
    op, kv, H = "GroupQueryAttention", 1, 16
    angles = rand(32, H // 2, seed=3, low=-3, high=3)
    for dtype in (F32, F16):
        def r(*shape, seed=0):
            return rand(*shape, dtype=dtype, seed=seed)
        caches = [np.cos(angles).astype(dtype), np.sin(angles).astype(dtype)]
        q, k, v = r(B, S, N * H), r(B, S, kv * H, seed=1), r(B, S, kv * H, seed=2)
        packed = np.concatenate([q, k, v], 2)
        past = [r(B, kv, P, H), r(B, kv, P, H, seed=1)]
        base = {"num_heads": N, "kv_num_heads": kv}
        prompt = [np.full(B, S - 1, I32), np.array(S, I32)]
        one = [x[:, :1] for x in (q, k, v)]
        step = [np.full(B, P, I32), np.array(P + 1, I32)]
        const = (6,)
        for attrs in ({}, {"scale": 0.3}, {"softcap": 1.5}, {"local_window_size": 2},
                      {"smooth_softmax": 1}, {"do_rotary": 1},
                      {"do_rotary": 1, "rotary_interleaved": 1}):
            attrs = {**base, **attrs}
            rotary = caches if "do_rotary" in attrs else []
            yield Case(op, [q, k, v, None, None] + prompt + rotary, attrs, 3, const=const)
            yield Case(op, [packed, None, None, None, None] + prompt + rotary, attrs, 3,
                       const=const)
            yield Case(op, one + past + step + rotary, attrs, 3, const=const)
        ragged = [np.array([P, P - 1], I32), np.array(P + 1, I32)]
        yield Case(op, one + past + ragged + caches, {**base, "do_rotary": 1}, 3, const=const)
        roomy = [r(B, kv, 10, H), r(B, kv, 10, H, seed=1)]
        yield Case(op, one + roomy + ragged + caches, {**base, "do_rotary": 1}, 3, const=const)
        yield Case(op, one + past + step, {**base, "local_window_size": 1}, 3, const=const)
        for attrs, rotary in (({}, []), ({"do_rotary": 1}, caches)):  # all sizes at run time
            attrs = {**base, **attrs}
            yield Case(op, one + past + step + rotary, attrs, 3)
            yield Case(op, one + past + ragged + rotary, attrs, 3)
            yield Case(op, one + roomy + ragged + rotary, attrs, 3)
            yield Case(op, [q, k, v, None, None] + prompt + rotary, attrs, 3)
            yield Case(op, [q, k, v] + roomy + prompt + rotary, attrs, 3)
        for heads in (1, N):
            yield Case(op, [q, k, v, None, None] + prompt + [None, None, None, r(1, heads, S, S)],
                       base, 3, const=const)
        yield Case(op, one + past + step + [None, None, None, r(B, N, 1, P + 1)], base, 3,
                   const=const)
        yield Case(op, one + past + step + [None, None, None, None, r(N)], base, 3, const=const)
        # Norms of queries and keys are for other processors: they say the same as norms before.
        norms = [r(H), r(H, seed=5)]
        normed = [evaluate("SimplifiedLayerNormalization", [x.reshape(*x.shape[:2], -1, H), w],
                           {"epsilon": 1e-4}, opset=12).reshape(x.shape)
                  for x, w in zip(one, norms)]
        plain = Case(op, normed + one[2:] + past + step + caches, {**base, "do_rotary": 1}, 3)
        yield Case(op, one + past + step + caches + [None] * 5 + norms,
                   {**base, "do_rotary": 1, "qk_norm_epsilon": 1e-4}, 3, const=const,
                   expected=list(reference(plain).values()))
        yield Case(op, one + past + step + caches + [np.array([[P], [P]], np.int64)],
                   {**base, "do_rotary": 1}, 3, const=const)
        for output in (1, 2):
            yield Case(op, one + past + step, {**base, "qk_output": output}, 4, const=const)
        yield Case(op, [q, k, v, None, None] + prompt, {**base, "causal": 0}, 3, const=const)
        yield Case(op, one + past + step + caches, {**base, "do_rotary": 1}, 3, const=const,
                   dims={0: ("b", None, None), 1: ("b", None, None), 2: ("b", None, None),
                         3: ("b", None, None, None), 4: ("b", None, None, None), 5: ("b",)})
        # A later part of a prompt: several queries behind an earlier state.
        later = [np.full(1, P + S - 1, I32), np.array(P + S, I32)]
        yield Case(op, [x[:1] for x in (q, k, v, *past)] + later + caches,
                   {**base, "do_rotary": 1}, 3, const=const)


def rotary():
    op = "RotaryEmbedding"
    ids = np.random.default_rng(6).integers(0, 16, (B, S)).astype(np.int64)
    for dtype, interleaved in itertools.product((F32, F16), (0, 1)):
        angles = rand(16, H // 2, low=-3, high=3)
        caches = [np.cos(angles).astype(dtype), np.sin(angles).astype(dtype)]
        x = rand(B, S, D, dtype=dtype)
        attrs = {"interleaved": interleaved}
        yield Case(op, [x, ids] + caches, attrs)
        yield Case(op, [x, ids] + caches, {**attrs, "num_heads": N, "scale": 1.0})
        yield Case(op, [x, np.array([4], np.int64)] + caches, attrs)
        yield Case(op, [rand(B, N, S, H, dtype=dtype), ids] + caches, attrs)
        part = [c[:, :2] for c in caches]
        yield Case(op, [x, ids] + part, {**attrs, "num_heads": N, "rotary_embedding_dim": 4})
        yield Case(op, [rand(B, N, S, H, dtype=dtype), ids] + part,
                   {**attrs, "num_heads": N, "rotary_embedding_dim": 4})
    yield Case(op, [x, ids] + caches, dims={0: ("b", "s", None), 1: ("b", "s")})


def cases():
    yield from self_attention()
    yield from multi_head()
    yield from quantised()
    yield from group_query()
    yield from rotary()
