"""How many floating-point operations a node needs, by TensorFlow's rules, from static shapes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Final

_PER_ELEMENT: Final = {
    **dict.fromkeys(
        [
            "Add",
            "AddV2",
            "Sub",
            "Mul",
            "RealDiv",
            "Maximum",
            "Minimum",
            "Pow",
            "BiasAdd",
            "Reciprocal",
            "Square",
            "Log",
            "Neg",
            "AssignAdd",
            "AssignSub",
            "SquaredDifference",
            "Equal",
            "NotEqual",
            "Less",
            "LessEqual",
            "Greater",
            "GreaterEqual",
            "TruncateDiv",
            "Sqrt",
            "Exp",
            "Tanh",
            "Sigmoid",
            "Relu",
        ],
        1,
    ),
    "Rsqrt": 2,
    "Softmax": 5,
    "ReluGrad": 2,
}
_REDUCTIONS: Final = frozenset({"Sum", "Mean", "ArgMax", "ArgMin", "BiasAddGrad", "Prod", "Max"})
_POOLS: Final = frozenset({"AvgPool", "MaxPool"})


def float_operations(op: Any) -> int:
    """The number of floating-point operations of an `Operation`; 0 where none is known."""
    try:
        return _count(op)
    except _UnknownShape:
        return 0


class _UnknownShape(Exception):
    pass


def _count(op: Any) -> int:
    kind = op.type
    if kind in _PER_ELEMENT:
        return _PER_ELEMENT[kind] * prod(_shape(op.outputs[0]))
    if kind in _REDUCTIONS:
        return prod(_shape(op.inputs[0]))
    if kind == "L2Loss":
        return max(0, 3 * prod(_shape(op.inputs[0])) - 1)
    if kind == "AddN":
        return (len(op.inputs) - 1) * prod(_shape(op.outputs[0]))
    if kind in ("MatMul", "BatchMatMul", "BatchMatMulV2"):
        first = _shape(op.inputs[0])
        transposed = op.attr("transpose_a" if kind == "MatMul" else "adj_x")
        return 2 * first[-2 if transposed else -1] * prod(_shape(op.outputs[0]))
    if kind in ("Conv2D", "Conv3D"):
        return 2 * prod(_shape(op.inputs[1])[:-1]) * prod(_shape(op.outputs[0]))
    if kind == "DepthwiseConv2dNative":
        return 2 * prod(_shape(op.inputs[1])[:-2]) * prod(_shape(op.outputs[0]))
    if kind == "Conv2DBackpropInput":
        return 2 * prod(_shape(op.inputs[1])[:-1]) * prod(_shape(op.inputs[2]))
    if kind == "Conv2DBackpropFilter":
        return 2 * prod(_shape(op.outputs[0])[:-1]) * prod(_shape(op.inputs[2]))
    if kind in _POOLS:
        window: list[int] = op.attr("ksize")
        return prod(window) * prod(_shape(op.outputs[0]))
    return 0


def _shape(tensor: Any) -> Sequence[int]:
    if not tensor.shape.is_fully_defined():
        raise _UnknownShape
    sizes: list[int] = tensor.shape.as_list()
    return sizes
