"""Slots: variables an optimizer keeps beside each variable it trains."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sparkflow.ops import constants
from sparkflow.variables.variable import Variable


class Slots:
    """The slots of one optimizer by (slot name, variable)."""

    def __init__(self) -> None:
        self._slots: dict[tuple[str, Variable], Variable] = {}

    def get(self, variable: Variable, name: str) -> Variable | None:
        """The slot of that name, None when there is none."""
        return self._slots.get((name, variable))

    def require(self, variable: Variable, name: str) -> Variable:
        """The slot of that name, which must exist."""
        return self._slots[name, variable]

    def names(self) -> list[str]:
        """The slot names, sorted."""
        return sorted({name for name, _ in self._slots})

    def all(self) -> list[Variable]:
        """Every slot variable."""
        return list(self._slots.values())

    def get_or_create(
        self, variable: Variable, name: str, op_name: str, initial_value: Callable[[], Any]
    ) -> Variable:
        """The slot of that name, made beside `variable` when there is none.

        Args:
            variable: The variable it belongs to.
            name: How the optimizer calls the slot.
            op_name: Its name below the variable's.
            initial_value: Makes what it starts from.
        """
        key = (name, variable)
        if key not in self._slots:
            self._slots[key] = _create(variable, op_name, initial_value)
        return self._slots[key]

    def zeros(self, variable: Variable, name: str, op_name: str) -> Variable:
        """The slot of that name, zeros of the variable's shape and dtype at first."""
        return self.filled(variable, name, op_name, 0.0)

    def filled(self, variable: Variable, name: str, op_name: str, value: float) -> Variable:
        """The slot of that name, `value` everywhere at first."""
        dtype = variable.dtype.base

        def initial_value() -> Any:
            shape: Any = variable.shape
            if not shape.is_fully_defined():
                shape = variable.graph.apply("Shape", (variable.initial_value,), {})
            return constants.of_one_value(shape, value, dtype, "Const" if value else "zeros")

        return self.get_or_create(variable, name, op_name, initial_value)


def _create(variable: Variable, op_name: str, initial_value: Callable[[], Any]) -> Variable:
    graph = variable.graph
    with (
        graph.as_default(),
        graph.init_scope(),
        graph.name_scope(None),
        graph.name_scope(f"{variable.op.name}/"),
        graph.colocate_with(variable, ignore_existing=True),
    ):
        return Variable(
            initial_value,
            trainable=False,
            name=op_name,
            validate_shape=variable.shape.is_fully_defined(),
        )
