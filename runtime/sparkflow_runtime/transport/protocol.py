"""What a master and its workers must have in common before any of them runs a step.

Tensor channels have a version of their own, see `channel.handshake`.
"""

from __future__ import annotations

import sys
from typing import Final

import numpy as np

from sparkflow_runtime import dtypes
from sparkflow_runtime.errors import FailedPreconditionError
from sparkflow_runtime.events.crc32c import crc32c
from sparkflow_runtime.once import once
from sparkflow_runtime.protos.worker_pb2 import Protocol

VERSION: Final = 1
"""Version of the messages between masters and workers: incremented when an older side would misread
a newer one."""


@once
def own() -> Protocol:
    """Returns the protocol of this process."""
    return Protocol(version=VERSION, byte_order=sys.byteorder, dtypes=_layout())


def require_same(theirs: Protocol | None, peer: str) -> None:
    """Checks that the task at the other end has the same protocol.

    Args:
        theirs: Its protocol; None if it reports none.
        peer: Its name in the error's message.

    Raises:
        FailedPreconditionError: The protocols differ.
    """
    mine = own()
    version = 0 if theirs is None else theirs.version
    if theirs is None or version != mine.version:
        raise FailedPreconditionError(
            message=f"{peer} speaks version {version} of the protocol between tasks, this process "
            f"version {mine.version}: run the same version of sparkflow on all tasks"
        )
    if theirs.byte_order != mine.byte_order:
        raise FailedPreconditionError(
            message=f"{peer} has {theirs.byte_order}-endian numbers, this process "
            f"{mine.byte_order}-endian ones: tensors cannot travel between them"
        )
    if theirs.dtypes != mine.dtypes:
        raise FailedPreconditionError(
            message=f"{peer} has other dtypes than this process (checksum {theirs.dtypes:08x}, "
            f"here {mine.dtypes:08x}): run the same version of sparkflow on all tasks"
        )


def _layout() -> int:
    rows = [
        f"{dtype.number} {dtype.name} {np.dtype(dtype.as_numpy_dtype).itemsize}"
        for dtype in dtypes.PLAIN
    ]
    return crc32c("\n".join(sorted(rows)).encode())
