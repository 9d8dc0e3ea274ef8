"""Loops that are planned by the shapes of their own variables."""

from typing import Any

import numpy as np

from sparkflow_runtime import dtypes
from sparkflow_runtime.compiler.loops.by_shapes import (
    MOST,
    SIGHTINGS,
    SIGHTINGS_WHEN_FULL,
    LoopByShapes,
)
from sparkflow_runtime.ir.node import Endpoint, Node
from sparkflow_runtime.ops.lists.tensor_list import TensorList
from sparkflow_runtime.ops.op import Held


def x(*shape: int) -> Any:
    return np.zeros(shape, np.float32)


class Loops:
    """A loop of an array, a list and a tape, whose kernels only say which one runs."""

    def __init__(self) -> None:
        kinds = [dtypes.float32, dtypes.variant, dtypes.variant]
        forward = Node("forward", "While", (), (), "", {"T": kinds, "body": "turn"})
        inputs = (Endpoint("a", 0), Endpoint("b", 0), Endpoint("forward", 3))
        node = Node("loop", "While", inputs, (), "", {"T": kinds, "body": "back"})
        reader = Node("reader", "Identity", (Endpoint("loop", 0),), (), "", {})
        self.bound: list[dict[Endpoint, Any]] = []
        self.kernel = LoopByShapes(
            node, lambda *_: "general", [forward, node, reader], self.bind, lambda _: ("h:0", "c:0")
        )

    def bind(self, node: Node, known: Any, read: Any) -> Any:
        assert Endpoint("loop", 0) in read
        self.bound.append(dict(known))
        number = len(self.bound)
        return lambda *_: f"planned {number}"

    def run(self, batch: int, length: int = 5, tape: Any = None, element: int = 3) -> str:
        rows = TensorList.rows_of(x(length, batch, element))
        given = [(x(batch), x(batch, 2))] * length if tape is None else tape
        found: str = self.kernel(None, x(batch, 4), rows, given)
        return found


def test_a_loop_is_planned_when_shapes_are_seen_again_whatever_the_lengths() -> None:
    loops = Loops()
    assert [loops.run(6, length) for length in (5, 9, 2, 7)] == ["general", *["planned 1"] * 3]
    (known,) = loops.bound
    array, rows, tape = known.values()
    assert array.full_shape == (6, 4)
    assert rows.held == Held(None, (6, 3))
    assert tape.held == Held(tensors={"h:0": (6,), "c:0": (6, 2)})


def test_everything_that_a_plan_depends_on_is_told_apart() -> None:
    loops = Loops()
    different: list[dict[str, Any]] = [{}, {"element": 4}, {"tape": []}, {"tape": [(x(6), x(6))]}]
    for given in different:
        assert [loops.run(6, **given) for _ in range(SIGHTINGS + 1)][:-1] == [
            "general",
            f"planned {len(loops.bound)}",
        ]
    assert len(loops.bound) == len(different)
    unset = TensorList.unset(3, np.dtype(np.float32))
    for _ in range(2):
        found = loops.kernel(None, x(6, 4), unset, [])
    assert found == "planned 5"
    assert loops.bound[-1][Endpoint("b", 0)].held == Held(is_unset=True)
    assert loops.bound[-1][Endpoint("forward", 3)].held == Held()


def test_many_shapes_do_not_drive_out_each_other() -> None:
    loops = Loops()
    for _ in range(SIGHTINGS_WHEN_FULL - 1):
        for batch in range(1, 3 * MOST):
            loops.run(batch)
    assert len(loops.bound) == MOST
    assert loops.run(1) == "planned 1"
    for _ in range(SIGHTINGS_WHEN_FULL):
        found = loops.run(3 * MOST)
    assert found == f"planned {MOST + 1}"  # in the place of the least recently used one
    assert loops.run(2) == "general"
    assert loops.run(1) == "planned 1"


def test_other_variants_are_not_looked_into() -> None:
    loops = Loops()
    others: list[Any] = [{(0, "h:0"): x(6)}, [x(), x()], object()]
    for other in others:
        for _ in range(2):
            loops.kernel(None, x(6, 4), other, [])
    assert [each[Endpoint("b", 0)].held for each in loops.bound] == [Held()]


def test_lists_of_items_and_loops_that_cannot_be_planned() -> None:
    loops = Loops()
    items: list[Any] = [None, x(6, 3), None]
    rows = TensorList(items, np.dtype(np.float32))
    for _ in range(2):
        loops.kernel(None, x(6, 4), rows, [])
    assert loops.bound[0][Endpoint("b", 0)].held.element == (6, 3)
    never = Loops()
    never.bind = lambda *_: None  # type: ignore[method-assign]
    never.kernel._bind = never.bind
    assert [never.run(2) for _ in range(3)] == ["general"] * 3
