"""`tf.train.import_meta_graph`: a graph from a file, with the saver that came with it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from sparkflow._api import export
from sparkflow.graph.messages.meta_graph import restore_meta_graph, scope_of_import
from sparkflow.graph.scopes import get_default_graph
from sparkflow.train.checkpoints.meta_graph import read_meta_graph_file
from sparkflow.train.checkpoints.saver import Saver, all_saveable_objects
from sparkflow_runtime.protos.meta_graph_pb2 import MetaGraphDef


@export("train.import_meta_graph")
def import_meta_graph(
    meta_graph_or_file: MetaGraphDef | str | os.PathLike[str],
    clear_devices: bool = False,
    import_scope: str | None = None,
    **kwargs: Any,
) -> Saver | None:
    """Adds a graph from a file or message to the default graph.

    Args:
        meta_graph_or_file: The message, or the path of a `.meta` file.
        clear_devices: Forget the devices of the nodes.
        import_scope: A name scope to put the nodes in.
        **kwargs: `input_map`: tensors to use instead of nodes of the message, by name;
            `return_elements`, `unbound_inputs_col_name`, `restore_collections_predicate`;
            `allowed_ops`, see `tf.import_graph_def`: a graph that another process wrote may
            not read its input files, for instance, unless the program says so.

    Returns:
        The saver that came with the graph, or a new one for its variables; None where there are no
        variables.

    Raises:
        OSError: There is no such file, or it is no graph.
        PermissionDeniedError: It has ops that would have to be allowed.
    """
    return import_meta_graph_with_return_elements(
        meta_graph_or_file, clear_devices, import_scope, **kwargs
    )[0]


def import_meta_graph_with_return_elements(
    meta_graph_or_file: MetaGraphDef | str | os.PathLike[str],
    clear_devices: bool = False,
    import_scope: str | None = None,
    return_elements: Sequence[str] | None = None,
    input_map: Mapping[str, Any] | None = None,
    **kwargs: Any,
) -> tuple[Saver | None, Any]:
    """`import_meta_graph`, returning the requested tensors and operations with the saver."""
    message = (
        meta_graph_or_file
        if isinstance(meta_graph_or_file, MetaGraphDef)
        else read_meta_graph_file(meta_graph_or_file)
    )
    graph = get_default_graph()
    scope = scope_of_import(graph, import_scope) or None
    _, returned = restore_meta_graph(
        message,
        graph,
        clear_devices=clear_devices,
        import_scope=import_scope,
        input_map=input_map,
        return_elements=return_elements,
        origin=_origin(meta_graph_or_file),
        **kwargs,
    )
    if message.HasField("saver_def"):
        return Saver(saver_def=message.saver_def, name=scope), returned
    if all_saveable_objects(scope=scope):
        return Saver(), returned
    return None, returned


def _origin(given: MetaGraphDef | str | os.PathLike[str]) -> str:
    return "The meta graph" if isinstance(given, MetaGraphDef) else f"The graph {os.fspath(given)}"
