#!/usr/bin/env python3
"""Broken models and files: each must give a diagnostic and exit code 1, soon and in little memory.

    run_broken.py --tilewright COMMAND [--work DIR]
"""
import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

from common import Report, measure

SECONDS, MEGABYTES = 2.0, 500
FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


def value(name, elem=FLOAT, shape=(2, 3)):
    return helper.make_tensor_value_info(name, elem, shape)


def model(nodes, inputs=None, outputs=None, initializers=(), **more):
    graph = helper.make_graph(nodes, "g", inputs or [value("x")], outputs or [value("y")],
                              list(initializers))
    opsets = more.pop("opset_imports", [helper.make_opsetid("", 17)])
    return helper.make_model(graph, opset_imports=opsets, ir_version=8, **more).SerializeToString()


def node(op, inputs=("x",), outputs=("y",), **attributes):
    return helper.make_node(op, list(inputs), list(outputs), **attributes)


def raw(name, elem, dims, data=b""):
    """A tensor whose bytes need not fit its dims."""
    return TensorProto(name=name, data_type=elem, dims=dims, raw_data=data)


def external(location, size=24, **more):
    tensor = TensorProto(name="w", data_type=FLOAT, dims=[2, 3],
                         data_location=TensorProto.EXTERNAL)
    for key, text in {"location": location, "length": str(size), **more}.items():
        tensor.external_data.add(key=key, value=text)
    return tensor


def add_weight(tensor):
    return model([node("Add", ("x", "w"))], initializers=[tensor])


def nested(levels):
    """If within If, `levels` deep; written by hand, as protobuf's writer would refuse it."""
    def field(number, payload):
        size, length = len(payload), b""
        while size > 127:
            length += bytes([size & 127 | 128])
            size >>= 7
        return bytes([number << 3 | 2]) + length + bytes([size]) + payload

    inner = helper.make_graph([node("Identity")], "leaf", [], [value("y")]).SerializeToString()
    for _ in range(levels):
        branch = field(5, field(1, b"then_branch") + field(6, inner) + b"\xa0\x01\x05")
        inner = field(1, field(1, b"c") + field(2, b"y") + field(4, b"If") + branch)
        inner += field(12, value("y").SerializeToString())
    head = onnx.ModelProto(ir_version=8, opset_import=[helper.make_opsetid("", 17)])
    return head.SerializeToString() + field(7, inner)


def tree_of_functions(levels):
    """F1 calls F0 twice, F2 calls F1 twice and so on."""
    sets = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
    functions = [helper.make_function("local", "F0", ["x"], ["y"], [node("Relu")], sets)]
    for i in range(levels):
        calls = [node(f"F{i}", ("x",), ("t",), domain="local"),
                 node(f"F{i}", ("t",), ("y",), domain="local")]
        functions.append(helper.make_function("local", f"F{i + 1}", ["x"], ["y"], calls, sets))
    return model([node(f"F{levels}", domain="local")], opset_imports=sets, functions=functions)


def if_model(then, inputs=()):
    """An If whose condition is not known, with that node in a branch; the other one is fine."""
    out = [value("o")]
    return model([node("If", ("c",), then_branch=helper.make_graph([then], "t", inputs, out),
                       else_branch=helper.make_graph([node("Abs", outputs=("o",))], "e", [], out))],
                 [value("x"), value("c", TensorProto.BOOL, ())])


def forest(**changes):
    """A tree of one comparison, which input x has the feature for."""
    attributes = {
        "n_targets": 1, "nodes_treeids": [0, 0, 0], "nodes_nodeids": [0, 1, 2],
        "nodes_featureids": [2, 0, 0], "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
        "nodes_values": [0.5, 0.0, 0.0], "nodes_truenodeids": [1, 0, 0],
        "nodes_falsenodeids": [2, 0, 0], "target_treeids": [0, 0], "target_nodeids": [1, 2],
        "target_ids": [0, 0], "target_weights": [1.0, 2.0], **changes}
    trees = node("TreeEnsembleRegressor", domain="ai.onnx.ml", **attributes)
    return model([trees], opset_imports=[helper.make_opsetid("ai.onnx.ml", 3)])


