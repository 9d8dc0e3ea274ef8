"""Arithmetic, comparisons, products and reductions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from sparkflow.export.onnx.table import TABLE, Conversion, Node, converts

DType = np.dtype[Any]

SAME: Final = {
    "Abs": "Abs", "Acos": "Acos", "Acosh": "Acosh", "Asin": "Asin", "Asinh": "Asinh",
    "Atan": "Atan", "Atanh": "Atanh", "Ceil": "Ceil", "Cos": "Cos", "Cosh": "Cosh", "Exp": "Exp",
    "Floor": "Floor", "Log": "Log", "Neg": "Neg", "Reciprocal": "Reciprocal", "Inv": "Reciprocal",
    "Rint": "Round", "Sign": "Sign", "Sin": "Sin", "Sinh": "Sinh", "Sqrt": "Sqrt", "Tan": "Tan",
    "Tanh": "Tanh", "Sigmoid": "Sigmoid", "Erf": "Erf", "IsNan": "IsNaN", "IsInf": "IsInf",
    "LogicalNot": "Not", "LogicalAnd": "And", "LogicalOr": "Or",
    "Add": "Add", "AddV2": "Add", "Sub": "Sub", "Mul": "Mul", "RealDiv": "Div",
    "Equal": "Equal", "Greater": "Greater", "GreaterEqual": "GreaterOrEqual", "Less": "Less",
    "LessEqual": "LessOrEqual", "Maximum": "Max", "Minimum": "Min",
    "Relu": "Relu", "Elu": "Elu", "Selu": "Selu", "Softsign": "Softsign",
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


@converts("Pow")
def _power(node: Node) -> Sequence[str]:
    exponent = node.constant_or_none(1)
    if node.dtype().kind == "f":
        return [node.emit("Pow")]
    wide = np.dtype(np.float32)  # of bfloat16
    if node.dtype().kind in "iu":
        if exponent is not None and exponent.ndim == 0 and exponent > 0:
            return [_product_of(node, int(exponent))]
        # onnxruntime computes these in float64: exactly up to 2^53. Of short dtypes it has none.
        wide = np.promote_types(node.dtype(), np.int32)
    return [node.cast(node.emit("Pow", [node.cast(x, wide) for x in node.inputs]), node.dtype())]


def _product_of(node: Node, count: int) -> str:
    """The product of so many times the first input, of which the highest bits may be lost."""
    found, square = "", node.inputs[0]
    while True:
        if count & 1:
            found = node.emit("Mul", [found, square]) if found else square
        count >>= 1
        if not count:
            return found
        square = node.emit("Mul", [square, square])


@converts("Rsqrt")
def _rsqrt(node: Node) -> Sequence[str]:
    return [node.emit("Reciprocal", [node.emit("Sqrt")])]


@converts("Log1p")
def _log1p(node: Node) -> Sequence[str]:
    return [_in_float32(node, lambda x, dtype: _log_of_one_and(node, x, dtype))]


@converts("Expm1")
def _expm1(node: Node) -> Sequence[str]:
    def compute(x: str, dtype: DType) -> str:
        # exp(x) - 1 = tanh(x / 2) · (exp(x) + 1), in which nothing cancels near 0.
        half = node.emit("Mul", [x, node.constant(0.5, dtype)])
        above = node.emit("Add", [node.emit("Exp", [x]), node.constant(1, dtype)])
        return node.emit("Mul", [node.emit("Tanh", [half]), above])

    return [_in_float32(node, compute)]


@converts("Softplus")
def _softplus(node: Node) -> Sequence[str]:
    # Runtimes compute ONNX's as log(exp(x) + 1), which is 0 below -17.
    def compute(x: str, dtype: DType) -> str:
        small = node.emit("Exp", [node.emit("Neg", [node.emit("Abs", [x])])])
        positive = node.emit("Max", [x, node.constant(0, dtype)])
        return node.emit("Add", [positive, _log_of_one_and(node, small, dtype)])

    return [_in_float32(node, compute)]


def _in_float32(node: Node, compute: Callable[[str, DType], str]) -> str:
    """What `compute` makes of the input; of a shorter dtype in float32, rounded once."""
    dtype = node.dtype()
    if dtype.itemsize > 2:
        return compute(node.inputs[0], dtype)
    return node.cast(compute(node.cast(node.inputs[0], np.float32), np.dtype(np.float32)), dtype)


def _log_of_one_and(node: Node, x: str, dtype: DType) -> str:
    """log(1 + x), exact near 0: the error of 1 + x is divided out (Kahan; Goldberg 1991)."""
    one = node.constant(1, dtype)
    above = node.emit("Add", [x, one])
    ratio = node.emit("Div", [x, node.emit("Sub", [above, one])])
    # Where 1 is lost in the sum, the ratio is 1, also where it is inf / inf; where x is, 0 / 0.
    ratio = node.emit("Where", [node.emit("Equal", [above, x]), one, ratio])
    found = node.emit("Mul", [node.emit("Log", [above]), ratio])
    return node.emit("Where", [node.emit("Equal", [above, one]), x, found])


# Of a polynomial in t = 1 / (1 + |x| / 2) for log(erfc(|x|) / t) + x², from t^9 down to 1; relative
# error below 1.2e-7 (Press et al., Numerical Recipes in C, 2nd edition, 6.2).
_ERFC: Final = (
    0.17087277, -0.82215223, 1.48851587, -1.13520398, 0.27886807, -0.18628806, 0.09678418,
    0.37409196, 1.00002368, -1.26551223,
)  # fmt: skip


@converts("Erfc")
def _erfc(node: Node) -> Sequence[str]:
    if node.dtype() == np.float64:
        raise node.refusal("it is computed to 7 digits only; cast its input to float32")

    def compute(x: str, dtype: DType) -> str:
        # 1 - erf(x) has no correct digit above 4.
        size = node.emit("Abs", [x])
        half = node.emit("Mul", [size, node.constant(0.5, dtype)])
        t = node.emit("Reciprocal", [node.emit("Add", [half, node.constant(1, dtype)])])
        found = node.constant(_ERFC[0], dtype)
        for each in _ERFC[1:]:
            found = node.emit("Mul", [found, t])
            found = node.emit("Add", [found, node.constant(each, dtype)])
        found = node.emit("Sub", [found, node.emit("Mul", [x, x])])
        found = node.emit("Mul", [node.emit("Exp", [found]), t])
        mirrored = node.emit("Sub", [node.constant(2, dtype), found])
        is_negative = node.emit("Less", [x, node.constant(0, dtype)])
        return node.emit("Where", [is_negative, mirrored, found])

    return [_in_float32(node, compute)]


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
    found = node.emit("Div")  # of integers: towards zero, as in TensorFlow
    if node.type == "Div" or node.dtype().kind in "iu":
        return [found]
    is_negative = node.emit("Less", [found, node.constant(0, node.dtype())])
    sides = [node.emit(op_type, [found]) for op_type in ("Ceil", "Floor")]
    return [node.emit("Where", [is_negative, *sides])]


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
    if node.dtype().kind not in "iu":
        return [node.emit("Floor", [node.emit("Div")])]
    towards_zero = node.emit("Div")
    if node.dtype().kind == "u":
        return [towards_zero]
    zero = node.constant(0, node.dtype())
    is_rounded = node.emit("Not", [node.emit("Equal", [node.emit("Mod"), zero])])
    is_negative = node.emit("Xor", [node.emit("Less", [each, zero]) for each in node.inputs])
    above = node.cast(node.emit("And", [is_rounded, is_negative]), node.dtype())
    return [node.emit("Sub", [towards_zero, above])]


@converts("FloorMod")
def _floor_modulo(node: Node) -> Sequence[str]:
    if node.dtype().kind in "iu":
        return [node.emit("Mod")]
    # x - floor(x / y) · y loses all digits of the remainder where x / y is large.
    zero = node.constant(0, node.dtype())
    remainder = node.emit("Mod", fmod=1)  # has the sign of x
    signs = [node.emit("Less", [each, zero]) for each in (remainder, node.inputs[1])]
    is_zero = node.emit("Equal", [remainder, zero])
    is_right = node.emit("Or", [is_zero, node.emit("Equal", signs)])
    moved = node.emit("Add", [remainder, node.inputs[1]])
    return [node.emit("Where", [is_right, remainder, moved])]


@converts("Mod", "TruncateMod")
def _truncated_modulo(node: Node) -> Sequence[str]:
    return [node.emit("Mod", fmod=1)]


@converts("AddN")
def _add_n(node: Node) -> Sequence[str]:
    if node.dtype().kind not in "iu":
        return [node.emit("Sum")]
    found, *rest = node.inputs
    for each in rest:  # ONNX's Sum knows no integers
        found = node.emit("Add", [found, each])
    return [found]


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
    x, dtype = node.inputs[0], node.dtype()
    if node.attr("T").is_floating:  # a NaN in front would be the extreme in onnxruntime
        worst = node.constant(-np.inf if node.type == "ArgMax" else np.inf, dtype)
        x = node.emit("Where", [node.emit("IsNaN", [x]), worst, x])
    found = node.emit(node.type, [x], axis=int(node.value(1)), keepdims=0)
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
