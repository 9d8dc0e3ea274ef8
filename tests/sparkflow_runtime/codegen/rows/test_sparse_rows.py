"""The results of row loops in their header, and that they stay within bounds."""

import numpy as np
import pytest

from sparkflow_runtime.codegen.ir.kernel import Instruction, Kernel, Operand
from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.codegen.machine.entry import NOT_COUNTED
from sparkflow_runtime.codegen.rows import sparse_rows, sparse_rows_update
from sparkflow_runtime.codegen.rows.sparse_rows import HEADER_SIZE, Header
from sparkflow_runtime.dtypes import float32, float64, int32, int64

pytestmark = pytest.mark.skipif(not native.available(), reason="there is no code generator here")

ADD = Kernel(
    1, (Operand(float32, (True,)),) * 2, (Instruction("add", (0, 1), float32),), outputs=(2,)
)


def header(**fields):
    made = np.zeros(HEADER_SIZE, np.int64)
    for name, value in {"PARTS": 1, "BAD": -1, **fields}.items():
        made[Header[name]] = value
    return made


def run(text, *arrays):
    assert native.body(text).bind((), [NOT_COUNTED] * len(arrays), 1)(*arrays)


def apart(indices, checked=True, bound=100):
    """Header and answers: rows, number, first, last, following."""
    count, bits = indices.size, 5
    answers = [np.full(count, -7, dtype) for dtype in (np.int64, *[np.int32] * 4)]
    head = header(COUNT=count, BOUND=bound, SHIFT=64 - bits)
    index = int32 if indices.dtype == np.int32 else int64
    table = np.empty(1 << bits, np.int32)
    run(sparse_rows.distinct(index, checked), head, indices, table, *answers)
    return head, answers


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_equal_indices_are_chained(dtype):
    head, answers = apart(np.array([7, 3, 7, 9, 3, 7], dtype))
    rows, number, first, last, following = (each.tolist() for each in answers)
    assert head[Header.DISTINCT] == 3
    assert head[Header.BAD] == -1
    assert rows[:3] == [7, 3, 9]
    assert number == [0, 1, 0, 2, 1, 0]
    assert first[:3] == [0, 1, 3]
    assert last[:3] == [5, 4, 3]
    assert following == [2, 4, 5, -1, -1, -1]


@pytest.mark.parametrize("wrong", [-1, 100, np.iinfo(np.int32).min])
def test_the_first_index_out_of_bounds_is_told(wrong):
    head, _ = apart(np.array([7, 3, wrong, -5], np.int32))
    assert head[Header.BAD] == 2
    head, _ = apart(np.array([7, 3, wrong, -5], np.int32), checked=False)
    assert head[Header.BAD] == -1
    assert head[Header.DISTINCT] == 4


@pytest.mark.parametrize("row_bytes", [0, 12, 64, 300])
def test_gathers_no_row_beyond_the_table(row_bytes):
    width = (row_bytes or 12) // 4
    table, out = np.arange(5.0 * width, dtype=np.float32).reshape(5, width), np.zeros((3, width))
    out, bad = out.astype(np.float32), np.zeros(1, np.int64)
    head = header(COUNT=3, BOUND=5, ROW=4 * width)
    run(sparse_rows.gather(int64, row_bytes), head, np.array([4, 5, 0]), table, out, bad)
    assert bad == [1]
    np.testing.assert_array_equal(out, [table[4], *np.zeros((2, width))])
    run(sparse_rows.gather(int64, row_bytes), head, np.array([4, 1, 0]), table, out, bad)
    assert bad == [-1]
    np.testing.assert_array_equal(out, table[[4, 1, 0]])


@pytest.mark.parametrize("source", [int32, int64])
def test_scatters_nothing_where_a_source_is_out_of_bounds(source):
    rule = sparse_rows_update.rule(ADD, ("table0", "update", "table0"))
    text = sparse_rows_update.scatter(rule, int64, float32, source)
    table, updates = np.zeros((4, 3), np.float32), np.ones((2, 3), np.float32)
    sources = np.array([1, 0, 2], source.as_numpy_dtype)
    head = header(COUNT=3, BOUND=4, ROW=3, SOURCES=2)
    run(text, head, np.array([0, 0, 3]), table, updates, sources)
    assert head[Header.BAD] == 2
    assert not table.any()
    sources[2], head[Header.BAD] = 1, -1
    run(text, head, np.array([0, 0, 3]), table, updates, sources)
    assert head[Header.BAD] == -1
    assert table[:, 0].tolist() == [2, 0, 0, 1]


def test_modules_declare_each_function_once():
    kernel = Kernel(
        1,
        (Operand(float64, (True,)),) * 2,
        (Instruction("sqrt", (0,), float64), Instruction("multiply", (1, 2), float64)),
        outputs=(3,),
    )
    rule = sparse_rows_update.rule(kernel, ("table0", "update", "table0"))
    declared = [
        line
        for line in sparse_rows_update.update(rule, float64).splitlines()
        if line.startswith("declare ")
    ]
    assert len(declared) == len(set(declared)) > 1
