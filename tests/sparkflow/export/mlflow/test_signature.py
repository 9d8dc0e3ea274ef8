"""Signatures, and examples that fit them."""

import json

import numpy as np
import pytest

from sparkflow.export import InferenceModel, Input, Output, Signature
from sparkflow.export.mlflow.signature import example, mlflow_signature

pytest.importorskip("mlflow")


def test_texts_lists_and_sparse_rows_are_columns(mixed: InferenceModel) -> None:
    found = {
        each["name"]: each["type"] if each["type"] != "array" else each["items"]
        for each in json.loads(mlflow_signature(mixed.signature).inputs.to_json())
    }
    assert found == {
        "age": "double",
        "id": "long",
        "pixels": {"type": "array", "items": {"type": "double"}},
        "title": "string",
        "bag": "object",
        "words": {"type": "string"},
        "nums": {"type": "double"},
    }
    (row,) = example(mixed.signature).to_dict("records")
    assert row["bag"] == {"indices": [0], "values": [0.0]}
    assert (row["words"], row["pixels"]) == (["text"], [[0.0, 0.0], [0.0, 0.0]])


def test_dense_numbers_are_tensors() -> None:
    outputs = (Output("prediction", "y:0", "int64", ()),)
    inputs = tuple(
        Input(name, "dense", dtype, shape, (f"{name}:0",))
        for name, dtype, shape in (("a", "float32", (2, 3)), ("b", "int64", ()))
    )
    named = Signature(inputs, outputs, True)
    made = mlflow_signature(named)
    assert made.inputs.is_tensor_spec()
    assert made.inputs.input_names() == ["a", "b"]
    assert {name: value.shape for name, value in example(named).items()} == {
        "a": (1, 2, 3),
        "b": (1,),
    }
    alone = Signature(inputs[:1], outputs)
    assert not mlflow_signature(alone).inputs.has_input_names()
    assert np.array_equal(example(alone), np.zeros((1, 2, 3)))
