"""The inputs and outputs of a model, as plain JSON data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy.typing as npt

from sparkflow_runtime.protos.graph_pb2 import GraphDef

DENSE = "dense"
"""The kind of an input that is one tensor, `[batch, *shape]`."""
SPARSE = "sparse"
"""The kind of an input of sparse rows: indices, values and dense shape."""
RAGGED = "ragged"
"""The kind of an input of lists of any length: the same three tensors."""

FEATURES = "features"
"""The name of the input of a model that has one without a name."""


@dataclass(frozen=True, slots=True)
class Input:
    """One input.

    Attributes:
        name: Its key in the dictionary that `predict` takes.
        kind: `dense`: an array [batch, *shape]. `sparse`: a SparseTensor [batch, shape[0]].
            `ragged`: lists of any lengths, given to the graph as a SparseTensor whose second
            dimension is the longest list, as `tf.VarLenFeature` has it.
        dtype: `float32`, `int64` or `string`.
        shape: Of one row: () for scalars, (n,) for vectors and for sparse ones; () for ragged ones.
        tensors: The tensor in the graph, `node:0`; of a SparseTensor the three: indices [n, 2]
            int64, values [n], dense_shape [2] int64.
    """

    name: str
    kind: str
    dtype: str
    shape: tuple[int, ...]
    tensors: tuple[str, ...]


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
    """The inputs and outputs of a model.

    Attributes:
        inputs: One or more.
        outputs: The predictions.
        named: Whether `predict` takes a dictionary; otherwise there is one input, and `predict`
            takes its value.
        initializers: Operations that are run once before the first prediction, such as those that
            fill lookup tables.
    """

    inputs: tuple[Input, ...]
    outputs: tuple[Output, ...]
    named: bool = False
    initializers: tuple[str, ...] = ()

    @classmethod
    def of_features(cls, tensor: str, dim: int, outputs: tuple[Output, ...]) -> Signature:
        """The signature of a model of one tensor, [batch, dim] float32."""
        return cls((Input(FEATURES, DENSE, "float32", (dim,), (tensor,)),), outputs)

    @property
    def feeds(self) -> list[str]:
        """The tensors that are fed, in order."""
        return [tensor for each in self.inputs for tensor in each.tensors]

    @property
    def fetches(self) -> list[str]:
        """The tensors of the outputs, in order."""
        return [output.tensor for output in self.outputs]

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Signature:
        """Reads what `dataclasses.asdict` made of a signature, in this version or an earlier one.

        Raises:
            KeyError, TypeError, ValueError: It is something else.
        """
        outputs = tuple(
            Output(str(each["name"]), str(each["tensor"]), str(each["dtype"]), tuple(each["shape"]))
            for each in value["outputs"]
        )
        if "inputs" not in value:  # Version 1 of the format knew one dense input only.
            return cls.of_features(str(value["features"]), int(value["dim"]), outputs)
        inputs = tuple(map(_input, value["inputs"]))
        if not inputs or (len(inputs) > 1 and not value["named"]):
            raise ValueError(f"a signature with {len(inputs)} inputs, named: {value['named']}")
        return cls(inputs, outputs, bool(value["named"]), tuple(map(str, value["initializers"])))


def _input(value: Mapping[str, Any]) -> Input:
    kind, tensors = str(value["kind"]), tuple(map(str, value["tensors"]))
    if kind not in (DENSE, SPARSE, RAGGED) or len(tensors) != (1 if kind == DENSE else 3):
        raise ValueError(f"an input of kind {kind!r} with {len(tensors)} tensors")
    shape = tuple(map(int, value["shape"]))
    return Input(str(value["name"]), kind, str(value["dtype"]), shape, tensors)


def part_names(given: Input) -> list[str]:
    """What the tensors of an input are called where there are no sparse tensors."""
    parts = ("",) if len(given.tensors) == 1 else ("/indices", "/values", "/dense_shape")
    return [given.name + part for part in parts]


class Exported(Protocol):
    """What is asked of an `InferenceModel` by those that run, describe and convert it."""

    @property
    def graph_def(self) -> GraphDef:
        """The inference graph with its variables."""

    @property
    def variables(self) -> Mapping[str, npt.NDArray[Any]]:
        """Their values by name."""

    @property
    def signature(self) -> Signature:
        """Inputs and outputs."""

    @property
    def extra(self) -> Mapping[str, Any]:
        """Further values that JSON can hold."""

    def to_graph_def(self, frozen: bool = True) -> GraphDef:
        """The graph, with constants in place of the variables unless `frozen` is false."""
