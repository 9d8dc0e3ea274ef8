"""Joining, splitting and changing strings; conversions, patterns and Unicode are in other files."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sparkflow_runtime import shapes
from sparkflow_runtime.codegen.strings import parts, splitting
from sparkflow_runtime.codegen.strings.objects import SPACES
from sparkflow_runtime.dtypes import INDEX, int32, int64
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.op import Array, Inference
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import (
    bool_attr,
    int_attr,
    list_attr,
    string_attr,
    type_attr,
)
from sparkflow_runtime.ops.strings.string_arrays import (
    StringOp,
    array_of,
    flat_strings,
    mapped,
    scalar_text,
    sparse_rows,
    strings_of,
    text_of,
)
from sparkflow_runtime.shapes import Shape

_UNIT = string_attr("BYTE", frozenset({"BYTE", "UTF8_CHAR"}))
Split = Callable[[bytes], Sequence[bytes]]


@register
class StringJoin(StringOp):
    """Joins elements with a separator; scalars are joined with every element of the others."""

    elementwise = True
    inputs = "inputs: N * string"
    outputs = "output: string"
    attrs = {"N": int_attr(minimum=0), "separator": string_attr("")}

    def infer(self, node: Inference) -> list[Shape]:
        """The shape of all non-scalar inputs.

        Raises:
            InvalidArgumentError: Two of them differ.
        """
        result: Shape = ()
        for shape in node.shapes:
            if shape is None:
                return [None]
            if shape != ():
                result = shape if result == () else shapes.merge(result, shape)
        return [result]

    def compute(self, xp: Any, *inputs: Array, separator: str) -> Array:
        """Fails if two shapes differ."""
        arrays = [np.asarray(each, np.object_) for each in inputs]
        sizes = {array.shape for array in arrays if array.ndim}
        if len(sizes) > 1:
            raise InvalidArgumentError(
                message=f"Input shapes do not match: {', '.join(map(str, sorted(sizes)))}"
            )
        shape = sizes.pop() if sizes else ()
        columns = [strings_of(np.broadcast_to(array, shape)) for array in arrays]
        between = separator.encode()
        if not columns:
            return array_of([b""], ())
        return array_of(map(between.join, zip(*columns, strict=True)), shape)


class _Splits(StringOp):
    """Returns a sparse matrix: one row per string, one column per part."""

    outputs = "indices: int64, values: string, shape: int64"

    def infer(self, node: Inference) -> list[Shape]:
        """An unknown number of parts.

        Raises:
            InvalidArgumentError: The input is not a vector, or the separator not a scalar.
        """
        node.with_rank(0, 1, "Shape")
        node.with_rank(1, 0, "Shape")
        return [(None, 2), (None,), (2,)]

    def split(self, text: Array, separators: bytes, skips_empty: bool, by_python: Split) -> Any:
        """Splits at each of some bytes; see `codegen.strings.splitting`."""
        strings = flat_strings(text)
        return sparse_rows(
            *splitting.split(strings, separators, skips_empty=skips_empty, by_python=by_python)
        )


@register
class StringSplit(_Splits):
    """Splits at any of the delimiter's characters; into bytes if it is empty."""

    inputs = "input: string, delimiter: string"
    attrs = {"skip_empty": bool_attr(True)}

    def compute(self, xp: Any, text: Array, delimiter: Array, *, skip_empty: bool) -> Any:
        """One row per string."""
        marks = scalar_text(delimiter, "delimiter")
        if not marks:
            strings = flat_strings(text)
            return sparse_rows(*splitting.split_by_python(strings, _bytes_in))
        mark = marks[:1]
        as_one = bytes.maketrans(marks, mark * len(marks))

        def split(data: bytes) -> Sequence[bytes]:
            found = data.translate(as_one).split(mark) if data else []  # empty: no parts
            return list(filter(None, found)) if skip_empty else found

        return self.split(text, marks, skip_empty, split)


def _bytes_in(data: bytes) -> list[bytes]:
    return [data[i : i + 1] for i in range(len(data))]


@register
class StringSplitV2(_Splits):
    """Splits at a separator as Python does; at white space if it is empty."""

    inputs = "input: string, sep: string"
    attrs = {"maxsplit": int_attr(-1)}

    def compute(self, xp: Any, text: Array, sep: Array, *, maxsplit: int) -> Any:
        """One row per string."""
        mark = scalar_text(sep, "sep") or None
        limit = -1 if maxsplit <= 0 else maxsplit

        def split(data: bytes) -> Sequence[bytes]:
            return data.split(mark, limit)

        if limit >= 0 or (mark is not None and len(mark) > 1):
            return sparse_rows(*splitting.split_by_python(flat_strings(text), split))
        return self.split(text, mark or SPACES, mark is None, split)


