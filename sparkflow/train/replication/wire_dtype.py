"""`set_wire_dtype`: variables that travel between tasks in fewer bits than they have."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sparkflow._api import export
from sparkflow.graph.operators import Symbolic
from sparkflow.variables.partitioned import PartitionedVariable
from sparkflow_runtime.dtypes import as_dtype
from sparkflow_runtime.ops import registry
from sparkflow_runtime.passes.partitioning.wire_dtypes import NARROWED, WIRE_ATTR, WIRE_DTYPES


@export("train.set_wire_dtype")
def set_wire_dtype(variables: Any, dtype: Any) -> None:
    """Lets values and gradients of variables travel between tasks as 16-bit floats.

    They are cast before they leave a task, and back when they arrive, so that the variable itself,
    its slots and its checkpoints keep their dtype. Nothing changes where a variable is used on its
    own task. Call it before the first run of a session with the graph.

    Args:
        variables: A variable of float32 or float64, a partitioned one, or several in a list.
        dtype: `tf.bfloat16`, which has the range of float32 and 3 decimal digits; `tf.float16`, 4
            digits between 6e-8 and 65504; None to let them travel as they are.

    Raises:
        ValueError: Variables cannot travel in this dtype, or these cannot.
        TypeError: One of them is no variable.
    """
    wire = None if dtype is None else as_dtype(dtype)
    if wire is not None and wire not in WIRE_DTYPES:
        names = ", ".join(sorted(each.name for each in WIRE_DTYPES))
        raise ValueError(f"Variables may travel as one of {names}, got {wire.name}")
    for variable in _each(variables):
        op = variable._to_tensor(as_ref=True).op
        if not registry.find(op.type).is_variable:
            raise TypeError(f"Only variables have a dtype on the wire, got {variable!r}")
        own = op.attr("dtype")
        if own not in NARROWED:
            raise ValueError(
                f"Variable {op.name!r} is {own.name}; only float32 and float64 can travel as "
                "16-bit floats"
            )
        if wire is None:
            op._attrs.pop(WIRE_ATTR, None)
        else:
            op._set_attr(WIRE_ATTR, wire)


def _each(variables: Any) -> Iterable[Any]:
    if isinstance(variables, PartitionedVariable):
        return list(variables)
    if isinstance(variables, Symbolic):
        return [variables]
    if not isinstance(variables, list | tuple | set | frozenset):
        raise TypeError(f"Not a variable or a list of variables: {variables!r}")
    return [one for each in variables for one in _each(each)]
