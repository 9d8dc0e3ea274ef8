import threading

import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.codegen.machine import host, native, threads
from sparkflow_runtime.codegen.tiles import gemm
from support.guarded import Guarded

pytestmark = pytest.mark.skipif(not native.available(), reason="makes machine code")

DTYPES = [dtypes.float32, dtypes.float64]


def random(shape, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def check(left, right, *, turns=(False, False), dtype=dtypes.float32, out=None):
    """Asserts that the product is supported, and correct."""
    first = left.swapaxes(-1, -2) if turns[0] else left
    second = right.swapaxes(-1, -2) if turns[1] else right
    expected = first.astype(np.float64) @ second.astype(np.float64)
    if out is None:
        out = np.full(expected.shape, np.nan, dtype.as_numpy_dtype)
    assert gemm.bind_gemm(dtype, *turns)(left, right, out) is True
    scale = np.abs(first).astype(np.float64) @ np.abs(second).astype(np.float64)
    precision = np.finfo(dtype.as_numpy_dtype).eps
    assert (np.abs(out - expected) <= first.shape[-1] * precision * scale).all()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("turn_left", [False, True])
@pytest.mark.parametrize("turn_right", [False, True])
@pytest.mark.parametrize(
    "sizes", [(2, 1, 2), (7, 30, 10), (100, 5, 33), (130, 300, 70), (31, 700, 9), (30, 1024, 16)]
)
def test_products(dtype, turn_left, turn_right, sizes):
    m, k, n = sizes
    left = random((k, m) if turn_left else (m, k), dtype.as_numpy_dtype)
    right = random((n, k) if turn_right else (k, n), dtype.as_numpy_dtype, 1)
    check(left, right, turns=(turn_left, turn_right), dtype=dtype)


@pytest.mark.parametrize("count", [2, 3, 6])
@pytest.mark.parametrize("sizes", [(300, 300, 20), (20, 300, 300), (200, 500, 200)])
def test_products_on_several_threads(monkeypatch, count, sizes):
    monkeypatch.setattr(threads, "count", lambda: count)
    m, k, n = sizes
    check(random((m, k)), random((k, n), seed=1))
    check(random((count, m, k)), random((count, k, n), seed=1))
    check(random((5, m, k)), random((k, n), seed=1))


@pytest.mark.parametrize("sizes", [(300, 900, 40), (40, 900, 300), (9, 5000, 17), (900, 600, 10)])
def test_the_number_of_threads_does_not_change_the_result(monkeypatch, sizes):
    m, k, n = sizes
    left, right = random((m, k)), random((k, n), seed=1)
    found = []
    for count in (1, 2, 5):
        monkeypatch.setattr(threads, "count", lambda count=count: count)
        out = np.empty((m, n), np.float32)
        assert gemm.bind_gemm(dtypes.float32)(left, right, out)
        found.append(out)
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def test_long_sums_are_not_added_up_one_by_one():
    left, right = np.full((2, 1 << 20), 0.1, np.float32), np.ones((1 << 20, 2), np.float32)
    out = np.empty((2, 2), np.float32)
    assert gemm.bind_gemm(dtypes.float32)(left, right, out)
    np.testing.assert_allclose(out, 0.1 * (1 << 20), rtol=2e-4)


@pytest.mark.parametrize("turn_left", [False, True])
@pytest.mark.parametrize("n", [2, 3, 10, 16, 17])
def test_factors_read_in_place_are_not_read_past_their_ends(turn_left, n):
    with Guarded().on():
        for m, k in ((2, 1), (4, 90), (12, 33), (13, 400), (40, 65)):
            left = random((k, m) if turn_left else (m, k))
            check(left, random((k, n), seed=1), turns=(turn_left, False))


def test_factors_may_be_parts_of_larger_matrices():
    whole = random((40, 50))
    check(whole[3:23, 5:35], whole[1:31, 10:45])
    check(whole.T[5:35, 3:23], whole[3:23, 1:50])
    check(whole[::-1][:20], whole.T)
    check(whole[::3, :30], whole[:30])


def test_the_result_may_be_a_part_of_a_larger_matrix():
    around = np.full((30, 40), 7, np.float32)
    left, right = random((20, 9)), random((9, 30), seed=1)
    check(left, right, out=around[5:25, 5:35])
    around[5:25, 5:35] = 7
    assert (around == 7).all()


@pytest.mark.parametrize(
    "leads",
    [
        ((3,), (3,)),
        ((2, 3), ()),
        ((), (4,)),
        ((1, 1), (2, 2)),
        ((3,), (2, 3)),
        ((2, 1), (2, 3)),
        ((1, 3), (2, 3)),
        ((2, 1), (1, 3)),
        ((5, 1, 2), (5, 1, 1)),
    ],
)
def test_stacks(leads):
    check(random((*leads[0], 6, 7)), random((*leads[1], 7, 8), seed=1))


@pytest.mark.parametrize("length", [9, 70])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_heads_lie_beside_each_other(monkeypatch, length, count):
    """The products in attention: [rows, length, heads, width] with heads before length."""
    monkeypatch.setattr(threads, "count", lambda: count)
    left, right = (random((3, length, 4, 16), seed=n).transpose(0, 2, 1, 3) for n in (1, 2))
    check(left, right, turns=(False, True))
    check(random((3, 4, length, length)), right)
    check(left, random((3, 4, length, length)), turns=(True, False))
    out = np.full((3, length, 4, 16), np.nan, np.float32).transpose(0, 2, 1, 3)
    check(random((3, 4, length, length)), right, out=out)
    check(left[1:, ::2], right[1:, ::2], turns=(False, True))


def test_stacks_of_transposed_matrices():
    check(random((4, 7, 6)), random((4, 8, 7), seed=1), turns=(True, True))
    check(random((7, 4, 6)).transpose(1, 2, 0), random((7, 8), seed=1))


REFUSED = {
    "another dtype": (random((3, 4), np.float64), random((4, 5)), (3, 5)),
    "another byte order": (random((3, 4)).astype(">f4"), random((4, 5)), (3, 5)),
    "a list": ([[1.0, 2.0], [3.0, 4.0]], random((2, 2)), (2, 2)),
    "a subclass": (np.ma.masked_array(random((3, 4))), random((4, 5)), (3, 5)),
    "a vector": (random(4), random((4, 5)), (1, 5)),
    "sizes that differ inside": (random((3, 4)), random((5, 5)), (3, 5)),
    "a result too high": (random((3, 4)), random((4, 5)), (4, 5)),
    "a result too wide": (random((3, 4)), random((4, 5)), (3, 6)),
    "no elements to sum": (random((3, 0)), random((0, 5)), (3, 5)),
    "no rows": (random((0, 4)), random((4, 5)), (0, 5)),
    "one row": (random((1, 4)), random((4, 5)), (1, 5)),
    "one column": (random((3, 4)), random((4, 1)), (3, 1)),
    "steps": (random((3, 8))[:, ::2], random((8, 10))[::2, ::2], (3, 5)),
    "stacks of another size": (random((2, 3, 4)), random((3, 4, 5)), (3, 3, 5)),
    "stacks that are uneven twice": (
        random((4, 3, 3, 3, 4))[::2, ::2, :2],
        random((4, 5)),
        (2, 2, 2, 3, 5),
    ),
    "a factor of more dimensions": (random((1, 3, 4)), random((4, 5)), (3, 5)),
    "a stack that is no part of the result's": (
        random((2, 3, 4)),
        random((4, 5)),
        (1, 3, 5),
    ),
}


@pytest.mark.parametrize("name", list(REFUSED))
def test_what_does_not_fit_is_left_alone(name):
    left, right, shape = REFUSED[name]
    out = np.full(shape, 7, np.float32)
    assert gemm.bind_gemm(dtypes.float32)(left, right, out) is False
    assert (out == 7).all()


def test_a_result_with_steps_is_left_alone():
    out = np.full((5, 3), 7, np.float32).T
    assert gemm.bind_gemm(dtypes.float32)(random((3, 4)), random((4, 5)), out) is False
    assert (out == 7).all()


def test_the_number_of_arrays():
    multiply = gemm.bind_gemm(dtypes.float32)
    assert multiply() is False
    assert multiply(random((2, 2)), random((2, 2))) is False


def test_other_dtypes_have_none():
    assert gemm.bind_gemm(dtypes.int32) is None
    assert gemm.bind_gemm(dtypes.complex64) is None


def test_without_a_code_generator_there_is_none(monkeypatch):
    monkeypatch.setattr(native, "available", lambda: False)
    assert gemm.bind_gemm(dtypes.float32) is None


def test_several_threads_may_multiply_at_once():
    multiply = gemm.bind_gemm(dtypes.float32)
    left, right = random((150, 400)), random((400, 160), seed=1)
    expected = np.empty((150, 160), np.float32)
    assert multiply(left, right, expected)
    wrong = []

    def work():
        out = np.empty_like(expected)
        for _ in range(30):
            out.fill(np.nan)
            multiply(left, right, out)
            if not np.array_equal(out, expected):
                wrong.append(out)

    callers = [threading.Thread(target=work) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert not wrong


@pytest.mark.parametrize(
    ("vector_bytes", "triple", "tile"),
    [
        (64, "x86_64-unknown-linux-gnu", (12, 2)),
        (32, "x86_64-unknown-linux-gnu", (6, 2)),
        (16, "x86_64-unknown-linux-gnu", (6, 2)),
        (16, "aarch64-unknown-linux-gnu", (8, 3)),
    ],
)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_tiles_fit_the_registers(monkeypatch, vector_bytes, triple, tile, dtype):
    fake = host.Host(triple, "", "", vector_bytes, True, None)
    monkeypatch.setattr(host, "host", lambda: fake)
    found = gemm.form(dtype)
    assert (found.rows, found.vectors) == tile
    assert found.lanes * np.dtype(dtype.as_numpy_dtype).itemsize == vector_bytes
    assert found.right_block >= found.columns


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("turns", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("sizes", [(2, 3, 2), (27, 16, 27), (16, 27, 27), (64, 64, 64), (65, 2, 3)])
def test_stacks_of_small_products(monkeypatch, dtype, turns, sizes):
    m, k, n = sizes
    kind = dtype.as_numpy_dtype
    for count, parts in ((1, 1), (7, 1), (200, 3)):
        monkeypatch.setattr(threads, "count", lambda parts=parts: parts)
        left = random((count, k, m) if turns[0] else (count, m, k), kind)
        right = random((count, n, k) if turns[1] else (count, k, n), kind, 1)
        check(left, right, turns=turns, dtype=dtype)
        check(left, right[0], turns=turns, dtype=dtype)  # one factor for all
        around = np.full((count, m + 2, n + 3), 7, kind)
        check(left, right, turns=turns, dtype=dtype, out=around[:, 1:-1, 1:-2])
        around[:, 1:-1, 1:-2] = 7
        assert (around == 7).all()


def test_nothing_is_read_beside_small_factors():
    around = np.full((5, 13, 15), np.nan, np.float32)
    left, right = np.ones((5, 6, 7), np.float32), around[:, 1:8, 1:12]
    right[...] = 2
    out = np.empty((5, 6, 11), np.float32)
    assert gemm.bind_gemm(dtypes.float32)(left, right, out)
    np.testing.assert_array_equal(out, np.full(out.shape, 14))


@pytest.mark.parametrize("sizes", [(40, 30, 50), (300, 900, 40), (13, 400, 9)])
@pytest.mark.parametrize("scale", [None, 0.25])
def test_products_are_added_and_scaled_on_any_number_of_threads(monkeypatch, sizes, scale):
    m, k, n = sizes
    left, right, before = random((m, k)), random((k, n), seed=1), random((m, n), seed=2)
    given = () if scale is None else (np.asarray(scale, np.float32),)
    expected = left.astype(np.float64) @ right * (scale or 1)
    for adds in (False, True):
        found = []
        for count in (1, 2, 5):
            monkeypatch.setattr(threads, "count", lambda count=count: count)
            out = before.copy()
            assert gemm.bind_gemm(dtypes.float32, adds=adds)(left, right, out, *given)
            found.append(out)
        total = expected + before if adds else expected
        np.testing.assert_allclose(found[0], total, rtol=1e-3, atol=1e-3)
        np.testing.assert_array_equal(found[0], found[1])
        np.testing.assert_array_equal(found[0], found[2])
