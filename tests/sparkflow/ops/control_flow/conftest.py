"""Shared by tests of loops: a graph per test, and whether loops ran in machine code."""

from collections.abc import Iterator

import pytest

import sparkflow as tf
from support.loops import spied_runs


@pytest.fixture(autouse=True)
def graph() -> Iterator[None]:
    with tf.Graph().as_default():
        yield


@pytest.fixture
def native_runs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Records the numbers of iterations of loops in machine code."""
    return spied_runs(monkeypatch)
