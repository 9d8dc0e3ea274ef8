"""What value rules return for partly known values must hold whatever the unknown elements are."""

import numpy as np
import pytest

import sparkflow_runtime.ops.all  # noqa: F401 - fills the registry
from sparkflow_runtime import dtypes
from sparkflow_runtime.ops import evaluation, registry
from sparkflow_runtime.ops.value import (
    ELEMENTWISE,
    REDUCING,
    SCANNING,
    WHOLE,
    Value,
    of_sizes,
    partly,
)

U = None
I32 = {"T": dtypes.int32}


def value(elements, shape=None):
    """A Value of integers, None for unknown ones."""
    flat = np.array(elements, dtype=object).reshape(-1)
    unknown = np.array([each is None for each in flat], np.bool_)
    array = np.array([9 if each is None else each for each in flat], np.int32)
    shape = np.shape(elements) if shape is None else shape
    return Value(array.reshape(shape), unknown.reshape(shape) if unknown.any() else None)


def completed(op_type, attrs):
    op = registry.lookup(op_type)
    return {
        name: attrs.get(name, dtypes.int32 if attr.kind == "type" else attr.default)
        for name, attr in op.attrs.items()
    }


def evaluate(op_type, values, attrs):
    op, complete = registry.lookup(op_type), completed(op_type, attrs)
    node = evaluation.NamedNode("node", op_type, complete)
    kinds = [dtypes.int32] * len(values)
    return evaluation.evaluate(op, node, [each.array.shape for each in values], kinds, values)


# op, inputs, attributes, what is known of each output
ROWS = [
    ("ConcatV2", [value([1, U]), value([3]), value(0)], {"N": 2}, [[1, U, 3]]),
    ("Concat", [value(0), value([1, U]), value([3])], {"N": 2}, [[1, U, 3]]),
    ("Pack", [value(1), value(U), value(3)], {"N": 3, "axis": 0}, [[1, U, 3]]),
    ("Unpack", [value([1, U])], {"num": 2, "axis": 0}, [[1], None]),
    ("Split", [value(0), value([1, U, U, 4])], {"num_split": 2}, [[1, U], [U, 4]]),
    ("SplitV", [value([1, U, 3]), value([1, 2]), value(0)], {"num_split": 2}, [[1], [U, 3]]),
    ("Identity", [value([1, U])], {}, [[1, U]]),
    ("StopGradient", [value([1, U])], {}, [[1, U]]),
    ("PreventGradient", [value([1, U])], {"message": ""}, [[1, U]]),
    ("Fill", [value([2]), value(7)], {}, [[7, 7]]),
    ("Reshape", [value([1, U]), value([2, 1])], {}, [[1, U]]),
    ("ExpandDims", [value([1, U]), value(0)], {}, [[1, U]]),
    ("Squeeze", [value([[1, U]])], {"squeeze_dims": [0]}, [[1, U]]),
    ("Slice", [value([1, U, 3]), value([1]), value([2])], {}, [[U, 3]]),
    ("StridedSlice", [value([1, U, 3]), value([-1]), value([0]), value([1])],
     {"end_mask": 1}, [[3]]),
    ("StridedSlice", [value([1, U, 3]), value([0]), value([3]), value([-1])],
     {"begin_mask": 1, "end_mask": 1}, [[3, U, 1]]),
    ("StridedSlice", [value([1, U, 3]), value([1]), value([2]), value([1])],
     {"shrink_axis_mask": 1}, [None]),
    ("StridedSliceGrad", [value([3]), value([1]), value([3]), value([1]), value([U, 5])], {},
     [[0, U, 5]]),
    ("ReverseV2", [value([1, U, 3]), value([0])], {}, [[3, U, 1]]),
    ("Transpose", [value([[1, U], [3, 4]]), value([1, 0])], {}, [[1, 3, U, 4]]),
    ("BroadcastTo", [value([[1], [U]]), value([2, 2])], {}, [[1, 1, U, U]]),
    ("Tile", [value([1, U]), value([2])], {}, [[1, U, 1, U]]),
    ("Gather", [value([1, U, 3]), value([2, 1])], {}, [[3, U]]),
    ("GatherV2", [value([1, U, 3]), value([2, 1]), value(0)], {}, [[3, U]]),
    ("GatherNd", [value([1, U, 3]), value([[2], [1]])], {}, [[3, U]]),
    ("Pad", [value([U, 3]), value([[1, 0]])], {}, [[0, U, 3]]),
    ("PadV2", [value([U, 3]), value([[1, 0]]), value(5)], {}, [[5, U, 3]]),
    ("MirrorPad", [value([U, 3]), value([[1, 0]])], {"mode": "SYMMETRIC"}, [[U, U, 3]]),
    ("Sum", [value([[1, U], [3, 4]]), value([1])], {"keep_dims": False}, [[U, 7]]),
    ("Prod", [value([[1, U], [3, 4]]), value([1])], {"keep_dims": True}, [[U, 12]]),
    ("Max", [value([[1, U], [3, 4]]), value([0])], {"keep_dims": False}, [[3, U]]),
    ("Min", [value([[1, U], [3, 4]]), value(-2)], {"keep_dims": False}, [[1, U]]),
    ("Mean", [value([[1, U], [3, 5]]), value([1])], {"keep_dims": False}, [[U, 4]]),
    ("Cumsum", [value([1, U, 3]), value(0)], {}, [[1, U, U]]),
    ("Cumsum", [value([1, U, 3]), value(0)], {"exclusive": True}, [[0, 1, U]]),
    ("Cumprod", [value([2, U, 3]), value(0)], {"reverse": True}, [[U, U, 3]]),
    ("Cumprod", [value([U, 3, 4]), value(0)], {"reverse": True, "exclusive": True}, [[12, 4, 1]]),
    ("Add", [value([1, U]), value(2)], {}, [[3, U]]),
    ("Mul", [value([2, U, 4]), value([U, 3, 5])], {}, [[U, U, 20]]),
    ("FloorDiv", [value([7, U]), value([2, 0])], {}, [None]),
    ("FloorDiv", [value([7, U]), value([2, 2])], {}, [[3, U]]),
    ("Neg", [value([1, U])], {}, [[-1, U]]),
    ("Cast", [value([1, U])], {"SrcT": dtypes.int32, "DstT": dtypes.int64}, [[1, U]]),
]  # fmt: skip


