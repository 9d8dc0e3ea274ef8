"""Looking into checkpoints without a graph: names, shapes, values; waiting for new ones."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from absl import logging

from sparkflow._api import export
from sparkflow.graph.collections import GraphKeys
from sparkflow.train.checkpoints.state_file import latest_checkpoint
from sparkflow_runtime.checkpoint.opening import open_checkpoint
from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.files import system
from sparkflow_runtime.protos import types_pb2

_POLL_S = 1.0


@export("train.CheckpointReader")
class CheckpointReader:
    """The tensors of one checkpoint, of TensorFlow's first or second format.

    Args:
        filepattern: The prefix of the checkpoint; in the first format a pattern of files.

    Raises:
        NotFoundError: There is no such checkpoint.
        DataLossError: It is damaged.
    """

    def __init__(self, filepattern: str | os.PathLike[str]) -> None:
        self._tensors = open_checkpoint(os.fspath(filepattern))

    def get_variable_to_shape_map(self) -> dict[str, list[int]]:
        """The shape of each tensor by name."""
        return {name: list(self._tensors.shape(name)) for name in self._tensors.names()}

    def get_variable_to_dtype_map(self) -> dict[str, DType]:
        """The element type of each tensor by name."""
        return {name: self._tensors.dtype(name) for name in self._tensors.names()}

    def has_tensor(self, tensor_str: str) -> bool:
        """Whether there is a tensor of that name."""
        return tensor_str in self._tensors

    def get_tensor(self, tensor_str: str) -> Any:
        """The value of a tensor; a number or bytes where it is a scalar.

        Raises:
            NotFoundError: There is none of that name.
            DataLossError: Its bytes are damaged.
        """
        value: np.ndarray[Any, Any] = self._tensors.read(tensor_str)
        return value if value.ndim else value[()]

    def debug_string(self) -> bytes:
        """One line per tensor: name, type, shape."""
        types = types_pb2.DataType.DESCRIPTOR.values_by_number
        lines = [
            f"{name} ({types[dtype.as_datatype_enum].name}) [{','.join(map(str, shape))}]\n"
            for (name, dtype), shape in zip(
                self.get_variable_to_dtype_map().items(),
                self.get_variable_to_shape_map().values(),
                strict=True,
            )
        ]
        return "".join(lines).encode()


@export("train.NewCheckpointReader")
def NewCheckpointReader(filepattern: str | os.PathLike[str]) -> CheckpointReader:
    """A reader of the checkpoint of that prefix, see `CheckpointReader`."""
    return CheckpointReader(filepattern)


def checkpoint_path(ckpt_dir_or_file: str | os.PathLike[str]) -> str:
    """The prefix itself, or the newest checkpoint where a directory is given.

    Raises:
        ValueError: The directory has none.
    """
    path = os.fspath(ckpt_dir_or_file)
    if not system.is_directory(path):
        return path
    found = latest_checkpoint(path)
    if found is None:
        raise ValueError(
            f"Couldn't find 'checkpoint' file or checkpoints in given directory {path}"
        )
    return found


@export("train.load_checkpoint")
def load_checkpoint(ckpt_dir_or_file: str | os.PathLike[str]) -> CheckpointReader:
    """A reader of a checkpoint, or of the newest one of a directory.

    Raises:
        ValueError: The directory has none.
        NotFoundError: There is no such checkpoint.
    """
    return CheckpointReader(checkpoint_path(ckpt_dir_or_file))


def saved_step(directory: str | os.PathLike[str]) -> int:
    """The global step of the newest checkpoint of a directory, 0 if there is none."""
    path = latest_checkpoint(directory)
    if not path:
        return 0
    return int(load_checkpoint(path).get_tensor(GraphKeys.GLOBAL_STEP))


@export("train.load_variable")
def load_variable(ckpt_dir_or_file: str | os.PathLike[str], name: str) -> Any:
    """The value of one tensor; its name may end in `:0`.

    Raises:
        ValueError, NotFoundError, DataLossError: As `load_checkpoint` and `get_tensor`.
    """
    return load_checkpoint(ckpt_dir_or_file).get_tensor(name.removesuffix(":0"))


@export("train.list_variables")
def list_variables(ckpt_dir_or_file: str | os.PathLike[str]) -> list[tuple[str, list[int]]]:
    """The name and shape of each tensor, sorted by name.

    Raises:
        ValueError, NotFoundError: As `load_checkpoint`.
    """
    return sorted(load_checkpoint(ckpt_dir_or_file).get_variable_to_shape_map().items())


def wait_for_new_checkpoint(
    checkpoint_dir: str | os.PathLike[str],
    last_checkpoint: str | None = None,
    seconds_to_sleep: float = 1,
    timeout: float | None = None,
) -> str | None:
    """Blocks until there is another checkpoint than the last one.

    Args:
        checkpoint_dir: The directory to watch.
        last_checkpoint: The checkpoint known; None for none.
        seconds_to_sleep: How long to wait between two looks, in seconds.
        timeout: How long to wait in all, in seconds; for ever when None.

    Returns:
        Its prefix, None when the time is over.
    """
    logging.info("Waiting for new checkpoint at %s", os.fspath(checkpoint_dir))
    stop = None if timeout is None else time.monotonic() + timeout
    while True:
        found = latest_checkpoint(checkpoint_dir)
        if found is not None and found != last_checkpoint:
            return found
        if stop is not None and time.monotonic() + seconds_to_sleep > stop:
            return None
        time.sleep(seconds_to_sleep)


@export("train.checkpoints_iterator")
def checkpoints_iterator(
    checkpoint_dir: str | os.PathLike[str],
    min_interval_secs: float = 0,
    timeout: float | None = None,
    timeout_fn: Callable[[], bool] | None = None,
) -> Iterator[str]:
    """Each new checkpoint of a directory, as it comes; only the newest where several did.

    Args:
        checkpoint_dir: The directory to watch.
        min_interval_secs: The least time between two checkpoints, in seconds.
        timeout: How long to wait for one, in seconds; for ever when None.
        timeout_fn: Called when the time is over; iteration ends when it returns true. It ends
            anyway when there is none.

    Yields:
        The prefix of a checkpoint.
    """
    found: str | None = None
    while True:
        new = wait_for_new_checkpoint(checkpoint_dir, found, _POLL_S, timeout)
        if new is None:
            if timeout_fn is None or timeout_fn():
                logging.info("Timed-out waiting for a checkpoint.")
                return
            continue
        found = new
        seen_at = time.monotonic()
        yield found
        time.sleep(max(0.0, seen_at + min_interval_secs - time.monotonic()))
