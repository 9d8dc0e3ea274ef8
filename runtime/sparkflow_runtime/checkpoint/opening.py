"""Opens a checkpoint in whichever format it has."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Final, TypeAlias, TypeVar

from sparkflow_runtime.checkpoint.bundle import index_path
from sparkflow_runtime.checkpoint.bundle_reader import BundleReader
from sparkflow_runtime.checkpoint.first_format import FirstFormatReader
from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.errors import DataLossError, InvalidArgumentError, NotFoundError
from sparkflow_runtime.files.system import local_path

_T = TypeVar("_T")
_MOST_TRIES: Final = 10

CheckpointTensors: TypeAlias = BundleReader | FirstFormatReader
"""Both have `names`, `in`, `dtype`, `shape`, `read` and `read_slice`."""


def open_checkpoint(prefix: str) -> CheckpointTensors:
    """Opens a checkpoint: of the second format if `prefix.index` exists.

    Args:
        prefix: The path without suffixes; in the first format a pattern.

    Raises:
        NotFoundError: No checkpoint of either format exists.
        DataLossError: A file is damaged.
    """
    if os.path.exists(local_path(index_path(prefix))):
        return BundleReader(prefix)
    return FirstFormatReader(prefix)


def read_checkpoint(prefix: str, read: Callable[[CheckpointTensors], _T]) -> _T:
    """Returns what `read` returns, all from one checkpoint even if it is overwritten meanwhile.

    Args:
        prefix: As that of `open_checkpoint`.
        read: Called with the reader; called again if the checkpoint was overwritten meanwhile.

    Raises:
        NotFoundError, DataLossError: As `open_checkpoint` and `read`.
    """
    for _ in range(_MOST_TRIES):
        reader = open_checkpoint(prefix)
        try:
            return read(reader)
        except (NotFoundError, DataLossError):
            if isinstance(reader, FirstFormatReader) or not reader.superseded():
                raise
    return read(open_checkpoint(prefix))


def require_dtype(reader: CheckpointTensors, name: str, expected: DType) -> None:
    """Checks that a tensor was saved with this dtype.

    Raises:
        InvalidArgumentError: It was saved with another.
        NotFoundError: There is no such tensor.
    """
    found = reader.dtype(name)
    if found is not expected:
        raise InvalidArgumentError(
            message=f"tensor_name = {name}; expected dtype {expected.name} does not equal original "
            f"dtype {found.name}"
        )
