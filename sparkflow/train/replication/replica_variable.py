"""Variables that a replica has for itself: sums of gradients, counters, copies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sparkflow.graph.collections import GraphKeys
from sparkflow.graph.scopes import get_default_graph
from sparkflow.ops.control.ordering import no_op
from sparkflow.variables.variable import Variable


def replica_variable(
    initial_value: Callable[[], Any],
    name: str,
    *,
    trainable: bool = False,
    is_sized: bool = True,
    dtype: Any = None,
) -> Variable:
    """A local variable beside the replica's own computation, whatever places others on a ps.

    It is made outside every function and control dependency: its initialiser waits for no step.

    Args:
        initial_value: Makes the first value, which may be read elsewhere; called out there.
        name: The variable's name.
        trainable: Whether it is listed among the trainable variables.
        is_sized: Whether it keeps the shape of its first value.
        dtype: Of the variable; that of the first value when None.
    """
    collections = [GraphKeys.LOCAL_VARIABLES]
    if trainable:
        collections.append(GraphKeys.TRAINABLE_VARIABLES)
    with get_default_graph().init_scope():
        graph = get_default_graph()
        first = initial_value()
        with graph.colocate_with(no_op(name="here")):
            made = Variable(
                first,
                trainable=False,
                collections=collections,
                validate_shape=is_sized,
                name=name,
                dtype=dtype,
            )
    made._is_of_replica = True
    return made
