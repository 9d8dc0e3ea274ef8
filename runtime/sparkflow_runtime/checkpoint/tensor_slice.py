"""Slices of tensors, a range per dimension, in the notation of checkpoints.

Written as text, a range is `start,length`, or `-` for the whole dimension; ranges are separated by
`:`. A specification starts with the shape of the whole tensor: `4 5 0,2:-` means the first two rows
of [4,5].
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from sparkflow_runtime import shapes
from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.errors import DataLossError, InvalidArgumentError
from sparkflow_runtime.protos.tensor_slice_pb2 import TensorSliceProto

FULL: Final = -1
"""The length of a range that covers its dimension; the start is 0."""
_RANGE: Final = re.compile(r"-|(\d{1,18}),(\d{1,18})")
_SIZE: Final = re.compile(r"\d{1,18}")


@dataclass(frozen=True, slots=True)
class TensorSlice:
    """A slice of a tensor.

    Attributes:
        starts: The first index of each dimension.
        lengths: The number of indices; `FULL` for the whole dimension.
    """

    starts: tuple[int, ...]
    lengths: tuple[int, ...]

    @classmethod
    def parse(cls, text: str) -> TensorSlice:
        """Parses a slice such as `0,2:-`.

        Raises:
            InvalidArgumentError: The text is malformed.
        """
        ranges = [_RANGE.fullmatch(each) for each in text.split(":")] if text else []
        if None in ranges or any(each and each[2] and int(each[2]) == 0 for each in ranges):
            raise InvalidArgumentError(
                message=f"Expected a list of 'start,length' or '-' separated by ':' as a tensor "
                f"slice, got {text!r}"
            )
        pairs = [(int(each[1]), int(each[2])) if each[1] else (0, FULL) for each in ranges if each]
        return cls(tuple(start for start, _ in pairs), tuple(length for _, length in pairs))

    @classmethod
    def from_proto(cls, proto: TensorSliceProto) -> TensorSlice:
        """Returns the slice of a message."""
        return cls(
            tuple(each.start for each in proto.extent),
            tuple(each.length if each.HasField("length") else FULL for each in proto.extent),
        )

    def to_proto(self) -> TensorSliceProto:
        """Returns the slice as a message."""
        proto = TensorSliceProto()
        for start, length in zip(self.starts, self.lengths, strict=True):
            extent = proto.extent.add()
            if length != FULL:
                extent.start = start
                extent.length = length
        return proto

    def box(self, shape: Sequence[int]) -> tuple[slice, ...]:
        """Returns the index that selects it from a tensor of this shape.

        Raises:
            InvalidArgumentError: It is not within the tensor.
        """
        if len(shape) != len(self.starts):
            raise InvalidArgumentError(
                message=f"Slice {self} has {len(self.starts)} dimensions, the tensor's shape "
                f"{shapes.text(tuple(shape))} has {len(shape)}"
            )
        found = []
        for start, length, size in zip(self.starts, self.lengths, shape, strict=True):
            stop = size if length == FULL else start + length
            if stop > size:
                raise InvalidArgumentError(
                    message=f"Slice {self} is out of range for shape {shapes.text(tuple(shape))}"
                )
            found.append(slice(start, stop))
        return tuple(found)

    @classmethod
    def whole(cls, rank: int) -> TensorSlice:
        """All of a tensor."""
        return cls((0,) * rank, (FULL,) * rank)

    def shape_in(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Returns the shape of this slice of a tensor of the given shape.

        Raises:
            InvalidArgumentError: It is not within the tensor.
        """
        return tuple(each.stop - each.start for each in self.box(shape))

    def key(self, name: str) -> bytes:
        """Returns the key of this slice of the tensor `name` in a checkpoint's index."""
        encoded = [_number(0), _text(name.encode()), _number(len(self.starts))]
        for start, length in zip(self.starts, self.lengths, strict=True):
            encoded += [_signed(start), _signed(length)]
        return b"".join(encoded)

    def __str__(self) -> str:
        return ":".join(
            "-" if length == FULL else f"{start},{length}"
            for start, length in zip(self.starts, self.lengths, strict=True)
        )


def parse_spec(text: str) -> tuple[tuple[int, ...], TensorSlice]:
    """Parses a specification such as `4 5 0,2:-` into the whole shape and the slice.

    Raises:
        InvalidArgumentError: It is malformed, or the slice is not within the shape.
    """
    *sizes, ranges = text.split(" ")
    if not sizes or not all(_SIZE.fullmatch(size) for size in sizes):
        raise InvalidArgumentError(
            message="Need a shape and a slice, as in '4 5 0,2:-', in shape_and_slice spec, got "
            f"{text!r}"
        )
    shape = tuple(int(size) for size in sizes)
    part = TensorSlice.parse(ranges)
    part.box(shape)
    return shape, part


def gather_parts(
    label: str,
    shape: Sequence[int],
    dtype: DType,
    wanted: TensorSlice,
    saved: Iterable[TensorSlice],
    values: Callable[[TensorSlice], np.ndarray[Any, Any]],
) -> np.ndarray[Any, Any]:
    """Assembles one slice of a tensor from others.

    Args:
        label: The tensor's name in error texts.
        shape: The shape of the whole tensor.
        dtype: Its element type.
        wanted: The requested slice.
        saved: The available slices, which do not overlap.
        values: Reads one of them.

    Raises:
        InvalidArgumentError: `wanted` is not within the tensor.
        DataLossError: The available slices do not cover it.
    """
    box = wanted.box(shape)
    result = np.empty(wanted.shape_in(shape), dtype.as_numpy_dtype)
    filled = 0
    for part in saved:
        held = part.box(shape)
        common = [
            slice(max(a.start, b.start), min(a.stop, b.stop))
            for a, b in zip(box, held, strict=True)
        ]
        if any(each.start >= each.stop for each in common):
            continue
        block = values(part)[_relative(common, held)]
        result[_relative(common, box)] = block
        filled += block.size
    if filled < result.size:
        raise DataLossError(
            message=f"Only {filled} of {result.size} elements of slice {wanted} of {label} exist"
        )
    return result


def _relative(inner: Sequence[slice], outer: Sequence[slice]) -> tuple[slice, ...]:
    return tuple(
        slice(a.start - b.start, a.stop - b.start) for a, b in zip(inner, outer, strict=True)
    )


# Keys sort like the numbers and strings in them. Source: the ordered code in checkpoints written by
# TensorFlow.


def _number(value: int) -> bytes:
    size = (value.bit_length() + 7) // 8
    return bytes([size]) + value.to_bytes(size, "big")


def _text(value: bytes) -> bytes:
    escaped = {b"\x00": b"\x00\xff", b"\xff": b"\xff\x00"}
    return re.sub(rb"[\x00\xff]", lambda found: escaped[found[0]], value) + b"\x00\x01"


def _signed(value: int) -> bytes:
    magnitude = ~value if value < 0 else value
    size = magnitude.bit_length() // 7 + 1
    encoded = bytearray(value.to_bytes(size, "big", signed=True))
    header = ((1 << size) - 1) << (16 - size)
    encoded[0] ^= header >> 8
    if size > 1:
        encoded[1] ^= header & 0xFF
    return bytes(encoded)
