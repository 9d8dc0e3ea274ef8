"""Reads checkpoints of TensorFlow's first format: one table file per shard, tensors as messages."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from sparkflow_runtime import dtypes
from sparkflow_runtime.checkpoint.sorted_table import TableReader
from sparkflow_runtime.checkpoint.tensor_slice import TensorSlice, gather_parts
from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.errors import DataLossError, NotFoundError, UnimplementedError
from sparkflow_runtime.files.system import local_path
from sparkflow_runtime.protos.saved_tensor_slice_pb2 import SavedSliceMeta, SavedTensorSlices
from sparkflow_runtime.protos.tensor_pb2 import TensorProto

_FIELDS: Final = {
    dtypes.float32: "float_val",
    dtypes.float64: "double_val",
    dtypes.int32: "int_val",
    dtypes.int16: "int_val",
    dtypes.int8: "int_val",
    dtypes.uint8: "int_val",
    dtypes.int64: "int64_val",
    dtypes.bool_: "bool_val",
    dtypes.string: "string_val",
    dtypes.complex64: "scomplex_val",
    dtypes.complex128: "dcomplex_val",
    dtypes.float16: "half_val",
    dtypes.qint8: "int_val",
    dtypes.quint8: "int_val",
    dtypes.qint32: "int_val",
}


class FirstFormatReader:
    """The tensors of one checkpoint by name.

    Args:
        pattern: The path of the file, or a pattern that matches the files of all shards.

    Raises:
        NotFoundError: No file matches.
        DataLossError: A file is not a checkpoint, or is damaged.
    """

    def __init__(self, pattern: str) -> None:
        self.prefix = pattern
        paths = [
            Path(path) for path in sorted(glob.glob(local_path(pattern))) if Path(path).is_file()
        ]
        if not paths:
            raise NotFoundError(
                message="Unsuccessful TensorSliceReader constructor: Failed to find any matching "
                f"files for {pattern}"
            )
        self._tables = [TableReader(path) for path in paths]
        self._metas: dict[str, SavedSliceMeta] = {}
        self._holders: dict[tuple[str, TensorSlice], TableReader] = {}
        for table in self._tables:
            for meta in _parsed(table.get(b""), pattern).meta.tensor:
                _check(meta, pattern)
                known = self._metas.setdefault(meta.name, meta)
                if known is not meta:
                    known.slice.extend(meta.slice)
                for part in meta.slice:
                    self._holders[meta.name, TensorSlice.from_proto(part)] = table

    def names(self) -> list[str]:
        """The names of the tensors, sorted."""
        return sorted(self._metas)

    def __contains__(self, name: str) -> bool:
        return name in self._metas

    def dtype(self, name: str) -> DType:
        """The element type of a tensor.

        Raises:
            NotFoundError: There is none of that name.
        """
        return dtypes.as_dtype(int(self._meta(name).type))

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor, the whole one where it was saved in parts.

        Raises:
            NotFoundError: There is none of that name.
        """
        return tuple(dim.size for dim in self._meta(name).shape.dim)

    def read(self, name: str) -> np.ndarray[Any, Any]:
        """The values of a tensor.

        Raises:
            NotFoundError: There is none of that name.
            DataLossError: A part of it is missing or damaged.
        """
        return self.read_slice(name, TensorSlice.whole(len(self.shape(name))))

    def read_slice(self, name: str, part: TensorSlice) -> np.ndarray[Any, Any]:
        """A slice of a tensor, assembled from the slices in which it was saved.

        Raises:
            InvalidArgumentError: The slice is not within the tensor.
            NotFoundError, DataLossError: As `read`.
        """
        shape, dtype = self.shape(name), self.dtype(name)
        parts = [TensorSlice.from_proto(each) for each in self._meta(name).slice]

        def values(saved: TensorSlice) -> np.ndarray[Any, Any]:
            data = self._holders[name, saved].get(saved.key(name))
            if data is None:
                raise DataLossError(message=f"Slice {saved} of {name} is not in {self.prefix}")
            proto = _parsed(data, self.prefix).data.data
            return _decoded(proto, dtype, saved.shape_in(shape), name)

        return gather_parts(f"{name} in {self.prefix}", shape, dtype, part, parts, values)

    def _meta(self, name: str) -> SavedSliceMeta:
        try:
            return self._metas[name]
        except KeyError:
            raise NotFoundError(message=f"Key {name} not found in checkpoint") from None


def _check(meta: SavedSliceMeta, path: str) -> None:
    """Checks that the description of a tensor is plausible.

    Raises:
        DataLossError: It is not, so no checkpoint writer wrote it.
    """
    sizes = [dim.size for dim in meta.shape.dim]
    ranges = [(each.start, each.length) for part in meta.slice for each in part.extent]
    if (
        not dtypes.is_number(int(meta.type))
        or min(sizes, default=0) < 0
        or any(start < 0 or length < 0 for start, length in ranges)
        or any(len(part.extent) != len(sizes) for part in meta.slice)
    ):
        raise DataLossError(
            message=f"{path} is damaged: tensor {meta.name} has dtype {int(meta.type)}, shape "
            f"{sizes} and the parts {ranges}"
        )


def _parsed(data: bytes | None, path: str) -> SavedTensorSlices:
    message = SavedTensorSlices()
    try:
        message.ParseFromString(data or b"")
    except Exception as error:  # DecodeError, whose module depends on protobuf's version
        raise DataLossError(message=f"{path} is damaged: {error}") from error
    return message


def _decoded(
    proto: TensorProto, dtype: DType, shape: Sequence[int], name: str
) -> np.ndarray[Any, Any]:
    if dtype not in _FIELDS:
        raise UnimplementedError(message=f"Tensor {name} has dtype {dtype.name}: not readable")
    field = list(getattr(proto, _FIELDS[dtype]))
    try:
        if dtype is dtypes.float16:
            values = np.array(field, np.uint16).view(np.float16)
        elif dtype.is_complex:
            values = np.array(field).reshape(-1, 2) @ np.array([1, 1j])
        else:
            values = np.array(field, dtype.as_numpy_dtype)
    except (OverflowError, ValueError) as error:
        raise DataLossError(
            message=f"Tensor {name} has values that are not {dtype.name}: {error}"
        ) from error
    if values.size != int(np.prod(shape, dtype=np.int64)):
        raise DataLossError(message=f"Tensor {name} has {values.size} values for shape {shape}")
    return values.astype(dtype.as_numpy_dtype).reshape(shape)