@register
class Substr(StringOp):
    """Substrings; negative positions count from the end."""

    elementwise = True
    inputs = "input: string, pos: T, len: T"
    outputs = "output: string"
    attrs = {"T": type_attr(INDEX), "unit": _UNIT}

    def infer(self, node: Inference) -> list[Shape]:
        """The common shape of all.

        Raises:
            InvalidArgumentError: `pos` and `len` differ in shape, or do not match the input.
        """
        positions = shapes.merge(node.shapes[1], node.shapes[2])
        return [shapes.broadcast(node.shapes[0], positions)]

    def compute(self, xp: Any, text: Array, pos: Array, length: Array, *, unit: str) -> Array:
        """Fails if a position is outside its string."""
        try:
            strings, starts, sizes = np.broadcast_arrays(np.asarray(text, np.object_), pos, length)
        except ValueError as error:
            raise InvalidArgumentError(
                message=f"pos of shape {np.shape(pos)} does not fit the input of shape "
                f"{np.shape(text)}"
            ) from error
        given = flat_strings(strings)
        starts, sizes = (np.ascontiguousarray(each, np.int64).ravel() for each in (starts, sizes))
        found = np.empty(given.size, np.object_)

        def by_python(number: int) -> None:
            start, size = int(starts[number]), int(sizes[number])
            found[number] = _part(given[number], start, size, unit, number)

        if unit == "BYTE":
            parts.substrings(given, starts, sizes, by_python, found)
        else:
            for number in range(given.size):
                by_python(number)
        return found.reshape(strings.shape)


def _part(data: bytes, start: int, size: int, unit: str, index: int) -> bytes:
    starts = None if unit == "BYTE" else parts.char_starts(data)
    count = len(data) if starts is None else len(starts)
    if not -count <= start <= count:
        raise InvalidArgumentError(
            message=f"pos {start} out of range for string b'{text_of(data)}' at index {index}"
        )
    first = start + count if start < 0 else start
    last = count if size < 0 else min(count, first + size)
    if starts is None:
        return data[first:last]
    ends = [*starts, len(data)]
    return data[ends[first] : ends[last]]


@register
class StringLength(StringOp):
    """The length of a string in bytes or UTF-8 characters."""

    elementwise = True
    inputs = "input: string"
    outputs = "output: int32"
    attrs = {"unit": _UNIT}

    def compute(self, xp: Any, text: Array, *, unit: str) -> Array:
        """Counts."""
        found = parts.lengths(flat_strings(text), in_characters=unit != "BYTE")
        return found.reshape(np.shape(text))


@register
class StringStrip(StringOp):
    """Strips white space at both ends."""

    elementwise = True
    inputs = "input: string"
    outputs = "output: string"

    def compute(self, xp: Any, text: Array) -> Array:
        """ASCII's white space."""
        return parts.stripped(flat_strings(text)).reshape(np.shape(text))


class _ChangesCase(StringOp):
    inputs = "input: string"
    elementwise = True
    outputs = "output: string"
    attrs = {"encoding": string_attr("")}

    def compute(self, xp: Any, text: Array, *, encoding: str) -> Array:
        """Converts ASCII letters only, or all if the encoding is `utf-8`."""
        is_upper = self.op_type == "StringUpper"
        if encoding not in ("", "utf-8"):
            raise InvalidArgumentError(
                message=f"only utf-8 or '' (no encoding) is supported, received {encoding}"
            )
        if not encoding:
            changed = parts.in_ascii_case(flat_strings(text), is_upper=is_upper)
            return changed.reshape(np.shape(text))

        def change(data: bytes) -> bytes:
            characters = data.decode("utf-8", "replace")
            return (characters.upper() if is_upper else characters.lower()).encode()

        return mapped(change, text)


@register
class StringLower(_ChangesCase):
    """In lower case."""


@register
class StringUpper(_ChangesCase):
    """In upper case."""


@register
class ReduceJoin(StringOp):
    """Joins strings along axes, in the given order of axes."""

    inputs = "inputs: string, reduction_indices: int32"
    outputs = "output: string"
    attrs = {"keep_dims": bool_attr(False), "separator": string_attr("")}

    def infer(self, node: Inference) -> list[Shape]:
        """Without the axes, or with 1 in their place.

        Raises:
            InvalidArgumentError: An axis is not one of the input, or is given twice.
        """
        shape, axes = node.shapes[0], node.value(1)
        if shape is None:
            return [None]
        if axes is None:
            return [shapes.unknown(len(shape)) if node.attrs["keep_dims"] else None]
        gone = [_axis(axis, len(shape)) for axis in np.ravel(axes).tolist()]
        if len(set(gone)) < len(gone):
            return [None]  # rejected at run time, as in TensorFlow
        if node.attrs["keep_dims"]:
            return [tuple(1 if i in gone else size for i, size in enumerate(shape))]
        return [tuple(size for i, size in enumerate(shape) if i not in gone)]

    def compute(
        self, xp: Any, text: Array, axes: Array, *, keep_dims: bool, separator: str
    ) -> Array:
        """The last given axis varies slowest."""
        array = np.asarray(text, np.object_)
        gone = _axes(np.ravel(axes).tolist(), array.ndim)
        kept = [i for i in range(array.ndim) if i not in gone]
        sizes = [array.shape[i] for i in kept]
        length = int(np.prod([array.shape[i] for i in gone], dtype=int))
        rows = array.transpose(kept + gone[::-1]).reshape(int(np.prod(sizes, dtype=int)), length)
        between = separator.encode()
        joined = [between.join(row) for row in rows.tolist()]
        shape = [1 if i in gone else n for i, n in enumerate(array.shape)] if keep_dims else sizes
        return array_of(joined, tuple(shape))


