"""Dtypes and static shapes of every tensor of a graph, recomputed from the op registry.

This is also the type checker: a graph that cannot be typed is rejected, naming the node.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.errors import InvalidArgumentError, OpError
from sparkflow_runtime.ir.graph import Graph
from sparkflow_runtime.ir.node import Endpoint, Node
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.op import Inference, Op
from sparkflow_runtime.ops.value import Value
from sparkflow_runtime.shapes import Shape


@dataclass(frozen=True, slots=True)
class TensorType:
    """What is known of a tensor before anything runs."""

    dtype: DType
    shape: Shape


Types = Mapping[Endpoint, TensorType]


def infer_types(graph: Graph, known: Types | None = None) -> dict[Endpoint, TensorType]:
    """Returns the type of every output in `graph`.

    Args:
        graph: Any graph whose op types are registered.
        known: Types that need no recomputing, e.g. from before a pass.

    Raises:
        InvalidArgumentError, NotFoundError: An unregistered op type, inputs of the wrong number,
            dtype or shape, a missing attribute. The message names the node and its source line.
    """
    types: dict[Endpoint, TensorType] = {}
    made: dict[tuple[int, Shape], TensorType] = {}
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
            # Raised by an op's inference for inconsistent attributes.
            raise InvalidArgumentError(message=str(error)).at(node.describe()) from error
        for index, (dtype, shape) in enumerate(outputs):
            # There are few distinct types: sharing objects saves time and memory.
            key = (dtype.number, shape if shape is None else tuple(shape))
            output = made.get(key)
            if output is None:
                output = made[key] = TensorType(dtype, key[1])
            types[Endpoint(node.name, index)] = output
    return types


def check_signatures(graph: Graph) -> None:
    """Checks every node against its op's signature; the graph may have the cycles of loops.

    Raises:
        InvalidArgumentError, NotFoundError: As `infer_types`, except errors of shapes.
    """
    ops: dict[str, Op] = {}
    given: dict[str, Sequence[DType]] = {}
    for node in graph:
        try:
            op = ops[node.name] = _checked(node)
            given[node.name] = op.signature.output_dtypes(node.attrs)
        except OpError as error:
            raise error.at(node.describe()) from None

    def dtype(endpoint: Endpoint) -> DType | None:
        dtypes = given.get(endpoint.node, ())
        return dtypes[endpoint.slot] if 0 <= endpoint.slot < len(dtypes) else None

    for node in graph:
        try:
            _input_dtypes(ops[node.name], node, dtype)
        except OpError as error:
            raise error.at(node.describe()) from None


def _checked(node: Node) -> Op:
    """Returns the node's op after checking the attributes."""
    op = registry.lookup(node.op)
    op.signature.check_attrs(node.attrs)
    return op


def _input_dtypes(op: Op, node: Node, given: Callable[[Endpoint], DType | None]) -> list[DType]:
    """Returns the dtypes of the inputs after checking their number and kinds."""
    expected = op.signature.input_dtypes(node.attrs)
    if len(expected) != len(node.inputs):
        raise InvalidArgumentError(
            message=f"{node.op} takes {len(expected)} inputs, the node has {len(node.inputs)}"
        )
    kinds: list[DType] = []
    for endpoint, dtype in zip(node.inputs, expected, strict=True):
        kind = given(endpoint)
        if kind is None:
            raise InvalidArgumentError(message=f"Input {endpoint} does not exist")
        if kind is not dtype and (
            kind.base is not dtype.base or (dtype.is_ref and not kind.is_ref)
        ):
            raise InvalidArgumentError(
                message=f"Input {endpoint} has type {kind.name}, expected {dtype.name}"
            )
        kinds.append(kind)
    return kinds


def _node_types(
    graph: Graph, node: Node, types: Mapping[Endpoint, TensorType]
) -> list[tuple[DType, Shape]]:
    op = _checked(node)
    kinds = _input_dtypes(
        op, node, lambda endpoint: types[endpoint].dtype if endpoint in types else None
    )
    static = [types[endpoint].shape for endpoint in node.inputs]

    def constant(index: int) -> Value | None:
        source = graph.nodes.get(node.inputs[index].node)
        return Value(source.attrs["value"]) if source and source.op == "Const" else None

    def variable(index: int) -> Shape:
        source = graph.nodes.get(node.inputs[index].node)
        known = source is not None and registry.lookup(source.op).is_variable
        return source.attrs["shape"] if source is not None and known else None

    shapes = op.infer(Inference(static, kinds, node.attrs, constant, variable))
    return list(zip(op.signature.output_dtypes(node.attrs), shapes, strict=True))
