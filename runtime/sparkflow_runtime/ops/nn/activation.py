"""Activation functions and the ops of their gradients, stable for large arguments.

Gradients of `Tanh`, `Sigmoid`, `Relu`, `Relu6`, `Elu` and `Selu` are computed from the output, so
that the input need not be kept; the others from the input. Functions of whole rows are in
`softmax`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sparkflow_runtime.dtypes import COMPLEX, FLOATING, REAL, float32
from sparkflow_runtime.ops.builder import GraphBuilder, OperationView, Tensor
from sparkflow_runtime.ops.composition import Composed
from sparkflow_runtime.ops.elementwise.elementwise_table import ElementwiseOp, binary, enter, unary
from sparkflow_runtime.ops.inference import merged, same_as
from sparkflow_runtime.ops.op import Array, Op
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import float_attr, type_attr

_FIELD = FLOATING | COMPLEX
# Klambauer et al., Self-Normalizing Neural Networks, 2017, equation 14.
_SELU_SCALE = 1.0507009873554804934193349852946
_SELU_ALPHA = 1.6732632423543772848170429916717
_SELU_FLOOR = _SELU_SCALE * _SELU_ALPHA

# The kernels below avoid `where`: on random signs numpy's takes ten times as long as a
# minimum, a maximum or a product with a mask (0.65 against 0.07 ms for 128 x 1024 float32,
# November 2026). Literals have the dtype of the array, since numpy 1 widens scalars otherwise.


def _sigmoid(xp: Any, x: Array, out: Array | None = None) -> Array:
    one = x.dtype.type(1)
    power = xp.exp(xp.negative(x, out=out), out=out)  # inf at worst, and the quotient is then 0
    return xp.divide(one, xp.add(one, power, out=out), out=out)


def _tanh_grad(xp: Any, y: Array, dy: Array, out: Array | None = None) -> Array:
    slope = xp.subtract(y.dtype.type(1), xp.multiply(y, y, out=out), out=out)
    return xp.multiply(dy, slope, out=out)


def _sigmoid_grad_gradient(g: Any, y: Any, dy: Any, z: Any, grad: Any) -> tuple[Any, Any]:
    scaled = g.Mul(grad, dy)
    return g.Sub(scaled, g.Mul(g.Mul(scaled, 2.0), y)), g.SigmoidGrad(y, grad)


def _tanh_grad_gradient(g: Any, y: Any, dy: Any, z: Any, grad: Any) -> tuple[Any, Any]:
    return g.Mul(g.Mul(grad, dy), g.Mul(y, -2.0)), g.TanhGrad(y, grad)


# Unlike `SqrtGrad` and similar ops, these two leave conjugating a complex y to their caller.
unary(
    "Tanh",
    _FIELD,
    "tanh(x)",
    lambda g, x, y, dy: g.TanhGrad(y, dy),
    flops=1,
)
unary(
    "Sigmoid",
    _FIELD,
    "sigmoid(x)",
    lambda g, x, y, dy: g.SigmoidGrad(y, dy),
    kernel=_sigmoid,
    flops=1,
)
binary(
    "TanhGrad",
    _FIELD,
    "dy * (1 - y * y)",
    _tanh_grad_gradient,
    kernel=_tanh_grad,
    inputs="y: T, dy: T",
)
binary(
    "SigmoidGrad",
    _FIELD,
    "dy * y * (1 - y)",
    _sigmoid_grad_gradient,
    inputs="y: T, dy: T",
)


class ActivationOp(ElementwiseOp):
    """One input, called features, one output of the same shape and dtype."""

    inputs = "features: T"
    outputs = "activations: T"
    infer = same_as(0)


class ActivationGradOp(ElementwiseOp):
    """The incoming gradient times the derivative at the features."""

    inputs = "gradients: T, features: T"
    outputs = "backprops: T"
    infer = merged


def _relu(xp: Any, x: Array, out: Array | None = None) -> Array:
    return xp.maximum(x, x.dtype.type(0), out=out)


def _relu6(xp: Any, x: Array, out: Array | None = None) -> Array:
    return xp.minimum(xp.maximum(x, x.dtype.type(0), out=out), x.dtype.type(6), out=out)


def _elu(xp: Any, x: Array) -> Array:
    zero = x.dtype.type(0)
    return xp.maximum(x, zero) + xp.expm1(xp.minimum(x, zero))


def _selu(xp: Any, x: Array) -> Array:
    kind = x.dtype.type
    above = xp.maximum(x, kind(0)) * kind(_SELU_SCALE)
    return above + xp.expm1(xp.minimum(x, kind(0))) * kind(_SELU_FLOOR)


def _softplus(xp: Any, x: Array) -> Array:
    return xp.maximum(x, x.dtype.type(0)) + xp.log1p(xp.exp(-xp.absolute(x)))


def _softsign(xp: Any, x: Array, out: Array | None = None) -> Array:
    return xp.divide(x, xp.add(xp.absolute(x, out=out), x.dtype.type(1), out=out), out=out)


def _relu_grad(xp: Any, gradients: Array, features: Array, out: Array | None = None) -> Array:
    return xp.multiply(gradients, xp.greater(features, 0, out=out), out=out)


def _elu_grad(xp: Any, gradients: Array, outputs: Array, out: Array | None = None) -> Array:
    kind = outputs.dtype.type
    slope = xp.add(xp.minimum(outputs, kind(0), out=out), kind(1), out=out)
    return xp.multiply(gradients, slope, out=out)


def _softplus_grad(xp: Any, gradients: Array, features: Array, out: Array | None = None) -> Array:
    power = xp.exp(xp.negative(features, out=out), out=out)
    return xp.divide(gradients, xp.add(power, features.dtype.type(1), out=out), out=out)


def _softsign_grad(xp: Any, gradients: Array, features: Array, out: Array | None = None) -> Array:
    size = xp.add(xp.absolute(features, out=out), features.dtype.type(1), out=out)
    return xp.divide(gradients, xp.square(size, out=out), out=out)


def _from_output(op_type: str) -> Any:
    """The gradient of an activation from the incoming gradient and the activation's output."""

    def gradient(op: Op, g: Any, node: OperationView, dy: Tensor) -> Sequence[Tensor]:
        return [getattr(g, op_type)(dy, node.outputs[0])]

    return gradient


