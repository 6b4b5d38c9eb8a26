"""From a seed to a graph."""
import ops_elementwise  # noqa: F401  (these register their operators)
import ops_attention  # noqa: F401
import ops_linear  # noqa: F401
import ops_movement  # noqa: F401
import ops_microsoft  # noqa: F401
import ops_more  # noqa: F401
import ops_reduce  # noqa: F401
import ops_sampling  # noqa: F401
import patterns  # noqa: F401
import rewritten  # noqa: F401
from builder import Builder, Refused
from families import FAMILIES

OPSETS = (7, 8, 9, 10, 11, 12, 13, 13, 15, 17, 17, 18, 18, 19, 20, 20, 21, 22, 23, 23, 24, 25)
FORMS = ("raw", "raw", "raw", "typed", "node", "input")
SHARES = {"elementwise": 5, "movement": 5, "linear": 4, "reduce": 3, "sampling": 1.5,
          "quantised": 1, "patterns": 2.5, "rewritten": 1.5,
          "attention": 0.5, "more": 1.5, "microsoft": 0.7}


def generate(seed, only=None):
    b = Builder(seed, 13)
    b.special = b.special and not only
    b.opset = b.graph.opset = b.choice(OPSETS)
    b.graph.form = b.choice(FORMS if b.opset < 10 else FORMS[:-1])
    count = b.int(4, 15) if b.large else b.int(10, 60)
    # Each graph leans to some families, so that operators of one kind meet.
    shares = {name: share * b.choice((0.3, 1, 1, 3)) for name, share in SHARES.items()}
    if b.images:
        shares["linear"] *= 2
    if only:
        shares = {name: float(name in only) for name in SHARES}
    elif b.special:  # where the specification says what becomes of them
        shares = {name: shares[name] for name in ("elementwise", "movement")}
    for _ in range(b.int(1, 3)):
        b.fresh(b.floating(), b.shape())
    while len(b.graph.nodes) < count:
        name = b.random.choices(list(shares), list(shares.values()))[0]
        functions = FAMILIES[name]
        function = b.random.choices([f[0] for f in functions], [f[1] for f in functions])[0]
        try:
            function(b)
        except Refused:
            pass
    return finish(b)


def finish(b):
    """Chooses outputs: what nothing uses, and some of what is used."""
    graph = b.graph
    used = {name for node in graph.nodes for name in node.uses()}
    made = [name for node in graph.nodes for name in node.outputs]
    ends = [name for name in made if name not in used]
    extra = [name for name in made if name in used and b.chance(0.1)]
    name_sizes(b, graph)
    return graph.with_outputs([name for name in made if name in ends or name in extra])


def name_sizes(b, graph):
    """Sizes of inputs become symbols: none, some or all; equal ones may have one name. Sizes of 1
    as well: a symbol may meet another one in broadcasting, and either may be 1."""
    share, together = b.choice((0, 0.3, 0.3, 1)), b.chance(0.4)
    for name, array in graph.inputs.items():
        for i, size in enumerate(array.shape):
            if b.chance(share if size != 1 else share / 2):
                graph.symbols[name, i] = f"n{size}" if together else f"{name}_{i}"
