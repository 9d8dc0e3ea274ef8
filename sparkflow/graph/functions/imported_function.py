"""Functions that came with an imported graph, as graphs that gradients can be taken of."""

from __future__ import annotations

from collections.abc import Sequence

from sparkflow.graph.functions.function_graph import FunctionGraph
from sparkflow.graph.graph import Graph
from sparkflow.graph.messages.importing import grouped
from sparkflow.graph.operation import Operation
from sparkflow.graph.tensor import Tensor
from sparkflow_runtime.dtypes import resource
from sparkflow_runtime.ir.function_def import import_function
from sparkflow_runtime.ir.node import ARG, RETVAL
from sparkflow_runtime.protos import function_pb2


def function_graph_of(
    proto: function_pb2.FunctionDef, outer: Graph, given: Sequence[Tensor]
) -> FunctionGraph:
    """The body that a message describes, with the names it has there.

    Args:
        proto: The message.
        outer: The graph in whose library it is.
        given: What a call passes for its arguments; handles stay the same in all turns of a loop.

    Raises:
        InvalidArgumentError: A node reads what is not there.
        NotFoundError: An op type is not known.
    """
    function = import_function(proto)
    body = FunctionGraph(function.name, outer)
    made: dict[str, Operation] = {}
    results: dict[int, Tensor] = {}
    with body.as_default(), body.control_dependencies(None):
        for node in function.body.sorted():
            flat = [made[each.node].outputs[each.slot] for each in node.inputs]
            if node.op == RETVAL:
                results[node.attrs["index"]] = flat[0]
                continue
            with body.control_dependencies([made[name] for name in node.control_inputs]):
                inputs = grouped(node.op, flat, node.attrs)
                made[node.name] = body.add_node(node.op, inputs, node.attrs, f"{node.name}/")
            if node.op == ARG:
                argument, passed = made[node.name].outputs[0], given[node.attrs["index"]]
                if passed.dtype.base is resource:
                    body.handles[argument] = passed
    body.inputs = [made[node.name].outputs[0] for node in function.args]
    body.outputs = [results[index] for index in sorted(results)]
    return body
