"""Named arrays in one safetensors file, with a checksum per tensor; never half a file.

The file is written under a temporary name in the same directory and renamed when complete, so that
a crash or a full disk leaves either the old file or none. Checksums (CRC-32 of the raw bytes) are
in the file's metadata under `crc32/<name>`, where other readers of safetensors ignore them.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from sparkflow_runtime.errors import DataLossError, InvalidArgumentError, NotFoundError

_CHECKSUM: Final = "crc32/"


def write_tensors(path: str | os.PathLike[str], tensors: Mapping[str, Any]) -> None:
    """Writes arrays to `path`, replacing what is there only when all is written.

    Args:
        path: The file; its directory exists.
        tensors: Name -> numpy array of a numeric or boolean dtype.

    Raises:
        InvalidArgumentError: An array of a dtype safetensors does not know.
        OSError: The disk is full, the directory is missing or not writable.
    """
    arrays = {name: np.ascontiguousarray(value) for name, value in tensors.items()}
    for name, array in arrays.items():
        if array.dtype.kind not in "fiub":
            raise InvalidArgumentError(
                message=f"Tensor {name!r} has dtype {array.dtype}, which cannot be saved; "
                "numbers and booleans can"
            )
    metadata = {_CHECKSUM + name: _checksum(array) for name, array in arrays.items()}
    target = Path(path)
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        with partial.open("wb") as file:
            file.write(save(arrays, metadata=metadata))
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
    for name, array in arrays.items():
        expected = metadata.get(_CHECKSUM + name)
        if expected is not None and expected != _checksum(array):
            raise DataLossError(
                message=f"Tensor {name!r} in {os.fspath(path)} is damaged: its checksum is "
                f"{_checksum(array)}, {expected} was written"
            )
    return arrays


def _checksum(array: np.ndarray[Any, Any]) -> str:
    return f"{zlib.crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data):08x}"
