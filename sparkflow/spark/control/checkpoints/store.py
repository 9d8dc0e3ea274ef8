"""Checkpoints of a run: directories of safetensors files, complete once their manifest is there.

    <checkpointDir>/checkpoint-000007-step-1200/tensors-00000.safetensors, ..., manifest.json

The manifest is written last and whole, has a checksum of itself, and lists every file with its size
and checksum and every tensor. Checkpoints are numbered in the order in which they were written, so
the highest number is the latest, whatever its step; none is ever overwritten. Nothing is unpickled.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from sparkflow.spark.control.checkpoints.snapshot import Position, Snapshot
from sparkflow.spark.control.checkpoints.tables import beside_tables, problems as table_problems
from sparkflow.spark.errors import SparkTrainingError
from sparkflow.spark.graphs.growing import TableNodes
from sparkflow.spark.params.config import FitConfig
from sparkflow.spark.storage.checkpoint_files import CheckpointFiles
from sparkflow.version import SPARKFLOW_VERSION
from sparkflow_runtime import dtypes
from sparkflow_runtime.checkpoint.sealed import open_json, seal_json
from sparkflow_runtime.checkpoint.tensors import pack_tensors, unpack_tensors
from sparkflow_runtime.errors import DataLossError, OpError, UnknownError
from sparkflow_runtime.events.crc32c import crc32c

_log = logging.getLogger(__name__)

FORMAT: Final = "sparkflow training checkpoint"
VERSION: Final = 2
"""Version 1 had no checksums of the manifest and of whole files; both are read."""
MANIFEST: Final = "manifest.json"
_FIRST, _LAST_FINITE = "first", "last_finite"
"""Notes of a store: the number of its training's first checkpoint, and the name of the last one
whose variables are finite, which differs from the last one only if NaNs are allowed."""
_NAME = re.compile(r"checkpoint-(\d+)-step-(\d+)")
_NO_TABLES: Final[Mapping[str, TableNodes]] = {}
_FILE_BYTES: Final = 256 << 20
"""The maximum size of a file of several tensors, which is copied in memory while it is written."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint that was read.

    Attributes:
        path: Its directory.
        snapshot: Its content.
    """

    path: str
    snapshot: Snapshot


class CheckpointStore:
    """The checkpoints in one directory. For a single writer; not thread-safe.

    Args:
        directory: A path or URI.
        keep_max: The maximum number of checkpoints to keep; 0 for all.
        files: Access to the directory.
    """

    def __init__(self, directory: str, keep_max: int, files: CheckpointFiles) -> None:
        self.directory = directory.rstrip("/") or "/"
        self._keep_max = keep_max
        self._files = files
        # Those with lower numbers are of earlier trainings: neither resumed from nor deleted.
        self._first = 0
        self._last_finite = ""

    @classmethod
    def of(
        cls, config: FitConfig, reach: Callable[[str], CheckpointFiles]
    ) -> CheckpointStore | None:
        """Returns the checkpoints of a fit; None if it keeps none.

        Args:
            config: The configuration of the fit.
            reach: Returns the access to a directory.
        """
        directory = config.checkpoint_dir
        return cls(directory, config.keep_checkpoint_max, reach(directory)) if directory else None

    def prepare(self) -> None:
        """Creates the directory and writes to it, so that errors occur before training.

        Raises:
            SparkTrainingError: The directory cannot be written.
        """
        probe = self._path(".sparkflow-probe")
        try:
            self._files.make_dirs(probe)
            self._files.write(f"{probe}/probe", b"sparkflow")
            self._files.remove_tree(probe)
        except (OSError, OpError) as error:
            raise SparkTrainingError(
                f"checkpointDir={self.directory!r} cannot be written: {error}"
            ) from error

    def names(self) -> list[str]:
        """Returns the checkpoints, complete or not, oldest first."""
        found = [name for name in self._files.list(self.directory) if _NAME.fullmatch(name)]
        return sorted(found, key=_number)

    def ignore_existing(self) -> int:
        """Makes `latest` skip all present checkpoints, and returns their number.

        They are kept: `keep_max` does not count them, even in fits that resume from newer ones.
        """
        names = self.names()
        self._first = _number(names[-1]) + 1 if names else 0
        return len(names)

    def latest(self, refuse: Callable[[Snapshot], str] | None = None) -> Checkpoint | None:
        """Returns the last readable checkpoint; None if there is none.

        Incomplete and damaged checkpoints are skipped with a warning.

        Args:
            refuse: Returns why a checkpoint must also be skipped; "" if it need not be.

        Raises:
            SparkTrainingError: It has a format that this version does not know.
        """
        for name in reversed(self.names()):
            path = self._path(name)
            if _number(name) < self._first:
                break
            try:
                snapshot = self._read(path)
                if refuse is not None and (reason := refuse(snapshot)):
                    raise DataLossError(message=reason)
                notes = dict(snapshot.notes)
                self._first = max(self._first, int(notes.pop(_FIRST, 0)))
                self._last_finite = str(notes.pop(_LAST_FINITE, name))
                return Checkpoint(path, replace(snapshot, notes=notes))
            except (DataLossError, OSError, OpError) as error:
                _log.warning("The checkpoint %s is ignored: %s", path, error)
        return None

    def write(self, snapshot: Snapshot) -> str:
        """Writes a checkpoint, deletes excess ones, and returns its path.

        Raises:
            OSError, OpError: The checkpoint could not be written.
            SparkTrainingError: A variable's dtype cannot be saved.
        """
        names = self.names()
        number = _number(names[-1]) + 1 if names else 1
        name = f"checkpoint-{number:06d}-step-{snapshot.step}"
        path = self._path(name)
        last_finite = name if snapshot.is_finite else self._last_finite
        notes = {**snapshot.notes, _FIRST: self._first, _LAST_FINITE: last_finite}
        try:
            self._write(path, replace(snapshot, notes=notes))
        except (OSError, OpError) as error:
            raise self._not_written(path, snapshot, error) from error
        except BaseException:
            self._remove(path)
            raise
        self._last_finite = last_finite
        self._prune(number)
        return path

    def _write(self, path: str, snapshot: Snapshot) -> None:
        self._files.make_dirs(path)
        listed: dict[str, Any] = {}
        files: dict[str, Any] = {}
        for index, part in enumerate(_parts(snapshot.tensors())):
            file = f"tensors-{index:05d}.safetensors"
            data = pack_tensors({name: plain_tensor(name, value) for name, value in part.items()})
            self._files.write(f"{path}/{file}", data)
            files[file] = {"size": len(data), "crc32c": f"{crc32c(data):08x}"}
            for name, value in part.items():
                listed[name] = {
                    "file": file,
                    "dtype": dtypes.as_dtype(value.dtype).name,
                    "shape": list(value.shape),
                }
        self._files.write_whole(
            f"{path}/{MANIFEST}", seal_json(manifest_of(snapshot, listed, files))
        )

    def _not_written(self, path: str, snapshot: Snapshot, error: OSError | OpError) -> OpError:
        """Returns the error to raise for a failure; removes partially written files."""
        removed = self._remove(path)
        size_bytes = sum(value.nbytes for value in snapshot.tensors().values())
        kept = self._complete()
        kind = type(error) if isinstance(error, OpError) else UnknownError
        return kind(
            message=f"The checkpoint {path} of {size_bytes:,} bytes could not be written: "
            f"{error.message if isinstance(error, OpError) else error}. What had been written of "
            f"it {'was removed' if removed else 'could not be removed'}; "
            + (f"kept in {self.directory}: {', '.join(kept)}" if kept else "there is no other one")
        )

    def _read(self, path: str) -> Snapshot:
        present = self._files.list(path)
        if MANIFEST not in present:
            raise DataLossError(message="it is incomplete: it has no manifest")
        manifest = _parsed(self._files.read(f"{path}/{MANIFEST}"), path)
        tensors: dict[str, npt.NDArray[Any]] = {}
        try:
            for file, known in manifest["files"].items():
                data = self._files.read(f"{path}/{_plain_name(file)}")
                tensors |= _checked_tensors(data, f"{path}/{file}", known)
            unknown = sorted(tensors.keys() - manifest["tensors"].keys())
            if unknown:
                raise DataLossError(
                    message=f"its files hold a tensor that its manifest does not list: {unknown[0]}"
                )
            values = {
                name: tensor_value(tensors[name], known)
                for name, known in manifest["tensors"].items()
            }
            return snapshot_of(manifest, values)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DataLossError(
                message=f"its manifest does not fit its files: {error!r}"
            ) from error

    def _complete(self) -> list[str]:
        """Returns the checkpoints with a manifest, oldest first; none if they cannot be listed."""
        try:
            return [name for name in self.names() if MANIFEST in self._files.list(self._path(name))]
        except (OSError, OpError):
            return []

    def _prune(self, newest: int) -> None:
        complete = self._complete()
        for name in self.names() if complete else ():
            if name not in complete and self._first <= _number(name) < newest:
                self._remove(self._path(name))  # left behind by a run that was cut off
        ours = [name for name in complete if _number(name) >= self._first]
        for name in ours[: -self._keep_max] if self._keep_max else ():
            if name != self._last_finite:
                self._remove(self._path(name))

    def _remove(self, path: str) -> bool:
        """Deletes a checkpoint, and returns whether that succeeded."""
        try:
            self._files.remove_tree(path)
        except (OSError, OpError) as error:
            # The next one tries again.
            _log.warning("The checkpoint %s could not be deleted: %s", path, error)
            return False
        return True

    def _path(self, name: str) -> str:
        return f"{self.directory.rstrip('/')}/{name}"


def _number(name: str) -> int:
    match = _NAME.fullmatch(name)
    assert match is not None, name
    return int(match[1])


def _parts(tensors: Mapping[str, npt.NDArray[Any]]) -> Iterator[dict[str, npt.NDArray[Any]]]:
    part: dict[str, npt.NDArray[Any]] = {}
    size = 0
    for name, value in tensors.items():
        if part and size + value.nbytes > _FILE_BYTES:
            yield part
            part, size = {}, 0
        part[name] = value
        size += value.nbytes
    yield part


def plain_tensor(name: str, value: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Converts an array for safetensors: types that it lacks in numpy are stored as bytes."""
    if value.dtype.kind in "fiub":
        return value
    if value.dtype.hasobject:
        raise SparkTrainingError(
            f"{name.removeprefix('variables/')} holds strings, which a checkpoint cannot; keep "
            "them in a lookup table, or train without checkpointDir"
        )
    return np.ascontiguousarray(value).reshape(-1).view(np.uint8)


