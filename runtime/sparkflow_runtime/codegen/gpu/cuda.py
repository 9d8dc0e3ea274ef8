"""Lowers a `Kernel` to CUDA: the source of its functions, and their launches for given sizes.

Text and numbers only: `device.gpu_kernels` compiles and launches. Sums use no atomics, and how they
are split depends on sizes alone, so results are deterministic.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from sparkflow_runtime import dtypes
from sparkflow_runtime.codegen.cpu.loops import UnsupportedKernel
from sparkflow_runtime.codegen.gpu.cuda_expressions import HALVES, PACKS, PRELUDE, is_supported
from sparkflow_runtime.codegen.gpu.cuda_stages import Stage, instruction_of, stages
from sparkflow_runtime.codegen.gpu.cuda_text import (
    COLUMN_ROWS,
    KEEPING_THREADS,
    PACK,
    WARP,
    StageText,
    by_columns,
    combining,
    helpers,
)
from sparkflow_runtime.codegen.ir.kernel import REDUCTIONS, Axes, Kernel
from sparkflow_runtime.dtypes import DType

THREADS: Final = 256
"""Threads of a block where a warp is not enough."""
_LONG_ROW: Final = 512
"""Rows longer than this get a block each, shorter ones a warp."""
_LONG_REDUCTION: Final = 1024
_PART: Final = 4096
"""Minimum number of elements in a part of a long reduction."""
_BLOCKS: Final = 1024
"""Enough blocks to keep any current GPU busy."""
_COLUMN_PART: Final = 64
NARROW: Final = 1 << 30
"""Larger positions need 64 bits, with a margin for strides."""


@dataclass(frozen=True, slots=True)
class Launch:
    """One launch of one function.

    Attributes:
        name: The function.
        grid: Blocks along x and y.
        block: Threads along x and y.
        arrays: Its array arguments: those of the call (inputs, outputs), then intermediate ones.
        numbers: Its 64-bit integer arguments, which follow.
    """

    name: str
    grid: tuple[int, int]
    block: tuple[int, int]
    arrays: tuple[int, ...]
    numbers: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """The launches of a kernel call, for given sizes.

    Attributes:
        wide: Whether to use the 64-bit source, see `CudaProgram.source`.
        launches: The launches, in order.
        left_bytes: Sizes of the intermediate arrays.
        counts: The number of elements of each array of the call.
    """

    wide: bool
    launches: tuple[Launch, ...]
    left_bytes: tuple[int, ...]
    counts: tuple[int, ...]


class CudaProgram:
    """A kernel as CUDA. Immutable; safe to share between threads.

    Args:
        kernel: The computation.

    Raises:
        UnsupportedKernel: There is no CUDA C for a function of these dtypes.
    """

    def __init__(self, kernel: Kernel) -> None:
        for number, each in enumerate(kernel.instructions, len(kernel.inputs)):
            given = [kernel.value_dtypes[argument] for argument in each.arguments]
            if not is_supported(each, given):
                names = ", ".join(dtype.name for dtype in given)
                raise UnsupportedKernel(
                    f"value {number}: {each.function} of {names} to {each.dtype.name}"
                )
        self.kernel = kernel
        self._stages, self._left_values = stages(kernel)
        self._texts = [StageText(stage, f"stage{i}") for i, stage in enumerate(self._stages)]
        self._call_arrays = len(kernel.inputs) + len(kernel.outputs)

    def source(self, wide: bool = False) -> str:
        """Returns the functions as CUDA C, for NVRTC or nvcc.

        Args:
            wide: Whether positions take 64 bits.
        """
        return f"typedef {index_type(wide)} index_t;\n{self._functions}"

    @cached_property
    def _functions(self) -> str:
        written = [text.write() for text in self._texts]
        for function, dtype in self._combined():
            written.append(combining(function, dtype, _combining_name(function, dtype)))
        body = "\n".join(written)
        called = [
            text
            for name, text in self._helpers().items()
            if name in body  # only what is used: NVRTC is slow
        ]
        halves = [HALVES] if dtypes.float16 in self.kernel.value_dtypes else []
        return "\n".join([PACKS + PRELUDE, *halves, *called, body])

    def _helpers(self) -> dict[str, str]:
        reductions = {
            (each.function, each.dtype): None
            for each in self.kernel.instructions
            if each.function in REDUCTIONS
        }
        return {
            f"{kind}_{function}_{dtype.name}(": text
            for function, dtype in reductions
            for kind, text in zip(
                ("over_threads", "over_columns"), helpers(function, dtype), strict=True
            )
        }

    def plan(self, sizes: Sequence[int]) -> LaunchPlan:
        """Returns the launches of a call.

        Args:
            sizes: Sizes of the kernel's dimensions.

        Raises:
            UnsupportedKernel: A size is 0, and an output with elements is computed from values
                without any.
        """
        plan = _Plan(self.kernel, sizes, self._call_arrays)
        for value in self._left_values:
            plan.leave(value)
        direct = len(self._stages) == 1
        for stage, text in zip(self._stages, self._texts, strict=True):
            plan.add(stage, text, direct)
        return plan.finish()

    def _combined(self) -> list[tuple[str, DType]]:
        """Reductions whose parts are combined by a separate launch."""
        found = [value for stage in self._stages for value, _ in stage.reduced]
        each = [instruction_of(self.kernel, value) for value in found]
        return list(dict.fromkeys((one.function, one.dtype) for one in each))


class _Plan:
    """Collects the launches of one call."""

    def __init__(self, kernel: Kernel, sizes: Sequence[int], call_arrays: int) -> None:
        self._kernel = kernel
        self._sizes = sizes
        self._call_arrays = call_arrays
        self._launches: list[Launch] = []
        self._combinations: list[Launch] = []
        self._left_bytes: list[int] = []
        self._positions = 0

    def leave(self, value: int, times: int = 1) -> int:
        """Allocates an array for a value, or for its parts; returns the array's number."""
        itemsize = np.dtype(self._kernel.value_dtypes[value].numpy).itemsize
        axes = self._kernel.value_axes[value]
        self._left_bytes.append(self._count(axes) * times * itemsize)
        return self._call_arrays + len(self._left_bytes) - 1

    def add(self, stage: Stage, text: StageText, direct: bool) -> None:
        numbers = tuple(math.prod(self._sizes[d] for d in group) for group in stage.groups)
        self._positions = max(self._positions, math.prod(numbers))
        reduced = list(zip(numbers, stage.reduced_groups, strict=True))
        kept = math.prod(n for n, flag in reduced if not flag)
        taken = math.prod(n for n, flag in reduced if flag)
        for value, _ in stage.stores:
            varies = self._kernel.value_axes[value]
            within = any(a and b for a, b in zip(varies, stage.over, strict=True))
            if self._count(varies) and not kept * (taken if within else 1):
                raise UnsupportedKernel(f"an output with elements where sizes are {self._sizes}")
        if kept == 0 or (stage.kind == "elementwise" and math.prod(numbers) == 0):
            return
        name = text.name
        if stage.kind == "elementwise":
            grid, block = (-(-kept // (THREADS * PACK)), 1), (THREADS, 1)
        elif stage.kind == "rows":
            grid, block = _warps(kept) if taken <= _LONG_ROW else ((kept, 1), (THREADS, 1))
            if 0 < taken <= text.kept_columns * KEEPING_THREADS:
                name = text.keeping_name
                threads = WARP * -(-taken // (WARP * text.kept_columns))
                grid, block = _warps(kept) if threads <= WARP else ((kept, 1), (threads, 1))
        elif by_columns(stage):
            tiles = -(-kept // WARP)
            parts = max(1, min(-(-taken // _COLUMN_PART), _BLOCKS // tiles))
            grid, block = (tiles, parts), (WARP, COLUMN_ROWS)
        elif taken <= _LONG_REDUCTION:
            grid, block = _warps(kept)
        else:
            grid = (kept, max(1, min(-(-taken // _PART), _BLOCKS // kept)))
            block = (THREADS, 1)
        if stage.kind != "partial":
            self._launches.append(Launch(name, grid, block, text.arrays, numbers))
            return
        parts = grid[1]
        arrays = list(text.arrays)
        if parts > 1 or not direct:
            for place, (value, array) in enumerate(stage.reduced, len(arrays) - len(stage.reduced)):
                arrays[place] = self.leave(value, parts)
                each = instruction_of(self._kernel, value)
                name = _combining_name(each.function, each.dtype)
                shape = _warps(kept)
                combination = Launch(name, *shape, (arrays[place], array), (kept, parts))
                self._combinations.append(combination)
        self._launches.append(Launch(text.name, grid, block, tuple(arrays), (*numbers, parts)))

    def finish(self) -> LaunchPlan:
        axes = [operand.axes for operand in self._kernel.inputs]
        axes += [self._kernel.value_axes[value] for value in self._kernel.outputs]
        return LaunchPlan(
            self._positions >= NARROW,
            (*self._launches, *self._combinations),
            tuple(self._left_bytes),
            tuple(self._count(each) for each in axes),
        )

    def _count(self, axes: Axes) -> int:
        return math.prod(size for size, flag in zip(self._sizes, axes, strict=True) if flag)


def index_type(wide: bool) -> str:
    """Returns the C type of a position."""
    return "unsigned long long" if wide else "unsigned int"


def _warps(rows: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Returns grid and block for one warp per row."""
    return (-(-rows // (THREADS // WARP)), 1), (WARP, THREADS // WARP)


def _combining_name(function: str, dtype: DType) -> str:
    return f"combine_{function}_{dtype.name}"
