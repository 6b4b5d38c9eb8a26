"""From a seed to a graph."""
import ops_elementwise  # noqa: F401  (these register their operators)
import ops_linear  # noqa: F401
import ops_movement  # noqa: F401
import ops_reduce  # noqa: F401
import ops_sampling  # noqa: F401
import patterns  # noqa: F401
from builder import Builder, Refused
from families import FAMILIES

OPSETS = (11, 12, 13, 13, 15, 17, 17, 18, 18, 19, 20, 21, 22, 23)
SHARES = {"elementwise": 5, "movement": 5, "linear": 4, "reduce": 3, "sampling": 1.5,
          "quantised": 1, "patterns": 2.5}


def generate(seed, only=None):
    b = Builder(seed, 13)
    b.opset = b.graph.opset = b.choice(OPSETS)
    b.graph.symbolic = b.chance(0.2)
    count = b.int(10, 60)
    # Each graph leans to some families, so that operators of one kind meet.
    shares = {name: share * b.choice((0.3, 1, 1, 3)) for name, share in SHARES.items()}
    if only:
        shares = {name: float(name in only) for name in shares}
    for _ in range(b.int(1, 3)):
        b.input(b.floating(), b.shape())
        name, array = list(b.graph.inputs.items())[-1]
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
    used = {name for node in graph.nodes for name in node.inputs}
    made = [name for node in graph.nodes for name in node.outputs]
    ends = [name for name in made if name not in used]
    extra = [name for name in made if name in used and b.chance(0.1)]
    return graph.with_outputs([name for name in made if name in ends or name in extra])
