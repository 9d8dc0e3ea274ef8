"""Blocks of space moved to the batch dimension or to the channels, and back."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from sparkflow_runtime.dtypes import INDEX, int32
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.builder import GraphBuilder, OperationView, Tensor
from sparkflow_runtime.ops.composition import Composed
from sparkflow_runtime.ops.op import Array, Inference, Op
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import int_attr, string_attr, type_attr
from sparkflow_runtime.ops.static import STRINGS_ON_HOST, bracketed, constant_vector, vector
from sparkflow_runtime.shapes import Dim, Shape

_INDEX = type_attr(INDEX, int32)
_Pairs = Sequence[Sequence[int]]


def _pairs(array: Array | None, name: str, count: int | None) -> list[tuple[int, int]] | None:
    """Rows of a [count, 2] input; None if unknown in the graph.

    Raises:
        InvalidArgumentError: Another shape, or a negative number.
    """
    if array is None:
        return None
    if array.ndim != 2 or array.shape[1] != 2 or (count is not None and array.shape[0] != count):
        raise InvalidArgumentError(
            message=f"{name} should have shape [{'?' if count is None else count}, 2] instead of "
            f"{bracketed(array.shape)}"
        )
    rows = [(int(first), int(second)) for first, second in array.tolist()]
    if any(each < 0 for row in rows for each in row):
        raise InvalidArgumentError(message=f"{name} cannot be negative, got {rows}")
    return rows


def _check_rank(rank: int, blocks: int) -> None:
    if rank < blocks + 1:
        raise InvalidArgumentError(
            message=f"input rank should be >= {blocks + 1} instead of {rank}"
        )


def _check_blocks(blocks: Sequence[int]) -> None:
    for block in blocks:
        if block < 1:
            raise InvalidArgumentError(message=f"block_shape must be positive, got {list(blocks)}")


def _known_product(dim: Dim, factor: int) -> Dim:
    return None if dim is None else dim * factor


def _divided(dim: Dim, divisor: int, what: str) -> Dim:
    if dim is None:
        return None
    if dim % divisor:
        raise InvalidArgumentError(
            message=f"Dimension size must be evenly divisible by {divisor} but is {dim} "
            f"(the {what})"
        )
    return dim // divisor


def _space_to_batch_shape(
    shape: Shape, blocks: Sequence[int] | None, pads: _Pairs | None, count: int | None
) -> Shape:
    if shape is None:
        return None
    if count is not None:
        _check_rank(len(shape), count)
    if blocks is None or count is None:
        rest = () if count is None else shape[count + 1 :]
        return (None,) * (len(shape) - len(rest)) + rest
    _check_blocks(blocks)
    space: list[Dim] = []
    for i, block in enumerate(blocks):
        dim = shape[i + 1]
        if pads is None:
            space.append(dim if block == 1 and dim is None else None)
            continue
        padded = None if dim is None else dim + sum(pads[i])
        space.append(_divided(padded, block, f"padded dimension {i + 1}"))
    return (_known_product(shape[0], math.prod(blocks)), *space, *shape[len(blocks) + 1 :])


def _space_to_batch(xp: Any, value: Array, blocks: Sequence[int], pads: _Pairs) -> Array:
    count = len(blocks)
    _check_rank(value.ndim, count)
    _check_blocks(blocks)
    rest = value.shape[count + 1 :]
    if any(sum(pad) for pad in pads):
        value = xp.pad(value, [(0, 0), *pads, *[(0, 0)] * len(rest)])
    split: list[int] = []
    for i, block in enumerate(blocks):
        size = _divided(value.shape[i + 1], block, f"padded dimension {i + 1}")
        assert size is not None
        split += [size, block]
    batch = value.shape[0]
    parts = value.reshape(batch, *split, *rest)
    order = [
        *range(2, 2 * count + 1, 2),
        0,
        *range(1, 2 * count, 2),
        *range(2 * count + 1, parts.ndim),
    ]
    return parts.transpose(order).reshape(batch * math.prod(blocks), *split[::2], *rest)


def _batch_to_space_shape(
    shape: Shape, blocks: Sequence[int] | None, crops: _Pairs | None, count: int | None
) -> Shape:
    if shape is None:
        return None
    if count is not None:
        _check_rank(len(shape), count)
    if blocks is None or count is None:
        rest = () if count is None else shape[count + 1 :]
        return (None,) * (len(shape) - len(rest)) + rest
    _check_blocks(blocks)
    batch = _divided(shape[0], math.prod(blocks), "batch")
    space: list[Dim] = []
    for i, block in enumerate(blocks):
        dim = shape[i + 1]
        space.append(
            None if dim is None or crops is None else _cropped(dim * block, crops[i], i + 1)
        )
    return (batch, *space, *shape[len(blocks) + 1 :])


def _cropped(size: int, crop: Sequence[int], axis: int) -> int:
    if sum(crop) > size:
        raise InvalidArgumentError(
            message=f"crops {list(crop)} of dimension {axis} must add up to at most {size}"
        )
    return size - sum(crop)


def _batch_to_space(xp: Any, value: Array, blocks: Sequence[int], crops: _Pairs) -> Array:
    count = len(blocks)
    _check_rank(value.ndim, count)
    _check_blocks(blocks)
    batch = _divided(value.shape[0], math.prod(blocks), "batch")
    space, rest = value.shape[1 : count + 1], value.shape[count + 1 :]
    parts = value.reshape(*blocks, batch, *space, *rest)
    order = [count]
    for i in range(count):
        order += [count + 1 + i, i]
    order += range(2 * count + 1, parts.ndim)
    whole = parts.transpose(order).reshape(
        batch, *(size * block for size, block in zip(space, blocks, strict=True)), *rest
    )
    index = [slice(None)]
    for i, crop in enumerate(crops):
        length = _cropped(whole.shape[i + 1], crop, i + 1)
        index.append(slice(crop[0], crop[0] + length))
    return whole[tuple(index)]


class _BlocksOp(Op):
    """An op that takes one block size for each of the dimensions after the first."""

    outputs = "output: T"
    aliases = frozenset({"input"})
    kernels = STRINGS_ON_HOST
    pairs_name = ""

    def _static(
        self, node: Inference
    ) -> tuple[Sequence[int] | None, list[tuple[int, int]] | None, int | None]:
        """(block sizes, pairs, their number), as far as known."""
        blocks = constant_vector(node, 1, "block_shape")
        shape = node.shapes[1]
        count = None if shape is None else shape[0]
        return blocks, _pairs(node.value(2), self.pairs_name, count), count

    def _blocks(self, blocks: Array, pairs: Array) -> tuple[tuple[int, ...], _Pairs]:
        sizes = vector(blocks, "block_shape")
        found = _pairs(pairs, self.pairs_name, len(sizes))
        assert found is not None
        return sizes, found


@register
class SpaceToBatchND(_BlocksOp):
    """Pads the dimensions after the first, cuts them into blocks, moves blocks into the batch."""

    capturable = True
    host_inputs = frozenset({"block_shape", "paddings"})
    inputs = "input: T, block_shape: Tblock_shape, paddings: Tpaddings"
    attrs = {"T": type_attr(), "Tblock_shape": _INDEX, "Tpaddings": _INDEX}
    pairs_name = "paddings"

    def infer(self, node: Inference) -> Sequence[Shape]:
        """(batch * product of the blocks, padded size / block, ..., the rest)."""
        return [_space_to_batch_shape(node.shapes[0], *self._static(node))]

    def compute(self, xp: Any, value: Array, block_shape: Array, paddings: Array) -> Array:
        """A new array.

        Raises:
            InvalidArgumentError: A padded size is not a multiple of its block.
        """
        return _space_to_batch(xp, value, *self._blocks(block_shape, paddings))

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Any, ...]:
        """The blocks moved back, with the padding cropped."""
        return g.BatchToSpaceND(dy, *op.inputs[1:]), None, None


@register
class BatchToSpaceND(_BlocksOp):
    """The inverse of `SpaceToBatchND`, with cropping instead of padding."""

    capturable = True
    host_inputs = frozenset({"block_shape", "crops"})
    inputs = "input: T, block_shape: Tblock_shape, crops: Tcrops"
    attrs = {"T": type_attr(), "Tblock_shape": _INDEX, "Tcrops": _INDEX}
    pairs_name = "crops"

    def infer(self, node: Inference) -> Sequence[Shape]:
        """(batch / product of the blocks, size * block - crops, ..., the rest)."""
        return [_batch_to_space_shape(node.shapes[0], *self._static(node))]

    def compute(self, xp: Any, value: Array, block_shape: Array, crops: Array) -> Array:
        """A new array.

        Raises:
            InvalidArgumentError: The batch is not a multiple of the blocks, or too much is cropped.
        """
        return _batch_to_space(xp, value, *self._blocks(block_shape, crops))

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Any, ...]:
        """The blocks moved into the batch again."""
        return g.SpaceToBatchND(dy, *op.inputs[1:]), None, None


class _SquareBlocks(Composed):
    """An op on images with one block size for height and width."""

    outputs = "output: T"
    aliases = frozenset({"input"})
    kernels = STRINGS_ON_HOST

    def infer(self, node: Inference) -> Sequence[Shape]:
        """As the general op, for images."""
        node.with_rank(0, 4, "input")
        return super().infer(node)


@register
class SpaceToBatch(_SquareBlocks):
    """`SpaceToBatchND` of images with one block size for height and width."""

    inputs = "input: T, paddings: Tpaddings"
    attrs = {"T": type_attr(), "Tpaddings": _INDEX, "block_size": int_attr(minimum=2)}

    def define(self, g: Any, images: Tensor, paddings: Tensor, *, block_size: int) -> Tensor:
        """The same block twice."""
        return g.SpaceToBatchND(images, np.array([block_size] * 2, np.int32), paddings)


@register
class BatchToSpace(_SquareBlocks):
    """`BatchToSpaceND` of images with one block size for height and width."""

    inputs = "input: T, crops: Tidx"
    attrs = {"T": type_attr(), "block_size": int_attr(minimum=2), "Tidx": _INDEX}

    def define(self, g: Any, images: Tensor, crops: Tensor, *, block_size: int) -> Tensor:
        """The same block twice."""
        return g.BatchToSpaceND(images, np.array([block_size] * 2, np.int32), crops)


class _DepthOp(Op):
    """An op that exchanges height and width for channels."""

    inputs = "input: T"
    outputs = "output: T"
    attrs = {
        "T": type_attr(),
        "block_size": int_attr(minimum=2),
        "data_format": string_attr("NHWC", frozenset({"NHWC", "NCHW", "NCHW_VECT_C"})),
    }
    kernels = STRINGS_ON_HOST
    inverse = ""

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The sizes divided and multiplied by the block size."""
        data_format = node.attrs["data_format"]
        _check_format(data_format)
        shape = node.with_rank(0, 4, "input")
        channels_last = shape if data_format == "NHWC" else (shape[0], *shape[2:], shape[1])
        batch, *sizes = self._sizes(channels_last, node.attrs["block_size"])
        if data_format == "NHWC":
            return [(batch, *sizes)]
        return [(batch, sizes[2], *sizes[:2])]

    def compute(self, xp: Any, value: Array, *, block_size: int, data_format: str) -> Array:
        """A new array.

        Raises:
            InvalidArgumentError: The sizes are not multiples of the block size.
        """
        _check_format(data_format)
        if data_format == "NHWC":
            return self._rearranged(value, block_size)
        last = self._rearranged(value.transpose(0, 2, 3, 1), block_size)
        return last.transpose(0, 3, 1, 2)

    def _sizes(self, shape: Sequence[Dim], block: int) -> Sequence[Dim]:
        raise NotImplementedError

    def _rearranged(self, value: Array, block: int) -> Array:
        raise NotImplementedError

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Tensor, ...]:
        """The inverse."""
        inverse = getattr(g, self.inverse)
        block, data_format = op.attr("block_size"), op.attr("data_format")
        return (inverse(dy, block_size=block, data_format=data_format),)


