"""Random numbers of a generator of numpy's, drawn in machine code: the same that numpy would draw.

A generator's bits come from functions that numpy says the addresses of.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Final

import numpy as np

from sparkflow_runtime.codegen.machine import entry, native
from sparkflow_runtime.codegen.machine.llvm_text import Code
from sparkflow_runtime.dtypes import DType, float32, float64
from sparkflow_runtime.once import once

_SHARES: Final = {float32: "float", float64: "double"}


def bind_uniform(generator: np.random.Generator, dtype: DType, count: int) -> Callable[..., bool]:
    """A function of an array that it fills with numbers in [0, 1), as `generator.random` does.

    Whoever calls it holds the generator, and its lock.

    Args:
        generator: Drawn from.
        dtype: float32 or float64.
        count: Elements of the array.
    """
    bits = generator.bit_generator.ctypes
    function = bits.next_uint32 if dtype is float32 else bits.next_double
    address = ctypes.cast(function, ctypes.c_void_p).value
    sizes = (address or 0, int(bits.state_address), count)
    return _uniform(dtype).bind(sizes, [entry.NOT_COUNTED], 0)


@once
def is_as_numpys(dtype: DType) -> bool:
    """Whether this version of numpy makes numbers of bits in the way known here."""
    if dtype not in _SHARES or not native.available():
        return False
    expected, found = np.empty(8, dtype.numpy), np.empty(8, dtype.numpy)
    bind_uniform(np.random.Generator(np.random.Philox(1)), dtype, 8)(found)
    np.random.Generator(np.random.Philox(1)).random(dtype=dtype.as_numpy_dtype, out=expected)
    return bool((found == expected).all())


@once
def _uniform(dtype: DType) -> native.Body:
    code, kind = Code(), _SHARES[dtype]
    function, state, count = code.sizes(3)
    (out,) = code.arrays(1)
    draw, given = (code.let(f"inttoptr i64 {each} to ptr") for each in (function, state))
    with code.loop(0, count) as i:
        if dtype is float32:
            bits = code.let(f"call i32 {draw}(ptr {given})")
            whole = code.let(f"uitofp i32 {code.let(f'lshr i32 {bits}, 8')} to float")
            value = code.let(f"fmul float {whole}, 0x3E70000000000000")  # 2 to the power of -24
        else:
            value = code.let(f"call double {draw}(ptr {given})")
        code.store(kind, value, code.at(kind, out, i), dtype.size)
    return native.body(code.module())
