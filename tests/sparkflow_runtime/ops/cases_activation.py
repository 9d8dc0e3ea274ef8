"""Rows of `activation`."""

import numpy as np

import sparkflow_runtime.ops.all  # noqa: F401 - gradients are made of ops of other families
from sparkflow_runtime import dtypes
from support.op_cases import FailureCase, OpCase, WrongShapeCase

X = np.array([[-3.0, -1.25, -0.5], [0.25, 2.0, 7.5]])
EXTREME = np.array([-1000.0, -100.0, 100.0, 1000.0])
EMPTY = np.zeros((0, 3))
SCALE, ALPHA = 1.0507009873554805, 1.6732632423543772


def relu(x):
    return np.where(x > 0, x, np.zeros_like(x))


def relu6(x):
    return np.clip(x, 0, 6)


def elu(x):
    return np.where(x > 0, x, np.expm1(x))


def selu(x):
    return SCALE * np.where(x > 0, x, ALPHA * np.expm1(x))


def softplus(x):
    return np.log1p(np.exp(x))


def softsign(x):
    return x / (1 + np.abs(x))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


ACTIVATIONS = [
    ("Tanh", np.tanh, True),
    ("Sigmoid", sigmoid, True),
    ("Relu", relu, True),
    ("Relu6", relu6, True),
    ("Elu", elu, True),
    ("Selu", selu, True),
    ("Softplus", softplus, True),
    ("Softsign", softsign, False),
]
CASES = [
    OpCase(op, [x], expected=function, gradient=(0,), second_order=twice and x.size > 1)
    for op, function, twice in ACTIVATIONS
    for x in (X, EMPTY, X[0, 0])
]
CASES += [
    # The extremes, where a naive formula gives nan or 0.
    OpCase("Tanh", [EXTREME], expected=np.array([-1.0, -1, 1, 1]), gradient=(0,)),
    OpCase("Sigmoid", [EXTREME], expected=np.array([0, np.exp(-100), 1, 1]), gradient=(0,)),
    OpCase("Softplus", [EXTREME], expected=np.array([0, np.exp(-100), 100, 1000]), gradient=(0,)),
    OpCase("Elu", [EXTREME], expected=np.array([-1.0, -1, 100, 1000]), gradient=(0,)),
    OpCase(
        "Selu",
        [EXTREME],
        expected=SCALE * np.array([-ALPHA, -ALPHA, 100, 1000]),
        gradient=(0,),
    ),
    OpCase("Elu", [np.array([-1e-9])], expected=np.expm1(np.array([-1e-9]))),
    OpCase("Softsign", [EXTREME], expected=softsign, gradient=(0,), dtypes=[dtypes.float64]),
    OpCase("Relu", [np.array([np.nan, -np.inf, np.inf])], expected=np.array([np.nan, 0, np.inf])),
    OpCase("Relu6", [np.array([np.nan, -np.inf, np.inf])], expected=np.array([np.nan, 0, 6])),
]

DY = np.array([[1.5, -2.0, 0.5], [2.5, 1.0, -3.0]])


def relu_grad(g, x):
    return np.where(x > 0, g, np.zeros_like(g))


def relu6_grad(g, x):
    return np.where((x > 0) & (x < 6), g, np.zeros_like(g))


def elu_grad(g, y):
    return np.where(y < 0, g * (y + 1), g)


def selu_grad(g, y):
    return np.where(y < 0, g * (y + SCALE * ALPHA), g * SCALE)


