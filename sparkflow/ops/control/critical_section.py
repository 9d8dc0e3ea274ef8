"""`tf.CriticalSection`: parts of a graph of which only one runs at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Any

import tree

from sparkflow._api import export
from sparkflow.graph.operation import Operation
from sparkflow.graph.scopes import get_default_graph
from sparkflow.ops.control.ordering import identity


class _Running(threading.local):
    """The sections whose functions are being called in a thread."""

    def __init__(self) -> None:
        self.sections: list[Hashable] = []


_running = _Running()


@export("CriticalSection")
class CriticalSection:
    """Runs functions one after another, in the order in which `execute` was called.

    The order holds within a step. Unlike in TensorFlow, concurrent `Session.run` calls are not kept
    apart, and fetching the result of one `execute` runs the ones before it, too.

    Args:
        name: The name scope.
        shared_name: Sections of the same graph and name are one.
        critical_section_def: Accepted for TensorFlow's sake: must be None.
        import_scope: Accepted for TensorFlow's sake: must be None.
    """

    def __init__(
        self,
        name: str | None = None,
        shared_name: str | None = None,
        critical_section_def: Any = None,
        import_scope: Any = None,
    ) -> None:
        if critical_section_def is not None or import_scope is not None:
            raise ValueError("CriticalSection cannot be made from a critical_section_def")
        self._name = name or "critical_section"
        # The last node of each section, by its name, belongs to the graph.
        self._collection = ("sparkflow", "critical section", shared_name or id(self))

    @property
    def name(self) -> str:
        """The name."""
        return self._name

    def execute(
        self,
        fn: Callable[[], Any],
        exclusive_resource_access: bool = True,
        name: str | None = None,
    ) -> Any:
        """The result of `fn`, which runs after everything this section ran before.

        Args:
            fn: A function of nothing that gives tensors, nested.
            exclusive_resource_access: Accepted for TensorFlow's sake.
            name: The name scope.

        Raises:
            ValueError: It is called while `fn` of an `execute` of this section runs.
        """
        graph = get_default_graph()
        last = graph.get_collection_ref(self._collection)
        if self._collection in _running.sections:
            raise ValueError(
                f"Attempting to lock CriticalSection {self._name!r} in which we are already "
                "running: an execute() of it cannot be part of another one; use two sections, or "
                "call the function itself."
            )
        with graph.name_scope(name or f"{self._name}_execute"):
            _running.sections.append(self._collection)
            try:
                with graph.control_dependencies(list(last)):
                    before = len(graph.get_operations())
                    result = fn()
                    made = graph.get_operations()[before:]
            finally:
                _running.sections.pop()
            with graph.control_dependencies(made):
                results = tree.map_structure(
                    lambda each: each if isinstance(each, Operation) else identity(each), result
                )
                last[:] = [
                    each if isinstance(each, Operation) else each.op
                    for each in tree.flatten(results)
                ]
        return results
