"""Builds a graph node by node, with every value known as soon as its node is added.

Each node is run at once by onnxruntime: what it refuses, and what leaves the range of sane values,
is not added. So operators choose operands by what these really hold."""
import random

import numpy as np
import reference
from graph import Graph, Node

F16, F32, F64 = np.dtype("float16"), np.dtype("float32"), np.dtype("float64")
I8, U8, I32, I64 = (np.dtype(t) for t in ("int8", "uint8", "int32", "int64"))
I16, U16, U32, U64 = (np.dtype(t) for t in ("int16", "uint16", "uint32", "uint64"))
RARE = (I16, U16, U32, U64)
BOOL = np.dtype("bool")
FLOATS = (F32, F32, F32, F32, F64, F16)
INTS = (I64, I32, I8, U8)
LIMITS = {F16: 300, F32: 1e4, F64: 1e4}  # magnitudes beyond which a value is dropped
DIMS = (1, 1, 2, 2, 3, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17, 31, 32, 33)
RANKS = (0, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 6, 7)


class Refused(Exception):
    """This node cannot be: another one is tried."""


class Value:
    def __init__(self, name, array):
        self.name, self.array = name, array
        self.uses = 0

    dtype = property(lambda self: self.array.dtype)
    shape = property(lambda self: self.array.shape)
    rank = property(lambda self: self.array.ndim)
    size = property(lambda self: self.array.size)


