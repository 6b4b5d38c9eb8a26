#!/usr/bin/env python3
"""ONNX's backend tests by the runner of the onnx package, on tilewright's backend.

    official.py --tilewright COMMAND --runtime LIBRARY --list FILE [--every N] [WORD]

The tests of the list (as of the conformance runner) are left out, those whose results are random,
and one with a scalar in a sequence, which the runner cannot compare. With --every N each Nth of the others runs, WORD restricts them by name.
"""
import argparse
import re
import sys
import unittest
from pathlib import Path

try:
    import onnx.backend.test
    from backend import Backend
except ImportError as missing:
    print(f"skipped: {missing}; scripts/setup.sh installs what this test needs")
    sys.exit(77)


LEFT_OUT = re.compile("bernoulli|training_dropout|loop16_seq_none")


def listed(path):
    """Names of the tests that do not pass, without the folder."""
    lines = path.read_text().splitlines()
    return {line.split()[0].split("/")[1] for line in lines if line and line[0] != "#"}


def names_of(case):
    """test_add_cpu -> test_add"""
    return case._testMethodName.removesuffix("_cpu")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tilewright", required=True, type=Path)
    parser.add_argument("--runtime", required=True, type=Path)
    parser.add_argument("--list", required=True, type=Path)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("word", nargs="?", default="")
    args = parser.parse_args()
    skip = listed(args.list)
    runner = onnx.backend.test.BackendTest(Backend(args.tilewright, args.runtime), __name__)
    cases = [case for case in runner.test_suite
             if case._testMethodName.endswith("_cpu") and names_of(case) not in skip
             and args.word in names_of(case) and "RealModel" not in type(case).__name__]
    images = (args.tilewright.parent / "libtilewright-image.so").exists()
    left_out = [case for case in cases if LEFT_OUT.search(names_of(case)) or
                ("image_decoder" in names_of(case) and not images)]
    cases = [case for case in cases if case not in left_out]
    cases = sorted(cases, key=names_of)[::args.every]
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=0).run(unittest.TestSuite(cases))
    failed = len(result.failures) + len(result.errors)
    print(f"{len(left_out)} left out: random results, a scalar in a sequence")
    print(f"{result.testsRun - failed} passed, {failed} failed")
    return failed != 0 or not result.testsRun


if __name__ == "__main__":
    sys.exit(main())
