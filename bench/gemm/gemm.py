#!/usr/bin/env python3
"""Matrix products of tilewright beside those of OpenBLAS, BLIS and oneDNN.

    bench/gemm/gemm.py [--isa avx512|avx2] [--threads N] [--type f32|bf16|f16|u8i8] [--rounds N]
                       [--transpose ab] [--constant] [--build DIR] [--json FILE] [SHAPE ...]

SHAPE is MxNxK or BxMxNxK; default: squares, and shapes of networks. Every library runs in a
process of its own, since what instructions it may use is told by its environment; the processes
measure by turns, a few milliseconds each, and the best time counts. All operands are inputs at run
time; with --constant tilewright has B packed while compiling, too ("packed"). Printed for each
shape: GFLOP/s of each, tilewright's fraction of the peak of multiply-adds (measured in the same
turns), its rate over the best library's, and its time over the floor, which is the larger of
operations over peak and bytes over the bandwidth at which memory of that size is read.

The libraries come from PyPI and Debian's packages, into .cache/gemm.
"""
import argparse
import ctypes
import functools
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
CACHE = ROOT / ".cache" / "gemm"
LIBS = CACHE / "libs"
PACKAGES = ["onednn", "onednn-devel", "scipy-openblas32"]
# The newest oneDNN runs in SYCL queues, which small products wait for; the last one with OpenMP
# does not.
LIBS_OPENMP = CACHE / "libs-openmp"
PACKAGES_OPENMP = ["onednn-cpu-gomp"]
BLIS = "libblis4-pthread"

SHAPES = ["64x64x64", "128x128x128", "256x256x256", "512x512x512", "1024x1024x1024",
          "2048x2048x2048", "3136x64x64", "196x256x1152", "128x768x3072", "1x1000x2048",
          "784x512x4608", "12x128x128x64"]
TURN = 0.04   # seconds an engine has before the next one's turn
PAUSE = 0.01  # lets threads that wait busily go to sleep

# of C's element, A's and B's: oneDNN's data type, ONNX's, bytes
TYPES = {"f32": [(3, 1, 4)] * 3, "bf16": [(2, 16, 2)] * 3, "f16": [(1, 10, 2)] * 3,
         "u8i8": [(4, 6, 4), (6, 2, 1), (5, 3, 1)]}
# BLIS 0.9 takes numbers: 0 is skx, 3 haswell
ENVIRONMENT = {"avx512": {"OPENBLAS_CORETYPE": "SkylakeX", "BLIS_ARCH_TYPE": "0"},
               "avx2": {"OPENBLAS_CORETYPE": "Haswell", "BLIS_ARCH_TYPE": "3",
                        "ONEDNN_MAX_CPU_ISA": "AVX2"}}
CPUS = {"avx512": "host", "avx2": "haswell"}


# ---- Libraries ----------------------------------------------------------------------------------

def build(name, flags=()):
    """Compiles bench/gemm/NAME.c."""
    source, out = HERE / f"{name}.c", CACHE / f"{name}.so"
    if not out.exists() or out.stat().st_mtime < source.stat().st_mtime:
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-Wall", source, "-o", out, *flags],
                       check=True)


def shared_object(name):
    return ctypes.CDLL(str(CACHE / f"{name}.so"))


def install():
    CACHE.mkdir(parents=True, exist_ok=True)
    for libs, packages in (LIBS, PACKAGES), (LIBS_OPENMP, PACKAGES_OPENMP):
        if not (libs / "lib" / "libdnnl.so.3").exists():
            subprocess.run([sys.executable, "-m", "venv", libs], check=True)
            subprocess.run([libs / "bin" / "pip", "install", "-q", *packages], check=True)
    if not (CACHE / "blis").exists():
        subprocess.run(["apt-get", "download", "-q", BLIS], cwd=CACHE, check=True)
        subprocess.run(["dpkg", "-x", next(CACHE.glob(f"{BLIS}_*.deb")), CACHE / "blis"],
                       check=True)
    build("timing")
    build("blas")
    build("onednn", [f"-I{LIBS}/include", f"-L{LIBS}/lib", "-ldnnl", "-Wl,--allow-shlib-undefined"])


