"""Outputs of an exported model: predictions, classes with scores, or numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparkflow.graph.operators import Symbolic
from sparkflow.saved_model.signature_def_utils import (
    classification_signature_def,
    predict_signature_def,
    regression_signature_def,
)
from sparkflow_runtime.dtypes import string
from sparkflow_runtime.protos.meta_graph_pb2 import SignatureDef


class ExportOutput:
    """One signature of a model."""

    def as_signature_def(self, receiver_tensors: Mapping[str, Any]) -> SignatureDef:
        """The signature for these inputs."""
        raise NotImplementedError(type(self).__name__)


class ClassificationOutput(ExportOutput):
    """Classes, or their scores, or both.

    Args:
        scores: `[batch, classes]` real numbers.
        classes: `[batch, classes]` strings.

    Raises:
        ValueError: Both are missing, or one is of another dtype.
    """

    def __init__(self, scores: Any = None, classes: Any = None) -> None:
        if scores is not None and not _is_real(scores):
            raise ValueError(f"Classification scores must be a float32 Tensor; got {scores}")
        if classes is not None and not _is_text(classes):
            raise ValueError(f"Classification classes must be a string Tensor; got {classes}")
        if scores is None and classes is None:
            raise ValueError("At least one of scores and classes must be set.")
        self._scores = scores
        self._classes = classes

    @property
    def scores(self) -> Any:
        """The scores."""
        return self._scores

    @property
    def classes(self) -> Any:
        """The classes."""
        return self._classes

    def as_signature_def(self, receiver_tensors: Mapping[str, Any]) -> SignatureDef:
        """A classification of serialised examples.

        Raises:
            ValueError: There is more than one input, or it is no string.
        """
        examples = _examples(receiver_tensors, "Classification")
        return classification_signature_def(examples, self._classes, self._scores)


class RegressionOutput(ExportOutput):
    """Numbers.

    Args:
        value: `[batch]` or `[batch, 1]` real numbers.

    Raises:
        ValueError: It is of another dtype.
    """

    def __init__(self, value: Any) -> None:
        if not _is_real(value):
            raise ValueError(f"Regression output value must be a float32 Tensor; got {value}")
        self._value = value

    @property
    def value(self) -> Any:
        """The numbers."""
        return self._value

    def as_signature_def(self, receiver_tensors: Mapping[str, Any]) -> SignatureDef:
        """A regression of serialised examples.

        Raises:
            ValueError: There is more than one input, or it is no string.
        """
        return regression_signature_def(_examples(receiver_tensors, "Regression"), self._value)


class PredictOutput(ExportOutput):
    """Any tensors.

    Args:
        outputs: Tensors by name; a single one is named `output`.

    Raises:
        ValueError: A name is no string, or something is no tensor.
    """

    def __init__(self, outputs: Any) -> None:
        named = outputs if isinstance(outputs, Mapping) else {"output": outputs}
        for name, tensor in named.items():
            if not isinstance(name, str):
                raise ValueError(f"Prediction output key must be a string; got {name}.")
            if not isinstance(tensor, Symbolic):
                raise ValueError(f"Prediction output value must be a Tensor; got {tensor}.")
        self._outputs = dict(named)

    @property
    def outputs(self) -> dict[str, Any]:
        """Tensors by name."""
        return self._outputs

    def as_signature_def(self, receiver_tensors: Mapping[str, Any]) -> SignatureDef:
        """A prediction."""
        return predict_signature_def(receiver_tensors, self._outputs)


def _examples(receiver_tensors: Mapping[str, Any], kind: str) -> Any:
    if len(receiver_tensors) != 1:
        raise ValueError(f"{kind} input must be a single string Tensor; got {receiver_tensors}")
    (examples,) = receiver_tensors.values()
    if examples.dtype.base is not string:
        raise ValueError(f"{kind} input must be a single string Tensor; got {receiver_tensors}")
    return examples


def _is_real(value: Any) -> bool:
    dtype = getattr(value, "dtype", None)
    return isinstance(value, Symbolic) and dtype is not None and dtype.is_floating


def _is_text(value: Any) -> bool:
    dtype = getattr(value, "dtype", None)
    return isinstance(value, Symbolic) and dtype is not None and dtype.base is string