def _check_format(data_format: str) -> None:
    if data_format == "NCHW_VECT_C":
        raise InvalidArgumentError(message="NCHW_VECT_C is for int8 on GPUs with TensorRT only")


@register
class SpaceToDepth(_DepthOp):
    """Blocks of height and width become channels."""

    capturable = True
    inverse = "DepthToSpace"

    def _sizes(self, shape: Sequence[Dim], block: int) -> Sequence[Dim]:
        batch, height, width, depth = shape
        return (
            batch,
            _divided(height, block, "height"),
            _divided(width, block, "width"),
            _known_product(depth, block * block),
        )

    def _rearranged(self, value: Array, block: int) -> Array:
        batch, height, width, depth = self._sizes(value.shape, block)
        parts = value.reshape(batch, height, block, width, block, value.shape[3])
        return parts.transpose(0, 1, 3, 2, 4, 5).reshape(batch, height, width, depth)


@register
class DepthToSpace(_DepthOp):
    """Channels become blocks of height and width."""

    capturable = True
    inverse = "SpaceToDepth"

    def _sizes(self, shape: Sequence[Dim], block: int) -> Sequence[Dim]:
        batch, height, width, depth = shape
        return (
            batch,
            _known_product(height, block),
            _known_product(width, block),
            _divided(depth, block * block, "depth"),
        )

    def _rearranged(self, value: Array, block: int) -> Array:
        batch, height, width, depth = self._sizes(value.shape, block)
        parts = value.reshape(batch, value.shape[1], value.shape[2], block, block, depth)
        return parts.transpose(0, 1, 3, 2, 4, 5).reshape(batch, height, width, depth)
