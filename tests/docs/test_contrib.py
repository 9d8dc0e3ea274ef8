"""The examples of docs/contrib.md and docs/own_ops.md, run as they stand."""

# ruff: noqa: S102  (what is run is our own documentation)

import re
from pathlib import Path

import pytest

import sparkflow as tf
from sparkflow_runtime.ops import registry

DOCS = Path(__file__).parents[2] / "docs"
EXAMPLES = {
    page: re.findall(r"```python\n(.+?)```", (DOCS / page).read_text(), re.DOTALL)
    for page in ("contrib.md", "own_ops.md")
}


@pytest.mark.parametrize("page", EXAMPLES)
def test_the_examples_run(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert EXAMPLES[page]
    monkeypatch.setattr(registry, "_OPS", dict(registry._OPS))
    with tf.Graph().as_default():
        names = {"__name__": "example"}
        for example in EXAMPLES[page]:
            exec(example, names)
