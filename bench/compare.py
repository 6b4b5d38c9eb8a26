#!/usr/bin/env python3
"""tilewright against other engines, side by side.

    bench/compare.py [--threads N] [--openvino] [--seconds S] [--json FILE] [MODEL ...]

MODEL is a name of tests/models/zoo, a file name of scripts/fetch_models.py, or a path of an .onnx
file beside an .npz with its inputs; default: the zoo and the real models. The engines run in one
process by turns, a few inferences each, so that both see the same state of the machine; what
counts is the best time. A ratio above 1 means that tilewright is slower. Outputs are compared, too.
"""
import argparse
import gc
import json
import math
import os
import sys
import time
from pathlib import Path

import numpy as np

import engines

ROOT = engines.ROOT
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "tests/models"), str(ROOT / "tests/models/zoo")]
import common  # noqa: E402
import fetch_models  # noqa: E402
import zoo  # noqa: E402

TURN = 0.05   # seconds an engine has before the other's turn
PAUSE = 0.01  # lets the threads of an engine that waits busily go to sleep
LIMIT = 1e-3  # relative error of outputs


def find(name):
    """The path of a model and its inputs."""
    if name in zoo.names():
        path = ROOT / ".cache" / "zoo" / f"{name}.onnx"
        if not path.with_suffix(".npz").exists():
            zoo.fill(name, path.parent)
        return path, common.load(path.with_suffix(".npz"))
    if name in fetch_models.MODELS:
        (path,) = fetch_models.fetch([name])
        data = common.load(ROOT / "tests" / "models" / "data" / f"{name}.npz")
        return path, {k[3:]: v for k, v in data.items() if k.startswith("in/")}
    path = Path(name)
    return path, common.load(path.with_suffix(".npz"))


def turn(engine, seconds, clock):
    """Times of single runs, at least one."""
    times, end = [], time.perf_counter() + seconds
    while True:
        start = clock()
        engine.run()
        times.append(clock() - start)
        if time.perf_counter() >= end:
            return times


def measure(runners, seconds, clock=time.perf_counter):
    """Times per engine, by turns."""
    times = [[] for _ in runners]
    for runner in runners:  # the first run allocates
        runner.run()
    end = time.perf_counter() + seconds * len(runners)
    while time.perf_counter() < end:
        for runner, list_ in zip(runners, times):
            list_ += turn(runner, TURN, clock)
            time.sleep(PAUSE)
    return times


def compare(name, kinds, args):
    """A dictionary of results for one model."""
    model, inputs = find(name)
    runners = [kind(model, inputs, args.threads) for kind in kinds]
    try:
        times = measure(runners, args.seconds)
        ours = runners[0].outputs()
        theirs = runners[1].outputs()
        error = max((common.relative_error(ours[k], theirs[k]) for k in theirs), default=0.0)
    finally:
        for runner in runners:
            runner.close()
        gc.collect()
    result = {"model": name, "threads": args.threads, "error": error}
    for kind, list_ in zip(kinds, times):
        result[kind.name] = {"min": min(list_), "median": float(np.median(list_)),
                             "runs": len(list_)}
    return result


def geometric_mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--openvino", action="store_true", help="run OpenVINO, too")
    parser.add_argument("--seconds", type=float, default=3.0, help="per model and engine (3)")
    parser.add_argument("--build", type=Path, default=engines.Tilewright.build)
    parser.add_argument("--flag", action="append", default=[], help="more for `compile`")
    parser.add_argument("--json", type=Path, help="write the results there")
    parser.add_argument("--max-ratio", type=float, help="exit 1 when a model's ratio is above")
    args = parser.parse_args()
    engines.Tilewright.build, engines.Tilewright.flags = args.build, args.flag
    kinds = [engines.Tilewright, engines.OnnxRuntime] + [engines.OpenVino] * args.openvino
    others = kinds[1:]

    print(f"{'ms, best run':28}" + "".join(f"{kind.name:>14}" for kind in kinds)
          + "".join(f"{'/ ' + kind.name:>15}" for kind in others) + "      error")
    results, fine = [], True
    for name in args.models or [*zoo.names(), *fetch_models.MODELS]:
        try:
            result = compare(name, kinds, args)
        except (RuntimeError, AssertionError, OSError) as error:
            print(f"{name:28} FAILED: {error}", flush=True)
            fine = False
            continue
        best = [result[kind.name]["min"] for kind in kinds]
        ratios = [best[0] / t for t in best[1:]]
        bad = result["error"] > LIMIT or bool(args.max_ratio and ratios[0] > args.max_ratio)
        fine &= not bad
        print(f"{name:28}" + "".join(f"{t * 1e3:14.3f}" for t in best)
              + "".join(f"{r:15.2f}" for r in ratios)
              + f"{result['error']:11.1e}" + ("  <--" if bad else ""), flush=True)
        results.append(result)
    if results:
        means = {kind.name: geometric_mean(
            [r["tilewright"]["min"] / r[kind.name]["min"] for r in results]) for kind in others}
        print(f"{'geometric mean':28}" + " " * 14 * len(kinds)
              + "".join(f"{m:15.2f}" for m in means.values()))
        if args.json:
            args.json.write_text(json.dumps(
                {"threads": args.threads, "cpus": os.cpu_count(), "models": results,
                 "geometric_mean": means}, indent=1) + "\n")
    return 0 if fine and results else 1


if __name__ == "__main__":
    sys.exit(main())
