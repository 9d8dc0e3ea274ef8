"""Rows of `nn.loss` and `nn.bias`."""

import numpy as np

import sparkflow_runtime.ops.all  # noqa: F401 - gradients are made of ops of other families
from sparkflow_runtime import dtypes
from support.op_cases import FailureCase, OpCase, WrongShapeCase

LOGITS = np.array([[-2.5, 0.5, 4.0, 1.0], [1.25, 2.0, -3.5, 0.0], [0.1, 0.2, 0.3, 0.4]])
LABELS = np.array([[0.5, 0.25, 0.25, 0.0], [0.0, 0.0, 0.0, 1.0], [0.25, 0.25, 0.25, 0.25]])
HUGE = np.array([[1e4, -1e4], [3e4, 3e4]])  # their exponentials overflow every dtype
BIAS = np.array([1.5, -2.0, 3.0, 0.25])
IMAGES = np.arange(48.0).reshape(2, 3, 2, 4) / 8 - 2
EMPTY = np.zeros((0, 4))


def ints(*values):
    return np.array(values, np.int32)


def log_softmax(rows):
    rows = rows - rows.max(axis=1, keepdims=True)
    return rows - np.log(np.exp(rows).sum(axis=1, keepdims=True))


def cross_entropy(logits, labels):
    log = log_softmax(logits)
    return -(labels * log).sum(axis=1), np.exp(log) - labels


def sparse_cross_entropy(logits, labels):
    return cross_entropy(logits, np.eye(logits.shape[1])[labels])


def channels_second(value, bias):
    return np.moveaxis(np.moveaxis(value, 1, -1) + bias, -1, 1)


def all_but(axis):
    return lambda dy: dy.sum(axis=tuple(i for i in range(dy.ndim) if i != axis % dy.ndim))


CASES = [
    OpCase(
        "SoftmaxCrossEntropyWithLogits",
        [LOGITS, LABELS],
        expected=cross_entropy,
        gradient=(0,),  # that of labels, in which TensorFlow ignores backprop: test_loss.py
        second_order=True,
        rtol=3e-6,
        atol=1e-6,
    ),
    OpCase(
        "SoftmaxCrossEntropyWithLogits",
        [HUGE, np.eye(2)],
        expected=cross_entropy,
        dtypes=(dtypes.float32, dtypes.float64),
        atol=1e-7,
    ),
    OpCase(  # one row of logits for all rows of labels
        "SoftmaxCrossEntropyWithLogits",
        [LOGITS[:1], LABELS],
        expected=lambda x, y: cross_entropy(np.repeat(x, 3, 0), y),
        rtol=3e-6,
        atol=1e-6,
    ),
    OpCase("SoftmaxCrossEntropyWithLogits", [EMPTY, EMPTY], expected=(np.zeros(0), EMPTY)),
    OpCase(
        "SparseSoftmaxCrossEntropyWithLogits",
        [LOGITS, ints(2, 2, 0)],
        expected=sparse_cross_entropy,
        gradient=(0,),
        second_order=True,
        rtol=3e-6,
        atol=1e-6,
    ),
    OpCase(
        "SparseSoftmaxCrossEntropyWithLogits",
        [HUGE, np.array([0, 1])],
        expected=sparse_cross_entropy,
        dtypes=(dtypes.float32, dtypes.float64),
    ),
    OpCase("SparseSoftmaxCrossEntropyWithLogits", [EMPTY, ints()], expected=(np.zeros(0), EMPTY)),
    *(
        OpCase("BiasAdd", [x, BIAS], expected=np.add, gradient=(0, 1), second_order=True)
        for x in (LOGITS, IMAGES, IMAGES[0])
    ),
    OpCase("BiasAdd", [EMPTY, BIAS], expected=np.add),
    *(
        OpCase(
            "BiasAdd",
            [x, BIAS[: x.shape[1]]],
            {"data_format": "NCHW"},
            expected=channels_second,
            gradient=(0, 1),
            second_order=True,
        )
        for x in (LOGITS, IMAGES, IMAGES[0].reshape(3, 4, 2))
    ),
    *(
        OpCase(
            "BiasAddGrad",
            [x],
            {"data_format": data_format},
            expected=all_but(axis),
            gradient=(0,),
            second_order=True,
            rtol=3e-6,
            dtypes=sorted(
                dtypes.NUMERIC - dtypes.UNSIGNED - {dtypes.int8, dtypes.float16}, key=int
            ),
        )
        for data_format, axis in (("NHWC", -1), ("NCHW", 1))
        for x in (LOGITS, IMAGES)
    ),
    OpCase("BiasAddGrad", [EMPTY], expected=np.zeros(4)),
]

