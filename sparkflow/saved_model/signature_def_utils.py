"""Signatures: a model's input and output tensors, under the names that serving systems use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparkflow._api.loading import answers
from sparkflow.graph.scopes import convert_to_tensor
from sparkflow.graph.tensor import Tensor
from sparkflow.saved_model import signature_constants as names
from sparkflow.saved_model.utils import build_tensor_info
from sparkflow_runtime import dtypes
from sparkflow_runtime.protos.meta_graph_pb2 import SignatureDef, TensorInfo


def build_signature_def(
    inputs: Mapping[str, TensorInfo] | None = None,
    outputs: Mapping[str, TensorInfo] | None = None,
    method_name: str | None = None,
) -> SignatureDef:
    """A signature of messages of `build_tensor_info`.

    Args:
        inputs: What is fed, by name.
        outputs: What is fetched, by name.
        method_name: What kind of request it serves.
    """
    signature = SignatureDef(method_name=method_name or "")
    for name, info in (inputs or {}).items():
        signature.inputs[name].CopyFrom(info)
    for name, info in (outputs or {}).items():
        signature.outputs[name].CopyFrom(info)
    return signature


def regression_signature_def(examples: Any, predictions: Any) -> SignatureDef:
    """A signature from serialised examples to numbers.

    Args:
        examples: [batch] strings.
        predictions: [batch] float32.

    Raises:
        ValueError: One is missing, or of another type.
    """
    if examples is None:
        raise ValueError("Regression examples cannot be None.")
    if not isinstance(examples, Tensor):
        raise ValueError(f"Regression examples must be a string Tensor, got {examples!r}")
    if predictions is None:
        raise ValueError("Regression predictions cannot be None.")
    inputs = {names.REGRESS_INPUTS: _info("Regression examples", examples, dtypes.string)}
    outputs = {
        names.REGRESS_OUTPUTS: _info("Regression output tensors", predictions, dtypes.float32)
    }
    return build_signature_def(inputs, outputs, names.REGRESS_METHOD_NAME)


def classification_signature_def(examples: Any, classes: Any, scores: Any) -> SignatureDef:
    """A signature from serialised examples to classes, their scores, or both.

    Args:
        examples: [batch] strings.
        classes: [batch, classes] strings, or None.
        scores: [batch, classes] float32, or None.

    Raises:
        ValueError: There are no examples, neither classes nor scores, or one is of another type.
    """
    if examples is None:
        raise ValueError("Classification examples cannot be None.")
    if not isinstance(examples, Tensor):
        raise ValueError(f"Classification examples must be a string Tensor, got {examples!r}")
    if classes is None and scores is None:
        raise ValueError("Classification classes and scores cannot both be None.")
    inputs = {names.CLASSIFY_INPUTS: _info("Classification input", examples, dtypes.string)}
    outputs = {}
    if classes is not None:
        outputs[names.CLASSIFY_OUTPUT_CLASSES] = _info(
            "Classification classes", classes, dtypes.string
        )
    if scores is not None:
        outputs[names.CLASSIFY_OUTPUT_SCORES] = _info(
            "Classification scores", scores, dtypes.float32
        )
    return build_signature_def(inputs, outputs, names.CLASSIFY_METHOD_NAME)


def predict_signature_def(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> SignatureDef:
    """A signature from tensors to tensors, both by name.

    Raises:
        ValueError: There are no inputs or no outputs.
    """
    if not inputs:
        raise ValueError("Prediction inputs cannot be None or empty.")
    if not outputs:
        raise ValueError("Prediction outputs cannot be None or empty.")
    return build_signature_def(
        {name: build_tensor_info(tensor) for name, tensor in inputs.items()},
        {name: build_tensor_info(tensor) for name, tensor in outputs.items()},
        names.PREDICT_METHOD_NAME,
    )


def is_valid_signature(signature_def: SignatureDef | None) -> bool:
    """Whether a signature has the inputs and outputs that its method name requires."""
    if signature_def is None:
        return False
    inputs, outputs = set(signature_def.inputs), set(signature_def.outputs)
    types = {key: int(info.dtype) for key, info in signature_def.outputs.items()}
    text, number = dtypes.string.number, dtypes.float32.number
    if signature_def.method_name == names.PREDICT_METHOD_NAME:
        return bool(inputs and outputs)
    if signature_def.method_name == names.REGRESS_METHOD_NAME:
        return (
            inputs == {names.REGRESS_INPUTS}
            and signature_def.inputs[names.REGRESS_INPUTS].dtype == text
            and types == {names.REGRESS_OUTPUTS: number}
        )
    if signature_def.method_name == names.CLASSIFY_METHOD_NAME:
        allowed = {names.CLASSIFY_OUTPUT_CLASSES: text, names.CLASSIFY_OUTPUT_SCORES: number}
        return (
            inputs == {names.CLASSIFY_INPUTS}
            and signature_def.inputs[names.CLASSIFY_INPUTS].dtype == text
            and bool(types)
            and types.items() <= allowed.items()
        )
    return False


def _info(label: str, value: Any, dtype: dtypes.DType) -> TensorInfo:
    tensor = convert_to_tensor(value)
    if tensor.dtype.base is not dtype:
        raise ValueError(f"{label} must be of type {dtype.name}, got {tensor.dtype.name}")
    return build_tensor_info(tensor)


__getattr__ = answers("saved_model.signature_def_utils")

__all__ = [
    "build_signature_def",
    "classification_signature_def",
    "is_valid_signature",
    "predict_signature_def",
    "regression_signature_def",
]
