"""The JSON of `tilewright bench --profile --json`: all figures there, and consistent."""
import json
import math
import sys

with open(sys.argv[1]) as file:
    bench = json.load(file)
assert 0 < bench["min_ms"] <= bench["p50_ms"] <= bench["p90_ms"] <= bench["p99_ms"], bench
assert bench["runs"] >= 3 and bench["threads"] >= 1 and bench["cpu"], bench
assert bench["peak_gflops"] > 0 and bench["peak_gbps"] > 0, bench
kernels = bench["kernels"]
assert [k["ms"] for k in kernels] == sorted((k["ms"] for k in kernels), reverse=True), kernels
assert math.isclose(sum(k["share"] for k in kernels), 1, rel_tol=1e-6), kernels
for k in kernels:
    assert k["calls"] == 1 and k["name"] and k["operators"], k
    assert math.isclose(k["gflops"], k["flops"] / k["ms"] * 1e-6, rel_tol=1e-6), k
    assert math.isclose(k["gbps"], k["bytes"] / k["ms"] * 1e-6, rel_tol=1e-6), k
    fraction = max(k["gflops"] / bench["peak_gflops"], k["gbps"] / bench["peak_gbps"])
    assert math.isclose(k["of_peak"], fraction, rel_tol=1e-6), k
    assert math.isclose(k["floor_ms"], k["of_peak"] * k["ms"], rel_tol=1e-6), k
