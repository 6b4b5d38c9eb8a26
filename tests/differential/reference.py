"""onnxruntime as the reference, and how far its own results can be trusted.

The bound on each element: the graph is run again with every inexact value multiplied by 1 plus or
minus a few units of rounding, each element another sign. What a result moves by is what rounding
can do to it; where it moves, a difference of that size is no error. So a comparison of nearly equal
numbers, which rounding may decide either way, raises no false alarm, and all else is compared
strictly."""
import multiprocessing
import os

import numpy as np
import onnxruntime as ort
from graph import Graph, Node, elem, make_model
from onnx import helper

ort.set_default_logger_severity(4)

EPSILON = {np.dtype("float16"): 1e-3, np.dtype("float32"): 5e-7, np.dtype("float64"): 1e-14}
# Relative to the largest magnitude of an output: what one operator may lose.
RELATIVE = {np.dtype("float16"): 4e-3, np.dtype("float32"): 1e-5, np.dtype("float64"): 1e-12}
# What is less is nothing, where all of an output is next to nothing (sigmoids far below zero).
ABSOLUTE = {np.dtype("float16"): 1e-6, np.dtype("float32"): 1e-7, np.dtype("float64"): 1e-16}
STRENGTHS = (1, 2, 4)  # of the perturbation, each with both signs: strong ones find what may jump
AMPLIFY = 8  # over the largest movement seen

# Operators that only move, choose or compare: of exact operands they are exact, and an operand's
# perturbation is theirs.
MOVES = set("""Reshape Transpose Squeeze Unsqueeze Flatten Slice Concat Split Pad Tile Expand Gather
GatherElements GatherND ScatterElements ScatterND DepthToSpace SpaceToDepth Identity Trilu
ReverseSequence Compress MaxPool GlobalMaxPool Max Min Relu Abs Neg Sign Where TopK ReduceMax
ReduceMin Clip Dropout CenterCropPad Upsample""".split())
EXACT = MOVES | set("""Add Sub Sum Floor Ceil Round Not And Or Xor Equal Less Greater LessOrEqual
GreaterOrEqual ArgMax ArgMin OneHot Shape Size QuantizeLinear IsNaN IsInf Range EyeLike
ConstantOfShape Hardmax Cast CastLike""".split())


def _session(model):
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    return ort.InferenceSession(model.SerializeToString(), options,
                                providers=["CPUExecutionProvider"])


_refused = set()


def run_node(graph, node):
    """The outputs of one node on known operands, or None when onnxruntime refuses it."""
    names = [name for name in (*node.inputs, *node.captured) if name]
    key = (node.domain, node.op, graph.opset, len(node.outputs),
           *(graph.values[name].dtype for name in names))
    if key in _refused:
        return None
    inputs = {n: graph.values[n] for n in names if n not in graph.constants}
    constants = {n: graph.constants[n] for n in names if n in graph.constants}
    proto = helper.make_graph(
        [node.proto()], "node",
        [helper.make_tensor_value_info(n, elem(a), a.shape) for n, a in inputs.items()],
        [helper.make_empty_tensor_value_info(n) for n in node.outputs],
        [helper.make_tensor(n, elem(a), a.shape, a.tobytes(), raw=True)
         for n, a in constants.items()])
    try:
        session = _session(make_model(proto, graph.opset))
    except Exception as error:  # onnxruntime's own kinds have no common base
        if "NOT_IMPLEMENTED" in str(error):
            _refused.add(key)
        return None
    try:
        arrays = session.run(node.outputs, inputs)
    except Exception:
        return None
    for array, declared in zip(arrays, session.get_outputs()):
        if any(isinstance(d, int) and d != n for d, n in zip(declared.shape, array.shape)):
            return None  # its shape inference and its code disagree, which fails in a whole graph
    return arrays


def run(graph):
    """Output arrays by name."""
    return dict(zip(graph.outputs, _session(graph.model()).run(graph.outputs, graph.inputs)))


def compute(graph):
    """Fills in the values of a graph that has other inputs than when it was built."""
    graph.values = {**graph.inputs, **graph.constants}
    names = list(graph.producers())
    whole = make_model(graph.proto(names, typed=False), graph.opset)
    arrays = apart(lambda: _session(whole).run(names, graph.inputs))
    graph.values.update(zip(names, arrays))
    for node in graph.nodes:
        if node.op == "ReduceMean" and not graph.values[node.inputs[0]].size and any(
                graph.values[name].size for name in node.outputs):
            raise Unusable("the mean of nothing is undefined")


def apart(function):
    """What a function gives in a process of its own: onnxruntime ends the process at some sizes,
    0 above all. Raises Unusable when it fails."""
    ours, theirs = multiprocessing.Pipe(duplex=False)
    child = os.fork()
    if not child:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        try:
            theirs.send(function())
        finally:
            os._exit(0)
    theirs.close()
    try:
        return ours.recv()
    except EOFError:
        raise Unusable("onnxruntime fails") from None
    finally:
        os.waitpid(child, 0)
        ours.close()