class Builder:
    def __init__(self, seed, opset):
        self.random = random.Random(seed)
        self.numpy = np.random.default_rng(seed)
        self.graph = Graph(opset)
        self.opset = opset
        self.pool = []
        self.large = self.random.random() < 0.1  # few operators on much data
        self.limit = 60000 if self.large else 6000  # elements of a value
        self.zero = self.random.choice((0, 0, 0, 0.01, 0.1))  # chance of a size of zero
        self.special = self.random.random() < 0.1  # infinities and NaN among the data
        self.wide = self.random.random() < 0.1  # integers of their types' whole ranges
        self.images = self.random.random() < 0.25  # mostly batches of channels of images
        self.exact = self.random.random() < 0.25  # a graph of exact values
        self.floats = self.random.choice((FLOATS, (F32,), (F32,), (F64,), (F32, F16)))
        self._names = 0

    # ---- Chance ----

    def chance(self, probability):
        return self.random.random() < probability

    def choice(self, items):
        return self.random.choice(items)

    def int(self, low, high):
        return self.random.randint(low, high)

    def shape(self, rank=None, limit=None, zero=None):
        if rank is None:
            rank = 4 if self.images and self.chance(0.7) else self.choice(RANKS)
        dims = [self.choice(DIMS) for _ in range(rank)]
        if self.images and rank == 4:
            dims[:2] = self.choice((1, 1, 2)), self.choice((3, 8, 16, 16, 20, 24, 32, 64))
        if self.large and rank > 1:
            dims[-1] = self.choice((64, 65, 100, 128, 130))
            dims[-2] = self.choice(DIMS + (28, 56, 64, 100))
        while np.prod(dims, dtype=np.int64) > (limit or self.limit // 4):
            largest = dims.index(max(dims))
            dims[largest] = max(1, dims[largest] // 2)
        if rank and self.chance(self.zero if zero is None else zero):
            dims[self.int(0, rank - 1)] = 0
        return tuple(dims)

    def axis(self, value):
        """A random axis, at times counted from the end."""
        if not value.rank:
            raise Refused
        return self.int(-value.rank, value.rank - 1)

    def axes(self, value, least=1):
        rank = value.rank
        if rank < least:
            raise Refused
        chosen = self.random.sample(range(rank), self.int(least, rank))
        if self.chance(0.7):
            chosen.sort()
        return [a - rank if self.chance(0.3) else a for a in chosen]

    # ---- Values ----

    def name(self, prefix):
        self._names += 1
        return f"{prefix}{self._names}"

    def data(self, dtype, shape, low=None, high=None):
        if dtype == BOOL:
            return self.numpy.integers(0, 2, shape).astype(BOOL)
        if dtype.kind in "iu" and low is None and self.wide and self.chance(0.7):
            info = np.iinfo(dtype)
            array = self.numpy.integers(info.min, info.max, shape, dtype, endpoint=True)
            if array.size and self.chance(0.5):
                array.flat[self.int(0, array.size - 1)] = self.choice((info.min, info.max))
            return array
        if dtype.kind in "iu":
            low, high = low if low is not None else -20, high if high is not None else 20
            if dtype.kind == "u":
                low = max(low, 0)
            return self.numpy.integers(low, high, shape, endpoint=True).astype(dtype)
        low, high = low if low is not None else -2, high if high is not None else 2
        if self.exact and low < high - 1:
            return (self.numpy.integers(low * 4, high * 4, shape, endpoint=True) / 4).astype(dtype)
        array = np.asarray(self.numpy.uniform(low, high, shape)).astype(dtype)
        if self.special and array.size and self.chance(0.5):
            for value in (np.nan, np.inf, -np.inf, -0.0, 0.0):
                if self.chance(0.4):
                    array.flat[self.int(0, array.size - 1)] = value
        return array

    def _add(self, name, array, arrays):
        array = np.ascontiguousarray(array).reshape(np.shape(array))
        arrays[name] = self.graph.values[name] = array
        return Value(name, array)

    def constant(self, array):
        """A parameter: axes, a shape, a scale."""
        return self._add(self.name("c"), np.asarray(array), self.graph.constants)

    def parameter_input(self, array):
        """The same as an input."""
        return self._add(self.name("c"), array, self.graph.inputs)

    def ints(self, values):
        return self.constant(np.array(values, np.int64))

    def weight(self, dtype, shape, low=None, high=None):
        name = self.name("e" if self.exact else "w")
        return self._add(name, self.data(dtype, shape, low, high), self.graph.constants)

    def input(self, dtype, shape, low=None, high=None):
        name = self.name("e" if self.exact else "x")
        return self._add(name, self.data(dtype, shape, low, high), self.graph.inputs)

    def fresh(self, dtype, shape, low=None, high=None):
        """An input or a constant, offered to later nodes, too."""
        make = self.weight if self.chance(0.3) else self.input
        value = make(dtype, shape, low, high)
        self.pool.append(value)
        return value

    def floating(self):
        return self.choice(self.floats)

    def pick(self, dtypes=None, test=None, fresh=0.1, rank=None):
        """An existing value, more often a late or unused one; or a new input."""
        if dtypes is None:
            dtypes = (self.floating(),) if self.chance(0.8) else (
                self.choice(INTS + (BOOL, self.choice(RARE))),)
        found = [v for v in self.pool if v.dtype in dtypes and (rank is None or v.rank == rank)
                 and (test is None or test(v))]
        if not found or self.chance(fresh):
            for _ in range(10):
                shape = self.shape(rank)
                value = Value("", np.empty(shape, self.choice(dtypes)))
                if test is None or test(value):
                    return self.fresh(value.dtype, shape)
            if not found:
                raise Refused
        weights = [(4 if not v.uses else 1) * (1 + 3 * i / len(found))
                   * (5 if self.images and v.rank == 4 else 1) for i, v in enumerate(found)]
        value = self.random.choices(found, weights)[0]
        value.uses += 1
        return value

    def fitted(self, dtype, shape, low=None, high=None):
        """A value of this very shape: an existing one, perhaps brought into it, or a new one."""
        shape = tuple(shape)
        same = [v for v in self.pool if v.dtype == dtype and v.shape == shape and low is None]
        if same and self.chance(0.8):
            return self.choice(same)
        size = int(np.prod(shape))
        others = [v for v in self.pool if v.dtype == dtype and v.size and low is None]
        if size and others and self.chance(0.4):
            value = self.choice(others)
            if value.size != size:
                flat = self.emit("Reshape", [value, self.ints([-1])])
                value = self.emit("Gather", [flat, self.ints(np.arange(size) % flat.size)])
            return self.emit("Reshape", [value, self.ints(shape)])
        return self.fresh(dtype, shape, low, high)

    def partner(self, value, dtype=None):
        """A second operand that can be broadcast with the first."""
        dtype = dtype or value.dtype
        if self.chance(0.08) and dtype == value.dtype:
            return value
        def fits(other):
            try:
                shape = np.broadcast_shapes(value.shape, other.shape)
            except ValueError:
                return False
            return np.prod(shape, dtype=np.int64) <= self.limit
        found = [v for v in self.pool if v.dtype == dtype and v is not value and fits(v)]
        if found and self.chance(0.6):
            return self.choice(found)
        shape = [1 if self.chance(0.25) else d for d in value.shape]
        return self.fresh(dtype, shape[self.int(0, len(shape)) if self.chance(0.3) else 0:])

    # ---- Nodes ----

    def emit(self, op, inputs, outputs=1, keep=True, domain="", captured=(), **attrs):
        """Adds a node; its value, or the list of them. None stands for an input left out; captured
        are the values that its subgraphs use."""
        names = [v.name if v else "" for v in inputs]
        node = Node(op, names, [self.name("v") for _ in range(outputs)], attrs, domain,
                    [v.name for v in captured])
        arrays = reference.run_node(self.graph, node)
        if arrays is None:
            raise Refused
        for array in arrays:
            limit = LIMITS.get(array.dtype)
            if limit and self.special:
                array = array[np.isfinite(array)]
            if array.size > self.limit or (limit and not np.all(np.abs(array) <= limit)):
                raise Refused
        self.graph.nodes.append(node)
        self.graph.values.update(zip(node.outputs, arrays))
        values = [Value(name, array) for name, array in zip(node.outputs, arrays)]
        if keep:
            self.pool += values
        return values[0] if outputs == 1 else values
