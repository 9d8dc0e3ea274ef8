"""Graphs with their collections as MetaGraphDef messages, whole or one name scope of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from google.protobuf.message import DecodeError

from sparkflow import logging
from sparkflow.graph.collections import GraphKeys
from sparkflow.graph.graph import Graph
from sparkflow.graph.messages.importing import import_graph_def
from sparkflow.graph.messages.proto_functions import VARIABLE_COLLECTIONS, proto_functions
from sparkflow.graph.nodes.op_defs import stripped_op_list, without_default_attrs
from sparkflow.graph.nodes.reach import ALL, Allowed, contained
from sparkflow_runtime.errors import DataLossError
from sparkflow_runtime.protos.graph_pb2 import GraphDef
from sparkflow_runtime.protos.meta_graph_pb2 import CollectionDef, MetaGraphDef
from sparkflow_runtime.protos.saver_pb2 import SaverDef

UNBOUND_INPUTS = "unbound_inputs"
"""The collection of what a part of a graph reads from the rest of it."""
_UNBOUND_PREFIX = "$unbound_inputs_"
TENSORFLOW_VERSION = "1.15.0"
"""The version of TensorFlow whose graphs these are."""


def make_meta_graph(
    graph: Graph,
    *,
    graph_def: GraphDef | None = None,
    meta_info_def: MetaGraphDef.MetaInfoDef | None = None,
    saver_def: SaverDef | None = None,
    collection_list: Sequence[str] | None = None,
    export_scope: str | None = None,
    clear_devices: bool = False,
    clear_extraneous_savers: bool = False,
    strip_default_attrs: bool = False,
    unbound_inputs_col_name: str | None = UNBOUND_INPUTS,
) -> MetaGraphDef:
    """A graph as a message.

    Args:
        graph: The graph.
        graph_def: Its nodes; all of them when None.
        meta_info_def: What else to say of it, such as tags.
        saver_def: The saver that belongs to it.
        collection_list: The collections to write; all when None.
        export_scope: Only the nodes of this name scope, whose name they lose.
        clear_devices: Leave devices out.
        clear_extraneous_savers: Leave the collection of savers out, but for this one.
        strip_default_attrs: Leave attributes out that have their default values.
        unbound_inputs_col_name: The collection that lists what the scope reads from outside.

    Raises:
        ValueError: The scope reads from outside and may not.
    """
    result = MetaGraphDef()
    if meta_info_def is not None:
        result.meta_info_def.CopyFrom(meta_info_def)
    result.meta_info_def.tensorflow_version = TENSORFLOW_VERSION
    nodes = graph.as_graph_def(add_shapes=True) if graph_def is None else graph_def
    unbound: list[str] = []
    if export_scope:
        nodes, unbound = _inside_scope(nodes, export_scope.rstrip("/"))
        if unbound and not unbound_inputs_col_name:
            raise ValueError(f"Nodes of {export_scope!r} read from outside of it: {unbound}")
    result.graph_def.CopyFrom(nodes)
    for node in result.graph_def.node:
        if clear_devices:
            node.device = ""
        if strip_default_attrs:
            without_default_attrs(node)
    result.meta_info_def.stripped_default_attrs = strip_default_attrs
    if not result.meta_info_def.HasField("stripped_op_list"):
        result.meta_info_def.stripped_op_list.CopyFrom(stripped_op_list(result.graph_def))
    if saver_def is not None:
        result.saver_def.CopyFrom(saver_def)
    keys = graph.get_all_collection_keys() if collection_list is None else collection_list
    for key in keys:
        if key == GraphKeys.SAVERS and clear_extraneous_savers:
            items = [saver for saver in graph.get_collection(key) if saver.saver_def == saver_def]
        else:
            items = graph.get_collection(key)
        _add_collection(result, key, items, export_scope)
    if unbound and unbound_inputs_col_name:
        listed = result.collection_def[unbound_inputs_col_name]
        listed.bytes_list.value.extend(each.encode() for each in unbound)
    return result


def _add_collection(
    result: MetaGraphDef, key: Any, items: Sequence[Any], export_scope: str | None
) -> None:
    """Writes one collection; one that cannot be written is left out with a warning."""
    if not isinstance(key, str | bytes):
        return  # what modules keep for themselves
    if isinstance(key, bytes):
        key = key.decode()
    try:
        written = _collection(key, items, export_scope)
    except (AttributeError, TypeError, ValueError, NotImplementedError) as error:
        logging.warning("The collection %s cannot be written and is left out: %s", key, error)
        return
    if written is not None:
        result.collection_def[key].CopyFrom(written)


def _collection(key: str, items: Sequence[Any], export_scope: str | None) -> CollectionDef | None:
    prefix = f"{export_scope.rstrip('/')}/" if export_scope else ""
    functions = proto_functions(key)
    result = CollectionDef()
    if functions is not None:
        for item in items:
            if not getattr(item, "name", prefix).startswith(prefix):
                continue
            message = functions.to_proto(item, export_scope=export_scope)
            if message is not None:
                result.bytes_list.value.append(message.SerializeToString())
        return result if result.bytes_list.value else None
    if not items:
        return None
    first = items[0]
    if isinstance(first, str | bytes):
        values = [item.encode() if isinstance(item, str) else item for item in items]
        result.bytes_list.value.extend(values)
    elif isinstance(first, int):
        result.int64_list.value.extend(items)
    elif isinstance(first, float):
        result.float_list.value.extend(items)
    else:
        inside = [item.name for item in items if item.name.startswith(prefix)]
        if not inside:
            return None
        result.node_list.value.extend(name.removeprefix(prefix) for name in inside)
    return result


def _inside_scope(graph_def: GraphDef, scope: str) -> tuple[GraphDef, list[str]]:
    """The nodes of a name scope without its name, and what they read from outside."""
    prefix = f"{scope}/"
    result = GraphDef(versions=graph_def.versions, library=graph_def.library)
    unbound: dict[str, None] = {}

    def renamed(text: str) -> str:
        if text.removeprefix("^").startswith(prefix):
            return text.replace(prefix, "", 1)
        outside = text.removeprefix("^")
        unbound.setdefault(outside)
        mark = "^" if text.startswith("^") else ""
        return f"{mark}{_UNBOUND_PREFIX}{outside}"

    for node in graph_def.node:
        if not node.name.startswith(prefix):
            continue
        copy = result.node.add()
        copy.CopyFrom(node)
        copy.name = node.name.removeprefix(prefix)
        copy.input[:] = [renamed(text) for text in node.input]
        groups = copy.attr["_class"].list.s if "_class" in copy.attr else ()
        kept = [
            b"loc:@" + each[5:].removeprefix(prefix.encode())
            for each in groups
            if each[5:].startswith(prefix.encode())
        ]
        if kept:
            copy.attr["_class"].list.s[:] = kept
        elif "_class" in copy.attr:
            del copy.attr["_class"]
    return result, list(unbound)


def scope_of_import(graph: Graph, import_scope: str | None) -> str:
    """The name scope in which imported nodes come to lie; empty for none.

    It is below the one that is open, even if no `import_scope` is given.
    """
    if import_scope:
        return graph.unique_name(import_scope, mark_as_used=False)
    return graph.get_name_scope()


def restore_meta_graph(
    meta_graph: MetaGraphDef,
    graph: Graph,
    *,
    clear_devices: bool = False,
    import_scope: str | None = None,
    input_map: Mapping[str, Any] | None = None,
    unbound_inputs_col_name: str | None = UNBOUND_INPUTS,
    restore_collections_predicate: Callable[[str], bool] = lambda key: True,
    return_elements: Sequence[str] | None = None,
    allowed_ops: Allowed = None,
    assets: Mapping[str, str] | None = None,
    origin: str = "The meta graph",
) -> tuple[dict[str, Any], Any]:
    """Adds the nodes and collections of a message to a graph.

    Args:
        meta_graph: The message; not changed.
        graph: The graph.
        clear_devices: Forget the devices of the nodes.
        import_scope: A name scope to put the nodes in.
        input_map: Tensors to use instead of nodes of the message, or of what it reads.
        unbound_inputs_col_name: The collection of what it reads from outside.
        restore_collections_predicate: Whether to restore the collection of that name.
        return_elements: Names in the message of tensors and operations to return.
        allowed_ops: Op types that may reach beyond the step, or "all"; see
            `sparkflow.graph.nodes.reach`.
        assets: Paths of assets by the names of the nodes that are their names.
        origin: What the message is, for error texts.

    Returns:
        The variables by their names in the message, and the elements asked for.

    Raises:
        PermissionDeniedError: The message has ops that would have to be allowed.
        ValueError: Something that the message reads from outside is not in `input_map`.
    """
    input_map = dict(input_map or {})
    unbound = meta_graph.collection_def.get(unbound_inputs_col_name or "")
    if unbound is not None:
        names = [each.decode() for each in unbound.bytes_list.value]
        given = {name.removeprefix(_UNBOUND_PREFIX) for name in input_map}
        missing = [name for name in names if name not in given]
        if missing:
            raise ValueError(
                "Graph contains unbound inputs: "
                f"{', '.join(sorted(missing))}. Must provide these inputs through input_map."
            )
        input_map = {
            (_UNBOUND_PREFIX + name if name in names else name): value
            for name, value in input_map.items()
        }
    nodes = contained(
        meta_graph.graph_def,
        allowed_ops,
        origin,
        filenames=_filenames(meta_graph),
        assets=assets,
        beside=graph.functions_beside(meta_graph.graph_def),
    )
    if clear_devices:
        kept, nodes = nodes, GraphDef()
        nodes.CopyFrom(kept)
        for node in nodes.node:
            node.device = ""
    info = meta_graph.meta_info_def
    scope = scope_of_import(graph, import_scope)
    with graph.as_default():
        returned = import_graph_def(
            nodes,
            name=import_scope or (f"{scope}/" if scope else ""),
            input_map=input_map,
            return_elements=return_elements,
            producer_op_list=info.stripped_op_list if info.HasField("stripped_op_list") else None,
            allowed_ops=ALL,
        )
        made: dict[bytes, Any] = {}
        for key, collection in sorted(meta_graph.collection_def.items()):
            if key != unbound_inputs_col_name and restore_collections_predicate(key):
                for item in _items(graph, key, collection, scope, made):
                    graph.add_to_collection(key, item)
    prefix = f"{scope}/" if scope else ""
    variables = graph.get_collection(GraphKeys.GLOBAL_VARIABLES)
    named = {v.name.removeprefix(prefix): v for v in variables if v.name.startswith(prefix)}
    return named, returned


def _filenames(meta_graph: MetaGraphDef) -> set[str]:
    """The nodes that are fed the names of checkpoints, for all savers of a message."""
    savers = [meta_graph.saver_def]
    kept = meta_graph.collection_def.get(GraphKeys.SAVERS)
    try:
        savers += [SaverDef.FromString(each) for each in (kept.bytes_list.value if kept else ())]
    except DecodeError as error:
        raise DataLossError(message=f"A saver of the meta graph is damaged: {error}") from error
    return {each.filename_tensor_name.partition(":")[0] for each in savers} - {""}


def _items(
    graph: Graph, key: str, collection: CollectionDef, scope: str, made: dict[bytes, Any]
) -> list[Any]:
    """The items of a collection; `made` remembers variables that are in several."""
    if key in (GraphKeys.COND_CONTEXT, GraphKeys.WHILE_CONTEXT):
        return []  # what TensorFlow needs for gradients of Switch and Merge
    kind = collection.WhichOneof("kind")
    prefix = f"{scope}/" if scope else ""
    functions = proto_functions(key)
    if kind is None:
        logging.error("Cannot identify data type for collection %s. Skipping.", key)
        return []
    values = getattr(collection, kind).value
    if kind == "node_list":
        try:
            return [graph.as_graph_element(prefix + name) for name in values]
        except KeyError as error:
            raise DataLossError(
                message=f"The collection {key!r} of the meta graph is damaged: {error.args[0]}"
            ) from error
    if kind != "bytes_list" or functions is None:
        return list(values)
    items = []
    for value in values:
        if key in VARIABLE_COLLECTIONS and value in made:
            items.append(made[value])
            continue
        message = functions.proto_type()
        try:
            message.ParseFromString(value)
            item = functions.from_proto(message, import_scope=scope or None)
        except (DecodeError, KeyError) as error:
            raise DataLossError(
                message=f"An item of the collection {key!r} of the meta graph is damaged: "
                f"{error.args[0] if error.args else error}"
            ) from error
        if key in VARIABLE_COLLECTIONS:
            made[value] = item
        items.append(item)
    return items
