"""Converts TensorFlow's V1 control flow to functional `If` and `While`.

There `tf.cond` was `Switch` and `Merge`, `tf.while_loop` these with `Enter`, `Exit`,
`NextIteration` and `LoopCond`, and the executor ran whatever was alive. Here a step is
straight-line code, so nodes that run together become a function (ADR 0006).
"""

from __future__ import annotations

from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ir.function import Function
from sparkflow_runtime.ir.graph import Graph
from sparkflow_runtime.ir.node import RETVAL
from sparkflow_runtime.ir.types import check_signatures
from sparkflow_runtime.passes.raising.outline import Outline
from sparkflow_runtime.passes.raising.raise_loops import FRAME_OPS, frames_of, raise_level


def raise_control_flow(graph: Graph, prefix: str = "_raised") -> tuple[Graph, dict[str, Function]]:
    """Returns the graph without V1 control flow, and the functions that its new nodes call.

    Args:
        graph: Pruned; may have the cycles of loops.
        prefix: The prefix of the functions' names.

    Raises:
        InvalidArgumentError, NotFoundError: A node does not match its op's signature; a fetch is
            inside a loop.
        UnimplementedError: The structure is not one that TensorFlow builds; the text names nodes.
    """
    if not any(node.op in FRAME_OPS for node in graph):
        return graph, {}
    check_signatures(graph)
    outline = Outline(graph, prefix)
    frames = frames_of(graph.nodes)
    raised = raise_level(list(graph), 0, frames, outline)
    for node in graph:
        if node.op == RETVAL and frames[node.name]:
            loop = "/".join(frames[node.name])
            raise InvalidArgumentError(
                message=f"{node.inputs[0]} is a tensor of an iteration of the loop {loop!r}: fetch "
                "what leaves the loop"
            ).at(node.describe())
    return Graph(raised), outline.functions
