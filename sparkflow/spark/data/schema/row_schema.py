"""The row schema: converts Arrow columns to model inputs, in the same way for all sources of rows.

It decodes the columns that Spark SQL selected for `fit` and streams, those stored in files for
`fitOnParquet`, and those that Spark sends to Python workers for `transform` and `evaluate`. It does
not import pyspark.

The rules:
- A row is invalid in an input if it is null, if an element or a list inside it is null, or
  if an element is refused by `refuses`: NaNs, or infinities as well. Negative weights are
  invalid, too. For integer inputs, NaNs and infinities are always invalid.
- `fill` replaces invalid elements; strings become empty. In null rows, all elements
  of a dense input are filled; sparse and ragged inputs get no elements.
- Dates are days since 1970, timestamps microseconds since 1970 in UTC; without a zone they
  count as UTC. Decimals become the nearest float64 and then float32; with scale 0, int64.
  Values beyond int64 are invalid.
- Every row of a dense or sparse input has the input's number of elements; lists inside lists
  have one length at each level. Anything else is an error.
- Sparse inputs keep the stored elements of sparse vectors, and the nonzero ones of dense vectors
  and lists.

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
"""One column of single values per element."""
ARRAY: Final = "array"
"""One column of lists, which may be nested."""
VECTOR: Final = "vector"
"""One column of Spark ML vectors as Spark stores them: type, size, indices, values."""
VECTOR_PARTS: Final = "vector parts"
"""Three columns: values, indices and size of such vectors."""
PAIRS: Final = "pairs"
"""One column of structs of indices and values: sparse vectors of the input's size."""

FEATURES, LABEL, WEIGHT = "features", "label", "weight"
"""What an input is for."""

NOTHING, NANS, NON_FINITE = "nothing", "NaNs", "NaNs and infinities"
"""Numbers that are invalid in addition to nulls."""

_SHOWN_LENGTHS: Final = 5
_BEYOND: Final = 2.0**63
"""The smallest positive number beyond int64."""
_DENSE_VECTOR: Final = 1
"""The field `type` of dense Spark ML vectors."""


class Wanted(Protocol):
    """The description of an input by a model or a row format."""

    @property
    def name(self) -> str:
        """The input's name."""

    @property
    def kind(self) -> str:
        """`dense`, `sparse` or `ragged`."""

    @property
    def dtype(self) -> str:
        """`float32`, `int64` or `string`."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one row."""


