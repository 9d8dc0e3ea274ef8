"""Matrix transposition as CUDA C: in tiles, so that reads and writes are coalesced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sparkflow_runtime.codegen.gpu.cuda import NARROW, Launch, LaunchPlan, index_type

ELEMENTS: Final = {1: "unsigned char", 2: "unsigned short", 4: "unsigned", 8: "unsigned long long"}
"""The C type that is moved for an element, by its size in bytes."""
_TILE: Final = 32
_ROWS: Final = 8
"""Rows of a tile that are moved at a time, one per warp."""

_SOURCE: Final = """\
typedef {index} index_t;
extern "C" __global__ void transpose(
    const {kind}* __restrict__ given, {kind}* __restrict__ result,
    long long all_rows, long long all_columns, long long down, long long across) {{
    __shared__ {kind} tile[{tile}][{tile} + 1];  // columns lie in different banks
    const index_t rows = (index_t)all_rows, columns = (index_t)all_columns;
    const index_t band = blockIdx.x / (index_t)across;
    const index_t first_column = (blockIdx.x - band * (index_t)across) * {tile};
    const index_t matrix = band / (index_t)down;
    const index_t first_row = (band - matrix * (index_t)down) * {tile};
    const index_t start = matrix * rows * columns;
    #pragma unroll
    for (int y = threadIdx.y; y < {tile}; y += {height}) {{
        const index_t row = first_row + y, column = first_column + threadIdx.x;
        if (row < rows && column < columns)
            tile[y][threadIdx.x] = given[start + row * columns + column];
    }}
    __syncthreads();
    #pragma unroll
    for (int y = threadIdx.y; y < {tile}; y += {height}) {{
        const index_t row = first_row + threadIdx.x, column = first_column + y;
        if (row < rows && column < columns)
            result[start + column * rows + row] = tile[threadIdx.x][y];
    }}
}}
"""


@dataclass(frozen=True, slots=True)
class TranspositionProgram:
    """Transposes a stack of contiguous matrices, for `device.gpu_kernels`.

    Attributes:
        size_bytes: Size of an element, one of `ELEMENTS`.
    """

    size_bytes: int

    def source(self, wide: bool = False) -> str:
        """CUDA C, for NVRTC or nvcc.

        Args:
            wide: Whether positions take 64 bits.
        """
        kind = ELEMENTS[self.size_bytes]
        return _SOURCE.format(index=index_type(wide), kind=kind, tile=_TILE, height=_ROWS)

    def plan(self, sizes: Sequence[int]) -> LaunchPlan:
        """Returns the launch of a call.

        Args:
            sizes: Number of matrices, and rows and columns of each source.
        """
        count, rows, columns = sizes
        elements = count * rows * columns
        down, across = -(-rows // _TILE), -(-columns // _TILE)
        shape = ((count * down * across, 1), (_TILE, _ROWS))
        launch = Launch("transpose", *shape, (0, 1), (rows, columns, down, across))
        return LaunchPlan(
            elements >= NARROW, (launch,) if elements else (), (), (elements, elements)
        )
