#!/usr/bin/env python3
"""Random graphs against onnxruntime.

    differential.py --tilewright COMMAND [--graphs N] [--seed S] [--jobs J] [--keep DIR]
                    [--property NAME]...

Each graph is computed by onnxruntime, without its optimisations, and by tilewright at -O 0 and
-O 3, for known and for any sizes; one further property is drawn: a pass left out, another level or
processor, other names, more outputs. A failing graph is cut down and kept in DIR as .onnx, .npz and .txt. The graph of seed S
depends on S alone: --graphs 1 --seed S repeats it.
"""
import argparse
import itertools
import multiprocessing
import multiprocessing.connection
import os
import random
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

try:
    import onnx  # noqa: F401
    import onnxruntime  # noqa: F401
except ImportError as missing:
    print(f"skipped: {missing}; scripts/setup.sh makes the environment these tests need")
    sys.exit(77)

from generate import generate
from reduce import reduce
from reference import Unusable
from runner import PROPERTIES, Failure, Tilewright, check_graph


@dataclass
class Verdict:
    seed: int
    nodes: int = 0
    failure: str = ""
    usable: bool = True  # onnxruntime runs it
    general: bool = True  # compiled for any size, too, if it has symbols


def check_seed(seed, args):
    verdict = Verdict(seed)
    tw = Tilewright(args.tilewright)
    def check(candidate):
        return check_graph(tw, candidate, random.Random(seed), args.property)

    try:
        graph = generate(seed, args.only)
        verdict.nodes = len(graph.nodes)
        verdict.general = check(graph)
    except Failure as failure:
        verdict.failure = report(graph, check, failure, seed, args)
    except Unusable:
        verdict.usable = False
    except Exception:  # a mistake of this program must not end the run
        verdict.failure = traceback.format_exc()[-2000:]
    return verdict


def report(graph, check, failure, seed, args):
    small = reduce(graph, check, failure) if args.reduce else graph
    args.keep.mkdir(parents=True, exist_ok=True)
    path = args.keep / f"seed{seed}"
    small.save(path)
    try:
        check(small)
    except Failure as last:
        failure = last
    text = f"{failure}\n{path}.onnx, opset {small.opset}, {len(small.nodes)} of " \
           f"{len(graph.nodes)} nodes:\n{describe(small)}"
    Path(f"{path}.txt").write_text(text)
    return text


def describe(graph):
    """A line a node, with types, and small constants."""
    def value(name):
        array = graph.values.get(name)
        if array is None:
            return name or "-"
        text = f"{name}:{array.dtype}{list(array.shape)}"
        if name in graph.constants and array.size <= 8:
            text += f"={array.tolist()}"
        return text.replace(" ", "")

    def line(node):
        name = f"{node.domain}.{node.op}" if node.domain else node.op
        outputs, inputs = (", ".join(map(value, names)) for names in (node.outputs, node.inputs))
        return f"  {outputs} = {name}({inputs}) {node.attrs or ''}"

    return "\n".join([*map(line, graph.nodes), f"  outputs {', '.join(graph.outputs)}"])


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tilewright", required=True)
    parser.add_argument("--graphs", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1, help="of the first graph")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--keep", type=Path, default=Path("differential-failures"))
    parser.add_argument("--only", action="append", help="families to draw from")
    parser.add_argument("--property", action="append", default=[], choices=PROPERTIES,
                        help="to check on every graph, in the place of one that is drawn")
    parser.add_argument("--no-reduce", dest="reduce", action="store_false")
    args = parser.parse_args()
    args.tilewright = os.path.abspath(args.tilewright)
    start, verdicts = time.monotonic(), []
    print(f"{args.graphs} graphs from seed {args.seed} on", flush=True)
    for verdict in verdicts_of(range(args.seed, args.seed + args.graphs), args):
        verdicts.append(verdict)
        if verdict.failure:
            print(f"FAIL seed {verdict.seed}: {verdict.failure}", flush=True)
        if len(verdicts) % 100 == 0 and len(verdicts) < args.graphs:
            print(f"{len(verdicts)} graphs, {time.monotonic() - start:.0f} s", flush=True)
    return close(args, verdicts, time.monotonic() - start)


def verdicts_of(seeds, args):
    """The verdicts as they come, each from a process of its own, which onnxruntime may end."""
    left, running = iter(seeds), {}
    while True:
        for seed in itertools.islice(left, args.jobs - len(running)):
            ours, theirs = multiprocessing.Pipe(duplex=False)
            process = multiprocessing.Process(target=send_verdict, args=(theirs, seed, args))
            process.start()
            theirs.close()
            running[ours] = process, seed
        if not running:
            return
        for connection in multiprocessing.connection.wait(list(running)):
            process, seed = running.pop(connection)
            try:
                yield connection.recv()
            except EOFError:
                yield Verdict(seed, usable=False)
            process.join()


def send_verdict(connection, seed, args):
    connection.send(check_seed(seed, args))


def close(args, verdicts, seconds):
    """Prints the closing line; the exit status."""
    failed = sum(bool(v.failure) for v in verdicts)
    unusable = sum(not v.usable for v in verdicts)
    notes = f"{sum(v.nodes for v in verdicts)} nodes, seeds {args.seed} to " \
            f"{args.seed + args.graphs - 1}, {seconds:.0f} s"
    for count, what in ((unusable, "refused by onnxruntime"),
                        (sum(not v.general for v in verdicts), "compiled for known sizes only")):
        notes += f", {count} {what}" * (count > 0)
    print(f"{args.graphs - failed - unusable} of {args.graphs} graphs passed ({notes})")
    return 1 if failed or unusable * 20 > args.graphs else 0


if __name__ == "__main__":
    sys.exit(main())
