"""The rules of strided slices: converts bounds and bit masks to a numpy index.

Python's slices clamp and count from the end exactly as TensorFlow's do, so a specification becomes
an index of numbers, slices, None and Ellipsis.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from sparkflow_runtime.codegen.cpu.parts import Along
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.op import Array
from sparkflow_runtime.ops.static import bracketed
from sparkflow_runtime.shapes import Dim, Shape

# `...` itself cannot be written as a type in Python 3.10, hence Any.
Entry: TypeAlias = Any
"""One element of an index: an int, a slice, None (new axis) or Ellipsis."""
_NUMBER: Final = object()
"""Represents a plain index that is unknown in the graph."""
_PART: Final = object()
"""Represents a slice with an unknown bound or stride."""


@dataclass(frozen=True, slots=True)
class Masks:
    """The five bit masks of a strided slice; bit i belongs to element i of the bounds."""

    begin: int = 0
    end: int = 0
    ellipsis: int = 0
    new_axis: int = 0
    shrink_axis: int = 0

    @classmethod
    def of(cls, attrs: Mapping[str, Any]) -> Masks:
        """The masks among an op's attributes."""
        return cls(
            attrs["begin_mask"],
            attrs["end_mask"],
            attrs["ellipsis_mask"],
            attrs["new_axis_mask"],
            attrs["shrink_axis_mask"],
        )


@dataclass(frozen=True, slots=True)
class StridedSpec:
    """A slice specification as index entries.

    Attributes:
        entries: One per element of the bounds, an Ellipsis among them or at the end.
    """

    entries: tuple[Entry, ...]

    @classmethod
    def of(cls, begin: Array, end: Array, strides: Array, masks: Masks) -> StridedSpec:
        """Reads the bounds of a kernel's inputs.

        Raises:
            InvalidArgumentError: They are not vectors of equal length, or contradict each other.
        """
        if not begin.ndim == end.ndim == strides.ndim == 1 or not (
            begin.size == end.size == strides.size
        ):
            raise InvalidArgumentError(
                message="Expected begin, end, and strides to be 1D equal size tensors, but got "
                f"shapes {bracketed(begin.shape)}, {bracketed(end.shape)}, "
                f"{bracketed(strides.shape)} instead"
            )
        return cls(_entries(begin.tolist(), end.tolist(), strides.tolist(), masks))

    def index(self, shape: Sequence[int]) -> tuple[Entry, ...]:
        """The numpy index for a tensor of this shape; always yields an array, never a scalar.

        Raises:
            InvalidArgumentError: A plain number outside its dimension, or too many dimensions.
        """
        for axis, entry in _dimensions(self.entries, len(shape)):
            _check_number(entry, axis, shape[axis])
        return self.entries


def static_shape(
    shape: Sequence[Dim],
    begin: Sequence[Dim],
    end: Sequence[Dim],
    strides: Sequence[Dim],
    masks: Masks,
) -> Shape:
    """The static shape of the slice.

    Args:
        shape: The input's shape; sizes may be unknown.
        begin: The start bounds, None for unknown ones.
        end: The end bounds, likewise.
        strides: The strides, likewise.
        masks: The masks.

    Raises:
        InvalidArgumentError: As `StridedSpec.of` and `index`.
    """
    entries = _entries(begin, end, strides, masks)
    sizes: dict[int, Dim] = {}
    for axis, entry in _dimensions(entries, len(shape)):
        dim = shape[axis]
        if isinstance(entry, int):
            _check_number(entry, axis, dim)
        elif entry is _PART:
            sizes[axis] = None
        elif entry == slice(None):
            sizes[axis] = dim
        elif entry is not _NUMBER:
            sizes[axis] = None if dim is None else len(range(*entry.indices(dim)))
    return _assembled(entries, len(shape), sizes)


