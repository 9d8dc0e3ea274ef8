"""Gradients that a row cannot check, because they require symmetric or known matrices."""

import numpy as np
import pytest

import sparkflow_runtime.ops.all  # noqa: F401 - fills the registry
from support.eager import EagerBuilder
from support.numerical import numerical_gradient

A = np.array([[4.0, -1.0, 0.5], [0.5, 3.0, 1.0], [1.0, 0.25, -2.0], [0.3, 0.1, 0.7]])
WEIGHTS = np.arange(9.0).reshape(3, 3) / 5 - 1
SIDE = np.arange(8.0).reshape(4, 2) / 3 - 1


def test_cholesky_has_the_gradient_of_a_symmetric_matrix():
    def positive(g, x):
        return g.BatchMatMulV2(x, x, adj_x=True)

    def objective(x):
        g = EagerBuilder()
        return float((g.Cholesky(positive(g, g.tensor(x))).value * WEIGHTS).sum())

    g = EagerBuilder()
    x = g.tensor(A)
    y = g.Cholesky(positive(g, x))
    (found,) = g.gradients([y], [x], [g.tensor(WEIGHTS)])
    np.testing.assert_allclose(found.value, numerical_gradient(objective, [A], 0), rtol=1e-6)


@pytest.mark.parametrize("matrix", [A, A[:2].copy()], ids=["tall", "wide"])
@pytest.mark.parametrize("ridge", [0.0, 0.4])
def test_least_squares_has_the_gradients_of_the_normal_equations(matrix, ridge):
    side = SIDE[: len(matrix)]
    weights = np.arange(6.0).reshape(3, 2) - 2

    def objective(a, b):
        g = EagerBuilder()
        x = g.MatrixSolveLs(g.tensor(a), g.tensor(b), np.array(ridge))
        return float((x.value * weights).sum())

    g = EagerBuilder()
    a, b = g.tensor(matrix), g.tensor(side)
    x = g.MatrixSolveLs(a, b, np.array(ridge))
    for index, found in enumerate(g.gradients([x], [a, b], [g.tensor(weights)])):
        expected = numerical_gradient(objective, [matrix, side], index)
        np.testing.assert_allclose(found.value, expected, rtol=1e-5, atol=1e-7)


def test_sparse_matrix_products_have_the_gradients_of_dense_ones():
    g = EagerBuilder()
    a, b = (g.tensor(each.astype(np.float32)) for each in (A[:3], WEIGHTS))
    y = g.SparseMatMul(a, b, transpose_a=True)
    dy = np.ones((3, 3), np.float32)
    da, db = g.gradients([y], [a, b], [g.tensor(dy)])
    np.testing.assert_allclose(da.value, b.value @ dy.T, rtol=1e-6)
    np.testing.assert_allclose(db.value, a.value @ dy, rtol=1e-6)
