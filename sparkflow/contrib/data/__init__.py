"""`tf.contrib.data`: the names of `tf.data.experimental`, and `Dataset` and `Iterator`."""

from typing import Any

import sparkflow as tf


def __getattr__(name: str) -> Any:
    data: Any = getattr(tf, "data")  # noqa: B009  (looked up when it is first needed)
    if name in ("Dataset", "Iterator", "FixedLengthRecordDataset", "TFRecordDataset"):
        return getattr(data, name)
    if name == "TextLineDataset":
        return data.TextLineDataset
    return getattr(data.experimental, name)