def broken_forests():
    yield "node that leads to a missing one", forest(nodes_truenodeids=[7, 0, 0])
    yield "node that leads to itself", forest(nodes_truenodeids=[0, 0, 0])
    yield "nodes in a circle", forest(
        nodes_modes=["BRANCH_LEQ", "BRANCH_LT", "LEAF"], nodes_falsenodeids=[2, 2, 0])
    yield "node given twice", forest(nodes_nodeids=[0, 1, 1])
    yield "feature that there is not", forest(nodes_featureids=[3, 0, 0])
    yield "negative feature", forest(nodes_featureids=[-1, 0, 0])
    yield "mode that there is not", forest(nodes_modes=["BRANCH_NEAR", "LEAF", "LEAF"])
    yield "column that is too short", forest(nodes_values=[0.5])
    yield "vote for a missing target", forest(target_ids=[0, 1])
    yield "vote of a missing node", forest(target_nodeids=[1, 5])
    yield "number of targets too large", forest(n_targets=1 << 40)
    yield "transform that there is not", forest(post_transform="CUBE")


def sparse(values, indices, dims):
    """A sparse initializer that is added to x."""
    tensor = onnx.SparseTensorProto(dims=dims)
    tensor.values.CopyFrom(onnx.numpy_helper.from_array(np.array(values, np.float32), "w"))
    tensor.indices.CopyFrom(onnx.numpy_helper.from_array(np.array(indices, np.int64)))
    add = helper.make_graph([node("Add", ("x", "w"))], "g", [value("x")], [value("y")])
    add.sparse_initializer.append(tensor)
    return helper.make_model(add, opset_imports=[helper.make_opsetid("", 17)],
                             ir_version=8).SerializeToString()


