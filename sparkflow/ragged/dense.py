"""Ragged tensors as dense and as sparse ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow.graph.scopes import apply_op, convert_to_tensor, output_of
from sparkflow.graph.shapes.tensor_shape import TensorShape
from sparkflow.graph.tensor import Tensor
from sparkflow.graph.values.sparse_tensor import SparseTensor
from sparkflow.ragged.registered import of_ragged
from sparkflow.ragged.tensor import RaggedTensor, count_of, numbers_below
from sparkflow_runtime.dtypes import int64


@of_ragged
def to_tensor(ragged: RaggedTensor, default_value: Any, name: str | None, shape: Any) -> Tensor:
    """See `RaggedTensor.to_tensor`."""
    with ragged.graph.as_default(), ragged.graph.name_scope(name or "RaggedToTensor"):
        sizes = ragged.bounding_shape(out_type=int64)
        known = (ragged.shape if shape is None else TensorShape(shape)).as_tuple()
        asked = sizes
        if shape is not None:
            asked = apply_op(
                "Pack",
                [
                    sizes[place] if size is None else np.int64(size)
                    for place, size in enumerate(known or ())
                ],
            )
        places = coordinates(ragged)
        inner = len(ragged.nested_row_splits) + 1
        if shape is not None:
            limits = asked[:inner]
            inside = apply_op("All", apply_op("Less", places, limits), [1])
            chosen = apply_op("Reshape", apply_op("Where", inside), [-1])
            places = apply_op("GatherV2", places, chosen, 0)
            flat = apply_op("GatherV2", ragged.flat_values, chosen, 0)
        else:
            flat = ragged.flat_values
        if default_value is None and ragged.dtype.base.name != "string":
            dense = apply_op("ScatterNd", places, flat, asked)
        else:
            default = b"" if default_value is None else default_value
            filled = convert_to_tensor(default, ragged.dtype.base)
            whole = (
                apply_op("BroadcastTo", filled, asked)
                if ragged.dtype.base.name != "string"
                else (apply_op("Fill", asked, filled))
            )
            dense = apply_op("TensorScatterUpdate", whole, places, flat)
        dense.set_shape(known)
        return dense  # type: ignore[no-any-return]  # a Tensor


@of_ragged
def to_sparse(ragged: RaggedTensor, name: str | None) -> SparseTensor:
    """The same elements at their coordinates."""
    with ragged.graph.as_default(), ragged.graph.name_scope(name or "RaggedToSparse"):
        places, flat = coordinates(ragged), ragged.flat_values
        sizes = ragged.bounding_shape(out_type=int64)
        inner = flat.shape.ndims
        for _ in range((inner or 1) - 1):
            width = apply_op("Shape", flat, out_type=int64)[1]
            count = apply_op("Shape", flat, out_type=int64)[0]
            head = apply_op(
                "GatherV2", places, apply_op("FloorDiv", numbers_below(count * width), width), 0
            )
            tail = apply_op("FloorMod", numbers_below(count * width), width)
            places = apply_op("ConcatV2", [head, apply_op("ExpandDims", tail, 1)], 1)
            rest = apply_op("Shape", flat, out_type=int64)[2:]
            flat = apply_op(
                "Reshape",
                flat,
                apply_op("ConcatV2", [apply_op("ExpandDims", count * width, 0), rest], 0),
            )
        return SparseTensor(places, flat, sizes)


@of_ragged
def coordinates(whole: RaggedTensor) -> Tensor:
    """[values, ragged_rank + 1] int64, the place of each of the innermost values."""
    columns: list[Tensor] = []
    ragged: Any = whole
    while isinstance(ragged, RaggedTensor):
        ids = apply_op("Cast", ragged.value_rowids(), DstT=int64)
        starts = apply_op("Cast", ragged.row_starts(), DstT=int64)
        place = numbers_below(count_of(ragged.values)) - apply_op("GatherV2", starts, ids, 0)
        columns = [apply_op("GatherV2", each, ids, 0) for each in columns] or [ids]
        columns.append(place)
        ragged = ragged.values
    return output_of("Pack", columns, axis=1)
