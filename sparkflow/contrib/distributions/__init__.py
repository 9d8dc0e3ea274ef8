"""`tf.contrib.distributions`: the names of `tf.distributions`."""

from typing import Any

import sparkflow as tf


def __getattr__(name: str) -> Any:
    return getattr(tf.distributions, name)
