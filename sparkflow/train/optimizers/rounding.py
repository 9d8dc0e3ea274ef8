"""`set_rounding`: how updates of variables that are stored as bfloat16 are rounded."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from sparkflow._api import export
from sparkflow.graph.operators import Symbolic
from sparkflow.graph.scopes import apply_op
from sparkflow.graph.tensor import Tensor
from sparkflow.ops.random.random import op_seeds
from sparkflow.ops.shape import constants
from sparkflow.ops.state import state
from sparkflow.variables.partitioned import PartitionedVariable
from sparkflow_runtime.dtypes import bfloat16
from sparkflow_runtime.ops import registry

NARROW: Final = "Narrow"
"""What the ops that update such variables begin with, see `ops/optimizers/narrow_update.py`."""
ROUNDINGS: Final = ("stochastic", "nearest")
_ATTR: Final = "_rounding"


@export("train.set_rounding")
def set_rounding(variables: Any, rounding: str) -> None:
    """Sets how optimizers round the values that they store in variables of bfloat16.

    They compute in float32, with slots of float32, and round once, when the new value is stored.
    Call it before the train op is made.

    Args:
        variables: A variable of bfloat16, a partitioned one, or several in a list.
        rounding: "stochastic", which is what they do unless told otherwise: up or down by chance,
            so that steps smaller than the last place count on average; `tf.set_random_seed` makes
            it reproducible. Or "nearest", ties to even, which loses such steps.

    Raises:
        ValueError: There is no such rounding, or a variable is not stored as bfloat16.
        TypeError: One of them is no variable.
    """
    if rounding not in ROUNDINGS:
        raise ValueError(f"rounding must be one of {', '.join(ROUNDINGS)}, got {rounding!r}")
    for variable in _each(variables):
        op = variable._to_tensor(as_ref=True).op if isinstance(variable, Symbolic) else None
        if op is None or not registry.find(op.type).is_variable:
            raise TypeError(f"Only variables are rounded, got {variable!r}")
        if op.attr("dtype") is not bfloat16:
            raise ValueError(
                f"Variable {op.name!r} is {op.attr('dtype').name}; only bfloat16 is rounded"
            )
        op._set_attr(_ATTR, rounding)


def rounding_attrs(variable: Any) -> dict[str, Any]:
    """The attributes of an op that updates a variable of bfloat16."""
    op = variable._to_tensor(as_ref=True).op
    seed, seed2 = op_seeds(None)
    rounding = op._attrs.get(_ATTR, ROUNDINGS[0])
    return {"rounding": rounding, "seed": seed, "seed2": seed2}


def subtracted(variable: Any, change: Tensor, name: str | None = None) -> Tensor:
    """`variable -= change`, rounded as optimizers do where the variable is stored as bfloat16."""
    if change.dtype is variable.dtype.base:
        return state.assign_sub(variable, change, name=name)
    one, attrs = constants.constant(1.0), rounding_attrs(variable)
    updated: Tensor = apply_op(
        f"{NARROW}ApplyGradientDescent", variable, one, change, name=name, **attrs
    )
    return updated


def _each(variables: Any) -> Iterable[Any]:
    if isinstance(variables, PartitionedVariable):
        return list(variables)
    if not isinstance(variables, list | tuple | set | frozenset):
        return [variables]
    return [one for each in variables for one in _each(each)]
