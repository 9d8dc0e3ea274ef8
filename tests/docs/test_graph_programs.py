"""The examples of docs/graph_programs.md, run as they stand."""

# ruff: noqa: S102  (what is run is our own documentation)

import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import sparkflow as tf

PAGE = Path(__file__).parents[2] / "docs" / "graph_programs.md"
EXAMPLES = re.findall(r"## (.+?)\n.*?```python\n(.+?)```", PAGE.read_text(), re.DOTALL)


@pytest.mark.parametrize("code", [code for _, code in EXAMPLES], ids=[name for name, _ in EXAMPLES])
def test_the_example_runs(code: str) -> None:
    for port in re.findall(r"localhost:(\d+)", code):
        code = code.replace(port, str(free_port()))
    if "enable_eager_execution" in code:  # which is for a whole program
        subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
        return
    with tf.Graph().as_default():
        exec(code, {"__name__": "example"})


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def test_every_example_is_found() -> None:
    assert len(EXAMPLES) == PAGE.read_text().count("```python") == 8
