"""Transforms and products of minimal filtering, as texts and as instructions of other processors.

What they compute is tested in test_winograd_kernels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.codegen.tiles import winograd_ir
from sparkflow_runtime.codegen.tiles.winograd_ir import POINTS, PRODUCTS, UNROLLED, Form
from tests.sparkflow_runtime.codegen.tiles.test_instructions import PROCESSORS, blocks, count

pytestmark = pytest.mark.skipif(not native.available(), reason="makes machine code")

TILES = {"avx512": (8, 2), "avx2": (6, 2), "neon": (6, 4)}
"""Rows and vectors: what `convolution_tasks.tile` chooses there."""


def form_of(name: str, taps: int = 3, channels_rest: bool = False) -> Form:
    rows, vectors = TILES[name]
    return Form(taps, PROCESSORS[name][2] // 4, rows, vectors, channels_rest, False)


@pytest.mark.parametrize("name", list(PROCESSORS))
def test_the_innermost_loop_of_the_products_adds_in_registers(name: str) -> None:
    product, spill = PROCESSORS[name][3:]
    rows, vectors = TILES[name]
    most = rows * vectors * UNROLLED
    text = winograd_ir.convolution_text(form_of(name))
    found = max(blocks(name, text), key=lambda block: count(product, block))
    inner = [block for block in blocks(name, text) if count(product, block) == most]
    assert inner
    assert count(product, found) >= most
    for block in inner:
        assert count(spill, block) == 0
        assert len(block) <= 2.2 * most


@pytest.mark.parametrize("taps", [3, 4, 5])
def test_one_body_serves_all_sizes(taps: int) -> None:
    """Texts differ by what a form says, and by nothing else."""
    form = form_of("avx2", taps)
    assert form.tile == POINTS + 1 - taps
    assert winograd_ir.convolution_text(form) == winograd_ir.convolution_text(form)
    rest = form_of("avx2", taps, channels_rest=True)
    assert winograd_ir.convolution_text(form).count("masked.load") == 0
    assert (
        winograd_ir.convolution_text(rest).count("call <8 x float> @llvm.masked.load") == PRODUCTS
    )


class Numbers(winograd_ir.Transforms):
    """The transforms done with numbers in place of registers."""

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
    numbers = Numbers(form_of("avx2", taps))
    generator = np.random.default_rng(taps)
    for _ in range(20):
        d, g = generator.standard_normal(POINTS), generator.standard_normal(taps)
        outputs = POINTS + 1 - taps
        found = numbers.of_sums(numbers.of_filter(g) * numbers.of_tile(d), outputs)
        np.testing.assert_allclose(found, np.correlate(d, g), rtol=0, atol=1e-13)


def test_constants_are_float32() -> None:
    writer = Numbers(form_of("neon"))
    text = writer._constant(1 / 3)
    assert text.count("float 0x3FD5555560000000") == 4  # 1/3 rounded to float32, as a double
