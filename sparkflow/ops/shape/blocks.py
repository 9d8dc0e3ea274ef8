"""Blocks of space moved into the batch or the channels, and back."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow._api import export
from sparkflow._generated.ops.shape.blocks import *  # noqa: F403
from sparkflow._generated.ops.shape.blocks import batch_to_space_nd, space_to_batch_nd
from sparkflow.graph.constant_value import constant_value
from sparkflow.graph.scopes import convert_to_tensor, graph_of
from sparkflow.graph.tensor import Tensor
from sparkflow.ops.elementwise.elementwise import floormod
from sparkflow.ops.renamed_arguments import either
from sparkflow.ops.shape import arrays
from sparkflow_runtime.dtypes import int32


@export("space_to_batch", "nn.space_to_batch")
def space_to_batch(
    input: Any,
    paddings: Any,
    block_size: int | None = None,
    name: str | None = None,
    block_shape: Any = None,
) -> Tensor:
    """`space_to_batch_nd` with one block size for height and width."""
    size = either("block_shape", block_shape, "block_size", block_size)
    blocks = np.array([size, size], np.int64) if isinstance(size, int) else size
    result = space_to_batch_nd(input, blocks, paddings, name)
    result.set_shape(result.shape.with_rank(4))
    return result


@export("batch_to_space")
def batch_to_space(
    input: Any,
    crops: Any,
    block_size: int | None = None,
    name: str | None = None,
    block_shape: Any = None,
) -> Tensor:
    """`batch_to_space_nd` with one block size for height and width."""
    size = either("block_shape", block_shape, "block_size", block_size)
    blocks = np.array([size, size], np.int64) if isinstance(size, int) else size
    result = batch_to_space_nd(input, blocks, crops, name)
    result.set_shape(result.shape.with_rank(4))
    return result


@export("required_space_to_batch_paddings")
def required_space_to_batch_paddings(
    input_shape: Any, block_shape: Any, base_paddings: Any = None, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """The padding that makes sizes multiples of their blocks, and what to crop afterwards.

    Args:
        input_shape: [m] int32, the sizes of the dimensions of space.
        block_shape: [m] int32.
        base_paddings: [m, 2] int32, the least padding; zeros when None.
        name: Name of the scope.

    Returns:
        (paddings, crops), both [m, 2].
    """
    given = (input_shape, block_shape, base_paddings)
    graph = graph_of(given)
    with graph.as_default(), graph.name_scope(name or "required_space_to_batch_paddings"):
        sizes = convert_to_tensor(input_shape, int32, "input_shape")
        blocks = convert_to_tensor(block_shape, int32, "block_shape")
        blocks.shape.assert_has_rank(1)
        blocks.shape.assert_is_fully_defined()
        count = blocks.shape.as_list()[0]
        if count == 0:
            empty = convert_to_tensor(np.zeros((0, 2), np.int32))
            return empty, empty
        sizes.shape.assert_is_compatible_with([count])
        if base_paddings is None:
            base = convert_to_tensor(np.zeros((count, 2), np.int32))
        else:
            base = convert_to_tensor(base_paddings, int32, "base_paddings")
            base.shape.assert_is_compatible_with([count, 2])
        known = [constant_value(each) for each in (sizes, blocks, base)]
        if all(each is not None for each in known):
            size, block, least = (np.asarray(each) for each in known)
            extra = (block - (size + least.sum(1)) % block) % block
            pads = np.stack([least[:, 0], least[:, 1] + extra], 1).astype(np.int32)
            cuts = np.stack([np.zeros_like(extra), extra], 1).astype(np.int32)
            return convert_to_tensor(pads, name="paddings"), convert_to_tensor(cuts, name="crops")
        before, after = base[:, 0], base[:, 1]
        missing = floormod(blocks - floormod(sizes + before + after, blocks), blocks)
        paddings = arrays.stack([before, after + missing], 1, name="paddings")
        crops = arrays.stack([missing * 0, missing], 1, name="crops")
        return paddings, crops
