"""Rows of 3-D and depthwise convolution, 3-D and argmax pooling, dilation, patches.

Forward results of more geometries are in golden/differential/nn_convolution.json.
"""

import numpy as np

import sparkflow_runtime.ops.all  # noqa: F401 - gradients are made of ops of other families
from sparkflow_runtime.dtypes import float64
from support.op_cases import OpCase, WrongShapeCase

RNG = np.random.default_rng(5)
SOLID = RNG.integers(-8, 9, (2, 4, 3, 3, 2)) / 4
SOLID_FILTERS = RNG.integers(-4, 5, (2, 2, 1, 2, 3)) / 4
DISTINCT_SOLID = RNG.permutation(2 * 4 * 3 * 3).reshape(1, 4, 3, 3, 2) / 16 - 2
IMAGES = RNG.integers(-8, 9, (2, 5, 4, 2)) / 4
DEEP_FILTERS = RNG.integers(-4, 5, (3, 2, 2, 2)) / 4
DISTINCT = RNG.permutation(2 * 5 * 4 * 2).reshape(2, 5, 4, 2) / 16 - 2
UNEVEN = RNG.permutation(3 * 2 * 2).reshape(3, 2, 2) / 1000
NDHWC = {"strides": [1, 1, 1, 1, 1], "padding": "VALID"}


def ints(*values):
    return np.array(values, np.int32)


def solid_convolved(x, f):
    """Valid convolution by its definition."""
    counts = [n - k + 1 for n, k in zip(x.shape[1:4], f.shape[:3], strict=True)]
    result = np.zeros((len(x), *counts, f.shape[4]), x.dtype)
    for z in range(f.shape[0]):
        for y in range(f.shape[1]):
            for w in range(f.shape[2]):
                part = x[:, z : z + counts[0], y : y + counts[1], w : w + counts[2]]
                result += part @ f[z, y, w]
    return result


def deep_convolved(x, f):
    """Valid depthwise convolution by its definition."""
    rows, columns = x.shape[1] - f.shape[0] + 1, x.shape[2] - f.shape[1] + 1
    result = np.zeros((len(x), rows, columns, f.shape[2], f.shape[3]), x.dtype)
    for y in range(f.shape[0]):
        for w in range(f.shape[1]):
            part = x[:, y : y + rows, w : w + columns]
            result += part[..., None] * f[y, w]
    return result.reshape(len(x), rows, columns, -1)


def solid_pooled(combine):
    def pooled(x):
        windows = [
            x[:, z : z + 2, y : y + 2, w : w + 2].reshape(len(x), 8, -1)
            for z in range(3)
            for y in range(2)
            for w in range(2)
        ]
        stacked = np.stack([combine(window, axis=1) for window in windows], 1)
        return stacked.reshape(len(x), 3, 2, 2, -1)

    return pooled


def patches(x):
    """All 2 x 3 windows."""
    parts = [
        x[:, y : y + x.shape[1] - 1, w : w + x.shape[2] - 2] for y in range(2) for w in range(3)
    ]
    return np.concatenate(parts, -1)


def dilated(x, f):
    rows, columns = x.shape[1] - f.shape[0] + 1, x.shape[2] - f.shape[1] + 1
    parts = [
        x[:, y : y + rows, w : w + columns] + f[y, w]
        for y in range(f.shape[0])
        for w in range(f.shape[1])
    ]
    return np.max(parts, axis=0)


def argmax_pooled(x):
    """The maxima of 2 x 2 windows and their positions, one by one."""
    batch, height, width, channels = x.shape
    places = np.arange(height * width * channels).reshape(height, width, channels)
    values = np.zeros((batch, height - 1, width - 1, channels), x.dtype)
    found = np.zeros(values.shape, np.int64)
    for b, i, j, c in np.ndindex(*values.shape):
        window = x[b, i : i + 2, j : j + 2, c]
        values[b, i, j, c] = window.max()
        found[b, i, j, c] = places[i : i + 2, j : j + 2, c].ravel()[window.argmax()]
    return values, found


