import numpy as np
import pytest

from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.codegen.systems.small_systems import MOST, NUMBERS, bind_inverse, bind_solve

pytestmark = pytest.mark.skipif(not native.available(), reason="needs llvmlite")


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(("count", "rows"), [(1, 1), (3, 2), (1, 4), (2, 7), (1, MOST), (0, 3)])
def test_solutions_and_inverses(number, turned, count, rows):
    numbers = np.random.default_rng(rows)
    matrices = (
        numbers.normal(size=(count, rows, rows)) + rows * np.eye(rows)[::-1]
    )  # rows change places
    matrices = matrices.astype(number.numpy)
    given = matrices.transpose(0, 2, 1) if turned else matrices
    for columns in (1, 3, rows):
        sides = numbers.normal(size=(count, rows, columns)).astype(number.numpy)
        found, failure = np.full_like(sides, 7), np.array(7, np.int32)
        bind_solve(number, count, rows, columns, turned)(matrices, sides, found, failure)
        np.testing.assert_allclose(given @ found, sides, rtol=1e-3, atol=1e-4)
        assert failure == 0
    inverses = np.full_like(matrices, 7)
    bind_inverse(number, count, rows, turned)(matrices, inverses, failure)
    identities = np.broadcast_to(np.eye(rows), inverses.shape)
    np.testing.assert_allclose(given @ inverses, identities, atol=1e-4)
    assert failure == 0


def test_the_largest_element_is_the_pivot():
    matrix = np.array([[1e-9, 1.0], [1.0, 1.0]], np.float32)
    inverse, failure = np.empty_like(matrix), np.array(7, np.int32)
    bind_inverse(NUMBERS[0], 1, 2, False)(matrix, inverse, failure)
    np.testing.assert_allclose(inverse, [[-1, 1], [1, 0]], atol=1e-6)


@pytest.mark.parametrize("matrix", [np.zeros((2, 2)), np.ones((2, 2)), [[0, 1], [0, 2]]])
def test_singular_matrices_are_refused(matrix):
    matrix = np.array(matrix, np.float64)
    failure = np.array(0, np.int32)
    bind_inverse(NUMBERS[1], 1, 2, False)(matrix, np.empty_like(matrix), failure)
    assert failure == 1
