"""`tf.train.export_meta_graph`: graphs with their collections in files, and such files read."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from google.protobuf import text_format
from google.protobuf.message import DecodeError

from sparkflow._api import export
from sparkflow.graph.graph import Graph
from sparkflow.graph.messages.meta_graph import make_meta_graph
from sparkflow.graph.scopes import get_default_graph
from sparkflow_runtime.checkpoint.sealed_message import open_message, seal_message, seal_text
from sparkflow_runtime.errors import DataLossError
from sparkflow_runtime.files import system
from sparkflow_runtime.files.whole import write_whole
from sparkflow_runtime.protos.graph_pb2 import GraphDef
from sparkflow_runtime.protos.meta_graph_pb2 import MetaGraphDef
from sparkflow_runtime.protos.saver_pb2 import SaverDef


@export("train.export_meta_graph")
def export_meta_graph(
    filename: str | os.PathLike[str] | None = None,
    meta_info_def: MetaGraphDef.MetaInfoDef | None = None,
    graph_def: GraphDef | None = None,
    saver_def: SaverDef | None = None,
    collection_list: Sequence[str] | None = None,
    as_text: bool = False,
    graph: Graph | None = None,
    export_scope: str | None = None,
    clear_devices: bool = False,
    clear_extraneous_savers: bool = False,
    strip_default_attrs: bool = False,
    save_debug_info: bool = False,
    **kwargs: Any,
) -> MetaGraphDef:
    """A graph with its collections as a message, also written to a file.

    Args:
        filename: Where to write it; nowhere when None.
        meta_info_def: What else to say of the graph, such as tags.
        graph_def: Its nodes; all when None.
        saver_def: The saver that belongs to it.
        collection_list: The collections to write; all when None.
        as_text: Write the file as text.
        graph: The graph; the default one when None.
        export_scope: Only the nodes of this name scope, whose name they lose.
        clear_devices: Leave devices out.
        clear_extraneous_savers: Leave savers out of the collections, but for this one.
        strip_default_attrs: Leave attributes out that have their default values.
        save_debug_info: Accepted for TensorFlow's sake; nodes carry the lines that made them.
        **kwargs: `unbound_inputs_col_name`: the collection of what a scope reads from outside.

    Raises:
        OpError: The file cannot be written; what was there before is as it was.
    """
    message = make_meta_graph(
        get_default_graph() if graph is None else graph,
        graph_def=graph_def,
        meta_info_def=meta_info_def,
        saver_def=saver_def,
        collection_list=collection_list,
        export_scope=export_scope,
        clear_devices=clear_devices,
        clear_extraneous_savers=clear_extraneous_savers,
        strip_default_attrs=strip_default_attrs,
        **kwargs,
    )
    if filename is not None:
        content = (
            seal_text(text_format.MessageToString(message).encode())
            if as_text
            else seal_message(message.SerializeToString(deterministic=True))
        )
        write_whole(filename, content)
    return message


def read_meta_graph_file(filename: str | os.PathLike[str]) -> MetaGraphDef:
    """The graph in a file, binary or text.

    Raises:
        OSError: There is no such file, or it is of something else.
        DataLossError: It is empty, or was changed or cut after it had been written.
    """
    if not system.exists(filename) or system.is_directory(filename):
        raise OSError(f"File does not exist. Received: {os.fspath(filename)}.")
    content = open_message(system.read_file(filename), os.fspath(filename)).content
    message = MetaGraphDef()
    try:
        message.ParseFromString(content)
    except DecodeError:
        try:
            text_format.Merge(content.decode("utf-8"), message)
        except (text_format.ParseError, UnicodeDecodeError) as error:
            raise OSError(f"Cannot parse file {os.fspath(filename)}: {error}.") from error
    if not message.ByteSize():
        raise DataLossError(message=f"{os.fspath(filename)} is damaged: it holds nothing")
    return message
