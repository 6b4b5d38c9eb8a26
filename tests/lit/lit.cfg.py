# Text in, text out: tests of the printer, the parser, every pass and every lowering.
#
#   %tw         the command tilewright
#   %opt        the command tilewright-opt
#   %FileCheck  FileCheck
#   %onnx       makes a model of ONNX's own text form: RUN: %onnx %s %t.onnx
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

onnx = os.path.join(config.test_source_root, "onnx_from_text.py")
config.substitutions += [
    (r"%tw\b", config.tw_command),
    (r"%opt\b", config.tw_opt_command),
    (r"%FileCheck\b", config.tw_filecheck),
    (r"%onnx\b", f'"{sys.executable}" "{onnx}"'),
    (r"%examples\b", os.path.join(config.tw_build, "examples")),
]
for name in ("ASAN_OPTIONS", "LSAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS"):
    if name in os.environ:
        config.environment[name] = os.environ[name]