class _Noise:
    """One graph with factors as further inputs, so that a session serves all runs."""

    def __init__(self, graph):
        self.graph = Graph(graph.opset, dict(graph.inputs), dict(graph.constants), [],
                           list(graph.outputs), dict(graph.values))
        self.factors, self.clean = [], set()
        self.inexact = {}  # perturbed forms of other values, for operators that round
        new = {}
        for name, array in [*graph.inputs.items(), *graph.constants.items()]:
            if name[0] in "ce" or not self._perturb(name, new):
                self.clean.add(name)
        for node in graph.nodes:
            self._add(node, new)
        self.graph.outputs = [new.get(o, o) for o in graph.outputs]

    def _perturb(self, name, new):
        """Makes new[name] the perturbed value; false where there is nothing to perturb."""
        array = self.graph.values[name]
        if array.dtype not in EPSILON or not array.size:
            return False
        factor, new[name] = f"n_{name}", f"y_{name}"
        self.graph.inputs[factor] = self.graph.values[factor] = np.ones_like(array)
        self.graph.values[new[name]] = array
        self.graph.nodes.append(Node("Mul", [name, factor], [new[name]]))
        self.factors.append(factor)
        return True

    def _add(self, node, new):
        outputs = [o for o in node.outputs if o]
        exact = node.op in EXACT and all(i in self.clean for i in node.uses() if i)
        names = dict(new)
        if exact:
            self.clean.update(outputs)
        elif node.op not in EXACT:  # rounds within itself: equal or exact operands, too
            for name in node.inputs:
                if name and name[0] != "c" and name not in new and name not in self.inexact:
                    self._perturb(name, self.inexact)
            names = self.inexact | new
        self.graph.nodes.append(Node(node.op, [names.get(i, i) for i in node.inputs], node.outputs,
                                     node.attrs, node.domain, node.captured))
        if not exact and node.op not in MOVES:
            for name in outputs:
                self._perturb(name, new)

    def run(self, seed):
        random = np.random.default_rng(seed)
        session = _session(self.graph.model())
        signs = {}
        for strength in STRENGTHS:
            for name in self.factors:
                ones = self.graph.inputs[name]
                signs[name] = (random.choice((-1.0, 1.0), ones.shape)
                               * random.uniform(0.5, 1.5, ones.shape))
            for sign in (strength, -strength):
                yield strength, self._run_with(session, lambda name, s=sign: s * signs[name])
        for sign in (1, -1):  # all one way: the largest of many rounded values moves by that alone
            yield 1, self._run_with(session, lambda name, s=sign: s)

    def _run_with(self, session, units):
        """The outputs when each factor is off by so many units of rounding."""
        feeds = dict(self.graph.inputs)
        for name in self.factors:
            ones = feeds[name]
            feeds[name] = np.asarray(ones + EPSILON[ones.dtype] * units(name), ones.dtype)
        return session.run(self.graph.outputs, feeds)


class Unusable(Exception):
    """onnxruntime runs each node of a graph, but not the whole."""


class Expected:
    """What a graph is to give: arrays, and the difference allowed for each element."""

    def __init__(self, graph, seed=0):
        try:
            self.arrays = run(graph)
            moved = self._movement(_Noise(graph).run(seed))
        except Exception as error:  # onnxruntime's own kinds have no common base
            raise Unusable(error) from None
        # An element may stay by chance where perturbations cancel, but not half of the elements.
        self.allowed = {name: AMPLIFY * np.maximum(m, np.median(m) if m.size else 0)
                        + _base(self.arrays[name]) for name, m in moved.items()}

    def _movement(self, runs):
        """By output: how far each element moved at most, for a perturbation of strength 1."""
        moved = {name: np.zeros(a.shape) for name, a in self.arrays.items()}
        for strength, arrays in runs:
            for (name, array), other in zip(self.arrays.items(), arrays):
                distance = _distance(array, other)
                if array.dtype.kind == "f":
                    distance = distance / strength
                else:  # an index or a rounded number that may jump may jump anywhere
                    distance = np.where(distance > 0, np.inf, 0.0)
                moved[name] = np.fmax(moved[name], distance)
        return moved

    def compare(self, actual):
        """None, or what differs first: (output, text)."""
        for name, expected in self.arrays.items():
            text = difference(actual.get(name), expected, self.allowed[name])
            if text:
                return name, text
        return None


def _base(array):
    if array.dtype not in RELATIVE or not array.size:
        return 0.0
    finite = np.abs(array[np.isfinite(array)].astype(np.float64))
    return ABSOLUTE[array.dtype] + RELATIVE[array.dtype] * finite.max(initial=0)


def _distance(a, b):
    """Infinite where one is special and the other is not the same."""
    if a.dtype.kind in "iu" and a.dtype.itemsize == 8:
        return np.where(a == b, 0.0, 1.0)  # beyond what doubles tell apart
    a, b = a.astype(np.float64), b.astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(all="ignore"):
        distance = np.abs(a - b)
    return np.where(same, 0.0, np.where(np.isfinite(distance), distance, np.inf))


def difference(actual, expected, allowed):
    """A text that says how two arrays differ by more than allowed, or None."""
    if actual is None:
        return "missing"
    if actual.dtype != expected.dtype or actual.shape != expected.shape:
        return (f"{actual.dtype}{list(actual.shape)} instead of "
                f"{expected.dtype}{list(expected.shape)}")
    distance = _distance(actual, expected)
    wrong = distance > allowed
    if not wrong.any():
        return None
    worst = np.unravel_index(np.argmax(np.where(wrong, distance, -1)), wrong.shape)
    bound = np.broadcast_to(allowed, wrong.shape)[worst]
    return (f"{int(wrong.sum())} of {wrong.size} elements; at {[int(i) for i in worst]} "
            f"{actual[worst]} instead of {expected[worst]} (within {bound:.3g})")
