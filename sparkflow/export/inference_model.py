"""A trained model: the inference graph, the values of its variables, and what goes in and out.

As files: `graph.pb` is a GraphDef of TensorFlow's format with VariableV2 nodes,
`variables.safetensors` has their values by name, `model.json` the signature, the checksums and
whatever else the writer knows, see `model_files`. Nothing is pickled.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy.typing as npt
from google.protobuf.message import DecodeError

from sparkflow.export.freeze import freeze_graph, prune_graph, variable_names, without_handles
from sparkflow.export.model_files import (
    GRAPH_FILE,
    MODEL_FILE,
    VARIABLES_FILE,
    Description,
    free_names,
    is_data_file,
    read_description,
    seal_description,
)
from sparkflow.export.predictor import Predictor
from sparkflow.export.signature import Signature
from sparkflow.export.summary import ModelSummary, summarize
from sparkflow.graph.nodes.reach import Allowed, require_contained
from sparkflow_runtime.checkpoint.tensors import (
    pack_tensors,
    read_tensors,
    tensors_checksum,
    unpack_tensors,
    write_tensors,
)
from sparkflow_runtime.errors import DataLossError, NotFoundError, OpError
from sparkflow_runtime.events.crc32c import crc32c
from sparkflow_runtime.files.errors import translated
from sparkflow_runtime.files.system import read_file
from sparkflow_runtime.files.whole import (
    remove_partial,
    sync_directory,
    write_through,
    write_whole,
)
from sparkflow_runtime.protos.graph_pb2 import GraphDef

_compiling = threading.Lock()  # guards the predictors that models keep


@dataclass(frozen=True)
class InferenceModel:
    """A trained model that runs without Spark and without `model_fn`.

    Attributes:
        graph_def: The inference graph with its variables.
        variables: Their values by name.
        signature: Inputs and outputs.
        extra: Further values that JSON can hold: parameters, versions, history.
    """

    graph_def: GraphDef
    variables: Mapping[str, npt.NDArray[Any]]
    signature: Signature
    extra: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def build(
        cls,
        graph_def: GraphDef,
        variables: Mapping[str, npt.NDArray[Any]],
        signature: Signature,
        extra: Mapping[str, Any] | None = None,
    ) -> InferenceModel:
        """Builds a model from the part of a graph and its variables that the outputs need.

        Raises:
            NotFoundError: A node or the value of a variable is missing.
            ValueError: Something takes the handle of a variable that cannot take its value.
        """
        outputs = [*signature.feeds, *signature.fetches, *signature.initializers]
        pruned = without_handles(prune_graph(graph_def, outputs))
        names = variable_names(pruned)
        missing = sorted(set(names) - variables.keys())
        if missing:
            raise NotFoundError(message=f"There is no value for the variables {', '.join(missing)}")
        return cls(pruned, {name: variables[name] for name in names}, signature, extra or {})

    def predictor(self, device: str = "", threads: int = 0) -> Predictor:
        """A function of features in this process, compiled once; close it after use.

        Args:
            device: Where it runs, such as `/device:GPU:0`; empty for where the runtime puts it.
            threads: For kernels and BLAS; 0 leaves the process's setting.
        """
        return Predictor(self, device, threads)

    def predict(self, values: Any, batch_size: int = 4096) -> dict[str, npt.NDArray[Any]]:
        """The predictions for some rows, by name: an array per prediction, a row per input row.

        The model is compiled at the first call and kept.

        Args:
            values: The value of the only input, or a dictionary of values by the inputs' names.
                Dense inputs: [batch, *shape]. Sparse ones: a SparseTensorValue, a matrix of
                scipy.sparse or an array [batch, n]. Ragged ones: a list of lists. Texts are str
                or bytes.
            batch_size: Rows per run of the graph. SparseTensorValues are run at once.

        Raises:
            InvalidArgumentError: An input is missing or has another shape or type.
        """
        with _compiling:
            kept: Predictor | None = self.__dict__.get("_kept")
            if kept is None:
                kept = self.__dict__["_kept"] = self.predictor()
        return kept.predict(values, batch_size)

    def close(self) -> None:
        """Frees what `predict` keeps. May be called more than once."""
        with _compiling:
            kept: Predictor | None = self.__dict__.pop("_kept", None)
        if kept is not None:
            kept.close()

    def __getstate__(self) -> dict[str, Any]:
        """All but what `predict` keeps, which belongs to this process and to this object."""
        return {name: value for name, value in self.__dict__.items() if name != "_kept"}

    def to_graph_def(self, frozen: bool = True) -> GraphDef:
        """The inference graph, with constants in place of the variables unless `frozen` is false.

        It is TensorFlow's GraphDef: inputs and outputs are the tensors that `signature` names.
        """
        if frozen:
            return freeze_graph(self.graph_def, self.variables)
        copy = GraphDef()
        copy.CopyFrom(self.graph_def)
        return copy

    def to_onnx(self, path: str | Path) -> None:
        """Writes the model in ONNX's format; needs the package `onnx` (`sparkflow-ml[onnx]`).

        Raises:
            ImportError: The package is missing.
            UnimplementedError: The graph has an op that cannot be converted; the text names op
                and node.
        """
        from sparkflow.export.onnx.convert import write_onnx

        write_onnx(self, path)

    def onnx_feeds(self, values: Any) -> dict[str, npt.NDArray[Any]]:
        """The feeds of an onnxruntime session for some rows, by input name.

        Texts are hashed here, because ONNX cannot. Needs no further package.

        Args:
            values: As `predict` takes them.

        Raises:
            InvalidArgumentError: As `predict`.
        """
        from sparkflow.export.onnx.texts import onnx_feeds

        return onnx_feeds(self, values)

    def to_saved_model(self, folder: str | Path, version: int | None = None) -> Path:
        """Writes the model as TensorFlow's SavedModel, for TensorFlow Serving; see `saved_model`.

        Args:
            folder: A local folder, of all versions of the model.
            version: The version's number; the next one when None.

        Returns:
            The folder of the version.

        Raises:
            UnimplementedError: The graph has an op that TensorFlow lacks; the text names it.
            AlreadyExistsError: There is such a version.
        """
        from sparkflow.export.saved_model import write_saved_model

        return write_saved_model(self, folder, version)

    def summary(self) -> ModelSummary:
        """Inputs, outputs, layers, parameters and training figures, as text and as HTML."""
        return summarize(self)

    def _description(self, names: Mapping[str, str], checksums: Mapping[str, str]) -> bytes:
        return seal_description(
            {"signature": asdict(self.signature), **self.extra}, names, checksums
        )

    def to_files(self) -> dict[str, bytes]:
        """The content of each file by its name."""
        graph = self.graph_def.SerializeToString(deterministic=True)
        checksums = {
            GRAPH_FILE: f"{crc32c(graph):08x}",
            VARIABLES_FILE: tensors_checksum(self.variables),
        }
        return {
            GRAPH_FILE: graph,
            VARIABLES_FILE: pack_tensors(self.variables),
            MODEL_FILE: self._description(free_names(()), checksums),
        }

    @classmethod
    def from_files(cls, files: Mapping[str, bytes], allowed_ops: Allowed = None) -> InferenceModel:
        """Reads what `to_files` wrote.

        Args:
            files: The content of each file by its name.
            allowed_ops: As for `load`.

        Raises:
            PermissionDeniedError: As `load`.
            DataLossError: A file is missing or damaged.
            InvalidArgumentError: The files were written by a later version.
        """
        if MODEL_FILE not in files:
            raise DataLossError(message=f"The model lacks the file {MODEL_FILE}")
        description = read_description(files[MODEL_FILE])
        missing = [name for name in description.names.values() if name not in files]
        if missing:
            raise DataLossError(message=f"The model lacks the files {', '.join(missing)}")
        name = description.names[VARIABLES_FILE]
        checksum = description.checksums.get(VARIABLES_FILE)
        variables = unpack_tensors(files[name], name, checksum)
        graph = files[description.names[GRAPH_FILE]]
        return cls._of(description, graph, variables, MODEL_FILE, allowed_ops)

    def save(self, directory: str | Path, taken: Collection[str] = ()) -> None:
        """Writes the files to a local directory, which is made if it does not exist.

        The variables are written one after the other, without a copy of all of them. The
        description comes last: a directory without it holds no model. Where the directory holds a
        model, that one stays until the new one is complete, and is then deleted. One process at a
        time may save to a directory.

        Args:
            directory: The directory.
            taken: Names that the files must not have.

        Raises:
            ResourceExhaustedError, PermissionDeniedError, ...: The files cannot be written. What
                was written is removed and the model that was there is as it was, unless the
                description has been written: then the new model is there.
            InvalidArgumentError: A variable has a dtype that cannot be saved.
        """
        folder = Path(directory)
        with translated(os.fspath(folder)):
            folder.mkdir(parents=True, exist_ok=True)
        names = free_names([*_taken(folder), *taken])
        try:
            graph = self.graph_def.SerializeToString(deterministic=True)
            write_through(folder / names[GRAPH_FILE], graph)
            checksums = {
                GRAPH_FILE: f"{crc32c(graph):08x}",
                VARIABLES_FILE: write_tensors(folder / names[VARIABLES_FILE], self.variables),
            }
            with translated(os.fspath(folder)):
                sync_directory(os.fspath(folder))
            write_whole(folder / MODEL_FILE, self._description(names, checksums))
        except BaseException:
            with contextlib.suppress(OSError):  # the reason for the failure is what matters
                for name in set(names.values()).difference(_taken(folder)):
                    (folder / name).unlink(missing_ok=True)
            raise
        for each in folder.iterdir():
            if is_data_file(each.name) and each.name not in names.values():
                each.unlink()
        remove_partial(folder)

    @classmethod
    def load(cls, directory: str | Path, allowed_ops: Allowed = None) -> InferenceModel:
        """Reads a model from a local directory, written by `save` or by Spark.

        Where another model is saved there meanwhile, it is the one or the other.

        Args:
            directory: The directory.
            allowed_ops: Op types of the graph that may reach beyond it: read or write files, call
                Python functions, talk to other tasks, and ops of your own that do not say what
                they reach; "all" for a model that is trusted as the program itself is.

        Raises:
            PermissionDeniedError: The graph has ops that would have to be allowed.
            NotFoundError: A file does not exist.
            DataLossError, InvalidArgumentError: As `from_files`.
        """
        path = Path(directory) / MODEL_FILE
        content = _read_model_file(path)
        while True:
            try:
                return cls._load(path, read_description(content, os.fspath(path)), allowed_ops)
            except (NotFoundError, DataLossError):
                before, content = content, _read_model_file(path)
                if content == before:
                    raise

    @classmethod
    def _load(cls, path: Path, description: Description, allowed: Allowed) -> InferenceModel:
        folder, names = path.parent, description.names
        missing = [name for name in names.values() if not (folder / name).is_file()]
        if missing:
            raise NotFoundError(
                message=f"{folder} does not contain a model; it lacks {', '.join(missing)}"
            )
        variables = read_tensors(
            folder / names[VARIABLES_FILE], description.checksums.get(VARIABLES_FILE)
        )
        graph = read_file(folder / names[GRAPH_FILE])
        return cls._of(description, graph, variables, os.fspath(path), allowed)

    @classmethod
    def _of(
        cls,
        description: Description,
        graph: bytes,
        variables: Mapping[str, npt.NDArray[Any]],
        origin: str,
        allowed: Allowed,
    ) -> InferenceModel:
        """The model, if its graph is the one written, and reaches no more than it may."""
        name = os.path.join(os.path.dirname(origin), description.names[GRAPH_FILE])
        if description.checksums.get(GRAPH_FILE) not in (None, f"{crc32c(graph):08x}"):
            raise DataLossError(
                message=f"The model's files are damaged: {name}: its checksum is not that written"
            )
        with _damage(name):
            graph_def = GraphDef.FromString(graph)
        require_contained(graph_def, allowed, f"The model {name}")
        with _damage(origin):
            signature = Signature.from_json(description.members.pop("signature"))
        return cls(graph_def, variables, signature, description.members)


def _read_model_file(path: Path) -> bytes:
    if not path.is_file():
        raise NotFoundError(
            message=f"{path.parent} does not contain a model; it lacks {MODEL_FILE}"
        )
    return read_file(path)


def _taken(folder: Path) -> Collection[str]:
    """The names of the files of the model in a folder; all where it cannot be told."""
    path = folder / MODEL_FILE
    if not path.is_file():
        return ()
    try:
        return list(read_description(path.read_bytes(), os.fspath(path)).names.values())
    except OpError:
        return [each.name for each in folder.iterdir()]


@contextlib.contextmanager
def _damage(name: str) -> Iterator[None]:
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError, DecodeError) as error:
        raise DataLossError(message=f"The model's files are damaged: {name}: {error}") from error
