"""Runs tilewright on graphs, and says what is wrong with the results."""
import os
import subprocess
import tempfile

import numpy as np
from checks import TIMEOUT, Failure, check, check_level
from passes import check_alone, check_layouts, check_passes, check_twice, optional_passes
from reference import Expected, Unusable, compute, difference

COMPILE = ("--jobs=1",)


class Tilewright:
    def __init__(self, command, work=None):
        self.command = os.fspath(command)
        self.folder = tempfile.TemporaryDirectory(dir=work)

    def run(self, graph, *options):
        """The outputs by name, of code for the sizes of the inputs."""
        return self._run(*self.save(graph), *COMPILE, *options)

    def compile(self, graph, *options):
        """A file of code for all sizes that the model allows."""
        model, _ = self.save(graph)
        return self.compile_saved(model, os.path.join(self.folder.name, "graph.tw"), *options)

    def compile_saved(self, model, compiled, *options):
        self._call("compile", model, "-o", compiled, *COMPILE, *options)
        return compiled

    def run_compiled(self, compiled, graph):
        return self._run(compiled, self.save(graph)[1])

    def save(self, graph):
        return graph.save(os.path.join(self.folder.name, "graph"))

    def _run(self, model, inputs, *options):
        outputs = os.path.join(self.folder.name, "outputs.npz")
        threads = [] if any(o.startswith("--threads") for o in options) else ["--threads=1"]
        self._call("run", model, "--inputs", inputs, "--outputs", outputs, *threads, *options)
        with np.load(outputs) as arrays:
            return dict(arrays)

    def _call(self, verb, model, *options):
        command = [self.command, verb, model, *options]
        options = " ".join(o for o in options if o[0] == "-" and not o.startswith("--inputs"))
        try:
            done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE, timeout=TIMEOUT, check=False)
        except subprocess.TimeoutExpired:
            raise Failure(f"timeout {verb} {options}", f"above {TIMEOUT} s") from None
        if done.returncode:
            raise Failure(f"exit code {done.returncode} {verb} {options}",
                          done.stderr.decode(errors="replace").strip()[-1500:])


# What the runtime says of sizes that code for any size does not cover: a window that onnxruntime
# lets reach beyond (an output's size is negative then), elements to keep where there are none,
# batches of one index for more of data; empty parts of other sizes, which it leaves out; keys of
# another width than the queries.
NOT_COVERED = ("does not fit into", "sizes come out negative", "the condition chooses element",
               "batches of data and indices", "node Concat", "node Attention")
# Sizes to try in the place of others: those that broadcast above all.
SIZES = (1, 1, 1, 1, 0, 2, 3, 5, 8, 17)


def check_any_size(tw, graph, expected, level, random):
    """Code for any size, at the sizes the graph was made for and at others, where these are
    possible. False when it needs to know some size."""
    try:
        compiled = tw.compile(graph, level)
    except Failure as failure:
        if failure.kind.startswith("exit code 1 compile"):
            return False
        raise
    if not check_compiled(tw, compiled, graph, expected, f"wrong result of any size {level}"):
        return False
    other = at_other_sizes(graph, random)
    if other:
        check_compiled(tw, compiled, other, Expected(other),
                       f"wrong result of another size {level}")
    return True


def check_compiled(tw, compiled, graph, expected, kind):
    """False when the run ends with an error about sizes."""
    try:
        actual = tw.run_compiled(compiled, graph)
    except Failure as failure:
        if any(words in str(failure) for words in NOT_COVERED):
            return False
        raise
    check(kind, expected, actual)
    return True


def at_other_sizes(graph, random, tries=6):
    """The graph with some of its symbols changed, as far as onnxruntime accepts it; or None."""
    sizes = {symbol: graph.inputs[name].shape[i] for (name, i), symbol in graph.symbols.items()
             if name in graph.inputs}
    found = None
    for symbol in random.sample(list(sizes), min(tries, len(sizes))):
        changed = sizes | {symbol: random.choice(SIZES)}
        other = graph.resized(changed)
        try:
            compute(other)
        except Unusable:
            continue
        sizes, found = changed, other
    return found


def check_graph(tw, graph, random, properties=()):
    """All that holds of one graph; raises Failure. Of further properties those given, in the place
    of other sizes, or one that is drawn. False: it needs to be compiled for its sizes."""
    expected = Expected(graph)
    at_0 = check_level(tw, graph, expected, "-O0")
    at_3 = check_level(tw, graph, expected, "-O3")
    for name, array in at_0.items():
        text = difference(at_3[name], array, expected.allowed[name])
        if text:
            raise Failure("-O3 against -O0", f"output {name}: {text}", name)
    general = True
    if graph.symbols and not properties:
        general = check_any_size(tw, graph, expected, random.choice(("-O0", "-O3", "-O3")), random)
    drawn = random.choices(list(SHARES), list(SHARES.values()))
    for name in properties or drawn:
        PROPERTIES[name](tw, graph, expected, at_3, random)
    return general


def check_option(*options):
    def check_one(tw, graph, expected, _, random):
        check_level(tw, graph, expected, "-O3", random.choice(options))
    return check_one


def check_pass(tw, graph, expected, _, random):
    name = random.choice(optional_passes(tw))
    check_level(tw, graph, expected, "-O3", f"--disable-pass={name}")


def check_names(tw, graph, _expected, actual, _random):
    """Names do not matter: the same bits."""
    renamed, names = graph.renamed()
    again = tw.run(renamed, "-O3")
    for name, array in actual.items():
        if array.tobytes() != again[names[name]].tobytes():
            raise Failure("renamed", f"output {name}: "
                          f"{difference(again[names[name]], array, 0)}", name)


def check_outputs(tw, graph, expected, _actual, random):
    """More outputs change none of the others."""
    inner = [name for name in graph.producers() if name not in graph.outputs]
    more = random.sample(inner, min(len(inner), 3))
    actual = tw.run(graph, "-O3", *(f"--keep-output={name}" for name in more))
    check("further outputs", expected, actual)
    for name in more:
        if name not in actual or actual[name].shape != graph.values[name].shape:
            raise Failure("further outputs", f"{name} is missing or of another shape", name)


PROPERTIES = {
    "names": check_names,
    "outputs": check_outputs,
    "pass": check_pass,
    "passes": check_passes,
    "alone": check_alone,
    "twice": check_twice,
    "layouts": check_layouts,
    "levels": check_option("-O1", "-O2"),
    "precise": check_option("--precise"),
    "threads": check_option("--threads=3"),
    "processors": check_option("--cpu=x86-64-v2", "--cpu=x86-64-v3"),
}
# How often each is drawn.
SHARES = {"pass": 30, "alone": 5, "twice": 5, "names": 15, "outputs": 15, "levels": 10,
          "processors": 10, "precise": 5, "threads": 5, "layouts": 5}
