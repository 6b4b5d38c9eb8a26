"""tilewright as a backend of the onnx package (onnx.backend.base), for ONNX's own test runner.

    BACKEND = Backend(command, runtime)
    BACKEND.prepare(model).run([x, y])

A model is compiled by the command once, with its symbolic sizes, and run by the runtime library.
"""
import ctypes
import subprocess
import tempfile
import weakref
from collections import namedtuple
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
from onnx.backend.base import Backend as Base
from onnx.backend.base import BackendRep

# By number of tw_elem; None: no NumPy type.
TYPES = [np.float64, np.float32, np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn,
         ml_dtypes.float8_e5m2, np.int64, np.int32, np.int16, np.int8, np.uint64, np.uint32,
         np.uint16, np.uint8, ml_dtypes.int4, ml_dtypes.uint4, np.bool_, object, None,
         ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2fnuz, ml_dtypes.float8_e8m0fnu,
         ml_dtypes.float4_e2m1fn, ml_dtypes.int2, ml_dtypes.uint2]
PACKED = {14: 4, 15: 4, 22: 4, 23: 2, 24: 2}  # bits of those that share a byte


class Info(ctypes.Structure):
    """tw_tensor_info of runtime.h."""
    _fields_ = [("name", ctypes.c_char_p), ("elem", ctypes.c_int), ("rank", ctypes.c_uint),
                ("dims", ctypes.POINTER(ctypes.c_int64)), ("texts", ctypes.c_void_p),
                ("is_static", ctypes.c_bool), ("size", ctypes.c_size_t)]


def pack(array, bits):
    """Elements of fewer than 8 bits, the first one lowest."""
    per = 8 // bits
    values = array.ravel().view(np.uint8) & ((1 << bits) - 1)
    values = np.pad(values, (0, -values.size % per)).reshape(-1, per)
    return np.bitwise_or.reduce(values << (np.arange(per, dtype=np.uint8) * bits), axis=1)


