"""`tf.audio`: WAV files of 16-bit samples."""

from sparkflow._api.row import Row

ROWS = (
    Row(
        "EncodeWav",
        "audio.encode_wav",
        "audio, sample_rate",
        "A WAV file of [samples, channels] float32 in [-1, 1], as a scalar string.",
    ),
)