def _axis(axis: int, rank: int) -> int:
    if not -rank <= axis < rank:
        raise InvalidArgumentError(
            message=f"Invalid reduction dimension {axis} for input with {rank} dimensions."
        )
    return axis % rank


def _axes(given: Sequence[int], rank: int) -> list[int]:
    axes = [_axis(axis, rank) for axis in given]
    if len(set(axes)) != len(axes):
        raise InvalidArgumentError(message=f"Duplicate reduction dimension in {list(given)}")
    return axes


@register
class UnsortedSegmentJoin(StringOp):
    """Joins strings of the same segment, in order."""

    inputs = "inputs: string, segment_ids: Tindices, num_segments: Tnumsegments"
    outputs = "output: string"
    attrs = {
        "separator": string_attr(""),
        "Tindices": type_attr(INDEX),
        "Tnumsegments": type_attr(INDEX, default=int32),
    }

    def infer(self, node: Inference) -> list[Shape]:
        """The number of segments and what is left of the input's shape.

        Raises:
            InvalidArgumentError: The ids do not match the input's first axes.
        """
        data, ids = node.shapes[0], node.shapes[1]
        if data is None or ids is None:
            return [None]
        shapes.merge(data[: len(ids)], ids)
        count = node.value(2)
        return [(None if count is None else int(count), *data[len(ids) :])]

    def compute(self, xp: Any, text: Array, ids: Array, count: Array, *, separator: str) -> Array:
        """Fails if an id is not a segment."""
        array, ids = np.asarray(text, np.object_), np.asarray(ids)
        rest = array.shape[ids.ndim :]
        total = int(count)
        width = int(np.prod(rest, dtype=int))
        parts: list[list[list[bytes]]] = [[[] for _ in range(width)] for _ in range(total)]
        rows = array.reshape(ids.size, width).tolist()
        for segment, row in zip(ids.ravel().tolist(), rows, strict=True):
            if not 0 <= segment < total:
                raise InvalidArgumentError(
                    message=f"segment_ids should be in [0, num_segments), got {segment} and {total}"
                )
            for column, data in enumerate(row):
                parts[segment][column].append(data)
        between = separator.encode()
        joined = [between.join(cell) for row in parts for cell in row]
        return array_of(joined, (total, *rest))


@register
class StringNGrams(StringOp):
    """Joins n-grams of the strings of each row; rows are given by their ends."""

    inputs = "data: string, data_splits: Tsplits"
    outputs = "ngrams: string, ngrams_splits: Tsplits"
    attrs = {
        "separator": string_attr(),
        "ngram_widths": list_attr("int", minimum=0),
        "left_pad": string_attr(),
        "right_pad": string_attr(),
        "pad_width": int_attr(),
        "preserve_short_sequences": bool_attr(),
        "Tsplits": type_attr(INDEX, default=int64),
    }

    def infer(self, node: Inference) -> list[Shape]:
        """An unknown number of n-grams in as many rows."""
        node.with_rank(0, 1, "data")
        return [(None,), node.with_rank(1, 1, "data_splits")]

    def compute(
        self,
        xp: Any,
        data: Array,
        splits: Array,
        *,
        separator: str,
        ngram_widths: Sequence[int],
        left_pad: str,
        right_pad: str,
        pad_width: int,
        preserve_short_sequences: bool,
    ) -> tuple[Array, Array]:
        """All widths of a row, one after another."""
        strings, ends = strings_of(data), np.asarray(splits)
        if ends.size and (ends[0] != 0 or ends[-1] != len(strings) or np.any(np.diff(ends) < 0)):
            raise InvalidArgumentError(
                message=f"Invalid split values {ends.tolist()} for {len(strings)} strings"
            )
        grams: list[bytes] = []
        counts = [0]
        between = separator.encode()
        for start, end in itertools.pairwise(ends.tolist()):
            row = strings[start:end]
            before = len(grams)
            for width in ngram_widths:
                pads = width - 1 if pad_width < 0 else min(pad_width, width - 1)
                padded = [left_pad.encode()] * pads + row + [right_pad.encode()] * pads
                grams += [
                    between.join(padded[i : i + width]) for i in range(len(padded) - width + 1)
                ]
            if preserve_short_sequences and len(grams) == before and row:
                pads = 0 if pad_width < 0 else pad_width
                padded = [left_pad.encode()] * pads + row + [right_pad.encode()] * pads
                grams.append(between.join(padded))
            counts.append(len(grams))
        return array_of(grams, (len(grams),)), np.array(counts, ends.dtype)