def address(function):
    return ctypes.cast(function, ctypes.c_void_p)


def pointer(array):
    return array.ctypes.data_as(ctypes.c_void_p)


class Blas:
    """A library with cblas_sgemm."""

    def __init__(self, path, symbol):
        self.sgemm = getattr(ctypes.CDLL(str(path)), symbol)
        self.lib = shared_object("blas")
        self.lib.blas_create.restype = ctypes.c_void_p

    def prepare(self, case, a, b, c):
        batch, m, n, k = case["shape"]
        state = self.lib.blas_create(address(self.sgemm), batch, m, n, k, *case["transposed"],
                                     pointer(a), pointer(b), pointer(c))
        return address(self.lib.blas_run), ctypes.c_void_p(state)


def openblas():
    path = next(LIBS.glob("lib/python*/site-packages/scipy_openblas32/lib/libscipy_openblas.so"))
    return Blas(path, "scipy_cblas_sgemm")


def blis():
    return Blas(next(CACHE.glob("blis/usr/lib/*/blis-pthread/libblis.so.4")), "cblas_sgemm")


class OneDnn:
    def __init__(self):
        self.lib = shared_object("onednn")
        self.lib.onednn_create.restype = ctypes.c_void_p

    def prepare(self, case, a, b, c):
        batch, m, n, k = case["shape"]
        types = [t[0] for t in TYPES[case["type"]]]
        state = self.lib.onednn_create(batch, m, n, k, *case["transposed"], types[1], types[2],
                                       types[0], pointer(a), pointer(b), pointer(c))
        return address(self.lib.onednn_run), ctypes.c_void_p(state) if state else None


class Tilewright:
    """The product as a model; its B a constant or an input."""

    def __init__(self, constant=False):
        sys.path.insert(0, str(HERE.parent))
        import engines
        self.engines, self.constant = engines, constant

    def model(self, case, b):
        from onnx import TensorProto, helper, numpy_helper, save
        batch, m, n, k = case["shape"]
        ta, tb = case["transposed"]
        types = [t[1] for t in TYPES[case["type"]]]
        lead = [batch] if batch > 1 else []
        dims_a, dims_b = [k, m] if ta else [m, k], [n, k] if tb else [k, n]
        swap = [*range(len(lead)), len(lead) + 1, len(lead)]
        nodes, names = [], ["a", "b"]
        for i, transposed in enumerate((ta, tb)):
            if transposed:
                nodes.append(helper.make_node("Transpose", names[i:i + 1], [names[i] + "t"],
                                              perm=swap))
                names[i] += "t"
        kind = "MatMulInteger" if case["type"] == "u8i8" else "MatMul"
        nodes.append(helper.make_node(kind, names, ["c"]))
        inputs = [helper.make_tensor_value_info("a", types[1], lead + dims_a)]
        constants = []
        if self.constant:
            raw = helper.make_tensor("b", types[2], lead + dims_b, b.tobytes(), raw=True)
            constants = [raw]
        else:
            inputs.append(helper.make_tensor_value_info("b", types[2], lead + dims_b))
        graph = helper.make_graph(
            nodes, "product", inputs,
            [helper.make_tensor_value_info("c", types[0], lead + [m, n])], constants)
        path = CACHE / f"product{'-constant' if self.constant else ''}.onnx"
        save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
             path)
        return path

    def prepare(self, case, a, b, c):
        engine = self.engines.Tilewright
        engine.build = Path(case["build"])
        compiled = self.model(case, b).with_suffix(".tw")
        subprocess.run([engine.build / "bin" / "tilewright", "compile",
                        compiled.with_suffix(".onnx"), "-o", compiled, "--cpu", case["cpu"]],
                       check=True)
        engine.file = compiled
        lib = engine.load_library()
        model, session = ctypes.c_void_p(), ctypes.c_void_p()
        options = self.engines.SessionOptions(threads=case["threads"])
        check = functools.partial(engine.check, self)
        self.lib = lib
        check(lib.tw_model_load(bytes(compiled), None, ctypes.byref(model)))
        check(lib.tw_session_create(model, ctypes.byref(options), ctypes.byref(session)))
        for i, x in enumerate([a] if self.constant else [a, b]):
            check(lib.tw_session_set_input(session, ctypes.c_size_t(i), pointer(x),
                                           ctypes.c_size_t(x.nbytes)))
        self.session, self.c = session, c
        return address(lib.tw_session_run), session

    def fetch(self):
        size = ctypes.c_size_t()
        data = self.lib.tw_session_output(self.session, 0, ctypes.byref(size))
        ctypes.memmove(pointer(self.c), data, size.value)


