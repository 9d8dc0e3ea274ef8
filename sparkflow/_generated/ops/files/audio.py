"""`tf.audio`: WAV files of 16-bit samples.

Made by `scripts/generate_api.py` from `sparkflow/_api/ops/files/audio.py`.
"""

from __future__ import annotations

from typing import Any

from sparkflow.graph.scopes import apply_op
from sparkflow.graph.tensor import Tensor

__all__ = [
    "encode_wav",
]


def encode_wav(audio: Any, sample_rate: Any, name: str | None = None) -> Tensor:
    """A WAV file of [samples, channels] float32 in [-1, 1], as a scalar string.

    Args:
        audio: Matrix of float32.
        sample_rate: Scalar of int32.
        name: Name of the node.

    Returns:
        A string tensor.

    Raises:
        TypeError: The dtype is not one of those above.
        ValueError: The shapes do not fit.
    """
    result: Tensor = apply_op("EncodeWav", audio, sample_rate, name=name)
    return result