def _from_input(op_type: str) -> Any:
    """The same with the activation's input."""

    def gradient(op: Op, g: Any, node: OperationView, dy: Tensor) -> Sequence[Tensor]:
        return [getattr(g, op_type)(dy, node.inputs[0])]

    return gradient


def _mask_gradient(op: Op, g: Any, node: OperationView, grad: Tensor) -> Sequence[Tensor]:
    """The gradient of a gradient op that is piecewise constant in the features."""
    features = node.inputs[1]
    return [getattr(g, op.op_type)(grad, features), g.ZerosLike(features)]


def _output_gradient(op: Op, g: Any, node: OperationView, grad: Tensor) -> Sequence[Tensor]:
    """The gradient of `EluGrad` and `SeluGrad`, whose derivative by a negative output is 1."""
    gradients, outputs = node.inputs
    slope = g.SelectV2(g.Less(outputs, 0.0), g.Mul(grad, gradients), 0.0)
    return [getattr(g, op.op_type)(grad, outputs), slope]


def _softplus_grad_gradient(op: Op, g: Any, node: OperationView, grad: Tensor) -> Sequence[Tensor]:
    gradients, features = node.inputs
    bell = g.Add(g.Add(g.Exp(g.Neg(features)), 2.0), g.Exp(features))
    return [g.SoftplusGrad(grad, features), g.RealDiv(g.Mul(grad, gradients), bell)]


_REAL = {"T": type_attr(REAL)}
_FLOATING = {"T": type_attr(FLOATING)}
_FROM_OUTPUTS = "gradients: T, outputs: T"

enter(
    ActivationOp,
    "Relu",
    _REAL,
    "maximum(features, 0)",
    kernel=_relu,
    gradient=_from_output("ReluGrad"),
    flops=1,
)

