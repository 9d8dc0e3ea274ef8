"""nvcc accepts the generated CUDA C, without a warning, for the supported GPUs."""

import shutil
import subprocess

import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.codegen.gpu.cuda import CudaProgram
from sparkflow_runtime.codegen.gpu.cuda_expressions import COMPUTED_IN
from sparkflow_runtime.codegen.gpu.cuda_lrn import LrnProgram
from sparkflow_runtime.codegen.gpu.cuda_pooling import Form, PoolingProgram
from sparkflow_runtime.codegen.gpu.cuda_transposition import TranspositionProgram
from sparkflow_runtime.codegen.ir.kernel import (
    ARITHMETIC,
    REDUCTIONS,
    Instruction,
    Kernel,
    Operand,
)
from sparkflow_runtime.codegen.pooling.pooling_form import Task

NVCC = shutil.which("nvcc")

F32, F64, I32, I64, BOOL = (
    dtypes.float32,
    dtypes.float64,
    dtypes.int32,
    dtypes.int64,
    dtypes.bool_,
)
COMPARISONS = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
TESTS = ("logical_not", "isnan", "isfinite", "isinf")
LOGIC = ("logical_and", "logical_or")
BINARY = ("add", "subtract", "multiply", "divide", "maximum", "minimum")


def every_function(dtype):
    """All functions, of rows that broadcast, with all kinds of reductions of their results."""
    unary = sorted(ARITHMETIC - {*COMPARISONS, *TESTS, *LOGIC, *BINARY, "where", "cast"})
    found = [Instruction(name, (0,), dtype) for name in unary]
    found += [Instruction(name, (0, 1), dtype) for name in BINARY]
    found += [Instruction(name, (0, 1), BOOL) for name in (*COMPARISONS, *LOGIC)]
    found += [Instruction(name, (0,), BOOL) for name in TESTS]
    found += [Instruction("cast", (0,), each) for each in (F32, F64, I32, I64, BOOL)]
    found += [Instruction("index", (), I64, (False, True))]
    last = next(n for n, each in enumerate(found, 2) if each.function == "isnan")
    found += [Instruction("where", (last, 0, 1), dtype)]
    for name in sorted(REDUCTIONS):
        for over in ((False, True), (True, False), (True, True)):
            found += [Instruction(name, (0,), dtype, over)]
    operands = (Operand(dtype, (True, True)), Operand(dtype, (False, True)))
    return Kernel(2, operands, tuple(found), tuple(range(2, 2 + len(found))))


def rows(dtype):
    """Reductions within rows, used later, and summed over the rows."""
    over = (False, True)
    instructions = (
        Instruction("reduce_max", (0,), dtype, over),
        Instruction("subtract", (0, 1), dtype),
        Instruction("reduce_sum", (2,), dtype, over),
        Instruction("multiply", (2, 3), dtype),
        Instruction("reduce_sum", (4,), dtype, (True, False)),
        Instruction("reduce_min", (3,), dtype, (True, False)),
    )
    return Kernel(2, (Operand(dtype, (True, True)),), instructions, (4, 5, 6))


def poolings():
    """Every function of pooling: in packs and without, at edges, with loops and without."""
    half = dtypes.float16
    return [
        Form(Task.MAXIMUM, F32, 4, (2, 2), (2, 2), whole=True, cells=False),
        Form(Task.MAXIMUM, half, 8, (3, 3, 3), (2, 2, 2), whole=False, cells=False),
        Form(Task.AVERAGE, half, 8, (2, 2), (2, 2), whole=False, cells=False),
        Form(Task.AVERAGE, F64, 1, (7, 7), (1, 1), whole=True, cells=False),
        Form(Task.MAXIMUM_GRADIENT, half, 8, (2, 2), (2, 3), whole=False, cells=True),
        Form(Task.MAXIMUM_GRADIENT, F64, 2, (3, 3), (2, 2), whole=False, cells=False),
        Form(Task.MAXIMUM_GRADIENT, F32, 4, (17, 16), (3, 2), whole=False, cells=False),
        Form(Task.AVERAGE_GRADIENT, F32, 4, (3, 3), (2, 2), whole=False, cells=False),
        Form(Task.AVERAGE_GRADIENT, half, 1, (7, 7), (1, 1), whole=True, cells=False),
    ]


@pytest.mark.slow
@pytest.mark.skipif(NVCC is None, reason="nvcc is not installed")
def test_nvcc_takes_the_sources(tmp_path):
    kernels = [every_function(F32), every_function(F64), rows(F32), rows(I64)]
    files = []
    for number, kernel in enumerate(kernels):
        for wide in (False, True) if number == 2 else (False,):
            path = tmp_path / f"kernel{number}{'_wide' if wide else ''}.cu"
            path.write_text(CudaProgram(kernel).source(wide))
            files.append(path)
    for number, form in enumerate(poolings()):
        path = tmp_path / f"pooling{number}.cu"
        path.write_text(PoolingProgram(form).source(wide=number % 3 == 1))
        files.append(path)
    for number, dtype in enumerate(COMPUTED_IN):
        program = LrnProgram(dtype, number > 0, (5, 2, 30)[number], 1.0, 0.5, 0.75)
        path = tmp_path / f"lrn{number}.cu"
        path.write_text(program.source(wide=number == 1))
        files.append(path)
    for size_bytes in (2, 8):
        path = tmp_path / f"transposition{size_bytes}.cu"
        path.write_text(TranspositionProgram(size_bytes).source(wide=size_bytes == 8))
        files.append(path)
    # Positions and arguments that a kernel happens not to use are no error.
    allowed = "-diag-suppress=177,550"
    command = [NVCC, "-cubin", "-arch=sm_90", "-Werror=all-warnings", allowed, "-Xptxas=-O1"]
    done = subprocess.run(
        [*command, *map(str, files)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(list(tmp_path.glob("*.cubin"))) == len(files)
