"""The table of what a generator can add: functions of a builder, by family."""
FAMILIES = {}


def family(name, weight=1.0, since=1, until=99):
    """Registers a function that adds an operator, or a few, of the family."""
    def register(function):
        FAMILIES.setdefault(name, []).append((function, weight, since, until))
        return function
    return register
