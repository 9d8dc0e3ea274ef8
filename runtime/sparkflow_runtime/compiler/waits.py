"""What each call of a plan must wait for, whichever thread runs it.

A call waits for who makes what it reads, for what its control edges name, and for those before it
that use a variable which it updates, or update one which it uses. What has other effects keeps its
order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sparkflow_runtime import dtypes
from sparkflow_runtime.compiler.fusion.grow import find_variables
from sparkflow_runtime.compiler.plan import Unit
from sparkflow_runtime.ir.function import called
from sparkflow_runtime.ir.node import Endpoint, Node
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.random import RandomOp

_NOTHING: frozenset[int] = frozenset()


@dataclass(slots=True)
class Waits:
    """What must not change when calls of a plan change their places.

    Attributes:
        before: Per call the numbers of those before it that must have run.
        pinned: Those that keep their order among each other, on one thread.
        barriers: Those that everything before and after them waits for.
    """

    before: list[set[int]]
    pinned: set[int] = field(default_factory=set)
    barriers: set[int] = field(default_factory=set)


def find_waits(units: Sequence[Unit], nodes: Sequence[Node]) -> Waits:
    """What the calls of a plan wait for.

    Args:
        units: The plan.
        nodes: The partition it was made of, in execution order.
    """
    waits = Waits([set() for _ in units])
    made: dict[Endpoint, int] = {}
    units_of: dict[str, list[int]] = {}
    for number, unit in enumerate(units):
        waits.before[number].update(made[each] for each in unit.inputs if each in made)
        made.update(dict.fromkeys(unit.outputs, number))
        if unit.fused is not None:
            made.update(dict.fromkeys(unit.fused.copies, number))
        for node in nodes_of(unit):
            units_of.setdefault(node.name, []).append(number)
            _note_effects(waits, number, node)
    _add_control_edges(waits, units_of, nodes)
    _add_variables(waits, units, nodes)
    return waits


def nodes_of(unit: Unit) -> tuple[Node, ...]:
    """The nodes that a call of a plan computes."""
    if unit.fused is not None:
        return unit.fused.nodes
    return unit.group or (unit.node,)


def _note_effects(waits: Waits, number: int, node: Node) -> None:
    op = registry.lookup(node.op)
    if op.takes_step or any(called(node)):
        waits.barriers.add(number)
    elif op.stateful and not isinstance(op, RandomOp) and node.op not in ("_Arg", "_Retval"):
        expected = op.signature.input_dtypes(node.attrs)
        is_handle = not expected and bool(op.signature.outputs)
        # Updates through references are ordered variable by variable, see `_add_variables`.
        if not is_handle and not any(dtype.is_ref for dtype in expected):
            waits.pinned.add(number)
    if any(dtype.base is dtypes.variant for dtype in op.signature.output_dtypes(node.attrs)):
        waits.pinned.add(number)


def _add_control_edges(
    waits: Waits, units_of: Mapping[str, Sequence[int]], nodes: Sequence[Node]
) -> None:
    stands_for: dict[str, frozenset[int]] = {}
    for node in nodes:
        own = units_of.get(node.name)
        named = _NOTHING.union(*(stands_for.get(name, _NOTHING) for name in node.control_inputs))
        if own is None:  # a node without work: who waits for it waits for these
            made = (stands_for.get(each.node, _NOTHING) for each in node.inputs)
            stands_for[node.name] = named.union(*made)
            continue
        stands_for[node.name] = frozenset(own)
        for number in own:
            waits.before[number].update(each for each in named if each < number)


def _add_variables(waits: Waits, units: Sequence[Unit], nodes: Sequence[Node]) -> None:
    """Uses of a variable keep their order, but for reads with no update between them."""
    held, updates = find_variables(nodes)
    position = {node.name: number for number, node in enumerate(nodes)}
    by_name = {node.name: node for node in nodes}
    changed_by = {variable: {*numbers} for variable, numbers in updates.items()}
    last_update: dict[tuple[object, ...], int] = {}
    readers: dict[tuple[object, ...], list[int]] = {}
    for number, unit in enumerate(units):
        used: dict[tuple[object, ...], bool] = {}
        for node in nodes_of(unit):
            for variable in _variables_of(node, held):
                key = _identity(by_name[variable.node])
                is_update = position[node.name] in changed_by.get(variable, ())
                used[key] = used.get(key, False) or is_update
        for key, is_update in used.items():
            if key in last_update:
                waits.before[number].add(last_update[key])
            if is_update:
                waits.before[number].update(readers.pop(key, ()))
                last_update[key] = number
            else:
                readers.setdefault(key, []).append(number)
        waits.before[number].discard(number)


def _variables_of(node: Node, held: Mapping[Endpoint, frozenset[Endpoint]]) -> frozenset[Endpoint]:
    return frozenset[Endpoint]().union(*(held.get(each, frozenset()) for each in node.inputs))


def _identity(node: Node) -> tuple[object, ...]:
    """Which variable it is: nodes of the same shared name are the same one."""
    shared = node.attrs.get("shared_name") or node.name
    return node.attrs.get("container", ""), shared
