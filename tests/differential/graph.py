"""A graph as plain Python data: what generators build, the reducer cuts and writers write."""
from dataclasses import dataclass, field

import numpy as np
import onnx
from onnx import helper, numpy_helper

IR_VERSION = 10
MICROSOFT = "com.microsoft"


def elem(array):
    """ONNX's number of the element type."""
    return helper.np_dtype_to_tensor_dtype(array.dtype)


@dataclass
class Node:
    op: str
    inputs: list  # names, "" for what is left out
    outputs: list
    attrs: dict = field(default_factory=dict)
    domain: str = ""
    captured: list = field(default_factory=list)  # names that subgraphs in attrs use

    def uses(self):
        return {*self.inputs, *self.captured}

    def proto(self):
        return helper.make_node(self.op, self.inputs, self.outputs, domain=self.domain,
                                **self.attrs)


def tensor(name, array, form):
    if form != "typed":
        return numpy_helper.from_array(array, name)
    values = array.flatten().tolist()
    return helper.make_tensor(name, elem(array), array.shape, values)


def make_model(graph, opset, ir_version=IR_VERSION):
    return helper.make_model(graph, ir_version=ir_version, producer_name="differential",
                             opset_imports=[helper.make_opsetid("", opset),
                                            helper.make_opsetid(MICROSOFT, 1)])


def renamed_uses(attr, new):
    """An attribute; if a graph, with its uses of outer values renamed."""
    if not isinstance(attr, onnx.GraphProto):
        return attr
    graph = onnx.GraphProto()
    graph.CopyFrom(attr)
    for node in graph.node:
        node.input[:] = [new.get(name, name) for name in node.input]
    return graph


@dataclass
class Graph:
    """Values are known by name. Data that may be perturbed begins with `x` (inputs) or `w`
    (constants), exact data with `e`, parameters (axes, shapes, scales) with `c`."""

    opset: int
    inputs: dict = field(default_factory=dict)  # name: array
    constants: dict = field(default_factory=dict)
    nodes: list = field(default_factory=list)
    outputs: list = field(default_factory=list)
    values: dict = field(default_factory=dict)  # of every name: the array expected
    symbols: dict = field(default_factory=dict)  # (input, axis): name that stands for the size
    form: str = "raw"  # how constants are stored: raw, typed, node, input (with a default)

    def model(self):
        return make_model(self.proto(self.outputs), self.opset,
                          3 if self.form == "input" else IR_VERSION)

    def proto(self, outputs, typed=True):
        """As ONNX's graph with these outputs, of types that are stated or left open."""
        def info(name, array):
            dims = [self.symbols.get((name, i), d) for i, d in enumerate(array.shape)]
            return helper.make_tensor_value_info(name, elem(array), dims)

        inputs = [info(name, array) for name, array in self.inputs.items()]
        constants = [tensor(name, array, self.form) for name, array in self.constants.items()]
        nodes = [node.proto() for node in self.nodes]
        if self.form == "node":
            nodes = [helper.make_node("Constant", [], [t.name], value=t) for t in constants] + nodes
        if self.form == "input":
            inputs += [info(name, array) for name, array in self.constants.items()]
        results = [self.result(name) if typed else helper.make_empty_tensor_value_info(name)
                   for name in outputs]
        return helper.make_graph(nodes, "random", inputs, results,
                                 [] if self.form == "node" else constants)

    def result(self, name):
        """An output's type, with sizes where these are not up to symbols."""
        array = self.values[name]
        return helper.make_tensor_value_info(name, elem(array),
                                             None if self.symbols else array.shape)

    def save(self, path):
        """PATH.onnx and PATH.npz with the inputs; returns both."""
        onnx.save(self.model(), f"{path}.onnx")
        np.savez(f"{path}.npz", **self.inputs)
        return f"{path}.onnx", f"{path}.npz"

    def with_outputs(self, outputs):
        """The part that computes these outputs."""
        needed, nodes = set(outputs), []
        for node in reversed(self.nodes):
            if needed & set(node.outputs):
                needed |= node.uses()
                nodes.append(node)
        keep = lambda arrays: {n: a for n, a in arrays.items() if n in needed}  # noqa: E731
        return Graph(self.opset, keep(self.inputs), keep(self.constants), nodes[::-1],
                     list(outputs), self.values, self.symbols, self.form)

    def resized(self, sizes):
        """With inputs of other sizes, by symbol; the values are yet to be computed."""
        inputs = {}
        for name, array in self.inputs.items():
            shape = [sizes[self.symbols[name, i]] if (name, i) in self.symbols else d
                     for i, d in enumerate(array.shape)]
            inputs[name] = np.resize(array, shape)
        return Graph(self.opset, inputs, self.constants, self.nodes, self.outputs, {},
                     self.symbols, self.form)

    def producers(self):
        return {name: node for node in self.nodes for name in node.outputs if name}

    def renamed(self):
        """The same graph under other names, and the map of the names."""
        names = [*self.inputs, *self.constants, *self.producers()]
        new = {name: f"{name[0]}.{len(names) - i}/r" for i, name in enumerate(names)} | {"": ""}
        nodes = [Node(n.op, [new[i] for i in n.inputs], [new[o] for o in n.outputs],
                      {key: renamed_uses(attr, new) for key, attr in n.attrs.items()}, n.domain,
                      [new[c] for c in n.captured]) for n in self.nodes]
        move = lambda arrays: {new[n]: a for n, a in arrays.items() if n in new}  # noqa: E731
        return Graph(self.opset, move(self.inputs), move(self.constants), nodes,
                     [new[o] for o in self.outputs], move(self.values),
                     {(new[n], i): f"r{s}" for (n, i), s in self.symbols.items() if n in new},
                     self.form), new
