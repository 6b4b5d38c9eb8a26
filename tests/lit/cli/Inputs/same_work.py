"""same_work.py A.json B.json: two profiles name the same kernels, operations and bytes, not 0."""
import json
import sys

a, b = (sorted((k["flops"], k["bytes"]) for k in json.load(open(path))["kernels"])
        for path in sys.argv[1:])
assert a == b and all(bytes > 0 for _, bytes in a) and any(flops > 0 for flops, _ in a), (a, b)
