"""Named arrays in one safetensors file, with a checksum per tensor, written atomically.

The file is written under a temporary name in the same directory and renamed when complete, so that
a crash or a full disk leaves either the old file or none. Checksums (CRC-32 of the raw bytes) are
in the file's metadata under `crc32/<name>`, and one of all names, dtypes, shapes and checksums
under `crc32`; other readers of safetensors ignore them. The library does not read bfloat16, which
numpy lacks: such an array is stored as uint16, which the metadata entry `bfloat16/<name>` records.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import re
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load, save, save_file

from sparkflow_runtime.dtypes import bfloat16
from sparkflow_runtime.errors import DataLossError, InvalidArgumentError, NotFoundError
from sparkflow_runtime.files import whole
from sparkflow_runtime.files.errors import translated

_log = logging.getLogger(__name__)

_CHECKSUM: Final = "crc32/"
_OF_ALL: Final = "crc32"
_NARROW: Final = "bfloat16/"
_BFLOAT16: Final = np.dtype(bfloat16.as_numpy_dtype)
_SYSTEM_ERROR: Final = re.compile(r"\bos error (\d+)|\bcode: (\d+)")
_DAMAGE: Final = (
    SafetensorError,
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    OverflowError,
    MemoryError,
)
"""What the library raises for invalid files, found by changing every byte of one."""


def pack_tensors(tensors: Mapping[str, Any]) -> bytes:
    """Returns the bytes of a file of arrays.

    Args:
        tensors: Name -> numpy array of a numeric or boolean dtype.

    Raises:
        InvalidArgumentError: An array of a dtype safetensors does not know.
    """
    arrays = _contiguous(tensors)
    stored, marks = _stored(arrays)
    return save(stored, metadata=_checksums(arrays) | marks)


def tensors_checksum(tensors: Mapping[str, Any]) -> str:
    """Returns one checksum of all names, dtypes, shapes and values.

    Raises:
        InvalidArgumentError: As `pack_tensors`.
    """
    return _checksums(_contiguous(tensors))[_OF_ALL]


def write_tensors(path: str | os.PathLike[str], tensors: Mapping[str, Any]) -> str:
    """Writes arrays to `path`, replacing an existing file only once all are on disk.

    They are written one at a time, without a copy of all of them.

    Args:
        path: The file, on this host; its directory exists.
        tensors: Name -> numpy array of a numeric or boolean dtype.

    Returns:
        As `tensors_checksum`.

    Raises:
        InvalidArgumentError: An array of a dtype safetensors does not know.
        ResourceExhaustedError, NotFoundError, PermissionDeniedError, ...: The disk is full, the
            directory is missing or not writable.
    """
    arrays = _contiguous(tensors)
    checksums = _checksums(arrays)
    stored, marks = _stored(arrays)
    target = os.fspath(path)
    partial = whole.partial_name(target)
    size_bytes = sum(array.nbytes for array in arrays.values())
    try:
        with translated(f"{target} ({size_bytes:,} bytes)"):
            with _system_errors():
                save_file(stored, partial, metadata=checksums | marks)
            whole.sync_file(partial)
            os.replace(partial, target)
            whole.sync_directory_of(target)
    finally:
        with contextlib.suppress(OSError):  # the first failure is the one to report
            Path(partial).unlink(missing_ok=True)
    return checksums[_OF_ALL]


def read_tensors(
    path: str | os.PathLike[str], checksum: str | None = None
) -> dict[str, np.ndarray[Any, Any]]:
    """Reads the arrays of a file and verifies their checksums, if it has any.

    Args:
        path: The file, on this host.
        checksum: The result of `write_tensors`, if known.

    Raises:
        NotFoundError: There is no such file.
        DataLossError: It is not a safetensors file, is truncated, or a checksum is wrong or
            missing.
    """
    origin = os.fspath(path)
    if not Path(path).is_file():
        raise NotFoundError(message=f"There is no file of tensors at {origin}")
    try:
        with safe_open(origin, framework="numpy") as file:
            metadata = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except _DAMAGE as error:
        raise DataLossError(message=f"{origin} cannot be read: {error}") from error
    arrays = _restored(arrays, metadata)
    _check(arrays, metadata, origin, checksum)
    return arrays


def unpack_tensors(
    data: bytes, origin: str, checksum: str | None = None
) -> dict[str, np.ndarray[Any, Any]]:
    """Like `read_tensors`, from the bytes of a file.

    Args:
        data: The result of `pack_tensors`.
        origin: Their source, for error texts.
        checksum: See `read_tensors`.

    Raises:
        DataLossError: They are not a safetensors file, are truncated, or a checksum is wrong or
            missing.
    """
    try:
        arrays = load(data)
        size = int.from_bytes(data[:8], "little")
        metadata = dict(json.loads(data[8 : 8 + size]).get("__metadata__") or {})
    except _DAMAGE as error:
        raise DataLossError(message=f"{origin} cannot be read: {error}") from error
    arrays = _restored(arrays, metadata)
    _check(arrays, metadata, origin, checksum)
    return arrays


def _contiguous(tensors: Mapping[str, Any]) -> dict[str, np.ndarray[Any, Any]]:
    # ascontiguousarray would make [1] of [].
    arrays = {
        name: np.ascontiguousarray(value).reshape(np.shape(value))
        for name, value in tensors.items()
    }
    for name, array in arrays.items():
        if array.dtype.kind not in "fiub" and array.dtype not in (np.complex64, _BFLOAT16):
            raise InvalidArgumentError(
                message=f"Tensor {name!r} has dtype {array.dtype}, which cannot be saved; "
                "numbers and booleans can"
            )
    return arrays


def _stored(
    arrays: Mapping[str, np.ndarray[Any, Any]],
) -> tuple[dict[str, np.ndarray[Any, Any]], dict[str, str]]:
    """Returns the arrays as stored in the file, and the metadata that describe them."""
    narrow = {name for name, array in arrays.items() if array.dtype == _BFLOAT16}
    stored = {
        name: array.view(np.uint16) if name in narrow else array for name, array in arrays.items()
    }
    return stored, {_NARROW + name: "uint16" for name in sorted(narrow)}


def _restored(
    stored: Mapping[str, np.ndarray[Any, Any]], metadata: Mapping[str, str]
) -> dict[str, np.ndarray[Any, Any]]:
    """Returns the arrays that were written; the checksum detects a wrong mark."""
    return {
        name: array.view(_BFLOAT16)
        if _NARROW + name in metadata and array.dtype == np.uint16
        else array
        for name, array in stored.items()
    }


def _checksums(arrays: Mapping[str, np.ndarray[Any, Any]]) -> dict[str, str]:
    """Returns the metadata of a file."""
    each = {_CHECKSUM + name: _checksum(array) for name, array in arrays.items()}
    return {**each, _OF_ALL: _checksum_of_all(arrays, each)}


def _check(
    arrays: Mapping[str, np.ndarray[Any, Any]],
    metadata: Mapping[str, str],
    origin: str,
    checksum: str | None,
) -> None:
    if checksum not in (None, metadata.get(_OF_ALL)):
        raise DataLossError(message=f"{origin} is damaged, or belongs to another model")
    stored = {key: value for key, value in metadata.items() if key.startswith(_CHECKSUM)}
    if not stored and _OF_ALL not in metadata:
        _log.warning("%s has no checksums: sparkflow before 2026-11-23 wrote none there", origin)
        return
    for name, array in arrays.items():
        expected = stored.get(_CHECKSUM + name)
        if expected is None:
            raise DataLossError(
                message=f"{origin} is damaged: it has no checksum for tensor {name!r}"
            )
        if expected != _checksum(array):
            raise DataLossError(
                message=f"Tensor {name!r} in {origin} is damaged: its checksum is "
                f"{_checksum(array)}, {expected} was written"
            )
    lost = sorted(stored.keys() - {_CHECKSUM + name for name in arrays})
    if lost:
        raise DataLossError(
            message=f"{origin} is damaged: tensor {lost[0].removeprefix(_CHECKSUM)!r} is missing"
        )
    # Files written before 2026-11-23 have no checksum of everything.
    if metadata.get(_OF_ALL) not in (None, _checksum_of_all(arrays, stored)):
        raise DataLossError(
            message=f"{origin} is damaged: names, dtypes or shapes are not those written"
        )


def _checksum_of_all(
    arrays: Mapping[str, np.ndarray[Any, Any]], checksums: Mapping[str, str]
) -> str:
    described = [
        (name, arrays[name].dtype.name, arrays[name].shape, checksums[_CHECKSUM + name])
        for name in sorted(arrays)
    ]
    return f"{zlib.crc32(json.dumps(described).encode()):08x}"


def _checksum(array: np.ndarray[Any, Any]) -> str:
    return f"{zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data):08x}"


@contextlib.contextmanager
def _system_errors() -> Iterator[None]:
    """Converts the library's errors from the operating system into OSError."""
    try:
        yield
    except SafetensorError as error:
        found = _SYSTEM_ERROR.search(str(error))
        if found is None:
            raise
        number = int(found[1] or found[2])
        raise OSError(number, os.strerror(number)) from error
