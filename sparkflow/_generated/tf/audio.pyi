"""`tf.audio`: WAV files of 16-bit samples.

Made by `scripts/generate_api.py`.
"""

from sparkflow._generated.ops.files.audio import encode_wav
from sparkflow.ops.files.audio import decode_wav

__all__ = [
    "decode_wav",
    "encode_wav",
]
