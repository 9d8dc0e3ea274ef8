"""The gradient by filters as instructions of processors; its results: test_winograd_kernels."""

from __future__ import annotations

import pytest

from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.codegen.winograd import winograd_gradient_ir as gradient
from sparkflow_runtime.codegen.winograd.winograd_ir import UNROLLED
from tests.sparkflow_runtime.codegen.tiles.test_instructions import PROCESSORS, blocks, count
from tests.sparkflow_runtime.codegen.winograd.test_winograd_convolution_ir import TILES, form_of

pytestmark = pytest.mark.skipif(not native.available(), reason="makes machine code")


@pytest.mark.parametrize("is_by_panels", [False, True])
@pytest.mark.parametrize("name", list(PROCESSORS))
def test_the_innermost_loop_of_the_sums_adds_in_registers(name: str, is_by_panels: bool) -> None:
    product, spill = PROCESSORS[name][3:]
    rows, vectors = TILES[name]
    most = rows * vectors * UNROLLED
    text = (gradient.panels_text if is_by_panels else gradient.sums_text)(form_of(name))
    inner = [block for block in blocks(name, text) if count(product, block) == most]
    assert len(inner) == 1
    assert count(spill, inner[0]) == 0
    assert len(inner[0]) <= 2.2 * most


@pytest.mark.parametrize("taps", [3, 5])
def test_tiles_of_dy_are_as_large_as_a_tile_has_outputs(taps: int) -> None:
    """It reads 36 elements of a tile of images, and all outputs of one of dy."""
    form = form_of("avx512", taps)
    text = gradient.tiles_text(form)
    assert text.count("load <16 x float>") == 36 + form.tile**2
    assert gradient.finish_text(form).count("store <16 x float>") == taps**2
