#!/usr/bin/env python3
"""The networks of zoo/ against onnxruntime.

    run_zoo.py --tilewright COMMAND [--work DIR] [NAME ...]

Per network: filled with seeded weights, run by onnxruntime, compiled and run at -O 3 and at -O 0.
Outputs may differ by a thousandth of each output's largest value.
"""
import argparse
import sys
import tempfile
from pathlib import Path

import onnxruntime

from common import Report, Tilewright, compare, load

sys.path.insert(0, str(Path(__file__).resolve().parent / "zoo"))
import zoo  # noqa: E402  (found through the line above)

LIMIT = 1e-3


def reference(model, inputs):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, load(inputs))))


def check_network(tw, report, name, work):
    model = zoo.fill(name, work)
    inputs = model.with_suffix(".npz")
    expected = reference(model, inputs)

    def run(level):
        compiled, out = work / f"{name}.o{level}.tw", work / f"{name}.o{level}.npz"
        tw("compile", model, "-o", compiled, "-O", level)
        tw("run", compiled, "--inputs", inputs, "--outputs", out)
        compiled.unlink()
        return load(out)

    for level in (3, 0):
        report.case(f"{name} -O {level}",
                    lambda level=level: compare(run(level), expected, LIMIT))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--tilewright", required=True)
    parser.add_argument("--work", type=Path, help="folder for temporary files")
    args = parser.parse_args()
    tw, report = Tilewright(args.tilewright), Report()
    if args.work:
        args.work.mkdir(parents=True, exist_ok=True)
    for name in args.names or zoo.names():
        with tempfile.TemporaryDirectory(dir=args.work) as work:
            check_network(tw, report, name, Path(work))
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
