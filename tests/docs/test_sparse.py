"""The examples of docs/sparse.md print what the page says."""

# ruff: noqa: S102  (what is run is our own documentation)

import re
from pathlib import Path

import pytest

import sparkflow as tf

PAGE = (Path(__file__).parents[2] / "docs" / "sparse.md").read_text()
EXAMPLES = re.findall(r"```python\n(.+?)```\n\n```text\n(.+?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize(("code", "printed"), EXAMPLES)
def test_the_example_prints_what_is_shown(code: str, printed: str, capsys) -> None:
    with tf.Graph().as_default():
        exec(code, {"__name__": "example"})
    assert capsys.readouterr().out == printed


def test_every_example_is_found() -> None:
    assert len(EXAMPLES) == PAGE.count("```python") == 2
