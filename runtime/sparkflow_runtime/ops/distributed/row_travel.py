"""Transfer of rows between tasks once per id: the ops that the pass `distinct_rows` inserts.

In some batches few ids are repeated. Then the three ops only inspect the ids: `positions` is empty,
ids and rows are passed unchanged, and the receiver must accept repeated ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final

import numpy as np

from sparkflow_runtime.dtypes import INDEX, float32, int32, int64
from sparkflow_runtime.ops.inference import sizes
from sparkflow_runtime.ops.native import row_kernels
from sparkflow_runtime.ops.native.equal_rows import sum_by_segment
from sparkflow_runtime.ops.op import Array, Inference, Op
from sparkflow_runtime.ops.registry import lookup, register
from sparkflow_runtime.ops.signature import type_attr
from sparkflow_runtime.shapes import Shape

WORTHWHILE: Final = 0.75
"""Ids are deduplicated if at most this share of them remains.

Expanding the rows again, or summing them, takes a worker as long as a loopback channel needs for a
quarter to a third of them (2026-11-21: 1 MB of rows of 256 bytes gathered in 90 µs, sent in 250 to
300 µs).
"""


class _OnHost(Op):
    kernels: ClassVar = {"CPU": None}


@register
class DistinctRows(_OnHost):
    """The distinct ids in order of appearance, and the position of each id among them.

    If most ids are distinct: all of them as a vector, and no positions.
    """

    type = "_DistinctRows"
    inputs = "ids: Tindices"
    outputs = "distinct: Tindices, positions: int32"
    aliases = frozenset({"ids"})
    attrs = {"Tindices": type_attr(INDEX, int64)}
    infer = sizes((None,), (None,))

    def compute(self, xp: Any, ids: Array) -> tuple[Array, Array]:
        """Both; see the class."""
        flat = ids.reshape(-1)
        distinct, positions = lookup("Unique").compute(np, flat, out_idx=int32)
        if distinct.size <= WORTHWHILE * flat.size:
            return distinct, positions
        return flat, np.empty(0, np.int32)


@register
class ExpandRows(_OnHost):
    """The row of every id, from the rows of the distinct ones: `ids.shape + rows.shape[1:]`."""

    type = "_ExpandRows"
    widens = ()
    inputs = "rows: T, positions: int32, ids: Tindices"
    outputs = "output: T"
    aliases = frozenset({"rows"})
    attrs = {"T": type_attr(None, float32), "Tindices": type_attr(INDEX, int64)}

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The shape of the ids followed by that of a row."""
        rows, _, ids = node.shapes
        return [None if rows is None or ids is None else (*ids, *rows[1:])]

    def compute(self, xp: Any, rows: Array, positions: Array, ids: Array) -> Array:
        """Copies of rows; the rows themselves if there are no positions."""
        shape = ids.shape + rows.shape[1:]
        if not positions.size:
            return rows.reshape(shape)
        found = row_kernels.gather(rows, positions)
        return (rows[positions] if found is None else found).reshape(shape)


@register
class SumRows(_OnHost):
    """The sum of the rows of each distinct id, added in order of appearance."""

    type = "_SumRows"
    inputs = "values: T, positions: int32, distinct: Tindices"
    outputs = "sums: T"
    aliases = frozenset({"values"})
    attrs = {"T": type_attr(None, float32), "Tindices": type_attr(INDEX, int64)}

    def infer(self, node: Inference) -> Sequence[Shape]:
        """As many rows as there are distinct ids."""
        values, _, distinct = node.shapes
        return [None if values is None or distinct is None else (*distinct, *values[1:])]

    def compute(self, xp: Any, values: Array, positions: Array, distinct: Array) -> Array:
        """The sums; the values themselves if there are no positions."""
        if not positions.size:
            return values
        # Gradients are often a broadcast scalar, which machine code does not accept.
        return sum_by_segment(np, np.ascontiguousarray(values), positions, distinct.size)
