"""Random ensembles of decision trees."""
import itertools

import numpy as np
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

from case import Case, evaluate, make_model, reference

OLD = {"domain": "ai.onnx.ml", "domain_opset": 3}
NEW = {"domain": "ai.onnx.ml", "domain_opset": 5}
MODES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]
TRANSFORMS = ["NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"]
FEATURES = 5
NUMBERS = [-4, -3, -2, -1, 1, 2, 3, 4]  # the onnx package takes a member 0 for the end of a set
rng = np.random.default_rng(7)


def grow(depth, modes, members=False):
    """A tree as nested tuples: (feature, mode, threshold or set, NaN takes the branch where it
    holds, then, else), or a leaf: None. Thresholds are quarters, so that equality occurs."""
    if depth == 0 or rng.random() < 0.15:
        return None
    mode = len(MODES) if members and rng.random() < 0.4 else int(rng.choice(modes))
    value = rng.integers(-4, 5) / 4
    if mode == len(MODES):
        value = [v / 4 for v in rng.choice(NUMBERS, int(rng.integers(5)), False)]
    return (int(rng.integers(FEATURES)), mode, value, int(rng.integers(2)),
            grow(depth - 1, modes, members), grow(depth - 1, modes, members))


def forest(n_trees, depth, modes, members=False):
    trees = []
    while len(trees) < n_trees:
        tree = grow(depth, modes, members)
        if tree:
            trees.append(tree)
    return trees


def rows(n, dtype, nan=True):
    x = rng.integers(-5, 6, (n, FEATURES)) / 4 if np.dtype(dtype).kind == "f" else \
        rng.integers(-2, 3, (n, FEATURES))
    x = x.astype(dtype)
    if nan and x.dtype.kind == "f":
        x[rng.random(x.shape) < 0.15] = np.nan
    return x


def reals(name, values, double):
    """An attribute of numbers in one of its two forms."""
    if double:
        return {f"{name}_as_tensor": numpy_helper.from_array(np.array(values, np.float64))}
    return {name: [float(v) for v in values]}


def old_attributes(trees, votes, weigh, double, tracks=True):
    """`weigh` gives the list of (target, weight) of the next leaf."""
    a = {k: [] for k in ("treeids", "nodeids", "featureids", "modes", "truenodeids",
                         "falsenodeids", "missing_value_tracks_true")}
    values, v = [], {k: [] for k in ("treeids", "nodeids", "ids")}
    weights = []

    def add(tree, number, ids):
        me = ids[0]
        ids[0] += 1
        at = len(values)
        for k in a:
            a[k].append(0)
        a["treeids"][at], a["nodeids"][at], a["modes"][at] = number, me, "LEAF"
        values.append(0)
        if tree is None:
            for target, weight in weigh():
                v["treeids"].append(number)
                v["nodeids"].append(me)
                v["ids"].append(target)
                weights.append(weight)
            return me
        feature, mode, value, track, then, other = tree
        a["featureids"][at], a["modes"][at], values[at] = feature, MODES[mode], value
        a["missing_value_tracks_true"][at] = track if tracks else 0
        a["truenodeids"][at] = add(then, number, ids)
        a["falsenodeids"][at] = add(other, number, ids)
        return me

    for number, tree in enumerate(trees):
        add(tree, number, [0])
    return {**{f"nodes_{k}": x for k, x in a.items()}, **reals("nodes_values", values, double),
            **{f"{votes}_{k}": x for k, x in v.items()},
            **reals(f"{votes}_weights", weights, double)}


def weight():
    return rng.integers(-16, 17) / 16


def regressors():
    dtypes = (np.float32, np.float64, np.int64, np.int32)
    for targets, aggregate, dtype in itertools.product((1, 3), ("SUM", "AVERAGE", "MIN", "MAX"),
                                                       dtypes):
        double = dtype == np.float64
        one_mode = [int(rng.integers(6))] if rng.random() < 0.5 else range(6)

        based = rng.random() < 0.5

        def weigh():  # onnxruntime leaves base values out for targets without votes
            return [(t, weight()) for t in range(targets)
                    if targets == 1 or based or rng.random() < 0.6]
        attrs = {**old_attributes(forest(6, 5, one_mode), "target", weigh, double),
                 "n_targets": targets, "aggregate_function": aggregate}
        if based:
            attrs.update(reals("base_values", [weight() for _ in range(targets)], double))
        x = rows(70, dtype)
        integer = x.dtype.kind == "i"
        yield Case("TreeEnsembleRegressor", [x], attrs, **OLD, expected=None if not integer else [
            evaluate("TreeEnsembleRegressor", [x.astype(np.float32)], attrs, **OLD)])
    for targets, transform in itertools.product((1, 3), TRANSFORMS):
        def weigh():
            return [(t, rng.integers(1, 8) / 32) for t in range(targets)]
        attrs = {**old_attributes(forest(3, 3, range(6)), "target", weigh, False),
                 "n_targets": targets, "post_transform": transform}
        yield Case("TreeEnsembleRegressor", [rows(9, np.float32)], attrs, **OLD, limit=1e-4)
    attrs = {**old_attributes(forest(40, 8, [0]), "target", lambda: [(0, weight())], False),
             "n_targets": 1}
    yield Case("TreeEnsembleRegressor", [rows(300, np.float32)], attrs, **OLD,
               dims={0: ("rows", None)})
    x = rows(1, np.float32)
    yield Case("TreeEnsembleRegressor", [x[0]], attrs, **OLD,
               expected=[evaluate("TreeEnsembleRegressor", [x], attrs, **OLD)])
    yield Case("TreeEnsembleRegressor", [rows(0, np.float32)], attrs, **OLD)


