"""The examples of docs/parameter_servers.md, run as they stand."""

# ruff: noqa: S102  (what is run is our own documentation)

import re
from pathlib import Path

import pytest

import sparkflow as tf

PAGE = Path(__file__).parents[2] / "docs" / "parameter_servers.md"
EXAMPLES = re.findall(r"```python\n(.+?)```\n\n```text\n(.+?)```", PAGE.read_text(), re.DOTALL)


@pytest.mark.parametrize(("code", "output"), EXAMPLES, ids=["by size", "growing", "narrow"])
def test_the_example_prints_what_the_page_says(
    code: str, output: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with tf.Graph().as_default():
        exec(code, {"__name__": "example"})
    assert capsys.readouterr().out == output
