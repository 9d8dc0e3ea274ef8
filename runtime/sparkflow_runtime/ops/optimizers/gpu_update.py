"""Updates of variables on a GPU: a whole optimizer step of a variable as one fused kernel."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sparkflow_runtime.codegen.gpu.cuda import CudaProgram
from sparkflow_runtime.device.gpu_kernels import GpuKernel
from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.ops.op import Array
from sparkflow_runtime.ops.optimizers import update_kernels
from sparkflow_runtime.ops.optimizers.native_update import Arguments, Decay, Run

if TYPE_CHECKING:
    from sparkflow_runtime.ops.optimizers.apply_gradient import DenseUpdate


def bind(cupy: Any, op: DenseUpdate, dtype: DType, attrs: Mapping[str, Any]) -> Run | None:
    """Returns the kernel of a dense update on a GPU, as `native_update.bind`.

    Args:
        cupy: The module.
        op: The op.
        dtype: The dtype of the variable.
        attrs: The node's attributes.

    Returns:
        The kernel; None for row updates, and for powers, which would have to be inspected on the
    host.
    """
    if dtype not in update_kernels.DTYPES:
        return None
    arguments = Arguments(op, dtype, attrs)
    if arguments.indices is not None or arguments.has_power:
        return None
    made = arguments.kernel(is_root=False)
    kernel = GpuKernel(cupy, CudaProgram(made.kernel))

    def run(arrays: Sequence[Array], inputs: Sequence[Any]) -> bool:
        shape = inputs[arguments.grad].shape
        if any(array.shape != shape for array in arrays):
            return False
        update = kernel.bound((arrays[0].size,))
        others = map(cupy.ascontiguousarray, inputs[arguments.variables :])
        return update(*arrays, *others, *[arrays[i] for i in made.changed])

    return run


def bind_decay(
    cupy: Any, op: DenseUpdate, dtype: DType, attrs: Mapping[str, Any], slots_only: bool
) -> Decay | None:
    """Returns the kernel that updates rows without a gradient, as `native_update.bind_decay`."""
    if dtype not in update_kernels.DTYPES:
        return None
    arguments = Arguments(op, dtype, attrs)
    made = arguments.decay_kernel(slots_only)
    kernel = GpuKernel(cupy, CudaProgram(made.kernel))

    def decay(arrays: Sequence[Array], indices: Array, inputs: Sequence[Any]) -> bool:
        shape = arrays[0].shape
        marks = cupy.zeros(shape[:1], bool)
        marks[indices] = True
        scalars = [cupy.asarray(inputs[i]) for i in arguments.scalars]
        run = kernel.bound((shape[0], math.prod(shape[1:])))
        return run(*arrays, *scalars, marks, *[arrays[i] for i in made.changed])

    return decay
