"""What TensorFlow would not understand of a graph."""

from __future__ import annotations

from collections.abc import Iterator

from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.op import PYTHON
from sparkflow_runtime.protos.graph_pb2 import GraphDef
from sparkflow_runtime.protos.node_def_pb2 import NodeDef


def nodes_unknown_to_tensorflow(graph_def: GraphDef) -> Iterator[NodeDef]:
    """Yields the nodes, also of functions, whose ops TensorFlow lacks or that call Python here."""
    own = {each.signature.name for each in graph_def.library.function}
    functions = [node for each in graph_def.library.function for node in each.node_def]
    for node in (*graph_def.node, *functions):
        if node.op not in own and not _is_tensorflows(node.op):
            yield node


def _is_tensorflows(op_type: str) -> bool:
    if op_type.startswith("_") or not registry.contains(op_type):
        return False
    op = registry.lookup(op_type)
    return not op.is_ours and op.reaches is not None and PYTHON not in op.reaches