def parts_along(
    whole: Sequence[int], part: Sequence[int], strides: Array, masks: Masks
) -> list[Along] | None:
    """The slice along each dimension of the input, for any start bounds.

    Args:
        whole: The input's shape.
        part: The output's shape.
        strides: The strides.
        masks: The masks.

    Returns:
        None if a stride is not 1.
    """
    count = strides.size
    entries = _entries(range(count), [None] * count, strides.tolist(), masks)
    sizes, found, axis = list(part), list[Along](), 0
    covered = _covered_by_ellipsis(entries, len(whole))
    for number, entry in enumerate(entries):
        if entry is None:
            del sizes[0]
        elif entry is Ellipsis:
            found += [Along(whole[axis + n], sizes.pop(0), None) for n in range(covered)]
            axis += covered
        else:
            is_number = isinstance(entry, int)
            if not is_number and strides[number] != 1:
                return None
            starts_first = not is_number and masks.begin & 1 << number
            taken = 1 if is_number else sizes.pop(0)
            start = None if starts_first else number
            found.append(Along(whole[axis], taken, start, wraps=True))
            axis += 1
    return found


def _assembled(entries: Sequence[Entry], rank: int, sizes: Mapping[int, Dim]) -> Shape:
    """The output's sizes in order, with 1 for every new axis."""
    result: list[Dim] = []
    axis = 0
    covered = _covered_by_ellipsis(entries, rank)
    for entry in entries:
        if entry is None:
            result.append(1)
            continue
        count = covered if entry is Ellipsis else 1
        result.extend(sizes[i] for i in range(axis, axis + count) if i in sizes)
        axis += count
    return tuple(result)


def _entries(
    begin: Sequence[Dim], end: Sequence[Dim], strides: Sequence[Dim], masks: Masks
) -> tuple[Entry, ...]:
    entries: list[Entry] = []
    for i, (start, stop, step) in enumerate(zip(begin, end, strides, strict=True)):
        bit = 1 << i
        if masks.ellipsis & bit:
            if Ellipsis in entries:
                raise InvalidArgumentError(message="Multiple ellipses in slice spec not allowed")
            entries.append(Ellipsis)
        elif masks.new_axis & bit:
            entries.append(None)
        elif step == 0:
            raise InvalidArgumentError(message=f"strides[{i}] must be non-zero")
        elif masks.shrink_axis & bit:
            if step is not None and step < 0:
                raise InvalidArgumentError(message="only stride 1 allowed on non-range indexing.")
            entries.append(_NUMBER if start is None else start)
        else:
            entries.append(
                _part(
                    start,
                    stop,
                    step,
                    from_first=bool(masks.begin & bit),
                    to_last=bool(masks.end & bit),
                )
            )
    if Ellipsis not in entries:
        entries.append(Ellipsis)
    return tuple(entries)


def _part(start: Dim, stop: Dim, step: Dim, *, from_first: bool, to_last: bool) -> Entry:
    if step is None or (start is None and not from_first) or (stop is None and not to_last):
        return _PART
    return slice(
        None if from_first else start, None if to_last else stop, None if step == 1 else step
    )


def _covered_by_ellipsis(entries: Sequence[Entry], rank: int) -> int:
    """The number of dimensions that the ellipsis covers."""
    named = sum(entry is not None and entry is not Ellipsis for entry in entries)
    if named > rank == 0:
        raise InvalidArgumentError(message="Attempting to slice scalar input.")
    if named > rank:
        raise InvalidArgumentError(
            message=f"Index out of range using input dim {rank}; input has only {rank} dims"
        )
    return rank - named


def _dimensions(entries: Sequence[Entry], rank: int) -> list[tuple[int, Entry]]:
    """(input dimension, number or slice) for every dimension, the ellipsis spelled out."""
    found: list[tuple[int, Entry]] = []
    axis = 0
    covered = _covered_by_ellipsis(entries, rank)
    for entry in entries:
        if entry is None:
            continue
        if entry is Ellipsis:
            found.extend((i, slice(None)) for i in range(axis, axis + covered))
            axis += covered
        else:
            found.append((axis, entry))
            axis += 1
    return found


def _check_number(entry: Entry, axis: int, dim: Dim) -> None:
    if isinstance(entry, int) and dim is not None and not -dim <= entry < dim:
        raise InvalidArgumentError(
            message=f"slice index {entry} of dimension {axis} out of bounds."
        )
