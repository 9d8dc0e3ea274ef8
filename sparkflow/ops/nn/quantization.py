"""Quantised numbers: made, read back, and imitated while training."""

from __future__ import annotations

from typing import Any, NamedTuple

from sparkflow._api import export
from sparkflow.graph.scopes import apply_op, convert_to_tensor, graph_of, output_of
from sparkflow.graph.tensor import Tensor
from sparkflow_runtime.dtypes import QUANTIZED, as_dtype, float32

QUANTIZED_DTYPES = QUANTIZED | {dtype.ref for dtype in QUANTIZED}
"""The dtypes of quantised numbers, references to variables among them."""


class QuantizeV2(NamedTuple):
    """The integers and the two ends that were used."""

    output: Tensor
    output_min: Tensor
    output_max: Tensor


@export("quantize_v2")
def quantize_v2(
    input: Any,
    min_range: Any,
    max_range: Any,
    T: Any,  # TensorFlow's name
    mode: str = "MIN_COMBINED",
    name: str | None = None,
    round_mode: str = "HALF_AWAY_FROM_ZERO",
    narrow_range: bool = False,
    axis: int | None = None,
    ensure_minimum_range: float = 0.01,
) -> Any:
    """Real numbers as integers of the quantised type `T`.

    Args:
        input: float32.
        min_range: The number that the least integer stands for.
        max_range: The number that the greatest integer stands for.
        T: A quantised type.
        mode: `MIN_COMBINED`, `MIN_FIRST` or `SCALED`.
        name: Name of the node.
        round_mode: `HALF_AWAY_FROM_ZERO` or `HALF_TO_EVEN` (the latter with `SCALED` only).
        narrow_range: Whether the least integer is left out.
        axis: The axis whose entries have ends of their own; None for one pair.
        ensure_minimum_range: The least distance of the ends, relative to their size.

    Returns:
        The integers and the two ends that were used.
    """
    found = apply_op(
        "QuantizeV2",
        input,
        min_range,
        max_range,
        T=as_dtype(T),
        mode=mode,
        round_mode=round_mode,
        narrow_range=narrow_range,
        axis=-1 if axis is None else axis,
        ensure_minimum_range=ensure_minimum_range,
        name=name,
    )
    return QuantizeV2(*found)


@export("quantize", "quantization.quantize")
def quantize(
    input: Any,
    min_range: Any,
    max_range: Any,
    T: Any,  # TensorFlow's name
    mode: str = "MIN_COMBINED",
    round_mode: str = "HALF_AWAY_FROM_ZERO",
    name: str | None = None,
    narrow_range: bool = False,
    axis: int | None = None,
    ensure_minimum_range: float = 0.01,
) -> Any:
    """The same as `quantize_v2`, with another order of arguments."""
    return quantize_v2(
        input, min_range, max_range, T, mode, name, round_mode, narrow_range, axis,
        ensure_minimum_range,
    )  # fmt: skip


@export("dequantize", "quantization.dequantize")
def dequantize(
    input: Any,
    min_range: Any,
    max_range: Any,
    mode: str = "MIN_COMBINED",
    name: str | None = None,
    axis: int | None = None,
    narrow_range: bool = False,
    dtype: Any = float32,
) -> Tensor:
    """The real numbers that quantised ones stand for; arguments as for `quantize_v2`."""
    return output_of(
        "Dequantize",
        input,
        min_range,
        max_range,
        mode=mode,
        axis=-1 if axis is None else axis,
        narrow_range=narrow_range,
        dtype=as_dtype(dtype),
        name=name,
    )


@export("quantization.quantize_and_dequantize")
def quantize_and_dequantize(
    input: Any,
    input_min: Any,
    input_max: Any,
    signed_input: bool = True,
    num_bits: int = 8,
    range_given: bool = False,
    round_mode: str = "HALF_TO_EVEN",
    name: str | None = None,
    narrow_range: bool = False,
    axis: int | None = None,
) -> Tensor:
    """`input` rounded to the numbers that integers between the ends stand for.

    Args:
        input: Floating point.
        input_min: The lower end, where `range_given`; else that of the input is taken.
        input_max: The upper end, likewise.
        signed_input: Whether the integers may be negative.
        num_bits: Their bits.
        range_given: Whether the ends are those given.
        round_mode: `HALF_TO_EVEN` or `HALF_UP`.
        name: Name of the node.
        narrow_range: Whether the least integer is left out.
        axis: The axis whose entries have ends of their own; None for one pair.
    """
    graph = graph_of((input, input_min, input_max))
    with graph.as_default():
        tensor = convert_to_tensor(input, name="input")
        return output_of(
            "QuantizeAndDequantizeV2",
            tensor,
            convert_to_tensor(input_min, tensor.dtype.base),
            convert_to_tensor(input_max, tensor.dtype.base),
            signed_input=signed_input,
            num_bits=num_bits,
            range_given=range_given,
            round_mode=round_mode,
            narrow_range=narrow_range,
            axis=-1 if axis is None else axis,
            name=name,
        )