def broken_models(folder):
    """(name, bytes) of each model, which is to stand in folder/inside."""
    good = model([node("Relu")])
    yield "empty file", b""
    yield "not protobuf", b"\xff" * 300
    yield "text", b"this is no model\n" * 10
    for cut in (1, len(good) // 3, len(good) // 2, len(good) - 1):
        yield f"truncated to {cut} bytes", good[:cut]
    yield "length field of 2^62", b"\x3a" + b"\xff" * 8 + b"\x3f" + good
    yield "no graph", onnx.ModelProto(ir_version=8).SerializeToString()
    yield "unknown operator", model([node("NoSuchOperator")])
    yield "unknown domain", model([node("Relu", domain="nowhere")])
    yield "unknown opset", model([node("Relu")], opset_imports=[helper.make_opsetid("", 9999)])
    yield "too few inputs", model([node("Add", ("x",))])
    yield "too many inputs", model([node("Relu", ("x", "x", "x"))])
    yield "undefined input", model([node("Add", ("x", "nowhere"))])
    yield "undefined output", model([node("Relu", outputs=("z",))])
    yield "value defined twice", model([node("Relu"), node("Abs")])
    yield "cycle", model([node("Add", ("x", "b"), ("a",)), node("Add", ("x", "a"), ("b",)),
                          node("Add", ("a", "b"))])
    yield "self cycle", model([node("Relu", ("y",))])
    yield "wrong types", model([node("Add", ("x", "i"))], [value("x"), value("i", INT64)])
    yield "wrong element type", model([node("Relu")], [value("x", 1234)])
    yield "wrong attribute type", model([node("Concat", ("x", "x"), axis=[1.5])])
    yield "missing attribute", model([node("Concat", ("x", "x"))])
    yield "axis out of range", model([node("Softmax", axis=7)])
    yield "negative dimension", model([node("Relu")], [value("x", shape=(-4, 3))])
    yield "overflowing dimensions", model([node("Relu")], [value("x", shape=(1 << 40, 1 << 40))])
    yield "shapes that do not broadcast", model([node("Add", ("x", "b"))],
                                                [value("x"), value("b", shape=(4, 5))])
    yield "product of unfit shapes", model([node("MatMul", ("x", "x"))])
    yield "initializer too short", add_weight(raw("w", FLOAT, [2, 3], b"\0" * 20))
    yield "initializer too long", add_weight(raw("w", FLOAT, [2, 3], b"\0" * 28))
    yield "initializer of negative size", add_weight(raw("w", FLOAT, [-2, 3], b"\0" * 24))
    yield "initializer of overflowing size", add_weight(raw("w", FLOAT, [1 << 62, 8], b"\0" * 24))
    yield "ConstantOfShape of 2^50 elements", model(
        [node("ConstantOfShape", ("s",))], [], [value("y", shape=None)],
        [helper.make_tensor("s", INT64, [2], [1 << 25, 1 << 25])])
    yield "Expand to 2^60 elements", model(
        [node("Expand", ("x", "s"))], [value("x", shape=(1, 1))], [value("y", shape=None)],
        [helper.make_tensor("s", INT64, [2], [1 << 30, 1 << 30])])
    yield "Pad by 2^61", model(
        [node("Pad", ("x", "p"))], outputs=[value("y", shape=None)],
        initializers=[helper.make_tensor("p", INT64, [4], [1 << 61, 0, 1 << 61, 0])])
    yield "reshape to another size", model(
        [node("Reshape", ("x", "s"))], outputs=[value("y", shape=(5,))],
        initializers=[helper.make_tensor("s", INT64, [1], [5])])
    yield "subgraphs 2000 deep", nested(2000)
    yield "function that calls itself", helper.make_model(
        helper.make_graph([node("F", domain="local")], "g", [value("x")], [value("y")]),
        opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("local", 1)], ir_version=8,
        functions=[helper.make_function("local", "F", ["x"], ["y"], [node("F", domain="local")],
                                        [helper.make_opsetid("local", 1)])]).SerializeToString()

    yield "functions that become 2^40 nodes", tree_of_functions(40)
    yield "operator set in two versions", model(
        [node("Relu")], opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("", 11)])
    alpha = helper.make_attribute("alpha", 0.5)
    leaky = node("LeakyRelu")
    leaky.attribute.extend([alpha, alpha])
    yield "attribute given twice", model([leaky])
    leaky = node("LeakyRelu")
    leaky.attribute.add(name="alpha", ref_attr_name="a", type=onnx.AttributeProto.FLOAT)
    yield "reference to an attribute outside of functions", model([leaky])
    yield "branch with an undefined value", if_model(node("Relu", ("nowhere",), ("o",)))
    yield "branch with too many inputs", if_model(node("Relu", ("x", "x"), ("o",)))
    yield "branch that takes an input", if_model(node("Relu", ("x",), ("o",)), [value("q")])
    yield "hidden size that contradicts the weights", model(
        [node("LSTM", ("x", "w", "r"), hidden_size=5)],
        [value("x", shape=(2, 1, 3)), value("w", shape=(1, 12, 3)), value("r", shape=(1, 12, 3))],
        [value("y", shape=None)])
    yield "scan in direction 5", model(
        [node("Scan", num_scan_inputs=1, scan_input_directions=[5], body=helper.make_graph(
            [node("Relu", ("e",), ("o",))], "b", [value("e", shape=(3,))],
            [value("o", shape=(3,))]))])
    yield "sequence of two types", model(
        [node("SequenceConstruct", ("x", "i"), ("s",)), node("SequenceAt", ("s", "i"))],
        [value("x")], [value("y", shape=None)], [helper.make_tensor("i", INT64, [], [0])])
    yield "sequence as a tensor", model([node("SequenceConstruct", ("x", "x"))])
    yield "axes that are not integers", model(
        [node("Squeeze", ("x", "a"))],
        initializers=[helper.make_tensor("a", FLOAT, [1], [1.0])])
    yield "sparse: index out of range", sparse([1], [6], [2, 3])
    yield "sparse: index of an axis out of range", sparse([1], [[0, 3]], [2, 3])
    yield "sparse: negative index", sparse([1], [-1], [2, 3])
    yield "sparse: indices out of order", sparse([1, 2], [4, 1], [2, 3])
    yield "sparse: index twice", sparse([1, 2], [1, 1], [2, 3])
    yield "sparse: more values than indices", sparse([1, 2], [1], [2, 3])
    yield "sparse: indices of another rank", sparse([1], [[0, 1, 2]], [2, 3])
    yield "sparse: 2^40 elements", sparse([1], [0], [1 << 20, 1 << 20])
    yield "sparse: sizes that overflow", sparse([1], [0], [1 << 40, 1 << 40])
    yield "sparse: negative size", sparse([1], [0], [-2, 3])
    for name, forest_model in broken_forests():
        yield f"tree: {name}", forest_model

    (folder / "secret.bin").write_bytes(b"\0" * 24)
    (folder / "inside" / "short.bin").write_bytes(b"\0" * 10)
    (folder / "inside" / "link.bin").symlink_to(folder / "secret.bin")
    (folder / "inside" / "up").symlink_to(folder)
    os.mkfifo(folder / "inside" / "pipe.bin")
    for name, location in (("absent", "absent.bin"), ("outside its folder", "../secret.bin"),
                           ("absolute", str(folder / "secret.bin")), ("a link", "link.bin"),
                           ("behind a linked folder", "up/secret.bin"), ("too short", "short.bin"),
                           ("a folder", "."), ("a pipe", "pipe.bin"), ("without a name", "")):
        yield f"external data {name}", add_weight(external(location))
    (folder / "inside" / "fine.bin").write_bytes(b"\0" * 24)
    yield "external data of another length", add_weight(external("fine.bin", 20))
    yield "external data beyond its file", add_weight(external("fine.bin", offset="16"))
    yield "external data at a negative offset", add_weight(external("fine.bin", offset="-8"))
    yield "external data at 2^63", add_weight(external("fine.bin", offset=str(1 << 63)))


