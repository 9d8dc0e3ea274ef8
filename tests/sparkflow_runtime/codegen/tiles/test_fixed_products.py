import itertools
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.codegen.machine import entry, host, native
from sparkflow_runtime.codegen.tiles import gemm, small_product
from sparkflow_runtime.codegen.tiles.fixed_products import DTYPES, Product
from sparkflow_runtime.dtypes import DType

pytestmark = pytest.mark.skipif(not native.available(), reason="needs llvmlite")

SIZES = [
    *itertools.product((1, 3, 8, 17), (1, 15, 16, 33), (1, 2, 64)),
    *[(64, 64, 64), (65, 64, 64), (64, 65, 64), (1, 65, 1), (1, 1, 65), (7, 200, 90), (90, 7, 200)],
    *itertools.product((1, 5, 64, 160), (1,), (4, 15, 16, 33)),  # by a vector
    *itertools.product((1, 2, 3, 4, 12), (7, 100), (3, 16, 70)),  # few rows
]


def factors(product: Product) -> tuple[Any, Any]:
    numbers = np.random.default_rng(0)
    left, right = (product.rows, product.depth), (product.depth, product.columns)
    dtype = product.dtype.as_numpy_dtype
    return (
        numbers.normal(size=left[::-1] if product.turns_left else left).astype(dtype),
        numbers.normal(size=right[::-1] if product.turns_right else right).astype(dtype),
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("turns_left", "turns_right"), list(itertools.product((False, True), repeat=2))
)
def test_products(dtype: DType, turns_left: bool, turns_right: bool) -> None:
    for sizes in SIZES:
        product = Product(dtype, *sizes, turns_left, turns_right)
        left, right = factors(product)
        room = np.full((product.rows + 2, product.columns), 7, left.dtype)
        assert product.bind()(left, right, room[1:-1])
        wanted = (left.T if turns_left else left) @ (right.T if turns_right else right)
        np.testing.assert_allclose(room[1:-1], wanted, rtol=1e-4, atol=1e-4, err_msg=str(sizes))
        assert (room[[0, -1]] == 7).all(), f"something was written beside the result of {sizes}"


def test_what_is_not_a_number_reaches_its_row_only() -> None:
    product = Product(dtypes.float32, 3, 5, 4)
    left, right = factors(product)
    left[1, 2] = np.nan
    out = np.empty((3, 5), np.float32)
    product.bind()(left, right, out)
    assert np.isnan(out[1]).all()
    assert not np.isnan(out[[0, 2]]).any()


@pytest.mark.parametrize(
    ("sizes", "threads", "parts"),
    [
        ((64, 64, 64), 8, 1),  # small: not worth a thread
        ((1, 65, 65), 8, 1),
        ((512, 512, 512), 1, 1),
        ((512, 512, 512), 4, 4),
        ((100, 100, 100), 16, 5),
    ],
)
def test_threads_that_are_worth_it(sizes: Any, threads: int, parts: int) -> None:
    product = Product(dtypes.float32, *sizes)
    bound = product.bind(threads)
    assert entry.bound(bound).parts == parts
    left, right = factors(product)
    out, alone = np.empty((2, *sizes[:2]), np.float32)
    bound(left, right, out)
    product.bind()(left, right, alone)
    np.testing.assert_array_equal(out, alone)


@pytest.mark.parametrize(
    ("left_moves", "right_moves"), [(True, True), (True, False), (False, True)]
)
def test_stacks_of_products(left_moves: bool, right_moves: bool) -> None:
    numbers = np.random.default_rng(0)
    for m, n, k, threads in ((2, 3, 4, 1), (17, 40, 33, 1), (70, 60, 90, 3)):
        left = numbers.normal(size=(5 if left_moves else 1, m, k))
        right = numbers.normal(size=(5 if right_moves else 1, n, k))
        out = np.empty((5, m, n))
        product = Product(
            dtypes.float64, m, n, k, False, True, 5, left_moves=left_moves, right_moves=right_moves
        )
        product.bind(threads)(left, right, out)
        np.testing.assert_allclose(out, left @ right.transpose(0, 2, 1), rtol=1e-9, atol=1e-9)


def test_small_products_are_those_that_fit_in_its_memory() -> None:
    sizes = (small_product.MOST,) * 3
    product = Product(dtypes.float64, *sizes, turns_right=True)
    left, right = factors(product)
    out = np.empty(sizes[:2])
    product.bind()(left, right, out)
    np.testing.assert_allclose(out, left @ right.T)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("turns_left", "turns_right"), list(itertools.product((False, True), repeat=2))
)
def test_packed_factors_change_no_bit(dtype: DType, turns_left: bool, turns_right: bool) -> None:
    tried = 0
    for sizes in itertools.product((13, 64), (33, 65, 160, 513), (1, 70, 401, 1000)):
        product = Product(dtype, *sizes, turns_left, turns_right)
        if not product.packed_elements:
            continue
        left, right = factors(product)
        wanted, room = np.full((2, product.rows + 2, product.columns), 7, left.dtype)
        product.bind()(left, right, wanted[1:-1])
        packed = np.full(product.packed_elements + 1, 7, left.dtype)
        assert product.bind_packing()(right, packed[:-1])
        assert packed[-1] == 7
        for threads in (1, 2, 3):
            room[1:-1] = 0
            assert product.bind_packed(threads)(left, packed[:-1], room[1:-1])
            np.testing.assert_array_equal(room, wanted, err_msg=f"{sizes}, {threads} threads")
        tried += 1
    assert tried >= 20


@pytest.mark.parametrize("dtype", DTYPES)
def test_small_factors_are_turned_once(dtype: DType) -> None:
    lanes = host.host().lanes(dtype)
    for sizes in itertools.product((1, 2, 3, 4, 6), (lanes, 48, 64, 100), (1, 7, 64, 128)):
        for turns_left in (False, True):
            product = Product(dtype, *sizes, turns_left, turns_right=True)
            if not product.is_small:
                continue
            left, right = factors(product)
            wanted, out = np.empty((2, *sizes[:2]), left.dtype)
            product.bind()(left, right, wanted)
            packed = np.empty(product.packed_elements, left.dtype)
            assert packed.size == right.size
            assert product.bind_packing()(right, packed)
            np.testing.assert_array_equal(packed.reshape(right.shape[::-1]), right.T)
            assert product.bind_packed()(left, packed, out)
            np.testing.assert_allclose(out, wanted, rtol=1e-4, atol=1e-4)
    assert not Product(dtype, 1, lanes - 1, 64, turns_right=True).packed_elements
    assert not Product(dtype, 1, 48, 64).packed_elements


@pytest.mark.parametrize(
    ("sizes", "count"),
    [((3, 200, 90), 1), ((90, 7, 200), 1), ((64, 64, 64), 1), ((90, 90, 90), 2)],
    ids=["few rows", "few columns", "small", "several"],
)
def test_factors_that_are_not_worth_packing(sizes: Any, count: int) -> None:
    m, n, k = sizes
    assert Product(dtypes.float32, m, n, k, count=count).packed_elements == 0


def test_parts_of_packed_products_are_equal() -> None:
    form = gemm.form(dtypes.float32)
    # With an odd number of columns of tiles one part would have one more.
    product = Product(dtypes.float32, 4 * form.rows, 5 * form.columns, 1000)
    assert product._packed_parts(2) == (1, 2, 1)
    product = Product(dtypes.float32, 5 * form.rows, 4 * form.columns, 1000)
    assert product._packed_parts(2) == (1, 1, 2)
