"""What counts as a step of a constructor."""

import gc

import pytest

from support import construction


def test_callbacks_of_the_garbage_collector_are_no_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(construction, "_OURS", (__file__,))

    def told(phase: str, info: dict[str, int]) -> None:
        phase.upper()

    gc.collect()  # garbage of other tests may have finalizers
    gc.callbacks.append(told)
    try:
        found = construction.steps_of(lambda: gc.collect())
    finally:
        gc.callbacks.remove(told)
    assert {name for _, _, name in found} == {"collect"}
