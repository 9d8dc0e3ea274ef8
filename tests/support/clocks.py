"""Clocks of single modules: what a test does to them, no thread of another module's notices."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest


def give_time(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType, **functions: Callable[..., Any]
) -> None:
    """Gives a module that imports `time` one of its own, until the test ends.

    Args:
        monkeypatch: The test's.
        module: The module.
        functions: What differs from `time`, by name; such as `sleep`.
    """
    assert module.time is time, f"{module.__name__} imports no time"
    monkeypatch.setattr(module, "time", SimpleNamespace(**{**vars(time), **functions}))