@export("quantization.quantize_and_dequantize_v2")
def quantize_and_dequantize_v2(
    input: Any,
    input_min: Any,
    input_max: Any,
    signed_input: bool = True,
    num_bits: int = 8,
    range_given: bool = False,
    round_mode: str = "HALF_TO_EVEN",
    name: str | None = None,
    narrow_range: bool = False,
    axis: int | None = None,
) -> Tensor:
    """The same."""
    return quantize_and_dequantize(
        input, input_min, input_max, signed_input, num_bits, range_given, round_mode, name,
        narrow_range, axis,
    )  # fmt: skip


@export("fake_quant_with_min_max_args", "quantization.fake_quant_with_min_max_args")
def fake_quant_with_min_max_args(
    inputs: Any,
    min: float = -6,
    max: float = 6,
    num_bits: int = 8,
    narrow_range: bool = False,
    name: str | None = None,
) -> Tensor:
    """`inputs` rounded to the numbers that integers between two fixed ends stand for."""
    width = {"num_bits": num_bits, "narrow_range": narrow_range}
    return output_of("FakeQuantWithMinMaxArgs", inputs, min=min, max=max, **width, name=name)


@export(
    "fake_quant_with_min_max_args_gradient", "quantization.fake_quant_with_min_max_args_gradient"
)
def fake_quant_with_min_max_args_gradient(
    gradients: Any,
    inputs: Any,
    min: float = -6,
    max: float = 6,
    num_bits: int = 8,
    narrow_range: bool = False,
    name: str | None = None,
) -> Tensor:
    """The gradients where the inputs lie between the ends, 0 elsewhere."""
    width = {"num_bits": num_bits, "narrow_range": narrow_range}
    return output_of(
        "FakeQuantWithMinMaxArgsGradient", gradients, inputs, min=min, max=max, **width, name=name
    )


@export("fake_quant_with_min_max_vars", "quantization.fake_quant_with_min_max_vars")
def fake_quant_with_min_max_vars(
    inputs: Any,
    min: Any,
    max: Any,
    num_bits: int = 8,
    narrow_range: bool = False,
    name: str | None = None,
) -> Tensor:
    """The same with scalars as ends, to which gradients flow."""
    width = {"num_bits": num_bits, "narrow_range": narrow_range}
    return output_of("FakeQuantWithMinMaxVars", inputs, min, max, **width, name=name)


@export(
    "fake_quant_with_min_max_vars_gradient", "quantization.fake_quant_with_min_max_vars_gradient"
)
def fake_quant_with_min_max_vars_gradient(
    gradients: Any,
    inputs: Any,
    min: Any,
    max: Any,
    num_bits: int = 8,
    narrow_range: bool = False,
    name: str | None = None,
) -> Any:
    """The gradients of the inputs and of both ends."""
    width = {"num_bits": num_bits, "narrow_range": narrow_range}
    return apply_op(
        "FakeQuantWithMinMaxVarsGradient", gradients, inputs, min, max, **width, name=name
    )


@export(
    "fake_quant_with_min_max_vars_per_channel",
    "quantization.fake_quant_with_min_max_vars_per_channel",
)
def fake_quant_with_min_max_vars_per_channel(
    inputs: Any,
    min: Any,
    max: Any,
    num_bits: int = 8,
    narrow_range: bool = False,
    name: str | None = None,
) -> Tensor:
    """The same with an end of its own for every entry of the last axis."""
    width = {"num_bits": num_bits, "narrow_range": narrow_range}
    return output_of("FakeQuantWithMinMaxVarsPerChannel", inputs, min, max, **width, name=name)


@export(
    "fake_quant_with_min_max_vars_per_channel_gradient",
    "quantization.fake_quant_with_min_max_vars_per_channel_gradient",
)
def fake_quant_with_min_max_vars_per_channel_gradient(
    gradients: Any,
    inputs: Any,
    min: Any,
    max: Any,
    num_bits: int = 8,
    narrow_range: bool = False,
    name: str | None = None,
) -> Any:
    """The gradients of the inputs and of all ends."""
    width = {"num_bits": num_bits, "narrow_range": narrow_range}
    return apply_op(
        "FakeQuantWithMinMaxVarsPerChannelGradient",
        gradients,
        inputs,
        min,
        max,
        **width,
        name=name,
    )
