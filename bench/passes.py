#!/usr/bin/env python3
"""What each optional pass is worth: all passes on against one of them off.

    bench/passes.py [--threads N] [--seconds S] [--build DIR] [--pass NAME]... [MODEL ...]

For each model and each optional pass the model is compiled with and without it; both run in one
process by turns, so that both see the same state of the machine, and the best times count: with one
thread those of the processor, which what else runs on the machine disturbs least. Prints a table in
Markdown: milliseconds with all passes, and for each pass how many times as long it takes without it
("-": the pass changes nothing, the compiled files are equal).
"""
import argparse
import re
import subprocess
import sys
import time
from pathlib import Path

import compare
import engines

MODELS = ["resnet50", "mobilenet_v2", "bert_base", "swin_t"]


class Off(engines.Tilewright):
    """tilewright with one pass off."""
    suffix = ".off"


def optional_passes(build):
    """Those of the pipelines, in their order; plugins' and tests' are not among them."""
    listed = subprocess.run([build / "bin" / "tilewright-opt", "--list-passes"], check=True,
                            capture_output=True, text=True).stdout
    optional = {line.split()[0] for line in listed.splitlines() if line.endswith("(optional)")}
    used = [name for line in listed.splitlines() if " passes at -O 3: " in line
            for name in re.findall(r"[\w.-]+(?=[,{)]|$)", line.split(": ", 1)[1])]
    return [name for name in dict.fromkeys(used) if name in optional]


def without(base, model, inputs, name, args):
    """Best seconds of `base`, which has all passes, and without one; None when the files are
    equal."""
    Off.flags = ["--disable-pass", name]
    off = Off(model, inputs, args.threads)
    try:
        if base.file.read_bytes() == off.file.read_bytes():
            return None
        clock = time.process_time if args.threads == 1 else time.perf_counter
        return [min(times) for times in compare.measure([base, off], args.seconds, clock)]
    finally:
        off.close()
        off.file.unlink()


def column(name, passes, args):
    """Best seconds with all passes, and per pass the ratio without it or None."""
    model, inputs = compare.find(name)
    base, ratios, best = engines.Tilewright(model, inputs, args.threads), [], []
    try:
        for off in passes:
            times = without(base, model, inputs, off, args)
            best += times[:1] if times else []
            ratios.append(times and times[1] / times[0])
            print(f"{name} without {off}: {ratios[-1]}", file=sys.stderr, flush=True)
    finally:
        base.close()
        base.file.unlink()
    return min(best, default=0), ratios


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", default=MODELS)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=3.0, help="per model, pass and form (3)")
    parser.add_argument("--build", type=Path, default=engines.Tilewright.build)
    parser.add_argument("--pass", dest="passes", action="append", metavar="NAME")
    args = parser.parse_args()
    engines.Tilewright.build = args.build.resolve()
    passes = args.passes or optional_passes(engines.Tilewright.build)
    columns = [column(name, passes, args) for name in args.models]
    lines = [["without", *(Path(name).stem for name in args.models)],
             ["---", *("---:" for _ in columns)],
             ["(all passes on)", *(f"{best * 1e3:.2f} ms" for best, _ in columns)],
             *([f"`{name}`", *(f"{c[i]:.2f}" if c[i] else "-" for _, c in columns)]
               for i, name in enumerate(passes))]
    for line in lines:
        print("| " + " | ".join(line) + " |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
