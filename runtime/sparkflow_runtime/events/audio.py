"""Audio summaries: samples as a 16-bit WAV file."""

from __future__ import annotations

import io
import wave
from typing import Any

import numpy as np


def encode_wav(samples: np.ndarray[Any, Any], sample_rate: int) -> bytes:
    """Returns a WAV file.

    Args:
        samples: [frames, channels] floats, clipped to [-1, 1].
        sample_rate: Frames per second.
    """
    scaled = samples.astype(np.float32) * np.float32(1 << 15)
    # Rounds half away from zero.
    rounded = np.trunc(scaled + np.copysign(np.float32(0.5), scaled))
    content = np.clip(rounded, -(1 << 15), (1 << 15) - 1).astype("<i2")
    stream = io.BytesIO()
    with wave.open(stream, "wb") as file:
        file.setnchannels(samples.shape[1])
        file.setsampwidth(2)
        file.setframerate(sample_rate)
        file.writeframes(content.tobytes())
    return stream.getvalue()
