"""An optimizer's update that is made only in the steps in which a condition holds.

Each task that holds variables has a condition of its own, and one `If` with all updates of its
variables. Slots and hyperparameters are made outside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from sparkflow.graph.collections import GraphKeys
from sparkflow.graph.operation import Operation
from sparkflow.graph.scopes import graph_of
from sparkflow.graph.tensor import Tensor
from sparkflow.ops.control.cond import cond
from sparkflow.ops.control.ordering import group
from sparkflow.ops.shape import constants
from sparkflow.ops.state import state


class Updating(Protocol):
    """What is asked of an optimizer."""

    def get_name(self) -> str:
        """What its nodes are called."""

    def _create_slots(self, var_list: Sequence[Any]) -> None: ...
    def _prepare(self) -> None: ...
    def _non_slots_read_before(self) -> AbstractContextManager[None]: ...
    def _update(self, grad: Any, variable: Any) -> Any: ...
    def _finish(self, update_ops: Sequence[Any], name_scope: str) -> Any: ...

    @property
    def _own_variables(self) -> Sequence[Any]:
        """Those that are no slots."""

    @property
    def _has_finish(self) -> bool:
        """Whether `_finish` does more than grouping."""


@dataclass(frozen=True, slots=True)
class Part:
    """The variables of one task.

    Attributes:
        device: The task's device.
        condition: [] bool, on that device.
        pairs: Gradients, none of them None, with the variables.
    """

    device: str
    condition: Tensor
    pairs: Sequence[tuple[Any, Any]]


def by_device(pairs: Sequence[tuple[Any, Any]]) -> dict[str, list[tuple[Any, Any]]]:
    """Gradients that are not None with their variables, by the variables' devices."""
    found: dict[str, list[tuple[Any, Any]]] = {}
    for gradient, variable in pairs:
        if gradient is not None:
            found.setdefault(variable.device, []).append((gradient, variable))
    return found


def update_when(
    optimizer: Updating,
    parts: Sequence[Part],
    global_step: Any,
    name: str | None,
    *,
    alone: bool = False,
) -> list[Operation]:
    """The update of all variables, each where the condition of its task holds.

    What belongs to the optimizer itself (powers of Adam's betas) is updated after all variables,
    and `global_step` after that.

    Args:
        optimizer: Whose update it is.
        parts: The variables by task.
        global_step: A variable to count updates in, or None.
        name: Of the scope.
        alone: Whether the conditions hold in different replicas, which hold each other back until
            an update is made: then nothing may wait for what another task does.

    Returns:
        Per part what has run when all updates on its device are made.
    """
    variables = [variable for part in parts for _, variable in part.pairs]
    graph = graph_of(variables)
    with graph.as_default():
        with graph.init_scope():
            optimizer._create_slots(variables)
        with graph.name_scope(name or optimizer.get_name()):
            optimizer._prepare()
            with optimizer._non_slots_read_before():
                updates = {part.device: _updated(optimizer, part) for part in parts}
            finished = list(updates.values())
            if optimizer._has_finish:
                home = _home(optimizer, parts)
                with graph.control_dependencies([updates[home.device]] if alone else finished):
                    updates[home.device] = _when(home, lambda: optimizer._finish([], "finish"))
                finished = [updates[home.device]]
            if global_step is not None:
                counted = _of_device(parts, global_step.device)
                with graph.control_dependencies([updates[counted.device]] if alone else finished):
                    done = _when(counted, lambda: _advance(global_step), global_step.device)
                updates[counted.device] = group(updates[counted.device], done)
    collected = graph.get_collection_ref(GraphKeys.TRAIN_OP)
    operations = [updates[part.device] for part in parts]
    collected.extend(each for each in operations if each not in collected)
    return operations


def _updated(optimizer: Updating, part: Part) -> Operation:
    return _when(
        part,
        lambda: group(*[optimizer._update(gradient, each) for gradient, each in part.pairs]),
    )


def _when(part: Part, update: Callable[[], Any], device: str | None = None) -> Operation:
    """Runs what `update` makes where the condition holds."""
    graph = graph_of((part.condition,))

    def made() -> Any:
        here = graph_of((part.condition,))
        with here.control_dependencies([update()]):
            return constants.constant(True)

    with graph.device(part.device if device is None else device):
        chosen: Tensor = cond(part.condition, made, lambda: constants.constant(False), name="when")
    return chosen.op


def _advance(global_step: Any) -> Any:
    graph = graph_of((global_step,))
    return state.assign_add(global_step, graph.convert(1, global_step.dtype.base, "value"))


def _home(optimizer: Updating, parts: Sequence[Part]) -> Part:
    """The task that has the optimizer's own variables."""
    own = [v for v in optimizer._own_variables if v.graph is parts[0].condition.graph.root]
    return _of_device(parts, own[0].device if own else parts[0].device)


def _of_device(parts: Sequence[Part], device: str) -> Part:
    return next((part for part in parts if part.device == device), parts[0])
