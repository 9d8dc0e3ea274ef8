"""In which dtype an ONNX operator is computed, where its own has no kernel.

Some dtypes ONNX's specification leaves out, others onnxruntime (measured with 1.32 on a CPU).
There a wider dtype is taken that holds the same values: cast back, the result is the same.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

_SMALL: Final = "int8 int16 uint8 uint16"
_UNSIGNED: Final = "uint32 uint64"
_LACKING: Final = {
    "Acos Acosh Asin Asinh Atan Atanh AveragePool Conv ConvTranspose Cosh Erf LRN Sinh Tan": (
        "float64"
    ),
    "Conv ConvTranspose AveragePool": f"{_SMALL} int32 int64 {_UNSIGNED}",
    "ArgMax ArgMin": f"bool int16 uint16 {_UNSIGNED}",
    "Clip": "int16 uint16",
    "CumSum ReduceL2 ReduceMean ReduceProd ReduceSum ReduceSumSquare": f"{_SMALL} {_UNSIGNED}",
    "DepthToSpace SpaceToDepth": f"bool int16 uint16 int32 int64 {_UNSIGNED}",
    "Einsum": f"{_SMALL} {_UNSIGNED}",
    "Elu LeakyRelu Selu Softsign": f"{_SMALL} int32 int64 {_UNSIGNED}",
    "Greater GreaterOrEqual Less LessOrEqual": "bool",
    "IsInf": "float16",
    "MatMul": _SMALL,
    "Max Min": "bool int16 uint16",
    "MaxPool": f"int16 uint16 int32 int64 {_UNSIGNED}",
    "Neg": f"uint8 uint16 {_UNSIGNED}",
    "Pad": "int16 uint16",
    "Pow": _UNSIGNED,
    "Range": "float16 int8 uint8 uint16 uint32 uint64",
    "ReduceMax ReduceMin": f"bool int16 uint16 {_UNSIGNED}",
    "ScatterND": "float16",  # added, not replaced
    "Relu": f"int16 uint8 uint16 {_UNSIGNED}",
    "TopK": f"uint16 {_UNSIGNED}",
    "Unique": f"bool int16 uint8 uint16 int32 {_UNSIGNED}",
    "Where": "bool int16 uint16 uint64",
}
_WIDER: Final = {
    "bool": "uint8 int32 int64",
    "int8": "int32 int64",
    "int16": "int32 int64",
    "uint8": "int32 int64",
    "uint16": "int32 int64",
    "int32": "int64",
    "uint32": "int64",
    "float16": "float32",
    "bfloat16": "float32",
}
"""What holds all values of a dtype, in the order in which it is tried."""
_FLOATS: Final = {"int16": "float32", "uint16": "float32", "int32": "float64", "uint32": "float64"}
_CHOOSING: Final = frozenset(("DepthToSpace", "MaxPool", "SpaceToDepth"))
"""Operators whose results are elements of the input, so that floats can hold integers."""
_MOVING: Final = (
    "Cast Concat Gather GatherND Identity Reshape Shape Size Slice Split Squeeze Transpose "
    "Unsqueeze"
)
"""Operators that onnxruntime has for all dtypes."""


def _lacks(op_type: str, dtype: str) -> bool:
    if dtype == "bfloat16":
        return op_type not in _MOVING.split()
    return any(
        op_type in types.split() and dtype in lacking.split() for types, lacking in _LACKING.items()
    )


def computed_in(op_type: str, dtype: np.dtype[Any]) -> np.dtype[Any] | None:
    """The dtype in which an operator on this one is computed: itself, a wider one, or None.

    >>> computed_in("Unique", np.dtype("int32")), computed_in("Conv", np.dtype("float64"))
    (dtype('int64'), None)
    """
    if not _lacks(op_type, dtype.name):
        return dtype
    candidates = _WIDER.get(dtype.name, "").split()
    if op_type in _CHOOSING:
        candidates.append(_FLOATS.get(dtype.name, ""))
    for wider in filter(None, candidates):
        if not _lacks(op_type, wider):
            return np.dtype(wider)
    return None
