"""Equations that are products of matrices, computed as such, and others."""

import numpy as np
import pytest

from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.linalg import einsum

SIZES = {"a": 2, "b": 3, "c": 4, "d": 5, "e": 1, "f": 6}
PRODUCTS = [
    *("ab,bc->ac", "ab,bc->ca", "ba,bc->ac", "ab,cb->ac", "ba,cb->ca", "ab,b->a", "a,ab->b"),
    *("a,a->", "ab,ab->", "ab,ba->", "abc,abd->acd", "abc,adc->abd", "abcd,aecd->acbe"),
    *(
        "acbe,aecd->abcd",
        "abc,cd->abd",
        "abc,bcd->ad",
        "abcd,cdf->abf",
        "dcab,fbad->cf",
        "ab,acb->ac",
    ),
    *("bcad,abfd->fabc", "ae,eb->ab", "abc,abc->a"),
]
OTHERS = ["ab,cd->abcd", "ab,bc->a", "ab,ab->ab", "aab,bc->ac", "ab,bc->aca", "...ab,bc->...ac"]
OTHERS += ["ab,bc,cd->ad", "ab->ba", "abd,bc->ac"]


def arrays(equation: str, dtype: type) -> list[np.ndarray]:
    generator = np.random.default_rng(len(equation))
    factors = equation.partition("->")[0].replace("...", "f").split(",")
    return [generator.normal(size=[SIZES[n] for n in each]).astype(dtype) for each in factors]


@pytest.mark.parametrize("equation", PRODUCTS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products(equation: str, dtype: type) -> None:
    assert einsum._product_of(equation) is not None
    given = arrays(equation, dtype)
    expected = np.einsum(equation, *(each.astype(np.float64) for each in given))
    for factors in (given, [np.asfortranarray(each) for each in given]):
        found = registry.lookup("Einsum").compute(np, *factors, equation=equation)
        assert (found.dtype, found.shape) == (np.dtype(dtype), expected.shape)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("equation", OTHERS)
def test_what_is_no_product(equation: str) -> None:
    assert einsum._product_of(equation) is None


def test_no_elements() -> None:
    empty = np.zeros((2, 0), np.float32)
    op = registry.lookup("Einsum")
    assert op.compute(np, empty, empty.T, equation="ab,bc->ac").tolist() == [[0, 0], [0, 0]]
    assert op.compute(np, empty.T, empty, equation="ab,bc->ac").shape == (0, 0)
