"""Dtypes and static shapes of every tensor of a graph, recomputed from the op registry.

This is the checker too: a graph that cannot be typed is refused with the node named.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.errors import InvalidArgumentError, OpError
from sparkflow_runtime.ir.graph import Graph
from sparkflow_runtime.ir.node import Endpoint, Node
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.op import Inference
from sparkflow_runtime.shapes import Shape


@dataclass(frozen=True, slots=True)
class TensorType:
    """What is known of a tensor before anything runs."""

    dtype: DType
    shape: Shape


Types = Mapping[Endpoint, TensorType]


def infer_types(graph: Graph, known: Types | None = None) -> dict[Endpoint, TensorType]:
    """The type of every output in `graph`.

    Args:
        graph: Any graph whose op types are registered.
        known: Types that need no recomputing, e.g. from before a pass.

    Raises:
        InvalidArgumentError, NotFoundError: An unregistered op type, inputs whose number, dtype or
            shape do not fit, a missing attribute. The text names the node and its source line.
    """
    types: dict[Endpoint, TensorType] = {}
    for node in graph.sorted():
        if known is not None and Endpoint(node.name, 0) in known:
            index = 0
            while (endpoint := Endpoint(node.name, index)) in known:
                types[endpoint] = known[endpoint]
                index += 1
            continue
        try:
            outputs = _node_types(graph, node, types)
        except OpError as error:
            raise error.at(node.describe()) from None
        except (TypeError, ValueError, IndexError, ArithmeticError) as error:
            # What an op's inference says of attributes that make no sense together.
            raise InvalidArgumentError(message=str(error)).at(node.describe()) from error
        for index, output in enumerate(outputs):
            types[Endpoint(node.name, index)] = output
    return types


def _node_types(graph: Graph, node: Node, types: Mapping[Endpoint, TensorType]) -> list[TensorType]:
    op = registry.lookup(node.op)
    op.signature.check_attrs(node.attrs)
    expected = op.signature.input_dtypes(node.attrs)
    if len(expected) != len(node.inputs):
        raise InvalidArgumentError(
            message=f"{node.op} takes {len(expected)} inputs, the node has {len(node.inputs)}"
        )
    given: list[TensorType] = []
    for endpoint, dtype in zip(node.inputs, expected, strict=True):
        found = types.get(endpoint)
        if found is None:
            raise InvalidArgumentError(message=f"Input {endpoint} does not exist")
        if found.dtype.base is not dtype.base or (dtype.is_ref and not found.dtype.is_ref):
            raise InvalidArgumentError(
                message=f"Input {endpoint} has type {found.dtype.name}, expected {dtype.name}"
            )
        given.append(found)

    def constant(index: int) -> np.ndarray[Any, Any] | None:
        source = graph.nodes.get(node.inputs[index].node)
        return source.attrs["value"] if source is not None and source.op == "Const" else None

    def variable(index: int) -> Shape:
        source = graph.nodes.get(node.inputs[index].node)
        return source.attrs["shape"] if source is not None and source.op == "VarHandleOp" else None

    static, kinds = [each.shape for each in given], [each.dtype for each in given]
    shapes = op.infer(Inference(static, kinds, node.attrs, constant, variable))
    out = op.signature.output_dtypes(node.attrs)
    return [TensorType(dtype, shape) for dtype, shape in zip(out, shapes, strict=True)]
