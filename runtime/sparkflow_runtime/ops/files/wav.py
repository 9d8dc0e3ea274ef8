"""WAV files of 16-bit samples as tensors, and back."""

from __future__ import annotations

import io
import wave
from typing import Any

import numpy as np

from sparkflow_runtime import shapes
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.op import Array, Inference
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import int_attr
from sparkflow_runtime.ops.static import scalar
from sparkflow_runtime.ops.strings.string_arrays import StringOp, array_of, scalar_text
from sparkflow_runtime.shapes import Shape

_SCALE = 32768.0


@register
class DecodeWav(StringOp):
    """The samples in [-1, 1], [samples, channels], and the samples per second."""

    inputs = "contents: string"
    outputs = "audio: float32, sample_rate: int32"
    attrs = {"desired_channels": int_attr(-1), "desired_samples": int_attr(-1)}

    def infer(self, node: Inference) -> list[Shape]:
        """With the sizes that are asked for.

        Raises:
            InvalidArgumentError: The contents are no scalar.
        """
        node.with_rank(0, 0, "Shape")
        samples, channels = node.attrs["desired_samples"], node.attrs["desired_channels"]
        return [
            (None if samples < 0 else samples, None if channels < 0 else channels),
            shapes.SCALAR,
        ]

    def compute(
        self, xp: Any, contents: Array, *, desired_channels: int, desired_samples: int
    ) -> tuple[Array, Array]:
        """Cut or padded with silence; one channel is repeated, of several the first are taken."""
        try:
            with wave.open(io.BytesIO(scalar_text(contents, "contents"))) as file:
                rate, width = file.getframerate(), file.getsampwidth()
                channels, data = file.getnchannels(), file.readframes(file.getnframes())
        except (wave.Error, EOFError) as error:
            raise InvalidArgumentError(message=f"This is no WAV file: {error}") from error
        if width != 2:
            raise InvalidArgumentError(
                message=f"Can only read 16-bit WAV files, but received {8 * width}"
            )
        audio = np.frombuffer(data, "<i2").astype(np.float32).reshape(-1, channels) / _SCALE
        audio = audio.astype(np.float32)
        if desired_channels > 0 and desired_channels != channels:
            audio = audio[:, [min(i, channels - 1) for i in range(desired_channels)]]
        if desired_samples >= 0:
            audio = audio[:desired_samples]
            missing = desired_samples - len(audio)
            audio = np.pad(audio, ((0, missing), (0, 0)))
        return audio, np.int32(rate)


@register
class EncodeWav(StringOp):
    """A WAV file of samples, which are clipped to [-1, 1]."""

    inputs = "audio: float32, sample_rate: int32"
    outputs = "contents: string"

    def infer(self, node: Inference) -> list[Shape]:
        """A scalar.

        Raises:
            InvalidArgumentError: The audio is no matrix, or the rate no scalar.
        """
        node.with_rank(0, 2, "Shape")
        node.with_rank(1, 0, "Shape")
        return [shapes.SCALAR]

    def compute(self, xp: Any, audio: Array, sample_rate: Array) -> Array:
        """Fails for a rate of 0 and for audio without channels."""
        rate = scalar(sample_rate, "sample_rate")
        if np.ndim(audio) != 2 or not audio.shape[1] or rate <= 0:
            raise InvalidArgumentError(
                message=f"encode_wav takes [samples, channels] and a rate above 0, got shape "
                f"{np.shape(audio)} and {rate}"
            )
        samples = np.clip(np.round(audio * (_SCALE - 1)), -_SCALE, _SCALE - 1).astype("<i2")
        target = io.BytesIO()
        with wave.open(target, "wb") as file:
            file.setnchannels(audio.shape[1])
            file.setsampwidth(2)
            file.setframerate(rate)
            file.writeframes(samples.tobytes())
        return array_of([target.getvalue()], ())
