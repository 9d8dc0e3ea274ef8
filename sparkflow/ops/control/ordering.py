"""Nodes that order others: identity, group, tuple, no_op."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow._api import export
from sparkflow._generated.ops.control.ordering import *  # noqa: F403
from sparkflow._generated.ops.control.ordering import no_op
from sparkflow.graph.operation import Operation
from sparkflow.graph.operators import Symbolic
from sparkflow.graph.scopes import apply_op, control_dependencies, device as on_device, graph_of
from sparkflow.graph.values.indexed_slices import IndexedSlices
from sparkflow.graph.values.sparse_tensor import SparseTensor


@export("identity")
def identity(input: Any, name: str | None = None) -> Any:
    """The same value as a node of its own; `IndexedSlices` stay sparse."""
    if isinstance(input, SparseTensor):
        parts = (input.indices, input.values, input.dense_shape)
        return SparseTensor(*[identity(part, name) for part in parts])
    if isinstance(input, IndexedSlices):
        return IndexedSlices(
            identity(input.values, name), identity(input.indices), input.dense_shape
        )
    return apply_op("Identity", input, name=name)


@export("group")
def group(*inputs: Any, name: str | None = None) -> Operation:
    """A node that has run when all `inputs` have.

    Args:
        *inputs: Operations, tensors, variables, or lists of those.
        name: Name of the node.

    Raises:
        TypeError: Something else.
    """
    by_device: dict[str, list[Operation]] = {}
    for operation in _operations(inputs):
        by_device.setdefault(operation.device, []).append(operation)
    graph = graph_of(operation for each in by_device.values() for operation in each)
    with graph.as_default(), graph.name_scope(name or "group_deps") as scope:
        if len(by_device) == 1:
            ((device, operations),) = by_device.items()
            return _gate(operations, device, scope)
        # One gate per device, so that one edge per device crosses to the last one.
        gates = [_gate(by_device[device], device, None) for device in sorted(by_device)]
        return _gate(gates, "", scope)


def _gate(operations: Sequence[Operation], device: str, name: str | None) -> Operation:
    with control_dependencies(operations):
        if not device:
            return no_op(name)
        with on_device(device):
            return no_op(name)


def _operations(items: Sequence[Any]) -> list[Operation]:
    found: list[Operation] = []
    for item in items:
        if isinstance(item, list | tuple):
            found.extend(_operations(item))
        elif isinstance(item, Operation):
            found.append(item)
        elif isinstance(item, IndexedSlices | SparseTensor):
            found.append(item.values.op)
        elif isinstance(item, Symbolic):
            found.append(item._as_operation())
        elif item is not None:
            raise TypeError(
                "Expected tf.group() expected Tensor or Operation or Variable objects, not "
                f"{item!r}."
            )
    return found


@export("tuple")
def tuple_of(
    tensors: Sequence[Any], name: str | None = None, control_inputs: Sequence[Any] | None = None
) -> list[Any]:
    """Tensors with the values of `tensors`, none of which is available before all are computed.

    Args:
        tensors: Tensors, `IndexedSlices`, sparse tensors, operations, or None, which stays None.
        name: Name of the scope.
        control_inputs: Further operations to wait for.

    Raises:
        ValueError: There is no tensor among them.
    """
    given = [each for each in tensors if each is not None]
    if not given:
        raise ValueError("Must have at least one Tensor: tf.tuple")
    graph = graph_of(given)
    with graph.as_default(), graph.name_scope(name or "tuple"):
        gate = group(*given, *(control_inputs or ()))
        return [None if each is None else _after(gate, each) for each in tensors]


def with_dependencies(dependencies: Sequence[Any], output: Any, name: str | None = None) -> Any:
    """`output`, available only after `dependencies` have run."""
    graph = graph_of([output])
    with graph.as_default(), graph.name_scope(name or "control_dependency") as scope:
        if isinstance(output, Operation):
            return group(*dependencies, output, name=scope)
        with graph.colocate_with(output), graph.control_dependencies(list(dependencies)):
            return identity(output, scope)


def _after(gate: Operation, value: Any) -> Any:
    if isinstance(value, Operation):
        return gate
    if isinstance(value, SparseTensor):
        parts = (value.indices, value.values, value.dense_shape)
        return SparseTensor(*(_after(gate, part) for part in parts))
    if isinstance(value, IndexedSlices):
        values, indices = _after(gate, value.values), _after(gate, value.indices)
        return IndexedSlices(values, indices, value.dense_shape)
    return with_dependencies([gate], value)