@dataclass(frozen=True, slots=True)
class InputColumns:
    """The columns that one input is created from.

    Attributes:
        input: The input.
        form: How they store it: `SCALARS`, `ARRAY`, `VECTOR`, `VECTOR_PARTS` or `PAIRS`.
        columns: The names of the columns.
        role: What the input is for: `features`, `label` or `weight`.
    """

    input: Wanted
    form: str
    columns: tuple[str, ...]
    role: str = FEATURES

    @property
    def width(self) -> int:
        """The number of Arrow arrays."""
        return {SCALARS: len(self.columns), VECTOR_PARTS: 3}.get(self.form, 1)

    @property
    def size(self) -> int:
        """The number of elements of a dense row."""
        return math.prod(self.input.shape)

    def describe(self) -> str:
        """Returns the columns for error texts."""
        shown = ", ".join(map(repr, self.columns[:3]))
        return shown + (f" and {len(self.columns) - 3} more" if len(self.columns) > 3 else "")

    def to_json(self) -> dict[str, Any]:
        """Returns the object as JSON types; for inputs of a `RowFormat`."""
        wanted = self.input
        return {
            "input": [wanted.name, wanted.kind, wanted.dtype, list(wanted.shape)],
            "form": self.form,
            "columns": list(self.columns),
            "role": self.role,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> InputColumns:
        """Creates the object from the result of `to_json`."""
        name, kind, dtype, shape = value["input"]
        wanted = Input(name, kind, dtype, tuple(shape))
        return cls(wanted, value["form"], tuple(value["columns"]), value["role"])


@dataclass(frozen=True, slots=True)
class Rows:
    """The values of one input in some rows.

    Attributes:
        input: The input.
        count: The number of rows.
        elements: Numbers of the input's dtype, or an Arrow array of strings; row by row.
        invalid: [rows] whether a row is invalid and was not filled; None if none is. Invalid rows
            have placeholder values.
        lengths: [rows] the number of elements per row; None if dense.
        places: [n] the index of each element in its row; None unless sparse.
    """

    input: Wanted
    count: int
    elements: Any
    invalid: Mask | None
    lengths: Array | None = None
    places: Array | None = None

    def components(self) -> list[Array]:
        """Returns the arrays to feed: one, or the three of a SparseTensor."""
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
        """Returns the column of a `RowFormat`."""
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
    """The inputs in rows and the handling of invalid elements; see the module's docstring.

    Attributes:
        inputs: The inputs.
        refuses: `NOTHING`, `NANS` or `NON_FINITE`.
        fill: Replaces invalid elements of features, which makes them valid; with None, rows stay
            invalid and get zeros.
    """

    inputs: tuple[InputColumns, ...]
    refuses: str = NON_FINITE
    fill: float | None = None

    def decode(self, arrays: Sequence[Any]) -> list[Rows]:
        """Returns the inputs of a batch.

        Args:
            arrays: The Arrow arrays of all inputs, one input after another, `width` for each.

        Raises:
            InvalidArgumentError: Rows do not have an input's number of elements.
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
        """Decodes columns side by side; with hundreds of them, the work per column matters."""
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
        """Returns the elements of all rows, with fill values for missing rows."""
        if self.columns.input.dtype == "string":
            places = np.full((len(valid), size), len(values))
            places[valid] = np.arange(len(values)).reshape(-1, size)
            more = pa.concat_arrays([values, pa.array([""], values.type)])
            return more.take(pa.array(places.ravel()))
        full = np.full((len(valid), size), self.fill, values.dtype)
        full[valid] = values.reshape(-1, size)
        return full.reshape(-1)

    def _flat(self, array: Any) -> tuple[Array, Mask | None, Any]:
        """Returns the lengths of the rows, a mask of null rows, and the elements of the others."""
        outer = lists(array)
        if not is_list(outer.elements.type):
            return outer.lengths, outer.missing, outer.elements
        inner_missing = missing_in(outer.elements)
        if inner_missing is not None:
            # A null instead of a list makes its row null.
            owners = np.repeat(np.arange(len(array)), outer.lengths)
            marked = np.zeros(len(array), bool) if outer.missing is None else outer.missing.copy()
            marked[owners[inner_missing]] = True
            kept = pa.array(np.where(marked, -1, np.arange(len(array))), mask=marked)
            return self._flat(array.take(kept))
        lengths, _, flat = self._flat(outer.elements)
        inner = lists(outer.elements).lengths
        if len(inner) and (inner != inner[0]).any():
            # Otherwise they could add up to the required number of elements by chance.
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
        """Decodes rows of both forms; without `sizes`, sparse rows have the input's size."""
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
                message=f"Sparse vectors in the column {self.columns.describe()} have"
                " different numbers of indices and values"
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
                kept |= bad  # even if filled with 0
            owners = np.repeat(np.arange(rows), counts)[kept]
            counts = np.bincount(owners, minlength=rows)
            elements, places = elements[kept], places[kept]
        return Rows(wanted, rows, elements, invalid, counts, places)

    def _elements(self, array: Any) -> tuple[Any, Mask | None]:
        """Returns single values with invalid ones filled, and a mask of these; None for no mask."""
        if self.columns.input.dtype == "string":
            missing = missing_in(array)
            return (array if missing is None else array.fill_null("")), missing
        return self._judged(*self._numbers(array))

    def _numbers(self, array: Any) -> tuple[Array, Mask | None]:
        """Returns values of the input's dtype, and a mask of null and unrepresentable ones."""
        dtype = np.dtype(self.columns.input.dtype)
        array = plain(array, as_whole=dtype.kind == "i")
        values = numbers(array)
        missing = missing_in(array)
        if values.dtype == dtype:
            return values, missing
        if dtype.kind == "i":
            faults = None
            if values.dtype.kind == "f":
                outside = (values >= _BEYOND) | (values < -_BEYOND)
                faults = _either(not_finite(values), outside if outside.any() else None)
            elif values.dtype == np.uint64 and (values >> 63).any():
                faults = values >> 63 != 0
            if faults is not None:
                values = np.where(faults, 0, values)
            missing = _either(missing, faults)
        with np.errstate(over="ignore"):
            return values.astype(dtype), missing

    def _judged(self, values: Array, invalid: Mask | None) -> tuple[Array, Mask | None]:
        """Returns the values with null and refused ones filled, and a mask of these."""
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
            f"but {len(wrong)} of {count} {per}s of a batch have a different number in column "
            f"{self.columns.describe()}: {shown}{more}"
        )

    def _require_places(self, places: Array, nulls: int) -> None:
        size = self.columns.size
        if nulls or (len(places) and (places.min() < 0 or places.max() >= size)):
            outside = int(np.count_nonzero((places < 0) | (places >= size))) + nulls
            raise InvalidArgumentError(
                message=f"{outside} indices of the sparse vectors in {self.columns.describe()} are "
                f"not between 0 and {size - 1}"
            )


def _within(lengths: Array) -> Array:
    """Returns the index of each element in its row."""
    begins = np.cumsum(lengths) - lengths
    found: Array = np.arange(int(lengths.sum())) - np.repeat(begins, lengths)
    return found


def _valid(array: Any) -> Mask:
    missing = missing_in(array)
    return np.ones(len(array), bool) if missing is None else ~missing


def _by_row(bad: Mask | None, lengths: Array) -> Mask | None:
    """Returns a mask of the rows with an invalid element."""
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
    """Whether there are neither NaNs nor infinities, in a single pass if there are none."""
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(np.add.reduce(values)):
            return True
    return bool(np.isfinite(values).all())


def nans(values: npt.NDArray[Any]) -> Mask | None:
    """Returns [n]: whether each value is NaN; None if none is."""
    # The sum of squares is the fastest test of whether there may be one.
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(np.dot(values, values)):
            return None
    found: Mask = np.isnan(values)
    return found if found.any() else None


def not_finite(values: npt.NDArray[Any]) -> Mask | None:
    """Returns [n]: whether each value is NaN or infinite; None if none is."""
    return None if all_finite(values) else ~np.isfinite(values)