for _name, _attrs, _kernel, _expression, _gradient in (
    ("Relu6", _REAL, _relu6, "minimum(maximum(features, 0), 6)", _from_output("Relu6Grad")),
    (
        "Elu",
        _FLOATING,
        _elu,
        "where(features > 0, features, expm1(features))",
        _from_output("EluGrad"),
    ),
    (
        "Selu",
        _FLOATING,
        _selu,
        f"where(features > 0, {_SELU_SCALE} * features, {_SELU_FLOOR} * expm1(features))",
        _from_output("SeluGrad"),
    ),
    (
        "Softplus",
        _FLOATING,
        _softplus,
        "maximum(features, 0) + log1p(exp(-absolute(features)))",
        _from_input("SoftplusGrad"),
    ),
    (
        "Softsign",
        _FLOATING,
        _softsign,
        "features / (absolute(features) + 1)",
        _from_input("SoftsignGrad"),
    ),
):
    enter(ActivationOp, _name, _attrs, _expression, kernel=_kernel, gradient=_gradient)

enter(
    ActivationGradOp,
    "ReluGrad",
    _REAL,
    "gradients * (features > 0)",
    kernel=_relu_grad,
    gradient=_mask_gradient,
    flops=2,
)
enter(
    ActivationGradOp,
    "Relu6Grad",
    _REAL,
    "gradients * ((features > 0) & (features < 6))",
    gradient=_mask_gradient,
)
enter(
    ActivationGradOp,
    "EluGrad",
    _FLOATING,
    "gradients * (minimum(outputs, 0) + 1)",
    kernel=_elu_grad,
    gradient=_output_gradient,
    inputs=_FROM_OUTPUTS,
)
enter(
    ActivationGradOp,
    "SeluGrad",
    _FLOATING,
    f"gradients * where(outputs < 0, outputs + {_SELU_FLOOR}, {_SELU_SCALE})",
    gradient=_output_gradient,
    inputs=_FROM_OUTPUTS,
)
enter(
    ActivationGradOp,
    "SoftplusGrad",
    _FLOATING,
    "gradients / (exp(-features) + 1)",
    kernel=_softplus_grad,
    gradient=_softplus_grad_gradient,
)
enter(
    ActivationGradOp,
    "SoftsignGrad",
    _FLOATING,
    "gradients / ((absolute(features) + 1) * (absolute(features) + 1))",
    kernel=_softsign_grad,
    gradient=None,  # as in TensorFlow
)


@register
class LeakyRelu(Composed):
    """The features where positive, `alpha` times the features elsewhere."""

    elementwise = True
    inputs = "features: T"
    outputs = "activations: T"
    attrs = {"alpha": float_attr(0.2), "T": type_attr(FLOATING, float32)}

    def define(self, g: Any, features: Tensor, *, alpha: float) -> Tensor:
        """The sum of both sides."""
        slope = np.float32(alpha)  # attributes are float32 in a GraphDef: same result without one
        return g.Add(g.Maximum(features, 0.0), g.Mul(g.Minimum(features, 0.0), slope))

    def gradient(
        self, g: GraphBuilder, op: OperationView, *grads: Tensor | None
    ) -> Sequence[Tensor]:
        """`LeakyReluGrad` at the input."""
        return [g.LeakyReluGrad(grads[0], op.inputs[0], alpha=op.attr("alpha"))]


@register
class LeakyReluGrad(Composed):
    """The gradients where the features are positive, `alpha` times the gradients elsewhere."""

    elementwise = True
    inputs = "gradients: T, features: T"
    outputs = "backprops: T"
    attrs = {"alpha": float_attr(0.2), "T": type_attr(FLOATING, float32)}
    infer = merged

    def define(self, g: Any, gradients: Tensor, features: Tensor, *, alpha: float) -> Tensor:
        """A choice."""
        below = g.Mul(gradients, np.float32(alpha))
        return g.SelectV2(g.Greater(features, 0.0), gradients, below)

    def gradient(
        self, g: GraphBuilder, op: OperationView, *grads: Tensor | None
    ) -> Sequence[Tensor]:
        """Linear in the gradients; nothing through the features."""
        features = op.inputs[1]
        alpha = op.attr("alpha")
        return [g.LeakyReluGrad(grads[0], features, alpha=alpha), g.ZerosLike(features)]
