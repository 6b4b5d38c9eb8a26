#!/usr/bin/env python3
"""count_tests.py REPORT.xml ...: one closing line for several reports of `ctest --output-junit`.

A test that is itself a runner counts as the cases that its own closing line names.
"""
import re
import sys
import xml.etree.ElementTree as ET

# (passed, failed, skipped) in the closing lines of cmocka, lit, and the project's own runners
RUNNERS = [[re.compile(pattern, re.M) for pattern in patterns] for patterns in (
    (r"^\[  PASSED  \] (\d+) test", r"^\[  FAILED  \] (\d+) test", r"^\[  SKIPPED \] (\d+) test"),
    (r"^ *Passed *: *(\d+)", r"^ *(?:Failed|Unresolved|Timed Out) *: *(\d+)",
     r"^ *Unsupported *: *(\d+)"),
    (r"^(\d+) passed, \d+ failed", r"^\d+ passed, (\d+) failed", r"^\d+ passed, .* (\d+) skipped"),
)]


def last(pattern, text):
    found = pattern.findall(text)
    return int(found[-1]) if found else 0


def cases(test):
    """(passed, failed, skipped) of one test of ctest."""
    output = test.findtext("system-out") or ""
    for patterns in RUNNERS:
        passed, failed, skipped = (last(pattern, output) for pattern in patterns)
        if passed or failed:
            break
    status = test.get("status")
    if status == "run":
        return passed or 1, failed, skipped
    if status == "fail":
        return passed, failed or 1, skipped
    return 0, 0, 1


def main():
    total = [0, 0, 0]
    for report in sys.argv[1:]:
        for test in ET.parse(report).getroot().iter("testcase"):
            total = [a + b for a, b in zip(total, cases(test))]
    passed, failed, skipped = total
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    sys.exit(1 if failed or not passed else 0)


if __name__ == "__main__":
    main()
