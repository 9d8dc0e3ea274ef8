"""Initial values that depend on other variables: made so that one initialiser can run them all."""

from __future__ import annotations

from typing import Any

from sparkflow.graph.collections import GraphKeys
from sparkflow.graph.messages.importing import grouped
from sparkflow.graph.operation import Operation
from sparkflow.graph.tensor import Tensor
from sparkflow_runtime.dtypes import resource
from sparkflow_runtime.ops import registry


def without_uninitialised(name: str, value: Tensor) -> Tensor:
    """`value`, reading initial values instead of the values of variables that have none yet.

    Args:
        name: The name of the variable that `value` is for; part of the names of nodes made.
        value: An initial value.
    """
    # In eager execution variables have values when they exist.
    return value if value.graph.is_eager else _Copier(name, value).tensor(value)


def _is_left_alone(op: Operation) -> bool:
    """Handles, questions about variables, and branches, which ask such questions themselves."""
    kind = registry.find(op.type)
    if kind.is_variable:
        return kind.signature.gives_handles
    return op.type in ("If", "StatelessIf") or (
        kind.only_reads and not (kind.reads_variable or kind.reads_parts)
    )


def _is_read(op: Operation) -> bool:
    """Whether it gives the value of a variable: its reference, or what is read behind a handle."""
    kind = registry.find(op.type)
    if kind.is_variable:
        return True
    if not (kind.reads_variable and op.inputs[0].dtype is resource):
        return False
    return registry.find(op.inputs[0].op.type).is_variable


class _Copier:
    def __init__(self, name: str, value: Tensor) -> None:
        self._name = name
        self._graph = value.graph
        self._copies: dict[Operation, Operation | Tensor] = {}
        self._variables: dict[Operation, Any] = {}
        for key in (GraphKeys.GLOBAL_VARIABLES, GraphKeys.LOCAL_VARIABLES):
            for variable in self._graph.get_collection(key):
                self._variables.setdefault(variable.op, variable)

    def tensor(self, tensor: Tensor) -> Tensor:
        """The tensor, or a copy that reads no uninitialised variable."""
        found = self._op(tensor.op)
        if isinstance(found, Tensor):
            return found
        return found.outputs[tensor.value_index]

    def _op(self, op: Operation) -> Operation | Tensor:
        # A loop of the graph's own, not of Python's stack: initial values can be deep.
        stack = [op]
        while stack:
            last = stack[-1]
            if last in self._copies:
                stack.pop()
                continue
            if _is_left_alone(last):
                self._copies[last] = last
            elif _is_read(last):
                held = last.inputs[0].op if last.inputs else last
                variable = self._variables.get(held)
                self._copies[last] = last if variable is None else variable.initialized_value()
            else:
                waiting = [each.op for each in last.inputs if each.op not in self._copies]
                if waiting:
                    stack.extend(waiting)
                    continue
                self._copies[last] = self._copied(last)
            stack.pop()
        return self._copies[op]

    def _copied(self, op: Operation) -> Operation:
        inputs = [self.tensor(each) for each in op.inputs]
        if all(new is old for new, old in zip(inputs, op.inputs, strict=True)):
            return op
        attrs = {key: value for key, value in op._attrs.items() if not key.startswith("_")}
        with self._graph.name_scope(None):
            name = f"{op.name}_{self._name}"
            return self._graph.add_node(op.type, grouped(op.type, inputs, attrs), attrs, name)
