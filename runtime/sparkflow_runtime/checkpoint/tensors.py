"""Named arrays in one safetensors file, with a checksum per tensor; never half a file.

The file is written under a temporary name in the same directory and renamed when complete, so that
a crash or a full disk leaves either the old file or none. Checksums (CRC-32 of the raw bytes) are
in the file's metadata under `crc32/<name>`, where other readers of safetensors ignore them.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load, save

from sparkflow_runtime.errors import DataLossError, InvalidArgumentError, NotFoundError

_CHECKSUM: Final = "crc32/"


def pack_tensors(tensors: Mapping[str, Any]) -> bytes:
    """The bytes of a file of arrays.

    Args:
        tensors: Name -> numpy array of a numeric or boolean dtype.

    Raises:
        InvalidArgumentError: An array of a dtype safetensors does not know.
    """
    arrays = {name: np.ascontiguousarray(value) for name, value in tensors.items()}
    for name, array in arrays.items():
        if array.dtype.kind not in "fiub":
            raise InvalidArgumentError(
                message=f"Tensor {name!r} has dtype {array.dtype}, which cannot be saved; "
                "numbers and booleans can"
            )
    metadata = {_CHECKSUM + name: _checksum(array) for name, array in arrays.items()}
    return save(arrays, metadata=metadata)


def write_tensors(path: str | os.PathLike[str], tensors: Mapping[str, Any]) -> None:
    """Writes arrays to `path`, replacing what is there only when all is written.

    Args:
        path: The file; its directory exists.
        tensors: Name -> numpy array of a numeric or boolean dtype.

    Raises:
        InvalidArgumentError: An array of a dtype safetensors does not know.
        OSError: The disk is full, the directory is missing or not writable.
    """
    data = pack_tensors(tensors)
    target = Path(path)
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(target)
    finally:
        partial.unlink(missing_ok=True)


def read_tensors(path: str | os.PathLike[str]) -> dict[str, np.ndarray[Any, Any]]:
    """Reads the arrays of a file back and checks each against its checksum, where there is one.

    Raises:
        NotFoundError: There is no such file.
        DataLossError: It is not a safetensors file, is truncated, or a checksum is wrong.
    """
    if not Path(path).is_file():
        raise NotFoundError(message=f"There is no file of tensors at {os.fspath(path)}")
    try:
        with safe_open(os.fspath(path), framework="numpy") as file:
            metadata = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise DataLossError(message=f"{os.fspath(path)} cannot be read: {error}") from error
    _check(arrays, metadata, os.fspath(path))
    return arrays


def unpack_tensors(data: bytes, origin: str) -> dict[str, np.ndarray[Any, Any]]:
    """As `read_tensors`, from the bytes of a file.

    Args:
        data: What `pack_tensors` gave.
        origin: Where they are from, for error texts.

    Raises:
        DataLossError: They are not of a safetensors file, truncated, or a checksum is wrong.
    """
    try:
        arrays = load(data)
        size = int.from_bytes(data[:8], "little")
        metadata = json.loads(data[8 : 8 + size]).get("__metadata__", {})
    except (SafetensorError, ValueError, KeyError, AttributeError) as error:
        raise DataLossError(message=f"{origin} cannot be read: {error}") from error
    _check(arrays, metadata, origin)
    return arrays


def _check(arrays: Mapping[str, Any], metadata: Mapping[str, str], origin: str) -> None:
    for name, array in arrays.items():
        expected = metadata.get(_CHECKSUM + name)
        if expected is not None and expected != _checksum(array):
            raise DataLossError(
                message=f"Tensor {name!r} in {origin} is damaged: its checksum is "
                f"{_checksum(array)}, {expected} was written"
            )


def _checksum(array: np.ndarray[Any, Any]) -> str:
    return f"{zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data):08x}"
