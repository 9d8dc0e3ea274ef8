"""What follows from what an op declares, and from what it does not declare."""

from typing import Any

import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.ir.node import Endpoint, Node
from sparkflow_runtime.ops.op import Inference, Op
from sparkflow_runtime.ops.signature import type_attr

ENDPOINTS = (Endpoint("x", 0), Endpoint("n", 0))
NODE = Node("own", "Own", ENDPOINTS, attrs={"T": dtypes.float32})
INPUTS = ["x", "n"]


def own(**said: Any) -> Op:
    facts = {
        "inputs": "x: T, n: int32",
        "outputs": "y: T",
        "attrs": {"T": type_attr(frozenset({dtypes.float32, dtypes.variant}))},
    }
    return type("Own", (Op,), {**facts, **said})()


def test_an_op_that_says_nothing_may_share_and_keep_everything() -> None:
    op = own()
    assert op.shared(NODE, INPUTS) == INPUTS
    assert op.may_keep_inputs(NODE)
    assert op.outlives_step(NODE)
    assert not op.hands_on(NODE)
    assert op.reach({}) is None


@pytest.mark.parametrize(
    ("aliases", "shared"),
    [(frozenset(), []), (frozenset({"n"}), ["n"]), (frozenset({"x", "n"}), INPUTS)],
)
def test_an_op_shares_the_inputs_that_it_names(aliases: frozenset[str], shared: list[str]) -> None:
    op = own(aliases=aliases)
    assert list(op.shared(NODE, INPUTS)) == shared
    assert not op.may_keep_inputs(NODE)
    assert not op.outlives_step(NODE)


@pytest.mark.parametrize(
    ("said", "keeps", "outlives"),
    [
        ({"stateful": True}, True, True),
        ({"takes_step": True}, True, True),
        ({"stateful": True, "keeps_inputs": False}, False, False),
        ({"stateful": True, "ends_with_step": True}, True, False),
    ],
)
def test_state_keeps_inputs_unless_it_says_otherwise(
    said: dict[str, Any], keeps: bool, outlives: bool
) -> None:
    op = own(aliases=frozenset(), **said)
    assert op.may_keep_inputs(NODE) is keeps
    assert op.outlives_step(NODE) is outlives


def test_what_gives_variants_hands_on_what_is_in_them() -> None:
    op = own(aliases=frozenset())
    variants = Node("own", "Own", ENDPOINTS, attrs={"T": dtypes.variant})
    assert op.hands_on(variants)
    assert not op.outlives_step(variants)


def test_rows_and_ids_are_told_by_their_places() -> None:
    assert own(sums_rows=("n", "x")).row_gradients(NODE) == [(1, 0)]
    assert own().row_gradients(NODE) == ()


def test_operations_are_counted_per_element_of_the_first_output() -> None:
    known = Inference([(2, 3), ()], [dtypes.float32, dtypes.int32], {})
    assert own(flops=4).float_operations(known, [(2, 3)]) == 24
    assert own().float_operations(known, [(2, 3)]) == 0


def test_an_op_with_instructions_is_fused_for_dtypes_of_kernels_only() -> None:
    class Fusing(Op):
        outputs = "y: float32"

        def fuse(self, fusion: Any) -> list[Any]:
            return []

    assert not own().is_fusable(NODE)
    assert Fusing().is_fusable(NODE)
    assert not Fusing().is_fusable(Node("own", "Own", attrs={"T": dtypes.string}))
