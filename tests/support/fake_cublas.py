"""A stand-in for cuBLAS on memory of the host, for `testing.fake_cupy`."""

from __future__ import annotations

import ctypes
from typing import Any, Final

import numpy as np

_SCALARS: Final[dict[int, Any]] = {0: ctypes.c_float, 1: ctypes.c_double}
"""By cudaDataType_t."""


class FakeCublas:
    """The part of cupy's bindings that `device.gpu_products` uses.

    Attributes:
        compute_types: What was asked for, in order.
    """

    def __init__(self) -> None:
        self.compute_types: list[int] = []

    def gemmEx(
        self,
        handle: Any,
        transpose_a: int,
        transpose_b: int,
        m: int,
        n: int,
        k: int,
        alpha: int,
        a: int,
        type_a: int,
        leading_a: int,
        b: int,
        type_b: int,
        leading_b: int,
        beta: int,
        c: int,
        type_c: int,
        leading_c: int,
        compute_type: int,
        algorithm: int,
    ) -> None:
        """Multiplies matrices that lie column after column, when the stream gets there.

        Args:
            handle: The stand-in for cupy, whose current stream gets the work.
        """
        assert type_a == type_b == type_c
        scalar = _SCALARS[type_c]
        self.compute_types.append(compute_type)

        def matrix(address: int, rows: int, columns: int, leading: int) -> Any:
            assert leading >= max(rows, 1)
            memory = (scalar * (leading * columns)).from_address(address)
            return np.ctypeslib.as_array(memory).reshape(columns, leading).T[:rows]

        factor, kept = (scalar.from_address(each).value for each in (alpha, beta))
        left = matrix(a, k, m, leading_a).T if transpose_a else matrix(a, m, k, leading_a)
        right = matrix(b, n, k, leading_b).T if transpose_b else matrix(b, k, n, leading_b)
        result = matrix(c, m, n, leading_c)

        def work() -> None:
            result[...] = factor * (left @ right) + (kept * result if kept else 0)

        handle.streams[-1].put(work)
