"""The examples of docs/training.md, run as they stand."""

# ruff: noqa: S102  (what is run is our own documentation)

import re
from pathlib import Path

import pytest

import sparkflow as tf

PAGE = Path(__file__).parents[2] / "docs" / "training.md"
EXAMPLES = re.findall(r"```python\n(.+?)```", PAGE.read_text(), re.DOTALL)


@pytest.mark.parametrize("code", EXAMPLES, ids=["monitored", "loops", "hook", "synchronous"])
def test_the_example_runs(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with tf.Graph().as_default():
        exec(code, {"__name__": "example"})
    tf.summary.FileWriterCache.clear()
