"""The process that serves TensorBoard: its requests and its answers."""

from __future__ import annotations

import io
import json
import logging
import sys
import types
from typing import Any

import pytest

from sparkflow.spark.programs.tensorboard_child import main


@pytest.fixture(autouse=True)
def _logging() -> Any:
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize("fails", [False, True])
def test_it_answers_with_an_address_or_an_error(
    monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    class Server:
        def configure(self, argv: list[str]) -> None:
            self.argv = argv

        def launch(self) -> str:
            if fails:
                raise OSError("the port is taken")
            return " ".join(self.argv[1:4])

    package = types.ModuleType("tensorboard")
    package.program = types.SimpleNamespace(TensorBoard=Server)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tensorboard", package)
    asked = {"folder": "/logs", "host": "::1", "port": 6006}
    answer = io.BytesIO()
    main(io.BytesIO(json.dumps(asked).encode() + b"\n"), answer)
    told = json.loads(answer.getvalue())
    if fails:
        assert told == {"error": "OSError: the port is taken"}
    else:
        assert told == {"url": "--logdir=/logs --host=::1 --port=6006"}