def tensor_value(stored: npt.NDArray[Any], known: Mapping[str, Any]) -> npt.NDArray[Any]:
    """Restores the argument of `plain_tensor`, which a manifest describes."""
    dtype = dtypes.as_dtype(known["dtype"]).as_numpy_dtype
    value = stored if stored.dtype == dtype else stored.view(dtype)
    return value.reshape([int(size) for size in known["shape"]])


def _checked_tensors(
    data: bytes, origin: str, known: Mapping[str, Any] | int
) -> dict[str, npt.NDArray[Any]]:
    """Reads the tensors of a file, checked against the manifest (in version 1 only the size)."""
    size = known if isinstance(known, int) else known["size"]
    if len(data) != size:
        raise DataLossError(message=f"{origin} has {len(data)} bytes instead of {size}")
    tensors = unpack_tensors(data, origin)  # first, because it names the tensor
    if not isinstance(known, int) and known["crc32c"] != f"{crc32c(data):08x}":
        raise DataLossError(message=f"{origin} is damaged: its checksum is not that written")
    return tensors


def _plain_name(file: str) -> str:
    if "/" in file or file.startswith("."):
        raise ValueError(f"not the name of a file: {file!r}")
    return file


def manifest_of(
    snapshot: Snapshot, tensors: Mapping[str, Any], files: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns a snapshot without its arrays, as values for JSON."""
    position = snapshot.position
    return {
        "format": FORMAT,
        "version": VERSION,
        "sparkflow": SPARKFLOW_VERSION,
        "step": snapshot.step,
        "done": position.done,
        "epoch_steps": position.epoch_steps,
        "feed": position.feed,
        "num_workers": len(snapshot.workers),
        "early_stopping": snapshot.early_stopping,
        "history": snapshot.history,
        "notes": snapshot.notes,
        "files": files,
        "tensors": tensors,
    }


def _parsed(data: bytes, path: str) -> dict[str, Any]:
    manifest, sealed = open_json(data, f"{path}/{MANIFEST}")
    try:
        found, version = manifest["format"], int(manifest["version"])
    except (ValueError, KeyError, TypeError) as error:
        raise DataLossError(message=f"its manifest cannot be read: {error!r}") from error
    if found != FORMAT or version > VERSION:
        raise SparkTrainingError(
            f"The checkpoint {path} is a {found!r} of version {version} (written by sparkflow "
            f"{manifest.get('sparkflow', '?')}); this is sparkflow {SPARKFLOW_VERSION}, which "
            f"reads {FORMAT!r} up to version {VERSION}. Use the version that wrote it, another "
            "checkpointDir, or resume='never'"
        )
    if not sealed:
        if version >= 2:
            raise DataLossError(message=f"{path}/{MANIFEST} is damaged: it lacks its checksum")
        _log.warning("%s has no checksum: sparkflow before 2026-11-23 wrote none", path)
    return manifest


def snapshot_of(manifest: Mapping[str, Any], values: Mapping[str, Any]) -> Snapshot:
    """Rebuilds a snapshot from the result of `manifest_of` and its arrays."""
    shared, best, workers = Snapshot.sorted_out(values, int(manifest["num_workers"]))
    position = Position(
        tuple(map(int, manifest["done"])),
        tuple(map(int, manifest["epoch_steps"])),
        dict(manifest["feed"]),
    )
    return Snapshot(
        step=int(manifest["step"]),
        position=position,
        shared=shared,
        best=best,
        workers=workers,
        history=manifest["history"],
        early_stopping=manifest["early_stopping"],
        notes=manifest.get("notes", {}),
    )


def require_same_variables(
    checkpoint: Checkpoint,
    variables: Mapping[str, Any],
    tables: Mapping[str, TableNodes] = _NO_TABLES,
) -> None:
    """Checks that a checkpoint is of a graph with these variables.

    Args:
        checkpoint: The checkpoint that was read.
        variables: Name -> anything with `dtype` and `shape`, as `StateNodes.shared` has them.
        tables: The growing tables, as in `StateNodes.tables`.

    Raises:
        SparkTrainingError: It is of another graph; the message names the differences.
    """
    problems = other_variables(checkpoint, variables, tables)
    if problems:
        more = f" and {len(problems) - 5} more" if len(problems) > 5 else ""
        raise SparkTrainingError(
            f"The checkpoint {checkpoint.path} is of another model: "
            f"{'; '.join(problems[:5])}{more}. Use another checkpointDir, or resume='never' to "
            "start over"
        )


def other_variables(
    checkpoint: Checkpoint,
    variables: Mapping[str, Any],
    tables: Mapping[str, TableNodes] = _NO_TABLES,
) -> list[str]:
    """Describes how these variables differ from a checkpoint; see `require_same_variables`."""
    saved = beside_tables(checkpoint.snapshot.shared)
    problems = [f"{name} is not in the checkpoint" for name in variables if name not in saved]
    problems += [f"the model has no {name}" for name in saved if name not in variables]
    for name, variable in variables.items():
        if name not in saved:
            continue
        value, shape = saved[name], variable.shape
        fits = shape is None or (
            len(shape) == value.ndim
            and all(a in (None, b) for a, b in zip(shape, value.shape, strict=True))
        )
        dtype = dtypes.as_dtype(value.dtype).name
        if dtype != variable.dtype.name or not fits:
            problems.append(
                f"{name} is {dtype} {list(value.shape)} in the checkpoint and "
                f"{variable.dtype.name} {None if shape is None else list(shape)} in the model"
            )
    return problems + table_problems(checkpoint.snapshot.shared, tables.values())
