"""Rows of `conv` and `pool`; more geometries are in golden/ops/conv.npz and pool.npz."""

import numpy as np

import sparkflow_runtime.ops.all  # noqa: F401 - gradients are made of ops of other families
from support.op_cases import FailureCase, OpCase, WrongShapeCase

RNG = np.random.default_rng(3)
IMAGES = RNG.integers(-8, 9, (2, 5, 4, 2)) / 4
FILTERS = RNG.integers(-4, 5, (3, 2, 2, 3)) / 4
POINTWISE = RNG.integers(-4, 5, (1, 1, 2, 3)) / 4
# In two groups of channels with two outputs each; drawn separately, so that the others stay.
GROUPED = np.random.default_rng(4).integers(-4, 5, (2, 2, 1, 4)) / 4
MANY = RNG.integers(-4, 5, (2, 2, 1, 12)) / 4  # enough outputs for the other gradient
# No two equal elements, so that a maximum has a numerical gradient.
DISTINCT = RNG.permutation(2 * 5 * 4 * 2).reshape(2, 5, 4, 2) / 16 - 2
NO_IMAGES = np.zeros((0, 5, 4, 2))


def ints(*values):
    return np.array(values, np.int32)


def nchw(images):
    return images.transpose(0, 3, 1, 2)


def nhwc(images):
    return images.transpose(0, 2, 3, 1)


