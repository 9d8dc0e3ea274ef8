"""Local response normalisation on a GPU in CUDA."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sparkflow_runtime.codegen.gpu.cuda_expressions import COMPUTED_IN
from sparkflow_runtime.codegen.gpu.cuda_lrn import LrnProgram
from sparkflow_runtime.device.gpu_kernels import GpuKernel
from sparkflow_runtime.ops.op import Array


def bind(cupy: Any, gradient: bool, attrs: Mapping[str, Any]) -> Callable[..., bool] | None:
    """Returns a function of the inputs and the result's array that fills it.

    It returns False, without doing anything, if one of the arrays has a different size.

    Args:
        cupy: The module.
        gradient: Whether it is the gradient.
        attrs: The node's attributes.

    Returns:
        The function; None for an unsupported dtype.
    """
    if attrs["T"] not in COMPUTED_IN:
        return None
    numbers = (attrs[name] for name in ("depth_radius", "bias", "alpha", "beta"))
    kernel = GpuKernel(cupy, LrnProgram(attrs["T"], gradient, *numbers))

    def fill(*arrays: Array) -> bool:
        out = arrays[-1]
        run = kernel.bound((out.size, out.shape[-1]))
        same = all(array.shape == out.shape for array in arrays)
        return same and run(*map(cupy.ascontiguousarray, arrays[:-1]), out)

    return fill
