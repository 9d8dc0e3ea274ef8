"""The example of docs/layers.md, run as it stands."""

# ruff: noqa: S102  (what is run is our own documentation)

import re
from pathlib import Path

import sparkflow as tf

PAGE = Path(__file__).parents[2] / "docs" / "layers.md"


def test_the_example_runs() -> None:
    (code,) = re.findall(r"```python\n(.+?)```", PAGE.read_text(), re.DOTALL)
    with tf.Graph().as_default():
        exec(code, {"__name__": "example"})
