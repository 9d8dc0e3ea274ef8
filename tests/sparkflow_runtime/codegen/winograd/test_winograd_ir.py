"""The transforms of minimal filtering, computed with numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.codegen.winograd import winograd_ir
from sparkflow_runtime.codegen.winograd.winograd_ir import POINTS, Form


class Numbers(winograd_ir.Transforms):
    """The transforms, computed with numbers instead of registers."""

    def _scaled(self, factor: float, a: Any) -> Any:
        return factor * a

    def _plus(self, factor: float, a: Any, b: Any) -> Any:
        return factor * a + b

    def _sum(self, a: Any, b: Any) -> Any:
        return a + b

    def _difference(self, a: Any, b: Any) -> Any:
        return a - b

    def of_tile(self, d: Any) -> Any:
        return np.array(self._of_tile(d))

    def of_filter(self, g: Any) -> Any:
        return np.array(self._of_filter(g))

    def of_sums(self, m: Any, outputs: int) -> Any:
        return np.array(self._of_sums(m, outputs))


@pytest.mark.parametrize("taps", [2, 3, 4, 5])
def test_transforms_are_those_of_a_correlation(taps: int) -> None:
    """Aᵀ (G g · Bᵀ d) = d correlated with g, of one dimension and in float64."""
    numbers = Numbers(Form(taps, 8, 6, 2, False, False))
    generator = np.random.default_rng(taps)
    for _ in range(20):
        d, g = generator.standard_normal(POINTS), generator.standard_normal(taps)
        outputs = POINTS + 1 - taps
        found = numbers.of_sums(numbers.of_filter(g) * numbers.of_tile(d), outputs)
        np.testing.assert_allclose(found, np.correlate(d, g), rtol=0, atol=1e-13)


def test_constants_are_float32() -> None:
    writer = Numbers(Form(3, 4, 6, 4, False, False))
    text = writer._vectors.constant(1 / 3)
    assert text.count("float 0x3FD5555560000000") == 4  # 1/3 rounded to float32, as a double
