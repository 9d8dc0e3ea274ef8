"""The row schema: conversion of Arrow columns to model inputs, the same for all sources of rows.

`fit` and streams (what Spark's SQL selected), `fitOnParquet` (what files store) and `transform`,
`evaluate` with it (what Spark sends to Python workers) decode here. Knows no Spark.

The rules:
- A row is invalid in an input if it is null, if one of its elements is, or a list inside of it, or
  if one of its elements is what `refuses` says: NaNs, or infinities as well. Negative weights are
  invalid, too. Where an input takes whole numbers, neither NaNs nor infinities can be any.
- `fill` takes the place of invalid elements; texts become empty. Of rows that are null all elements
  of a dense input are filled; sparse and ragged ones get none.
- Dates are days since 1970, timestamps microseconds since 1970 in UTC, without a zone as if they
  were in UTC. Decimals become the nearest float64 and then float32, those without places int64.
  What int64 cannot hold is invalid.
- Every row of a dense or sparse input has as many elements as the input says; lists inside of lists
  have one length at each level. Anything else is an error.
- Sparse inputs keep what sparse vectors store; of dense vectors and lists, what is not zero.

Arrays without nulls whose type fits are not copied.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkflow.spark.data.schema.row_format import DENSE, RAGGED, SPARSE, Input, arrow_type
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.resources.datasets.arrow_columns import (
    Array,
    Mask,
    field,
    is_list,
    lists,
    missing_in,
    numbers,
    plain,
    plain_numbers,
    plain_types,
    texts,
    whole,
)

SCALARS: Final = "scalars"
"""A column of single values for each element."""
ARRAY: Final = "array"
"""One column of lists, which may hold lists."""
VECTOR: Final = "vector"
"""One column of Spark ML's vectors, as it stores them: type, size, indices, values."""
VECTOR_PARTS: Final = "vector parts"
"""Three columns: values, indices and size of such vectors."""
PAIRS: Final = "pairs"
"""One column of structs of indices and values: sparse vectors of the input's size."""

FEATURES, LABEL, WEIGHT = "features", "label", "weight"
"""What an input is for."""

NOTHING, NANS, NON_FINITE = "nothing", "NaNs", "NaNs and infinities"
"""Which numbers are invalid beside nulls."""

_SHOWN_LENGTHS: Final = 5
_BEYOND: Final = 2.0**63
"""The least number that int64 cannot hold."""
_DENSE_VECTOR: Final = 1
"""The field `type` of Spark ML's vectors where they are dense."""


class Wanted(Protocol):
    """What a model, or a row format, says of an input."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def kind(self) -> str:
        """`dense`, `sparse` or `ragged`."""

    @property
    def dtype(self) -> str:
        """`float32`, `int64` or `string`."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one row."""


