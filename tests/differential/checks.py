"""What a failure is, and comparing results with what is expected."""

TIMEOUT = 60


class Failure(Exception):
    """What went wrong: a kind that stays the same while the graph is reduced, and the text."""

    def __init__(self, kind, text, output=None):
        super().__init__(f"{kind}: {text}")
        self.kind, self.output = kind, output


def check_level(tw, graph, expected, *options):
    actual = tw.run(graph, *options)
    check(f"wrong result {' '.join(options)}", expected, actual)
    return actual


def check(kind, expected, actual):
    wrong = expected.compare(actual)
    if wrong:
        raise Failure(kind, f"output {wrong[0]}: {wrong[1]}", wrong[0])
