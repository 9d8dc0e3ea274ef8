"""Local response normalisation and its gradient as CUDA C: an element per thread, channels last.

A neighbour's contribution to the gradient needs the sum around that neighbour, so one launch
computes the contributions and the next one adds them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from sparkflow_runtime.codegen.gpu.cuda import (
    NARROW,
    THREADS,
    Launch,
    LaunchPlan,
    index_type,
)
from sparkflow_runtime.codegen.gpu.cuda_expressions import COMPUTED_IN, elements, literal
from sparkflow_runtime.dtypes import DType

_WRITTEN_OUT: Final = 8
"""Loops over up to this many neighbours on either side are fully unrolled."""

_AROUND: Final = """\
template <class F>
__device__ number_t around(F value_at, index_t channel, index_t channels) {{
    number_t sum = value_at(0);
    {unroll}
    for (int d = 1; d <= {radius}; ++d) {{
        if (channel >= (index_t)d) sum += value_at(-d);
        if (channel + d < channels) sum += value_at(d);
    }}
    return sum;
}}
__device__ number_t base_of(const element_t* here, index_t channel, index_t channels) {{
    const auto square = [here](int d) {{
        const number_t value = number_of(here[d]);
        return value * value;
    }};
    return {bias} + {alpha} * around(square, channel, channels);
}}
"""
_HEAD: Final = """\
    const index_t at = blockIdx.x * (index_t)blockDim.x + threadIdx.x;
    if (at >= (index_t)count) return;
    const index_t channels = (index_t)all_channels, channel = at % channels;
    const number_t base = base_of(images + at, channel, channels);
"""
_FORWARD: Final = """\
extern "C" __global__ void lrn(
    const element_t* __restrict__ images, element_t* __restrict__ result,
    long long count, long long all_channels) {{
{head}    result[at] = element_of(number_of(images[at]) * {power}(base, -{beta}));
}}
"""
_GRADIENT: Final = """\
extern "C" __global__ void lrn_shares(
    const element_t* __restrict__ given, const element_t* __restrict__ images,
    const element_t* __restrict__ made, number_t* __restrict__ shares,
    long long count, long long all_channels) {{
{head}    shares[at] = number_of(given[at]) * number_of(made[at]) / base;
}}
extern "C" __global__ void lrn_gradient(
    const element_t* __restrict__ given, const element_t* __restrict__ images,
    const number_t* __restrict__ shares, element_t* __restrict__ result,
    long long count, long long all_channels) {{
{head}    const number_t* here = shares + at;
    const number_t sum = around([here](int d) {{ return here[d]; }}, channel, channels);
    const number_t direct = number_of(given[at]) * {power}(base, -{beta});
    result[at] = element_of(direct - {slope} * number_of(images[at]) * sum);
}}
"""


@dataclass(frozen=True, slots=True)
class LrnProgram:
    """A normalisation, or its gradient, for `device.gpu_kernels`.

    The arrays are images and result; for the gradient: dy, images, result, and dx.

    Attributes:
        dtype: The element type, one of `cuda_expressions.COMPUTED_IN`.
        gradient: Whether it is the gradient.
        radius: Number of channels on either side.
        bias, alpha, beta: See `ops.nn.lrn`.
    """

    dtype: DType
    gradient: bool
    radius: int
    bias: float
    alpha: float
    beta: float

    def source(self, wide: bool = False) -> str:
        """CUDA C, for NVRTC or nvcc.

        Args:
            wide: Whether positions take 64 bits.
        """
        kind = COMPUTED_IN[self.dtype]
        numbers = {
            "radius": self.radius,
            "unroll": "#pragma unroll" if self.radius <= _WRITTEN_OUT else "#pragma unroll 1",
            "power": "pow" if np.dtype(kind.as_numpy_dtype).itemsize == 8 else "powf",
            "head": _HEAD,
            "bias": literal(self.bias, kind),
            "alpha": literal(self.alpha, kind),
            "beta": literal(self.beta, kind),
            "slope": literal(2 * self.alpha * self.beta, kind),
        }
        text = _AROUND + (_GRADIENT if self.gradient else _FORWARD)
        typedef = f"typedef {index_type(wide)} index_t;\n"
        return f"{typedef}{elements(self.dtype)}{text.format(**numbers)}"

    def plan(self, sizes: Sequence[int]) -> LaunchPlan:
        """Returns the launches of a call.

        Args:
            sizes: Number of elements and of channels.
        """
        count, channels = sizes
        arrays: dict[str, tuple[int, ...]] = {"lrn": (0, 1)}
        left: tuple[int, ...] = ()
        if self.gradient:
            arrays = {"lrn_shares": (0, 1, 2, 4), "lrn_gradient": (0, 1, 4, 3)}
            left = (count * np.dtype(COMPUTED_IN[self.dtype].as_numpy_dtype).itemsize,)
        shape = ((-(-count // THREADS), 1), (THREADS, 1))
        launches = [
            Launch(name, *shape, taken, (count, channels)) for name, taken in arrays.items()
        ]
        return LaunchPlan(
            count >= NARROW,
            tuple(launches) if count else (),
            left,
            (count,) * (4 if self.gradient else 2),
        )
