"""RNN, GRU and LSTM in all their forms. onnxruntime knows no layout 1: the results it is held
against are those of layout 0, turned round."""
import itertools

import numpy as np
import onnx

from case import Case, reference
from cases_linear import rand

STEPS, BATCH, INPUTS, HIDDEN = 5, 3, 6, 4
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
WAYS = (("forward", 1), ("reverse", 1), ("bidirectional", 2))
LENGTHS = np.array([5, 2, 4], np.int32)
# The functions of one direction, with parameters of those that take some.
OTHERS = {
    "RNN": (["Affine"], [0.7], [0.1]),
    "GRU": (["HardSigmoid", "LeakyRelu"], [0.3, 0.2], [0.4]),
    "LSTM": (["HardSigmoid", "Softsign", "Relu"], [0.3], [0.4]),
}


def layer(op, way, directions, steps=STEPS, **attrs):
    """Inputs and attributes: X, W, R, B, initial h and c, peepholes."""
    rows = GATES[op] * HIDDEN
    inputs = [rand(steps, BATCH, INPUTS)] + [
        rand(directions, *shape, seed=i) for i, shape in enumerate(
            ((rows, INPUTS), (rows, HIDDEN), (2 * rows,), (BATCH, HIDDEN), (BATCH, HIDDEN),
             (3 * HIDDEN,)))]
    return inputs, {"hidden_size": HIDDEN, "direction": way, **attrs}


def case(op, inputs, attrs, **more):
    return Case(op, inputs, attrs, domain="", opset=14, outputs=3 if op == "LSTM" else 2, **more)


def batch_first(op, inputs, attrs):
    """The case with layout 1, whose results are those with layout 0."""
    results = list(reference(case(op, inputs, attrs)).values())
    turned = [np.moveaxis(results[0], 2, 0), *(np.swapaxes(y, 0, 1) for y in results[1:])]
    inputs = [x.swapaxes(0, 1) if i in (0, 5, 6) and x is not None else x
              for i, x in enumerate(inputs)]
    return case(op, [x if x is None else np.ascontiguousarray(x) for x in inputs],
                {**attrs, "layout": 1}, expected=[np.ascontiguousarray(y) for y in turned])


def forms(op, way, directions):
    (x, w, r, b, h, c, p), attrs = layer(op, way, directions)
    states = [h, c] if op == "LSTM" else [h]
    for const in ((), (1, 2, 3)):
        yield case(op, [x, w, r], attrs, const=const[:2])
        yield case(op, [x, w, r, b], attrs, const=const)
        yield case(op, [x, w, r, b, LENGTHS, *states], attrs, const=const)
    names, alpha, beta = OTHERS[op]
    yield case(op, [x, w, r, b, None, *states],
               {**attrs, "clip": 0.3, "activations": names * directions,
                "activation_alpha": alpha * directions, "activation_beta": beta * directions})
    yield case(op, [x, w, r, b], attrs, skip_outputs=(0,))
    yield case(op, [x, w, r, b], attrs, skip_outputs=(1, 2) if op == "LSTM" else (1,))
    yield batch_first(op, [x, w, r, b, LENGTHS, *states], attrs)
    yield batch_first(op, [x, w, r], attrs)
    if op == "GRU":
        yield case(op, [x, w, r, b, LENGTHS, h], {**attrs, "linear_before_reset": 1})
        yield case(op, [x, w, r], {**attrs, "linear_before_reset": 1})
    if op == "LSTM":
        yield case(op, [x, w, r, b, LENGTHS, h, c, p], attrs)
        yield case(op, [x, w, r, b, None, None, c, p], {**attrs, "input_forget": 1})


def scans():
    """Scan of operator set 8, whose sequences may have lengths."""
    body = onnx.parser.parse_graph("""
        body (float[1] s, float[b] u) => (float[1] t, float[b] o) {
          sum = ReduceSum <keepdims = 1> (u)
          t = Add (s, sum)
          o = Add (u, t)
        }""")
    for directions, lengths in itertools.product(([0], [1]), (None, [2, 4], [4, 1])):
        inputs = [None if lengths is None else np.array(lengths, np.int64), rand(2, 1), rand(2, 4, 3)]
        attrs = {"body": body, "num_scan_inputs": 1, "directions": directions}
        for dims in ({}, {0: ("n",), 1: ("n", None), 2: ("n", "t", "b")}):
            yield Case("Scan", inputs, attrs, 2, domain="", opset=8, dims=dims)


def cases():
    yield from scans()
    for op, (way, directions) in itertools.product(GATES, WAYS):
        yield from forms(op, way, directions)
        for steps in (1, 40):
            inputs, attrs = layer(op, way, directions, steps)
            yield case(op, inputs[:4], attrs, const=(1, 2, 3))
