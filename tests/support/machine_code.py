"""Tests with machine code and with numpy."""

from __future__ import annotations

from typing import Any

import pytest

from sparkflow_runtime.codegen.machine import native


def with_and_without() -> Any:
    """Returns a fixture, used by all tests of a module, that repeats them without machine code."""

    @pytest.fixture(params=[True, False], ids=["machine_code", "numpy"], autouse=True)
    def fixture(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
        if not request.param:
            monkeypatch.setattr(native, "available", lambda: False)
        elif not native.available():
            pytest.skip("needs llvmlite")

    return fixture
