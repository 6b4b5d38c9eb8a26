#!/usr/bin/env python3
"""Random nests of If, Loop and Scan against onnxruntime, at -O0 and -O3.

Everything is int32 and kept small, so results are equal or wrong. Conditions and numbers of trips
come from inputs or are computed from them; bodies use values of all graphs around them.

    control.py --tilewright build/bin/tilewright --graphs 30 --seed 1
"""
import argparse
import os
import random
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

I32, I64, BOOL = TensorProto.INT32, TensorProto.INT64, TensorProto.BOOL
SHAPES = [(3,), (2, 3), (1, 3), (1,), ()]


def join(a, b):
    """The shape that the two broadcast to, or None."""
    try:
        return np.broadcast_shapes(a, b)
    except ValueError:
        return None


class Graph:
    """One graph under construction: nodes and the values that they see, (name, shape)."""

    def __init__(self, rng, counter, parent=None, wild=False):
        self.rng, self.counter = rng, counter
        self.wild = wild
        self.nodes = []
        self.values = list(parent.values) if parent else []
        self.flags = list(parent.flags) if parent else []
        self.numbers = list(parent.numbers) if parent else []
        self.mine = []

    def name(self, base):
        self.counter[0] += 1
        return f"{base}{self.counter[0]}"

    def node(self, op, inputs, n_out=1, **attrs):
        outs = [self.name(op.lower()) for _ in range(n_out)]
        self.nodes.append(helper.make_node(op, inputs, outs, **attrs))
        return outs if n_out > 1 else outs[0]

    def constant(self, array):
        return self.node("Constant", [], value=numpy_helper.from_array(np.asarray(array)))

    def add(self, name, shape):
        self.values.append((name, tuple(shape)))
        self.mine.append((name, tuple(shape)))

    def pick(self, shape=None):
        fitting = [v for v in self.values if shape is None or v[1] == shape]
        # later values more often, so that graphs become deep
        return self.rng.choice(fitting[-6:] if self.rng.random() < 0.6 else fitting)

    def bounded(self, name):
        seventeen = self.constant(np.int32(17))
        return self.node("Mod", [name, seventeen])

    def elementwise(self):
        a, b = self.pick(), self.pick()
        shape = join(a[1], b[1])
        if shape is None:
            return
        op = self.rng.choice(["Add", "Sub", "Mul", "Max", "Min"])
        self.add(self.bounded(self.node(op, [a[0], b[0]])), shape)

    def flag(self):
        """A new bool scalar that depends on data."""
        x = self.pick()
        total = self.node("ReduceSum", [x[0]], keepdims=0)
        name = self.node("Greater", [total, self.constant(np.int32(self.rng.randint(-5, 25)))])
        self.flags.append(name)
        return name

    def some_flag(self):
        return self.rng.choice(self.flags) if self.flags and self.rng.random() < 0.6 \
            else self.flag()

    def some_number(self):
        if self.numbers and self.rng.random() < 0.7:
            return self.rng.choice(self.numbers)
        return self.constant(np.int64(self.rng.randint(0, 4)))

    def to_shape(self, shape):
        """A value of exactly that shape: one that is there, or a sum that broadcasts to it."""
        there = [v for v in self.values if v[1] == shape]
        if there and self.rng.random() < 0.8:
            return self.rng.choice(there[-4:])[0]
        zero = self.constant(np.zeros(shape, np.int32))
        fitting = [v for v in self.values if join(v[1], shape) == shape]
        return self.node("Add", [self.rng.choice(fitting)[0], zero]) if fitting else zero

    def subgraph(self, base, inputs, outputs):
        infos = [helper.make_tensor_value_info(n, t, s) for n, t, s in inputs]
        outs = [helper.make_tensor_value_info(n, t, s) for n, t, s in outputs]
        return helper.make_graph(self.nodes, self.name(base), infos, outs)

    def named(self, value):
        """The value under a name of this graph's own: outputs may not be outer values."""
        return self.node("Identity", [value])

    # ---- Control flow ----

    def branch(self, shapes, depth):
        g = Graph(self.rng, self.counter, self, self.wild)
        g.fill(self.rng.randint(0, 4), depth)
        outs = [g.named(g.to_shape(s)) for s in shapes]
        return g.subgraph("branch", [], [(o, I32, s) for o, s in zip(outs, shapes)])

    def if_(self, depth):
        shapes = [self.pick()[1] for _ in range(self.rng.randint(1, 3))]
        outs = [self.name("if") for _ in shapes]
        self.nodes.append(helper.make_node(
            "If", [self.some_flag()], outs, then_branch=self.branch(shapes, depth),
            else_branch=self.branch(shapes, depth)))
        for o, s in zip(outs, shapes):
            self.add(o, s)

    def loop(self, depth):
        rng = self.rng
        states = [self.pick() for _ in range(rng.randint(0, 3))]
        g = Graph(rng, self.counter, self, self.wild)
        i, go = self.name("i"), self.name("go")
        args = [(self.name("s"), s) for _, s in states]
        for a, s in args:
            g.add(a, s)
        g.add(g.node("Cast", [i], to=I32), ())
        g.fill(rng.randint(1, 4), depth)
        fixed = rng.random() < 0.5 and not self.wild
        if self.wild:
            stop = g.node("Identity", [go]) if rng.random() < 0.5 else g.flag()
            trips = self.some_number()
            start = self.some_flag() if rng.random() < 0.5 else ""
            rows = [g.pick()[1] for _ in range(rng.randint(0, 2))]
        elif fixed:
            stop, rows = g.node("Identity", [go]), [g.pick()[1] for _ in range(rng.randint(0, 2))]
            count = rng.randint(0, 4)
            trips, start = self.constant(np.int64(count)), self.constant(np.bool_(True))
        else:
            stop, rows, count = g.flag(), [], None
            trips, start = self.some_number(), self.some_flag()
        nexts = [g.to_shape(s) for _, s in states]
        if states and rng.random() < 0.3:
            nexts[rng.randrange(len(nexts))] = rng.choice(
                [a for a, s in args if s == states[0][1]] or [nexts[0]])
            nexts = [n if dict(args).get(n, s) == s else g.to_shape(s)
                     for n, (_, s) in zip(nexts, states)]
        outs = [stop] + [g.named(n) for n in nexts] + [g.named(g.to_shape(r)) for r in rows]
        body = g.subgraph(
            "body", [(i, I64, ()), (go, BOOL, ())] + [(a, I32, s) for a, s in args],
            [(outs[0], BOOL, ())] + [(o, I32, s) for o, (_, s) in zip(outs[1:], states)] +
            [(o, I32, s) for o, s in zip(outs[1 + len(states):], rows)])
        results = [self.name("loop") for _ in range(len(states) + len(rows))]
        if not results:
            return
        self.nodes.append(helper.make_node("Loop", [trips, start] + [n for n, _ in states], results,
                                           body=body))
        for r, (_, s) in zip(results, states):
            self.add(r, s)
        for r, s in zip(results[len(states):], rows):
            if self.wild:  # a number of rows that only the run knows
                self.add(self.bounded(self.node(
                    "ReduceSum", [r, self.constant(np.array([0], np.int64))], keepdims=0)), s)
            else:
                self.add(r, (count, *s))

    def scan(self, depth):
        rng = self.rng
        states = [self.pick() for _ in range(rng.randint(0, 2))]
        sequences = [v for v in self.values if v[1] and v[1][0] > 0]
        if not sequences:
            return
        first = rng.choice(sequences)
        axis = rng.randrange(len(first[1]))
        length = first[1][axis]
        chosen = [(first, axis)] + [(v, 0) for v in rng.sample(sequences, min(2, len(sequences)))
                                    if v[1][0] == length]
        g = Graph(rng, self.counter, self, self.wild)
        args = [(self.name("s"), s) for _, s in states]
        slices = [(self.name("x"), s[:a] + s[a + 1:]) for (_, s), a in chosen]
        for a, s in args + slices:
            g.add(a, s)
        g.fill(rng.randint(1, 4), depth)
        rows = [g.pick()[1] for _ in range(rng.randint(0 if states else 1, 2))]
        outs = [g.named(g.to_shape(s)) for _, s in states] + [g.named(g.to_shape(r)) for r in rows]
        body = g.subgraph("scan", [(a, I32, s) for a, s in args + slices],
                          [(o, I32, s) for o, s in zip(outs, [s for _, s in states] + rows)])
        results = [self.name("scan") for _ in outs]
        out_axes = [rng.randint(0, len(r)) for r in rows]
        attrs = dict(num_scan_inputs=len(chosen), body=body,
                     scan_input_axes=[a for _, a in chosen],
                     scan_input_directions=[rng.randint(0, 1) for _ in chosen])
        if rows:
            attrs["scan_output_axes"] = out_axes
            attrs["scan_output_directions"] = [rng.randint(0, 1) for _ in rows]
        self.nodes.append(helper.make_node(
            "Scan", [n for n, _ in states] + [v[0] for v, _ in chosen], results, **attrs))
        for r, (_, s) in zip(results, states):
            self.add(r, s)
        for r, s, a in zip(results[len(states):], rows, out_axes):
            self.add(r, s[:a] + (length,) + s[a:])

    # ---- Sizes that differ between branches and trips ----

    def reduced(self, name, shape):
        """A value of a fixed shape again: the sum along the axis whose size varies."""
        axes = self.constant(np.array([0], np.int64))
        self.add(self.bounded(self.node("ReduceSum", [name, axes], keepdims=0)), shape[1:])

    def longer(self, graph, value, shape):
        """`value` with more rows, some of which the graph computes; and a name for it."""
        row = graph.to_shape((1, *shape[1:]))
        return graph.node("Concat", [value, row], axis=0)

    def uneven_if(self, depth):
        value, shape = self.pick_rows()
        branches = []
        for _ in range(2):
            g = Graph(self.rng, self.counter, self, self.wild)
            g.fill(self.rng.randint(0, 2), depth)
            out = g.named(value)
            for _ in range(self.rng.randint(0, 2)):
                out = self.longer(g, out, shape)
            branches.append(g.subgraph("branch", [], [(out, I32, (None, *shape[1:]))]))
        out = self.name("if")
        self.nodes.append(helper.make_node("If", [self.some_flag()], [out],
                                           then_branch=branches[0], else_branch=branches[1]))
        self.reduced(out, shape)

    def growing_loop(self, depth):
        value, shape = self.pick_rows()
        other, other_shape = self.pick()
        g = Graph(self.rng, self.counter, self, self.wild)
        i, go, state, second = (self.name(k) for k in ("i", "go", "s", "s"))
        g.add(second, other_shape)
        g.fill(self.rng.randint(0, 3), depth)
        following = self.longer(g, state, shape)
        kept = g.named(g.to_shape(other_shape))
        stop = g.node("Identity", [go]) if self.rng.random() < 0.5 else g.flag()
        rows = (None, *shape[1:])
        body = g.subgraph("body", [(i, I64, ()), (go, BOOL, ()), (state, I32, rows),
                                   (second, I32, other_shape)],
                          [(stop, BOOL, ()), (following, I32, rows), (kept, I32, other_shape)])
        out, last = self.name("loop"), self.name("loop")
        self.nodes.append(helper.make_node(
            "Loop", [self.some_number(), self.some_flag(), value, other], [out, last], body=body))
        self.reduced(out, shape)
        self.add(last, other_shape)

    def pick_rows(self):
        return self.rng.choice([v for v in self.values if v[1]])

    def fill(self, n, depth):
        for _ in range(n):
            kinds = [self.elementwise] * 3
            if depth > 0 and sum(np.prod(s) for _, s in self.values) < 3000:
                kinds += [lambda: self.if_(depth - 1), lambda: self.loop(depth - 1),
                          lambda: self.scan(depth - 1)]
                if self.wild and any(v[1] for v in self.values):
                    kinds += [lambda: self.uneven_if(depth - 1),
                              lambda: self.growing_loop(depth - 1)]
            self.rng.choice(kinds)()


