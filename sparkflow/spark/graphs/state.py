"""Nodes that read and set the state of training, for checkpoints and best values.

They are part of the training graph, because random streams belong to its sessions; no training step
runs them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import sparkflow as tf
from sparkflow.spark.graphs.devices import WORKER_DEVICE
from sparkflow.spark.graphs.growing import (
    TableNodes,
    add_table_nodes,
    growing_tables,
    variables_of_tables,
)
from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.shapes import Shape

SCOPE: Final = "sparkflow_state"


@dataclass(frozen=True, slots=True)
class VariableNodes:
    """Nodes that read and set one variable.

    Attributes:
        name: The variable's name.
        dtype, shape: Dtype and shape of its value; the shape may be partially unknown.
        device: Its device.
        value: Tensor: its value.
        feed: Placeholder for a new value.
        assign: The operation that sets it to the fed value.
        keep: The operation that copies it on its own task.
        give_back: The operation that sets it to that copy.
        kept: Tensor: the copy.
        assign_kept: The operation that sets the copy to the fed value.
    """

    name: str
    dtype: DType
    shape: Shape
    device: str
    value: str
    feed: str
    assign: str
    keep: str
    give_back: str
    kept: str
    assign_kept: str


@dataclass(frozen=True, slots=True)
class StateNodes:
    """The state of a training graph that checkpoints save, and its nodes.

    Attributes:
        shared: The global variables by name: parameters, slots, the global step; without those of
            growing tables.
        tables: The growing tables by name.
        own: The local variables that each worker has separately, such as accumulated gradients.
        random: Tensor, [] string: the positions of the random streams of a worker's session.
        random_feed: Placeholder for such a string.
        set_random: The operation that sets the session's random streams to the fed positions.
    """

    shared: Mapping[str, VariableNodes]
    tables: Mapping[str, TableNodes]
    own: Mapping[str, VariableNodes]
    random: str
    random_feed: str
    set_random: str

    @property
    def names(self) -> tuple[str, ...]:
        """The names of available values: variables, and the ids and rows of tables."""
        tables = self.tables.values()
        return (*self.shared, *(name for each in tables for name in (each.keys, each.rows)))


def add_state_nodes(shared: Sequence[Any], local: Sequence[Any]) -> StateNodes:
    """Adds the nodes to the default graph.

    Args:
        shared: The graph's global variables.
        local: The graph's local variables.
    """
    graph = tf.get_default_graph()
    with graph.name_scope(SCOPE), graph.control_dependencies(None):
        with graph.device(f"{WORKER_DEVICE}/device:CPU:0"):
            random = graph.apply("RandomStates", (), {}, name="random")
            random_feed = tf.placeholder(tf.string, [], name="new_random")
            set_random = graph.add_node("SetRandomStates", (random_feed,), {}, name="set_random")
        growing = growing_tables()
        of_tables = variables_of_tables(growing)
        tables = {each.name: add_table_nodes(each) for each in growing}
        nodes = {each.op.name: _nodes_of(each) for each in shared if each.op.name not in of_tables}
        # Those on a parameter server are shared after all: workers have no values of their own.
        own = {
            each.op.name: _nodes_of(each) for each in local if "/job:ps" not in (each.device or "")
        }
    return StateNodes(nodes, tables, own, random.name, random_feed.name, set_random.name)


def _nodes_of(variable: Any) -> VariableNodes:
    graph = tf.get_default_graph()
    dtype, shape = variable.dtype.base_dtype, variable.shape
    known = shape.ndims is not None and shape.is_fully_defined()
    with graph.colocate_with(variable.op):
        feed = tf.placeholder(dtype, shape, name="new")
        assign = tf.assign(variable, feed, validate_shape=known)
        # Variables whose shape changes, such as sums of sparse gradients, have no static shape.
        attrs = {"dtype": dtype, "shape": shape.as_tuple() if known else None}
        copy = graph.apply("VariableV2", (), attrs, name="copy")
        value = variable.read_value() if hasattr(variable, "read_value") else variable.value()
        keep = tf.assign(copy, value, validate_shape=known)
        kept = tf.identity(copy, name="kept")
        give_back = tf.assign(variable, kept, validate_shape=known)
        assign_kept = tf.assign(copy, feed, validate_shape=known)
    return VariableNodes(
        name=variable.op.name,
        dtype=dtype,
        shape=tuple(shape.as_list()) if shape.ndims is not None else None,
        device=variable.device or "",
        value=value.name,
        feed=feed.name,
        assign=assign.op.name,
        keep=keep.op.name,
        give_back=give_back.op.name,
        kept=kept.name,
        assign_kept=assign_kept.op.name,
    )
