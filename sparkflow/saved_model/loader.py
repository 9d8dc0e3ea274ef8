"""Loads saved models into the default graph of a session."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from google.protobuf import text_format
from google.protobuf.message import DecodeError

from sparkflow.graph.messages.meta_graph import restore_meta_graph, scope_of_import
from sparkflow.graph.nodes.reach import Allowed
from sparkflow.saved_model import constants
from sparkflow.train.checkpoints.saver import Saver, all_saveable_objects
from sparkflow_runtime.checkpoint.sealed_message import open_message
from sparkflow_runtime.errors import DataLossError, PermissionDeniedError
from sparkflow_runtime.events.crc32c import crc32c
from sparkflow_runtime.files import system
from sparkflow_runtime.protos.meta_graph_pb2 import AssetFileDef, MetaGraphDef
from sparkflow_runtime.protos.saved_model_pb2 import SavedModel


def contains_saved_model(export_dir: str | os.PathLike[str]) -> bool:
    """Whether there is a saved model in a directory."""
    names = (constants.SAVED_MODEL_FILENAME_PB, constants.SAVED_MODEL_FILENAME_PBTXT)
    return any(system.exists(system.join(system.as_text(export_dir), name)) for name in names)


def maybe_saved_model_directory(export_dir: str | os.PathLike[str]) -> bool:
    """The old name of `contains_saved_model`."""
    return contains_saved_model(export_dir)


def parse_saved_model(export_dir: str | os.PathLike[str]) -> SavedModel:
    """The graphs of a saved model.

    Raises:
        OSError: There is no saved model, or it cannot be parsed.
        DataLossError: Its file, or an asset, was changed or cut after it had been written.
    """
    folder = system.as_text(export_dir)
    binary = system.join(folder, constants.SAVED_MODEL_FILENAME_PB)
    text = system.join(folder, constants.SAVED_MODEL_FILENAME_PBTXT)
    model = SavedModel()
    try:
        found = next((path for path in (binary, text) if system.exists(path)), None)
        if found == binary:
            model.ParseFromString(_checked(binary))
        elif found == text:
            text_format.Merge(_checked(text).decode("utf-8"), model)
    except (DecodeError, text_format.ParseError, UnicodeDecodeError) as error:
        raise OSError(f"Cannot parse file in {folder}: {error}.") from error
    if found is None:
        raise OSError(
            f"SavedModel file does not exist at: {folder}/{{{constants.SAVED_MODEL_FILENAME_PBTXT}|"
            f"{constants.SAVED_MODEL_FILENAME_PB}}}"
        )
    if not model.ByteSize():
        raise DataLossError(message=f"{found} is damaged: it holds nothing")
    return model


def _checked(path: str) -> bytes:
    """The message in a file, if this and the assets are as they were written."""
    opened = open_message(system.read_file(path), path)
    for name, checksum in opened.files.items():
        asset = _inside(os.path.dirname(path), name)
        if not system.exists(asset):
            raise DataLossError(message=f"{asset} is missing, an asset of the saved model {path}")
        if crc32c(system.read_file(asset)) != checksum:
            raise DataLossError(
                message=f"{asset} is damaged: it was changed after the saved model had been "
                "written, says its checksum"
            )
    return opened.content


def load(
    sess: Any,
    tags: Sequence[str],
    export_dir: str | os.PathLike[str],
    import_scope: str | None = None,
    allowed_ops: Allowed = None,
    **saver_kwargs: Any,
) -> MetaGraphDef:
    """Adds a graph of a saved model to the session's graph, restores its variables, runs its init.

    Args:
        sess: The session.
        tags: All the tags of the graph.
        export_dir: The directory of the model, for the client and for the tasks.
        import_scope: A name scope to put the nodes in; not part of the names in signatures.
        allowed_ops: Op types of the graph that may reach beyond it: read or write files other than
            the model's own, call Python functions, talk to other tasks; "all" for a model that
            is trusted as the program itself is.
        **saver_kwargs: `input_map` and others of `tf.train.import_meta_graph`.

    Returns:
        The message of the graph, with its signatures.

    Raises:
        OSError: There is no saved model.
        RuntimeError: It has no graph with these tags.
        PermissionDeniedError: The graph has ops that would have to be allowed, or the file of an
            asset lies elsewhere.
    """
    wanted = {tags} if isinstance(tags, str) else set(tags)
    model = parse_saved_model(export_dir)
    found = [each for each in model.meta_graphs if set(each.meta_info_def.tags) == wanted]
    if not found:
        available = [sorted(each.meta_info_def.tags) for each in model.meta_graphs]
        raise RuntimeError(
            f"MetaGraphDef associated with tags {sorted(wanted)} could not be found in SavedModel. "
            f"Available tags: {available}"
        )
    message = found[0]
    graph = sess.graph
    directory = system.as_text(export_dir)
    folder = system.join(directory, constants.ASSETS_DIRECTORY)
    assets = {asset.tensor_info.name: _inside(folder, asset.filename) for asset in _assets(message)}
    with graph.as_default():
        scope = scope_of_import(graph, import_scope)
        restore_meta_graph(
            message,
            graph,
            import_scope=import_scope,
            allowed_ops=allowed_ops,
            assets={name.partition(":")[0]: path for name, path in assets.items()},
            origin=f"The saved model {directory}",
            **saver_kwargs,
        )
        saver = _saver(message, scope or None)
    if saver is not None:
        path = os.path.join(directory, constants.VARIABLES_DIRECTORY, constants.VARIABLES_FILENAME)
        saver.restore(sess, path)
    prefix = f"{scope}/" if scope else ""
    init_op = _init_op(message)
    if init_op is not None:
        fed = {prefix + name: path for name, path in assets.items()}
        sess.run(graph.as_graph_element(prefix + init_op), fed)
    return message


def _inside(folder: str, name: str) -> str:
    """Where a file of the model lies.

    Raises:
        PermissionDeniedError: Not in its folder.
    """
    parts = name.replace("\\", "/").split("/")
    if not all(parts) or not {".", ".."}.isdisjoint(parts) or "\0" in name or "://" in name:
        raise PermissionDeniedError(
            message=f"The saved model names the file {name!r}, which does not lie in {folder}"
        )
    return system.join(folder, *parts)


def _saver(message: MetaGraphDef, scope: str | None) -> Saver | None:
    if message.HasField("saver_def"):
        return Saver(saver_def=message.saver_def, name=scope)
    if all_saveable_objects(scope=scope):
        return Saver()
    return None


def _assets(message: MetaGraphDef) -> list[AssetFileDef]:
    if message.asset_file_def:
        return list(message.asset_file_def)
    collection = message.collection_def.get(constants.ASSETS_KEY)
    values = collection.any_list.value if collection is not None else ()
    return [AssetFileDef.FromString(each.value) for each in values]


def _init_op(message: MetaGraphDef) -> str | None:
    """The name of what is to run when the model is loaded."""
    signature = message.signature_def.get(constants.INIT_OP_SIGNATURE_KEY)
    if signature is not None:
        return signature.outputs[constants.INIT_OP_SIGNATURE_KEY].name
    for key in (constants.MAIN_OP_KEY, constants.LEGACY_INIT_OP_KEY):
        collection = message.collection_def.get(key)
        if collection is None:
            continue
        if len(collection.node_list.value) != 1:
            raise RuntimeError(
                f"Expected exactly one main op in the collection {key}, got "
                f"{list(collection.node_list.value)}"
            )
        return collection.node_list.value[0]
    return None
