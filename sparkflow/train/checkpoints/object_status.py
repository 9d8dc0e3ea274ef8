"""The result of `tf.train.Checkpoint.restore`: what was found, and how to run it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparkflow.graph.default_stack import sessions
from sparkflow.graph.scopes import apply_op, get_default_graph
from sparkflow.train.checkpoints.object_graph import Matching, ObjectGraph
from sparkflow.train.checkpoints.saver import Saver
from sparkflow.train.optimizers.optimizer import Optimizer
from sparkflow.variables.trackable import Trackable
from sparkflow.variables.variable import Variable
from sparkflow_runtime.protos.trackable_object_graph_pb2 import TrackableObjectGraph


class LoadStatus:
    """A checkpoint and the objects that get its values.

    Objects that are made later are seen by every method that is called after that.

    Args:
        root: The object from which others are reached.
        prefix: The path of the checkpoint.
    """

    def __init__(self, root: Any, prefix: str) -> None:
        self._root = root
        self._prefix = prefix
        self._savers: dict[tuple[int, ...], Saver] = {}
        self._given: set[int] = set()

    def matched(self) -> Mapping[str, Variable]:
        """The variables that get a value, by the names of the tensors."""
        raise NotImplementedError(type(self).__name__)

    def assert_consumed(self) -> LoadStatus:
        """Passes where all of the checkpoint is used, and all objects get their values from it.

        Raises:
            AssertionError: Not so; the text names what is left.
        """
        raise NotImplementedError(type(self).__name__)

    def assert_existing_objects_matched(self) -> LoadStatus:
        """Passes where all variables that there are get a value.

        Raises:
            AssertionError: One does not.
        """
        given = {id(each) for each in self.matched().values()}
        lacking = [
            each
            for each in ObjectGraph.below(self._root).variables.values()
            if id(each) not in given and each is not vars(self._root).get("save_counter")
        ]
        if lacking:
            raise AssertionError(
                "Found "
                f"{len(lacking)} Python objects that were not bound to checkpointed values, likely "
                f"due to changes in the Python program. Showing {min(10, len(lacking))} of "
                f"{len(lacking)} unmatched objects: {lacking[:10]}"
            )
        return self

    def assert_nontrivial_match(self) -> LoadStatus:
        """Passes where something is restored.

        Raises:
            AssertionError: Nothing is.
        """
        counter = vars(self._root).get("save_counter")
        if all(each is counter for each in self.matched().values()):
            raise AssertionError(
                f"Nothing to load. No dependencies have been added to {self._root} yet, or none is "
                f"in the checkpoint {self._prefix}."
            )
        return self

    def expect_partial(self) -> LoadStatus:
        """Accepts that parts of the checkpoint stay unused; there are no warnings here anyway."""
        return self

    def initialize_or_restore(self, session: Any = None) -> None:
        """Runs the initializers of variables that get no value, and restores the others.

        Args:
            session: Runs the nodes; the default session when None.

        Raises:
            RuntimeError: There is no session, while a graph is built.
        """
        if not get_default_graph().is_eager:
            matched = {id(each) for each in self.matched().values()}
            found = ObjectGraph.below(self._root).variables.values()
            rest = [each.initializer for each in found if id(each) not in matched]
            session_of(session).run(rest)
        self.run_restore_ops(session)

    def run_restore_ops(self, session: Any = None) -> None:
        """Restores the variables that there are.

        In eager execution those that have not been restored before.

        Raises:
            RuntimeError: There is no session, while a graph is built.
            InvalidArgumentError: A variable has another shape or dtype in the checkpoint.
        """
        found = self.matched()
        if get_default_graph().is_eager:
            self._assign({key: v for key, v in found.items() if id(v) not in self._given})
            return
        if not found:
            return
        running = session_of(session)
        key = (id(running.graph), *sorted(id(each) for each in found.values()))
        if key not in self._savers:
            graph = running.graph
            with graph.as_default(), graph.name_scope(None):
                self._savers[key] = Saver(dict(found), max_to_keep=None)
        self._savers[key].restore(running, self._prefix)

    def run_restore_ops_if_eager(self) -> None:
        """Restores now where that is possible, and what is made later when it is made."""
        if get_default_graph().is_eager:
            self.run_restore_ops()
            self._wait_for_others()

    def _restore_new(self) -> None:
        """Restores what was made since the last time."""
        if get_default_graph().is_eager:
            self.run_restore_ops()
            self._wait_for_others()

    def _wait_for_others(self) -> None:
        for each in ObjectGraph.below(self._root).objects:
            if isinstance(each, Trackable):
                object.__setattr__(each, "_restoring", self._restore_new)
            if isinstance(each, Optimizer):
                each._slots.made = self._restore_new

    def _assign(self, variables: Mapping[str, Variable]) -> None:
        if not variables:
            return
        names = list(variables)
        dtypes = [each.dtype.base for each in variables.values()]
        values = apply_op("RestoreV2", self._prefix, names, [""] * len(names), dtypes=dtypes)
        for variable, value in zip(variables.values(), values, strict=True):
            variable.assign(value)
            self._given.add(id(variable))


class ByObjects(LoadStatus):
    """Of a checkpoint that knows its objects.

    Args:
        root: See `LoadStatus`.
        prefix: See `LoadStatus`.
        message: The objects of the checkpoint.
    """

    def __init__(self, root: Any, prefix: str, message: TrackableObjectGraph) -> None:
        super().__init__(root, prefix)
        self._message = message

    def matched(self) -> Mapping[str, Variable]:
        """By the names of attributes."""
        return Matching.of(self._root, self._message).variables()

    def assert_consumed(self) -> LoadStatus:
        """As in the base."""
        matching = Matching.of(self._root, self._message)
        for number, node in enumerate(self._message.nodes):
            if number not in matching.found and (node.attributes or node.children):
                name = matching.names.get(number, f"number {number}")
                raise AssertionError(f"Unresolved object in checkpoint {name}: {node}")
        return self.assert_existing_objects_matched()


class ByNames(LoadStatus):
    """Of a checkpoint that `tf.train.Saver` wrote.

    Args:
        root: See `LoadStatus`.
        prefix: See `LoadStatus`.
        names: Those of the tensors in the checkpoint.
    """

    def __init__(self, root: Any, prefix: str, names: frozenset[str]) -> None:
        super().__init__(root, prefix)
        self._names = names

    def matched(self) -> Mapping[str, Variable]:
        """By the names of the variables."""
        found = ObjectGraph.below(self._root).variables.values()
        return {each.op.name: each for each in found if each.op.name in self._names}

    def assert_consumed(self) -> LoadStatus:
        """As in the base."""
        unused = sorted(self._names - set(self.matched()))
        if unused:
            raise AssertionError(f"Unused attributes in the checkpoint: {unused}")
        return self.assert_existing_objects_matched()


class NothingRestored(LoadStatus):
    """Of no checkpoint: everything is initialized."""

    def __init__(self, root: Any) -> None:
        super().__init__(root, "")

    def matched(self) -> Mapping[str, Variable]:
        """None."""
        return {}

    def assert_consumed(self) -> LoadStatus:
        """Always fails."""
        raise AssertionError("No checkpoint specified (save_path=None); nothing is being restored.")

    def assert_existing_objects_matched(self) -> LoadStatus:
        """Always fails."""
        return self.assert_consumed()

    def assert_nontrivial_match(self) -> LoadStatus:
        """Always fails."""
        return self.assert_consumed()

    def run_restore_ops(self, session: Any = None) -> None:
        """Fails, outside of `initialize_or_restore`: there is nothing to restore."""
        self.assert_consumed()

    def initialize_or_restore(self, session: Any = None) -> None:
        """Runs the initializers of all variables."""
        if not get_default_graph().is_eager:
            found = ObjectGraph.below(self._root).variables.values()
            session_of(session).run([each.initializer for each in found])


def session_of(session: Any) -> Any:
    """The session that is given, or the default one.

    Raises:
        RuntimeError: There is none.
    """
    found = sessions.top() if session is None else session
    if found is None:
        raise RuntimeError(
            "When graph building, checkpoints need a default session (`with tf.Session():`) or "
            "one that is passed explicitly (session=sess)."
        )
    return found
