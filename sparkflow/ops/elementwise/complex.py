"""Complex numbers: made of parts, taken apart, conjugated."""

from __future__ import annotations

from typing import Any

from sparkflow._api import export
from sparkflow.graph.scopes import apply_op, convert_to_tensor, graph_of, operand, output_of
from sparkflow.graph.tensor import Tensor
from sparkflow_runtime.dtypes import NUMERIC, complex64, complex128, float32, float64, variant


@export("complex", "dtypes.complex")
def complex(real: Any, imag: Any, name: str | None = None) -> Tensor:
    """Complex numbers of real and imaginary parts.

    Raises:
        TypeError: The parts are not both float32 or both float64.
    """
    graph = graph_of((real, imag))
    with graph.as_default(), graph.name_scope(name or "Complex") as scope:
        real_part = convert_to_tensor(real, name="real")
        imag_part = convert_to_tensor(imag, name="imag")
        pair = real_part.dtype.base, imag_part.dtype.base
        if pair == (float64, float64):
            target = complex128
        elif pair == (float32, float32):
            target = complex64
        else:
            raise TypeError(
                f"The dtypes of real and imag are {pair[0].name} and {pair[1].name}; both must be "
                "float32 or both float64"
            )
        return output_of("Complex", real_part, imag_part, Tout=target, name=scope)


@export("real", "math.real")
def real(input: Any, name: str | None = None) -> Tensor:
    """The real part; a real tensor as it is."""
    tensor = convert_to_tensor(input, name="input")
    return _part("Real", tensor, name or "Real") if tensor.dtype.is_complex else tensor


@export("imag", "math.imag")
def imag(input: Any, name: str | None = None) -> Tensor:
    """The imaginary part; zeros of a real tensor."""
    tensor = convert_to_tensor(input, name="input")
    if tensor.dtype.is_complex:
        return _part("Imag", tensor, name or "Imag")
    return output_of("ZerosLike", tensor, name=name)


@export("angle", "math.angle")
def angle(input: Any, name: str | None = None) -> Tensor:
    """The angle in (-π, π]; of a real tensor 0 or π."""
    tensor = convert_to_tensor(input, name="input")
    if tensor.dtype.is_complex:
        return _part("Angle", tensor, name or "Angle")
    graph = tensor.graph
    with graph.as_default(), graph.name_scope(name or "Angle") as scope:
        zeros = apply_op("ZerosLike", tensor)
        half_turn = apply_op("OnesLike", tensor) * 3.141592653589793
        return output_of("Select", tensor < 0, half_turn, zeros, name=scope)


def complex_abs(tensor: Tensor, name: str | None = None) -> Tensor:
    """The absolute values of complex numbers."""
    return _part("ComplexAbs", tensor, name)


@export("conj", "math.conj")
def conj(x: Any, name: str | None = None) -> Tensor:
    """The complex conjugate; a real tensor as it is.

    Raises:
        TypeError: Not numbers.
    """
    tensor, node = operand(x, "x", name or "Conj")
    if tensor.dtype.is_complex or tensor.dtype is variant:
        return output_of("Conj", tensor, name=node)
    if tensor.dtype.base not in NUMERIC:
        raise TypeError(f"Expected numeric or variant tensor, got dtype {tensor.dtype!r}")
    return tensor


def _part(op_type: str, tensor: Tensor, name: str | None) -> Tensor:
    return output_of(op_type, tensor, Tout=tensor.dtype.real_dtype.base, name=name)
