"""Rows of batch normalisation and of local response normalisation.

Like TensorFlow's, gradients in training ignore the gradients of the statistics that are returned.
They are compared with TensorFlow's in golden/differential/nn_normalisation.json.
"""

import numpy as np

import sparkflow_runtime.ops.all  # noqa: F401 - gradients are made of ops of other families
from sparkflow_runtime.dtypes import float16, float32, float64
from support.op_cases import OpCase, WrongShapeCase

RNG = np.random.default_rng(7)
IMAGES = RNG.integers(-8, 9, (2, 3, 2, 3)) / 4
SCALE = np.array([1.5, -0.5, 1.0])
OFFSET = np.array([0.25, 0.5, -1.0])
MEAN = np.array([0.5, -0.25, 0.0])
VARIANCE = np.array([1.0, 2.0, 0.5])
EMPTY = np.zeros((0,))
TRAINED = {"epsilon": 0.0625, "is_training": True}
FIXED = {"epsilon": 0.0625, "is_training": False}
WIDE = [float32, float64]


def trained(x, scale, offset, mean, variance):
    center, spread = x.mean((0, 1, 2)), x.var((0, 1, 2))
    count = x.size / x.shape[3]
    y = (x - center) / np.sqrt(spread + 0.0625) * scale + offset
    return y, center, spread * count / (count - 1), center, spread


def fixed(x, scale, offset, mean, variance):
    y = (x - mean) / np.sqrt(variance + 0.0625) * scale + offset
    return y, mean, variance, mean, variance


def nchw(x):
    return x.transpose(0, 3, 1, 2)


def channels_second(compute):
    def computed(x, *rest):
        y, *others = compute(x.transpose(0, 2, 3, 1), *rest)
        return (nchw(y), *others)

    return computed


def normalised(x):
    squares = np.stack([(x[..., max(c - 1, 0) : c + 2] ** 2).sum(-1) for c in range(3)], -1)
    return x * (0.5 + 0.25 * squares) ** -0.75


def with_rest(compute):
    return lambda *inputs: (*compute(*inputs), np.zeros(0))


INPUTS = [IMAGES, SCALE, OFFSET, EMPTY, EMPTY]
GIVEN = [IMAGES, SCALE, OFFSET, MEAN, VARIANCE]
ROUND = {"rtol": 1e-5, "atol": 2e-6}
LOCAL = {"depth_radius": 1, "bias": 0.5, "alpha": 0.25, "beta": 0.75}
THREE = {"gradient": (0, 1, 2), "second_order": True, "gradient_rtol": 2e-6}

CASES = [
    OpCase("FusedBatchNorm", INPUTS, TRAINED, trained, dtypes=WIDE, **ROUND),
    OpCase("FusedBatchNorm", GIVEN, FIXED, fixed, dtypes=WIDE, **THREE, **ROUND),
    OpCase(
        "FusedBatchNorm",
        [nchw(IMAGES), *INPUTS[1:]],
        {**TRAINED, "data_format": "NCHW"},
        channels_second(trained),
        dtypes=WIDE,
        **ROUND,
    ),
    OpCase(
        "FusedBatchNormV2",
        GIVEN,
        FIXED,
        fixed,
        dtypes=[float16, float32, float64],
        gradient=(0, 1, 2),
        rtol=1e-5,
        atol=1e-4,
    ),
    OpCase(
        "FusedBatchNormV3",
        INPUTS,
        TRAINED,
        with_rest(trained),
        dtypes=WIDE,
        **ROUND,
    ),
    OpCase(
        "FusedBatchNormV3", GIVEN, FIXED, with_rest(fixed), dtypes=WIDE, gradient=(0, 1), **ROUND
    ),
    OpCase(
        "FusedBatchNormGrad",
        [IMAGES / 2, IMAGES, SCALE, MEAN, VARIANCE],
        FIXED,
        gradient=(0, 1, 2),
    ),
    OpCase(
        "FusedBatchNormGradV2",
        [IMAGES / 2, IMAGES, SCALE.astype(np.float32), MEAN, VARIANCE],
        FIXED,
        gradient=(0, 1),
    ),
    OpCase(
        "FusedBatchNormGradV3",
        [IMAGES / 2, IMAGES, SCALE.astype(np.float32), MEAN, VARIANCE, EMPTY],
        FIXED,
        gradient=(0, 1),
    ),
    OpCase("LRN", [IMAGES], LOCAL, normalised, gradient=(0,), rtol=3e-6),
    OpCase("LRN", [IMAGES], {"depth_radius": 7}, gradient=(0,)),
    OpCase("LRNGrad", [IMAGES, IMAGES, normalised(IMAGES)], LOCAL),
]

WRONG_SHAPES = [
    WrongShapeCase(
        "FusedBatchNorm",
        [(1, 2, 2, 3), (4,), (3,), (3,), (3,)],
        message="Dimensions 3 and 4 are not compatible",
    ),
    WrongShapeCase(
        "LRN", [(2, 3)], message="Shape must be rank 4 but is rank 2: input has shape (2, 3)"
    ),
]
