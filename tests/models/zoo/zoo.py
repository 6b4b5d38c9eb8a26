#!/usr/bin/env python3
"""Well-known networks without their weights, and the filling of them.

    zoo.py fill OUT_DIR [NAME ...]      writes OUT_DIR/NAME.onnx and OUT_DIR/NAME.npz (inputs)
    zoo.py strip MODEL.onnx SKELETON    makes a skeleton

skeletons/ holds ONNX graphs whose large weights are left out. `fill` draws them from a seeded
normal distribution with the mean, spread and range that the network was initialised with, so that
activations stay in a sane range and every machine gets the same bytes. Neither speed nor rounding
depends on training. Needs onnx and numpy alone.
"""
import sys
import zlib
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

SKELETONS = Path(__file__).resolve().parent / "skeletons"
KEEP_ELEMENTS = 512  # initializers up to this size stay, as do all that are not float32
MASK_LIMIT = 1e6     # a larger value marks an attention mask, which stays too


def names():
    return sorted(path.stem for path in SKELETONS.glob("*.onnx"))


def strip(source, target):
    """Replaces the large weights of a model by a note of their distribution."""
    model = onnx.load(source)
    graph = model.graph
    del graph.value_info[:]
    for part in (model, graph, *graph.node, *graph.initializer, *graph.input, *graph.output):
        part.ClearField("metadata_props")
        part.doc_string = ""
    for tensor in graph.initializer:
        if tensor.data_type != TensorProto.FLOAT or np.prod(tensor.dims) <= KEEP_ELEMENTS:
            continue
        a = numpy_helper.to_array(tensor).astype(np.float64)
        if np.abs(a).max() > MASK_LIMIT:
            continue
        tensor.doc_string = "random %.9g %.9g %.9g %.9g" % (a.mean(), a.std(), a.min(), a.max())
        tensor.ClearField("raw_data")
        tensor.ClearField("float_data")
    onnx.save(model, target)


def random_weight(tensor):
    mean, std, low, high = map(float, tensor.doc_string.split()[1:])
    rng = np.random.default_rng(zlib.crc32(tensor.name.encode()))
    a = rng.standard_normal(tuple(tensor.dims), dtype=np.float32) * std + mean
    return np.clip(a, low, high).astype(np.float32)


def random_inputs(graph):
    rng = np.random.default_rng(1)
    inputs = {}
    for value in graph.input:
        shape = [d.dim_value for d in value.type.tensor_type.shape.dim]
        if value.type.tensor_type.elem_type == TensorProto.FLOAT:
            inputs[value.name] = rng.standard_normal(shape, dtype=np.float32)
        elif "mask" in value.name:
            inputs[value.name] = np.ones(shape, np.int64)
        else:  # tokens; every vocabulary here is larger
            inputs[value.name] = rng.integers(0, 30000, shape, dtype=np.int64)
    return inputs


def fill(name, folder):
    """Writes the network `name` with weights, and inputs for it; returns the model's path."""
    model = onnx.load(SKELETONS / f"{name}.onnx")
    for tensor in model.graph.initializer:
        if tensor.doc_string.startswith("random "):
            tensor.raw_data = random_weight(tensor).tobytes()
            tensor.doc_string = ""
    path = Path(folder) / f"{name}.onnx"
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, path)
    np.savez(path.with_suffix(".npz"), **random_inputs(model.graph))
    return path


def main(args):
    if len(args) == 3 and args[0] == "strip":
        strip(args[1], args[2])
    elif len(args) >= 2 and args[0] == "fill":
        for name in args[2:] or names():
            print(fill(name, args[1]))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
