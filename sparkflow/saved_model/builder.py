"""Writes saved models: graphs by tags, the variables once, and assets."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from absl import logging
from google.protobuf import any_pb2, text_format

from sparkflow.graph.constant_value import constant_value
from sparkflow.graph.messages.foreign import nodes_unknown_to_tensorflow
from sparkflow.graph.operation import Operation
from sparkflow.graph.scopes import add_to_collection, get_collection
from sparkflow.graph.tensor import Tensor
from sparkflow.saved_model import constants, signature_constants, tag_constants
from sparkflow.saved_model.signature_def_utils import predict_signature_def
from sparkflow.saved_model.utils import build_tensor_info
from sparkflow.train.checkpoints.saver import Saver, all_saveable_objects
from sparkflow_runtime import dtypes
from sparkflow_runtime.checkpoint.sealed_message import seal_message, seal_text
from sparkflow_runtime.events.crc32c import crc32c
from sparkflow_runtime.files import system
from sparkflow_runtime.files.whole import write_through, write_whole
from sparkflow_runtime.protos.meta_graph_pb2 import AssetFileDef, SignatureDef, TensorInfo
from sparkflow_runtime.protos.saved_model_pb2 import SavedModel

_ASSET_TYPE = "type.googleapis.com/tensorflow.AssetFileDef"


class SavedModelBuilder:
    """Collects graphs of one model and writes them as one directory.

    Variables are saved by the session, on its tasks; the rest is written by the client.

    Args:
        export_dir: The directory to make; it may exist if it is empty.

    Raises:
        AssertionError: The directory is not empty.
    """

    def __init__(self, export_dir: str | os.PathLike[str]) -> None:
        self._directory = system.as_text(export_dir)
        if system.is_directory(self._directory) and system.list_directory(self._directory):
            raise AssertionError(
                f"Export directory {self._directory} already exists, and isn't empty. Please "
                "choose a different export directory, or delete all the contents of the specified "
                "directory."
            )
        system.make_dirs(self._directory)
        self._model = SavedModel(saved_model_schema_version=constants.SAVED_MODEL_SCHEMA_VERSION)
        self._has_saved_variables = False
        self._files: dict[str, int] = {}  # the checksums of the assets

    def add_meta_graph_and_variables(
        self,
        sess: Any,
        tags: Sequence[str],
        signature_def_map: Mapping[str, SignatureDef] | None = None,
        assets_collection: Sequence[Tensor] | None = None,
        legacy_init_op: Operation | None = None,
        clear_devices: bool = False,
        main_op: Operation | None = None,
        strip_default_attrs: bool = False,
        saver: Saver | None = None,
    ) -> None:
        """Adds the default graph and saves the variables and assets; once, and first.

        Args:
            sess: The session that holds the variables.
            tags: What the graph is for, see `tag_constants`.
            signature_def_map: The signatures by name.
            assets_collection: String constants with the paths of files to copy.
            legacy_init_op: The old name of `main_op`.
            clear_devices: Leave devices out.
            main_op: What to run when the model is loaded.
            strip_default_attrs: Leave attributes out that have their default values.
            saver: What saves; one for all variables, sharded by device, when None.

        Raises:
            AssertionError: It was called before, or a signature is incomplete.
            TypeError: `main_op` is not an operation, an asset not a string constant.
            ValueError: The graph has a main op already.
        """
        if self._has_saved_variables:
            raise AssertionError(
                "Graph state including variables and assets has already been saved. Please invoke "
                "`add_meta_graph()` instead."
            )
        _check_signatures(signature_def_map)
        self._add_main_op(legacy_init_op if main_op is None else main_op)
        assets = self._write_assets(assets_collection)
        folder = system.join(self._directory, constants.VARIABLES_DIRECTORY)
        system.make_dirs(folder)
        saver = _saver(saver)
        saver.save(
            sess,
            system.join(folder, constants.VARIABLES_FILENAME),
            write_meta_graph=False,
            write_state=False,
        )
        self._add(saver, tags, signature_def_map, assets, clear_devices, strip_default_attrs)
        self._has_saved_variables = True

    def add_meta_graph(
        self,
        tags: Sequence[str],
        signature_def_map: Mapping[str, SignatureDef] | None = None,
        assets_collection: Sequence[Tensor] | None = None,
        legacy_init_op: Operation | None = None,
        clear_devices: bool = False,
        main_op: Operation | None = None,
        strip_default_attrs: bool = False,
        saver: Saver | None = None,
    ) -> None:
        """Adds the default graph as another graph of the same variables.

        Args:
            tags: As for `add_meta_graph_and_variables`, and so are the others.
            signature_def_map: The signatures by name.
            assets_collection: String constants with the paths of files to copy.
            legacy_init_op: The old name of `main_op`.
            clear_devices: Leave devices out.
            main_op: What to run when the model is loaded.
            strip_default_attrs: Leave attributes out that have their default values.
            saver: What restores the variables.

        Raises:
            AssertionError: No variables were saved yet, or a signature is incomplete.
            TypeError, ValueError: As `add_meta_graph_and_variables`.
        """
        if not self._has_saved_variables:
            raise AssertionError(
                "Graph state including variables and assets has not been saved yet. Please invoke "
                "`add_meta_graph_and_variables()` first."
            )
        _check_signatures(signature_def_map)
        self._add_main_op(legacy_init_op if main_op is None else main_op)
        assets = self._write_assets(assets_collection)
        self._add(
            _saver(saver), tags, signature_def_map, assets, clear_devices, strip_default_attrs
        )

    def save(self, as_text: bool = False) -> str:
        """Writes the graphs, which completes the model.

        Args:
            as_text: Write them as text.

        Returns:
            The path of the file.
        """
        if as_text:
            path = system.join(self._directory, constants.SAVED_MODEL_FILENAME_PBTXT)
            content = seal_text(text_format.MessageToString(self._model).encode(), self._files)
        else:
            path = system.join(self._directory, constants.SAVED_MODEL_FILENAME_PB)
            content = seal_message(self._model.SerializeToString(deterministic=True), self._files)
        write_whole(path, content)
        logging.info("SavedModel written to: %s", path)
        return path

    def _add_main_op(self, main_op: Operation | None) -> None:
        if main_op is None:
            return
        if not isinstance(main_op, Operation):
            raise TypeError(f"main_op needs to be an Operation: {main_op!r}")
        for key in (constants.MAIN_OP_KEY, constants.LEGACY_INIT_OP_KEY):
            if get_collection(key):
                raise ValueError(
                    f"Graph already contains one or more main ops under the collection {key}."
                )
        add_to_collection(constants.MAIN_OP_KEY, main_op)

    def _write_assets(self, tensors: Sequence[Tensor] | None) -> list[AssetFileDef]:
        """Copies the files; two of one name get different ones."""
        if not tensors:
            logging.info("No assets to save.")
            return []
        folder = system.join(self._directory, constants.ASSETS_DIRECTORY)
        system.make_dirs(folder)
        taken: dict[str, str] = {}
        messages = []
        for tensor in tensors:
            source = _asset_path(tensor)
            stem, number = os.path.basename(source), 0
            name = stem
            while taken.setdefault(name, source) != source:
                number += 1
                name = f"{stem}_{number}"
            content = system.read_file(source)
            write_through(system.join(folder, name), content)
            self._files[f"{constants.ASSETS_DIRECTORY}/{name}"] = crc32c(content)
            info = TensorInfo(name=build_tensor_info(tensor).name)
            messages.append(AssetFileDef(tensor_info=info, filename=name))
        return messages

    def _add(
        self,
        saver: Saver,
        tags: Sequence[str],
        signatures: Mapping[str, SignatureDef] | None,
        assets: Sequence[AssetFileDef],
        clear_devices: bool,
        strip_default_attrs: bool,
    ) -> None:
        message = saver.export_meta_graph(
            clear_devices=clear_devices, strip_default_attrs=strip_default_attrs
        )
        foreign = {node.op: node.name for node in nodes_unknown_to_tensorflow(message.graph_def)}
        if foreign:
            logging.warning(
                "TensorFlow, which lacks the ops %s (nodes such as %s), cannot load this model. "
                "Save a graph that was built for inference, without gradients.",
                ", ".join(sorted(foreign)),
                next(iter(foreign.values())),
            )
        message.meta_info_def.tags.extend(tags)
        for key, signature in (signatures or {}).items():
            message.signature_def[key].CopyFrom(signature)
        message.asset_file_def.extend(assets)
        for asset in assets:
            value = asset.SerializeToString()
            message.collection_def[constants.ASSETS_KEY].any_list.value.append(
                any_pb2.Any(type_url=_ASSET_TYPE, value=value)
            )
        self._model.meta_graphs.append(message)


def simple_save(
    session: Any,
    export_dir: str | os.PathLike[str],
    inputs: Mapping[str, Any],
    outputs: Mapping[str, Any],
    legacy_init_op: Operation | None = None,
) -> None:
    """Saves the default graph for serving with one signature.

    Args:
        session: The session that holds the variables.
        export_dir: The directory to make.
        inputs: The tensors that are fed, by name.
        outputs: The tensors that are fetched, by name.
        legacy_init_op: What to run when the model is loaded.

    Raises:
        AssertionError: The directory is not empty.
    """
    key = signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY
    builder = SavedModelBuilder(export_dir)
    builder.add_meta_graph_and_variables(
        session,
        tags=[tag_constants.SERVING],
        signature_def_map={key: predict_signature_def(inputs, outputs)},
        assets_collection=get_collection("asset_filepaths"),
        main_op=legacy_init_op,
        clear_devices=True,
    )
    builder.save()


def _saver(saver: Saver | None) -> Saver:
    if saver is not None:
        return saver
    return Saver(all_saveable_objects(), sharded=True, allow_empty=True)


def _asset_path(tensor: Any) -> str:
    if not isinstance(tensor, Tensor):
        raise TypeError(f"Asset path tensor {tensor!r} must be a Tensor.")
    if tensor.op.type != "Const":
        raise TypeError(f"Asset path tensor {tensor!r} must be of type constant.")
    if tensor.dtype is not dtypes.string:
        raise TypeError(f"Asset path tensor {tensor!r} must be of dtype string.")
    value: Any = constant_value(tensor)
    return os.fsdecode(value.reshape(-1)[0])


def _check_signatures(signatures: Mapping[str, SignatureDef] | None) -> None:
    for signature in (signatures or {}).values():
        for info in (*signature.inputs.values(), *signature.outputs.values()):
            if info.WhichOneof("encoding") is None or not info.dtype:
                raise AssertionError(
                    "All TensorInfo protos used in the SignatureDefs must have the name and dtype "
                    f"fields set: {info}"
                )
