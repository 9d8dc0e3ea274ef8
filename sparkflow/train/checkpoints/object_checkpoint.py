"""`tf.train.Checkpoint`: saves objects by how they are called by those that have them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from sparkflow._api import export
from sparkflow.graph.graph import Graph
from sparkflow.graph.scopes import apply_op, get_default_graph
from sparkflow.graph.tensor import Tensor
from sparkflow.ops.control.ordering import no_op
from sparkflow.ops.shape.constants import constant
from sparkflow.train.checkpoints import object_status, state_file
from sparkflow.train.checkpoints.object_graph import OBJECT_GRAPH_KEY, ObjectGraph, is_trackable
from sparkflow.train.checkpoints.saveable import SaveableObject, SaveSpec
from sparkflow.train.checkpoints.saver import Saver
from sparkflow.variables.trackable import Trackable
from sparkflow.variables.variable import Variable
from sparkflow_runtime.checkpoint.opening import open_checkpoint
from sparkflow_runtime.dtypes import int64, string
from sparkflow_runtime.errors import DataLossError
from sparkflow_runtime.files import system
from sparkflow_runtime.protos.trackable_object_graph_pb2 import TrackableObjectGraph


@export("train.Checkpoint")
class Checkpoint(Trackable):
    """Objects to save and restore: variables, optimizers, layers, modules, lists, dictionaries.

    What is restored is found by names of attributes, from this object on, not by names of
    variables. Files are TensorFlow's, both ways. While a graph is built, objects and variables may
    be made after `restore`: the status that it returns looks for them when it is asked.

    Args:
        root: An object whose parts belong to this one, as if they were given by name.
        kwargs: The objects, each by its name; more may be set as attributes.

    Raises:
        ValueError: Something is given that cannot be saved.
    """

    save_counter: Variable

    def __init__(self, root: Any = None, **kwargs: Any) -> None:
        self._root = root
        self._savers: dict[tuple[Any, ...], Saver] = {}
        self._countings: dict[int, Any] = {}
        for name, item in sorted(kwargs.items()):
            if not is_trackable(item) and not isinstance(item, list | tuple | dict):
                raise ValueError(
                    f"`Checkpoint` was expecting {name} to be a trackable object (an object "
                    f"derived from `Trackable`), got {item}. If you believe this object should be "
                    "trackable (i.e. it is part of the TensorFlow Python API and manages state), "
                    "please open an issue."
                )
            setattr(self, name, item)

    def _trackable_children(self) -> dict[str, Any]:
        own = {name: item for name, item in vars(self).items() if not name.startswith("_")}
        if isinstance(self._root, Trackable):
            own = {**self._root._trackable_children(), **own}
        return own

    # ------------------------------------------------------------------ saving

    def save(
        self, file_prefix: str | os.PathLike[str], session: Any = None, options: Any = None
    ) -> str:
        """Writes a checkpoint `file_prefix-number`, counts it, and records it in the state file.

        Args:
            file_prefix: The start of the path; its directory is made where it is missing.
            session: Runs the nodes; the default session when None. Not needed in eager execution.
            options: Accepted for TensorFlow's sake.

        Returns:
            The path, for `restore`.

        Raises:
            RuntimeError: There is no session.
        """
        number = self._counted(session)
        path = self.write(f"{os.fspath(file_prefix)}-{number}", session)
        state_file.update_checkpoint_state(
            os.path.dirname(path), path, [path], save_relative_paths=True
        )
        return path

    def write(
        self, file_prefix: str | os.PathLike[str], session: Any = None, options: Any = None
    ) -> str:
        """Writes a checkpoint of exactly that path, without counting.

        Arguments, result and errors as for `save`.
        """
        prefix = os.fspath(file_prefix)
        system.make_dirs(os.path.dirname(prefix) or ".")
        graph = ObjectGraph.below(self)
        content = graph.message.SerializeToString(deterministic=True)
        if get_default_graph().is_eager:
            values = {key: variable.read_value() for key, variable in graph.variables.items()}
            values[OBJECT_GRAPH_KEY] = _text(content)
            names = sorted(values)
            apply_op("SaveV2", prefix, names, [""] * len(names), [values[key] for key in names])
            return prefix
        running = object_status.session_of(session)
        saver = self._saver(running.graph, graph.variables, content)
        written = saver.save(running, prefix, write_meta_graph=False, write_state=False)
        return str(written)

    def _counted(self, session: Any) -> int:
        """The number of the next checkpoint."""
        made = self._make_save_counter()
        if get_default_graph().is_eager:
            self.save_counter.assign_add(1)
            return int(self.save_counter.read_value().numpy())  # of eager execution
        running = object_status.session_of(session)
        if made:
            running.run(self.save_counter.initializer)
        graph = running.graph
        if id(graph) not in self._countings:
            with graph.as_default(), graph.name_scope(None):
                self._countings[id(graph)] = self.save_counter.assign_add(1)
        return int(running.run(self._countings[id(graph)]))

    def _make_save_counter(self) -> bool:
        if "save_counter" in vars(self):
            return False
        graph = get_default_graph()
        with graph.init_scope(), graph.device("/cpu:0"):
            counter = Variable(np.int64(0), dtype=int64, trainable=False, name="save_counter")
        object.__setattr__(self, "save_counter", counter)
        return True

    def _saver(self, graph: Graph, variables: Mapping[str, Variable], content: bytes) -> Saver:
        """The nodes that save; new ones where the objects are others than the last time."""
        key = (id(graph), content, *(id(each) for each in variables.values()))
        if key not in self._savers:
            with graph.as_default(), graph.name_scope(None):
                saved = {**variables, OBJECT_GRAPH_KEY: _Message(content)}
                self._savers[key] = Saver(saved, max_to_keep=None)
        return self._savers[key]

    # ------------------------------------------------------------------ restoring

    def restore(
        self, save_path: str | os.PathLike[str] | None, options: Any = None
    ) -> object_status.LoadStatus:
        """Restores what a checkpoint has of the objects.

        In eager execution at once, and for attributes of this object that are set later when they
        are. While a graph is built, by `run_restore_ops` or `initialize_or_restore` of the result,
        which take what there is then.

        Args:
            save_path: A path that `save` or `write` gave, or that of a checkpoint of
                `tf.train.Saver`, whose values are found by the names of variables; None for none.
            options: Accepted for TensorFlow's sake.

        Returns:
            What can be asked about what was restored, and run.

        Raises:
            NotFoundError: There is no such checkpoint.
            DataLossError: It is damaged.
        """
        status = self.read(save_path)
        if save_path is not None:
            # Made now, so that it is initialised with the other variables of the graph.
            self._make_save_counter()
            status.run_restore_ops_if_eager()
        return status

    def read(
        self, save_path: str | os.PathLike[str] | None, options: Any = None
    ) -> object_status.LoadStatus:
        """As `restore`, without `save_counter`."""
        if save_path is None:
            return object_status.NothingRestored(self)
        prefix = os.fspath(save_path)
        tensors = open_checkpoint(prefix)
        if OBJECT_GRAPH_KEY in tensors:
            message = TrackableObjectGraph()
            try:
                message.ParseFromString(bytes(tensors.read(OBJECT_GRAPH_KEY)[()]))
            except (DecodeError, TypeError, ValueError) as error:
                raise DataLossError(
                    message=f"{prefix} is damaged: {OBJECT_GRAPH_KEY} does not say which objects "
                    f"were saved: {error}"
                ) from error
            status: object_status.LoadStatus = object_status.ByObjects(self, prefix, message)
        else:
            status = object_status.ByNames(self, prefix, frozenset(tensors.names()))
        status.run_restore_ops_if_eager()
        return status


class _Message(SaveableObject):
    """What is written beside the variables: who has what."""

    def __init__(self, content: bytes) -> None:
        tensor = _text(content)
        super().__init__(tensor, [SaveSpec(tensor, "", OBJECT_GRAPH_KEY, string)], OBJECT_GRAPH_KEY)

    def restore(self, restored_tensors: Any, restored_shapes: Any) -> Any:
        """Nothing: it is read when a checkpoint is opened."""
        return no_op()


def _text(content: bytes) -> Tensor:
    """A scalar of the bytes."""
    return constant(np.array(content, np.object_), name="object_graph")
