"""Slots: variables that an optimizer keeps for each variable it trains."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sparkflow.graph.collections import GraphKeys
from sparkflow.graph.operators import Held
from sparkflow.ops.shape import arrays, constants
from sparkflow.variables.variable import Variable
from sparkflow.variables.variable_scope import get_variable_scope
from sparkflow_runtime.dtypes import DType, bfloat16, float32
from sparkflow_runtime.ops.optimizers.other_rows import UNCHANGED


class Slots:
    """The slots of one optimizer by (slot name, variable).

    Attributes:
        made: Called after a slot was made, where not None.
    """

    def __init__(self) -> None:
        self.made: Callable[[], None] | None = None
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

    def items(self) -> list[tuple[tuple[str, Variable], Variable]]:
        """Every slot variable with its name and the variable it belongs to."""
        return list(self._slots.items())

    def all(self) -> list[Variable]:
        """Every slot variable."""
        return list(self._slots.values())

    def get_or_create(
        self, variable: Variable, name: str, op_name: str, initial_value: Callable[[], Any]
    ) -> Variable:
        """The slot of that name for `variable`, created if it does not exist.

        Args:
            variable: The variable it belongs to.
            name: How the optimizer calls the slot.
            op_name: Its name below the variable's.
            initial_value: Makes what it starts from.
        """
        key = (name, variable)
        if key not in self._slots:
            self._slots[key] = create_slot(variable, op_name, initial_value)
            if self.made is not None:
                self.made()
        return self._slots[key]

    def zeros(self, variable: Variable, name: str, op_name: str) -> Variable:
        """The slot of that name, zeros of the variable's shape and dtype at first."""
        return self.filled(variable, name, op_name, 0.0)

    def filled(self, variable: Variable, name: str, op_name: str, value: float) -> Variable:
        """The slot of that name, `value` everywhere at first."""
        dtype = arithmetic_dtype(variable)
        return self.get_or_create(
            variable, name, op_name, lambda: filled_like(variable, value, dtype)
        )


def filled_like(primary: Any, value: float, dtype: DType | None = None) -> Any:
    """One value in the shape of a variable or tensor, for the start of a slot.

    Args:
        primary: The variable or tensor.
        value: The value.
        dtype: Of the result; that of `primary` when None.
    """
    shape: Any = primary.shape
    if not shape.is_fully_defined():
        start = primary.initial_value if isinstance(primary, Variable) else primary
        shape = primary.graph.apply("Shape", (start,), {})
    name = "Const" if value else "zeros"
    return constants.of_one_value(shape, value, dtype or primary.dtype.base, name)


def arithmetic_dtype(primary: Any) -> DType:
    """The dtype in which a variable's update is computed and its slots are stored.

    That of the variable, and float32 where it is stored as bfloat16.
    """
    dtype: DType = primary.dtype.base
    return float32 if dtype is bfloat16 else dtype


def rows_of(variable: Variable, rows: Any) -> Any:
    """Rows of a variable as it is when these are known: lookups before may have made it longer."""
    table = variable if isinstance(variable, Held) else variable._to_tensor(as_ref=True)
    return arrays.gather(table, rows)


def reached(variable: Variable, other_rows: str) -> str:
    """What happens to rows without a gradient: nothing where rows come and go.

    Args:
        variable: The variable.
        other_rows: What happens to those of other variables, see `RowUpdate`.
    """
    return UNCHANGED if variable._rows_come_and_go else other_rows


def create_slot(
    primary: Any, op_name: str, initial_value: Callable[[], Any], colocate: bool = True
) -> Variable:
    """A variable that belongs to a variable or tensor.

    Its name is `primary/op_name`, in the current variable scope as in TensorFlow.

    Args:
        primary: The variable or tensor it belongs to.
        op_name: Its name below the primary's.
        initial_value: Makes what it starts from.
        colocate: Whether it goes where the primary is.
    """
    graph = primary.graph
    is_of_replica = getattr(primary, "_is_of_replica", False)
    scope = "/".join(filter(None, (get_variable_scope().name, primary.op.name)))
    with (
        graph.as_default(),
        graph.init_scope(),
        graph.name_scope(None),
        graph.name_scope(f"{scope}/"),
        graph.colocate_with(primary if colocate else None, ignore_existing=True),
    ):
        slot = Variable(
            initial_value,
            trainable=False,
            name=op_name,
            validate_shape=primary.shape.is_fully_defined(),
            use_resource=isinstance(primary, Held),
            collections=[GraphKeys.LOCAL_VARIABLES] if is_of_replica else None,
        )
    slot._is_of_replica = is_of_replica
    _keep_slice_info(primary, slot, slot.op.name.removeprefix(f"{scope}/"))
    slot._saved_by = getattr(primary, "_saved_by", None)
    slot._rows_come_and_go = getattr(primary, "_rows_come_and_go", False)
    return slot


def _keep_slice_info(primary: Any, slot: Any, own: str) -> None:
    """The slot of a part of a partitioned variable is saved as a part of the whole slot.

    Its name below the part, such as `Ftrl_1`, tells several slots of one optimizer apart.
    """
    info = getattr(primary, "_save_slice_info", None)
    if info is None:
        return
    slot._set_save_slice_info(
        type(info)(f"{info.full_name}/{own}", info.full_shape, info.var_offset, info.var_shape)
    )
