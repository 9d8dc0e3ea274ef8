"""A trained model: the inference graph, the values of its variables, and what goes in and out.

As files: `graph.pb` is a GraphDef of TensorFlow's format with VariableV2 nodes,
`variables.safetensors` has their values by name, `model.json` the signature and whatever else the
writer knows. Nothing is pickled.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from google.protobuf.message import DecodeError
from safetensors import SafetensorError, numpy as safetensors_numpy

from sparkflow.export.freeze import freeze_graph, prune_graph, variable_names
from sparkflow_runtime.errors import DataLossError, InvalidArgumentError, NotFoundError
from sparkflow_runtime.master.client import SessionClient, open_session
from sparkflow_runtime.protos.graph_pb2 import GraphDef

GRAPH_FILE = "graph.pb"
VARIABLES_FILE = "variables.safetensors"
MODEL_FILE = "model.json"
FILES = (GRAPH_FILE, VARIABLES_FILE, MODEL_FILE)

FORMAT = "sparkflow-inference-model"
FORMAT_VERSION = 1


@dataclass(frozen=True, slots=True)
class Output:
    """One prediction.

    Attributes:
        name: The key in the predictions of `model_fn`.
        tensor: Its tensor in the graph, `node:0`.
        dtype: The name of its dtype.
        shape: Its static shape without the batch; None for an unknown size.
    """

    name: str
    tensor: str
    dtype: str
    shape: tuple[int | None, ...]


@dataclass(frozen=True, slots=True)
class Signature:
    """What goes in and what comes out.

    Attributes:
        features: The tensor of the features, [batch, dim] float32.
        dim: Features per row.
        outputs: The predictions.
    """

    features: str
    dim: int
    outputs: tuple[Output, ...]


@dataclass(frozen=True, slots=True)
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
            graph_def, [signature.features, *(output.tensor for output in signature.outputs)]
        )
        names = variable_names(pruned)
        missing = sorted(set(names) - variables.keys())
        if missing:
            raise NotFoundError(message=f"There is no value for the variables {', '.join(missing)}")
        return cls(pruned, {name: variables[name] for name in names}, signature, extra or {})

    def predictor(self) -> Predictor:
        """A function of features in this process."""
        return Predictor(self)

    def to_files(self) -> dict[str, bytes]:
        """The content of each file by its name."""
        description = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "signature": asdict(self.signature),
            **self.extra,
        }
        arrays = {name: np.ascontiguousarray(value) for name, value in self.variables.items()}
        return {
            GRAPH_FILE: self.graph_def.SerializeToString(deterministic=True),
            VARIABLES_FILE: safetensors_numpy.save(arrays),
            MODEL_FILE: (json.dumps(description, indent=1, sort_keys=True) + "\n").encode(),
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
        try:
            description = json.loads(files[MODEL_FILE])
            graph_def = GraphDef.FromString(files[GRAPH_FILE])
            variables = safetensors_numpy.load(files[VARIABLES_FILE])
            kind = description.pop("format", None)
            version = description.pop("format_version", None)
            signature = _signature(description.pop("signature"))
        except (
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
            DecodeError,
            SafetensorError,
        ) as error:
            raise DataLossError(message=f"The model's files are damaged: {error}") from error
        if kind != FORMAT or version != FORMAT_VERSION:
            raise InvalidArgumentError(
                message=f"{MODEL_FILE} has format {kind!r} version {version!r}, this version of "
                f"sparkflow reads {FORMAT!r} version {FORMAT_VERSION}"
            )
        return cls(graph_def, variables, signature, description)

    def save(self, directory: str | Path) -> None:
        """Writes the files to a local directory, which is made if it does not exist."""
        folder = Path(directory)
        folder.mkdir(parents=True, exist_ok=True)
        for name, content in self.to_files().items():
            (folder / name).write_bytes(content)

    @classmethod
    def load(cls, directory: str | Path) -> InferenceModel:
        """Reads a model from a local directory, be it written by `save` or by Spark.

        Raises:
            NotFoundError: A file does not exist.
            DataLossError, InvalidArgumentError: As `from_files`.
        """
        folder = Path(directory)
        try:
            return cls.from_files({name: (folder / name).read_bytes() for name in FILES})
        except FileNotFoundError as error:
            raise NotFoundError(message=f"{folder} holds no model: {error}") from error


class Predictor:
    """Runs a model on numpy arrays. Safe to use from several threads; close it after use.

    Attributes:
        dim: Features per row.
    """

    def __init__(self, model: InferenceModel) -> None:
        self.dim = model.signature.dim
        self._names = [output.name for output in model.signature.outputs]
        self._session: SessionClient = open_session()
        self._session.extend(freeze_graph(model.graph_def, model.variables))
        self._run = self._session.make_callable(
            [output.tensor for output in model.signature.outputs], [model.signature.features], []
        )

    def __call__(self, features: npt.NDArray[np.float32]) -> dict[str, npt.NDArray[Any]]:
        """The predictions for `features`, [batch, dim], by name.

        Raises:
            InvalidArgumentError: The features have another shape.
        """
        rows = np.ascontiguousarray(features, np.float32)
        if rows.ndim != 2 or rows.shape[1] != self.dim:
            raise InvalidArgumentError(
                message=f"The model takes features of shape (batch, {self.dim}), got {rows.shape}"
            )
        return {
            name: np.asarray(value)
            for name, value in zip(self._names, self._run(rows), strict=True)
        }

    def close(self) -> None:
        """Ends the session. May be called more than once."""
        self._session.close()


def _signature(values: Mapping[str, Any]) -> Signature:
    outputs = tuple(
        Output(str(each["name"]), str(each["tensor"]), str(each["dtype"]), tuple(each["shape"]))
        for each in values["outputs"]
    )
    return Signature(str(values["features"]), int(values["dim"]), outputs)
