"""Nodes that change variables: assign and scatter."""

from __future__ import annotations

from typing import Any

from sparkflow.graph.scopes import apply_op
from sparkflow.graph.tensor import Tensor


def assign(
    ref: Any,
    value: Any,
    validate_shape: bool = True,
    use_locking: bool = True,
    name: str | None = None,
) -> Tensor:
    """Gives a variable a new value.

    Args:
        ref: A variable.
        value: A tensor of its dtype, and of its shape unless `validate_shape` is off.
        validate_shape: Refuse another shape.
        use_locking: Keep other updates out meanwhile.
        name: Name of the node.

    Returns:
        The variable, to be read after the assignment.
    """
    result: Tensor = apply_op(
        "Assign", ref, value, validate_shape=validate_shape, use_locking=use_locking, name=name
    )
    return result


def assign_add(ref: Any, value: Any, use_locking: bool = False, name: str | None = None) -> Tensor:
    """Adds to a variable. Returns the variable, to be read after."""
    result: Tensor = apply_op("AssignAdd", ref, value, use_locking=use_locking, name=name)
    return result


def assign_sub(ref: Any, value: Any, use_locking: bool = False, name: str | None = None) -> Tensor:
    """Subtracts from a variable. Returns the variable, to be read after."""
    result: Tensor = apply_op("AssignSub", ref, value, use_locking=use_locking, name=name)
    return result


def _scatter(
    op_type: str, ref: Any, indices: Any, updates: Any, use_locking: bool, name: str | None
) -> Tensor:
    result: Tensor = apply_op(op_type, ref, indices, updates, use_locking=use_locking, name=name)
    return result


def scatter_update(
    ref: Any, indices: Any, updates: Any, use_locking: bool = True, name: str | None = None
) -> Tensor:
    """Replaces rows of a variable: `ref[indices] = updates`."""
    return _scatter("ScatterUpdate", ref, indices, updates, use_locking, name)


def scatter_add(
    ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None
) -> Tensor:
    """Adds to rows of a variable; repeated indices add up."""
    return _scatter("ScatterAdd", ref, indices, updates, use_locking, name)


def scatter_sub(
    ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None
) -> Tensor:
    """Subtracts from rows of a variable; repeated indices add up."""
    return _scatter("ScatterSub", ref, indices, updates, use_locking, name)


def scatter_mul(
    ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None
) -> Tensor:
    """Multiplies rows of a variable."""
    return _scatter("ScatterMul", ref, indices, updates, use_locking, name)


def scatter_div(
    ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None
) -> Tensor:
    """Divides rows of a variable."""
    return _scatter("ScatterDiv", ref, indices, updates, use_locking, name)


def count_up_to(ref: Any, limit: int, name: str | None = None) -> Tensor:
    """Adds 1 to an integer variable and gives the value before; OutOfRangeError at `limit`."""
    result: Tensor = apply_op("CountUpTo", ref, limit=limit, name=name)
    return result


def is_variable_initialized(ref: Any, name: str | None = None) -> Tensor:
    """Whether the variable has a value: a bool."""
    result: Tensor = apply_op("IsVariableInitialized", ref, name=name)
    return result
