"""`tf.audio`: WAV files of 16-bit samples.

Made by `scripts/generate_api.py`.
"""

from sparkflow._api.loading import face

__getattr__, __dir__, __all__ = face(
    __name__,
    {
        "sparkflow._generated.ops.files.audio": "encode_wav",
        "sparkflow.ops.files.audio": "decode_wav",
    },
)
