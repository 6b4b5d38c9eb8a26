#!/usr/bin/env python3
"""Single operators, in many configurations, against onnxruntime.

    run_operators.py --tilewright COMMAND [--work DIR] [--open] [--every N] [OPERATOR ...]

onnxruntime runs each case by itself, without optimising it. tilewright compiles all cases of an
operator as one model, at -O 0 and at -O 3, or one by one when that fails, to tell which.

With --open each size of an input is a symbol of its own, and one model is compiled for all sizes.
What cannot be compiled so stands in REFUSED with the reason. Compiling for all sizes takes longer:
--every N takes the first cases of each operator and each Nth of the others.
"""
import argparse
import dataclasses
import shutil
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

try:
    import numpy as np
    import onnx
    import onnxruntime  # noqa: F401
except ImportError as missing:
    print(f"skipped: {missing}; scripts/setup.sh installs what this test needs")
    sys.exit(77)

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "models"))
import cases  # noqa: E402
from case import make_model, reference, value_type  # noqa: E402
from common import Report, Tilewright, load, relative_error  # noqa: E402


# Operators that need a size, with what the compiler says: how many dimensions a result has depends
# on it.
REFUSED = {
    "AffineGrid": "how many elements it has must be known",
    "Expand": "how many elements it has must be known",
    "GatherND": "the number of dimensions of the result depends on the last size",
}
ALWAYS = 4  # cases of an operator that --every takes all of


def is_refused(case, error):
    return case.op in REFUSED and REFUSED[case.op] in str(error)


def expected_of(case):
    """The results by output name, or why onnxruntime cannot run the case."""
    if case.expected is not None:
        return {f"y{i}": x for i, x in enumerate(case.expected) if x is not None}
    try:
        return reference(case)
    except Exception as error:  # of various types
        return str(error).strip().splitlines()[-1]


def compare(case, actual, expected):
    """AssertionError when an output is off."""
    if case.check:
        case.check(actual["y0"])
    for name, e in expected.items():
        a = actual[name]
        if case.check:
            if a.dtype != e.dtype or a.shape != e.shape:
                raise AssertionError(f"{name}: {a.dtype}{list(a.shape)}")
            continue
        if case.steps and a.dtype == e.dtype and a.shape == e.shape:
            off = np.abs(a.astype(np.int64) - e.astype(np.int64))
            if off.size and off.max() > case.steps:
                raise AssertionError(f"{name}: {np.sum(off > case.steps)} of {off.size} are off by "
                                     f"up to {off.max()}")
            continue
        error = relative_error(a, e)
        if error > case.tolerance():
            raise AssertionError(f"{name}: relative error {error:.3g} above {case.tolerance():g}")


def opened(case):
    """The case with all sizes of its inputs left open."""
    dims = {i: tuple(f"x{i}d{k}" for k in range(x.ndim))
            for i, x in enumerate(case.inputs) if x is not None}
    return dataclasses.replace(case, dims=dims)


def has_text(case, expected):
    arrays = [x for x in case.inputs if x is not None] + list(expected.values())
    return any(x.dtype == object for x in arrays)


