"""Reads V2 checkpoints, TensorFlow's and ours, and verifies the checksum of each tensor."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import numpy as np

from sparkflow_runtime import dtypes, shapes
from sparkflow_runtime.checkpoint.bundle import (
    BUNDLE_VERSION,
    HEADER_KEY,
    data_path,
    decode_strings,
    index_path,
)
from sparkflow_runtime.checkpoint.sorted_table import TableReader
from sparkflow_runtime.checkpoint.tensor_slice import TensorSlice, gather_parts
from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.errors import (
    DataLossError,
    NotFoundError,
    OpError,
    UnimplementedError,
)
from sparkflow_runtime.events.crc32c import crc32c, masked
from sparkflow_runtime.files.system import local_path
from sparkflow_runtime.protos.tensor_bundle_pb2 import BundleEntryProto, BundleHeaderProto


def read_entries(prefix: str) -> tuple[BundleHeaderProto, dict[bytes, BundleEntryProto]]:
    """Returns the header and all entries of an index, including those of slices.

    Raises:
        NotFoundError: There is no such checkpoint.
        DataLossError: The index is damaged.
        UnimplementedError: It was written on a big-endian machine.
    """
    table = _open_table(prefix)
    pairs = dict(table)
    header = _parse(BundleHeaderProto(), pairs.pop(HEADER_KEY, None), prefix)
    if header.endianness != BundleHeaderProto.LITTLE:
        raise UnimplementedError(message=f"The checkpoint {prefix} has big-endian numbers")
    if header.version.min_consumer > BUNDLE_VERSION:
        raise UnimplementedError(
            message=f"The checkpoint {prefix} requires readers of version "
            f"{header.version.min_consumer}; this one has {BUNDLE_VERSION}"
        )
    entries = {}
    for key, value in pairs.items():
        entries[key] = _parse(BundleEntryProto(), value, prefix)
        _check(key, entries[key], prefix)
    return header, entries


def _check(key: bytes, entry: BundleEntryProto, prefix: str) -> None:
    """Checks that an entry is plausible.

    Raises:
        DataLossError: It is not, so no checkpoint writer wrote it.
    """
    sizes = [dim.size for dim in entry.shape.dim]
    if min((entry.offset, entry.size, entry.shard_id, *sizes)) < 0:
        problem = f"shape {sizes}, {entry.size} bytes at {entry.offset} of file {entry.shard_id}"
    elif entry.shape.unknown_rank or not dtypes.is_number(int(entry.dtype)):
        problem = f"dtype {int(entry.dtype)}, shape {entry.shape}"
    elif any(len(part.extent) != len(sizes) for part in entry.slices):
        problem = f"{len(sizes)} dimensions, but other ones in its parts"
    else:
        return
    name = key.decode("utf-8", "replace")
    raise DataLossError(message=f"The index of {prefix} is damaged: tensor {name} has {problem}")


def shards_of(prefix: str) -> int:
    """Returns the number of data files of a checkpoint; 0 if it has no readable index."""
    try:
        return read_entries(prefix)[0].num_shards
    except (OpError, OSError):
        return 0


def _open_table(prefix: str) -> TableReader:
    try:
        return TableReader(Path(local_path(index_path(prefix))))
    except (FileNotFoundError, NotADirectoryError):
        raise NotFoundError(
            message="Unsuccessful TensorSliceReader constructor: Failed to find any matching files "
            f"for {prefix}"
        ) from None


def _parse(message: Any, data: bytes | None, prefix: str) -> Any:
    try:
        message.ParseFromString(data or b"")
    except Exception as error:  # DecodeError, whose module depends on protobuf's version
        raise DataLossError(message=f"The index of {prefix} is damaged: {error}") from error
    return message


class BundleReader:
    """The tensors of one checkpoint by name. Safe to use from several threads.

    Args:
        prefix: The path without `.index`.

    Raises:
        NotFoundError, DataLossError, UnimplementedError: As `read_entries`.
    """

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self._index = _identity(prefix)
        self._header, self._entries = read_entries(prefix)
        parts = {
            TensorSlice.from_proto(part).key(key.decode("utf-8", "replace"))
            for key, entry in self._entries.items()
            for part in entry.slices
        }
        self._names = {
            key.decode("utf-8", "replace"): entry
            for key, entry in self._entries.items()
            if key not in parts
        }

    def superseded(self) -> bool:
        """Whether this checkpoint has been overwritten by another one since it was opened.

        Reads then fail, because a data file is missing or a checksum does not match.
        """
        return self._index != _identity(self.prefix)

    def names(self) -> list[str]:
        """The names of the tensors, sorted."""
        return sorted(self._names)

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def dtype(self, name: str) -> DType:
        """The element type of a tensor.

        Raises:
            NotFoundError: There is none of that name.
        """
        return dtypes.as_dtype(int(self._entry(name).dtype))

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape of a tensor, the whole one where it was saved in parts.

        Raises:
            NotFoundError: There is none of that name.
        """
        return _shape_of(self._entry(name))

    def read(self, name: str) -> np.ndarray[Any, Any]:
        """The values of a tensor.

        Raises:
            NotFoundError: There is no such tensor, or a data file is missing.
            DataLossError: Its bytes are damaged, or parts of it are missing.
        """
        entry = self._entry(name)
        if not entry.slices:
            return self._values(name, entry)
        return self.read_slice(name, TensorSlice.whole(len(entry.shape.dim)))

    def read_slice(self, name: str, part: TensorSlice) -> np.ndarray[Any, Any]:
        """A slice of a tensor, assembled from the slices in which it was saved.

        Raises:
            InvalidArgumentError: The slice is not within the tensor.
            NotFoundError, DataLossError: As `read`.
        """
        entry = self._entry(name)
        shape = _shape_of(entry)
        if not entry.slices:
            return self._values(name, entry)[part.box(shape)]
        parts = [TensorSlice.from_proto(each) for each in entry.slices]

        def values(saved: TensorSlice) -> np.ndarray[Any, Any]:
            found = self._entries.get(saved.key(name))
            if found is None:
                raise DataLossError(message=f"Slice {saved} of {name} is not in {self.prefix}")
            return self._values(name, found)

        label = f"{name} in {self.prefix}"
        return gather_parts(label, shape, self.dtype(name), part, parts, values)

    def _entry(self, name: str) -> BundleEntryProto:
        try:
            return self._names[name]
        except KeyError:
            raise NotFoundError(message=f"Key {name} not found in checkpoint") from None

    def _values(self, name: str, entry: BundleEntryProto) -> np.ndarray[Any, Any]:
        dtype = dtypes.as_dtype(int(entry.dtype))
        shape = _shape_of(entry)
        count = math.prod(shape)
        path = data_path(local_path(self.prefix), entry.shard_id, self._header.num_shards)
        if dtype not in dtypes.ALL:
            raise UnimplementedError(message=f"Tensor {name} has dtype {dtype.name}: not readable")
        if dtype is not dtypes.string and count * dtype.size != entry.size:
            raise DataLossError(
                message=f"Tensor {name} has shape {shapes.text(shape)} and {entry.size} bytes in "
                f"{path}"
            )
        content = self._content(name, path, entry)
        values: np.ndarray[Any, Any]
        if dtype is dtypes.string:
            try:
                values, crc = decode_strings(content.tobytes(), count)
            except DataLossError as error:
                raise DataLossError(
                    message=f"Tensor {name} in {path} is damaged: {error.message}"
                ) from error
        else:
            crc = crc32c(content.data)
            values = content.view(dtype.as_numpy_dtype)
        if masked(crc) != entry.crc32c:
            raise DataLossError(
                message=f"Checksum does not match for tensor {name} in {path}: stored "
                f"{entry.crc32c}, calculated {masked(crc)} on the restored bytes"
            )
        return values.reshape(shape)

    def _content(self, name: str, path: str, entry: BundleEntryProto) -> np.ndarray[Any, Any]:
        try:
            with open(path, "rb") as file:
                if entry.offset + entry.size > os.fstat(file.fileno()).st_size:
                    raise DataLossError(
                        message=f"{path} is truncated: {name} is at {entry.offset} with "
                        f"{entry.size} bytes"
                    )
                content = np.empty(entry.size, np.uint8)
                file.seek(entry.offset)
                file.readinto(content.data)
        except FileNotFoundError:
            raise NotFoundError(message=f"{path}; no such file, for tensor {name}") from None
        return content


def _identity(prefix: str) -> tuple[int, ...] | None:
    """Returns what distinguishes an index from others of the same name."""
    try:
        found = os.stat(local_path(index_path(prefix)))
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _shape_of(entry: BundleEntryProto) -> tuple[int, ...]:
    return tuple(dim.size for dim in entry.shape.dim)
