"""Operators of ai.onnx.ml that prepare features, and linear models."""
import itertools

import numpy as np

from case import Case
from cases_linear import F32, F64, rand

ML = {"domain": "ai.onnx.ml", "domain_opset": 1}
I32, I64 = np.int32, np.int64


def ml(op, inputs, attrs, **more):
    return Case(op, inputs, attrs, **ML, **more)


def features(dtype, *shape):
    return rand(*shape, low=-9, high=9).astype(dtype)


def floats(n):
    return [float(x) for x in rand(n)]


def scaling():
    for dtype, shape, n in itertools.product((F32, F64, I64, I32), ((5, 3), (3,)), (1, 3)):
        yield ml("Scaler", [features(dtype, *shape)], {"offset": floats(n), "scale": floats(n)})
    zeros = np.array([[0, 0, 0], [1, -2, 3], [-1, -2, -4]])
    for dtype, norm in itertools.product((F32, F64, I64, I32), ("MAX", "L1", "L2")):
        for x in (features(dtype, 6, 4), zeros.astype(dtype), features(dtype, 5)):
            yield ml("Normalizer", [x], {"norm": norm}, dims={0: ("n", None)} if x.ndim == 2 else {})


def imputing():
    x = np.array([[0, 1, np.nan], [2, 0, 3], [np.nan, np.nan, 0]], F32)
    for n, replaced in itertools.product((1, 3), (0.0, float("nan"), 2.0, None)):
        attrs = {"imputed_value_floats": floats(n)}
        if replaced is not None:
            attrs["replaced_value_float"] = replaced
        yield ml("Imputer", [x], attrs)
    for n in (1, 3):
        yield ml("Imputer", [np.array([[0, 1, -1], [-1, 2, -1]], I64)],
                 {"imputed_value_int64s": [7, 8, 9][:n], "replaced_value_int64": -1})


def joining():
    x, y = features(F32, 4, 2), features(F32, 4, 3)
    for sizes in ([2, 3], [1, 3], [3, 5]):
        yield ml("FeatureVectorizer", [x, y], {"inputdimensions": sizes})
    yield ml("FeatureVectorizer", [x.astype(I64)], {"inputdimensions": [2]})


def categories():
    words = np.array([["red", "blue", "grey"], ["blue", "red", ""]], object)
    x = np.array([[1, 5, 7], [5, -2, 1]])
    for dtype in (I64, F32, F64):
        yield ml("OneHotEncoder", [x.astype(dtype)], {"cats_int64s": [5, 1, 7, 9]})
    yield ml("OneHotEncoder", [words], {"cats_strings": ["blue", "red", "green"]}, const=(0,))
    yield ml("CategoryMapper", [words], {"cats_strings": ["blue", "red"], "cats_int64s": [4, 9],
                                         "default_int64": -7}, const=(0,))
    yield ml("CategoryMapper", [words], {"cats_strings": ["blue", "red"], "cats_int64s": [4, 9]},
             const=(0,))
    yield ml("LabelEncoder", [words], {"classes_strings": ["grey", "blue"]}, const=(0,))


def linear():
    transforms = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
    for transform, targets, added in itertools.product(transforms, (1, 3), (False, True)):
        low = 0.1 if transform == "PROBIT" else -1
        x = rand(5, 4, low=low)
        attrs = {"coefficients": [float(v) for v in rand(4 * targets, low=low) / 5],
                 "targets": targets, "post_transform": transform}
        if added:
            attrs["intercepts"] = [float(v) for v in rand(targets, low=low) / 5]
        yield ml("LinearRegressor", [x], attrs, limit=1e-4)
    for transform, (classes, labels) in itertools.product(
            transforms[:4], ((1, 0), (1, 2), (2, 2), (4, 4))):
        for dtype in (F32, F64, I64, I32):
            attrs = {"coefficients": floats(3 * classes), "intercepts": floats(classes),
                     "post_transform": transform}
            if labels:
                attrs["classlabels_ints"] = [3, 8, 1, 6][:labels]
            yield ml("LinearClassifier", [features(dtype, 7, 3)], attrs, outputs=2, limit=1e-4)


def cases():
    yield from scaling()
    yield from imputing()
    yield from joining()
    yield from categories()
    yield from linear()
