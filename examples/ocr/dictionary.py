#!/usr/bin/env python3
"""dictionary.py RECOGNISER.onnx OUT.txt: the characters that PP-OCR's recogniser tells apart, a
line each, which its file holds as metadata."""
import sys
from pathlib import Path

import onnx

model = onnx.load(sys.argv[1], load_external_data=False)
(characters,) = [p.value for p in model.metadata_props if p.key == "character"]
Path(sys.argv[2]).write_text(characters.rstrip("\n") + "\n", encoding="utf-8")
