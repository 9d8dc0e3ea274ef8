"""Computes at once what depends on constants only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from sparkflow_runtime import dtypes
from sparkflow_runtime.errors import OpError
from sparkflow_runtime.ir.graph import Graph
from sparkflow_runtime.ir.node import Endpoint, Node
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.resources.container import Resources

MAX_FOLDED_BYTES: Final = 10 << 20
"""A folded constant may not be larger: it would be shipped with the graph (TensorFlow's limit)."""


def fold(graph: Graph) -> Graph:
    """The graph with pure nodes of constant inputs replaced by their values.

    A node that fails when folded is left alone: it fails when it runs, with its place in the text.
    """
    context = KernelContext(np, "CPU", "constant folding", Resources(), Resources())
    constants: dict[str, tuple[Any, ...]] = {}
    folded: list[Node] = []
    for node in graph.sorted():
        if node.op == "Const":
            constants[node.name] = (node.attrs["value"],)
            folded.append(node)
            continue
        values = _compute(node, constants, context)
        if values is None:
            folded.append(node)
            continue
        constants[node.name] = values
        if len(values) == 1:
            folded.append(_constant(node, values[0]))
        else:
            # Several outputs cannot be one Const; users that fold still find the values.
            folded.append(node)
    return Graph(folded)


def _compute(
    node: Node, constants: Mapping[str, tuple[Any, ...]], context: KernelContext
) -> tuple[Any, ...] | None:
    if not node.inputs or node.control_inputs or not registry.contains(node.op):
        return None
    if any(endpoint.node not in constants for endpoint in node.inputs):
        return None
    op = registry.lookup(node.op)
    if op.stateful or op.takes_step or not registry.has_kernel(op, "CPU", node.attrs):
        return None
    outputs = op.signature.output_dtypes(node.attrs)
    if not outputs or any(dtype not in dtypes.PLAIN for dtype in outputs):
        return None
    inputs = [_value(constants, endpoint) for endpoint in node.inputs]
    try:
        with np.errstate(all="ignore"):
            result = op.bind(node, context)(*inputs)
    except (OpError, ValueError, TypeError, IndexError, ArithmeticError):
        return None
    values = tuple(result) if isinstance(result, tuple | list) else (result,)
    if sum(np.asarray(value).nbytes for value in values) > MAX_FOLDED_BYTES:
        return None
    return values


def _value(constants: Mapping[str, tuple[Any, ...]], endpoint: Endpoint) -> Any:
    return constants[endpoint.node][endpoint.slot]


def _constant(node: Node, value: Any) -> Node:
    array = np.asarray(value)
    attrs = {name: item for name, item in node.attrs.items() if name.startswith("_")}
    attrs |= {"value": array, "dtype": dtypes.as_dtype(array.dtype)}
    return Node(node.name, "Const", (), (), node.device, attrs)
