# Text in, text out: tests of the printer, the parser, every pass and every lowering.
#
#   %tw         the command tilewright
#   %opt        the command tilewright-opt
#   %FileCheck  FileCheck
#   %onnx       makes a model of ONNX's own text form: RUN: %onnx %s %t.onnx
#   %python     the interpreter that runs lit
#   %npz        makes arrays: RUN: %npz %t.npz in/x=f4:1,2,3 (see npz.py)
#   %exits      runs a command: RUN: %exits 2 %tw no-such-verb fails unless it exits with 2
#   REQUIRES: image   libtilewright-image.so was built
#   %examples   the plugins built of examples/, as %examples/libNAME.so
import os
import sys

import lit.formats

config.name = "tilewright"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".tw", ".onnxtxt", ".test"]
config.excludes = ["Inputs"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.tw_build, "tests", "lit")


def script(name):
    return f'"{sys.executable}" "{os.path.join(config.test_source_root, name)}"'


config.substitutions += [
    (r"%tw\b", config.tw_command),
    (r"%opt\b", config.tw_opt_command),
    (r"%FileCheck\b", config.tw_filecheck),
    (r"%python\b", f'"{sys.executable}"'),
    (r"%onnx\b", script("onnx_from_text.py")),
    (r"%npz\b", script("npz.py")),
    (r"%exits\b", script("exits.py")),
    (r"%examples\b", os.path.join(config.tw_build, "examples")),
]
if os.path.exists(os.path.join(config.tw_build, "bin", "libtilewright-image.so")):
    config.available_features.add("image")
for name in ("ASAN_OPTIONS", "LSAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS"):
    if name in os.environ:
        config.environment[name] = os.environ[name]
