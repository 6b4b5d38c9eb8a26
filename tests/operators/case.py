"""One-node models: what a case is, and how cases become ONNX models."""
import dataclasses

import numpy as np
import onnx
import onnxruntime
from onnx import helper

MS = "com.microsoft"


@dataclasses.dataclass
class Case:
    """A node with its inputs. An input is an array, None (left out as ""), or absent at the end.

    `const` are the inputs that become initializers, `sparse` sparse ones; `dims` names sizes of other inputs that are to
    stay symbolic: {0: ("batch", None, 8)} for input 0, None meaning the array's own. Results may
    differ by `limit` of the largest value, or by `steps` if they are integers. `expected` are the
    results where onnxruntime has no such operator for this processor; with `check`, a function of
    the first result, they stand for types and shapes only."""
    op: str
    inputs: list
    attrs: dict = dataclasses.field(default_factory=dict)
    outputs: int = 1
    domain: str = MS
    opset: int = 21
    domain_opset: int = 1
    const: tuple = ()
    sparse: tuple = ()
    dims: dict = dataclasses.field(default_factory=dict)
    limit: float = 0
    steps: int = 0
    skip_outputs: tuple = ()
    types: dict = dataclasses.field(default_factory=dict)  # of outputs that need one stated
    expected: list = None
    check: object = None
    note: str = ""

    def label(self):
        types = ",".join("-" if x is None else f"{x.dtype}{list(x.shape)}" for x in self.inputs)
        attrs = "".join(f" {k}={v}" for k, v in self.attrs.items() if len(str(v)) < 40)
        return f"{self.op}({types}){attrs}{' ' + self.note if self.note else ''}"

    def tolerance(self):
        if self.limit:
            return self.limit
        half = any(x is not None and x.dtype == np.float16 for x in self.inputs)
        return 4e-3 if half else 2e-5


def value_type(array):
    return helper.np_dtype_to_tensor_dtype(array.dtype)


def sparse_tensor(x, name, linear):
    """Only what is not 0 of an array; its places as single numbers or an index for each axis."""
    places = np.argwhere(x)
    if linear:
        places = np.ravel_multi_index(places.T, x.shape)
    tensor = onnx.SparseTensorProto(dims=x.shape)
    tensor.values.CopyFrom(onnx.numpy_helper.from_array(x[x != 0], name))
    tensor.indices.CopyFrom(onnx.numpy_helper.from_array(np.asarray(places, np.int64)))
    return tensor


def add_node(graph, case, prefix):
    """The case's node, inputs and outputs, with names that begin with the prefix; its feeds."""
    names, feeds = [], {}
    for i, x in enumerate(case.inputs):
        name = f"{prefix}x{i}" if x is not None else ""
        names.append(name)
        if x is None:
            continue
        if i in case.sparse:
            graph.sparse_initializer.append(sparse_tensor(x, name, linear=bool(i % 2)))
            continue
        if i in case.const:
            graph.initializer.append(onnx.numpy_helper.from_array(x, name))
            continue
        sizes = case.dims.get(i, (None,) * x.ndim)
        shape = [own if given is None else f"{prefix}{given}" if isinstance(given, str) else given
                 for given, own in zip(sizes, x.shape)]
        graph.input.append(helper.make_tensor_value_info(name, value_type(x), shape))
        feeds[name] = x
    outputs = [f"{prefix}y{i}" if i not in case.skip_outputs else "" for i in range(case.outputs)]
    node = helper.make_node(case.op, names, outputs, domain=case.domain, **case.attrs)
    graph.node.append(node)
    for i, name in enumerate(outputs):
        if name and i in case.types:
            kind = helper.np_dtype_to_tensor_dtype(np.dtype(case.types[i]))
            graph.output.append(helper.make_tensor_value_info(name, kind, None))
        elif name:
            graph.output.append(onnx.ValueInfoProto(name=name))
    return feeds


def make_model(cases, prefixes):
    """All the cases in one model; they agree in opset. Returns the model and its inputs."""
    graph, feeds = onnx.GraphProto(name="cases"), {}
    for case, prefix in zip(cases, prefixes):
        feeds.update(add_node(graph, case, prefix))
    opsets = [helper.make_opsetid("", cases[0].opset)]
    opsets += [helper.make_opsetid(d, cases[0].domain_opset)
               for d in sorted({c.domain for c in cases} - {""})]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10), feeds


def reference(case):
    """What onnxruntime gives for a case by itself, not optimised, by output name."""
    model, feeds = make_model([case], [""])
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options,
                                           providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, feeds)))


def evaluate(op, inputs, attrs, domain="", opset=21, domain_opset=1):
    """The single result of a node."""
    case = Case(op, inputs, attrs, domain=domain, opset=opset, domain_opset=domain_opset)
    return reference(case)["y0"]
