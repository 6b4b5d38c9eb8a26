#!/usr/bin/env python3
"""ONNX's own operator tests, which the onnx package brings along.

    run.py --tilewright COMMAND [--work DIR] [--jobs N] [--update] [NAME ...]

Where an operator needs a size or an axis that the test gives as an input, the test is run with its
integer inputs as constants of the model. A test that is listed in not_passing.txt counts as skipped, and as failed when it passes after all:
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


def with_constants(model, arrays):
    """The model with its integer inputs as constants, and the arrays without them."""
    model = onnx.ModelProto.FromString(model.SerializeToString())
    for value in list(model.graph.input):
        array = arrays.get(f"in/{value.name}")
        if array is not None and array.dtype.kind in "iub":
            model.graph.initializer.append(numpy_helper.from_array(array, value.name))
            model.graph.input.remove(value)
            arrays = {k: v for k, v in arrays.items() if k != f"in/{value.name}"}
    return model, arrays


def check(tw, model, arrays, folder):
    path, npz = folder / "model.onnx", folder / "data.npz"
    path.write_bytes(model.SerializeToString())
    np.savez(npz, **arrays)
    tw("check", path, "--data", npz, "--rtol", "1e-3", "--atol", "1e-5")


def run_test(tw, test, work):
    """None when the test passes, else why not."""
    try:
        model = onnx.load(test / "model.onnx")
        with tempfile.TemporaryDirectory(dir=work) as folder:
            for data in sorted(test.glob("test_data_set_*")):
                arrays = read_set(data, model.graph)
                try:
                    check(tw, model, arrays, Path(folder))
                except RuntimeError as error:
                    if "must be known when the model is compiled" not in str(error):
                        raise
                    check(tw, *with_constants(model, arrays), Path(folder))
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
