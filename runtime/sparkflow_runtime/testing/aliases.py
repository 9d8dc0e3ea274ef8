"""Checks for every op that a test runs that its outputs share only the memory it declares."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from sparkflow_runtime.ops.op import NodeView, Op
from sparkflow_runtime.resources.variable import Variable


def check_aliases(op: Op, node: NodeView, inputs: Sequence[Any], outputs: Any) -> None:
    """Checks that outputs share memory only with the inputs that `Op.shared` names.

    Args:
        op: The op.
        node: Its node.
        inputs: The kernel's inputs except the step; variables for references and handles.
        outputs: The kernel's outputs.

    Raises:
        AssertionError: Others share memory; the text says which.
    """
    if not op.signature.inputs or not op.signature.outputs:
        return  # `_Arg` and `_Retval` stand for the step's ends
    made = list(_arrays(outputs))
    allowed = list(_arrays(tuple(op.shared(node, inputs))))
    for number, given in enumerate(inputs):
        held = given.array if isinstance(given, Variable) else given
        if not isinstance(held, np.ndarray) or any(_share(held, each) for each in allowed):
            continue  # the same array may be given twice
        assert not any(_share(held, each) for each in made), (
            f"An output of {op.op_type} shares memory with input {number}; `aliases` must name it"
        )


def _arrays(outputs: Any) -> Iterator[np.ndarray[Any, Any]]:
    for each in outputs if isinstance(outputs, tuple | list) else (outputs,):
        if isinstance(each, np.ndarray):
            yield each


def _share(one: np.ndarray[Any, Any], other: np.ndarray[Any, Any]) -> bool:
    if not one.size or not other.size or not np.may_share_memory(one, other):
        return False
    try:
        return np.shares_memory(one, other, max_work=10_000)  # type: ignore[arg-type]  # any number
    except np.exceptions.TooHardError:
        return True
