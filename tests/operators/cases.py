"""All cases, from the tables of each family of operators: the modules cases_*.py beside this one."""
import importlib
from pathlib import Path


def all_cases():
    for module in sorted(Path(__file__).resolve().parent.glob("cases_*.py")):
        yield from importlib.import_module(module.stem).cases()
