"""How users may write the geometry of windows: sizes in several lengths, paddings as lists."""

from __future__ import annotations

from typing import Any


def per_dimension(value: Any, spatial: int, data_format: str, name: str) -> list[int]:
    """One number per dimension from one, from one per spatial dimension, or from all.

    Args:
        value: A number or a list; None for ones.
        spatial: The number of spatial dimensions.
        data_format: Ends in `C` where the channels are last.
        name: The argument, for the error.

    Raises:
        ValueError: Another number of elements.
    """
    if value is None:
        value = 1
    given = list(value) if isinstance(value, list | tuple) or hasattr(value, "__len__") else [value]
    if len(given) == spatial + 2:
        return [int(each) for each in given]
    if len(given) == 1:
        given = given * spatial
    if len(given) != spatial:
        raise ValueError(
            f"{name} should be of length 1, {spatial} or {spatial + 2} but was {len(given)}"
        )
    sizes = [int(each) for each in given]
    return [1, 1, *sizes] if data_format.startswith("NC") else [1, *sizes, 1]


def padding_attrs(padding: Any) -> dict[str, Any]:
    """The attributes `padding` and, for pairs per dimension, `explicit_paddings`.

    Raises:
        ValueError: Neither a name nor pairs.
    """
    if isinstance(padding, str):
        return {"padding": padding}
    if not isinstance(padding, list | tuple):
        raise ValueError(f"padding must be a string or a list of pairs, got {padding!r}")
    pairs = [list(pair) for pair in padding]
    if any(len(pair) != 2 for pair in pairs):
        raise ValueError(f"padding must have a pair of numbers per dimension, got {padding!r}")
    return {"padding": "EXPLICIT", "explicit_paddings": [int(n) for pair in pairs for n in pair]}


def spatial_format(spatial: int, first: bool = False) -> str:
    """TensorFlow's name of the order of dimensions: `NWC`, `NHWC`, `NDHWC`, or channels first."""
    inner = {1: "W", 2: "HW", 3: "DHW"}[spatial]
    return f"NC{inner}" if first else f"N{inner}C"


def is_channels_first(data_format: str | None) -> bool:
    """Whether the second dimension is that of channels."""
    return data_format is not None and data_format.startswith("NC")
