"""The examples of docs/cluster.md, run as they stand."""

# ruff: noqa: S102  (what is run is our own documentation)

import re
from pathlib import Path

import pytest

import sparkflow as tf

PAGE = Path(__file__).parents[2] / "docs" / "cluster.md"
EXAMPLES = re.findall(r"```python\n(.+?)```", PAGE.read_text(), re.DOTALL)


def test_there_are_examples() -> None:
    assert len(EXAMPLES) == 2


@pytest.mark.parametrize("code", EXAMPLES, ids=["server", "testing"])
def test_the_example_runs(code: str) -> None:
    with tf.Graph().as_default():
        exec(code, {"__name__": "example"})
