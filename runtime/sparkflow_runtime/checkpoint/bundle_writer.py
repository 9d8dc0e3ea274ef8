"""Writes V2 checkpoints, so that a crash or a full disk never leaves half of one behind.

Files are written under temporary names, synced and then renamed, the index last: a prefix without
index is no checkpoint. Where a checkpoint is written over another of the same prefix, the old index
goes before the first new file comes; a crash in between leaves none rather than a mixture.
"""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from sparkflow_runtime import dtypes, shapes
from sparkflow_runtime.checkpoint.bundle import (
    BUNDLE_VERSION,
    HEADER_KEY,
    data_path,
    encode_strings,
    index_path,
)
from sparkflow_runtime.checkpoint.bundle_reader import read_entries
from sparkflow_runtime.checkpoint.sorted_table import encode_table
from sparkflow_runtime.checkpoint.tensor_slice import TensorSlice
from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.errors import (
    InvalidArgumentError,
    NotFoundError,
    OpError,
    PermissionDeniedError,
    ResourceExhaustedError,
    UnknownError,
)
from sparkflow_runtime.events.crc32c import crc32c, masked
from sparkflow_runtime.protos.tensor_bundle_pb2 import BundleEntryProto, BundleHeaderProto


@dataclass(frozen=True, slots=True)
class Saved:
    """One tensor, or one part of one, to save.

    Attributes:
        name: Its name in the checkpoint.
        dtype: Its element type.
        array: The values on the host; objects of bytes for strings.
        part: Where `array` lies in the whole, None when it is the whole.
        full_shape: The shape of the whole where `part` is given.
    """

    name: str
    dtype: DType
    array: Any
    part: TensorSlice | None = None
    full_shape: tuple[int, ...] = ()


def write_bundle(prefix: str, tensors: Iterable[Saved]) -> None:
    """Writes a checkpoint of one shard.

    Args:
        prefix: The path without the suffixes; its directory is made where only it is missing.
        tensors: What to save, read as it is written.

    Raises:
        InvalidArgumentError: A name twice, or parts of one name that contradict each other.
        NotFoundError, PermissionDeniedError, ResourceExhaustedError, UnknownError: The files cannot
            be written.
    """
    with _writing(prefix):
        _make_parent(prefix)
        entries: dict[bytes, BundleEntryProto] = {}
        target = data_path(prefix, 0, 1)
        with _temporary(target) as (data, temporary_data):
            offset = 0
            for saved in tensors:
                offset += _append(data, offset, saved, entries)
            _sync(data)
            _commit(prefix, entries, [(temporary_data, target)])


def merge_bundles(prefixes: Sequence[str], destination: str, delete_old_dirs: bool) -> None:
    """Makes one checkpoint of several shards, whose data files are renamed and not copied.

    Args:
        prefixes: The checkpoints to merge, which are gone afterwards.
        destination: The prefix of the whole.
        delete_old_dirs: Remove the directories of `prefixes` where they are empty then.

    Raises:
        InvalidArgumentError: There are no prefixes, or one tensor lies in two of them.
        NotFoundError: A shard is not there.
        DataLossError: An index cannot be read.
        PermissionDeniedError, ResourceExhaustedError, UnknownError: The files cannot be written.
    """
    if not prefixes:
        raise InvalidArgumentError(message="MergeV2Checkpoints needs at least one prefix")
    with _writing(destination):
        _make_parent(destination)
        merged: dict[bytes, BundleEntryProto] = {}
        sources: list[str] = []
        for prefix in dict.fromkeys(prefixes):
            header, entries = read_entries(prefix)
            for key, entry in entries.items():
                _merge_entry(merged, key, entry, first_shard=len(sources))
            sources += [
                data_path(prefix, shard, header.num_shards) for shard in range(header.num_shards)
            ]
        moves = [
            (source, data_path(destination, shard, len(sources)))
            for shard, source in enumerate(sources)
        ]
        _commit(destination, merged, moves)
        for prefix in dict.fromkeys(prefixes):
            if prefix != destination:
                Path(index_path(prefix)).unlink()
        if delete_old_dirs:
            for directory in {os.path.dirname(prefix) for prefix in prefixes}:
                if directory != os.path.dirname(destination):
                    with suppress(OSError):  # not empty: others write there
                        os.rmdir(directory)


