"""Groups the updates of many small variables into one call."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from sparkflow_runtime.compiler.known import Known
from sparkflow_runtime.compiler.plan import Unit
from sparkflow_runtime.ir.node import SOURCE_ATTR, Endpoint, Node
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.optimizers.apply_gradient import DenseUpdate

MOST_ELEMENTS: Final = 1 << 16
"""Updates of larger variables gain nothing, and would wait for each other."""

BindGroup = Callable[[Sequence[Node]], Callable[..., Any] | None]


def group_updates(
    units: Sequence[Unit], known: Mapping[Endpoint, Known], bind: BindGroup
) -> list[Unit]:
    """Merges neighbouring updates by one rule with the same scalars into one unit.

    Args:
        units: The plan.
        known: What is known of its tensors.
        bind: Returns the kernel of several nodes; None if there is none.
    """
    found: list[Unit] = []
    run: list[Node] = []
    key: Any = None

    def close() -> None:
        kernel = bind(run) if len(run) > 1 else None
        if kernel is None:
            found.extend(Unit(node) for node in run)
        else:
            found.append(Unit(run[-1], group=tuple(run), kernel=kernel))
        run.clear()

    for unit in units:
        mine = None if unit.fused is not None else _key(unit.node, known)
        if run and (mine != key or _meets(run, unit.node)):
            close()
        if mine is None:
            found.append(unit)
        else:
            key = mine
            run.append(unit.node)
    close()
    return found


def _key(node: Node, known: Mapping[Endpoint, Known]) -> Any:
    """Returns what the updates of a group have in common; None for other nodes."""
    op = registry.lookup(node.op).with_references
    if not isinstance(op, DenseUpdate) or op.indices_at is not None:
        return None
    variable, shape = known[node.inputs[0]], known[node.inputs[op.grad_at]].full_shape
    if shape is None and variable.dtype.is_ref:
        # Tensors from another task have no known shape; the kernel detects mismatches.
        shape = variable.full_shape
    if shape is None or math.prod(shape) > MOST_ELEMENTS:
        return None
    attrs = tuple(
        (name, value)
        for name, value in sorted(node.attrs.items())
        if name != SOURCE_ATTR and not name.startswith("_")
    )
    return node.op, attrs, tuple(node.inputs[number] for number in op.scalars)


def _meets(run: Sequence[Node], node: Node) -> bool:
    """Whether a node updates the same variable as one of the group, or reads its output."""
    updated = {endpoint for each in run for endpoint in each.inputs[:1]}
    made = {each.name for each in run}
    return any(each in updated or each.node in made for each in node.inputs)