WRONG_SHAPES = [
    WrongShapeCase(
        "SoftmaxCrossEntropyWithLogits",
        [(2, 3), (2, 4)],
        message="Dimensions must be equal, but are 3 and 4 for shapes (2, 3) and (2, 4)",
    ),
    WrongShapeCase(
        "SoftmaxCrossEntropyWithLogits",
        [(3,), (3,)],
        message="Shape must be rank 2 but is rank 1: logits has shape (3,)",
    ),
    WrongShapeCase(
        "SparseSoftmaxCrossEntropyWithLogits",
        [(2, 3), (2, 1)],
        message="Shape must be rank 1 but is rank 2: labels has shape (2, 1)",
    ),
    WrongShapeCase(
        "SparseSoftmaxCrossEntropyWithLogits",
        [(2, 3), (3,)],
        message="logits and labels must have the same first dimension, "
        "got logits shape [2,3] and labels shape [3]",
    ),
    WrongShapeCase(
        "BiasAdd",
        [(2, 4), (3,)],
        message="Dimensions must be equal, but are 4 and 3: Must provide as many biases as the "
        "channel dimension (dimension 1) of the input "
        "tensor: [3] vs. [2,4]",
    ),
    WrongShapeCase(
        "BiasAdd",
        [(2, 4, 5), (5,)],
        {"data_format": "NCHW"},
        message="Dimensions must be equal, but are 4 and 5: Must provide as many biases as the "
        "channel dimension (dimension 1) of the input "
        "tensor: [5] vs. [2,4,5]",
    ),
    WrongShapeCase("BiasAdd", [(4,), (4,)], message="Input tensor must be at least 2D: rank 1"),
    WrongShapeCase("BiasAddGrad", [(4,)], message="Input tensor must be at least 2D: rank 1"),
]

FAILURES = [
    FailureCase(
        "SoftmaxCrossEntropyWithLogits",
        [LOGITS, LABELS[:2]],
        message="logits and labels must be broadcastable: logits_size=[3,4] labels_size=[2,4]",
    ),
    FailureCase(
        "SparseSoftmaxCrossEntropyWithLogits",
        [np.zeros((3, 10)), ints(1, 12, 3)],
        message="Received a label value of 12 which is outside the valid range of [0, 10).  "
        "Label values: 1 12 3",
    ),
    FailureCase(
        "SparseSoftmaxCrossEntropyWithLogits",
        [np.zeros((101, 2)), np.full(101, -1)],
        message="Received a label value of -1 which is outside the valid range of [0, 2).  "
        f"Label values: {'-1 ' * 100}...",
    ),
    FailureCase(
        "SparseSoftmaxCrossEntropyWithLogits",
        [LOGITS, ints(1)],
        message="logits and labels must have the same first dimension, "
        "got logits shape [3,4] and labels shape [1]",
    ),
    FailureCase(
        "SparseSoftmaxCrossEntropyWithLogits",
        [LOGITS, ints([1], [2], [0])],
        message="labels must be 1-D, but got shape [3,1]",
    ),
    FailureCase(
        "BiasAdd",
        [LOGITS, BIAS[:3]],
        message="Must provide as many biases as the channel dimension (dimension 1) of the input "
        "tensor: [3] vs. [3,4]",
    ),
]
