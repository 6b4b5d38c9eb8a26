#!/usr/bin/env python3
"""onnxruntime_time.py DETECTOR SHAPE RECOGNISER SHAPE: how long onnxruntime takes, for comparison."""
import os
import sys
import time

import numpy as np

try:
    import onnxruntime
except ImportError:
    sys.exit(0)


def best(model, shape, times=5):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = len(os.sched_getaffinity(0))
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    x = np.zeros([int(d) for d in shape.split("x")], np.float32)
    taken = []
    for _ in range(times + 1):
        start = time.perf_counter()
        session.run(None, {session.get_inputs()[0].name: x})
        taken.append(time.perf_counter() - start)
    return min(taken[1:]) * 1e3


print(f"onnxruntime {onnxruntime.__version__}: detector {best(*sys.argv[1:3]):.1f} ms, "
      f"recogniser {best(*sys.argv[3:5]):.1f} ms a line")
