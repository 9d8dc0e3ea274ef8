"""Writes V2 checkpoints atomically: a crash or a full disk never leaves an incomplete one.

Files are written under temporary names, synced and then renamed, the index last: a prefix without
index is no checkpoint. A checkpoint that replaces another of the same prefix and number of shards
is first written with twice as many shards, of which the first half is empty; the new index, which
refers to them, atomically replaces the old one. Then the data files also get their usual names, and
an index that refers to these; on file systems without hard links they keep the other names. So at
every moment one of the two checkpoints is complete.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

import numpy as np

from sparkflow_runtime import dtypes, shapes
from sparkflow_runtime.checkpoint.bundle import (
    BUNDLE_VERSION,
    HEADER_KEY,
    data_path,
    encode_strings,
    index_path,
)
from sparkflow_runtime.checkpoint.bundle_reader import read_entries, shards_of
from sparkflow_runtime.checkpoint.sorted_table import encode_table
from sparkflow_runtime.checkpoint.tensor_slice import TensorSlice
from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.events.crc32c import crc32c, masked
from sparkflow_runtime.files.errors import kind_of
from sparkflow_runtime.files.system import local_path
from sparkflow_runtime.files.whole import naming, sync_directory
from sparkflow_runtime.protos.tensor_bundle_pb2 import BundleEntryProto, BundleHeaderProto

_SHARDS: Final = re.compile(r"_temp_[0-9a-f]{32}")
_OTHER: Final = re.compile(r"\.data-\d{5}-of-\d{5}(\.tempstate\d+)?|\.index\.tempstate\d+")


@dataclass(frozen=True, slots=True)
class Saved:
    """A tensor, or a slice of one, to save.

    Attributes:
        name: Its name in the checkpoint.
        dtype: Its element type.
        array: The values on the host; `bytes` objects for strings.
        part: The slice of the tensor that `array` is; None for the whole tensor.
        full_shape: The shape of the whole tensor if `part` is given.
    """

    name: str
    dtype: DType
    array: Any
    part: TensorSlice | None = None
    full_shape: tuple[int, ...] = ()


def write_bundle(prefix: str, tensors: Iterable[Saved]) -> None:
    """Writes a checkpoint of one shard.

    Args:
        prefix: The path without suffixes; its directory is created if the parent exists.
        tensors: What to save.

    Raises:
        InvalidArgumentError: A name occurs twice, or slices of one tensor are inconsistent.
        NotFoundError, PermissionDeniedError, ResourceExhaustedError, ...: The files cannot be
            written. An earlier checkpoint is unchanged.
    """
    tensors, prefix = list(tensors), local_path(prefix)
    with _writing(prefix, sum(saved.array.nbytes for saved in tensors)):
        _make_parent(prefix)
        entries: dict[bytes, BundleEntryProto] = {}
        target = data_path(prefix, 0, 1)
        with _temporary(target) as (data, temporary_data):
            offset = 0
            for saved in tensors:
                offset += _append(data, offset, saved, entries)
            _sync(data)
            _commit(prefix, entries, [temporary_data])


def merge_bundles(prefixes: Sequence[str], destination: str, delete_old_dirs: bool) -> None:
    """Merges shards into one checkpoint; their data files are renamed, not copied.

    Args:
        prefixes: The checkpoints to merge, which no longer exist afterwards.
        destination: The prefix of the merged checkpoint.
        delete_old_dirs: Remove the directories of `prefixes` that are then empty.

    Raises:
        InvalidArgumentError: There are no prefixes, or two of them have the same tensor.
        NotFoundError: A shard does not exist.
        DataLossError: An index cannot be read.
        PermissionDeniedError, ResourceExhaustedError, ...: The files cannot be written.
    """
    if not prefixes:
        raise InvalidArgumentError(message="MergeV2Checkpoints needs at least one prefix")
    prefixes = [local_path(prefix) for prefix in prefixes]
    destination = local_path(destination)
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
        _commit(destination, merged, sources)
        for prefix in dict.fromkeys(prefixes):
            if prefix != destination:
                Path(index_path(prefix)).unlink()
        if delete_old_dirs:
            for directory in {os.path.dirname(prefix) for prefix in prefixes}:
                if directory != os.path.dirname(destination):
                    with suppress(OSError):  # not empty: others write to it
                        os.rmdir(directory)
        _remove_shards_of_dead(destination)


def _remove_shards_of_dead(destination: str) -> None:
    """Deletes what interrupted sharded saves of a checkpoint left before merging."""
    directory, base = os.path.split(destination)
    with suppress(OSError):
        for name in os.listdir(directory or "."):
            if name.startswith(base) and _SHARDS.fullmatch(name[len(base) :]):
                shutil.rmtree(os.path.join(directory, name))


def _append(
    data: IO[bytes], offset: int, saved: Saved, entries: dict[bytes, BundleEntryProto]
) -> int:
    """Writes the bytes and adds the entry; returns the number of bytes."""
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
    """Returns the bytes of the values as stored in the file, and their CRC-32C."""
    if saved.dtype is dtypes.string:
        return encode_strings(saved.array.reshape(-1).tolist())
    # A copy: a concurrent step may change the variable between checksum and write.
    content = np.asarray(saved.array, saved.dtype.as_numpy_dtype).tobytes()
    return content, crc32c(content)


def _merge_entry(
    merged: dict[bytes, BundleEntryProto], key: bytes, entry: BundleEntryProto, first_shard: int
) -> None:
    """Adds an entry, its shards numbered from `first_shard`; joins the slices of one tensor."""
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


def _commit(prefix: str, entries: dict[bytes, BundleEntryProto], sources: Sequence[str]) -> None:
    """Renames the data files, one per shard, and writes the index, which makes it valid.

    Deletes the files of the replaced checkpoint.
    """
    count = len(sources)
    targets = [data_path(prefix, shard, count) for shard in range(count)]
    if shards_of(prefix) != count:
        _publish(prefix, entries, sources, targets, count)
    else:  # the names are in use by the existing checkpoint
        aside = [data_path(prefix, shard, 2 * count) for shard in range(count, 2 * count)]
        _publish(prefix, _shifted(entries, count), sources, aside, 2 * count)
        with suppress(OSError):  # complete; without hard links or space it keeps these names
            links = [_link(path, target) for path, target in zip(aside, targets, strict=True)]
            _publish(prefix, entries, links, targets, count)
        if shards_of(prefix) != count:
            targets = aside
    _remove_others(prefix, targets)


def _publish(
    prefix: str,
    entries: dict[bytes, BundleEntryProto],
    sources: Sequence[str],
    targets: Sequence[str],
    shards: int,
) -> None:
    """Renames data files to unused names and writes the index."""
    header = BundleHeaderProto(num_shards=shards)
    header.version.producer = BUNDLE_VERSION
    pairs = {key: entry.SerializeToString() for key, entry in entries.items()}
    pairs[HEADER_KEY] = header.SerializeToString()
    index = index_path(prefix)
    with _temporary(index) as (file, temporary):
        file.write(encode_table(pairs))
        _sync(file)
        try:
            for source, target in zip(sources, targets, strict=True):
                os.replace(source, target)
            sync_directory(os.path.dirname(index))
            os.replace(temporary, index)
        except BaseException:
            if os.path.exists(temporary):  # else the index exists, and Ctrl-C came after it
                for path in (*sources, *targets):
                    Path(path).unlink(missing_ok=True)
            raise
    sync_directory(os.path.dirname(index))


def _link(path: str, target: str) -> str:
    """Adds a temporary hard link to a file. Raises OSError if the file system has none."""
    name = _temporary_name(target)
    os.link(path, name)
    return name


def _shifted(entries: dict[bytes, BundleEntryProto], by: int) -> dict[bytes, BundleEntryProto]:
    """Returns the entries with their shard numbers increased."""
    shifted: dict[bytes, BundleEntryProto] = {}
    for key, entry in entries.items():
        _merge_entry(shifted, key, entry, first_shard=by)
    return shifted


def _remove_others(prefix: str, data: Sequence[str]) -> None:
    """Deletes files of this prefix that older checkpoints or dead writers left.

    The checkpoint is complete; files that cannot be deleted stay.
    """
    directory, base = os.path.split(prefix)
    kept = {os.path.basename(path) for path in data}
    with suppress(OSError):
        for name in os.listdir(directory or "."):
            rest = name.removeprefix(base)
            if rest != name and name not in kept and _OTHER.fullmatch(rest):
                os.unlink(os.path.join(directory, name))


@contextmanager
def _temporary(target: str) -> Iterator[tuple[IO[bytes], str]]:
    """Creates a file next to `target`; removes it at the end unless it was renamed."""
    name = _temporary_name(target)
    try:
        with open(name, "xb") as file:
            yield file, name
    finally:
        Path(name).unlink(missing_ok=True)


def _temporary_name(target: str) -> str:
    return f"{target}.tempstate{secrets.randbits(64)}"


def _sync(file: IO[bytes]) -> None:
    file.flush()
    with naming(file.name):
        os.fsync(file.fileno())


def _make_parent(prefix: str) -> None:
    parent = os.path.dirname(prefix)
    if parent:
        with suppress(FileExistsError):
            os.mkdir(parent)


@contextmanager
def _writing(prefix: str, size_bytes: int | None = None) -> Iterator[None]:
    """Converts errors of the file system into ours."""
    try:
        yield
    except OSError as error:
        size = "" if size_bytes is None else f" of {size_bytes:,} bytes"
        kept = "an earlier complete one exists" if shards_of(prefix) else "no complete one exists"
        raise kind_of(error)(
            message=f"The checkpoint {prefix}{size} cannot be written: {error.filename or ''}; "
            f"{error.strerror or error}. Incomplete files were removed; {kept}"
        ) from error
