"""What tests of loops share: a graph each, and whether loops ran in machine code."""

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
    """The numbers of turns that loops made in machine code."""
    return spied_runs(monkeypatch)
