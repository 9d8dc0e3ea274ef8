"""A trained model: the inference graph, the values of its variables, and what goes in and out.

As files: `graph.pb` is a GraphDef of TensorFlow's format with VariableV2 nodes,
`variables.safetensors` has their values by name, `model.json` the signature and whatever else the
writer knows. Nothing is pickled.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from google.protobuf.message import DecodeError
from safetensors import SafetensorError, numpy as safetensors_numpy

from sparkflow.export.freeze import freeze_graph, prune_graph, variable_names
from sparkflow.export.predictor import Predictor
from sparkflow.export.signature import Signature
from sparkflow.export.summary import ModelSummary, summarize
from sparkflow_runtime.errors import DataLossError, InvalidArgumentError, NotFoundError
from sparkflow_runtime.protos.graph_pb2 import GraphDef

GRAPH_FILE = "graph.pb"
VARIABLES_FILE = "variables.safetensors"
MODEL_FILE = "model.json"
FILES = (GRAPH_FILE, VARIABLES_FILE, MODEL_FILE)

FORMAT = "sparkflow-inference-model"
FORMAT_VERSION = 2
"""Version 1 knew models of one dense input only; both are read."""


_compiling = threading.Lock()  # guards the predictors that models keep


@dataclass(frozen=True)
class InferenceModel:
    """See the module's docstring.

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
        """A model of what the outputs need of the graph and the variables.

        Raises:
            NotFoundError: A node or the value of a variable is missing.
        """
        pruned = prune_graph(
            graph_def, [*signature.feeds, *signature.fetches, *signature.initializers]
        )
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
        """The predictions for some rows, by name: one array per prediction, a row per row.

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
        """Writes the model in ONNX's format; needs the package `onnx` (`sparkflow[onnx]`).

        Raises:
            ImportError: The package is missing.
            UnimplementedError: The graph has an op that cannot be converted; the text names op
                and node.
        """
        from sparkflow.export.onnx.convert import write_onnx

        write_onnx(self, path)

    def summary(self) -> ModelSummary:
        """Inputs, outputs, layers, parameters and training figures, as text and as HTML."""
        return summarize(self)

    def _description(self) -> bytes:
        description = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "signature": asdict(self.signature),
            **self.extra,
        }
        return (json.dumps(description, indent=1, sort_keys=True) + "\n").encode()

    def to_files(self) -> dict[str, bytes]:
        """The content of each file by its name."""
        return {
            GRAPH_FILE: self.graph_def.SerializeToString(deterministic=True),
            VARIABLES_FILE: safetensors_numpy.save(_contiguous(self.variables)),
            MODEL_FILE: self._description(),
        }

    @classmethod
    def from_files(cls, files: Mapping[str, bytes]) -> InferenceModel:
        """Reads what `to_files` wrote.

        Raises:
            DataLossError: A file is missing or damaged.
            InvalidArgumentError: The files were written by a later version.
        """
        missing = [name for name in FILES if name not in files]
        if missing:
            raise DataLossError(message=f"The model lacks the files {', '.join(missing)}")
        signature, extra = _read_description(files[MODEL_FILE])
        with _damage(GRAPH_FILE):
            graph_def = GraphDef.FromString(files[GRAPH_FILE])
        with _damage(VARIABLES_FILE):
            variables = safetensors_numpy.load(files[VARIABLES_FILE])
        return cls(graph_def, variables, signature, extra)

    def save(self, directory: str | Path) -> None:
        """Writes the files to a local directory, which is made if it does not exist.

        The variables are written one after the other, without a copy of all of them. The
        description comes last: a directory without it holds no model.
        """
        folder = Path(directory)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / GRAPH_FILE).write_bytes(self.graph_def.SerializeToString(deterministic=True))
        safetensors_numpy.save_file(_contiguous(self.variables), folder / VARIABLES_FILE)
        (folder / MODEL_FILE).write_bytes(self._description())

    @classmethod
    def load(cls, directory: str | Path) -> InferenceModel:
        """Reads a model from a local directory, be it written by `save` or by Spark.

        Raises:
            NotFoundError: A file does not exist.
            DataLossError, InvalidArgumentError: As `from_files`.
        """
        folder = Path(directory)
        missing = [name for name in FILES if not (folder / name).is_file()]
        if missing:
            raise NotFoundError(message=f"{folder} holds no model: it lacks {', '.join(missing)}")
        signature, extra = _read_description((folder / MODEL_FILE).read_bytes())
        with _damage(GRAPH_FILE):
            graph_def = GraphDef.FromString((folder / GRAPH_FILE).read_bytes())
        with _damage(VARIABLES_FILE):
            variables = safetensors_numpy.load_file(os.fspath(folder / VARIABLES_FILE))
        return cls(graph_def, variables, signature, extra)


@contextlib.contextmanager
def _damage(name: str) -> Iterator[None]:
    try:
        yield
    except (
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        DecodeError,
        SafetensorError,
    ) as error:
        raise DataLossError(message=f"The model's files are damaged: {name}: {error}") from error


def _read_description(content: bytes) -> tuple[Signature, dict[str, Any]]:
    with _damage(MODEL_FILE):
        description = json.loads(content)
        kind = description.pop("format", None)
        version = description.pop("format_version", None)
    if kind != FORMAT:
        raise InvalidArgumentError(
            message=f"{MODEL_FILE} has the format {kind!r}, it should be {FORMAT!r}: this is no "
            "model of sparkflow"
        )
    if version not in range(1, FORMAT_VERSION + 1):
        raise InvalidArgumentError(
            message=f"{MODEL_FILE} has format version {version!r}, this version of sparkflow reads "
            f"versions 1 to {FORMAT_VERSION}; install a later one (the model was written by "
            f"sparkflow {description.get('versions', {}).get('sparkflow', 'of unknown version')})"
        )
    with _damage(MODEL_FILE):
        return Signature.from_json(description.pop("signature")), description


def _contiguous(variables: Mapping[str, npt.NDArray[Any]]) -> dict[str, npt.NDArray[Any]]:
    return {
        # ascontiguousarray would make [1] of [].
        name: np.ascontiguousarray(value).reshape(np.shape(value))
        for name, value in variables.items()
    }
