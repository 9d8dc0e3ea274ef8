"""`tf.contrib.signal`: the names of `tf.signal`."""

from typing import Any

import sparkflow as tf


def __getattr__(name: str) -> Any:
    return getattr(tf.signal, name)