def unpack(data, bits, count, dtype):
    shifts = np.arange(8 // bits, dtype=np.uint8) * bits
    values = (data[:, None] >> shifts & ((1 << bits) - 1)).ravel()[:count].astype(np.uint8)
    if np.issubdtype(dtype, np.signedinteger) or dtype in (ml_dtypes.int4, ml_dtypes.int2):
        values = (values ^ (1 << bits - 1)).astype(np.int8) - (1 << bits - 1)
        return values.astype(dtype)
    return values.view(dtype) if dtype is ml_dtypes.float4_e2m1fn else values.astype(dtype)


class Rep(BackendRep):
    """A compiled model, loaded."""

    def __init__(self, lib, path):
        self.lib, self.model = lib, ctypes.c_void_p()
        self.check(lib.tw_model_load(str(path).encode(), None, ctypes.byref(self.model)))
        weakref.finalize(self, lib.tw_model_free, self.model)
        self.inputs, self.outputs = self.tensors("input"), self.tensors("output")

    def tensors(self, what):
        at, found = getattr(self.lib, f"tw_model_{what}"), []
        while info := at(self.model, len(found)):
            found.append(info.contents)
        return found

    def check(self, status):
        if status:
            raise RuntimeError(self.lib.tw_last_error().decode())

    def set_input(self, session, i, value, keep):
        info = self.inputs[i]
        array = np.asarray(value, order="C")
        if info.elem == TYPES.index(object):
            texts = [t if isinstance(t, bytes) else str(t).encode() for t in array.ravel()]
            data = (ctypes.c_char_p * max(len(texts), 1))(*texts)
            size = 8 * len(texts)
        else:
            if array.dtype != TYPES[info.elem]:
                raise TypeError(f"input '{info.name.decode()}' is {array.dtype}")
            data = pack(array, PACKED[info.elem]) if info.elem in PACKED else array
            size, data = data.nbytes, np.require(data, requirements="A")
        keep.append(data)
        pointer = data.ctypes.data_as(ctypes.c_void_p) if isinstance(data, np.ndarray) else data
        dims = (ctypes.c_int64 * max(array.ndim, 1))(*array.shape)
        assert info.elem in PACKED or size == array.nbytes
        self.check(self.lib.tw_session_set_input_shape(session, i, pointer, dims, array.ndim))

    def output(self, session, i):
        info, size = self.outputs[i], ctypes.c_size_t()
        data = self.lib.tw_session_output(session, i, ctypes.byref(size))
        dims = self.lib.tw_session_output_dims(session, i)
        shape = [dims[d] for d in range(info.rank)]
        if info.elem == TYPES.index(object):
            texts = ctypes.cast(data, ctypes.POINTER(ctypes.c_char_p))
            texts = [texts[k].decode() for k in range(size.value // 8)]
            return np.array(texts, object).reshape(shape)
        raw = np.frombuffer(ctypes.string_at(data, size.value) if size.value else b"", np.uint8)
        dtype = TYPES[info.elem]
        if info.elem in PACKED:
            count = int(np.prod(shape))
            return unpack(raw, PACKED[info.elem], count, dtype).reshape(shape)
        return raw.view(dtype).reshape(shape)

    def run(self, inputs, **kwargs):
        session, keep = ctypes.c_void_p(), []
        self.check(self.lib.tw_session_create(self.model, None, ctypes.byref(session)))
        try:
            if len(inputs) != len(self.inputs):
                raise TypeError(f"{len(inputs)} inputs for {len(self.inputs)}")
            for i, value in enumerate(inputs):
                self.set_input(session, i, value, keep)
            self.check(self.lib.tw_session_run(session))
            values = [self.output(session, i) for i in range(len(self.outputs))]
        finally:
            self.lib.tw_session_destroy(session)
        names = [f"output_{i}" for i in range(len(values))]
        return namedtuple("Outputs", names)(*values)


class Backend(Base):
    """Both are paths: of the command, and of libtilewright_runtime.so."""

    def __init__(self, command, runtime, level=3):
        self.command, self.level = Path(command), level
        self.lib = lib = ctypes.CDLL(str(runtime))
        pointer, index = ctypes.c_void_p, ctypes.c_size_t
        lib.tw_last_error.restype = ctypes.c_char_p
        for what in ("input", "output"):
            function = getattr(lib, f"tw_model_{what}")
            function.restype, function.argtypes = ctypes.POINTER(Info), [pointer, index]
        lib.tw_model_free.argtypes = lib.tw_session_destroy.argtypes = [pointer]
        lib.tw_session_create.argtypes = [pointer, pointer, pointer]
        lib.tw_session_run.argtypes = [pointer]
        lib.tw_session_set_input_shape.argtypes = [pointer, index, pointer, pointer, ctypes.c_uint]
        lib.tw_session_output.restype = pointer
        lib.tw_session_output.argtypes = [pointer, index, pointer]
        lib.tw_session_output_dims.restype = ctypes.POINTER(ctypes.c_int64)
        lib.tw_session_output_dims.argtypes = [pointer, index]

    def prepare(self, model, device="CPU", **kwargs):
        with tempfile.TemporaryDirectory() as folder:
            source, compiled = Path(folder) / "model.onnx", Path(folder) / "model.tw"
            onnx.save(model, source)
            done = subprocess.run([self.command, "compile", source, "-o", compiled,
                                   "-O", str(self.level)], capture_output=True, text=True,
                                  check=False)
            if done.returncode:
                raise RuntimeError(done.stderr.strip())
            return Rep(self.lib, compiled)

    def run_model(self, model, inputs, device="CPU", **kwargs):
        return self.prepare(model, device).run(inputs)

    def is_compatible(self, model, device="CPU", **kwargs):
        return True

    def supports_device(self, device):
        return device == "CPU"