def classifiers():
    for classes, transform, text in itertools.product((1, 2, 4), TRANSFORMS[:4], (False, True)):
        labels = {"classlabels_strings": ["red", "green", "blue", "grey"][:classes]} if text else \
                 {"classlabels_int64s": [0, 1, 7, 3][:classes]}
        if classes == 1:
            if text:
                continue
            labels = {"classlabels_int64s": [1]}
        kinds = {1: ("all",), 2: ("all", "first", "second"), 4: ("all", "some")}[classes]
        for kind, low, base in itertools.product(kinds, (0, -16), range(3)):
            def weigh():
                ids = {"all": range(classes), "first": [0], "second": [1],
                       "some": [int(rng.integers(classes))]}[kind]
                return [(t, rng.integers(low + 1, 17) / 64) for t in ids]
            n_base = 0 if base == 0 else base if classes < 3 else classes
            if (classes == 1 and base == 2) or (classes == 2 and base == 2 and kind != "first"):
                continue
            double = rng.random() < 0.3
            attrs = {**old_attributes(forest(4, 4, range(6)), "class", weigh, double), **labels,
                     "post_transform": transform}
            if n_base:
                attrs.update(reals("base_values", [weight() for _ in range(n_base)], double))
            case = Case("TreeEnsembleClassifier", [rows(20, np.float64 if double else np.float32)],
                        attrs, outputs=2, **OLD, limit=1e-4)
            if text:  # strings cannot be saved; a lit test looks at them
                case.expected = [None, reference(case)["y1"]]
                case.skip_outputs = (0,)
            yield case


def tensor(values, dtype):
    return numpy_helper.from_array(np.array(values, dtype))


def new_attributes(trees, targets, dtype):
    a = {k: [] for k in ("featureids", "truenodeids", "falsenodeids", "trueleafs", "falseleafs",
                         "missing_value_tracks_true")}
    modes, splits, leaves, roots, sets = [], [], [], [], {}

    def add(tree):
        if tree is None:
            leaves.append((int(rng.integers(targets)), weight()))
            return len(leaves) - 1, 1
        at = len(modes)
        feature, mode, value, track, then, other = tree
        for k in a:
            a[k].append(0)
        modes.append(mode)
        splits.append(0 if isinstance(value, list) else value)
        if isinstance(value, list):
            sets[at] = value
        a["featureids"][at], a["missing_value_tracks_true"][at] = feature, track
        a["truenodeids"][at], a["trueleafs"][at] = add(then)
        a["falsenodeids"][at], a["falseleafs"][at] = add(other)
        return at, 0

    for tree in trees:
        roots.append(add(tree)[0])
    out = {**{f"nodes_{k}": x for k, x in a.items()}, "tree_roots": roots, "n_targets": targets,
           "nodes_modes": tensor(modes, np.uint8), "nodes_splits": tensor(splits, dtype),
           "leaf_targetids": [t for t, _ in leaves],
           "leaf_weights": tensor([w for _, w in leaves], dtype)}
    members = [v for at in sorted(sets) for v in [*sets[at], np.nan]]
    if members:
        out["membership_values"] = tensor(members, dtype)
    return out


def by_onnx(case):
    """What the onnx package gives, with 0 where nothing is voted for."""
    model, feeds = make_model([case], [""])
    y = ReferenceEvaluator(model).run(None, feeds)[0]
    return np.where(np.abs(y) > 1e30, 0, y).astype(case.inputs[0].dtype)


def ensembles():
    for targets, aggregate, dtype, members in itertools.product(
            (1, 3), range(4), (np.float32, np.float64), (False, True)):
        attrs = {**new_attributes(forest(5, 5, range(6), members), targets, dtype),
                 "aggregate_function": aggregate}
        case = Case("TreeEnsemble", [rows(40, dtype)], attrs, **NEW)
        if members:  # where onnxruntime refuses or mistakes some sets
            case.expected = [by_onnx(case)]
        yield case
    for transform in range(5):
        attrs = {**new_attributes(forest(4, 3, range(6)), 3, np.float32),
                 "post_transform": transform}
        x = rows(9, np.float32)
        swapped = {**attrs, "post_transform": [0, 2, 1, 3, 4][transform]}  # by onnxruntime
        yield Case("TreeEnsemble", [x], attrs, **NEW, limit=1e-4,
                   expected=[evaluate("TreeEnsemble", [x], swapped, **NEW)])


def cases():
    yield from regressors()
    yield from classifiers()
    yield from ensembles()