def padding_of(size, window, stride, padding):
    """(before, number of windows) along one dimension, from TensorFlow's documentation."""
    if padding == "VALID":
        return 0, -(-(size - window + 1) // stride)
    count = -(-size // stride)
    return max((count - 1) * stride + window - size, 0) // 2, count


def windows_of(shape, window, strides, padding):
    """For every output row and column: (i, j, [(y, x, row, column) inside the image])."""
    tops, rows = padding_of(shape[1], window[0], strides[0], padding)
    lefts, columns = padding_of(shape[2], window[1], strides[1], padding)
    for i in range(rows):
        for j in range(columns):
            cells = [
                (y, x, i * strides[0] + y - tops, j * strides[1] + x - lefts)
                for y in range(window[0])
                for x in range(window[1])
            ]
            inside = [c for c in cells if 0 <= c[2] < shape[1] and 0 <= c[3] < shape[2]]
            yield i, j, inside


def convolved(images, filters, strides, padding):
    windows = list(windows_of(images.shape, filters.shape[:2], strides, padding))
    rows, columns = windows[-1][0] + 1, windows[-1][1] + 1
    result = np.zeros((images.shape[0], rows, columns, filters.shape[3]), images.dtype)
    for i, j, cells in windows:
        for y, x, row, column in cells:
            result[:, i, j] += images[:, row, column] @ filters[y, x]
    return result


def pooled(images, window, strides, padding, combine):
    windows = list(windows_of(images.shape, window, strides, padding))
    rows, columns = windows[-1][0] + 1, windows[-1][1] + 1
    result = np.zeros((images.shape[0], rows, columns, images.shape[3]), images.dtype)
    for i, j, cells in windows:
        result[:, i, j] = combine([images[:, row, column] for _, _, row, column in cells], axis=0)
    return result


def conv(filters, strides=(1, 1), padding="SAME", images=IMAGES, **more):
    attrs = {"strides": [1, *strides, 1], "padding": padding}
    return OpCase(
        "Conv2D",
        [images, filters],
        attrs,
        expected=lambda x, f: convolved(x, f, strides, padding),
        rtol=3e-6,
        atol=1e-6,
        **more,
    )


def convolved_in_groups(images, filters, strides, padding):
    parts = zip(
        np.split(images, images.shape[-1] // filters.shape[2], axis=-1),
        np.split(filters, images.shape[-1] // filters.shape[2], axis=-1),
        strict=True,
    )
    return np.concatenate([convolved(*part, strides, padding) for part in parts], axis=-1)


def grouped(strides, padding):
    return OpCase(
        "Conv2D",
        [IMAGES, GROUPED],
        {"strides": [1, *strides, 1], "padding": padding},
        expected=lambda x, f: convolved_in_groups(x, f, strides, padding),
        rtol=3e-6,
        atol=1e-6,
        gradient=(0, 1),
    )


def over_channels(data_format):
    first = data_format == "NCHW"
    sizes = [1, 3, 1, 1] if first else [1, 1, 1, 3]
    images = np.arange(2 * 2 * 3 * 6)[::-1].reshape(2, 2, 3, 6) / 8 % 5
    expected = images.reshape(2, 2, 3, 2, 3).max(-1)
    return OpCase(
        "MaxPool",
        [nchw(images) if first else images],
        {"ksize": sizes, "strides": sizes, "padding": "SAME", "data_format": data_format},
        expected=nchw(expected) if first else expected,
        gradient=(0,),
    )


def pool(op, window, strides, padding, images=DISTINCT, **more):
    attrs = {"ksize": [1, *window, 1], "strides": [1, *strides, 1], "padding": padding}
    combine = np.max if op == "MaxPool" else np.mean
    return OpCase(
        op,
        [images],
        attrs,
        expected=lambda x: pooled(x, window, strides, padding, combine),
        rtol=2e-6,
        **more,
    )


BOTH = {"gradient": (0, 1), "second_order": True}
ONE = {"gradient": (0,), "second_order": True}
NCHW = {"data_format": "NCHW"}

CASES = [
    conv(FILTERS, **BOTH),
    conv(FILTERS, (2, 1), "SAME", **BOTH),
    conv(FILTERS, (1, 1), "VALID", **BOTH),
    conv(FILTERS, (3, 2), "VALID", gradient=(0, 1)),
    conv(POINTWISE, gradient=(0, 1)),
    conv(POINTWISE, (2, 2), gradient=(0, 1)),
    conv(MANY, images=IMAGES[..., :1], gradient=(0, 1)),
    OpCase(
        "Conv2D",
        [NO_IMAGES, FILTERS],
        {"strides": [1, 1, 1, 1], "padding": "VALID"},
        expected=np.zeros((0, 3, 3, 3)),
        gradient=(0, 1),
    ),
    OpCase(
        "Conv2D",
        [nchw(IMAGES), FILTERS],
        {"strides": [1, 1, 2, 1], "padding": "SAME", **NCHW},
        expected=lambda x, f: nchw(convolved(nhwc(x), f, (2, 1), "SAME")),
        rtol=3e-6,
        atol=1e-6,
        **BOTH,
    ),
    *(  # a dilated filter is one with zeros between its elements
        OpCase(
            "Conv2D",
            [IMAGES, FILTERS],
            {"strides": [1, *strides, 1], "padding": "SAME", "dilations": [1, 2, 2, 1]},
            expected=lambda x, f, strides=strides: convolved(
                x, np.insert(np.insert(f, (1, 2), 0, axis=0), 1, 0, axis=1), strides, "SAME"
            ),
            rtol=3e-6,
            atol=1e-6,
            **BOTH,
        )
        for strides in ((1, 1), (2, 3))
    ),
    OpCase(  # explicit padding equals padding beforehand
        "Conv2D",
        [IMAGES, FILTERS],
        {
            "strides": [1, 1, 1, 1],
            "padding": "EXPLICIT",
            "explicit_paddings": [0, 0, 3, 1, 0, 2, 0, 0],
        },
        expected=lambda x, f: convolved(
            np.pad(x, ((0, 0), (3, 1), (0, 2), (0, 0))), f, (1, 1), "VALID"
        ),
        rtol=3e-6,
        atol=1e-6,
        **BOTH,
    ),
    *(
        OpCase(
            "Conv2DBackpropInput",
            [ints(2, 5, 4, 2), FILTERS, RNG.integers(-4, 5, (2, *size, 3)) / 4],
            {"strides": [1, *strides, 1], "padding": "SAME"},
            gradient=(1, 2),
        )
        for strides, size in (((1, 1), (5, 4)), ((2, 3), (3, 2)))
    ),
    OpCase(
        "Conv2DBackpropFilter",
        [IMAGES, ints(3, 2, 2, 3), RNG.integers(-4, 5, (2, 3, 2, 3)) / 4],
        {"strides": [1, 2, 2, 1], "padding": "SAME"},
        gradient=(0, 2),
    ),
    *(
        pool(op, window, strides, padding, **ONE)
        for op in ("MaxPool", "AvgPool")
        for window, strides, padding in (
            ((2, 2), (2, 2), "VALID"),
            ((3, 2), (1, 1), "SAME"),
            ((3, 3), (2, 3), "SAME"),
            ((1, 2), (2, 1), "VALID"),
        )
    ),
    *(
        OpCase(
            op,
            [nchw(DISTINCT)],
            {"ksize": [1, 1, 3, 2], "strides": [1, 1, 2, 1], "padding": "SAME", **NCHW},
            expected=lambda x, combine=combine: nchw(
                pooled(nhwc(x), (3, 2), (2, 1), "SAME", combine)
            ),
            rtol=2e-6,
            **ONE,
        )
        for op, combine in (("MaxPool", np.max), ("AvgPool", np.mean))
    ),
    *(
        OpCase(
            op,
            [NO_IMAGES],
            {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "VALID"},
            expected=np.zeros((0, 2, 2, 2)),
            gradient=(0,),
        )
        for op in ("MaxPool", "AvgPool")
    ),
    grouped((1, 1), "SAME"),
    grouped((2, 1), "VALID"),
    over_channels("NHWC"),
    over_channels("NCHW"),
    OpCase(
        "MaxPool",
        [DISTINCT],
        {
            "ksize": [1, 2, 2, 1],
            "strides": [1, 2, 2, 1],
            "padding": "EXPLICIT",
            "explicit_paddings": [0, 0, 1, 0, 0, 1, 0, 0],
        },
        expected=pooled(
            np.pad(DISTINCT, ((0, 0), (1, 0), (0, 1), (0, 0)), constant_values=-1e9),
            (2, 2),
            (2, 2),
            "VALID",
            np.max,
        ),
        gradient=(0,),
    ),
    OpCase(  # the first of equal maxima gets the gradient
        "MaxPoolGrad",
        [np.ones((1, 2, 2, 1)), np.ones((1, 1, 1, 1)), np.full((1, 1, 1, 1), 2.5)],
        {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "VALID"},
        expected=np.array([2.5, 0, 0, 0]).reshape(1, 2, 2, 1),
        gradient=(2,),
    ),
    OpCase(
        "MaxPoolGradGrad",
        [np.ones((1, 2, 2, 1)), np.ones((1, 1, 1, 1)), np.arange(1.5, 5).reshape(1, 2, 2, 1)],
        {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "VALID"},
        expected=np.full((1, 1, 1, 1), 1.5),
        gradient=(2,),
    ),
    OpCase(
        "AvgPoolGrad",
        [ints(1, 3, 1, 1), np.array([3.0, 4.0]).reshape(1, 2, 1, 1)],
        {"ksize": [1, 2, 1, 1], "strides": [1, 2, 1, 1], "padding": "SAME"},
        expected=np.array([1.5, 1.5, 4.0]).reshape(1, 3, 1, 1),
        gradient=(1,),
    ),
]

VALID = {"strides": [1, 1, 1, 1], "padding": "VALID"}
POOL = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "VALID"}

WRONG_SHAPES = [
    WrongShapeCase(
        "Conv2D",
        [(2, 5, 4, 3), (3, 2, 2, 3)],
        VALID,
        message="Depth of input (3) is not a multiple of input depth of filter (2): "
        "input shape [2,5,4,3] with channels last, filter shape [3,2,2,3]",
    ),
    WrongShapeCase(
        "Conv2D",
        [(2, 5, 4, 2), (3, 2, 1, 3)],
        VALID,
        message="Depth of output (3) is not a multiple of the number of groups (2)",
    ),
    WrongShapeCase(
        "Conv2D",
        [(2, 5, 4), (3, 2, 1, 3)],
        VALID,
        message="Shape must be rank 4 but is rank 3: input has shape (2, 5, 4)",
    ),
    WrongShapeCase(
        "Conv2D",
        [(2, 1, 4, 2), (3, 2, 2, 3)],
        VALID,
        message="Computed output size would be negative: -1 "
        "[input_size: 1, effective_filter_size: 3, stride: 1]",
    ),
    WrongShapeCase(
        "Conv2D",
        [None, None],
        {"strides": [1, 1, 1], "padding": "SAME"},
        message="strides must have 4 elements for NHWC, got [1, 1, 1]",
    ),
    WrongShapeCase(
        "Conv2D",
        [None, None],
        {"strides": [2, 1, 1, 1], "padding": "SAME"},
        message="strides over the batch or channel dimension are not supported: "
        "they must be 1 there, got [2, 1, 1, 1] for NHWC",
    ),
    WrongShapeCase(
        "Conv2D",
        [None, None],
        {"strides": [1, 0, 1, 1], "padding": "SAME"},
        message="strides must be positive, got [1, 0, 1, 1]",
    ),
    WrongShapeCase(
        "Conv2D",
        [None, None],
        {**VALID, "explicit_paddings": [0] * 8},
        message="explicit_paddings must be empty if padding is VALID, got [0, 0, 0, 0, 0, 0, 0, 0]",
    ),
    WrongShapeCase(
        "Conv2D",
        [None, None],
        {"strides": [1, 1, 1, 1], "padding": "EXPLICIT"},
        message="explicit_paddings must be 8 numbers that are not negative: before and after "
        "for each dimension; got []",
    ),
    WrongShapeCase(
        "Conv2D",
        [None, None],
        {"strides": [1, 1, 1, 1], "padding": "EXPLICIT", "explicit_paddings": [0, 1] * 4},
        message="explicit_paddings must be 0 for the batch and channel dimensions, "
        "got [0, 1, 0, 1, 0, 1, 0, 1] for NHWC",
    ),
    WrongShapeCase(
        "MaxPool",
        [(2, 5, 4)],
        POOL,
        message="Shape must be rank 4 but is rank 3: input has shape (2, 5, 4)",
    ),
    WrongShapeCase(
        "AvgPool",
        [(2, 5, 4, 2)],
        {**POOL, "ksize": [1, 2, 2, 2]},
        message="ksize over the batch or channel dimension are not supported: "
        "they must be 1 there, got [1, 2, 2, 2] for NHWC",
    ),
]

FAILURES = [
    FailureCase(
        "Conv2D",
        [IMAGES, FILTERS[:, :, :1]],
        VALID,
        message="Depth of output (3) is not a multiple of the number of groups (2)",
    ),
    FailureCase(
        "Conv2D",
        [IMAGES[0], FILTERS],
        VALID,
        message="input must be 4-dimensional, got shape [5,4,2]",
    ),
    FailureCase(
        "Conv2DBackpropInput",
        [ints(2, 5, 4, 2), FILTERS, np.zeros((2, 3, 4, 3))],
        VALID,
        message="out_backprop must have the shape of the convolution's output, [2,3,3,3] "
        "with channels last, but has [2,3,4,3]",
    ),
    FailureCase(
        "Conv2DBackpropFilter",
        [IMAGES, ints(3, 2, 2), np.zeros((2, 3, 3, 3))],
        VALID,
        message="filter_sizes must have 4 elements, got [3,2,2]",
    ),
    FailureCase(
        "MaxPoolGrad",
        [IMAGES, np.zeros((2, 2, 2, 2)), np.zeros((2, 2, 1, 2))],
        POOL,
        message="grad must have shape [2,2,2,2] with channels last, but has [2,2,1,2]",
    ),
    FailureCase(
        "AvgPoolGrad",
        [ints(2, 5, 4), np.zeros((2, 2, 2, 2))],
        POOL,
        message="orig_input_shape must have 4 elements, got [2,5,4]",
    ),
]
