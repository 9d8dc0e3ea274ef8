"""Quantised numbers: integers that represent real numbers in a separately given range."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sparkflow_runtime import dtypes
from sparkflow_runtime.dtypes import QUANTIZED, DType, bfloat16, float32
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.builder import GraphBuilder, OperationView, Tensor
from sparkflow_runtime.ops.inference import same_as, same_as_all
from sparkflow_runtime.ops.op import Array, Op, not_differentiable
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import (
    Attr,
    bool_attr,
    float_attr,
    int_attr,
    string_attr,
    type_attr,
)

_MODES = frozenset({"MIN_COMBINED", "MIN_FIRST", "SCALED"})
_ON_HOST: dict[str, frozenset[DType] | None] = {"CPU": None}
_ROUNDING = string_attr("HALF_AWAY_FROM_ZERO", frozenset({"HALF_AWAY_FROM_ZERO", "HALF_TO_EVEN"}))


def _ends(dtype: DType, narrow: bool = False) -> tuple[float, float]:
    return float(dtype.min) + (1 if narrow else 0), float(dtype.max)


def _round_away(x: Array) -> Array:
    return np.trunc(x + np.copysign(np.asarray(0.5, x.dtype), x))


def _along(values: Array, rank: int, axis: int) -> Array:
    """One number per entry of an axis, to be broadcast; a scalar without an axis."""
    if axis == -1:
        return values.reshape(())
    return values.reshape(*(1,) * axis, -1, *(1,) * (rank - axis - 1))


@register
class QuantizeV2(Op):
    """Real numbers as integers of a quantised dtype, with the range they were mapped from."""

    inputs = "input: float32, min_range: float32, max_range: float32"
    outputs = "output: T, output_min: float32, output_max: float32"
    attrs = {
        "T": type_attr(QUANTIZED),
        "mode": string_attr("MIN_COMBINED", _MODES),
        "round_mode": _ROUNDING,
        "narrow_range": bool_attr(False),
        "axis": int_attr(-1),
        "ensure_minimum_range": float_attr(0.01),
    }
    kernels = _ON_HOST
    infer = same_as_all

    def compute(
        self,
        xp: Any,
        value: Array,
        min_range: Array,
        max_range: Array,
        *,
        T: DType,
        mode: str,
        round_mode: str,
        narrow_range: bool,
        axis: int,
        ensure_minimum_range: float,
    ) -> Any:
        """The integers and the range.

        Raises:
            InvalidArgumentError: The maximum is below the minimum.
        """
        if (min_range > max_range).any():
            raise InvalidArgumentError(message="min_range must be less than or equal to max_range")
        # The range always contains zero, and its ends differ.
        low = np.minimum(min_range, np.float32(0))
        apart = np.maximum(np.maximum(np.abs(min_range), np.abs(max_range)), np.float32(1))
        apart = apart * np.float32(ensure_minimum_range)
        high = np.maximum(np.maximum(max_range, low + apart), np.float32(0))
        least, greatest = _ends(T, narrow_range)
        if mode == "SCALED":
            low, high = _symmetric(low, high, least, greatest)
        lower, upper = (_along(each, value.ndim, axis) for each in (low, high))
        rounded = np.rint if round_mode == "HALF_TO_EVEN" else _round_away
        if mode == "SCALED":
            scale = np.float32(greatest) / upper
            found = rounded(np.clip(value, lower, upper) * scale)
        elif mode == "MIN_FIRST":
            scale = (np.float64(greatest) - least) / (upper.astype(np.float64) - lower)
            offset = _round_away(np.asarray(lower * scale))
            found = _round_away(value * scale) - offset + least
        else:
            scale = (np.float32(greatest) - np.float32(T.min)) / (upper - lower)
            found = np.clip(value, lower, upper) * scale - lower * scale
            if T.min < 0:
                found = found - np.float32((float(greatest) - float(T.min) + 1) / 2)
            found = _round_away(found)
        field = T.as_numpy_dtype[0]
        whole = np.clip(np.asarray(found, np.float64), least, greatest).astype(field)
        return whole.view(T.as_numpy_dtype).reshape(value.shape), low, high


def _symmetric(low: Array, high: Array, least: float, greatest: float) -> tuple[Array, Array]:
    """The range, widened until its ends are the same multiple of the integers' limits."""
    if least == 0:
        return np.zeros_like(low), high
    scale = np.maximum(high / np.float32(greatest), low / np.float32(least))
    return (scale * np.float32(least)).astype(low.dtype), (scale * np.float32(greatest)).astype(
        high.dtype
    )


@register
class Dequantize(Op):
    """The real numbers that quantised ones represent."""

    inputs = "input: T, min_range: float32, max_range: float32"
    outputs = "output: dtype"
    attrs = {
        "T": type_attr(QUANTIZED),
        "mode": string_attr("MIN_COMBINED", _MODES),
        "narrow_range": bool_attr(False),
        "axis": int_attr(-1),
        "dtype": type_attr(frozenset({float32, bfloat16}), float32),
    }
    kernels = _ON_HOST
    gradient = not_differentiable
    infer = same_as(0)

    def compute(
        self,
        xp: Any,
        value: Array,
        min_range: Array,
        max_range: Array,
        *,
        T: DType,
        mode: str,
        narrow_range: bool,
        axis: int,
        dtype: DType,
    ) -> Array:
        """A new array."""
        plain = np.ascontiguousarray(value).view(T.as_numpy_dtype[0]).reshape(value.shape)
        low, high = (_along(each, value.ndim, axis) for each in (min_range, max_range))
        least, greatest = _ends(T, narrow_range)
        numbers = plain.astype(np.float32)
        if mode == "SCALED":
            scale = high / np.float32(greatest)
            if least < 0:
                scale = np.maximum(low / np.float32(least), scale)
            return (numbers * scale).astype(dtype.as_numpy_dtype)
        if mode == "MIN_FIRST":
            step = (high.astype(np.float64) - low) / (greatest - float(T.min))
            start = np.rint(low / step) * step if T.size < 4 else low
            result = (plain.astype(np.float64) - float(T.min)) * step + start
            return result.astype(dtype.as_numpy_dtype)
        step = (high - low) / np.float32(greatest - float(T.min))
        if T.min < 0:
            numbers = numbers + np.float32((float(T.max) - float(T.min) + 1) / 2)
        return (numbers * step + low).astype(dtype.as_numpy_dtype)


