"""Clocks of single modules: threads of other modules do not notice what a test does to them."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest


def give_time(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType, **functions: Callable[..., Any]
) -> None:
    """Gives a module that imports `time` its own copy until the test ends.

    Args:
        monkeypatch: The fixture.
        module: The module.
        functions: The replacements of functions of `time`, by name, such as `sleep`.
    """
    assert module.time is time, f"{module.__name__} imports no time"
    monkeypatch.setattr(module, "time", SimpleNamespace(**{**vars(time), **functions}))