@dataclass(frozen=True, slots=True)
class InputColumns:
    """The columns that one input is made of.

    Attributes:
        input: The input.
        form: How they hold it: `SCALARS`, `ARRAY`, `VECTOR`, `VECTOR_PARTS` or `PAIRS`.
        columns: Their names.
        role: What the input is for: `features`, `label` or `weight`.
    """

    input: Wanted
    form: str
    columns: tuple[str, ...]
    role: str = FEATURES

    @property
    def width(self) -> int:
        """How many Arrow arrays there are."""
        return {SCALARS: len(self.columns), VECTOR_PARTS: 3}.get(self.form, 1)

    @property
    def size(self) -> int:
        """Elements of a row that is dense."""
        return math.prod(self.input.shape)

    def describe(self) -> str:
        """The columns as error texts name them."""
        shown = ", ".join(map(repr, self.columns[:3]))
        return shown + (f" and {len(self.columns) - 3} more" if len(self.columns) > 3 else "")

    def to_json(self) -> dict[str, Any]:
        """As JSON can hold it; for inputs of a `RowFormat`."""
        wanted = self.input
        return {
            "input": [wanted.name, wanted.kind, wanted.dtype, list(wanted.shape)],
            "form": self.form,
            "columns": list(self.columns),
            "role": self.role,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> InputColumns:
        """Reads what `to_json` wrote."""
        name, kind, dtype, shape = value["input"]
        wanted = Input(name, kind, dtype, tuple(shape))
        return cls(wanted, value["form"], tuple(value["columns"]), value["role"])


@dataclass(frozen=True, slots=True)
class Rows:
    """One input of some rows.

    Attributes:
        input: The input.
        count: How many rows.
        elements: Numbers, of the input's dtype, or an Arrow array of texts; row after row.
        invalid: [rows] which are invalid, and were not filled; None where none is. There is a value
            in their place.
        lengths: [rows] elements of each row; None if dense.
        places: [n] where each element is in its row; None unless sparse.
    """

    input: Wanted
    count: int
    elements: Any
    invalid: Mask | None
    lengths: Array | None = None
    places: Array | None = None

    def components(self) -> list[Array]:
        """What a graph is fed: one array, or the three of a SparseTensor."""
        values: Array = texts(self.elements) if self.input.dtype == "string" else self.elements
        if self.lengths is None:
            return [values.reshape(self.count, *self.input.shape)]
        rows = np.repeat(np.arange(self.count), self.lengths)
        size = self.input.shape[0] if self.input.kind == SPARSE else self.lengths.max(initial=0)
        places = _within(self.lengths) if self.places is None else self.places
        indices = np.empty((len(rows), 2), np.int64)
        indices[:, 0], indices[:, 1] = rows, places
        return [indices, values, np.array([self.count, size], np.int64)]

    def column(self) -> pa.Array:
        """The column of a `RowFormat`."""
        element = arrow_type(self.input.dtype)
        values = self.elements
        if self.input.dtype != "string":
            values = pa.array(values)
        elif values.type != element:
            values = values.cast(element)
        if self.lengths is None:
            if self.input.shape == ():
                return values
            kind = pa.list_(element, math.prod(self.input.shape))
            return pa.FixedSizeListArray.from_arrays(values, type=kind)
        ends = pa.array(np.append(0, np.cumsum(self.lengths)).astype(np.int32))
        found = pa.ListArray.from_arrays(ends, values)
        if self.input.kind == RAGGED:
            return found
        indices = pa.ListArray.from_arrays(ends, pa.array(self.places, pa.int32()))
        return pa.StructArray.from_arrays([indices, found], ["indices", "values"])


@dataclass(frozen=True, slots=True)
class RowSchema:
    """What rows consist of and what becomes of what is wrong with them; see this module.

    Attributes:
        inputs: The inputs.
        refuses: `NOTHING`, `NANS` or `NON_FINITE`.
        fill: What takes the place of invalid elements of features, which are valid then; None
            leaves rows invalid, with zeros.
    """

    inputs: tuple[InputColumns, ...]
    refuses: str = NON_FINITE
    fill: float | None = None

    def decode(self, arrays: Sequence[Any]) -> list[Rows]:
        """The inputs of a batch.

        Args:
            arrays: The Arrow arrays of all inputs, `width` of each, one after the other.

        Raises:
            InvalidArgumentError: Rows have another number of elements than an input takes.
        """
        found = []
        start = 0
        for each in self.inputs:
            found.append(self._input(each, arrays[start : start + each.width]))
            start += each.width
        return found

    def _input(self, columns: InputColumns, arrays: Sequence[Any]) -> Rows:
        decoding = _Decoding(columns, self.refuses, self.fill or 0.0)
        rows = decoding.decode(arrays)
        if rows.invalid is None or self.fill is None or columns.role != FEATURES:
            return rows
        return Rows(rows.input, rows.count, rows.elements, None, rows.lengths, rows.places)


@dataclass(frozen=True, slots=True)
class _Decoding:
    """One input being decoded."""

    columns: InputColumns
    refuses: str
    fill: float

    def decode(self, arrays: Sequence[Any]) -> Rows:
        form = self.columns.form
        if form == SCALARS and len(arrays) > 1 and self.columns.input.dtype != "string":
            return self._many_numbers(arrays)
        arrays = [whole(array) for array in arrays]
        if form == SCALARS:
            return self._scalars(arrays)
        if form == ARRAY:
            return self._lists(arrays[0])
        if form == PAIRS:
            (pairs,) = arrays
            missing = missing_in(pairs)
            indices = field(pairs, "indices")
            return self._vectors(field(pairs, "values"), indices, missing, _valid(indices))
        if form == VECTOR_PARTS:
            values, indices, sizes = arrays
            return self._vectors(values, indices, missing_in(values), _valid(indices), sizes)
        (vectors,) = arrays
        missing = missing_in(vectors)
        is_sparse = numbers(field(vectors, "type")) != _DENSE_VECTOR
        values, indices, sizes = (field(vectors, each) for each in ("values", "indices", "size"))
        return self._vectors(values, indices, missing, is_sparse, sizes)

    def _scalars(self, arrays: Sequence[Any]) -> Rows:
        wanted, rows = self.columns.input, len(arrays[0])
        if len(arrays) == 1:
            values, invalid = self._elements(arrays[0])
            return Rows(wanted, rows, values, invalid)
        found = [self._elements(array) for array in arrays]
        order = np.arange(len(arrays) * rows).reshape(len(arrays), rows).T.ravel()
        joined = pa.concat_arrays([each.cast(arrow_type("string")) for each, _ in found])
        return Rows(wanted, rows, joined.take(pa.array(order)), _any(m for _, m in found))

    def _many_numbers(self, arrays: Sequence[Any]) -> Rows:
        """Columns side by side; with hundreds of them, what is done for each one counts."""
        wanted, rows = self.columns.input, len(arrays[0])
        side_by_side = np.empty((rows, len(arrays)), wanted.dtype)
        plain = plain_types(side_by_side.dtype)
        wrong: Mask | None = None
        with np.errstate(over="ignore"):
            for index, array in enumerate(arrays):
                if array.type.id in plain and not array.null_count:
                    side_by_side[:, index] = plain_numbers(array)
                    continue
                side_by_side[:, index], faults = self._numbers(whole(array))
                if faults is not None:
                    wrong = np.zeros(side_by_side.shape, bool) if wrong is None else wrong
                    wrong[:, index] = faults
        flat = side_by_side.reshape(-1)
        values, invalid = self._judged(flat, None if wrong is None else wrong.reshape(-1))
        by_row: Mask | None = None
        if invalid is not None:
            by_row = np.any(invalid.reshape(rows, -1), axis=1)
        return Rows(wanted, rows, values, by_row)

    def _lists(self, array: Any) -> Rows:
        wanted, rows = self.columns.input, len(array)
        lengths, missing, flat = self._flat(array)
        if wanted.kind == RAGGED:
            values, invalid = self._elements(flat)
            return Rows(wanted, rows, values, _either(missing, _by_row(invalid, lengths)), lengths)
        size = self.columns.size
        self._require_lengths(lengths, missing)
        values, invalid = self._elements(flat)
        valid = None if missing is None else ~missing
        bad: Mask | None = None
        if invalid is not None:
            bad = np.any(invalid.reshape(-1, size), axis=1)
        if valid is not None:
            values = self._spread(values, valid, size)
            found = ~valid
            if bad is not None:
                found[valid] = bad
            bad = found
        if wanted.kind == DENSE:
            return Rows(wanted, rows, values, bad)
        return self._not_zero(values.reshape(rows, size), missing, bad)

    def _not_zero(self, full: Array, missing: Mask | None, invalid: Mask | None) -> Rows:
        stored = full != 0
        if missing is not None:
            stored[missing] = False
        row, places = np.nonzero(stored)
        lengths = np.bincount(row, minlength=len(full))
        return Rows(
            self.columns.input, len(full), full[stored], invalid, lengths, places.astype(np.int32)
        )

    def _spread(self, values: Any, valid: Mask, size: int) -> Any:
        """The elements of the rows that there are, with filled ones for the others."""
        if self.columns.input.dtype == "string":
            places = np.full((len(valid), size), len(values))
            places[valid] = np.arange(len(values)).reshape(-1, size)
            more = pa.concat_arrays([values, pa.array([""], values.type)])
            return more.take(pa.array(places.ravel()))
        full = np.full((len(valid), size), self.fill, values.dtype)
        full[valid] = values.reshape(-1, size)
        return full.reshape(-1)

    def _flat(self, array: Any) -> tuple[Array, Mask | None, Any]:
        """Per row the number of elements, which rows are null, and the elements of the others."""
        outer = lists(array)
        if not is_list(outer.elements.type):
            return outer.lengths, outer.missing, outer.elements
        inner_missing = missing_in(outer.elements)
        if inner_missing is not None:
            # A null in place of a list makes its row null.
            owners = np.repeat(np.arange(len(array)), outer.lengths)
            marked = np.zeros(len(array), bool) if outer.missing is None else outer.missing.copy()
            marked[owners[inner_missing]] = True
            kept = pa.array(np.where(marked, -1, np.arange(len(array))), mask=marked)
            return self._flat(array.take(kept))
        lengths, _, flat = self._flat(outer.elements)
        inner = lists(outer.elements).lengths
        if len(inner) and (inner != inner[0]).any():
            # Refused by the number of elements unless they add up to the same by chance.
            self._refuse_lengths(inner[inner != inner[0]], len(inner), int(inner[0]), "list")
        ends = np.append(0, np.cumsum(lengths))
        edges = np.append(0, np.cumsum(outer.lengths))
        return np.diff(ends[edges]), outer.missing, flat

    def _vectors(
        self,
        values: Any,
        indices: Any,
        missing: Mask | None,
        is_sparse: Mask,
        sizes: Any = None,
    ) -> Rows:
        """Rows of the two forms; sparse ones have the input's size if `sizes` does not say it."""
        wanted, size = self.columns.input, self.columns.size
        if not is_sparse.any() and wanted.kind == DENSE:
            return self._lists(values)
        rows = len(values)
        missing = _either(missing, missing_in(values))
        stored, at = lists(values), lists(indices)
        counts = stored.lengths
        asked = np.where(is_sparse, size if sizes is None else numbers(sizes), counts)
        self._require_lengths(asked, missing)
        if (counts != at.lengths)[is_sparse].any():
            raise InvalidArgumentError(
                message=f"Sparse vectors in the column {self.columns.describe()} have other numbers"
                " of indices than of values"
            )
        elements, bad = self._elements(stored.elements)
        places = numbers(at.elements).astype(np.int32, copy=False)
        self._require_places(places, at.elements.null_count)
        if not is_sparse.all():
            of_sparse = np.repeat(is_sparse, counts)
            stored_places, places = places, _within(counts).astype(np.int32)
            places[of_sparse] = stored_places
        invalid = _either(missing, _by_row(bad, counts))
        if wanted.kind == DENSE:
            full = np.zeros((rows, size), elements.dtype)
            full[np.repeat(np.arange(rows), counts), places] = elements
            if missing is not None:
                full[missing] = self.fill
            return Rows(wanted, rows, full.reshape(-1), invalid)
        if not is_sparse.all():
            kept = of_sparse | (elements != 0)
            if bad is not None:
                kept |= bad  # whatever they are filled with
            owners = np.repeat(np.arange(rows), counts)[kept]
            counts = np.bincount(owners, minlength=rows)
            elements, places = elements[kept], places[kept]
        return Rows(wanted, rows, elements, invalid, counts, places)

    def _elements(self, array: Any) -> tuple[Any, Mask | None]:
        """Single values, filled where they are invalid, and which were; None if none was."""
        if self.columns.input.dtype == "string":
            missing = missing_in(array)
            return (array if missing is None else array.fill_null("")), missing
        return self._judged(*self._numbers(array))

    def _numbers(self, array: Any) -> tuple[Array, Mask | None]:
        """Values of the input's dtype, and which are null or none that it can hold."""
        dtype = np.dtype(self.columns.input.dtype)
        array = plain(array, as_whole=dtype.kind == "i")
        values = numbers(array)
        missing = missing_in(array)
        if values.dtype == dtype:
            return values, missing
        if dtype.kind == "i":
            too_great = values >= _BEYOND if values.dtype.kind in "fu" else np.False_
            faults = not_finite(values) if values.dtype.kind == "f" else None
            if np.any(too_great):
                faults = _either(faults, np.asarray(too_great))
            if faults is not None:
                values = np.where(faults, 0, values)
            missing = _either(missing, faults)
        with np.errstate(over="ignore"):
            return values.astype(dtype), missing

    def _judged(self, values: Array, invalid: Mask | None) -> tuple[Array, Mask | None]:
        """The values, filled where they are null or refused, and which were."""
        if values.dtype.kind == "f" and self.refuses != NOTHING:
            look = nans if self.refuses == NANS else not_finite
            invalid = _either(invalid, look(values))
        if self.columns.role == WEIGHT and (values < 0).any():
            invalid = _either(invalid, values < 0)
        if invalid is None:
            return values, None
        return np.where(invalid, np.asarray(self.fill).astype(values.dtype), values), invalid

    def _require_lengths(self, lengths: Array, missing: Mask | None) -> None:
        size = self.columns.size
        wrong = lengths != size
        if missing is not None:
            wrong &= ~missing
        if wrong.any():
            self._refuse_lengths(lengths[wrong], len(lengths), size, "row")

    def _refuse_lengths(self, wrong: Array, count: int, size: int, per: str) -> None:
        found = np.unique(wrong)
        shown = ", ".join(map(str, found[:_SHOWN_LENGTHS].tolist()))
        more = ", ..." if len(found) > _SHOWN_LENGTHS else ""
        raise InvalidArgumentError(
            message=f"The model takes {size} elements per {per} for {self.columns.input.name!r}, "
            f"but {len(wrong)} of {count} {per}s of a batch have another number in the column "
            f"{self.columns.describe()}: {shown}{more}"
        )

    def _require_places(self, places: Array, nulls: int) -> None:
        size = self.columns.size
        if nulls or (len(places) and (places.min() < 0 or places.max() >= size)):
            outside = int(np.count_nonzero((places < 0) | (places >= size))) + nulls
            raise InvalidArgumentError(
                message=f"{outside} indices of the sparse vectors in {self.columns.describe()} are "
                f"outside of 0 to {size - 1}"
            )


def _within(lengths: Array) -> Array:
    """Of each element its place in its row."""
    begins = np.cumsum(lengths) - lengths
    found: Array = np.arange(int(lengths.sum())) - np.repeat(begins, lengths)
    return found


def _valid(array: Any) -> Mask:
    missing = missing_in(array)
    return np.ones(len(array), bool) if missing is None else ~missing


def _by_row(bad: Mask | None, lengths: Array) -> Mask | None:
    """Which rows have an element that is wrong."""
    if bad is None:
        return None
    found = np.zeros(len(lengths), bool)
    found[np.repeat(np.arange(len(lengths)), lengths)[bad]] = True
    return found


def _either(one: Mask | None, other: Mask | None) -> Mask | None:
    if one is None or other is None:
        return one if other is None else other
    return one | other


def _any(masks: Any) -> Mask | None:
    found: Mask | None = None
    for mask in masks:
        found = _either(found, mask)
    return found


def all_finite(values: npt.NDArray[Any]) -> bool:
    """Whether there are neither NaNs nor infinities; reads the values once if there are none."""
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(np.add.reduce(values)):
            return True
    return bool(np.isfinite(values).all())


def nans(values: npt.NDArray[Any]) -> Mask | None:
    """[n]: which values are NaN; None if none is."""
    # The sum of squares is the fastest way to see whether there may be one; then look closely.
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(np.dot(values, values)):
            return None
    found: Mask = np.isnan(values)
    return found if found.any() else None


def not_finite(values: npt.NDArray[Any]) -> Mask | None:
    """[n]: which values are NaN or infinite; None if none is."""
    return None if all_finite(values) else ~np.isfinite(values)
