"""The examples of docs/seeing.md, run as they stand."""

# ruff: noqa: S102  (what is run is our own documentation)

import re
from pathlib import Path

import pytest

import sparkflow as tf

PAGE = Path(__file__).parents[2] / "docs" / "seeing.md"
EXAMPLES = re.findall(r"## (.+?)\n.*?```python\n(.+?)```", PAGE.read_text(), re.DOTALL)


@pytest.mark.parametrize("code", [code for _, code in EXAMPLES], ids=[name for name, _ in EXAMPLES])
def test_the_example_runs(code: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with tf.Graph().as_default():
        exec(code, {"__name__": "example"})


def test_all_examples_are_found() -> None:
    names = ["Summaries", "Traces", "Profiles", "Passes", "Sessions"]
    assert [name for name, _ in EXAMPLES] == names
    assert (PAGE.parent / "images" / "tensorboard_graph.png").is_file()
