"""Control flow of TensorFlow's first releases becomes functional: `If` and `While` with functions.

There `tf.cond` was `Switch` and `Merge`, `tf.while_loop` these with `Enter`, `Exit`,
`NextIteration` and `LoopCond`, and an executor went along with whatever was alive. Here a step is
straight lines, so what runs together becomes a function (ADR 0006).
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
    """The graph without `Switch` and its like, and the functions its new nodes call.

    Args:
        graph: Pruned; may have the cycles of loops.
        prefix: What the names of the functions begin with.

    Raises:
        InvalidArgumentError, NotFoundError: A node does not fit its op's signature; what is fetched
            does not leave its loop.
        UnimplementedError: Something is not put together as TensorFlow does; the text names nodes.
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
