"""A model's inputs and outputs as an MLflow signature, and an input example.

A model of dense numbers takes tensors: arrays by name, or one array. A model with a column of
texts, of lists of any length or of sparse rows takes data frames; a sparse row is an object of
`indices` and `values`. Numbers of columns are doubles, as JSON and Spark have them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow.export.signature import DENSE, SPARSE, Input, Output, Signature


def takes_tensors(signature: Signature) -> bool:
    """Whether all inputs are dense numbers."""
    return all(each.kind == DENSE and each.dtype != "string" for each in signature.inputs)


def mlflow_signature(signature: Signature) -> Any:
    """The signature as MLflow's ModelSignature."""
    from mlflow.models import ModelSignature
    from mlflow.types import Schema

    if takes_tensors(signature):
        inputs = [_tensor(each, signature.named) for each in signature.inputs]
    else:
        inputs = [_column(each) for each in signature.inputs]
    outputs = [_output(each) for each in signature.outputs]
    return ModelSignature(inputs=Schema(inputs), outputs=Schema(outputs))


def example(signature: Signature) -> Any:
    """One made-up row that the model takes: zeros and the text "text".

    No row of the training is used: those may be nobody's business where models are kept.
    """
    if takes_tensors(signature):
        arrays = {each.name: np.zeros((1, *each.shape), each.dtype) for each in signature.inputs}
        return arrays if signature.named else next(iter(arrays.values()))
    import pandas as pd

    return pd.DataFrame({each.name: [_cell(each)] for each in signature.inputs})


def _tensor(each: Input, named: bool) -> Any:
    from mlflow.types import TensorSpec

    return TensorSpec(np.dtype(each.dtype), (-1, *each.shape), each.name if named else None)


def _column(each: Input) -> Any:
    from mlflow.types import ColSpec
    from mlflow.types.schema import Array, DataType, Object, Property

    element = {"string": DataType.string, "int64": DataType.long}.get(each.dtype, DataType.double)
    found: Any = element
    if each.kind == SPARSE:
        indices = Property("indices", Array(DataType.long))
        found = Object([indices, Property("values", Array(element))])
    else:
        for _ in range(len(each.shape) if each.kind == DENSE else 1):
            found = Array(found)
    return ColSpec(found, each.name)


def _output(each: Output) -> Any:
    from mlflow.types import ColSpec
    from mlflow.types.schema import Array, DataType

    kind = "O" if each.dtype == "string" else np.dtype(each.dtype).kind
    kinds = {"O": DataType.string, "b": DataType.boolean, "i": DataType.long, "u": DataType.long}
    found: Any = kinds.get(kind, DataType.double)
    for _ in each.shape:
        found = Array(found)
    return ColSpec(found, each.name)


def _cell(each: Input) -> Any:
    value: Any = {"string": "text", "int64": 0}.get(each.dtype, 0.0)
    if each.kind == SPARSE:
        return {"indices": [0], "values": [value]}
    if each.kind != DENSE:
        return [value]
    for size in reversed(each.shape):
        value = [value] * size
    return value
