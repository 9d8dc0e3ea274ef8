"""Measures the forward and backward time of each operation of a model on the driver.

The operations between a batch and its loss are copied into a separate graph, in which the batch is
fed and variables are replaced by fed numbers of the same shapes: no variable is created and only
devices of this process are used. The time of a gradient counts for the operation that it belongs
to.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

import sparkflow as tf
from sparkflow.graph.messages.importing import import_graph_def
from sparkflow.graph.nodes.reach import ALL
from sparkflow.graph.tensor import Tensor
from sparkflow_runtime import shapes
from sparkflow_runtime.ir import graph_def as messages
from sparkflow_runtime.ir.node import CLASS_ATTR
from sparkflow_runtime.ops import registry
from sparkflow_runtime.protos.config_pb2 import RunMetadata, RunOptions
from sparkflow_runtime.protos.graph_pb2 import GraphDef

_RUNS: Final = 5
"""The number of recorded steps; the fastest time of each operation counts."""

_SHARE_OF_MEMORY: Final = 4
"""Variables are fed if they take less than this fraction of the driver's free memory."""

_GRADIENT: Final = re.compile(r"^gradients/(.+)_grad/")


class NotMeasurableError(Exception):
    """A model cannot be run on the driver; the text says why."""


def variable_behind(tensor: Any) -> Any:
    """Returns the only variable that a tensor depends on, by a read or a cast; otherwise None."""
    op = tensor.op
    while not registry.find(op.type).is_variable:
        if len(op.inputs) != 1:
            return None
        op = op.inputs[0].op
    return op


def variable_bytes(variable: Any) -> float:
    """The size of a variable."""
    return float((shapes.num_elements(variable.attr("shape")) or 0) * variable.attr("dtype").size)


def measured_micros(operations: Sequence[Any], batch: Mapping[str, Any]) -> list[float]:
    """Returns the microseconds per step of each operation together with its gradients.

    Args:
        operations: Those between batch and loss, in topological order.
        batch: The value of each tensor of the batch, by `node:0`.

    Raises:
        NotMeasurableError: They cannot be run here: they need lookup tables, files that are not
            here, growing tables, or variables larger than a quarter of the free memory.
    """
    try:
        return _micros(operations, batch)
    except (tf.errors.OpError, ValueError, TypeError, LookupError, OSError) as error:
        raise NotMeasurableError(str(error).partition("\n")[0]) from error


def _micros(operations: Sequence[Any], batch: Mapping[str, Any]) -> list[float]:
    needed, variables = _needed(operations, batch)
    size = sum({each.name: variable_bytes(each) for each in variables.values()}.values())
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if size > free / _SHARE_OF_MEMORY:
        raise NotMeasurableError(
            f"its variables take {size / 2**20:.0f} MiB, and the driver has {free / 2**20:.0f} free"
        )
    consumed = {tensor.op.name for op in operations for tensor in op.inputs}
    loss = next(op for op in reversed(operations) if op.name not in consumed)
    graph_def = GraphDef()
    for op in needed:
        node = graph_def.node.add()
        node.CopyFrom(messages.export_node(op.to_node()))
        node.attr.pop(CLASS_ATTR, None)
        node.device = ""
    numbers = np.random.default_rng(0).standard_normal(1 << 16) * 0.05
    with tf.Graph().as_default():
        feeds, given = {}, {}
        for name, value in batch.items():
            array = np.asarray(value)
            given[name] = tf.placeholder(array.dtype, [None] * array.ndim)
            feeds[given[name]] = array
        read = []
        for name, variable in variables.items():
            dtype, shape = variable.attr("dtype").base_dtype, tuple(variable.attr("shape"))
            given[name] = tf.placeholder(dtype, shape)
            feeds[given[name]] = np.resize(numbers, shape).astype(dtype.as_numpy_dtype)
            if dtype.is_floating:
                read.append(given[name])
        found = import_graph_def(graph_def, given, [f"{loss.name}:0"], name="", allowed_ops=ALL)
        assert found is not None
        assert isinstance(found[0], Tensor)
        gradients = tf.gradients(found[0], read, name="gradients") if read else []
        made = [each.values if isinstance(each, tf.IndexedSlices) else each for each in gradients]
        fetches = [found[0].op, *(each.op for each in made if each is not None)]
        with tf.Session() as session:
            session.run(fetches, feeds)
            runs = [_recorded(session, fetches, feeds) for _ in range(_RUNS)]
    own = {op.name for op in operations}
    fastest: dict[str, float] = {}
    for name in set().union(*runs):
        back = _GRADIENT.match(name)
        owner = name if name in own else back.group(1) if back else ""
        if owner in own:
            took = min(each.get(name, 0.0) for each in runs)
            fastest[owner] = fastest.get(owner, 0.0) + took
    return [fastest.get(op.name, 0.0) for op in operations]


def _recorded(session: Any, fetches: Any, feeds: Any) -> dict[str, float]:
    recorded = RunMetadata()
    options = RunOptions(trace_level=RunOptions.FULL_TRACE)
    session.run(fetches, feeds, options, recorded)
    took: dict[str, float] = {}
    for device in recorded.step_stats.dev_stats:
        for each in device.node_stats:
            took[each.node_name] = took.get(each.node_name, 0.0) + each.op_end_rel_micros
    return took


def _needed(
    operations: Sequence[Any], batch: Mapping[str, Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Returns the operations to copy, and for each tensor to feed the variable it is read from."""
    variables: dict[str, Any] = {}
    found: dict[str, Any] = {}
    own = {op.name for op in operations}
    todo = list(operations)
    while todo:
        op = todo.pop()
        if op.name in found:
            continue
        if registry.find(op.type).is_variable:
            raise NotMeasurableError(f"{op.name} is a variable that is not only read")
        found[op.name] = op
        for tensor in op.inputs:
            if tensor.name in batch or tensor.op.name in own:
                continue
            variable = variable_behind(tensor)
            if variable is None:
                todo.append(tensor.op)
            elif None in tuple(variable.attr("shape") or (None,)) and variable.attr("shape") != ():
                raise NotMeasurableError(f"the shape of {variable.name} is not known")
            else:
                variables[tensor.name] = variable
        todo += op.control_inputs
    graph = operations[0].graph
    return [op for op in graph.get_operations() if op.name in found], variables
