"""What ops declare about the memory of their outputs. Tests that run ops check it, see below."""

from __future__ import annotations

import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.op import Op
from sparkflow_runtime.ops.signature import int_attr, list_attr, type_attr
from sparkflow_runtime.testing.aliases import check_aliases
from support.graphs import node


class Parts(Op):
    inputs = "first: T, rest: N * T, last: U"
    outputs = "y: T"
    attrs = {"T": type_attr(), "N": int_attr(), "U": list_attr("type")}  # noqa: RUF012


def registered(**members):
    op = type("Parts", (Parts,), members)()
    registry._OPS.pop("Parts", None)
    registry.add_own(op)
    return op, node("n", "Parts", T=dtypes.float32, N=2, U=[dtypes.int32, dtypes.int32])


@pytest.mark.parametrize(
    ("aliases", "shared"),
    [
        (None, "abcde"),
        (frozenset(), ""),
        (frozenset({"first"}), "a"),
        (frozenset({"rest"}), "bc"),
        (frozenset({"first", "last"}), "ade"),
    ],
)
def test_names_stand_for_all_inputs_of_an_argument(aliases, shared):
    op, n = registered(aliases=aliases)
    assert "".join(op.shared(n, "abcde")) == shared


def test_silence_of_a_users_op_means_any_memory_and_for_ever():
    silent, n = registered()
    assert silent.may_keep_inputs(n)
    assert silent.outlives_step(n)
    assert not silent.hands_on(n)
    said, n = registered(aliases=frozenset())
    assert not said.may_keep_inputs(n)
    assert not said.outlives_step(n)
    with_state, n = registered(aliases=frozenset(), stateful=True)
    assert with_state.outlives_step(n)


def test_every_op_of_ours_says_what_it_shares():
    ours = [op for op in registry.all_ops() if type(op).__module__.startswith("sparkflow_runtime.")]
    assert len(ours) > 500
    for op in ours:
        assert op.aliases is not None, op.op_type
        assert op.aliases <= {arg.name for arg in op.signature.inputs}, op.op_type
        assert op.aliases or not op.is_view, op.op_type


def test_variants_hold_what_is_put_in_until_it_is_taken_out():
    push, pop = registry.lookup("TensorListPushBack"), registry.lookup("TensorListPopBack")
    assert push.aliases == {"input_handle", "tensor"}
    assert pop.aliases == {"input_handle", "element_shape"}
    assert registry.lookup("TensorListGetItem").aliases == {"input_handle"}
    assert registry.lookup("TensorListStack").aliases == {"input_handle"}


def test_an_op_that_does_not_keep_its_word_is_found():
    op, n = registered(aliases=frozenset({"first"}))
    arrays = [np.arange(4.0) + i for i in range(5)]
    check_aliases(op, n, arrays, arrays[0][::-1])
    check_aliases(op, n, arrays, arrays[1].copy())
    check_aliases(op, n, [arrays[0], arrays[0], *arrays[2:]], arrays[0])
    with pytest.raises(AssertionError, match="Parts shares memory with input 1"):
        check_aliases(op, n, arrays, (arrays[1][2:],))
