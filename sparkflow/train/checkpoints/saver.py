"""`Saver`: writes variables to checkpoints, keeps the newest ones, and reads them back."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Sequence
from typing import Any

from sparkflow import logging
from sparkflow._api import export
from sparkflow.graph.collections import GraphKeys
from sparkflow.graph.scopes import get_collection, get_default_graph
from sparkflow.session.session import BaseSession
from sparkflow.train.checkpoints import state_file
from sparkflow.train.checkpoints.meta_graph import export_meta_graph
from sparkflow.train.checkpoints.save_graph import build_save_nodes
from sparkflow.train.checkpoints.saveable import saveables_of
from sparkflow.train.step_counter import global_step as value_of_step
from sparkflow_runtime.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    OpError,
)
from sparkflow_runtime.files import system
from sparkflow_runtime.protos.meta_graph_pb2 import MetaGraphDef
from sparkflow_runtime.protos.saver_pb2 import SaverDef


def all_saveable_objects(scope: str | None = None) -> list[Any]:
    """The global variables and other saveables of the default graph."""
    return get_collection(GraphKeys.GLOBAL_VARIABLES, scope) + get_collection(
        GraphKeys.SAVEABLE_OBJECTS, scope
    )


@export("train.Saver")
class Saver:
    """Saves and restores variables, by nodes it adds to the graph.

    The nodes run on the tasks of the session: paths are paths there. The state file and the graph
    are written by the client. Threads that save at the same time, as a `Supervisor`'s and the
    program's own, take turns: the checkpoint that was begun last is the latest one.

    Args:
        var_list: Variables, partitioned variables and `SaveableObject`s, in a list or by the name
            they have in the checkpoint; all of the graph when None.
        reshape: Restore variables whose shape differs where the number of elements does not.
        sharded: Write one shard per device, each by the device's own task.
        max_to_keep: How many checkpoints stay; 0 or None for all.
        keep_checkpoint_every_n_hours: One in so many hours stays for ever.
        name: Of the scope of the nodes.
        restore_sequentially: Restore one variable after the other.
        saver_def: The nodes of another saver, which are in the graph; nothing is built then.
        builder: Accepted for TensorFlow's sake.
        defer_build: Build the nodes when `build` is called.
        allow_empty: Do nothing where there are no variables, instead of failing.
        write_version: Accepted; checkpoints are of the second version.
        pad_step_number: Write step numbers with eight digits, so that names sort.
        save_relative_paths: Write paths that start from its directory into the state file.
        filename: The path when none is fed.

    Raises:
        ValueError: There are no variables, two have one name, or `saver_def` is incomplete.
        TypeError: Something in `var_list` is no variable.
    """

    def __init__(
        self,
        var_list: Any = None,
        reshape: bool = False,
        sharded: bool = False,
        max_to_keep: int | None = 5,
        keep_checkpoint_every_n_hours: float = 10000.0,
        name: str | None = None,
        restore_sequentially: bool = False,
        saver_def: SaverDef | None = None,
        builder: Any = None,
        defer_build: bool = False,
        allow_empty: bool = False,
        write_version: int = SaverDef.V2,
        pad_step_number: bool = False,
        save_relative_paths: bool = False,
        filename: str | None = None,
    ) -> None:
        if defer_build and var_list:
            raise ValueError(
                "If `var_list` is provided then build cannot be deferred. Either set "
                "defer_build=False or var_list=None."
            )
        self._var_list = var_list
        self._reshape = reshape
        self._sharded = sharded
        self._max_to_keep = max_to_keep
        self._keep_checkpoint_every_n_hours = keep_checkpoint_every_n_hours
        self._name = name
        self._restore_sequentially = restore_sequentially
        self.saver_def = saver_def
        self._allow_empty = allow_empty
        self._write_version = write_version
        self._pad_step_number = pad_step_number
        self._save_relative_paths = save_relative_paths
        self._filename = filename
        self._is_built = False
        self._is_empty = False
        self._last_checkpoints: list[tuple[str, float]] = []
        self._checkpoints_to_be_deleted: list[tuple[str, float]] = []
        self._next_checkpoint_time = math.inf
        self._save_lock = threading.Lock()
        if not defer_build:
            self.build()

    # ------------------------------------------------------------------ nodes

    def build(self) -> None:
        """Adds the nodes; does nothing the second time.

        Raises:
            ValueError, TypeError: As the constructor.
        """
        if self._is_built:
            return
        self._is_built = True
        if self.saver_def is None:
            variables = all_saveable_objects() if self._var_list is None else self._var_list
            if not variables:
                if not self._allow_empty:
                    raise ValueError("No variables to save")
                self._is_empty = True
                return
            self.saver_def = build_save_nodes(
                saveables_of(variables),
                name=self._name,
                filename=self._filename,
                reshape=self._reshape,
                sharded=self._sharded,
                max_to_keep=self._max_to_keep or 0,
                keep_checkpoint_every_n_hours=self._keep_checkpoint_every_n_hours,
                restore_sequentially=self._restore_sequentially,
                write_version=self._write_version,
            )
        elif self._name and isinstance(self.saver_def, SaverDef):
            self.saver_def = _renamed(self.saver_def, lambda name: f"{self._name}/{name}")
        self._check_saver_def()
        self._write_version = self._nodes.version
        self._next_checkpoint_time = time.time() + self._nodes.keep_checkpoint_every_n_hours * 3600

    def _check_saver_def(self) -> None:
        message = self.saver_def
        if not isinstance(message, SaverDef):
            raise ValueError(f"saver_def must be a saver_pb2.SaverDef: {message}")
        if not message.save_tensor_name:
            raise ValueError(f"saver_def must specify the save_tensor_name: {message}")
        if not message.restore_op_name:
            raise ValueError(f"saver_def must specify the restore_op_name: {message}")

    @property
    def _nodes(self) -> SaverDef:
        if self.saver_def is None:
            raise RuntimeError(
                "`build()` should be called before save and restore if defer_build==True"
            )
        return self.saver_def

    # ------------------------------------------------------------------ saving

    def save(
        self,
        sess: BaseSession,
        save_path: str | os.PathLike[str],
        global_step: Any = None,
        latest_filename: str | None = None,
        meta_graph_suffix: str = "meta",
        write_meta_graph: bool = True,
        write_state: bool = True,
        strip_default_attrs: bool = False,
        save_debug_info: bool = False,
    ) -> str | None:
        """Writes a checkpoint, and deletes those that are not to be kept.

        A checkpoint is there whole or not at all. Blocks until it is written.

        Args:
            sess: Runs the nodes.
            save_path: The prefix of the checkpoint.
            global_step: A number, tensor or variable to append to the prefix.
            latest_filename: The name of the state file; `checkpoint` when None.
            meta_graph_suffix: The suffix of the file of the graph.
            write_meta_graph: Write the graph too.
            write_state: Write the state file too.
            strip_default_attrs: Leave attributes with default values out of the graph.
            save_debug_info: Accepted for TensorFlow's sake; nodes carry the lines that made them.

        Returns:
            The prefix written; None when there is nothing to save.

        Raises:
            TypeError: `sess` is not a session.
            ValueError: The names collide, or the directory does not exist.
            RuntimeError: The nodes are not built.
            OpError: What went wrong on the tasks.
        """
        if not self._is_built:
            raise RuntimeError("`build()` should be called before save if defer_build==True")
        latest_filename = latest_filename or state_file.DEFAULT_STATE_FILE
        if os.path.split(latest_filename)[0]:
            raise ValueError("'latest_filename' must not contain path components")
        prefix = os.fspath(save_path)
        collides = os.path.basename(prefix) == latest_filename and not self._sharded
        if global_step is None and collides:
            raise ValueError(
                f"'latest_filename' collides with 'save_path': '{latest_filename}' and '{prefix}'"
            )
        if not isinstance(sess, BaseSession):
            raise TypeError(f"'sess' must be a Session; {sess}")
        with self._save_lock:
            if global_step is not None:
                prefix += self._step_suffix(sess, global_step)
            written = None if self._is_empty else self._write(sess, prefix)
            # Before the state file speaks of it and an older checkpoint goes, it has all its files.
            if write_meta_graph:
                with sess.graph.as_default():
                    self.export_meta_graph(
                        state_file.meta_graph_filename(prefix, meta_graph_suffix),
                        strip_default_attrs=strip_default_attrs,
                    )
            if written is not None and write_state:
                self._record_last_checkpoint(written)
                state_file.update_checkpoint_state(
                    os.path.dirname(prefix),
                    written,
                    self.last_checkpoints,
                    latest_filename,
                    save_relative_paths=self._save_relative_paths,
                )
                self._delete_old_checkpoints(meta_graph_suffix)
        return written

    def _step_suffix(self, sess: BaseSession, global_step: Any) -> str:
        if not hasattr(global_step, "__index__"):
            global_step = value_of_step(sess, global_step)
        step = int(global_step)
        return f"-{step:08d}" if self._pad_step_number else f"-{step}"

    def _write(self, sess: BaseSession, prefix: str) -> str:
        nodes = self._nodes
        try:
            written = sess.run(nodes.save_tensor_name, {nodes.filename_tensor_name: prefix})
        except (FailedPreconditionError, NotFoundError) as error:
            parent = os.path.dirname(prefix)
            if parent and not system.is_directory(parent):
                raise ValueError(
                    f"Parent directory of {prefix} doesn't exist, can't save."
                ) from error
            raise
        return os.fsdecode(written)

    def _record_last_checkpoint(self, path: str) -> None:
        most = self._nodes.max_to_keep
        if not most:
            return
        self._last_checkpoints = [each for each in self._last_checkpoints if each[0] != path]
        self._last_checkpoints.append((path, time.time()))
        if len(self._last_checkpoints) > most:
            self._checkpoints_to_be_deleted.append(self._last_checkpoints.pop(0))

    def _delete_old_checkpoints(self, meta_graph_suffix: str) -> None:
        if not self._checkpoints_to_be_deleted:
            return
        path, written_at = self._checkpoints_to_be_deleted.pop(0)
        if written_at > self._next_checkpoint_time:
            self._next_checkpoint_time += self._nodes.keep_checkpoint_every_n_hours * 3600
            return
        try:
            state_file.remove_checkpoint(path, self._nodes.version, meta_graph_suffix)
        except OSError as error:
            logging.warning("Ignoring: %s", error)

    # ------------------------------------------------------------------ restoring

    def restore(self, sess: BaseSession, save_path: str | os.PathLike[str] | None) -> None:
        """Sets the variables to the values of a checkpoint; they need not be initialized before.

        Args:
            sess: Runs the nodes.
            save_path: The prefix of the checkpoint.

        Raises:
            ValueError: There is no such checkpoint.
            NotFoundError: A variable is not in it.
            InvalidArgumentError: A variable is in it with another shape or dtype.
            OpError: What else went wrong on the tasks.
        """
        if self._is_empty:
            return
        if save_path is None:
            raise ValueError("Can't load save_path when it is None.")
        prefix = os.fspath(save_path)
        if not state_file.checkpoint_exists(prefix):
            raise ValueError(f"The passed save_path is not a valid checkpoint: {prefix}")
        logging.info("Restoring parameters from %s", prefix)
        nodes = self._nodes
        try:
            sess.run(nodes.restore_op_name, {nodes.filename_tensor_name: prefix})
        except NotFoundError as error:
            raise _explained(error, "a Variable name or other graph key that is missing") from error
        except InvalidArgumentError as error:
            raise _explained(error, "a mismatch between the current graph and the graph") from error

    # ------------------------------------------------------------------ what is kept

    @property
    def last_checkpoints(self) -> list[str]:
        """The checkpoints that have not been deleted, oldest first."""
        return [path for path, _ in self._last_checkpoints]

    def set_last_checkpoints(self, last_checkpoints: list[str]) -> None:
        """Replaces the list of checkpoints, for which no time is known then.

        Raises:
            AssertionError: It is not a list.
        """
        _require_list(last_checkpoints)
        self._last_checkpoints = [(path, math.inf) for path in last_checkpoints]

    def set_last_checkpoints_with_time(
        self, last_checkpoints_with_time: list[tuple[str, float]]
    ) -> None:
        """Replaces the list of checkpoints: pairs of prefix and seconds since 1970.

        Raises:
            AssertionError: It is not a list.
        """
        _require_list(last_checkpoints_with_time)
        self._last_checkpoints = last_checkpoints_with_time

    def recover_last_checkpoints(self, checkpoint_paths: Sequence[str]) -> None:
        """Takes over the checkpoints of a run before, oldest first; those that exist."""
        found = [(path, state_file.get_checkpoint_mtimes([path])) for path in checkpoint_paths]
        self.set_last_checkpoints_with_time([(path, times[0]) for path, times in found if times])

    # ------------------------------------------------------------------ as messages

    def as_saver_def(self) -> SaverDef | None:
        """The names of its nodes; None before they are built."""
        return self.saver_def

    def to_proto(self, export_scope: str | None = None) -> SaverDef | None:
        """The names of its nodes inside a scope; None where they are not all in it."""
        if export_scope is None or self.saver_def is None:
            return self.saver_def
        prefix = f"{export_scope.rstrip('/')}/"
        nodes = self.saver_def
        names = (nodes.filename_tensor_name, nodes.save_tensor_name, nodes.restore_op_name)
        if not all(name.startswith(prefix) for name in names):
            return None
        return _renamed(nodes, lambda name: name.removeprefix(prefix))

    @staticmethod
    def from_proto(saver_def: SaverDef, import_scope: str | None = None) -> Saver:
        """A saver of nodes that are in the default graph."""
        return Saver(saver_def=saver_def, name=import_scope)

    def export_meta_graph(
        self,
        filename: str | None = None,
        collection_list: Sequence[str] | None = None,
        as_text: bool = False,
        export_scope: str | None = None,
        clear_devices: bool = False,
        clear_extraneous_savers: bool = False,
        strip_default_attrs: bool = False,
        save_debug_info: bool = False,
    ) -> MetaGraphDef:
        """The default graph and this saver, see `tf.train.export_meta_graph`."""
        return export_meta_graph(
            filename=filename,
            graph_def=get_default_graph().as_graph_def(add_shapes=True),
            saver_def=self.saver_def,
            collection_list=collection_list,
            as_text=as_text,
            export_scope=export_scope,
            clear_devices=clear_devices,
            clear_extraneous_savers=clear_extraneous_savers,
            strip_default_attrs=strip_default_attrs,
        )


def _require_list(value: Any) -> None:
    if not isinstance(value, list):
        raise AssertionError(f"Checkpoints are given as a list, got {type(value).__name__}")


def _renamed(nodes: SaverDef, rename: Any) -> SaverDef:
    result = SaverDef()
    result.CopyFrom(nodes)
    result.filename_tensor_name = rename(nodes.filename_tensor_name)
    result.save_tensor_name = rename(nodes.save_tensor_name)
    result.restore_op_name = rename(nodes.restore_op_name)
    return result


def _explained(error: OpError, cause: str) -> OpError:
    return type(error)(
        error.node_def,
        error.op,
        f"Restoring from checkpoint failed. This is most likely due to {cause} from the "
        "checkpoint. Please ensure that you have not altered the graph expected based on the "
        f"checkpoint. Original error:\n\n{error.message}",
    )