def _append(
    data: IO[bytes], offset: int, saved: Saved, entries: dict[bytes, BundleEntryProto]
) -> int:
    """Writes the bytes and enters the entry; returns how many bytes."""
    shape = tuple(saved.array.shape)
    key = saved.name.encode()
    if saved.part is not None:
        selected = saved.part.shape_in(saved.full_shape)
        if selected != shape:
            raise InvalidArgumentError(
                message=f"Slice {saved.part} of tensor {saved.name!r} has shape "
                f"{shapes.text(selected)}, the value to save has {shapes.text(shape)}"
            )
        whole = BundleEntryProto(dtype=saved.dtype.number)  # type: ignore[arg-type]  # the enum's numbers are ints
        whole.shape.SetInParent()
        for size in saved.full_shape:
            whole.shape.dim.add().size = size
        whole.slices.append(saved.part.to_proto())
        _merge_entry(entries, key, whole, first_shard=0)
        key = saved.part.key(saved.name)
    if key in entries or not saved.name:
        raise InvalidArgumentError(message=f"Adding duplicate key: {saved.name!r}")
    content, crc = _encoded(saved)
    data.write(content)
    size_bytes = len(content)
    entry = entries[key] = BundleEntryProto(
        dtype=saved.dtype.number,  # type: ignore[arg-type]  # the enum's numbers are ints
        offset=offset,
        size=size_bytes,
        crc32c=masked(crc),
    )
    entry.shape.SetInParent()
    for size in shape:
        entry.shape.dim.add().size = size
    return size_bytes


def _encoded(saved: Saved) -> tuple[bytes, int]:
    """The bytes of the values as they lie in the file, and their CRC-32C."""
    if saved.dtype is dtypes.string:
        return encode_strings(saved.array.reshape(-1).tolist())
    # A copy: a step that runs beside this one may change the variable between checksum and write.
    content = np.asarray(saved.array, saved.dtype.as_numpy_dtype).tobytes()
    return content, crc32c(content)


def _merge_entry(
    merged: dict[bytes, BundleEntryProto], key: bytes, entry: BundleEntryProto, first_shard: int
) -> None:
    """Enters an entry, its shards numbered from `first_shard`; joins the slices of one name."""
    known = merged.get(key)
    if known is None:
        known = merged[key] = BundleEntryProto()
        known.CopyFrom(entry)
        if not entry.slices:
            known.shard_id += first_shard
        return
    if not (known.slices and entry.slices):
        raise InvalidArgumentError(message=f"Tensor {key!r} is saved twice in one checkpoint")
    if known.dtype != entry.dtype or known.shape != entry.shape:
        raise InvalidArgumentError(
            message=f"Two slices of tensor {key!r} do not agree on its dtype and shape"
        )
    known.slices.extend(each for each in entry.slices if each not in known.slices)


def _commit(
    prefix: str, entries: dict[bytes, BundleEntryProto], moves: Sequence[tuple[str, str]]
) -> None:
    """Renames the data files to their places and then writes the index, which makes it valid."""
    header = BundleHeaderProto(num_shards=len(moves))
    header.version.producer = BUNDLE_VERSION
    pairs = {key: entry.SerializeToString() for key, entry in entries.items()}
    pairs[HEADER_KEY] = header.SerializeToString()
    index = index_path(prefix)
    with _temporary(index) as (file, temporary):
        file.write(encode_table(pairs))
        _sync(file)
        Path(index).unlink(missing_ok=True)
        for source, target in moves:
            os.replace(source, target)
        os.replace(temporary, index)
    _sync_directory(os.path.dirname(index) or ".")


@contextmanager
def _temporary(target: str) -> Iterator[tuple[IO[bytes], str]]:
    """A new file beside `target`, removed at the end unless it was renamed."""
    name = f"{target}.tempstate{secrets.randbits(64)}"
    try:
        with open(name, "xb") as file:
            yield file, name
    finally:
        Path(name).unlink(missing_ok=True)


def _sync(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())


def _sync_directory(directory: str) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _make_parent(prefix: str) -> None:
    parent = os.path.dirname(prefix)
    if parent:
        with suppress(FileExistsError):
            os.mkdir(parent)


@contextmanager
def _writing(prefix: str) -> Iterator[None]:
    """Turns what the file system says into errors of ours."""
    try:
        yield
    except OpError:
        raise
    except OSError as error:
        kind: type[OpError] = UnknownError
        if isinstance(error, FileNotFoundError):
            kind = NotFoundError
        elif isinstance(error, PermissionError):
            kind = PermissionDeniedError
        elif error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            kind = ResourceExhaustedError
        raise kind(
            message=f"The checkpoint {prefix} cannot be written: {error.filename or ''}; "
            f"{error.strerror or error}"
        ) from error