for x, dy, twice in ((X, DY, True), (EMPTY, EMPTY, False)):
    CASES += [
        OpCase("ReluGrad", [dy, x], expected=relu_grad, gradient=(0, 1), second_order=twice),
        OpCase("Relu6Grad", [dy, x], expected=relu6_grad, gradient=(0, 1), second_order=twice),
        OpCase("EluGrad", [dy, x], expected=elu_grad, gradient=(0, 1), second_order=twice),
        OpCase("SeluGrad", [dy, x], expected=selu_grad, gradient=(0, 1), second_order=twice),
        OpCase(
            "SoftplusGrad",
            [dy, x],
            expected=lambda g, x: g * sigmoid(x),
            gradient=(0, 1),
            second_order=twice,
        ),
        OpCase("SoftsignGrad", [dy, x], expected=lambda g, x: g / (1 + np.abs(x)) ** 2),
        OpCase(
            "TanhGrad",
            [x, dy],
            expected=lambda y, g: g * (1 - y**2),
            gradient=(0, 1),
            second_order=twice,
        ),
        OpCase(
            "SigmoidGrad",
            [x, dy],
            expected=lambda y, g: g * y * (1 - y),
            gradient=(0, 1),
            second_order=twice,
        ),
    ]
ONES = np.ones(4)
CASES += [
    # At the kinks, as in TensorFlow: no gradient.
    OpCase("ReluGrad", [np.ones(2), np.array([0.0, np.nan])], expected=np.zeros(2)),
    OpCase("Relu6Grad", [np.ones(2), np.array([0.0, 6.0])], expected=np.zeros(2)),
    OpCase("EluGrad", [np.ones(1), np.zeros(1)], expected=np.ones(1)),
    OpCase("SeluGrad", [np.ones(1), np.zeros(1)], expected=np.array([SCALE])),
    OpCase("SoftplusGrad", [ONES, EXTREME], expected=np.array([0, np.exp(-100), 1, 1])),
]

for alpha in (0.25, 0.0, 2.0, -0.5):
    CASES += [
        OpCase(
            "LeakyRelu",
            [x],
            {"alpha": alpha},
            expected=lambda x, alpha=alpha: np.where(x > 0, x, alpha * x),
            gradient=(0,),
            second_order=x.size > 0,
        )
        for x in (X, EMPTY)
    ]
    CASES.append(
        OpCase(
            "LeakyReluGrad",
            [DY, X],
            {"alpha": alpha},
            expected=lambda g, x, alpha=alpha: np.where(x > 0, g, alpha * g),
            gradient=(0, 1),
            second_order=True,
        )
    )


def softmax(x):
    powers = np.exp(x - x.max(axis=-1, keepdims=True, initial=-np.inf))
    return powers / powers.sum(axis=-1, keepdims=True)


def log_softmax(x):
    return np.log(softmax(x))


LOGITS = np.array([[0.5, -1.0, 2.0], [1.0, 1.0, -3.0]])
for x in (LOGITS, LOGITS[0], np.stack([LOGITS, LOGITS + 1]), EMPTY, np.zeros((2, 0))):
    CASES += [
        OpCase("Softmax", [x], expected=softmax, gradient=(0,), second_order=x.ndim == 2),
        OpCase("LogSoftmax", [x], expected=log_softmax, gradient=(0,), second_order=x.ndim == 2),
    ]
CASES += [
    OpCase(
        "Softmax",
        [np.array([[1000.0, 0.0], [-np.inf, 0.0]])],
        expected=np.array([[1.0, 0.0], [0.0, 1.0]]),
    ),
    OpCase("LogSoftmax", [np.array([1000.0, 0.0])], expected=np.array([0.0, -1000.0])),
]

WRONG_SHAPES = [
    *(
        WrongShapeCase(
            op,
            [()],
            message=f"The logits of {op} must have at least one dimension, got a scalar",
        )
        for op in ("Softmax", "LogSoftmax")
    ),
    *(
        WrongShapeCase(op, [(2,), (3,)], message="Shapes (2,) and (3,) are not compatible")
        for op in (
            "ReluGrad",
            "Relu6Grad",
            "EluGrad",
            "SeluGrad",
            "SoftplusGrad",
            "SoftsignGrad",
            "LeakyReluGrad",
        )
    ),
]

FAILURES = [
    FailureCase(
        op,
        [np.array(1.0)],
        message=f"The logits of {op} must have at least one dimension, got a scalar",
    )
    for op in ("Softmax", "LogSoftmax")
]
