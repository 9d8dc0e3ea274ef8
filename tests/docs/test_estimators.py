"""The examples of docs/estimators.md, run as they stand."""

# ruff: noqa: S102  (what is run is our own documentation)

import re
from pathlib import Path

import pytest

import sparkflow as tf

PAGE = Path(__file__).parents[2] / "docs" / "estimators.md"
EXAMPLES = re.findall(r"## ([^\n]+)\n(?:(?!\n## ).)*?```python\n(.+?)```", PAGE.read_text(), re.S)


@pytest.mark.parametrize("code", [code for _, code in EXAMPLES], ids=[name for name, _ in EXAMPLES])
def test_the_example_runs(code: str, tmp_path: Path) -> None:
    with tf.Graph().as_default():
        exec(code, {"__name__": "example", "directory": str(tmp_path)})


def test_every_example_is_found() -> None:
    assert len(EXAMPLES) == PAGE.read_text().count("```python") == 5
