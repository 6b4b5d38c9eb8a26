#!/usr/bin/env python3
"""The graph optimiser grows linearly, and is quick on well-known networks.

    run_linear.py --tilewright COMMAND [--work DIR] [--sizes N N] [SHAPE …]

For each shape of graph the seconds of the graph passes (from --timing, computing with constants left
out, the least of some runs) at 5,000 and at 20,000 nodes. Four times the nodes may take ten times as
long: the larger graph does not fit in caches, but what is quadratic takes sixteen times. The passes
of each network take two seconds at most, computing with its weights left out as well.
"""
import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import onnx
from onnx import TensorProto, helper, numpy_helper

import numpy as np
from common import Report

sys.path.insert(0, str(Path(__file__).resolve().parent / "zoo"))
import zoo  # noqa: E402  (found through the line above)

SIZES = (5_000, 20_000)
MOST = 2.5  # times linear
NOISE = 0.03  # seconds: what takes less counts as that
NETWORK_SECONDS = 2.0
WEIGHTS = ("fold-constants", "(verification)")  # passes whose time is that of the data
OPS = ("Relu", "Neg", "Abs", "Sigmoid", "Tanh")


# ---- Shapes of graphs: each gives nodes, about n of them, and the names of outputs ----

def chain(n):
    """Element-wise operations one after the other."""
    for i in range(n):
        yield OPS[i % len(OPS)], [f"v{i}" if i else "x"], f"v{i + 1}"


def wide(n):
    """Many users of one value, each with a short tail, summed up."""
    width = n // 3
    for i in range(width):
        yield OPS[i % len(OPS)], ["x"], f"a{i}"
        yield "Mul", [f"a{i}", "x"], f"b{i}"
        yield "Add", [f"b{i}", f"s{i - 1}" if i else "x"], f"s{i}"


