#!/usr/bin/env python3
"""Real models compiled once for all sizes, against onnxruntime at several.

    run_dynamic.py --tilewright COMMAND [--work DIR] [MODEL ...]

Per model and level: the compiled file passes `check` on the reference data, and gives at other sizes
what onnxruntime gives.
"""
import sys
from pathlib import Path

import numpy as np
import onnxruntime

from common import load, run_models

DATA = Path(__file__).resolve().parent / "data"
LEVELS = (0, 3)
# Shapes that all inputs of a model get, or shapes and values by the inputs' names.
SIZES = {
    "basic_pitch_nmp.onnx": [(2, 43844, 1)],
    "ch_PP-OCRv4_det_infer.onnx": [(1, 3, 32, 32), (2, 3, 64, 96), (1, 3, 160, 32)],
    "ch_PP-OCRv4_rec_infer.onnx": [(1, 3, 48, 32), (3, 3, 48, 100)],
    "ch_ppocr_mobile_v2.0_cls_infer.onnx": [(2, 3, 48, 192), (1, 3, 40, 100), (0, 3, 48, 100)],
    "silero_vad.onnx": [{"input": (batch, samples), "state": (2, batch, 128), "sr": np.array(rate)}
                        for batch in (1, 3, 16) for samples, rate in ((576, 16000), (288, 8000))],
    "paraphrase-MiniLM-L3-v2.onnx": [(1, 1), (3, 17), (2, 64), (0, 5), (2, 0)],
}


def random_inputs(session, sizes):
    rng = np.random.default_rng(1)
    inputs = {}
    for i in session.get_inputs():
        shape = sizes[i.name] if isinstance(sizes, dict) else sizes
        inputs[i.name] = (shape if isinstance(shape, np.ndarray)
                          else rng.integers(0, 2, shape) if "int" in i.type
                          else rng.standard_normal(shape, np.float32))
    return inputs


def check_size(tw, session, compiled, shape, work):
    inputs = random_inputs(session, shape)
    np.savez(work / "in.npz", **inputs)
    tw("run", compiled, "--inputs", work / "in.npz", "--outputs", work / "out.npz")
    got = load(work / "out.npz")
    for output, want in zip(session.get_outputs(), session.run(None, inputs)):
        np.testing.assert_allclose(got[output.name], want, rtol=1e-3, atol=1e-4)


def check_model(tw, report, name, model, work):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(model, options)
    for level in LEVELS:
        compiled = work / f"{level}.tw"
        tw("compile", model, "-o", compiled, "-O", level)
        report.case(f"{name} -O {level} check", lambda: tw(
            "check", compiled, "--data", DATA / f"{name}.npz", "--rtol", "1e-3", "--atol", "1e-4")
            .strip().splitlines()[-1])
        for shape in SIZES[name]:
            report.case(f"{name} -O {level} {shape}",
                        lambda shape=shape: check_size(tw, session, compiled, shape, work))


if __name__ == "__main__":
    sys.exit(run_models(__doc__, SIZES, check_model))
