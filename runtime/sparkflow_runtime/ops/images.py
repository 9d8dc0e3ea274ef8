"""Which arguments of an op are images, for passes that put their dimensions in another order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Images:
    """What of an op is in the order that its attribute `data_format` says.

    Its attributes `strides`, `ksize`, `dilations` and `explicit_paddings`, where it has them, are
    in that order, too. Only the first output may be an image.

    Attributes:
        inputs: The numbers of the inputs that are images.
        is_output: Whether the first output is one.
        sizes: The number of the input that is the shape of one, if any.
        is_convolution: Whether it takes nothing but images, and its kernel for a CPU transposes
            those with channels first, so that it is worth to change the order of all around it.
    """

    inputs: tuple[int, ...]
    is_output: bool = True
    sizes: int | None = None
    is_convolution: bool = False


IMAGE: Final = Images((0,))
"""The first input and the output."""