class Machine:
    """What the core can do: no library, but measured in turns with them."""

    def prepare(self, case, a, b, c):
        self.bits = 512 if case["isa"] == "avx512" else 256
        self.data = np.ones(a.nbytes + b.nbytes + c.nbytes + 4096, np.uint8)
        self.bytes = a.nbytes + b.nbytes + c.nbytes


ENGINES = {"machine": Machine, "tilewright": Tilewright,
           "packed": functools.partial(Tilewright, constant=True),
           "openblas": openblas, "blis": blis, "onednn": OneDnn, "onednn-omp": OneDnn}
LIBRARIES = {"f32": ["openblas", "blis", "onednn", "onednn-omp"]}


# ---- The processes that measure -----------------------------------------------------------------

def operands(case):
    """Equal ones in all processes; what is multiplied are small integers, so that results are."""
    batch, m, n, k = case["shape"]
    rng = np.random.default_rng(0)
    sizes = [batch * m * n, batch * m * k, batch * k * n]
    out = []
    for i, size in enumerate(sizes):
        width = TYPES[case["type"]][i][2]
        values = rng.integers(0 if i < 2 else -2, 3, size) if i else np.zeros(size)
        if case["type"] == "u8i8":
            x = values.astype("i4" if i == 0 else "u1" if i == 1 else "i1")
        elif case["type"] == "bf16":
            x = (values.astype("f4").view("u4") >> 16).astype("u2")
        else:
            x = values.astype(f"f{width}")
        whole = np.zeros(x.nbytes + 64, np.uint8)
        start = -whole.ctypes.data % 64
        aligned = whole[start:start + x.nbytes].view(x.dtype)
        aligned[:] = x
        out.append(aligned)
    return out


def work(name):
    """Reads cases and turns from the standard input, a line of JSON each."""
    timing = shared_object("timing")
    timing.best.restype = timing.peak.restype = timing.bandwidth.restype = ctypes.c_double
    engine, held = ENGINES[name](), None
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        case = json.loads(line)
        if case:
            threads = case["threads"]
            c, a, b = operands(case)
            held = engine.prepare(case, a, b, c)
            answer = held is None or held[1] is not None
            if answer and held:
                ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(held[0].value)(held[1])
                if hasattr(engine, "fetch"):
                    engine.fetch()
                answer = int(np.frombuffer(c.tobytes(), "u1").astype("u8").dot(
                    np.arange(c.nbytes, dtype="u8") % 251))
        elif held:
            answer = timing.best(*held, threads, ctypes.c_double(TURN))
        else:
            data = engine.data.ctypes.data
            answer = [timing.peak(engine.bits, ctypes.c_double(TURN / 8)),
                      timing.bandwidth(ctypes.c_void_p(data + -data % 64),
                                       ctypes.c_size_t(engine.bytes), ctypes.c_double(TURN / 8))]
        print(json.dumps(answer), file=out, flush=True)


