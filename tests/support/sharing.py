"""Kernels with one thread, and with several however small the work is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any

import pytest

from sparkflow_runtime.codegen.machine import threads


def shared_among(
    module: ModuleType, least: str, counts: Sequence[int] = (1, 2), autouse: bool = False
) -> Any:
    """Returns a fixture that repeats tests with each of these numbers of threads.

    Args:
        module: The module of the kernels.
        least: The name there of the minimum work of a kernel for sharing it among threads.
        counts: The numbers of threads.
        autouse: See `pytest.fixture`.
    """

    @pytest.fixture(params=counts, autouse=autouse)
    def fixture(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        monkeypatch.setattr(module, least, 0)
        threads.set_count(request.param)
        yield
        threads.set_count(0)

    return fixture
