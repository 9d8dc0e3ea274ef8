"""The counter of training steps, one per graph."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from sparkflow._api import export
from sparkflow.graph.collections import GraphKeys
from sparkflow.graph.graph import Graph
from sparkflow.graph.scopes import get_default_graph
from sparkflow.variables.initializers import Zeros
from sparkflow.variables.variable import Variable
from sparkflow.variables.variable_scope import get_variable
from sparkflow_runtime.dtypes import int64

_READ: Final = "global_step_read_op_cache"


@export("train.get_global_step")
def get_global_step(graph: Graph | None = None) -> Any:
    """The graph's step counter, None when it has none.

    Raises:
        TypeError: What is registered as the counter is not a scalar integer.
        RuntimeError: More than one is registered.
    """
    graph = graph or get_default_graph()
    found = graph.get_collection(GraphKeys.GLOBAL_STEP)
    if len(found) > 1:
        raise RuntimeError(f"Multiple items found in collection GLOBAL_STEP: {found}")
    if not found:
        try:
            found = [graph.get_tensor_by_name("global_step:0")]
        except KeyError:
            return None
    assert_global_step(found[0])
    return found[0]


@export("train.create_global_step")
def create_global_step(graph: Graph | None = None) -> Any:
    """Creates the graph's step counter: a variable `global_step`, int64, 0, not trainable.

    Raises:
        ValueError: It has one.
    """
    graph = graph or get_default_graph()
    if get_global_step(graph) is not None:
        raise ValueError('"global_step" already exists.')
    with graph.as_default(), graph.name_scope(None):
        return get_variable(
            GraphKeys.GLOBAL_STEP,
            shape=[],
            dtype=int64,
            initializer=Zeros(),
            trainable=False,
            collections=[GraphKeys.GLOBAL_VARIABLES, GraphKeys.GLOBAL_STEP],
        )


@export("train.get_or_create_global_step")
def get_or_create_global_step(graph: Graph | None = None) -> Any:
    """The graph's step counter, made when there is none."""
    graph = graph or get_default_graph()
    found = get_global_step(graph)
    return create_global_step(graph) if found is None else found


@export("train.global_step")
def global_step(sess: Any, global_step_tensor: Any) -> int:
    """The step counter's value now, read by a session.

    Args:
        sess: The session.
        global_step_tensor: The counter: a tensor or variable.
    """
    # Some programs count in a vector of one element.
    return int(np.asarray(sess.run(global_step_tensor)).item())


def read_of_global_step(graph: Graph | None = None) -> Any:
    """A tensor that reads the step counter afresh in every run, one per graph; None without one.

    It can be fetched beside the train op and before the counter is initialised. It is computed
    where the counter is: hooks fetch it in every step, which would need it sent to the worker.
    """
    graph = graph or get_default_graph()
    counter = get_global_step(graph)
    if counter is None:
        return None
    made = graph.get_collection_ref(_READ)
    if not made:
        with graph.as_default(), graph.name_scope(None), graph.name_scope(f"{counter.op.name}/"):
            value = counter.initialized_value() if isinstance(counter, Variable) else counter
            with graph.colocate_with(counter.op):
                made.append(value + 0)
    return made[0]


@export("train.assert_global_step")
def assert_global_step(tensor: Any) -> None:
    """Passes when `tensor` is a scalar integer.

    Raises:
        TypeError: It is not.
    """
    if not tensor.dtype.is_integer:
        raise TypeError(f'Existing "global_step" does not have integer type: {tensor.dtype.name}')
    if tensor.shape.ndims not in (0, None):
        raise TypeError(f'Existing "global_step" is not scalar: {tensor.shape}')