def make_model(seed, wild):
    rng = random.Random(seed)
    data = np.random.default_rng(seed)
    g = Graph(rng, [0], wild=wild)
    inputs, feeds = [], {}
    for k in range(rng.randint(2, 4)):
        shape = rng.choice(SHAPES)
        inputs.append(helper.make_tensor_value_info(f"x{k}", I32, shape))
        feeds[f"x{k}"] = data.integers(-9, 10, shape, dtype=np.int32)
        g.add(f"x{k}", shape)
    for k in range(2):
        inputs.append(helper.make_tensor_value_info(f"c{k}", BOOL, ()))
        feeds[f"c{k}"] = np.array(rng.random() < 0.5)
        g.flags.append(f"c{k}")
        inputs.append(helper.make_tensor_value_info(f"n{k}", I64, ()))
        feeds[f"n{k}"] = np.array(rng.randint(-1, 4), np.int64)
        g.numbers.append(f"n{k}")
    for kind in (g.if_, g.loop, g.scan):
        kind(2)
        g.fill(2, 2)
    made = [v for v in g.mine if v[0] not in feeds] or g.mine
    outs = rng.sample(made, min(6, len(made)))
    named = [g.named(o) for o, _ in outs]
    graph = helper.make_graph(g.nodes, "nest", inputs, [
        helper.make_tensor_value_info(o, I32, s) for o, (_, s) in zip(named, outs)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    onnx.checker.check_model(model)
    return model, feeds


def reference(model, feeds):
    import onnxruntime
    onnxruntime.set_default_logger_severity(4)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options,
                                           providers=["CPUExecutionProvider"])
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, feeds)))


