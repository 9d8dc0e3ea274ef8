"""Convolutions by minimal filtering as instructions; their results: test_winograd_kernels."""

from __future__ import annotations

import pytest

from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.codegen.winograd import winograd_convolution_ir as convolution_ir
from sparkflow_runtime.codegen.winograd.winograd_ir import PRODUCTS, UNROLLED, Form
from tests.sparkflow_runtime.codegen.tiles.test_instructions import PROCESSORS, blocks, count

pytestmark = pytest.mark.skipif(not native.available(), reason="makes machine code")

TILES = {"avx512": (8, 2), "avx2": (6, 2), "neon": (8, 2)}
"""Rows and vectors: the choice of `winograd_kernels` there."""


def form_of(name: str, taps: int = 3, channels_rest: bool = False) -> Form:
    rows, vectors = TILES[name]
    return Form(taps, PROCESSORS[name][2] // 4, rows, vectors, channels_rest, False)


@pytest.mark.parametrize("is_by_panels", [False, True])
@pytest.mark.parametrize("name", list(PROCESSORS))
def test_the_innermost_loop_of_the_products_adds_in_registers(
    name: str, is_by_panels: bool
) -> None:
    product, spill = PROCESSORS[name][3:]
    rows, vectors = TILES[name]
    most = rows * vectors * UNROLLED
    form = form_of(name)
    text = convolution_ir.convolution_text(form)
    if is_by_panels:
        text = convolution_ir.panels_text(form, is_turned=True)
    inner = [block for block in blocks(name, text) if count(product, block) == most]
    assert len(inner) == 1
    assert count(spill, inner[0]) == 0
    assert len(inner[0]) <= 2.2 * most


@pytest.mark.parametrize("taps", [3, 5])
def test_only_channels_that_are_no_whole_vectors_are_masked(taps: int) -> None:
    form = form_of("avx2", taps)
    masked = "call <8 x float> @llvm.masked.load"
    assert convolution_ir.tiles_text(form).count(masked) == 0
    rest = form_of("avx2", taps, channels_rest=True)
    assert convolution_ir.tiles_text(rest).count(masked) == PRODUCTS