def must_fail(command, limits=True):
    code, seconds, megabytes, said = measure(["timeout", "20", *command])
    first = said.strip().splitlines()[0] if said.strip() else ""
    if code != 1:
        raise AssertionError(f"exit code {code}, not 1: {first}")
    if "error" not in said:
        raise AssertionError(f"no diagnostic: {first}")
    if limits and (seconds > SECONDS or megabytes > MEGABYTES):
        raise AssertionError(f"took {seconds:.1f} s and {megabytes:.0f} MB")
    return first[:150]


def broken_compiled(tilewright, folder):
    """(name, path) of compiled models that were damaged."""
    source, good = folder / "good.onnx", folder / "good.tw"
    weights = np.random.default_rng(0).standard_normal((64, 64), np.float32)
    source.write_bytes(model(
        [node("MatMul", ("x", "w"))], [value("x", shape=(4, 64))], [value("y", shape=(4, 64))],
        [raw("w", FLOAT, [64, 64], weights.tobytes())]))
    subprocess.run([tilewright, "compile", source, "-o", good], check=True)
    data, path = good.read_bytes(), folder / "bad.tw"
    for size in (0, 1, 64, 4096, len(data) // 2, len(data) - 4096, len(data) - 1):
        path.write_bytes(data[:max(size, 0)])
        yield f"compiled model cut to {size} of {len(data)} bytes", path
    path.write_bytes(data + b"\0")
    yield "compiled model with a byte too many", path
    rng = np.random.default_rng(1)
    for at in sorted(rng.integers(0, len(data), 60)):
        bit = int(rng.integers(8))
        damaged = bytearray(data)
        damaged[at] ^= 1 << bit
        path.write_bytes(damaged)
        yield f"compiled model, bit {bit} of byte {at} flipped", path


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tilewright", required=True)
    parser.add_argument("--work", type=Path)
    parser.add_argument("--no-limits", action="store_true", help="for sanitizers, which are slow")
    args = parser.parse_args()
    if args.work:
        args.work.mkdir(parents=True, exist_ok=True)
    report, limits = Report(), not args.no_limits
    with tempfile.TemporaryDirectory(dir=args.work) as temporary:
        folder = Path(temporary)
        path = folder / "inside" / "model.onnx"

        def compile_(source):
            return must_fail([args.tilewright, "compile", source, "-o", folder / "out.tw"], limits)

        path.parent.mkdir()
        for name, data in broken_models(folder):
            path.write_bytes(data)
            report.case(name, lambda: compile_(path))
        report.case("no such file", lambda: compile_(folder / "none.onnx"))
        report.case("a folder", lambda: compile_(folder))
        for name, path in broken_compiled(args.tilewright, folder):
            report.case(name, lambda path=path: must_fail([args.tilewright, "run", path], limits))
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
