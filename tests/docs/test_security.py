"""The examples of docs/security.md, run as they stand."""

# ruff: noqa: S102  (what is run is our own documentation)

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "security.md"
EXAMPLES = re.findall(r"```python\n(.+?)```", PAGE.read_text(), re.DOTALL)


@pytest.mark.parametrize("code", EXAMPLES, ids=["user", "token", "tls", "files", "spark", "graphs"])
def test_the_example_runs(code: str) -> None:
    exec(code, {"__name__": "example"})
