"""Dilation and erosion of images, and the extraction of patches."""

from __future__ import annotations

from typing import Any

from sparkflow._api import export
from sparkflow._generated.ops.nn.morphology import *  # noqa: F403
from sparkflow.graph.scopes import convert_to_tensor, graph_of, output_of
from sparkflow.graph.tensor import Tensor
from sparkflow.ops.elementwise import elementwise
from sparkflow.ops.renamed_arguments import either
from sparkflow.ops.shape import arrays


@export("nn.dilation2d")
def dilation2d(
    input: Any,
    filter: Any = None,
    strides: Any = None,
    rates: Any = None,
    padding: Any = None,
    name: str | None = None,
    filters: Any = None,
    dilations: Any = None,
) -> Tensor:
    """The maximum of window plus filter.

    Args:
        input: [batch, height, width, channels] real numbers.
        filter: [height, width, channels].
        strides: Four numbers.
        rates: Four numbers, the distance of the filter's elements.
        padding: `SAME` or `VALID`.
        name: Name of the node.
        filters: The newer name of `filter`.
        dilations: The newer name of `rates`.
    """
    return output_of(
        "Dilation2D",
        input,
        either("filters", filters, "filter", filter),
        strides=list(strides),
        rates=list(either("dilations", dilations, "rates", rates)),
        padding=padding,
        name=name,
    )


@export("nn.erosion2d")
def erosion2d(
    value: Any, kernel: Any, strides: Any, rates: Any, padding: str, name: str | None = None
) -> Tensor:
    """The minimum of window minus kernel; arguments as for `dilation2d`."""
    graph = graph_of((value, kernel))
    with graph.as_default(), graph.name_scope(name or "erosion2d") as scope:
        mirrored = arrays.reverse(convert_to_tensor(kernel), [0, 1])
        dilated = dilation2d(elementwise.negative(value), mirrored, strides, rates, padding)
        return elementwise.negative(dilated, name=scope)


@export("extract_image_patches", "image.extract_image_patches")
def extract_image_patches(
    images: Any,
    ksizes: Any = None,
    strides: Any = None,
    rates: Any = None,
    padding: Any = None,
    name: str | None = None,
    sizes: Any = None,
) -> Tensor:
    """Windows of images, each laid out as a vector of channels.

    Args:
        images: [batch, height, width, channels].
        ksizes: Four numbers, the size of a window.
        strides: Four numbers.
        rates: Four numbers, the distance of a window's elements.
        padding: `SAME` or `VALID`.
        name: Name of the node.
        sizes: The newer name of `ksizes`.

    Returns:
        [batch, rows, columns, height · width · channels].
    """
    return output_of(
        "ExtractImagePatches",
        images,
        ksizes=list(either("sizes", sizes, "ksizes", ksizes)),
        strides=list(strides),
        rates=list(rates),
        padding=padding,
        name=name,
    )


@export("image.extract_patches")
def extract_patches(
    images: Any,
    sizes: Any,
    strides: Any,
    rates: Any,
    padding: str,
    name: str | None = None,
) -> Tensor:
    """The newer name of `extract_image_patches`."""
    return extract_image_patches(images, sizes, strides, rates, padding, name)
