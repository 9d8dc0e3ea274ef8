"""log |gamma(x)| of float32 in machine code: SciPy's function takes one number at a time.

Computed in float64. From 7 on, Stirling's series; smaller numbers are moved there by
gamma(x + 7) = x (x + 1) ... (x + 6) gamma(x), and those below 1/2 first to 1 - x by
gamma(x) gamma(1 - x) = pi / sin(pi x).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from sparkflow_runtime.codegen.ir.builder import KernelBuilder, Value
from sparkflow_runtime.codegen.ir.kernel import Kernel
from sparkflow_runtime.codegen.machine import native, threads
from sparkflow_runtime.dtypes import float32, float64
from sparkflow_runtime.once import latest, once
from sparkflow_runtime.ops.op import Array

_SHIFT: Final = 7
_SERIES: Final = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156)
"""Of 1 / z² in Stirling's series times z."""
_SINE: Final = [(-1) ** n * math.pi ** (2 * n) / math.factorial(2 * n + 1) for n in range(11)]
"""Of r² in sin(pi r) / (pi r), for |r| up to 1/2."""


def log_gamma(x: Array) -> Array | None:
    """Returns log |gamma(x)| of float32, within two units in the last place.

    Infinite for 0 and negative whole numbers, and negative infinity for negative infinity, as
    SciPy's. None if there is no machine code for it.
    """
    if x.dtype != np.float32 or not x.size or not native.available():
        return None
    found = np.empty(x.shape, np.float32)
    return found if _bound(x.size, threads.count())(x, found) else None


@latest(64)
def _bound(size: int, thread_count: int) -> Callable[..., bool]:
    from sparkflow_runtime.codegen.cpu.loops import compile_kernel

    return compile_kernel(kernel()).bind([size], thread_count)


@once
def kernel() -> Kernel:
    """Returns the kernel of one input and one output."""
    builder = KernelBuilder(1)
    x = builder.cast(builder.input(float32, (True,)), float64)
    reflects = x.less(0.5)
    a = builder.call("where", reflects, 1.0 - x, x)
    product = a
    for step in range(1, _SHIFT):
        product = product * (a + float(step))
    is_small = a.less(float(_SHIFT))
    product = builder.call("where", is_small, product, builder.constant(1.0, float64))
    z = builder.call("where", is_small, a + float(_SHIFT), a)
    inverse = 1.0 / z
    series = _polynomial(_SERIES, inverse * inverse) * inverse
    large = (z - 0.5) * builder.call("log", z) - z + (series + 0.5 * math.log(2 * math.pi))
    fraction = x - builder.call("rint", x)
    sine = builder.call("absolute", fraction) * _polynomial(_SINE, fraction * fraction)
    factor = builder.call("log", builder.call("where", reflects, product / sine, product))
    found = builder.call("where", reflects, factor - large, large - factor)
    # The parts of 1 and 2 differ by a rounding error.
    is_zero = ((x - 1.0) * (x - 2.0)).equal(0.0)
    found = builder.call("where", is_zero, builder.constant(0.0, float64), found)
    found = builder.call("where", builder.call("isinf", x), x, found)
    builder.output(builder.cast(found, float32))
    return builder.build()


def _polynomial(coefficients: Sequence[float], x: Value) -> Value:
    *others, last = coefficients
    found = x * last + others.pop()
    for each in reversed(others):
        found = found * x + each
    return found
