#!/usr/bin/env python3
"""Real models against the outputs that onnxruntime gave for them.

    run_check.py --tilewright COMMAND [--work DIR] [MODEL ...]

Per model: `check` at the default level and at -O 0; a compiled file of -O 3 against -O 0; the same
bytes when compiled twice.
"""
import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np

from common import Report, Tilewright, compare, load
import fetch_models

DATA = Path(__file__).resolve().parent / "data"
LIMIT = 1e-3  # -O 0 and -O 3 may sum in different orders


def check_model(tw, report, model, data, work):
    name = model.name
    inputs = work / "inputs.npz"
    np.savez(inputs, **{k[3:]: v for k, v in load(data).items() if k.startswith("in/")})

    for level in (3, 0):
        report.case(f"{name} check -O {level}", lambda level=level: last_line(
            tw("check", model, "--data", data, "--rtol", "1e-3", "--atol", "1e-4", "-O", level)))

    # A compiled file is for given shapes.
    shapes = [arg for k, v in load(inputs).items()
              for arg in ("--shape", f"{k}={'x'.join(map(str, v.shape))}")]
    compiled = [work / "o0.tw", work / "o3.tw", work / "o3again.tw"]

    def levels():
        outputs = []
        for level, path in zip((0, 3), compiled):
            tw("compile", model, "-o", path, "-O", level, *shapes)
            tw("run", path, "--inputs", inputs, "--outputs", work / "out.npz")
            outputs.append(load(work / "out.npz"))
        return compare(outputs[1], outputs[0], LIMIT)

    def same_bytes():
        tw("compile", model, "-o", compiled[2], "-O", 3, *shapes)
        if compiled[1].read_bytes() != compiled[2].read_bytes():
            raise AssertionError("two compilations differ")

    report.case(f"{name} -O 0 and -O 3 agree", levels)
    report.case(f"{name} compiles to the same bytes", same_bytes)


def last_line(text):
    lines = text.strip().splitlines()
    return lines[-1] if lines else ""


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL")
    parser.add_argument("--tilewright", required=True)
    parser.add_argument("--work", type=Path, help="folder for temporary files")
    args = parser.parse_args()
    names = args.models or sorted(p.name.removesuffix(".npz") for p in DATA.glob("*.npz"))
    tw, report = Tilewright(args.tilewright), Report()
    if args.work:
        args.work.mkdir(parents=True, exist_ok=True)
    for name, model in zip(names, fetch_models.fetch(names)):
        with tempfile.TemporaryDirectory(dir=args.work) as work:
            check_model(tw, report, model, DATA / f"{name}.npz", Path(work))
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