class _RoundTrip(Op):
    """Rounds numbers to those that integers with `num_bits` bits can represent."""

    kernels = _ON_HOST
    infer = same_as(0)

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> Sequence[Tensor | None]:
        """As the identity: the straight-through estimate."""
        return [dy] + [None] * (len(op.inputs) - 1)


_FLOATS = type_attr(dtypes.FLOATING)
_ROUND_TRIP: dict[str, Attr] = {
    "signed_input": bool_attr(True),
    "num_bits": int_attr(8),
    "range_given": bool_attr(False),
}


def _round_trip(
    value: Array,
    low: Any,
    high: Any,
    num_bits: int,
    signed: bool,
    narrow: bool,
    round_mode: str,
) -> Array:
    """See `QuantizeAndDequantizeV2`."""
    if signed:
        least = float(-(1 << (num_bits - 1)) + (1 if narrow else 0))
        greatest = float((1 << (num_bits - 1)) - 1)
    else:
        least, greatest = 0.0, float((1 << num_bits) - 1)
    kind = value.dtype.type
    from_low = kind(least) / low if least * low > 0 else kind(np.inf)
    from_high = kind(greatest) / high if greatest * high > 0 else kind(np.inf)
    scale = min(from_low, from_high)
    if not np.isfinite(scale):
        return np.zeros_like(value)
    if from_low < from_high:
        high = kind(greatest) / scale
    else:
        low = kind(least) / scale
    product = np.clip(value, low, high) * scale
    rounded = np.rint(product) if round_mode == "HALF_TO_EVEN" else np.floor(product + kind(0.5))
    return np.asarray(rounded / scale, value.dtype)


@register
class QuantizeAndDequantizeV2(_RoundTrip):
    """Rounds to the integers of `num_bits` in the given range, or that of the input."""

    inputs = "input: T, input_min: T, input_max: T"
    outputs = "output: T"
    attrs = {
        **_ROUND_TRIP,
        "T": _FLOATS,
        "round_mode": string_attr("HALF_TO_EVEN", frozenset({"HALF_TO_EVEN", "HALF_UP"})),
        "narrow_range": bool_attr(False),
        "axis": int_attr(-1),
    }

    def compute(
        self,
        xp: Any,
        value: Array,
        input_min: Array,
        input_max: Array,
        *,
        signed_input: bool,
        num_bits: int,
        range_given: bool,
        round_mode: str,
        narrow_range: bool,
        axis: int,
    ) -> Array:
        """A new array.

        Raises:
            InvalidArgumentError: The maximum is below the minimum.
        """
        if range_given and (input_min > input_max).any():
            raise InvalidArgumentError(
                message=f"Invalid range: input_min {input_min} > input_max {input_max}"
            )
        rest = (num_bits, signed_input, narrow_range, round_mode)
        if not value.size:
            return value.copy()
        if axis == -1:
            low = input_min if range_given else value.min()
            high = input_max if range_given else value.max()
            return _round_trip(value, low, high, *rest)
        parts = np.moveaxis(value, axis, 0)
        result = np.empty_like(parts)
        for index, part in enumerate(parts):
            low = input_min[index] if range_given else part.min()
            high = input_max[index] if range_given else part.max()
            result[index] = _round_trip(part, low, high, *rest)
        return np.moveaxis(result, 0, axis)


@register
class QuantizeAndDequantize(_RoundTrip):
    """The same with the range as attributes."""

    inputs = "input: T"
    outputs = "output: T"
    attrs = {
        **_ROUND_TRIP,
        "input_min": float_attr(0.0),
        "input_max": float_attr(0.0),
        "T": _FLOATS,
    }

    def compute(
        self,
        xp: Any,
        value: Array,
        *,
        signed_input: bool,
        num_bits: int,
        range_given: bool,
        input_min: float,
        input_max: float,
    ) -> Array:
        """A new array."""
        kind = value.dtype.type
        low = kind(input_min) if range_given else value.min()
        high = kind(input_max) if range_given else value.max()
        return _round_trip(value, low, high, num_bits, signed_input, False, "HALF_TO_EVEN")


@register
class QuantizeAndDequantizeV3(_RoundTrip):
    """The same with the number of bits as an input."""

    inputs = "input: T, input_min: T, input_max: T, num_bits: int32"
    outputs = "output: T"
    attrs = {
        "signed_input": bool_attr(True),
        "range_given": bool_attr(True),
        "T": _FLOATS,
        "narrow_range": bool_attr(False),
        "axis": int_attr(-1),
    }

    def compute(
        self,
        xp: Any,
        value: Array,
        input_min: Array,
        input_max: Array,
        num_bits: Array,
        *,
        signed_input: bool,
        range_given: bool,
        narrow_range: bool,
        axis: int,
    ) -> Array:
        """A new array."""
        second = QuantizeAndDequantizeV2()
        return second.compute(
            xp,
            value,
            input_min,
            input_max,
            signed_input=signed_input,
            num_bits=int(num_bits),
            range_given=range_given,
            round_mode="HALF_TO_EVEN",
            narrow_range=narrow_range,
            axis=axis,
        )
