"""Fourier and cosine transforms."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from sparkflow._api import export
from sparkflow.graph.constant_value import constant_value
from sparkflow.graph.scopes import apply_op, convert_to_tensor, graph_of, output_of
from sparkflow.graph.tensor import Tensor
from sparkflow.ops.elementwise.complex import complex, real
from sparkflow_runtime.dtypes import complex64, complex128, float32, float64, int32


def _transform(op_type: str, inverse: str = "") -> Callable[..., Tensor]:
    def transform(input: Any, name: str | None = None) -> Tensor:
        return output_of(op_type, input, name=name)

    suffix = op_type[-2:] if op_type[-1] == "D" else "1D"
    transform.__name__ = transform.__qualname__ = op_type.lower()
    transform.__doc__ = f"The {inverse}Fourier transform of complex numbers, {suffix}."
    return transform


fft, fft2d, fft3d = (_transform(name) for name in ("FFT", "FFT2D", "FFT3D"))
ifft, ifft2d, ifft3d = (_transform(name, "inverse ") for name in ("IFFT", "IFFT2D", "IFFT3D"))


def _lengths(tensor: Tensor, rank: int, fft_length: Any, inverse: bool) -> Tensor:
    if fft_length is not None:
        return convert_to_tensor(fft_length, int32, "fft_length")
    shape = tensor._shape
    if shape is not None and None not in shape[-rank:]:
        sizes = [int(size) for size in shape[-rank:] if size is not None]
        if inverse and sizes:
            sizes[-1] = max(0, 2 * (sizes[-1] - 1))
        return convert_to_tensor(np.array(sizes, np.int32))
    found = apply_op("Shape", tensor)[-rank:]
    if inverse:
        last = apply_op("Maximum", (found[-1:] - 1) * 2, 0)
        found = apply_op("ConcatV2", [found[:-1], last], 0)
    length: Tensor = found
    return length


def _real_transform(rank: int) -> Callable[..., Tensor]:
    op_type = "RFFT" if rank == 1 else f"RFFT{rank}D"

    def transform(input_tensor: Any, fft_length: Any = None, name: str | None = None) -> Tensor:
        graph = graph_of((input_tensor, fft_length))
        with graph.as_default(), graph.name_scope(name or op_type.lower()) as scope:
            tensor = convert_to_tensor(input_tensor, preferred_dtype=float32)
            if tensor.dtype.base not in (float32, float64):
                raise ValueError(f"RFFT requires tf.float32 or tf.float64 inputs, got: {tensor}")
            lengths = _lengths(tensor, rank, fft_length, inverse=False)
            kind = complex64 if tensor.dtype.base is float32 else complex128
            return output_of(op_type, tensor, lengths, Tcomplex=kind, name=scope)

    transform.__name__ = transform.__qualname__ = op_type.lower()
    transform.__doc__ = f"Half the Fourier transform of real numbers, {rank}D."
    return transform


def _inverse_transform(rank: int) -> Callable[..., Tensor]:
    op_type = "IRFFT" if rank == 1 else f"IRFFT{rank}D"

    def transform(input_tensor: Any, fft_length: Any = None, name: str | None = None) -> Tensor:
        graph = graph_of((input_tensor, fft_length))
        with graph.as_default(), graph.name_scope(name or op_type.lower()) as scope:
            tensor = convert_to_tensor(input_tensor, preferred_dtype=complex64)
            lengths = _lengths(tensor, rank, fft_length, inverse=True)
            kind = float64 if tensor.dtype.base is complex128 else float32
            return output_of(op_type, tensor, lengths, Treal=kind, name=scope)

    transform.__name__ = transform.__qualname__ = op_type.lower()
    transform.__doc__ = f"The real numbers whose half Fourier transform this is, {rank}D."
    return transform


rfft, rfft2d, rfft3d = (_real_transform(rank) for rank in (1, 2, 3))
irfft, irfft2d, irfft3d = (_inverse_transform(rank) for rank in (1, 2, 3))


@export("signal.fftshift")
def fftshift(x: Any, axes: Any = None, name: str | None = None) -> Tensor:
    """The element of frequency 0 moved to the middle of the axes (all when None)."""
    return _shifted(x, axes, name or "fftshift", lambda size: size // 2)


@export("signal.ifftshift")
def ifftshift(x: Any, axes: Any = None, name: str | None = None) -> Tensor:
    """The inverse of `fftshift`."""
    return _shifted(x, axes, name or "ifftshift", lambda size: -(size // 2))


def _shifted(x: Any, axes: Any, name: str, shift: Callable[[Any], Any]) -> Tensor:
    graph = graph_of((x,))
    with graph.as_default(), graph.name_scope(name) as scope:
        tensor = convert_to_tensor(x)
        shape = apply_op("Shape", tensor)
        if axes is None:
            chosen = apply_op("Range", 0, apply_op("Rank", tensor), 1)
            sizes = shape
        else:
            listed = [axes] if isinstance(axes, int) else list(axes)
            chosen = convert_to_tensor(np.array(listed, np.int32))
            sizes = apply_op("Pack", [shape[axis] for axis in listed])
        return output_of("Roll", tensor, shift(sizes), chosen, name=scope)


@export("signal.dct", "spectral.dct")
def dct(
    input: Any,
    type: int = 2,
    n: int | None = None,
    axis: int = -1,
    norm: str | None = None,
    name: str | None = None,
) -> Tensor:
    """The cosine transform I, II, III or IV along the last axis.

    Args:
        input: [..., samples] float32 or float64.
        type: 1, 2, 3 or 4.
        n: Crops or pads the samples to this number first.
        axis: -1.
        norm: None, or "ortho" for an orthonormal transform.
        name: Name of the scope.

    Raises:
        ValueError: Another type, axis or norm; type 1 with "ortho" or less than 2 samples.
    """
    _check_dct(type, n, axis, norm)
    graph = graph_of((input,))
    with graph.as_default(), graph.name_scope(name or "dct"):
        tensor = convert_to_tensor(input)
        if n is not None:
            tensor = resized(tensor, n)
        size: Any = None if tensor._shape is None else tensor._shape[-1]
        if size is None:
            size = apply_op("Shape", tensor)[-1]
        elif type == 1 and size < 2:
            raise ValueError("Type-I DCT requires the dimension to be greater than one.")
        return _DCT[type](tensor, size, norm)


@export("signal.idct", "spectral.idct")
def idct(
    input: Any,
    type: int = 2,
    n: int | None = None,
    axis: int = -1,
    norm: str | None = None,
    name: str | None = None,
) -> Tensor:
    """The inverse of `dct` up to a factor of 2 N; exactly with "ortho"; arguments alike."""
    _check_dct(type, n, axis, norm)
    return dct(input, {1: 1, 2: 3, 3: 2, 4: 4}[type], n, axis, norm, name or "idct")


def _check_dct(type: int, n: int | None, axis: int, norm: str | None) -> None:
    if axis != -1:
        raise NotImplementedError(f"axis must be -1. Got: {axis}")
    if n is not None and n < 1:
        raise ValueError(f"n should be a positive integer or None, got {n}")
    if type not in (1, 2, 3, 4):
        raise ValueError(f"Types I, II, III and IV (I)DCT are supported, got {type}")
    if norm not in (None, "ortho"):
        raise ValueError(f"Unknown normalization. Expected None or 'ortho', got: {norm}")
    if type == 1 and norm == "ortho":
        raise ValueError("Normalization is not supported for the Type-I DCT.")


def resized(tensor: Tensor, n: int) -> Tensor:
    """The last axis cropped or padded with zeros to `n`."""
    cropped = tensor[..., :n]
    size = apply_op("Shape", cropped)[-1]
    rank = apply_op("Rank", cropped)
    row = apply_op("Reshape", apply_op("Pack", [0, n - size]), [1, 2])
    above = apply_op("Pack", [apply_op("Pack", [rank - 1, 0]), [0, 0]])
    padded: Tensor = apply_op("Pad", cropped, apply_op("Pad", row, above))
    if tensor._shape is not None:
        padded.set_shape([*tensor._shape[:-1], n])
    return padded


def _positions(tensor: Tensor, size: Any) -> Tensor:
    kind = tensor.dtype.base
    numbers = apply_op("Cast", apply_op("Range", 0, size, 1), DstT=kind)
    result: Tensor = numbers
    return result


def _as_number(tensor: Tensor, size: Any) -> Any:
    if isinstance(size, int):
        return np.asarray(size, tensor.dtype.as_numpy_dtype)
    return apply_op("Cast", size, DstT=tensor.dtype.base)


def _turned(tensor: Tensor, size: Any, sign: float) -> Tensor:
    """2 exp(± i π k / (2 N)) for every k."""
    angles = _positions(tensor, size) * (sign * math.pi * 0.5) / _as_number(tensor, size)
    return complex(apply_op("Cos", angles) * 2.0, apply_op("Sin", angles) * 2.0)


def _weights(tensor: Tensor, size: Any, first: Any, others: Any) -> Tensor:
    """`first` and then `others`, N numbers in all."""
    is_first = apply_op("Equal", apply_op("Range", 0, size, 1), 0)
    kind = tensor.dtype.base
    pair = convert_to_tensor(first, kind), convert_to_tensor(others, kind)
    return output_of("SelectV2", is_first, *pair)


def _dct1(tensor: Tensor, size: Any, norm: str | None) -> Tensor:
    mirrored = apply_op("ConcatV2", [tensor, tensor[..., -2:0:-1]], -1)
    return real(rfft(mirrored))


def _dct2(tensor: Tensor, size: Any, norm: str | None) -> Tensor:
    spectrum = rfft(tensor, apply_op("Pack", [size * 2]))[..., :size]
    result = real(spectrum * _turned(tensor, size, -1.0))
    if norm != "ortho":
        return result
    least = apply_op("Rsqrt", convert_to_tensor(_as_number(tensor, size))) * 0.5
    return result * _weights(tensor, size, least, least * math.sqrt(2.0))


def _dct3(tensor: Tensor, size: Any, norm: str | None) -> Tensor:
    number = convert_to_tensor(_as_number(tensor, size))
    if norm == "ortho":
        first = apply_op("Sqrt", number)
        tensor = tensor * _weights(tensor, size, first, first * math.sqrt(0.5))
    else:
        tensor = tensor * number
    spectrum = _turned(tensor, size, 1.0) * complex(tensor, apply_op("ZerosLike", tensor))
    result: Tensor = irfft(spectrum, apply_op("Pack", [size * 2]))[..., :size]
    return result


def _dct4(tensor: Tensor, size: Any, norm: str | None) -> Tensor:
    known = size if isinstance(size, int) else constant_value(size)
    if known is None:
        raise ValueError("The type IV transform needs a static number of samples")
    doubled = resized(tensor, 2 * int(known))
    result = _dct2(doubled, 2 * int(known), None)[..., 1::2]
    if norm == "ortho":
        result = result * (math.sqrt(0.5) / math.sqrt(float(known)))
    found: Tensor = result
    return found


_DCT = {1: _dct1, 2: _dct2, 3: _dct3, 4: _dct4}
