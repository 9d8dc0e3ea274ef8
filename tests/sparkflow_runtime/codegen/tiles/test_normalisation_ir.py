"""Batch normalisation's loops as instructions of processors: nothing is spilled to memory."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.codegen.tiles import normalisation_ir as ir
from sparkflow_runtime.codegen.tiles.normalisation_ir import Form
from tests.sparkflow_runtime.codegen.tiles.test_instructions import PROCESSORS, blocks, count

pytestmark = pytest.mark.skipif(not native.available(), reason="makes machine code")

SUBTRACTION = {"avx512": r"vsubps\s.*%zmm", "avx2": r"vsubps\s.*%ymm", "neon": r"fsub\s+v\d+\.4s"}


@pytest.mark.parametrize(
    ("text", "subtractions", "products"),
    [(ir.moments_text, 4, 4), (ir.normal_text, 4, 4), (ir.products_text, 4, 4)],
)
@pytest.mark.parametrize("name", list(PROCESSORS))
def test_rows_stay_in_registers(
    name: str, text: Callable[[Form], str], subtractions: int, products: int
) -> None:
    product, spill = PROCESSORS[name][3:]
    lanes = PROCESSORS[name][2] // 4
    found = [
        block
        for block in blocks(name, text(Form("float", lanes)))
        if count(SUBTRACTION[name], block) == subtractions and count(product, block) == products
    ]
    assert found
    # AVX2 has 16 registers, which three vectors per four channels exceed
    if name != "avx2":
        assert all(count(spill, block) == 0 for block in found)
    assert all(len(block) <= 40 for block in found)
