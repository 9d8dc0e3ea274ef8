"""`tf.parse_example` and its like: serialized messages as tensors, tensors as strings.

Made by `scripts/generate_api.py` from `sparkflow/_api/ops/files/parsing.py`.
"""

from __future__ import annotations

from typing import Any

from sparkflow.graph.scopes import apply_op
from sparkflow.graph.tensor import Tensor
from sparkflow_runtime.dtypes import as_dtype

__all__ = [
    "decode_json_example",
    "parse_tensor",
]


def parse_tensor(serialized: Any, out_type: Any, name: str | None = None) -> Tensor:
    """The tensor in a serialized TensorProto, of dtype `out_type`.

    Args:
        serialized: Tensor [...] of string.
        out_type: The dtype: any type.
        name: Name of the node.

    Returns:
        A tensor of dtype `out_type`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op("ParseTensor", serialized, out_type=as_dtype(out_type), name=name)
    return result


def decode_json_example(json_examples: Any, name: str | None = None) -> Tensor:
    """Serialized `tf.train.Example` messages from their JSON form.

    Args:
        json_examples: Tensor [...] of string.
        name: Name of the node.

    Returns:
        A string tensor of the shape of `json_examples`.

    Raises:
        TypeError: The dtype is not one of those above.
    """
    result: Tensor = apply_op("DecodeJSONExample", json_examples, name=name)
    return result
