"""The ops on lists that no front-end function uses, and what lists reject.

Front-end functions cover the others: EmptyTensorList, TensorListReserve, TensorListLength,
TensorListSetItem, TensorListGetItem, TensorListStack, TensorListFromTensor, TensorListGather,
TensorListScatterV2, TensorListScatterIntoExistingList, TensorListConcatV2, TensorListSplit and the
gradients' own _TensorListUnset, _TensorListUnsetMany, _AddVariants and _UnsetLike; see
tests/golden/differential/control_flow.json.
"""

from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.lists.tensor_list import TensorList, TensorListReserve

ANY = np.int32(-1)


def compute(op, *inputs, **attrs):
    return registry.lookup(op).compute(np, *inputs, **attrs)


def rows(*items):
    return TensorList([None if i is None else np.float32(i) for i in items], np.float32)


def test_setting_leaves_the_old_list_alone():
    old = rows([1], [2])
    new = compute(
        "TensorListSetItem",
        old,
        np.int32(0),
        np.float32([9]),
        resize_if_index_out_of_bounds=False,
        _write_once=False,
    )
    assert old.items[0].tolist() == [1]
    assert new.items[0].tolist() == [9]
    assert new.items[1] is old.items[1]


@pytest.mark.parametrize("place", [-1, 2])
def test_an_index_outside_is_named(place):
    with pytest.raises(InvalidArgumentError, match=f"index {place} "):
        compute("TensorListGetItem", rows([1], [2]), np.int32(place), ANY)


def test_of_elements_of_several_shapes_no_other_is_guessed():
    mixed = rows([1], [1, 2], None)
    with pytest.raises(InvalidArgumentError, match="Could not read from TensorArray index 2"):
        compute("TensorListGetItem", mixed, np.int32(2), ANY)
    with pytest.raises(InvalidArgumentError, match="Could not read from TensorArray index 2"):
        compute("TensorListConcatV2", mixed, ANY, np.empty(0, np.int64))


def test_what_was_never_set_is_zero_where_the_shape_is_known():
    holes = rows(None, [1, 2])
    assert compute("TensorListStack", holes, ANY).tolist() == [[0, 0], [1, 2]]
    assert compute("TensorListGetItem", holes, np.int32(0), ANY).tolist() == [0, 0]
    with pytest.raises(InvalidArgumentError, match="not fully defined"):
        compute("TensorListStack", rows(None), ANY)


def test_rows_of_different_shapes_cannot_be_stacked():
    with pytest.raises(InvalidArgumentError, match=r"Index 0 has shape: \[1\] but index 1"):
        compute("TensorListStack", rows([1], [1, 2]), ANY)


def test_repeated_indices_add_up():
    made = compute(
        "TensorListScatterV2", np.float32([[1], [2]]), np.int32([1, 1]), ANY, np.int32(3)
    )
    assert [None if item is None else item.tolist() for item in made.items] == [None, [3], None]


def test_sums_of_lists_leave_out_what_is_not_set():
    add = registry.lookup("_AddVariants").bind(None, None)
    total = add(rows([1], None, None), rows([2], [5], None))
    assert [None if item is None else item.tolist() for item in total.items] == [[3], [5], None]
    assert add({(0, "a"): 1.0}, {(0, "a"): 2.0, (1, "a"): 3.0}) == {(0, "a"): 3.0, (1, "a"): 3.0}


def _float():
    from sparkflow_runtime.dtypes import float32

    return float32


def test_elements_are_made_once_and_not_before_they_are_asked_for():
    made = []

    def make():
        made.append(1)
        return [np.float32(1), None]

    value = TensorList.made_by(make, 2, np.float32)
    assert len(value) == 2
    assert not made
    assert value.items[0] == 1
    assert value.items[1] is None
    assert made == [1]


def test_a_list_of_what_is_known_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    compute = TensorListReserve.compute

    def noted(self: TensorListReserve, *args: Any, **attrs: Any) -> TensorList:
        made.append(compute(self, *args, **attrs))
        return made[-1]

    monkeypatch.setattr(TensorListReserve, "compute", noted)
    with tf.Graph().as_default(), tf.Session() as session:
        array = tf.TensorArray(tf.float32, 2, element_shape=[]).write(0, 1.0).write(1, 2.0)
        stacked = array.stack()
        for _ in range(3):
            found = session.run(stacked)
            assert found.tolist() == [1, 2]
            found[...] = 9  # which nobody shares
    assert len(made) == 1


def test_a_list_that_cannot_be_made_fails_in_every_step() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        length = tf.raw_ops.TensorListLength(
            input_handle=tf.raw_ops.TensorListReserve(
                element_shape=-1, num_elements=-1, element_dtype=tf.float32
            )
        )
        for _ in range(2):
            with pytest.raises(InvalidArgumentError, match="must be a non negative number"):
                session.run(length)


def test_the_rows_of_one_block_are_stacked_where_they_lie() -> None:
    block = np.arange(6, dtype=np.float32).reshape(3, 2)
    assert compute("TensorListStack", TensorList.rows_of(block), ANY) is block
    with tf.Graph().as_default(), tf.Session() as session:
        fed = tf.placeholder(tf.float32, [3, 2])
        array = tf.TensorArray(tf.float32, 3).unstack(fed)
        once, again = session.run([array.stack(), array.stack()], {fed: block})
        once[...] = 7
        assert again.tolist() == block.tolist() == [[0, 1], [2, 3], [4, 5]]
