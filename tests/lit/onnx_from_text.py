#!/usr/bin/env python3
"""onnx_from_text.py IN.onnxtxt OUT.onnx: ONNX's text form (onnx.parser) to a model file.

Lines that begin with // are the test's own (RUN and CHECK lines).
"""
import sys
from pathlib import Path

import onnx.parser

source, target = map(Path, sys.argv[1:])
lines = source.read_text().splitlines()
text = "\n".join(line for line in lines if not line.lstrip().startswith("//"))
target.write_bytes(onnx.parser.parse_model(text).SerializeToString())
