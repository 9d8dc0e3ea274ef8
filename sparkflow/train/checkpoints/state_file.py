"""The file `checkpoint` of a directory, and the files that belong to a prefix.

Everything here happens on the machine that calls it, unlike saving and restoring, which the tasks
of a session do.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Sequence
from pathlib import Path

from absl import logging
from google.protobuf import text_format

from sparkflow._api import export
from sparkflow_runtime.checkpoint.sealed_message import open_message, seal_text
from sparkflow_runtime.files.system import local_path
from sparkflow_runtime.files.whole import write_whole
from sparkflow_runtime.protos.checkpoint_state_pb2 import CheckpointState
from sparkflow_runtime.protos.saver_pb2 import SaverDef

DEFAULT_STATE_FILE = "checkpoint"


@export("train.latest_checkpoint")
def latest_checkpoint(
    checkpoint_dir: str | os.PathLike[str], latest_filename: str | None = None
) -> str | None:
    """The prefix of the newest checkpoint in a directory, None when there is none.

    Args:
        checkpoint_dir: Where the state file is.
        latest_filename: Its name; `checkpoint` when None.
    """
    state = get_checkpoint_state(checkpoint_dir, latest_filename)
    if state is None:
        return None
    if checkpoint_exists(state.model_checkpoint_path):
        return state.model_checkpoint_path
    logging.error("Couldn't match files for checkpoint %s", state.model_checkpoint_path)
    return None


@export("train.get_checkpoint_state")
def get_checkpoint_state(
    checkpoint_dir: str | os.PathLike[str], latest_filename: str | None = None
) -> CheckpointState | None:
    """The content of a directory's state file, with `checkpoint_dir` before relative paths.

    Args:
        checkpoint_dir: Where the state file is.
        latest_filename: Its name; `checkpoint` when None.

    Returns:
        The message; None when there is no state file, or none that can be read.

    Raises:
        ValueError: It names no checkpoint.
        DataLossError: It is not what `update_checkpoint_state` wrote: damaged, or edited under
            its checksum.
    """
    directory = os.fspath(checkpoint_dir)
    path = _state_file(directory, latest_filename)
    try:
        data = Path(local_path(path)).read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        logging.warning("%s: Checkpoint ignored", error)
        return None
    state = CheckpointState()
    try:
        text_format.Merge(open_message(data, path).content.decode("utf-8"), state)
    except (text_format.ParseError, UnicodeDecodeError) as error:
        logging.warning("%s: %s: Checkpoint ignored", path, error)
        return None
    if not state.model_checkpoint_path:
        raise ValueError(f"Invalid checkpoint state loaded from {directory}")
    state.model_checkpoint_path = os.path.join(directory, state.model_checkpoint_path)
    for index, each in enumerate(state.all_model_checkpoint_paths):
        state.all_model_checkpoint_paths[index] = os.path.join(directory, each)
    return state


@export("train.generate_checkpoint_state_proto")
def generate_checkpoint_state_proto(
    save_dir: str | os.PathLike[str],
    model_checkpoint_path: str,
    all_model_checkpoint_paths: Sequence[str] | None = None,
    all_model_checkpoint_timestamps: Sequence[float] | None = None,
    last_preserved_timestamp: float | None = None,
) -> CheckpointState:
    """The message of a state file.

    Args:
        save_dir: The directory of the state file. Where it is a relative path, so are the
            checkpoints' in the message, starting from it.
        model_checkpoint_path: The newest checkpoint.
        all_model_checkpoint_paths: All, oldest first; the newest is appended where it is missing.
        all_model_checkpoint_timestamps: When each was written, in seconds since 1970.
        last_preserved_timestamp: When the last one that stays for ever was written.

    Raises:
        ValueError: The numbers of paths and timestamps differ.
    """
    directory = os.fspath(save_dir)
    paths = list(all_model_checkpoint_paths or ())
    if not paths or paths[-1] != model_checkpoint_path:
        paths.append(model_checkpoint_path)
    times = all_model_checkpoint_timestamps
    if times and len(times) != len(paths):
        raise ValueError(
            "Checkpoint timestamps, if provided, must match checkpoint paths (got paths "
            f"{paths} and timestamps {times})"
        )
    if not os.path.isabs(directory):
        paths = [
            each if os.path.isabs(each) else os.path.relpath(each, directory) for each in paths
        ]
        if not os.path.isabs(model_checkpoint_path):
            model_checkpoint_path = os.path.relpath(model_checkpoint_path, directory)
    state = CheckpointState(
        model_checkpoint_path=model_checkpoint_path,
        all_model_checkpoint_paths=paths,
        all_model_checkpoint_timestamps=times,
    )
    if last_preserved_timestamp is not None:
        state.last_preserved_timestamp = last_preserved_timestamp
    return state


@export("train.update_checkpoint_state")
def update_checkpoint_state(
    save_dir: str | os.PathLike[str],
    model_checkpoint_path: str,
    all_model_checkpoint_paths: Sequence[str] | None = None,
    latest_filename: str | None = None,
    all_model_checkpoint_timestamps: Sequence[float] | None = None,
    last_preserved_timestamp: float | None = None,
    *,
    save_relative_paths: bool = False,
) -> None:
    """Writes the state file of a directory, at once: nobody reads half of it.

    Args:
        save_dir: The directory.
        model_checkpoint_path: As for `generate_checkpoint_state_proto`, and so are the others.
        all_model_checkpoint_paths: All checkpoints, oldest first.
        latest_filename: The name of the state file; `checkpoint` when None.
        all_model_checkpoint_timestamps: When each was written.
        last_preserved_timestamp: When the last one that stays was written.
        save_relative_paths: Write paths that start from `save_dir`, so that it can be moved.

    Raises:
        RuntimeError: A checkpoint has the path of the state file.
        ValueError: The numbers of paths and timestamps differ.
        OpError: The file cannot be written; what was there before is as it was.
    """
    directory = os.fspath(save_dir)
    paths = list(all_model_checkpoint_paths or ())
    if save_relative_paths:
        model_checkpoint_path = _relative(model_checkpoint_path, directory)
        paths = [_relative(each, directory) for each in paths]
    state = generate_checkpoint_state_proto(
        directory,
        model_checkpoint_path,
        paths,
        all_model_checkpoint_timestamps,
        last_preserved_timestamp,
    )
    path = _state_file(directory, latest_filename)
    if path == state.model_checkpoint_path:
        raise RuntimeError(
            f"Save path '{model_checkpoint_path}' conflicts with path used for checkpoint state. "
            "Please use a different save path."
        )
    write_whole(path, seal_text(text_format.MessageToString(state).encode()))


@export("train.checkpoint_exists")
def checkpoint_exists(checkpoint_prefix: str | os.PathLike[str]) -> bool:
    """Whether there is a checkpoint of that prefix, of either format."""
    return _first_file(os.fspath(checkpoint_prefix)) is not None


@export("train.get_checkpoint_mtimes")
def get_checkpoint_mtimes(checkpoint_prefixes: Sequence[str | os.PathLike[str]]) -> list[float]:
    """When each checkpoint was written, in seconds since 1970; missing ones are left out."""
    found = [_first_file(os.fspath(prefix)) for prefix in checkpoint_prefixes]
    return [os.stat(path).st_mtime for path in found if path is not None]


@export("train.remove_checkpoint")
def remove_checkpoint(
    checkpoint_prefix: str | os.PathLike[str],
    checkpoint_format_version: int = SaverDef.V2,
    meta_graph_suffix: str = "meta",
) -> None:
    """Deletes the files of a checkpoint, its graph among them; those that exist.

    Args:
        checkpoint_prefix: The prefix.
        checkpoint_format_version: V1 or V2.
        meta_graph_suffix: The suffix of the graph's file.
    """
    prefix = local_path(checkpoint_prefix)
    patterns = [glob.escape(meta_graph_filename(prefix, meta_graph_suffix))]
    if checkpoint_format_version != SaverDef.V2 and os.path.isfile(prefix):
        patterns.append(glob.escape(prefix))
    # The index first: without it the rest is no checkpoint.
    patterns += [f"{glob.escape(prefix)}.index", f"{glob.escape(prefix)}.data-?????-of-?????"]
    for pattern in patterns:
        for path in glob.glob(pattern):
            Path(path).unlink(missing_ok=True)


def meta_graph_filename(checkpoint_filename: str, meta_graph_suffix: str = "meta") -> str:
    """The file of the graph that belongs to a checkpoint."""
    return re.sub(r"-[\d?]+-of-\d+$", "", checkpoint_filename) + f".{meta_graph_suffix}"


def _state_file(directory: str, latest_filename: str | None) -> str:
    return os.path.join(directory, latest_filename or DEFAULT_STATE_FILE)


def _relative(path: str, directory: str) -> str:
    return os.path.relpath(path, directory) if os.path.isabs(path) else path


def _first_file(prefix: str) -> str | None:
    """A file of this host that only exists where the checkpoint does."""
    prefix = local_path(prefix)
    if os.path.exists(f"{prefix}.index"):
        return f"{prefix}.index"
    matching = [prefix] if os.path.isfile(prefix) else sorted(glob.glob(prefix))
    return next((path for path in matching if os.path.isfile(path)), None)
