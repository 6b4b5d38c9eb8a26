#!/usr/bin/env python3
"""ONNX's own operator tests, which the onnx package brings along.

    run.py --tilewright COMMAND [--work DIR] [--jobs N] [--update] [NAME ...]

A test that is listed in not_passing.txt counts as skipped, and as failed when it passes after all:
the list states exactly what is missing. --update rewrites it.
"""
import argparse
import concurrent.futures
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "models"))
from common import Report, Tilewright  # noqa: E402

LIST = Path(__file__).resolve().parent / "not_passing.txt"
DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"
FOLDERS = ("node", "simple", "pytorch-operator", "pytorch-converted")
TIMEOUT = 60  # seconds a test


def all_tests():
    """Folder of each test by name."""
    return {path.parent.name: path.parent for folder in FOLDERS
            for path in sorted((DATA / folder).glob("*/model.onnx"))}


def read_array(path, value):
    """The array in a .pb file; the graph's value says whether it is one."""
    if value.type.WhichOneof("value") != "tensor_type":
        raise NotImplementedError(f"{value.name} is no tensor")
    tensor = onnx.TensorProto()
    tensor.ParseFromString(path.read_bytes())
    return numpy_helper.to_array(tensor)


def read_set(folder, graph):
    """A data set as the arrays of an .npz file: in/NAME and out/NAME."""
    # Initializers are no inputs, whichever way they are listed.
    constants = {t.name for t in graph.initializer}
    arrays = {}
    for prefix, values in (("in", [v for v in graph.input if v.name not in constants]),
                           ("out", graph.output)):
        for i, value in enumerate(values):
            path = folder / f"{prefix}put_{i}.pb"
            if path.exists():  # optional inputs are left out
                arrays[f"{prefix}/{value.name}"] = read_array(path, value)
    return arrays


def run_test(tw, folder, work):
    """None when the test passes, else why not."""
    try:
        model = folder / "model.onnx"
        graph = onnx.load(model).graph
        with tempfile.TemporaryDirectory(dir=work) as temporary:
            for data in sorted(folder.glob("test_data_set_*")):
                npz = Path(temporary) / "data.npz"
                np.savez(npz, **read_set(data, graph))
                tw("check", model, "--data", npz, "--rtol", "1e-3", "--atol", "1e-5")
    except Exception as error:  # whatever it is, it is this test's
        return str(error) or type(error).__name__
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--tilewright", required=True)
    parser.add_argument("--work", type=Path)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--update", action="store_true", help="rewrite the list")
    args = parser.parse_args()
    if args.work:
        args.work.mkdir(parents=True, exist_ok=True)
    tests = all_tests()
    names = args.names or list(tests)
    listed = {line for line in LIST.read_text().splitlines() if line and line[0] != "#"}
    tw, report, skipped, missing = Tilewright(args.tilewright, TIMEOUT), Report(), 0, {}
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        results = pool.map(lambda name: run_test(tw, tests[name], args.work), names)
        for name, problem in zip(names, results):
            if problem:
                missing[name] = problem
            if problem and name in listed and not args.names:
                skipped += 1
            elif problem:
                report.fail(name, problem)
            elif name in listed:
                report.fail(name, "passes: take it from not_passing.txt")
            else:
                report.passed += 1
    if args.update and not args.names:
        header = [line for line in LIST.read_text().splitlines() if line.startswith("#")]
        LIST.write_text("\n".join(header + sorted(missing)) + "\n")
    return report.close(skipped)


if __name__ == "__main__":
    sys.exit(main())