class Runner:
    def __init__(self, tw, report, work, all_sizes):
        self.tw, self.report, self.work, self.all_sizes = tw, report, work, all_sizes
        self.refused = self.listed = 0

    def compiled(self, group, prefixes, level):
        """Outputs of the cases, one dictionary each, or RuntimeError."""
        model, feeds = make_model(group, prefixes)
        path, inputs, out = (self.work / f"m{s}" for s in (".onnx", ".npz", ".out.npz"))
        onnx.save(model, path)
        np.savez(inputs, **feeds)
        self.tw("compile", path, "-o", self.work / "m.tw", "-O", level)
        self.tw("run", self.work / "m.tw", *(["--inputs", inputs] if feeds else []), "--outputs", out)
        results = load(out)
        return [{k[len(p):]: v for k, v in results.items() if k.startswith(p)} for p in prefixes]

    def check_text(self, case, expected, level):
        """A case with strings, which files of arrays do not hold, by a folder of tensors."""
        model, feeds = make_model([case], [""])
        folder = self.work / "text" / "test_data_set_0"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        del model.graph.output[:]
        model.graph.output.extend(onnx.helper.make_tensor_value_info(name, value_type(x), None)
                                  for name, x in expected.items())
        onnx.save(model, self.work / "m.onnx")
        for kind, arrays in (("input", feeds), ("output", expected)):
            for i, (name, x) in enumerate(arrays.items()):
                tensor = onnx.numpy_helper.from_array(x, name)
                (folder / f"{kind}_{i}.pb").write_bytes(tensor.SerializeToString())
        self.tw("check", self.work / "m.onnx", "--data", folder, "-O", level)

    def run(self, op, group):
        """All cases of an operator at both levels."""
        expected = [expected_of(case) for case in group]
        known = [(c, e) for c, e in zip(group, expected) if not isinstance(e, str)]
        for case, why in zip(group, expected):
            if isinstance(why, str):
                self.refused += 1
                print(f"---- {case.label()}: onnxruntime: {why}")
        text = [pair for pair in known if has_text(*pair)]
        known = [pair for pair in known if not has_text(*pair)]
        for level in (3,) if self.all_sizes else (0, 3):
            self.run_level(op, [c for c, _ in known], [e for _, e in known], level)
            for case, want in text:
                try:
                    self.check_text(case, want, level)
                    self.report.passed += 1
                except RuntimeError as error:
                    self.report.fail(f"{case.label()} -O {level}", error)

    def run_level(self, op, group, expected, level):
        prefixes = [f"c{i}_" for i in range(len(group))]
        try:
            results = self.compiled(group, prefixes, level) if group else []
        except RuntimeError:
            results = [None] * len(group)
        for case, prefix, result, want in zip(group, prefixes, results, expected):
            try:
                if result is None:
                    result, = self.compiled([case], [prefix], level)
                compare(case, result, want)
                self.report.passed += 1
            except (AssertionError, KeyError, RuntimeError) as error:
                if self.all_sizes and is_refused(case, error):
                    self.listed += 1
                    continue
                self.report.fail(f"{case.label()} -O {level}", error)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("operators", nargs="*", metavar="OPERATOR")
    parser.add_argument("--tilewright", required=True)
    parser.add_argument("--work", type=Path, help="folder for temporary files")
    parser.add_argument("--open", action="store_true", help="compile for all sizes of inputs")
    parser.add_argument("--every", type=int, default=1, help="take some of the cases")
    args = parser.parse_args()
    groups = defaultdict(list)
    has_images = (Path(args.tilewright).parent / "libtilewright-image.so").exists()
    for case in cases.all_cases():
        if case.op == "ImageDecoder" and not has_images:
            continue
        if not args.operators or case.op in args.operators:
            groups[case.op, case.domain, case.opset].append(opened(case) if args.open else case)
    for key, group in groups.items():
        groups[key] = group[:ALWAYS] + group[ALWAYS::args.every]
    if args.work:
        args.work.mkdir(parents=True, exist_ok=True)
    report = Report()
    with tempfile.TemporaryDirectory(dir=args.work) as work:
        runner = Runner(Tilewright(args.tilewright), report, Path(work), args.open)
        for (op, _, _), group in sorted(groups.items()):
            before = report.passed, report.failed
            runner.run(op, group)
            print(f"{op}: {report.passed - before[0]} passed, {report.failed - before[1]} failed",
                  flush=True)
    print(f"{len(groups)} operators; {runner.refused} cases that onnxruntime does not run"
          + (f"; {runner.listed} that need a size" if args.open else ""))
    return report.close()


if __name__ == "__main__":
    sys.exit(main())
