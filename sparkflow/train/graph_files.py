"""Graphs in files: `write_graph`, and the meta graph that goes with events."""

from __future__ import annotations

import os
from typing import Any

from google.protobuf import text_format

from sparkflow._api import export
from sparkflow.graph.graph import Graph
from sparkflow.train.checkpoints.meta_graph import export_meta_graph
from sparkflow_runtime.files import system
from sparkflow_runtime.files.whole import write_whole
from sparkflow_runtime.protos.meta_graph_pb2 import MetaGraphDef


@export("train.write_graph", "io.write_graph")
def write_graph(graph_or_graph_def: Any, logdir: Any, name: str, as_text: bool = True) -> str:
    """Writes a graph into a file; readers see the whole file or none.

    Args:
        graph_or_graph_def: The graph, or its message.
        logdir: The directory, made when there is none.
        name: The file's name.
        as_text: Write protobuf's text form rather than bytes.

    Returns:
        The path.
    """
    graph_def = graph_or_graph_def
    if isinstance(graph_or_graph_def, Graph):
        graph_def = graph_or_graph_def.as_graph_def()
    system.make_dirs(logdir)
    path = os.path.join(logdir, name)
    if as_text:
        content = text_format.MessageToString(graph_def).encode()
    else:
        content = graph_def.SerializeToString(deterministic=True)
    write_whole(path, content)
    return path


def meta_graph_of(graph: Graph, saver: Any) -> MetaGraphDef:
    """The meta graph of a graph and its saver, which may be None."""
    return export_meta_graph(
        graph_def=graph.as_graph_def(add_shapes=True),
        saver_def=None if saver is None else saver.saver_def,
        graph=graph,
    )
