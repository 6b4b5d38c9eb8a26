#!/usr/bin/env python3
"""Models compiled once for all sizes against the same ones compiled for one size.

    bench/open_sizes.py [--threads N[,N]] [--seconds S] [--build DIR] [--max-ratio R] [MODEL ...]

Both run by turns in one process, a few inferences each; what counts is the best time, of the
processor where there is one thread. A ratio above 1 means that the code for any size is slower.
MODEL is a name below; default: all.
"""
import argparse
import gc
import sys
import time
from pathlib import Path

import numpy as np

import compare
import engines

sys.path[:0] = [str(engines.ROOT / "scripts")]
import fetch_models  # noqa: E402


def tokens(shape):
    rng = np.random.default_rng(1)
    return {"input_ids": rng.integers(0, 1000, shape), "attention_mask": np.ones(shape, np.int64)}


def picture(shape):
    return {"x": np.random.default_rng(1).standard_normal(shape, np.float32)}


# model: (inputs of a shape, shapes)
MODELS = {
    "paraphrase-MiniLM-L3-v2.onnx": (
        tokens, [(b, n) for b in (1, 2) for n in (1, 2, 4, 8, 16, 32, 128, 256)]),
    "ch_PP-OCRv4_det_infer.onnx": (
        picture, [(1, 3, 320, 320), (1, 3, 640, 480), (2, 3, 96, 160)]),
}


def measure(path, inputs, threads, seconds):
    """Best seconds of the fixed and of the open form, and how much their results differ."""
    runners = [engines.Tilewright(path, inputs, threads), engines.OpenSizes(path, inputs, threads)]
    try:
        clock = time.thread_time if threads == 1 else time.perf_counter
        best = [min(times) for times in compare.measure(runners, seconds, clock)]
        fixed, free = (r.outputs() for r in runners)
        return best, max(compare.common.relative_error(free[k], fixed[k]) for k in fixed)
    finally:
        for runner in runners:
            runner.close()
        gc.collect()


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL")
    parser.add_argument("--threads", default="1,2", help="numbers of threads (1,2)")
    parser.add_argument("--seconds", type=float, default=0.5, help="per size and form (0.5)")
    parser.add_argument("--build", type=Path, default=engines.Tilewright.build)
    parser.add_argument("--max-ratio", type=float, help="exit 1 when a ratio is above")
    args = parser.parse_args()
    engines.Tilewright.build = args.build

    fine = True
    for name in args.models or MODELS:
        make, shapes = MODELS[name]
        (path,) = fetch_models.fetch([name])
        print(f"{name}\n{'':20}{'threads':>8}{'fixed ms':>12}{'open ms':>12}{'ratio':>8}{'error':>11}")
        for threads in map(int, args.threads.split(",")):
            for shape in shapes:
                (fixed, free), error = measure(path, make(shape), threads, args.seconds)
                ratio = free / fixed
                bad = error > compare.LIMIT or bool(args.max_ratio and ratio > args.max_ratio)
                fine &= not bad
                print(f"{'x'.join(map(str, shape)):20}{threads:8}{fixed * 1e3:12.3f}"
                      f"{free * 1e3:12.3f}{ratio:8.2f}{error:11.1e}{'  <--' if bad else ''}",
                      flush=True)
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
