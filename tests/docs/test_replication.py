"""The example of docs/replication.md that is a whole program, run as it stands."""

# ruff: noqa: S102  (what is run is our own documentation)

import re
from pathlib import Path

import pytest

import sparkflow as tf

PAGE = Path(__file__).parents[2] / "docs" / "replication.md"
EXAMPLES = re.findall(r"```python\n(.+?)```", PAGE.read_text(), re.DOTALL)


def test_gradient_accumulation_prints_what_the_page_says(
    capsys: pytest.CaptureFixture[str],
) -> None:
    (code,) = [each for each in EXAMPLES if each.startswith("import")]
    with tf.Graph().as_default():
        exec(code, {"__name__": "example"})
    said = re.findall(r"# ([\d.]+)$", code, re.MULTILINE)
    assert [float(each) for each in capsys.readouterr().out.split()] == [float(s) for s in said]


@pytest.mark.parametrize("code", [each for each in EXAMPLES if not each.startswith("import")])
def test_the_other_examples_are_python(code: str) -> None:
    compile(code, "example", "exec")