class Worker:
    def __init__(self, name, isa, threads):
        counts = {v: str(threads) for v in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS",
                                            "BLIS_NUM_THREADS")}
        path = {"onednn": {"LD_LIBRARY_PATH": f"{LIBS}/lib",
                           "OCL_ICD_FILENAMES": f"{LIBS}/lib/libintelocl.so"},
                "onednn-omp": {"LD_LIBRARY_PATH": f"{LIBS_OPENMP}/lib"}}.get(name, {})
        command = [sys.executable, __file__, "--work", name]
        if threads < (os.cpu_count() or 1) and name == "onednn":  # TBB counts processors
            command[:0] = ["taskset", "-c", ",".join(map(str, range(threads)))]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            env={**os.environ, **counts, **ENVIRONMENT[isa], **path})

    def ask(self, case=None):
        print(json.dumps(case), file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError("a process that measures ended")
        return json.loads(line)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


# ---- The table ----------------------------------------------------------------------------------

def measure(workers, case, rounds):
    """Best seconds by name; of the machine its operations and bytes a second."""
    checks = {name: w.ask(case) for name, w in workers.items()}
    fine = {name: w for name, w in workers.items() if checks[name] is not False}
    sums = {checks[n] for n in fine if n != "machine"}
    if len(sums) > 1:
        raise RuntimeError(f"results differ: {checks}")
    times = {}
    for _ in range(rounds):
        for name, w in fine.items():
            t = w.ask()
            if name == "machine":
                times[name] = [max(x) for x in zip(t, times.get(name, t))]
            else:
                times[name] = min(t, times.get(name, t))
            time.sleep(PAUSE)
    return times


def report(case, times, names):
    batch, m, n, k = case["shape"]
    sizes = [t[2] for t in TYPES[case["type"]]]
    flops = 2.0 * batch * m * n * k
    moved = batch * (m * n * sizes[0] + m * k * sizes[1] + k * n * sizes[2])
    peak, bandwidth = times["machine"]
    peak *= case["threads"]
    floor = max(flops / peak, moved / bandwidth / case["threads"])
    ours = times["tilewright"]
    rivals = [times[name] for name in names[1:]
              if name in times and name not in ("tilewright", "packed")]
    cells = [f"{flops / times[name] / 1e9:11.1f}" if name in times else f"{'-':>11}"
             for name in names if name != "machine"]
    ratio = min(rivals) / ours if rivals else float("nan")
    print(f"{case['name']:17}" + "".join(cells) + f"{flops / ours / peak:8.2f}{ratio:9.2f}"
          f"{flops / peak * 1e6:11.1f}{moved / bandwidth / case['threads'] * 1e6:11.1f}"
          f"{ours / floor:8.2f}", flush=True)
    return {"shape": case["name"], "seconds": times, "ratio": ratio, "peak": peak}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shapes", nargs="*", metavar="SHAPE")
    parser.add_argument("--isa", choices=CPUS, default="avx512")
    parser.add_argument("--cpu", help="for tilewright")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--type", choices=TYPES, default="f32")
    parser.add_argument("--transpose", default="", help="a, b or ab")
    parser.add_argument("--constant", action="store_true")
    parser.add_argument("--alone", action="store_true", help="no libraries")
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--build", type=Path, default=ROOT / "build" / "release")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--work", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.work:
        work(args.work)
        return
    install()
    names = ["machine", "tilewright"] + ["packed"] * args.constant
    if not args.alone:
        names += LIBRARIES.get(args.type, ["onednn", "onednn-omp"])
    workers = {name: Worker(name, args.isa, args.threads) for name in names}
    print(f"{args.type + ', ' + args.isa:17}" + "".join(f"{n:>11}" for n in names[1:])
          + " of peak   ratio  us of ops us of bytes  / floor")
    results = []
    for name in args.shapes or SHAPES:
        shape = [int(x) for x in name.split("x")]
        case = {"name": name, "shape": [1] * (4 - len(shape)) + shape, "isa": args.isa,
                "type": args.type, "threads": args.threads, "build": str(args.build.resolve()),
                "transposed": ["a" in args.transpose, "b" in args.transpose],
                "cpu": args.cpu or CPUS[args.isa]}
        results.append(report(case, measure(workers, case, args.rounds), names))
    for w in workers.values():
        w.close()
    if args.json:
        args.json.write_text(json.dumps(results, indent=1) + "\n")


if __name__ == "__main__":
    main()
