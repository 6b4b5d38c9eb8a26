"""Cuts a failing graph down while it fails in the same way."""
import numpy as np
from graph import Graph
from runner import Failure


def reduce(graph, check, failure, budget=200):
    """The smallest graph found for which `check` raises a Failure of the same kind."""
    left = [budget]

    def fails(candidate):
        if left[0] <= 0 or not candidate.outputs or not candidate.nodes:
            return False
        left[0] -= 1
        try:
            check(candidate)
        except Failure as found:
            return found.kind == failure.kind
        except Exception:  # onnxruntime refuses this part: no failure of ours
            return False
        return False

    if failure.output in graph.producers():
        alone = graph.with_outputs([failure.output])
        if fails(alone):
            graph = alone
    before = None
    while before != (size(graph), left[0] <= 0):
        before = size(graph), left[0] <= 0
        graph = drop_outputs(graph, fails)
        graph = cut(graph, fails)
        graph = drop_nodes(graph, fails)
    return graph


def size(graph):
    return len(graph.nodes), len(graph.outputs), len(graph.inputs)


def drop_outputs(graph, fails):
    for name in list(graph.outputs):
        rest = [output for output in graph.outputs if output != name]
        if rest and fails(candidate := graph.with_outputs(rest)):
            graph = candidate
    return graph


def known(graph, names):
    """With these values given as inputs instead of computed."""
    inputs = dict(graph.inputs)
    for name in names:
        inputs[name] = np.asarray(graph.values[name])
    nodes = [node for node in graph.nodes if not set(node.outputs) & set(names)]
    outputs = [name for name in graph.outputs if name not in names]
    cut_graph = Graph(graph.opset, inputs, graph.constants, nodes, outputs, graph.values,
                      graph.symbols, graph.form)
    return cut_graph.with_outputs(outputs)


def cut(graph, fails):
    """Gives values as inputs: the first half of the nodes at once, then a quarter, then each."""
    count = len(graph.nodes)
    while count >= 1:
        at = 0
        while at < len(graph.nodes):
            names = [name for node in graph.nodes[at:at + count] for name in node.outputs if name]
            if fails(candidate := known(graph, names)):
                graph = candidate
            else:
                at += count
        count //= 2
    return graph


def drop_nodes(graph, fails):
    """Makes the values before the last nodes the outputs instead."""
    for node in reversed(graph.nodes):
        inner = [name for name in node.inputs if name in graph.producers()]
        if set(node.outputs) & set(graph.outputs) and inner:
            rest = [name for name in graph.outputs if name not in node.outputs]
            if fails(candidate := graph.with_outputs(rest + inner)):
                graph = candidate
    return graph
