"""`tf.audio`: 16-bit WAV files."""

from __future__ import annotations

from typing import Any

from sparkflow._api import export
from sparkflow._generated.ops.files.audio import *  # noqa: F403
from sparkflow._generated.ops.files.audio import encode_wav
from sparkflow.graph.scopes import apply_op
from sparkflow.graph.tensor import Tensor


@export("audio.decode_wav")
def decode_wav(
    contents: Any, desired_channels: int = -1, desired_samples: int = -1, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """Decodes a WAV file.

    Args:
        contents: A scalar string.
        desired_channels: The number of channels; the file's if -1.
        desired_samples: The number of samples, truncated or padded with silence; the file's if -1.
        name: The node's name.

    Returns:
        [samples, channels] float32 in [-1, 1], and the samples per second, int32.
    """
    audio, rate = apply_op(
        "DecodeWav",
        contents,
        desired_channels=desired_channels,
        desired_samples=desired_samples,
        name=name,
    )
    return audio, rate


__all__ = ["decode_wav", "encode_wav"]
