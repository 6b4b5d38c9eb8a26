"""The engines that compare.py times, each behind the same three methods:

    Engine(model, inputs, threads)    prepares it; inputs is a dict of arrays by name
    run()                             one inference
    outputs()                         of the last run, a dict of arrays by name
"""
import ctypes
import subprocess
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent


class SessionOptions(ctypes.Structure):
    """tw_session_options of runtime.h."""
    _fields_ = [("threads", ctypes.c_uint), ("pool", ctypes.c_void_p), ("profile", ctypes.c_bool),
                ("parallel_for", ctypes.c_void_p), ("parallel_data", ctypes.c_void_p)]


class TensorInfo(ctypes.Structure):
    """tw_tensor_info of runtime.h."""
    _fields_ = [("name", ctypes.c_char_p), ("elem", ctypes.c_int), ("rank", ctypes.c_uint),
                ("dims", ctypes.POINTER(ctypes.c_int64)),
                ("dim_texts", ctypes.POINTER(ctypes.c_char_p)), ("is_static", ctypes.c_bool),
                ("size", ctypes.c_size_t)]


# tw_elem_name -> numpy; what numpy lacks is compared as raw bytes of its width
DTYPES = {"f64": "f8", "f32": "f4", "f16": "f2", "bf16": "u2", "i64": "i8", "i32": "i4",
          "i16": "i2", "i8": "i1", "u64": "u8", "u32": "u4", "u16": "u2", "u8": "u1", "bool": "?"}


class Tilewright:
    name = "tilewright"
    build = ROOT / "build" / "release"
    flags, suffix = (), ""
    library = None

    def __init__(self, model, inputs, threads):
        compiled = self.file = self.compile(model, inputs)
        self.lib = self.load_library()
        self.model, self.session = ctypes.c_void_p(), ctypes.c_void_p()
        self.check(self.lib.tw_model_load(bytes(compiled), None, ctypes.byref(self.model)))
        options = SessionOptions(threads=threads)
        self.check(self.lib.tw_session_create(self.model, ctypes.byref(options),
                                              ctypes.byref(self.session)))
        self.inputs = [np.ascontiguousarray(a) for a in inputs.values()]  # the session points there
        for name, a in zip(inputs, self.inputs):
            dims = (ctypes.c_int64 * max(a.ndim, 1))(*a.shape)
            index = self.lib.tw_model_find_input(self.model, name.encode())
            if index < 0:
                raise RuntimeError(f"no input {name}")
            self.check(self.lib.tw_session_set_input_shape(
                self.session, index, a.ctypes.data_as(ctypes.c_void_p), dims, a.ndim))

    @classmethod
    def compile(cls, model, inputs):
        """The path of the model compiled for the inputs' shapes; for any, where inputs is {}."""
        shapes = [f"{name}={'x'.join(map(str, a.shape))}" for name, a in inputs.items() if a.ndim]
        form = "" if shapes else ".open"
        compiled = ROOT / ".cache" / "bench" / f"{model.stem}{cls.suffix}{form}.tw"
        compiled.parent.mkdir(parents=True, exist_ok=True)
        command = [cls.build / "bin" / "tilewright", "compile", model, "-o", compiled,
                   "--cpu", "host", *(x for shape in shapes for x in ("--shape", shape)),
                   *cls.flags]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr.strip().splitlines()[0] if done.stderr else "failed")
        return compiled

    @classmethod
    def load_library(cls):
        if not cls.library:
            lib = ctypes.CDLL(str(cls.build / "src" / "libtilewright_runtime.so"))
            size, pointer = ctypes.c_size_t, ctypes.c_void_p
            lib.tw_last_error.restype = ctypes.c_char_p
            lib.tw_runtime_elem_name.restype = ctypes.c_char_p
            lib.tw_model_find_input.argtypes = [pointer, ctypes.c_char_p]
            lib.tw_model_find_input.restype = ctypes.c_long
            lib.tw_model_output.argtypes = [pointer, size]
            lib.tw_model_output.restype = ctypes.POINTER(TensorInfo)
            lib.tw_session_set_input_shape.argtypes = [pointer, size, pointer, pointer,
                                                       ctypes.c_uint]
            lib.tw_session_output.argtypes = [pointer, size, ctypes.POINTER(size)]
            lib.tw_session_output.restype = pointer
            lib.tw_session_output_dims.argtypes = [pointer, size]
            lib.tw_session_output_dims.restype = ctypes.POINTER(ctypes.c_int64)
            lib.tw_session_destroy.argtypes = lib.tw_model_free.argtypes = [pointer]
            cls.library = lib
        return cls.library

    def check(self, status):
        if status:
            raise RuntimeError(self.lib.tw_last_error().decode())

    def run(self):
        if self.lib.tw_session_run(self.session):
            raise RuntimeError(self.lib.tw_last_error().decode())

    def outputs(self):
        result, i = {}, 0
        while info := self.lib.tw_model_output(self.model, i):
            size = ctypes.c_size_t()
            data = self.lib.tw_session_output(self.session, i, ctypes.byref(size))
            dims = self.lib.tw_session_output_dims(self.session, i)
            elem = self.lib.tw_runtime_elem_name(info.contents.elem).decode()
            a = np.frombuffer(ctypes.string_at(data, size.value), DTYPES[elem])
            shape = [dims[k] for k in range(info.contents.rank)]
            result[info.contents.name.decode()] = a.reshape(shape)
            i += 1
        return result

    def close(self):
        self.lib.tw_session_destroy(self.session)
        self.lib.tw_model_free(self.model)


class OpenSizes(Tilewright):
    """tilewright's code for any sizes, which is made once a model."""
    name = "open sizes"
    compiled = {}

    @classmethod
    def compile(cls, model, inputs):
        if model not in cls.compiled:
            cls.compiled[model] = super().compile(model, {})
        return cls.compiled[model]


class OnnxRuntime:
    name = "onnxruntime"

    def __init__(self, model, inputs, threads):
        import onnxruntime
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self.session = onnxruntime.InferenceSession(model, options,
                                                    providers=["CPUExecutionProvider"])
        self.names = [o.name for o in self.session.get_outputs()]
        self.inputs = inputs

    def run(self):
        self.result = self.session.run(self.names, self.inputs)

    def outputs(self):
        return dict(zip(self.names, self.result))

    def close(self):
        del self.session


class OpenVino:
    name = "openvino"

    def __init__(self, model, inputs, threads):
        import openvino
        core = openvino.Core()
        network = core.read_model(model)
        network.reshape({name: list(a.shape) for name, a in inputs.items()})
        self.compiled = core.compile_model(network, "CPU", {
            "INFERENCE_NUM_THREADS": threads, "PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": 1,
            "INFERENCE_PRECISION_HINT": "f32"})
        self.request = self.compiled.create_infer_request()
        for name, a in inputs.items():
            self.request.set_tensor(name, openvino.Tensor(np.ascontiguousarray(a),
                                                          shared_memory=True))

    def run(self):
        self.request.infer()

    def outputs(self):
        return {next(iter(port.names)): self.request.get_tensor(port).data
                for port in self.compiled.outputs}

    def close(self):
        del self.request, self.compiled
