"""Properties of the passes on a graph: each alone keeps the results, and so do all but one; twice is
as once."""
import os
import re
import subprocess
from pathlib import Path

from checks import TIMEOUT, Failure, check_level

listings = {}  # command -> what tilewright-opt says of its passes


def opt_of(tw):
    return str(Path(tw.command).with_name("tilewright-opt"))


def listing(tw):
    if tw.command not in listings:
        listings[tw.command] = subprocess.run([opt_of(tw), "--list-passes"], check=True,
                                              capture_output=True, text=True).stdout.splitlines()
    return listings[tw.command]


def pipeline(tw, kind="graph"):
    """The names of the passes at -O 3, in order."""
    (line,) = [t for t in listing(tw) if t.startswith(f"{kind} passes at -O 3: ")]
    return re.findall(r"[\w.-]+(?=[,{)]|$)", line.split(": ", 1)[1])


def optional_passes(tw):
    """Those of the pipelines that may be left out."""
    optional = {line.split()[0] for line in listing(tw) if line.endswith(" (optional)")}
    used = dict.fromkeys([*pipeline(tw), *pipeline(tw, "loop")])
    return [name for name in used if name in optional]


def check_each(tw, graph, expected, stage, choices, known=()):
    """Each choice of options keeps the results; those that give a text at the stage that an earlier
    one gave (or `known`) give the same code, and need no run."""
    seen = set(known)
    for option in choices:
        text = emitted(tw, graph, stage, option)
        if text not in seen:
            check_level(tw, graph, expected, "-O3", option)
        seen.add(text)


def emitted(tw, graph, stage, *options):
    """The text of the graph compiled for the sizes of its inputs, at a stage."""
    model, _ = tw.save(graph)
    text = os.path.join(os.path.dirname(model), "emitted.tw")
    tw.compile_saved(model, text, f"--emit={stage}", "--elide=0", *shapes(graph), *options)
    return Path(text).read_text()


def shapes(graph):
    return [f"--shape={name}={'x'.join(map(str, array.shape))}"
            for name, array in graph.inputs.items()]


def check_alone(tw, graph, expected, *_):
    """Each graph pass, without any other, keeps the results."""
    check_each(tw, graph, expected, "graph",
               [f"--pipeline={name}" for name in dict.fromkeys(pipeline(tw))])


def check_passes(tw, graph, expected, *_):
    """So does each optional pass that is left out."""
    check_each(tw, graph, expected, "loop",
               [f"--disable-pass={name}" for name in optional_passes(tw)],
               [emitted(tw, graph, "loop")])


def check_layouts(tw, graph, expected, *_):
    """Each layout that convert-layout can be told to give keeps the results."""
    (line,) = [t for t in listing(tw) if t.startswith("graph passes at -O 3: ")]
    passes = line.split(": ", 1)[1]
    check_each(tw, graph, expected, "graph",
               ["--pipeline=" + passes.replace("convert-layout", f"convert-layout{{layout={name}}}")
                for name in ("plain", "NHWC", "NCHWc", "NCHW4c")],
               [emitted(tw, graph, "graph")])


def run_pass(tw, name, source, result):
    done = subprocess.run([opt_of(tw), source, "-p", name, "-o", result],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True,
                          timeout=TIMEOUT, check=False)
    if done.returncode:
        raise Failure(f"tilewright-opt -p {name}", done.stderr.strip()[-1500:])


def check_twice(tw, graph, *_):
    """A pass that has run has nothing left to do, wherever in the pipeline: the text stays."""
    model, _ = tw.save(graph)
    folder = os.path.dirname(model)
    at, once, twice = (os.path.join(folder, name) for name in ("at.tw", "once.tw", "twice.tw"))
    options = ["--emit=graph", "--elide=0", "--pipeline="]
    try:
        tw.compile_saved(model, at, *options)
    except Failure:  # it needs to know sizes
        options += shapes(graph)
        tw.compile_saved(model, at, *options)
    for i, name in enumerate(pipeline(tw)):
        run_pass(tw, name, at, once)
        run_pass(tw, name, once, twice)
        old, new = (Path(file).read_text().splitlines() for file in (once, twice))
        if old != new:
            k = next((k for k, (a, b) in enumerate(zip(old, new)) if a != b), len(old))
            raise Failure(f"twice {name}", f"as pass {i + 1}, line {k + 1}:\n- "
                          + "\n- ".join(old[k:k + 3]) + "\n+ " + "\n+ ".join(new[k:k + 3]))
        os.replace(once, at)
