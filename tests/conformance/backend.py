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
                ("is_static", ctypes.c_bool), ("size", ctypes.c_size_t), ("kind", ctypes.c_int),
                ("any_rank", ctypes.c_bool)]


SEQUENCE, OPTIONAL = 1, 2  # bits of tw_value_kind


class Element(ctypes.Structure):
    """tw_element of runtime.h."""
    _fields_ = [("data", ctypes.c_void_p), ("dims", ctypes.POINTER(ctypes.c_int64)),
                ("rank", ctypes.c_uint)]


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

    def __init__(self, lib, path, declared):
        self.lib, self.model, self.declared = lib, ctypes.c_void_p(), declared
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

    def element(self, info, value, keep):
        """The array as a tw_element; what must outlive it goes to `keep`."""
        array = np.asarray(value, order="C")
        if info.elem == TYPES.index(object):
            texts = [t if isinstance(t, bytes) else str(t).encode() for t in array.ravel()]
            data = (ctypes.c_char_p * max(len(texts), 1))(*texts)
        else:
            if array.dtype != TYPES[info.elem]:
                raise TypeError(f"input '{info.name.decode()}' is {array.dtype}")
            data = pack(array, PACKED[info.elem]) if info.elem in PACKED else array
            data = np.require(data, requirements="A")
        keep.append(data)
        pointer = data.ctypes.data if isinstance(data, np.ndarray) else ctypes.addressof(data)
        return Element(pointer, (ctypes.c_int64 * max(array.ndim, 1))(*array.shape), array.ndim)

    def set_input(self, session, i, value, keep):
        info, lib = self.inputs[i], self.lib
        if value is None:
            self.check(lib.tw_session_set_input_absent(session, i))
        elif info.kind & SEQUENCE:
            elements = [self.element(info, v, keep) for v in value]
            self.check(lib.tw_session_set_input_sequence(
                session, i, (Element * max(len(elements), 1))(*elements), len(elements)))
        else:
            e = self.element(info, value, keep)
            self.check(lib.tw_session_set_input_shape(session, i, e.data, e.dims, e.rank))

    def array(self, info, e):
        shape = [e.dims[d] for d in range(e.rank)]
        count = int(np.prod(shape))
        if info.elem == TYPES.index(object):
            texts = ctypes.cast(e.data, ctypes.POINTER(ctypes.c_char_p))
            return np.array([texts[k].decode() for k in range(count)], object).reshape(shape)
        dtype, bits = TYPES[info.elem], PACKED.get(info.elem)
        size = -(-count * bits // 8) if bits else count * np.dtype(dtype).itemsize
        raw = np.frombuffer(ctypes.string_at(e.data, size) if size else b"", np.uint8)
        return unpack(raw, bits, count, dtype).reshape(shape) if bits \
            else raw.view(dtype).reshape(shape)

    def output(self, session, i):
        info, lib = self.outputs[i], self.lib
        if not info.kind:
            return self.array(info, Element(lib.tw_session_output(session, i, None),
                                            lib.tw_session_output_dims(session, i), info.rank))
        values, e = [], Element()
        while lib.tw_session_output_element(session, i, len(values), ctypes.byref(e)):
            values.append(self.array(info, e))
        if lib.tw_session_output_length(session, i) < 0:
            return None
        return values if info.kind & SEQUENCE else values[0]

    def declared_output(self, given, info):
        """A sequence of known length is given as its elements, an optional as what it holds."""
        if info.name in given:
            return given[info.name]
        elements = []
        while f"{info.name}[{len(elements)}]" in given:
            elements.append(given[f"{info.name}[{len(elements)}]"])
        return elements if elements or info.type.HasField("sequence_type") else None

    def run(self, inputs, **kwargs):
        session, keep = ctypes.c_void_p(), []
        self.check(self.lib.tw_session_create(self.model, None, ctypes.byref(session)))
        try:
            if len(inputs) != len(self.inputs):
                raise TypeError(f"{len(inputs)} inputs for {len(self.inputs)}")
            for i, value in enumerate(inputs):
                self.set_input(session, i, value, keep)
            self.check(self.lib.tw_session_run(session))
            given = {info.name.decode(): self.output(session, i)
                     for i, info in enumerate(self.outputs)}
            values = [self.declared_output(given, info) for info in self.declared]
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
        lib.tw_session_set_input_sequence.argtypes = [pointer, index, pointer, index]
        lib.tw_session_set_input_absent.argtypes = [pointer, index]
        lib.tw_session_output_length.restype = ctypes.c_long
        lib.tw_session_output_length.argtypes = [pointer, index]
        lib.tw_session_output_element.restype = ctypes.c_bool
        lib.tw_session_output_element.argtypes = [pointer, index, index, pointer]
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
            return Rep(self.lib, compiled, list(model.graph.output))

    def run_model(self, model, inputs, device="CPU", **kwargs):
        return self.prepare(model, device).run(inputs)

    def is_compatible(self, model, device="CPU", **kwargs):
        return True

    def supports_device(self, device):
        return device == "CPU"
