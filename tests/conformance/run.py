#!/usr/bin/env python3
"""ONNX's own operator tests, which the onnx package brings along.

    run.py --tilewright COMMAND [--work DIR] [--jobs N] [--update] [NAME ...]

Where an operator needs a size or an axis that the test gives as an input, that input
becomes a constant of the model. A test that is listed in not_passing.txt counts as skipped, and as failed when it passes after all:
the list states exactly what is missing. --update rewrites it.
"""
import argparse
import concurrent.futures
import re
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


NEEDS_VALUE = re.compile(r"input \d+ \('(.+)'\) determines a shape or an index")


def with_constants(model, arrays, names):
    """The model with inputs as constants, and the arrays without them."""
    model = onnx.ModelProto.FromString(model.SerializeToString())
    for value in [v for v in model.graph.input if v.name in names]:
        model.graph.input.remove(value)
        model.graph.initializer.append(
            numpy_helper.from_array(arrays[f"in/{value.name}"], value.name))
    return model, {k: v for k, v in arrays.items() if k[3:] not in names or k[:3] != "in/"}


# Element types that NumPy's files have no name for, and a wider one with all their values.
WIDER = {name: np.float32 for name in ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float4_e2m1fn")}
WIDER |= {"int4": np.int8, "uint4": np.uint8}


def widened(model, arrays):
    """The model with casts before inputs and behind outputs of such types."""
    graph, result = model.graph, {}
    for key, array in arrays.items():
        wide = WIDER.get(array.dtype.name)
        if not wide:
            result[key] = array
            continue
        inward, name = key.startswith("in/"), key.split("/", 1)[1]
        (value,) = [v for v in (graph.input if inward else graph.output) if v.name == name]
        narrow_type = value.type.tensor_type.elem_type
        wide_type = onnx.helper.np_dtype_to_tensor_dtype(np.dtype(wide))
        value.name, value.type.tensor_type.elem_type = name + "_wide", wide_type
        ends = (value.name, name, narrow_type) if inward else (name, value.name, wide_type)
        cast = onnx.helper.make_node("Cast", [ends[0]], [ends[1]], to=ends[2])
        graph.node.insert(0 if inward else len(graph.node), cast)
        result[key + "_wide"] = array.astype(wide)
    return model, result


def check(tw, model, arrays, folder):
    """Raises when the test does not pass, but returns the names of inputs whose values the compiler
    asks for: of one, or of all integer ones when it asks for what depends on them."""
    path, npz = folder / "model.onnx", folder / "data.npz"
    path.write_bytes(model.SerializeToString())
    np.savez(npz, **arrays)
    try:
        tw("check", path, "--data", npz, "--rtol", "1e-3", "--atol", "1e-5")
    except RuntimeError as error:
        needs = NEEDS_VALUE.search(str(error))
        if needs and f"in/{needs[1]}" in arrays:
            return [needs[1]]
        integers = [k[3:] for k, v in arrays.items() if k[:3] == "in/" and v.dtype.kind in "iu"]
        if not needs or not integers:
            raise
        return integers
    return None


def run_test(tw, test, work):
    """None when the test passes, else why not."""
    try:
        model = onnx.load(test / "model.onnx")
        with tempfile.TemporaryDirectory(dir=work) as folder:
            for data in sorted(test.glob("test_data_set_*")):
                case = widened(onnx.load(test / "model.onnx"), read_set(data, model.graph))
                while needs := check(tw, *case, Path(folder)):
                    case = with_constants(*case, needs)
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
