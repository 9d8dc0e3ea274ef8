"""Parts of `tf.contrib` that are not here, and what to use instead."""

from __future__ import annotations

from typing import NoReturn

ABSENT = {
    "cudnn_rnn": "use tf.contrib.rnn.LSTMBlockFusedCell or tf.nn.dynamic_rnn with tf.nn.rnn_cell",
    "grid_rnn": "use tf.nn.rnn_cell",
    "image": "use tf.image",
    "memory_stats": "use RunOptions.FULL_TRACE with RunMetadata",
    "model_pruning": "mask the weights in the graph",
    "tensorrt": "run the graph in a session",
    "tpu": "use tf.estimator with CPUs and GPUs",
}


def refuse(name: str) -> NoReturn:
    """Tells that a part is not here.

    Raises:
        AttributeError: Always.
    """
    hint = ABSENT.get(name)
    what = f"tf.contrib.{name} is not part of sparkflow"
    raise AttributeError(f"{what}: {hint}" if hint else f"{what}, see docs/contrib.md")
