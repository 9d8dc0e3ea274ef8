from typing import Any

import pytest

from sparkflow_runtime.codegen.cpu.repeat import Call, Check, Choose
from sparkflow_runtime.compiler.loops import steps


def _call(number: int) -> Call:
    return Call(lambda: True, (number,))


def test_products_whose_factors_are_packed_are_chosen_in_branches_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[Any] = []
    monkeypatch.setattr(steps, "Loop", lambda *given: made.append(given))
    first, second = (steps.WithFactor(_call(n), n, _call(n + 10)) for n in (1, 2))
    branch = steps.Branch(5, (first, second), (Check(6),))
    before, after = [_call(8)], [_call(9)]
    steps.LoopSteps([first], [branch, second], 7).loop({2}, before, after)
    ((condition, turn, flag, *around),) = made
    assert condition == [first.plain]
    assert turn == [Choose(5, (first.plain, second.packed), (Check(6),)), second.packed]
    assert flag == 7
    assert around == [before, after]