def diamond(n):
    """Two ways from each value to the next."""
    at = "x"
    for i in range(n // 3):
        yield "Sigmoid", [at], f"l{i}"
        yield "Tanh", [at], f"r{i}"
        yield "Add", [f"l{i}", f"r{i}"], f"v{i}"
        at = f"v{i}"


def fan_in(n):
    """One concatenation of everything."""
    for i in range(n - 2):
        yield OPS[i % len(OPS)], [f"x{i % 7}" if i >= 7 else "x"], f"x{i}" if i < 7 else f"v{i}"
    yield "Concat", [f"x{i}" if i < 7 else f"v{i}" for i in range(n - 2)], "all"
    yield "Relu", ["all"], "y"


def residual(n):
    """Blocks of products with a bias and an activation, and a way around them."""
    at = "x"
    for i in range(n // 5):
        yield "MatMul", [at, "w"], f"m{i}"
        yield "Add", [f"m{i}", "b"], f"a{i}"
        yield "Relu", [f"a{i}"], f"r{i}"
        yield "MatMul", [f"r{i}", "w"], f"k{i}"
        yield "Add", [f"k{i}", at], f"v{i}"
        at = f"v{i}"


def moves(n):
    """Transposes and reshapes between element-wise operations."""
    at = "x"
    for i in range(n // 4):
        yield "Transpose", [at], f"t{i}"
        yield "Relu", [f"t{i}"], f"r{i}"
        yield "Reshape", [f"r{i}", "shape"], f"s{i}"
        yield "Add", [f"s{i}", "b"], f"v{i}"
        at = f"v{i}"


def convolutions(n):
    """Convolutions with bias, activation and sums, as in residual networks."""
    at = "image"
    for i in range(n // 6):
        yield "Conv", [at, "kernel"], f"c{i}"
        yield "Add", [f"c{i}", "bias"], f"n{i}"
        yield "Relu", [f"n{i}"], f"r{i}"
        yield "Conv", [f"r{i}", "kernel"], f"d{i}"
        yield "Add", [f"d{i}", at], f"s{i}"
        yield "Relu", [f"s{i}"], f"v{i}"
        at = f"v{i}"


def repeated(n):
    """The same computations again and again."""
    at = "x"
    for i in range(n // 4):
        yield "Exp", [at], f"p{i}"
        yield "Exp", [at], f"q{i}"
        yield "Mul", [f"p{i}", f"q{i}"], f"m{i}"
        yield "Sigmoid", [f"m{i}"], f"v{i}"
        at = f"v{i}"


SHAPES = {f.__name__: f for f in (chain, wide, diamond, fan_in, residual, moves, convolutions,
                                  repeated)}


def save(shape, n, path):
    made = list(SHAPES[shape](n))
    nodes = [helper.make_node(op, inputs, [result], **({"axis": 0} if op == "Concat" else {}))
             for op, inputs, result in made]
    rng = np.random.default_rng(1)
    constants = {"w": rng.standard_normal((8, 8), np.float32), "b": np.ones((8,), np.float32),
                 "shape": np.array([8, 8], np.int64), "bias": np.ones((8, 1, 1), np.float32),
                 "kernel": rng.standard_normal((8, 8, 1, 1), np.float32)}
    used = {name for node in nodes for name in node.input}
    inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)
              for name, dims in (("x", [8, 8]), ("image", [1, 8, 4, 4])) if name in used]
    output = helper.make_tensor_value_info(made[-1][2], TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, shape, inputs, [output],
                              [numpy_helper.from_array(constants[c], c) for c in constants
                               if c in used])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
              path)


# ---- Measuring ----

def pass_seconds(tilewright, model):
    """Seconds of the graph passes together."""
    done = subprocess.run([tilewright, "compile", model, "-o", "/dev/null", "--emit", "graph",
                           "--timing"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip()[-500:])
    table = done.stderr[done.stderr.index("changes  pass"):]
    rows = re.findall(r"^ *([\d.]+) +[\d.]+% +\d+ +\d+  (\S.*)$", table, re.M)
    return sum(float(seconds) for seconds, name in rows if name not in WEIGHTS)


def least_seconds(tilewright, model, times=3):
    return min(pass_seconds(tilewright, model) for _ in range(times))


def check_shape(tilewright, shape, sizes, work):
    taken = []
    for n in sizes:
        save(shape, n, work / "model.onnx")
        taken.append(least_seconds(tilewright, work / "model.onnx"))
    note = f"{sizes[0]}: {taken[0]:.3f} s, {sizes[1]}: {taken[1]:.3f} s"
    if taken[1] > MOST * sizes[1] / sizes[0] * max(taken[0], NOISE):
        raise AssertionError(f"{note}: more than {MOST * sizes[1] / sizes[0]:.1f} times")
    return f"{note}, {taken[1] / taken[0]:.1f} times"


def check_network(tilewright, name, work):
    seconds = least_seconds(tilewright, zoo.fill(name, work), 2)
    if seconds > NETWORK_SECONDS:
        raise AssertionError(f"{seconds:.2f} s, more than {NETWORK_SECONDS}")
    return f"{seconds:.3f} s"


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shapes", nargs="*", metavar="SHAPE",
                        help="of " + ", ".join(SHAPES) + ", or a network; default: all")
    parser.add_argument("--tilewright", required=True)
    parser.add_argument("--work", type=Path, help="folder for temporary files")
    parser.add_argument("--sizes", type=int, nargs=2, default=SIZES, help="numbers of nodes")
    args = parser.parse_args()
    report = Report()
    if args.work:
        args.work.mkdir(parents=True, exist_ok=True)
    for name in args.shapes or [*SHAPES, *zoo.names()]:
        with tempfile.TemporaryDirectory(dir=args.work) as work:
            check, more = (check_shape, [args.sizes]) if name in SHAPES else (check_network, [])
            report.case(name, lambda: check(args.tilewright, name, *more, Path(work)))
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
