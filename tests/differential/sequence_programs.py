"""Random models of sequences, with nested control flow."""
import random

import numpy as np
from sequence_cases import F32, i64, rows


class Program:
    """A random graph, of matrices [?, 3] and sequences of them; inner graphs see outer values."""

    def __init__(self, rng, outer=None):
        self.rng = rng
        self.counter = outer.counter if outer else [0]
        self.inner = outer is not None
        self.nodes = []
        self.tensors = list(outer.tensors) if outer else ["x", "y"]
        self.sequences = list(outer.sequences) if outer else ["s", "t"]
        self.flags = list(outer.flags) if outer else ["c"]
        self.numbers = list(outer.numbers) if outer else ["p", "q"]

    def new(self):
        self.counter[0] += 1
        return f"v{self.counter[0]}"

    def node(self, text):
        name = self.new()
        self.nodes.append(f"{name} = {text}")
        return name

    def pick(self, values):
        return self.rng.choice(values[-4:] if self.rng.random() < 0.6 else values)

    def constant(self, value):
        return self.node(f"Constant <value_int = {value}> ()")

    def number(self):
        if self.rng.random() < 0.3:
            return self.constant(self.rng.randint(-3, 4))
        return self.pick(self.numbers)

    def filled(self):
        """A sequence that is not empty, and a position in it."""
        s = self.node(f"SequenceInsert ({self.pick(self.sequences)}, {self.pick(self.tensors)})")
        length = self.node(f"SequenceLength ({s})")
        at = self.node(f"Mod ({self.number()}, {length})")
        if self.rng.random() < 0.4:
            at = self.node(f"Sub ({at}, {length})")  # from the end
        return s, at

    def tensor(self):
        kind = self.rng.randrange(6)
        if kind == 0:
            t = self.node(f"Neg ({self.pick(self.tensors)})")
        elif kind == 1:
            t = self.node(f"Add ({self.pick(self.tensors)}, row)")
        elif kind == 2:
            ends = self.node("Constant <value_ints = [1]> ()"), self.node(
                "Constant <value_ints = [100]> ()")
            t = self.node(f"Slice ({self.pick(self.tensors)}, {ends[0]}, {ends[1]})")
        elif kind == 3:
            s, _ = self.filled()
            t = self.node(f"ConcatFromSequence <axis = {self.rng.choice([0, -2])}> ({s})")
            limit = self.node("Constant <value_ints = [7]> ()")
            zero = self.node("Constant <value_ints = [0]> ()")
            t = self.node(f"Slice ({t}, {zero}, {limit})")  # so that nothing grows without bound
        else:
            t = self.node("SequenceAt (%s, %s)" % self.filled())
        self.tensors.append(t)

    def sequence(self):
        rng, kind = self.rng, self.rng.randrange(7)
        if kind == 0:
            items = ", ".join(self.pick(self.tensors) for _ in range(rng.randint(1, 3)))
            s = self.node(f"SequenceConstruct ({items})")
        elif kind == 1:
            s, at = self.filled()
            s = self.node(f"SequenceErase ({s}, {at})" if rng.random() < 0.7
                          else f"SequenceErase ({s})")
        elif kind == 2:
            s = self.node("SequenceEmpty <dtype = 1> ()")
        elif kind == 3:
            size = self.node(f"Abs ({self.number()})")
            size = self.node(f"Add ({size}, {self.constant(1)})")
            s = self.node(f"SplitToSequence <axis = 0> ({self.pick(self.tensors)}, {size})")
        elif kind == 4 and not self.inner and "SequenceMap" not in self.text():
            # onnxruntime mixes several ones up
            g = Program(rng, self)
            e = g.new()
            g.tensors.append(e)
            g.fill(rng.randint(0, 2), 0)
            out = g.node(f"Add ({g.pick(g.tensors)}, row)")
            s = self.node(f"SequenceMap ({self.pick(self.sequences)}) <body = m{self.new()} "
                          f"(float[k, 3] {e}) => (float[k, 3] {out}) {{ {g.text()} }}>")
        else:
            s, at = self.filled()
            s = self.node(f"SequenceInsert ({s}, {self.pick(self.tensors)}, {at})")
        self.sequences.append(s)

    def fact(self):
        length = self.node(f"SequenceLength ({self.pick(self.sequences)})")
        self.numbers.append(length)
        self.flags.append(self.node(f"Greater ({length}, {self.number()})"))

    def branch(self, depth):
        g = Program(self.rng, self)
        g.fill(self.rng.randint(1, 4), depth)
        outs = (g.node(f"Identity ({g.pick(g.tensors)})"),
                g.node(f"Identity ({g.pick(g.sequences)})"))
        return (f"b{self.new()} () => (float[{self.new()}, 3] {outs[0]}, seq(float[]) {outs[1]}) "
                f"{{ {g.text()} }}")

    def if_(self, depth):
        a, b = self.new(), self.new()
        self.nodes.append(f"{a}, {b} = If ({self.pick(self.flags)}) <then_branch = "
                          f"{self.branch(depth)}, else_branch = {self.branch(depth)}>")
        self.tensors.append(a)
        self.sequences.append(b)

    def loop(self, depth):
        g = Program(self.rng, self)
        i, go, t, s = (self.new() for _ in range(4))
        g.tensors.append(t)
        g.sequences.append(s)
        g.numbers.append(i)
        g.fill(self.rng.randint(1, 4), depth)
        more = g.node(f"Identity ({go if self.rng.random() < 0.6 else g.pick(g.flags)})")
        outs = g.node(f"Identity ({g.pick(g.tensors)})"), g.node(f"Identity ({g.pick(g.sequences)})")
        three = self.constant(3)
        trips = self.node(f"Mod ({self.number()}, {three})")
        a, b = self.new(), self.new()
        self.nodes.append(
            f"{a}, {b} = Loop ({trips}, , {self.pick(self.tensors)}, {self.pick(self.sequences)}) "
            f"<body = l{self.new()} (int64 {i}, bool {go}, float[{self.new()}, 3] {t}, "
            f"seq(float[]) {s}) => (bool {more}, float[{self.new()}, 3] {outs[0]}, "
            f"seq(float[]) {outs[1]}) {{ {g.text()} }}>")
        self.tensors.append(a)
        self.sequences.append(b)

    def fill(self, n, depth):
        for _ in range(n):
            kinds = [self.tensor] * 2 + [self.sequence] * 3 + [self.fact]
            if depth:
                kinds += [lambda: self.if_(depth - 1), lambda: self.loop(depth - 1)]
            self.rng.choice(kinds)()

    def text(self):
        return "\n".join(self.nodes)

    def graph(self):
        self.fill(6, 2)
        self.if_(2)
        self.loop(2)
        self.fill(3, 1)
        outs = ([self.node(f"Identity ({t})") for t in self.tensors[-3:]],
                [self.node(f"Identity ({s})") for s in self.sequences[-4:]])
        listed = ", ".join([f"float[{self.new()}, 3] {t}" for t in outs[0]] +
                           [f"seq(float[]) {s}" for s in outs[1]])
        return (f"g (float[n, 3] x, float[m, 3] y, float[3] row, seq(float[j, 3]) s, "
                f"seq(float[j, 3]) t, bool c, int64 p, int64 q) => ({listed}) {{ {self.text()} }}")


def random_program(seed):
    rng = random.Random(seed)
    data = []
    for _ in range(3):
        data.append(dict(x=rows(rng.randint(1, 4))[0], y=-rows(rng.randint(1, 3))[0],
                         row=np.array([1, -2, 3], F32), s=rows(*(rng.randint(0, 3) for _ in range(
                             rng.randint(0, 4)))), t=rows(*[2] * rng.randint(1, 3)),
                         c=np.array(rng.random() < 0.5), p=i64(rng.randint(0, 5)),
                         q=i64(rng.randint(0, 5))))
    return Program(rng).graph(), data
