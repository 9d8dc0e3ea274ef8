"""The image arguments of an op, for passes that change the data format."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Images:
    """The arguments of an op whose layout its attribute `data_format` determines.

    This includes its attributes `strides`, `ksize`, `dilations` and `explicit_paddings`, if any.
    Only the first output may be an image.

    Attributes:
        inputs: The numbers of the inputs that are images.
        is_output: Whether the first output is one.
        sizes: The number of the input that is the shape of one, if any.
        is_convolution: Whether it accepts only images, and its CPU kernel transposes those with
            channels first, so that converting its neighbourhood pays.
    """

    inputs: tuple[int, ...]
    is_output: bool = True
    sizes: int | None = None
    is_convolution: bool = False


IMAGE: Final = Images((0,))
"""The first input and the output."""
