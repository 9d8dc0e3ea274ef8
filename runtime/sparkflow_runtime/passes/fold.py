"""Computes at once what depends on constants only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from sparkflow_runtime import dtypes
from sparkflow_runtime.ir.graph import Graph, predecessors
from sparkflow_runtime.ir.node import Endpoint, Node
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.bfloat16 import bind_kernel
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.resources.container import Resources

MAX_FOLDED_BYTES: Final = 10 << 20
"""A folded constant may not be larger: it would be shipped with the graph (TensorFlow's limit)."""


def fold(graph: Graph) -> Graph:
    """The graph with pure nodes of constant inputs replaced by their values.

    A node that fails when folded is left alone: it fails when it runs, with its place in the text.
    So is one that reads a constant with control inputs: whoever waits for the node waits for them.
    Constants that nobody reads any more are dropped.
    """
    context = KernelContext(np, "CPU", "constant folding", Resources(), Resources())
    constants: dict[str, tuple[Any, ...]] = {}
    folded: list[Node] = []
    for node in graph.sorted():
        if node.op == "Const":
            if not node.control_inputs:
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
    return _without(graph, folded, constants)


def _without(graph: Graph, folded: list[Node], constants: Mapping[str, object]) -> Graph:
    """`folded` without constants that were read before and are not any more."""
    once = {name for node in graph for name in predecessors(node)}
    while True:
        still = {name for node in folded for name in predecessors(node)}
        kept = [n for n in folded if n.name in still or n.name not in once & constants.keys()]
        if len(kept) == len(folded):
            return Graph(kept)
        folded = kept


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
            result = bind_kernel(op, node, context)(*inputs)
        values = tuple(result) if isinstance(result, tuple | list) else (result,)
        arrays = tuple(
            np.asarray(value, dtype.as_numpy_dtype)
            for value, dtype in zip(values, outputs, strict=True)
        )
    except Exception:  # whatever it is, the node raises it again when it runs
        return None
    return arrays if sum(array.nbytes for array in arrays) <= MAX_FOLDED_BYTES else None


def _value(constants: Mapping[str, tuple[Any, ...]], endpoint: Endpoint) -> Any:
    return constants[endpoint.node][endpoint.slot]


def _constant(node: Node, array: np.ndarray[Any, Any]) -> Node:
    attrs = {name: item for name, item in node.attrs.items() if name.startswith("_")}
    attrs |= {"value": array, "dtype": dtypes.as_dtype(array.dtype)}
    return Node(node.name, "Const", (), (), node.device, attrs)