BOTH = {"gradient": (0, 1), "second_order": True}
ONE = {"gradient": (0,), "second_order": True}
ROUND = {"rtol": 3e-6, "atol": 1e-6}
POOL_3D = {"ksize": [1, 2, 2, 2, 1], **NDHWC}
SAME_3D = {"ksize": [1, 2, 2, 2, 1], "strides": [1, 2, 1, 2, 1], "padding": "SAME"}
FLAT = {"strides": [1, 1, 1, 1], "padding": "VALID"}
DILATED = {"strides": [1, 1, 1, 1], "rates": [1, 1, 1, 1], "padding": "VALID"}
ARGMAX = {"ksize": [1, 2, 2, 1], "strides": [1, 1, 1, 1], "padding": "VALID"}
ARGMAX_GRAD = np.ones((2, 4, 3, 2)) / 4
PLACES = argmax_pooled(DISTINCT)[1]

CASES = [
    OpCase("Conv3D", [SOLID, SOLID_FILTERS], NDHWC, solid_convolved, **BOTH, **ROUND),
    OpCase(
        "Conv3D",
        [SOLID, SOLID_FILTERS],
        {"strides": [1, 2, 1, 2, 1], "padding": "SAME", "dilations": [1, 1, 2, 1, 1]},
        **BOTH,
    ),
    OpCase(
        "Conv3D",
        [SOLID.transpose(0, 4, 1, 2, 3), SOLID_FILTERS],
        {**NDHWC, "data_format": "NCDHW"},
        lambda x, f: solid_convolved(x.transpose(0, 2, 3, 4, 1), f).transpose(0, 4, 1, 2, 3),
        **BOTH,
        **ROUND,
    ),
    OpCase(
        "Conv3DBackpropInputV2",
        [ints(2, 4, 3, 3, 2), SOLID_FILTERS, np.ones((2, 3, 2, 3, 3)) / 4],
        NDHWC,
        gradient=(1, 2),
    ),
    OpCase(
        "Conv3DBackpropFilterV2",
        [SOLID, ints(2, 2, 1, 2, 3), np.ones((2, 3, 2, 3, 3)) / 4],
        NDHWC,
        gradient=(0, 2),
    ),
    OpCase("DepthwiseConv2dNative", [IMAGES, DEEP_FILTERS], FLAT, deep_convolved, **BOTH, **ROUND),
    OpCase(
        "DepthwiseConv2dNative",
        [IMAGES, DEEP_FILTERS],
        {"strides": [1, 2, 2, 1], "padding": "SAME"},
        **BOTH,
    ),
    OpCase(
        "DepthwiseConv2dNative",
        [IMAGES.transpose(0, 3, 1, 2), DEEP_FILTERS],
        {**FLAT, "data_format": "NCHW"},
        lambda x, f: deep_convolved(x.transpose(0, 2, 3, 1), f).transpose(0, 3, 1, 2),
        **BOTH,
        **ROUND,
    ),
    OpCase(
        "DepthwiseConv2dNativeBackpropInput",
        [ints(2, 5, 4, 2), DEEP_FILTERS, np.ones((2, 3, 3, 4)) / 4],
        FLAT,
        gradient=(1, 2),
    ),
    OpCase(
        "DepthwiseConv2dNativeBackpropFilter",
        [IMAGES, ints(3, 2, 2, 2), np.ones((2, 3, 3, 4)) / 4],
        FLAT,
        gradient=(0, 2),
    ),
    OpCase("MaxPool3D", [DISTINCT_SOLID], POOL_3D, solid_pooled(np.max), **ONE),
    OpCase("MaxPool3D", [DISTINCT_SOLID], SAME_3D, **ONE),
    OpCase("AvgPool3D", [DISTINCT_SOLID], POOL_3D, solid_pooled(np.mean), **ONE, **ROUND),
    OpCase("AvgPool3D", [DISTINCT_SOLID], SAME_3D, **ONE),
    OpCase(
        "MaxPool3DGrad",
        [DISTINCT_SOLID, solid_pooled(np.max)(DISTINCT_SOLID), np.ones((1, 3, 2, 2, 2)) / 4],
        POOL_3D,
        gradient=(2,),
        dtypes=[float64],
    ),
    OpCase(
        "MaxPool3DGradGrad",
        [DISTINCT_SOLID, solid_pooled(np.max)(DISTINCT_SOLID), DISTINCT_SOLID],
        POOL_3D,
        gradient=(2,),
    ),
    OpCase(
        "AvgPool3DGrad",
        [ints(1, 4, 3, 3, 2), np.ones((1, 3, 2, 2, 2)) / 4],
        POOL_3D,
        gradient=(1,),
    ),
    OpCase("MaxPoolWithArgmax", [DISTINCT], ARGMAX, argmax_pooled, gradient=(0,)),
    OpCase(
        "MaxPoolWithArgmax",
        [DISTINCT],
        {**ARGMAX, "include_batch_in_index": True},
        lambda x: (
            argmax_pooled(x)[0],
            argmax_pooled(x)[1] + np.arange(2).reshape(2, 1, 1, 1) * 40,
        ),
        gradient=(0,),
    ),
    OpCase("MaxPoolGradWithArgmax", [DISTINCT, ARGMAX_GRAD, PLACES], ARGMAX),
    OpCase("MaxPoolGradGradWithArgmax", [DISTINCT, DISTINCT, PLACES], ARGMAX),
    OpCase("Dilation2D", [DISTINCT, UNEVEN], DILATED, dilated, gradient=(0, 1), **ROUND),
    OpCase(
        "Dilation2D",
        [DISTINCT, UNEVEN],
        {"strides": [1, 2, 1, 1], "rates": [1, 1, 2, 1], "padding": "SAME"},
        gradient=(0, 1),
    ),
    OpCase("Dilation2DBackpropInput", [DISTINCT, UNEVEN, np.ones((2, 3, 3, 2))], DILATED),
    OpCase("Dilation2DBackpropFilter", [DISTINCT, UNEVEN, np.ones((2, 3, 3, 2))], DILATED),
    OpCase(
        "ExtractImagePatches",
        [IMAGES],
        {"ksizes": [1, 2, 3, 1], **DILATED},
        patches,
        **ONE,
    ),
    OpCase(
        "ExtractImagePatches",
        [IMAGES],
        {
            "ksizes": [1, 2, 2, 1],
            "strides": [1, 2, 1, 1],
            "rates": [1, 2, 1, 1],
            "padding": "SAME",
        },
        **ONE,
    ),
    OpCase(
        "ExtractVolumePatches",
        [SOLID],
        {"ksizes": [1, 1, 1, 1, 1], "strides": [1, 1, 1, 1, 1], "padding": "VALID"},
        lambda x: x,
        **ONE,
    ),
    OpCase(
        "ExtractVolumePatches",
        [SOLID],
        {"ksizes": [1, 2, 2, 3, 1], "strides": [1, 2, 1, 1, 1], "padding": "SAME"},
        **ONE,
    ),
]

WRONG_SHAPES = [
    WrongShapeCase(
        "Conv3D",
        [(1, 4, 4, 4, 3), (2, 2, 2, 4, 1)],
        {"strides": [1, 1, 1, 1, 1], "padding": "VALID"},
        message="Depth of input (3) is not a multiple of input depth of filter (4): "
        "input shape [1,4,4,4,3] with channels last, filter shape [2,2,2,4,1]",
    ),
    WrongShapeCase(
        "MaxPool3D",
        [(1, 4, 4, 3)],
        POOL_3D,
        message="Shape must be rank 5 but is rank 4: input has shape (1, 4, 4, 3)",
    ),
    WrongShapeCase(
        "DepthwiseConv2dNative",
        [(1, 4, 4, 3), (2, 2, 4, 1)],
        FLAT,
        message="Dimensions must be equal, but are 3 and 4 for input shape [1,4,4,3] and filter "
        "shape [2,2,4,1]",
    ),
]
