"""How kernels return: one array, several, or a list of one."""

from __future__ import annotations

from typing import Any

from sparkflow_runtime.ops.op import Op


def makes_list(op: Op) -> bool:
    """Whether an op's kernel returns its outputs together, also where there is only one."""
    return len(op.signature.outputs) > 1 or any(arg.is_list for arg in op.signature.outputs)


def only(values: Any) -> Any:
    """The single output of an op whose output is a list of length one."""
    return values[0] if isinstance(values, tuple | list) else values
