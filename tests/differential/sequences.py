#!/usr/bin/env python3
"""Sequences and optionals whose lengths only the run knows, against onnxruntime.

Each case is compiled once, at -O0 and at -O3, for inputs of any length and size, and run on all its
data; and once more on the fly for each data, whose lengths and shapes are known then.

    sequences.py --tilewright build/bin/tilewright [WORD ...]
"""
import argparse
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnx.parser
import onnxruntime
from sequence_cases import CASES, ERRORS, F32, OPTIONALS, i64
from sequence_programs import random_program


def reference(model, feeds):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options,
                                           providers=["CPUExecutionProvider"])
    return dict(zip([o.name for o in session.get_outputs()], session.run(None, feeds)))


def as_arrays(values, empty=True):
    """A sequence x as x[0], x[1] …; an empty one as x[]."""
    arrays = {}
    for name, value in values.items():
        if not isinstance(value, list):
            arrays[name] = value
        for i, element in enumerate(value if isinstance(value, list) else []):
            arrays[f"{name}[{i}]"] = element
        if isinstance(value, list) and not value and empty:
            arrays[f"{name}[]"] = np.zeros(0, F32)
    return arrays


class Test:
    def __init__(self, command, folder):
        self.command, self.folder = command, folder
        self.passed = self.failed = self.skipped = 0

    def path(self, name):
        return os.path.join(self.folder, name)

    def call(self, *args):
        done = subprocess.run([self.command, *args], stdin=subprocess.DEVNULL, capture_output=True,
                              text=True, timeout=300, check=False)
        if done.returncode:
            raise AssertionError(f"exit code {done.returncode}: {done.stderr.strip()[-600:]}")
        return done

    def run(self, model, feeds, *options):
        np.savez(self.path("in.npz"), **as_arrays(feeds))
        self.call("run", model, "--inputs", self.path("in.npz"), "--outputs",
                  self.path("out.npz"), "--threads=1", *options)
        with np.load(self.path("out.npz")) as loaded:
            return {k: v for k, v in loaded.items() if not k.endswith("[]")}

    def compare(self, actual, expected):
        expected = as_arrays(expected, empty=False)
        if set(actual) != set(expected):
            raise AssertionError(f"outputs {sorted(actual)}, not {sorted(expected)}")
        for name, value in expected.items():
            value = np.asarray(value)
            if actual[name].dtype != value.dtype or actual[name].shape != value.shape:
                raise AssertionError(f"{name}: {actual[name].dtype}{list(actual[name].shape)}, not "
                                     f"{value.dtype}{list(value.shape)}")
            if not np.array_equal(actual[name], value):
                raise AssertionError(f"{name}: {actual[name].tolist()}, not {value.tolist()}")

    def attempt(self, what, action):
        try:
            action()
            self.passed += 1
        except AssertionError as error:
            self.failed += 1
            print(f"FAIL {what}: {error}", flush=True)

    def case(self, name, text, data, may_skip=False):
        graph = onnx.parser.parse_graph(text)
        model = onnx.helper.make_model(graph, ir_version=9,
                                       opset_imports=[onnx.helper.make_opsetid("", 18)])
        onnx.save(model, self.path("m.onnx"))
        try:
            expected = [reference(model, feeds) for feeds in data]
        except Exception as error:
            if may_skip:
                self.skipped += 1
                return
            self.failed += 1
            print(f"FAIL {name}: onnxruntime: {str(error)[:500]}", flush=True)
            return
        for level in ("-O0", "-O3"):
            try:
                self.call("compile", self.path("m.onnx"), "-o", self.path("m.tw"), level)
            except AssertionError as error:
                self.failed += 1
                print(f"FAIL {name} {level}: {error}", flush=True)
                continue
            for i, (feeds, want) in enumerate(zip(data, expected)):
                self.attempt(f"{name} {level} data {i}", lambda: self.compare(
                    self.run(self.path("m.tw"), feeds), want))
                self.attempt(f"{name} {level} data {i}, on the fly", lambda: self.compare(
                    self.run(self.path("m.onnx"), feeds, level), want))


    def error(self, name, text, feeds, message):
        """Where data is given, compiling is fine and the run is not."""
        graph = onnx.parser.parse_graph(text)
        model = onnx.helper.make_model(graph, ir_version=9,
                                       opset_imports=[onnx.helper.make_opsetid("", 18)])
        onnx.save(model, self.path("m.onnx"))

        def fails(level):
            try:
                self.call("compile", self.path("m.onnx"), "-o", self.path("m.tw"), level)
                if feeds is not None:
                    self.run(self.path("m.tw"), feeds)
            except AssertionError as told:
                if not str(told).startswith("exit code 1:") or message not in str(told):
                    raise
                return
            raise AssertionError("there is no error")

        for level in ("-O0", "-O3"):
            self.attempt(f"{name} {level}", lambda: fails(level))

    def optional(self, name, text, data):
        graph = onnx.parser.parse_graph(text)
        model = onnx.helper.make_model(graph, ir_version=9,
                                       opset_imports=[onnx.helper.make_opsetid("", 18)])
        onnx.save(model, self.path("m.onnx"))
        for level in ("-O0", "-O3"):
            try:
                self.call("compile", self.path("m.onnx"), "-o", self.path("m.tw"), level)
            except AssertionError as error:
                self.failed += 1
                print(f"FAIL {name} {level}: {error}", flush=True)
                continue
            for i, (feeds, want) in enumerate(data):
                self.attempt(f"{name} {level} data {i}", lambda: self.compare(
                    self.run(self.path("m.tw"), feeds), want))

    def strings(self):
        """Files of ONNX's own, which can hold text: through sequences and a loop."""
        graph = onnx.parser.parse_graph("""
          g (seq(string[n]) s, int64 most) => (seq(string[]) y, string[m] all, string[a] last, string[k, a] rows) {
            y = Loop (most, , s) <body = body (int64 i, bool c, seq(string[n]) t) => (bool c2, seq(string[n]) u) {
              c2 = Identity (c)
              e = SequenceAt (t, i)
              f = StringConcat (e, e)
              u = SequenceInsert (t, f, i)
            }>
            all = ConcatFromSequence <axis = 0> (y)
            minus = Constant <value_int = -1> ()
            last = SequenceAt (y, minus)
            start = Cast <to = 9> (minus)
            rows = Loop (, start) <body = list (int64 i, bool c) => (bool c2, string[a] row) {
              c2 = Less (i, most)
              row = StringConcat (last, last)
            }>
          }""")
        model = onnx.helper.make_model(graph, ir_version=9,
                                       opset_imports=[onnx.helper.make_opsetid("", 20)])
        onnx.save(model, self.path("m.onnx"))
        text = [["a", "b"], [], ["grün", ""]]
        steps = [[w + w for w in text[0]], *text]  # of the first trip
        steps.insert(1, [w + w for w in steps[1]])

        def sequence(values):
            return onnx.helper.make_sequence("", onnx.SequenceProto.TENSOR, [
                onnx.numpy_helper.from_array(np.array(v, object), f"e{i}")
                for i, v in enumerate(values)])

        folder = self.path("set")
        os.makedirs(folder, exist_ok=True)
        files = {"input_0": sequence(text), "output_0": sequence(steps),
                 "input_1": onnx.numpy_helper.from_array(i64(2)),
                 "output_1": onnx.numpy_helper.from_array(np.array(sum(steps, []), object)),
                 "output_2": onnx.numpy_helper.from_array(np.array(steps[-1], object)),
                 "output_3": onnx.numpy_helper.from_array(
                     np.array([[w + w for w in steps[-1]]] * 3, object))}
        for name, proto in files.items():
            with open(os.path.join(folder, name + ".pb"), "wb") as out:
                out.write(proto.SerializeToString())
        for level in ("-O0", "-O3"):
            self.attempt(f"strings {level}", lambda: self.call(
                "check", self.path("m.onnx"), "--data", folder, level))
            self.attempt(f"strings, compiled {level}", lambda: (
                self.call("compile", self.path("m.onnx"), "-o", self.path("m.tw"), level),
                self.call("check", self.path("m.tw"), "--data", folder),
                self.call("run", self.path("m.tw"), "--input",
                          f"s={os.path.join(folder, 'input_0.pb')}", "--input",
                          f"most={os.path.join(folder, 'input_1.pb')}")))

    def peak(self, model, feeds):
        """KiB of memory that a run takes at most."""
        np.savez(self.path("in.npz"), **as_arrays(feeds))
        run = subprocess.Popen([self.command, "run", model, "--inputs", self.path("in.npz"),
                                "--threads=1"], stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(run.pid, 0)
        if status:
            raise AssertionError(f"the run ends with status {status}")
        return usage.ru_maxrss

    def memory(self):
        """Trips drop what they make; n appends are linear in time and memory."""
        def same(name, bound, small, large):
            text, data = CASES[name]
            onnx.save(onnx.helper.make_model(onnx.parser.parse_graph(text), ir_version=9,
                                             opset_imports=[onnx.helper.make_opsetid("", 18)]),
                      self.path("m.onnx"))
            self.call("compile", self.path("m.onnx"), "-o", self.path("m.tw"))
            peaks = [self.peak(self.path("m.tw"), {**data[-1], **feeds})
                     for feeds in (small, large)]
            print(f"{name}: peak memory {peaks[0]} and {peaks[1]} KiB")
            if peaks[1] > peaks[0] + bound:
                raise AssertionError(f"memory grows from {peaks[0]} to {peaks[1]} KiB")

        few, many = dict(n=i64(10)), dict(n=i64(20000))
        self.attempt("memory of temporary sequences", lambda: same(
            "temporary sequences", 4096, few, many))
        self.attempt("memory of a queue", lambda: same(
            "a queue that keeps its length", 4096, few, many))
        self.attempt("memory of a list", lambda: same(  # less than 1 KB an item, with its printing
            "swapped states", 60000, few, dict(n=i64(60000))))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tilewright", required=True)
    parser.add_argument("--graphs", type=int, default=10, help="random ones")
    parser.add_argument("--seed", type=int, default=1, help="of the first of these")
    parser.add_argument("words", nargs="*")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        test = Test(args.tilewright, folder)
        for name, (text, data) in CASES.items():
            if all(word in name for word in args.words):
                test.case(name, text, data)
        for name, (text, feeds, message) in ERRORS.items():
            if all(word in name for word in args.words):
                test.error(name, text, feeds, message)
        for name, (text, data) in OPTIONALS.items():
            if all(word in name for word in args.words):
                test.optional(name, text, data)
        if not args.words or "strings" in args.words:
            test.strings()
        if not args.words or "memory" in args.words:
            test.memory()
        for seed in range(args.seed, args.seed + args.graphs):
            if all(word in f"seed {seed}" for word in args.words):
                test.case(f"seed {seed}", *random_program(seed), may_skip=True)
    print(f"sequences: {test.passed} passed, {test.failed} failed; {args.graphs} random graphs from "
          f"seed {args.seed}, {test.skipped} without a reference")
    return test.failed > 0 or test.skipped > args.graphs // 2


if __name__ == "__main__":
    sys.exit(main())
