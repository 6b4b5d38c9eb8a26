#!/usr/bin/env python3
"""The networks of zoo/ against onnxruntime.

    run_zoo.py --tilewright COMMAND [--work DIR] [--update] [NAME ...]

Per network: filled with seeded weights, run by onnxruntime, compiled and run at -O 3 and at -O 0.
Outputs may differ by a thousandth of each output's largest value. At -O 3 there may be no more
kernels, and no more that only move elements, than zoo/kernels.txt says (--update writes what there
are), and the arena may be a tenth larger than what lives at once. Some are run with their channels
in blocks, too.
"""
import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import onnxruntime

from common import Report, Tilewright, compare, load

sys.path.insert(0, str(Path(__file__).resolve().parent / "zoo"))
import zoo  # noqa: E402  (found through the line above)

LIMIT = 1e-3
KERNELS = Path(__file__).resolve().parent / "zoo" / "kernels.txt"
ARENA_LIMIT = 1.1
MOVES = {"transpose", "reshape", "concat", "slice", "kernel", "gather", "expand"}
MOVES_LIMIT = {"resnet50": 2, "mobilenet_v2": 2}  # of layouts, whatever the table says
BLOCKS = {"squeezenet1_1": "NCHW8c", "mobilenet_v2": "NCHWc"}  # in these layouts as well


def passes_with(tw, layout):
    """The graph passes of -O 3, with another layout."""
    opt = Path(tw.command).with_name("tilewright-opt")
    said = subprocess.run([opt, "--list-passes"], check=True, capture_output=True, text=True).stdout
    passes = re.search(r"^graph passes at -O 3: (.*)$", said, re.M)[1]
    return passes.replace("convert-layout", f"convert-layout{{layout={layout}}}")


def kept_kernels():
    """Network -> kernels, kernels that only move elements."""
    rows = [line.split() for line in KERNELS.read_text().splitlines() if line[:1] not in ("", "#")]
    return {name: (int(kernels), int(moves)) for name, kernels, moves in rows}


def keep_kernels(name, counts):
    table = kept_kernels() | {name: counts}
    head = [line for line in KERNELS.read_text().splitlines() if line.startswith("#")]
    rows = [f"{n:20} {kernels:7} {moves:7}" for n, (kernels, moves) in sorted(table.items())]
    KERNELS.write_text("\n".join(head + rows) + "\n")


def plan_of(said):
    """Kernels, those that only move elements, and arena by what lives at once, of an inspection."""
    operators = re.findall(r"^ +\d+ \S+ \((.*)\): .* MFLOP", said, re.M)
    moves = sum(set(o.split("+")) <= MOVES for o in operators)
    arena, live = map(float, re.search(r"arena of ([\d.]+) MB, ([\d.]+) MB live", said).groups())
    return len(operators), moves, arena / live


def check_plan(name, said, update):
    kernels, moves, ratio = plan_of(said)
    if update:
        keep_kernels(name, (kernels, moves))
    most_kernels, most_moves = kept_kernels()[name]
    most_moves = min(most_moves, MOVES_LIMIT.get(name, most_moves))
    for what, value, most in (("kernels", kernels, most_kernels),
                              ("kernels that only move elements", moves, most_moves),
                              ("times what lives at once", round(ratio, 3), ARENA_LIMIT)):
        if value > most:
            raise AssertionError(f"{value} {what}, more than {most}")
    return f"{kernels} kernels, {moves} only move elements, arena {ratio:.3f} of what lives at once"


def reference(model, inputs):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, load(inputs))))


def check_network(tw, report, name, work, update):
    model = zoo.fill(name, work)
    inputs = model.with_suffix(".npz")
    expected, said = reference(model, inputs), {}

    def run(level, *options):
        compiled, out = work / f"{name}.o{level}.tw", work / f"{name}.o{level}.npz"
        tw("compile", model, "-o", compiled, "-O", level, *options)
        said[level] = tw("inspect", compiled)
        tw("run", compiled, "--inputs", inputs, "--outputs", out)
        compiled.unlink()
        return load(out)

    for level in (3, 0):
        report.case(f"{name} -O {level}",
                    lambda level=level: compare(run(level), expected, LIMIT))
    report.case(f"{name} plan", lambda: check_plan(name, said[3], update))
    if name in BLOCKS:
        pipeline = passes_with(tw, BLOCKS[name])
        report.case(f"{name} {BLOCKS[name]}",
                    lambda: compare(run(3, f"--pipeline={pipeline}"), expected, LIMIT))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--tilewright", required=True)
    parser.add_argument("--work", type=Path, help="folder for temporary files")
    parser.add_argument("--update", action="store_true", help="keep the numbers of kernels")
    args = parser.parse_args()
    tw, report = Tilewright(args.tilewright), Report()
    if args.work:
        args.work.mkdir(parents=True, exist_ok=True)
    for name in args.names or zoo.names():
        with tempfile.TemporaryDirectory(dir=args.work) as work:
            check_network(tw, report, name, Path(work), args.update)
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
