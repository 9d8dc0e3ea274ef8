"""The instructions of kernels on processors that are not available: AVX2, AVX-512, NEON.

The assembly is read, not run: a loop that keeps its sums in memory, or multiplies and adds
separately, computes the same but takes several times as long.
"""

import re

import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.codegen.ir.builder import KernelBuilder
from sparkflow_runtime.codegen.ir.schedule import Form as LoopForm, Schedule, Target
from sparkflow_runtime.codegen.machine import denormals, native
from sparkflow_runtime.codegen.tiles import gemm_ir, small_product
from sparkflow_runtime.codegen.tiles.gemm_form import Form
from sparkflow_runtime.codegen.tiles.gemm_ir import UNROLLED
from support.assembly import PROCESSORS, blocks, count

pytestmark = pytest.mark.skipif(not native.available(), reason="makes machine code")

TILES = {"avx512": (12, 2), "avx2": (6, 2), "neon": (8, 3)}


@pytest.mark.parametrize("name", list(PROCESSORS))
def test_the_innermost_loop_of_a_product_adds_in_registers(name: str) -> None:
    _, _, vector_bytes, product, spill = PROCESSORS[name]
    rows, vectors = TILES[name]
    text = gemm_ir.text(Form("float", vector_bytes // 4, rows, vectors, 384, 1 << 18, 128))
    most = rows * vectors * UNROLLED
    inner = [block for block in blocks(name, text) if count(product, block) >= most]
    assert len(inner) == (1 if name == "neon" else 2)  # with and without prefetching
    for block in inner:
        assert count(product, block) == most
        assert count(spill, block) == 0
        assert len(block) <= 2.2 * most  # the others load the factors
    fetching = [block for block in inner if count("prefetch|prfm", block)]
    assert len(fetching) == len(inner) - 1


@pytest.mark.parametrize("name", list(PROCESSORS))
def test_small_products_add_in_registers(name: str) -> None:
    _, _, vector_bytes, product, spill = PROCESSORS[name]
    rows = 8 if name == "avx512" else 4
    text = small_product.stack_text("float", vector_bytes // 4, rows)
    inner = max(blocks(name, text), key=lambda block: count(product, block))
    assert count(product, inner) == rows * 2
    assert count(spill, inner) == 0


@pytest.mark.parametrize("name", list(PROCESSORS))
def test_fused_kernels_work_on_whole_vectors(name: str) -> None:
    from sparkflow_runtime.codegen.cpu import loop_nest  # it needs llvmlite

    _, _, vector_bytes, _, spill = PROCESSORS[name]
    builder = KernelBuilder(1)
    x, y = (builder.input(dtypes.float32, (True,)) for _ in range(2))
    builder.output(builder.call("sqrt", x) + y)
    schedule = Schedule(builder.build())
    target = Target(vector_bytes, 16 if name == "avx2" else 32, name != "neon")
    text = loop_nest.generate(schedule, target, LoopForm())
    root = {
        "avx512": r"v(r?sqrt(14)?)ps\s.*%zmm",
        "avx2": r"v(r?sqrt)ps\s.*%ymm",
        "neon": r"fr?sqrte?\s+v\d+\.4s",
    }[name]
    inner = max(blocks(name, text, is_tidy=True), key=lambda block: count(root, block))
    assert count(root, inner) >= LoopForm().registers
    assert count(spill, inner) == 0


@pytest.mark.parametrize(
    ("name", "machine", "reads", "writes"),
    [
        ("avx512", "x86_64", r"stmxcsr\s", r"ldmxcsr\s"),
        ("neon", "aarch64", r"mrs\s+x\d+, FPCR", r"msr\s+FPCR, x\d+"),
    ],
)
def test_the_mode_of_denormals_is_read_once_and_written_twice(
    name: str, machine: str, reads: str, writes: str
) -> None:
    text = f"""{denormals.text(machine)}
declare void @body()

define void @kernel() {{
  %mode = call i64 @flush_denormals()
  call void @body()
  call void @restore_denormals(i64 %mode)
  ret void
}}
"""
    assembly = [line for block in blocks(name, text, is_tidy=False) for line in block]
    kernel = [line for line in assembly if re.search(f"{reads}|{writes}|body", line, re.IGNORECASE)]
    order = [
        next(k for k, each in enumerate((reads, writes, "body")) if re.search(each, line, re.I))
        for line in kernel
    ]
    assert order == [0, 1, 2, 1]
