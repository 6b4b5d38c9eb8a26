"""What the runners of whole models share: running the command, comparing, counting."""
import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))


class Report:
    """Prints a line a case and the closing count; the exit status is that of the whole run."""

    def __init__(self):
        self.passed = self.failed = 0

    def case(self, name, run):
        """Runs `run`, which returns what to print beside the name, or raises."""
        start = time.monotonic()
        try:
            note = run()
        except Exception as error:  # whatever goes wrong is this case's failure alone
            self.fail(name, f"{type(error).__name__}: {error}")
        else:
            self.passed += 1
            print(f"ok   {name} ({time.monotonic() - start:.1f} s) {note or ''}", flush=True)

    def fail(self, name, why):
        self.failed += 1
        print(f"FAIL {name}: {why}", flush=True)

    def close(self, skipped=0):
        print(f"{self.passed} passed, {self.failed} failed" + (f", {skipped} skipped" * (skipped > 0)))
        return 1 if self.failed else 0


# A process begins with the peak memory of the one that started it, so a small one starts the command.
LAUNCHER = """
import os, sys
child = os.posix_spawnp(sys.argv[2], sys.argv[2:], os.environ)
_, status, usage = os.wait4(child, 0)
with open(sys.argv[1], "w") as file:
    file.write(f"{os.waitstatus_to_exitcode(status)} {usage.ru_maxrss}")
"""


def measure(command):
    """Exit code, seconds, peak megabytes, and all it said, of a command."""
    with tempfile.TemporaryDirectory() as folder:
        result = os.path.join(folder, "result")
        start = time.monotonic()
        said = subprocess.run([sys.executable, "-S", "-c", LAUNCHER, result, *map(str, command)],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT).stdout.decode(errors="replace")
        seconds = time.monotonic() - start
        with open(result) as file:
            code, kilobytes = map(int, file.read().split())
    return code, seconds, kilobytes / 1024, said


class Tilewright:
    def __init__(self, command, timeout=600):
        self.command = os.fspath(command)
        self.timeout = timeout

    def __call__(self, *args):
        """Runs the command; its standard output, or RuntimeError with what it said."""
        done = subprocess.run([self.command, *map(str, args)], stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=self.timeout, check=False)
        if done.returncode:
            said = (done.stdout + done.stderr).strip()[-2000:]
            raise RuntimeError(f"exit code {done.returncode} of {' '.join(map(str, args))}\n{said}")
        return done.stdout


def relative_error(actual, expected):
    """The largest difference over the largest expected value; exact for what is not float."""
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        raise AssertionError(f"{actual.dtype}{list(actual.shape)} instead of "
                             f"{expected.dtype}{list(expected.shape)}")
    if not np.issubdtype(expected.dtype, np.floating):
        if not np.array_equal(actual, expected):
            raise AssertionError(f"{np.sum(actual != expected)} of {expected.size} differ")
        return 0.0
    if not np.array_equal(np.isfinite(actual), np.isfinite(expected)):
        raise AssertionError("infinities or NaN in different places")
    finite = np.isfinite(expected)
    if not finite.any():
        return 0.0
    a, e = actual[finite].astype(np.float64), expected[finite].astype(np.float64)
    return float(np.abs(a - e).max() / max(np.abs(e).max(), 1e-30))


def compare(actual, expected, limit):
    """Compares outputs by name; a note with the worst error, or AssertionError."""
    if set(actual) != set(expected):
        raise AssertionError(f"outputs {sorted(actual)} instead of {sorted(expected)}")
    worst = 0.0
    for name in expected:
        try:
            error = relative_error(actual[name], expected[name])
        except AssertionError as e:
            raise AssertionError(f"output {name}: {e}") from None
        if error > limit:
            raise AssertionError(f"output {name}: relative error {error:.3g} above {limit:g}")
        worst = max(worst, error)
    return f"error {worst:.2g}"


def run_models(doc, known, check):
    """The whole of a runner of models: calls check(tw, report, name, model, folder for temporary
    files) for those that the command line names, or for all that are known."""
    import fetch_models
    parser = argparse.ArgumentParser(description=doc,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL")
    parser.add_argument("--tilewright", required=True)
    parser.add_argument("--work", type=Path, help="folder for temporary files")
    args = parser.parse_args()
    names = args.models or sorted(known)
    tw, report = Tilewright(args.tilewright), Report()
    if args.work:
        args.work.mkdir(parents=True, exist_ok=True)
    for name, model in zip(names, fetch_models.fetch(names)):
        with tempfile.TemporaryDirectory(dir=args.work) as work:
            check(tw, report, name, model, Path(work))
    return report.close()


def load(path):
    with np.load(path) as data:
        return dict(data)
