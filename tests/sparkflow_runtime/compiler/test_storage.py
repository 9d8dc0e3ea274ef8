"""What is stored in the block of memory of a plan, and what must not be."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.ir.node import Node
from sparkflow_runtime.resources.variable import Variable
from support.graphs import const, node, variable
from support.plans import fetch, new_context, planned
from support.step import FakeStep

NATIVE = pytest.mark.skipif(not native.available(), reason="needs llvmlite")
VALUE = np.arange(-5.0, 7.0, dtype=np.float32).reshape(3, 4, 1)


def view_of_a_variable() -> list[Node]:
    """`last` is a view of `v`, or of the copy of it that the kernel of `here` reads."""
    return [
        variable("v", VALUE.shape),
        node("read", "Identity", "v"),
        node("part", "Unpack", "read", num=1, axis=2),
        node("last", "Squeeze", "part"),
        node("here", "Relu", "part"),
    ]


def what_comes_after() -> list[Node]:
    """Sums and differences, whose results reuse each other's memory in the block."""
    nodes = [const("axes", [0], dtypes.int32)]
    before = "here"
    for i in range(6):
        nodes += [
            node(f"sum{i}", "Sum", before, "axes", keep_dims=True),
            node(f"next{i}", "Sub", before, f"sum{i}"),
        ]
        before = f"next{i}"
    return [*nodes, fetch(before, 0)]


def run(nodes: Sequence[Node], steps: int) -> list[tuple[Any, FakeStep]]:
    """Returns the results of each step of one plan, without copies, and what was sent."""
    context = new_context()
    held = Variable("v", dtypes.float32, VALUE.shape)
    held.array = VALUE.copy()
    context.resources.put("", "v", held)
    plan, program = planned(nodes, context=context)
    found = []
    for _ in range(steps):
        step = FakeStep()
        results = dict(zip(program.results, plan(step), strict=True))
        found.append((results, step))
    return found


@pytest.mark.parametrize("lent", [[], [0]], ids=["snapshot", "lent"])
def test_what_is_lent_stays_while_the_step_goes_on(lent: list[int]) -> None:
    """The receiver may request it later. A step copies the rest of a bundle immediately."""
    send = node(
        "send", "_SendBundle", "last", T=[dtypes.float32], key="k", destination="/job:w", lent=lent
    )
    (results, step), _ = run([*view_of_a_variable(), send, *what_comes_after()], 2)
    assert not np.array_equal(results[0], VALUE[:, :, 0])
    if lent:
        np.testing.assert_array_equal(step.sent["k"][0], VALUE[:, :, 0])


@NATIVE
def test_what_leaves_without_a_copy_is_no_other_step_s() -> None:
    """Two steps of a plan may run concurrently: one sends its results while the other computes."""
    nodes = [*view_of_a_variable(), *what_comes_after(), fetch("last", 1, live=True)]
    (first, _), (second, _) = run(nodes, 2)
    np.testing.assert_array_equal(first[1], VALUE[:, :, 0])
    assert not np.shares_memory(first[1], second[1])


def test_a_variable_is_sent_and_fetched_where_it_is() -> None:
    nodes = [variable("v", VALUE.shape), node("read", "Identity", "v")]
    (first, _), (second, _) = run([*nodes, fetch("read", 0, live=True)], 2)
    assert np.shares_memory(first[0], second[0])