def check(command, seed, folder, wild):
    """What is wrong with that graph; None: nothing; "skipped": there is no reference."""
    model, feeds = make_model(seed, wild)
    try:
        expected = reference(model, feeds)
    except Exception:  # onnxruntime's own inference of shapes gives up on some
        return "skipped"
    path, data = os.path.join(folder, "nest.onnx"), os.path.join(folder, "in.npz")
    outputs = os.path.join(folder, "out.npz")
    onnx.save(model, path)
    np.savez(data, **feeds)
    for level in ("-O0", "-O3"):
        done = subprocess.run([command, "run", path, "--inputs", data, "--outputs", outputs, level,
                               "--jobs=1", "--threads=1"], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=120, check=False)
        if done.returncode:
            return f"{level}: exit code {done.returncode}: {done.stderr.strip()[-600:]}"
        with np.load(outputs) as actual:
            for name, value in expected.items():
                if actual[name].shape != value.shape or not np.array_equal(actual[name], value):
                    return f"{level}: output {name} is\n{actual[name]}\nnot\n{value}"
    return None


def growing_state():
    """A loop whose state gains a row each trip and is cut back to one when it has 64."""
    rows = (None, 64)
    body = helper.make_graph([
        helper.make_node("Concat", ["s", "row"], ["longer"], axis=0),
        helper.make_node("Shape", ["longer"], ["count"], start=0, end=1),
        helper.make_node("Mod", ["count", "most"], ["rest"]),
        helper.make_node("Add", ["rest", "one"], ["end"]),
        helper.make_node("Slice", ["longer", "zero", "end"], ["next"]),
        helper.make_node("Identity", ["go"], ["more"]),
    ], "body", [helper.make_tensor_value_info("i", I64, ()),
                helper.make_tensor_value_info("go", BOOL, ()),
                helper.make_tensor_value_info("s", TensorProto.FLOAT, rows)],
        [helper.make_tensor_value_info("more", BOOL, ()),
         helper.make_tensor_value_info("next", TensorProto.FLOAT, rows)],
        [numpy_helper.from_array(np.array([v], np.int64), k)
         for k, v in (("most", 64), ("one", 1), ("zero", 0))])
    graph = helper.make_graph(
        [helper.make_node("Loop", ["n", "", "x"], ["y"], body=body)], "grow",
        [helper.make_tensor_value_info("n", I64, ()),
         helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 64)),
         helper.make_tensor_value_info("row", TensorProto.FLOAT, (1, 64))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, rows)])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def check_memory(command, folder):
    """The peak memory in KiB of a run of 10 and of 50,000 trips; whether they are about equal."""
    model, data = os.path.join(folder, "grow.onnx"), os.path.join(folder, "grow.npz")
    compiled, peaks = os.path.join(folder, "grow.tw"), []
    onnx.save(growing_state(), model)
    subprocess.run([command, "compile", model, "-o", compiled], check=True)
    for trips in (10, 50000):
        np.savez(data, n=np.int64(trips), x=np.ones((1, 64), np.float32),
                 row=np.ones((1, 64), np.float32))
        run = subprocess.Popen([command, "run", compiled, "--inputs", data, "--threads=1"],
                               stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(run.pid, 0)
        if status:
            raise RuntimeError(f"the run of {trips} trips ends with status {status}")
        peaks.append(usage.ru_maxrss)
    print(f"peak memory of 10 and 50,000 trips: {peaks[0]} and {peaks[1]} KiB")
    return peaks[1] < peaks[0] + 4096


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tilewright", required=True)
    parser.add_argument("--graphs", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--wild", action="store_true",
                        help="sizes that only the run knows, too")
    parser.add_argument("--keep", help="folder for models that fail")
    args = parser.parse_args()
    failures = skipped = 0
    with tempfile.TemporaryDirectory() as folder:
        failures += not check_memory(args.tilewright, folder)
        for seed in range(args.seed, args.seed + args.graphs):
            wrong = check(args.tilewright, seed, folder, args.wild)
            skipped += wrong == "skipped"
            if not wrong or wrong == "skipped":
                continue
            failures += 1
            print(f"seed {seed}: {wrong}", flush=True)
            if args.keep:
                os.makedirs(args.keep, exist_ok=True)
                os.replace(os.path.join(folder, "nest.onnx"),
                           os.path.join(args.keep, f"nest{seed}.onnx"))
                os.replace(os.path.join(folder, "in.npz"),
                           os.path.join(args.keep, f"nest{seed}.npz"))
    print(f"{args.graphs} nests of control flow from seed {args.seed}: {failures} wrong, "
          f"{skipped} without a reference")
    return failures > 0 or skipped > args.graphs // 4


if __name__ == "__main__":
    sys.exit(main())
