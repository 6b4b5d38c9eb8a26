#!/usr/bin/env python3
"""Time and memory that compiling and running may take, on two cores.

    run_limits.py --tilewright COMMAND [--work DIR]
"""
import argparse
import sys
import tempfile
from pathlib import Path

import onnx
from onnx import TensorProto, helper

from common import Report, measure

sys.path.insert(0, str(Path(__file__).resolve().parent / "zoo"))
import zoo  # noqa: E402  (found through the line above)

COMPILE_SECONDS = {"resnet50": 20, "mobilenet_v2": 10}
COMPILE_MEGABYTES = {"bert_base": 300, "gpt2": 480, "vgg16": 1000}
RUN_MEGABYTES = {"bert_base": 600}
CHAIN = 10_000


def done(command):
    code, seconds, megabytes, said = measure(command)
    if code:
        raise RuntimeError(f"exit code {code}: {said.strip()[-500:]}")
    return seconds, megabytes


def within(what, value, limit, unit):
    if limit is not None and value > limit:
        raise AssertionError(f"{what} takes {value:.1f} {unit}, more than {limit}")
    return f"{what} {value:.1f} {unit}"


def check_network(tilewright, report, name, work):
    model, compiled = zoo.fill(name, work), work / "model.tw"

    def compiling():
        seconds, megabytes = done([tilewright, "compile", model, "-o", compiled, "-O", "3"])
        return ", ".join([within("compiling", seconds, COMPILE_SECONDS.get(name), "s"),
                          within("memory", megabytes, COMPILE_MEGABYTES.get(name), "MB")])

    def running():
        seconds, megabytes = done([tilewright, "run", compiled, "--inputs",
                                   model.with_suffix(".npz")])
        return ", ".join([within("running", seconds, None, "s"),
                          within("memory", megabytes, RUN_MEGABYTES.get(name), "MB")])

    report.case(f"{name} compile", compiling)
    report.case(f"{name} run", running)


def chain(length, path):
    """Element-wise operations one after the other, no two neighbours alike."""
    ops = ("Relu", "Neg", "Abs", "Sigmoid", "Tanh")
    nodes = [helper.make_node(ops[i % len(ops)], [f"v{i}"], [f"v{i + 1}"]) for i in range(length)]
    ends = [helper.make_tensor_value_info(f"v{i}", TensorProto.FLOAT, [1, 64])
            for i in (0, length)]
    graph = helper.make_graph(nodes, "chain", ends[:1], ends[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
              path)


def check_chain(tilewright, work):
    """Four times the length may take six times as long, start and noise included."""
    taken = []
    for length in (CHAIN // 4, CHAIN):
        path = work / f"chain{length}.onnx"
        chain(length, path)
        taken.append(done([tilewright, "compile", path, "-o", work / "chain.tw"])[0])
    within("a chain of 10,000", taken[1] / taken[0], 6, "times that of 2,500")
    return f"{taken[0]:.2f} s for {CHAIN // 4} operations, {taken[1]:.2f} s for {CHAIN}"


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tilewright", required=True)
    parser.add_argument("--work", type=Path)
    args = parser.parse_args()
    if args.work:
        args.work.mkdir(parents=True, exist_ok=True)
    report = Report()
    for name in sorted({*COMPILE_SECONDS, *COMPILE_MEGABYTES, *RUN_MEGABYTES}):
        with tempfile.TemporaryDirectory(dir=args.work) as work:
            check_network(args.tilewright, report, name, Path(work))
    with tempfile.TemporaryDirectory(dir=args.work) as work:
        report.case("long chain", lambda: check_chain(args.tilewright, Path(work)))
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