@pytest.mark.parametrize(("op_type", "values", "attrs", "expected"), ROWS)
def test_rules(op_type, values, attrs, expected):
    found = evaluate(op_type, values, attrs) or [None] * len(expected)
    known = [None if each is None else list(each.elements()) for each in found]
    assert known == expected


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("op_type", "values", "attrs"), [row[:3] for row in ROWS])
def test_what_is_known_holds_for_all_that_is_not(op_type, values, attrs, seed):
    draw = np.random.default_rng(seed)
    found = evaluate(op_type, values, attrs)
    if found is None:
        return
    filled = [
        each.array
        if each.unknown is None
        else np.where(each.unknown, draw.integers(1, 50, each.array.shape, np.int32), each.array)
        for each in values
    ]
    op, complete = registry.lookup(op_type), completed(op_type, attrs)
    real = evaluation.computed(op, evaluation.NamedNode("node", op_type, complete), filled)
    for each, output in zip(found, real, strict=True):
        if each is None:
            continue
        assert each.array.shape == output.shape
        seen = np.ones(output.shape, bool) if each.unknown is None else ~each.unknown
        np.testing.assert_array_equal(each.array[seen], output[seen])


def test_every_rule_has_a_row():
    tried = {row[0] for row in ROWS} | {"Select", "SelectV2", "IdentityN"}  # other dtypes
    for op in registry.all_ops():
        if op.value_rule.reads and op.value_rule not in (WHOLE, ELEMENTWISE, REDUCING, SCANNING):
            assert op.op_type in tried


@pytest.mark.parametrize("op_type", ["Select", "SelectV2"])
def test_a_known_condition_chooses(op_type):
    condition = Value(np.array([True, False, True]))
    found = evaluate(op_type, [condition, value([1, 2, U]), value([U, 5, 6])], {})
    assert found[0].elements() == (1, 5, None)
    hidden = partly(condition.array, np.array([True, False, False]))
    assert evaluate(op_type, [hidden, value([1, 2, 3]), value([4, 5, 6])], {}) is None


def test_sizes():
    assert of_sizes((2, None), dtypes.int64).elements() == (2, None)
    assert of_sizes((None, None), dtypes.int32) is None
    assert of_sizes(None, dtypes.int32) is None
    assert of_sizes((), dtypes.int32).whole.shape == (0,)


def test_a_large_result_is_not_kept():
    with np.errstate(all="raise"):
        many = Value(np.array([1 << 20], np.int32))
        assert evaluate("Fill", [many, value(1)], {}) is None
