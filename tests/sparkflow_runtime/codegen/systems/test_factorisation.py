import numpy as np
import pytest

from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.codegen.systems import factorisation
from sparkflow_runtime.codegen.systems.factorisation import MOST_ROWS, cholesky

pytestmark = pytest.mark.skipif(not native.available(), reason="there is no code generator here")


def matrices(count, rows, dtype):
    roots = np.random.default_rng(rows).standard_normal((count, rows, rows))
    return (roots @ roots.transpose(0, 2, 1) + rows * np.eye(rows)).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rows", [1, 2, 7, 8, 16, 17, 33, MOST_ROWS])
def test_the_factors_are_numpys(rows, dtype, monkeypatch):
    monkeypatch.setattr(factorisation, "_SHARED_PRODUCTS", 1 << 12)  # also on several threads
    given = matrices(3, rows, dtype)
    upper = np.triu(np.ones((rows, rows), bool), 1)
    unread = np.where(upper, np.nan, given).astype(dtype)
    found = cholesky(unread)
    assert found is not None
    factors, is_done = found
    assert is_done
    assert not factors[:, upper].any()
    tolerance = 1e-4 if dtype == np.float32 else 1e-12
    np.testing.assert_allclose(factors, np.linalg.cholesky(given), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan])
def test_one_matrix_that_is_not_positive_definite_is_told(bad):
    given = matrices(4, 5, np.float32)
    given[2, 3, 3] = bad
    found = cholesky(given)
    assert found is not None
    assert not found[1]


def test_what_is_left_to_lapack():
    for each in (
        matrices(1, MOST_ROWS + 1, np.float32),
        matrices(1, 3, np.complex64),
        matrices(1, 3, ">f4"),
        np.zeros((0, 3, 3), np.float32),
    ):
        assert cholesky(each) is None
