#!/usr/bin/env python3
"""Arrays for tests.

    npz.py OUT.npz KEY=TYPE:VALUES[@SHAPE] ...   an archive; TYPE is NumPy's (f4, i8, ?)
    npz.py OUT.npy TYPE:VALUES[@SHAPE]           one array; OUT.pb: as ONNX's TensorProto
    npz.py --show IN.npz                         prints a line per array: KEY TYPE SHAPE VALUES

VALUES are separated by commas, one value fills the shape: in/x=f4:1,2,3@1x3
"""
import sys

import numpy as np


def parse(text):
    kind, _, rest = text.partition(":")
    values, _, shape = rest.partition("@")
    array = np.array([float(v) for v in values.split(",") if v]).astype(kind)
    if not shape:
        return array
    dims = [int(d) for d in shape.split("x")]
    return np.full(dims, array[0]) if array.size == 1 else array.reshape(dims)


def show(path):
    with np.load(path) as data:
        for key in data:
            values = " ".join(f"{v:g}" for v in data[key].ravel().astype(float))
            print(key, data[key].dtype.str, "x".join(map(str, data[key].shape)), values)


if sys.argv[1] == "--show":
    show(sys.argv[2])
elif sys.argv[1].endswith(".npy"):
    np.save(sys.argv[1], parse(sys.argv[2]))
elif sys.argv[1].endswith(".pb"):
    import onnx
    onnx.save_tensor(onnx.numpy_helper.from_array(parse(sys.argv[2])), sys.argv[1])
else:
    pairs = (argument.rsplit("=", 1) for argument in sys.argv[2:])
    np.savez(sys.argv[1], **{key: parse(text) for key, text in pairs})
