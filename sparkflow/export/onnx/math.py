"""Arithmetic, comparisons, products and reductions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from sparkflow.export.onnx.table import TABLE, Conversion, Node, converts

SAME: Final = {
    "Abs": "Abs", "Acos": "Acos", "Acosh": "Acosh", "Asin": "Asin", "Asinh": "Asinh",
    "Atan": "Atan", "Atanh": "Atanh", "Ceil": "Ceil", "Cos": "Cos", "Cosh": "Cosh", "Exp": "Exp",
    "Floor": "Floor", "Log": "Log", "Neg": "Neg", "Reciprocal": "Reciprocal", "Inv": "Reciprocal",
    "Rint": "Round", "Sign": "Sign", "Sin": "Sin", "Sinh": "Sinh", "Sqrt": "Sqrt", "Tan": "Tan",
    "Tanh": "Tanh", "Sigmoid": "Sigmoid", "Erf": "Erf", "IsNan": "IsNaN", "IsInf": "IsInf",
    "LogicalNot": "Not", "LogicalAnd": "And", "LogicalOr": "Or",
    "Add": "Add", "AddV2": "Add", "Sub": "Sub", "Mul": "Mul", "RealDiv": "Div", "Pow": "Pow",
    "Equal": "Equal", "Greater": "Greater", "GreaterEqual": "GreaterOrEqual", "Less": "Less",
    "LessEqual": "LessOrEqual", "Maximum": "Max", "Minimum": "Min", "AddN": "Sum",
    "Relu": "Relu", "Elu": "Elu", "Selu": "Selu", "Softplus": "Softplus", "Softsign": "Softsign",
    "Identity": "Identity", "StopGradient": "Identity", "PreventGradient": "Identity",
    "Snapshot": "Identity", "CheckNumerics": "Identity", "PlaceholderWithDefault": "Identity",
}  # fmt: skip
"""Ops that ONNX has with the same inputs and the same meaning."""


def _same(op_type: str) -> Conversion:
    return lambda node: [node.emit(op_type)]


for _name, _op_type in SAME.items():
    TABLE[_name] = _same(_op_type)


@converts("Round")
def _round(node: Node) -> Sequence[str]:
    # ONNX rounds halves to even as TensorFlow does, but knows no integers.
    return node.inputs if node.dtype().kind in "iu" else [node.emit("Round")]


@converts("Square")
def _square(node: Node) -> Sequence[str]:
    return [node.emit("Mul", [node.inputs[0]] * 2)]


@converts("Rsqrt")
def _rsqrt(node: Node) -> Sequence[str]:
    return [node.emit("Reciprocal", [node.emit("Sqrt")])]


@converts("Log1p")
def _log1p(node: Node) -> Sequence[str]:
    return [node.emit("Log", [node.emit("Add", [*node.inputs, node.constant(1, node.dtype())])])]


@converts("Expm1")
def _expm1(node: Node) -> Sequence[str]:
    return [node.emit("Sub", [node.emit("Exp"), node.constant(1, node.dtype())])]


@converts("Erfc")
def _erfc(node: Node) -> Sequence[str]:
    return [node.emit("Sub", [node.constant(1, node.dtype()), node.emit("Erf")])]


@converts("SquaredDifference")
def _squared_difference(node: Node) -> Sequence[str]:
    return [node.emit("Mul", [node.emit("Sub")] * 2)]


@converts("NotEqual")
def _not_equal(node: Node) -> Sequence[str]:
    return [node.emit("Not", [node.emit("Equal")])]


@converts("LogicalXor")
def _logical_xor(node: Node) -> Sequence[str]:
    return [node.emit("Xor")]


@converts("IsFinite")
def _is_finite(node: Node) -> Sequence[str]:
    return [node.emit("Not", [node.emit("Or", [node.emit("IsNaN"), node.emit("IsInf")])])]


@converts("Div", "TruncateDiv")
def _divide(node: Node) -> Sequence[str]:
    return [node.emit("Div")]  # of integers: towards zero, as in TensorFlow


@converts("DivNoNan")
def _divide_no_nan(node: Node) -> Sequence[str]:
    zero = node.constant(0, node.dtype())
    return [
        node.emit("Where", [node.emit("Equal", [node.inputs[1], zero]), zero, node.emit("Div")])
    ]


@converts("Xdivy", "Xlogy")
def _zero_where_zero(node: Node) -> Sequence[str]:
    zero = node.constant(0, node.dtype())
    x, y = node.inputs
    found = (
        node.emit("Div") if node.type == "Xdivy" else node.emit("Mul", [x, node.emit("Log", [y])])
    )
    return [node.emit("Where", [node.emit("Equal", [x, zero]), zero, found])]


@converts("FloorDiv")
def _floor_divide(node: Node) -> Sequence[str]:
    if node.dtype().kind == "f":
        return [node.emit("Floor", [node.emit("Div")])]
    remainder = node.emit("Mod")  # has the sign of the divisor
    return [node.emit("Div", [node.emit("Sub", [node.inputs[0], remainder]), node.inputs[1]])]


@converts("FloorMod")
def _floor_modulo(node: Node) -> Sequence[str]:
    if node.dtype().kind != "f":
        return [node.emit("Mod")]
    whole = node.emit("Floor", [node.emit("Div")])
    return [node.emit("Sub", [node.inputs[0], node.emit("Mul", [whole, node.inputs[1]])])]


@converts("Mod", "TruncateMod")
def _truncated_modulo(node: Node) -> Sequence[str]:
    return [node.emit("Mod", fmod=1)]


@converts("ClipByValue")
def _clip_by_value(node: Node) -> Sequence[str]:
    x, low, high = node.inputs
    return [node.emit("Min", [node.emit("Max", [x, low]), high])]


@converts("MatMul")
def _matmul(node: Node) -> Sequence[str]:
    flags = node.attr("transpose_a"), node.attr("transpose_b")
    return [node.emit("MatMul", _swapped(node, flags))]


@converts("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3")
def _batch_matmul(node: Node) -> Sequence[str]:
    return [node.emit("MatMul", _swapped(node, (node.attr("adj_x"), node.attr("adj_y"))))]


def _swapped(node: Node, flags: tuple[bool, bool]) -> list[str]:
    """The factors, those that are flagged with their last two dimensions swapped."""
    found = []
    for index, (name, flag) in enumerate(zip(node.inputs, flags, strict=True)):
        rank = len(node.shape(index)) if flag else 0
        perm = [*range(rank - 2), rank - 1, rank - 2]
        found.append(node.emit("Transpose", [name], perm=perm) if flag else name)
    return found


@converts("Einsum")
def _einsum(node: Node) -> Sequence[str]:
    equation = node.attr("equation")
    return [node.emit("Einsum", equation=equation)]


REDUCTIONS: Final = {
    "Sum": "ReduceSum", "Mean": "ReduceMean", "Max": "ReduceMax", "Min": "ReduceMin",
    "Prod": "ReduceProd", "EuclideanNorm": "ReduceL2",
}  # fmt: skip


@converts(*REDUCTIONS)
def _reduce(node: Node) -> Sequence[str]:
    return [_reduced(node, REDUCTIONS[node.type], node.inputs[0])]


@converts("All", "Any")
def _reduce_logical(node: Node) -> Sequence[str]:
    as_integers = node.cast(node.inputs[0], np.int32)
    op_type = "ReduceMin" if node.type == "All" else "ReduceMax"
    return [node.cast(_reduced(node, op_type, as_integers), np.bool_)]


def _reduced(node: Node, op_type: str, name: str) -> str:
    axes = node.integers(*np.atleast_1d(node.value(1)).tolist())
    return node.emit(
        op_type,
        [name, axes],
        keepdims=int(node.attr("keep_dims")),
        noop_with_empty_axes=1,
    )


@converts("ArgMax", "ArgMin")
def _arg_extreme(node: Node) -> Sequence[str]:
    found = node.emit(node.type, node.inputs[:1], axis=int(node.value(1)), keepdims=0)
    return [found if node.output_dtype() == np.int64 else node.cast(found, node.output_dtype())]


@converts("Cumsum")
def _cumsum(node: Node) -> Sequence[str]:
    return [
        node.emit(
            "CumSum", exclusive=int(node.attr("exclusive")), reverse=int(node.attr("reverse"))
        )
    ]


@converts("TopKV2")
def _top_k(node: Node) -> Sequence[str]:
    count = node.emit("Reshape", [node.as_int64(1), node.integers(1)])
    values, indices = node.emit_several("TopK", 2, [node.inputs[0], count], axis=-1)
    return [values, node.cast(indices, node.output_dtype(1))]
