"""All cases, from the tables of each family of operators."""
import cases_linear
import cases_norm


def all_cases():
    for family in (cases_linear, cases_norm):
        yield from family.cases()
