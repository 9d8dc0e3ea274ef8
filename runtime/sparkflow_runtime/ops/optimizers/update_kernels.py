"""The formulas of the optimizers as kernels: one pass over memory per update."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Final

from sparkflow_runtime.codegen.ir.builder import KernelBuilder, Value
from sparkflow_runtime.codegen.ir.kernel import Kernel
from sparkflow_runtime.dtypes import DType, bool_, float32, float64
from sparkflow_runtime.ops.optimizers.update_rules import Rule

DTYPES: Final = frozenset({float32, float64})
"""The dtypes of variables that these kernels support."""


@dataclass(frozen=True, slots=True)
class KernelFunctions:
    """`update_rules.Functions` for a kernel that is being built."""

    builder: KernelBuilder

    def call(self, function: str, *values: Value) -> Value:
        """See `Functions`."""
        return self.builder.call(function, *values)

    def like(self, value: Value, other: Value) -> Value:
        """See `Functions`."""
        return self.builder.cast(value, other.dtype)

    def inverse_power(self, x: Value, power: Value) -> Value:
        """In double precision, which hides the errors of the logarithm."""
        builder = self.builder
        power = -builder.cast(power, float64)
        wide = builder.call("exp", builder.call("log", builder.cast(x, float64)) * power)
        return builder.cast(builder.call("where", power.equal(0.0), 1.0, wide), x.dtype)


@dataclass(frozen=True, slots=True)
class UpdateKernel:
    """A single update, as a kernel of rank 1.

    Attributes:
        kernel: Its inputs are the op's arguments in order, without indices.
        changed: The inputs that its outputs replace.
    """

    kernel: Kernel
    changed: tuple[int, ...]


@functools.cache
def update_kernel(
    rule: Rule, args: tuple[tuple[str, DType, bool], ...], flags: tuple[tuple[str, bool], ...]
) -> UpdateKernel:
    """Returns the kernel of an update.

    Args:
        rule: The formula.
        args: Name and dtype of each argument without indices, and whether it is an array. The
            gradient's name is `grad`.
        flags: The op's attributes that the rule uses.
    """
    builder = KernelBuilder(1)
    values = {name: builder.input(dtype, (is_array,)) for name, dtype, is_array in args}
    made = rule(KernelFunctions(builder), **values, **dict(flags))
    names = [name for name, _, _ in args]
    changed = tuple(i for i, name in enumerate(names) if name in made)
    for i in changed:
        builder.output(made[names[i]])
    return UpdateKernel(builder.build(), changed)


@functools.cache
def decay_kernel(
    rule: Rule,
    args: tuple[tuple[str, DType, bool], ...],
    flags: tuple[tuple[str, bool], ...],
    slots_only: bool,
) -> UpdateKernel:
    """Returns the kernel of an update by a gradient of 0, of rank 2.

    Its inputs are the arguments without the gradient, and a bool for each row: it stays as it is.

    Args:
        rule: As for `update_kernel`.
        args: As there.
        flags: As there.
        slots_only: Whether the variable, which is the first argument, is not replaced.
    """
    builder = KernelBuilder(2)
    values = {
        name: builder.input(dtype, (is_array, is_array))
        for name, dtype, is_array in args
        if name != "grad"
    }
    stays = builder.input(bool_, (True, False))
    names = list(values)
    nothing = builder.constant(0.0, values[names[0]].dtype)
    made = rule(KernelFunctions(builder), grad=nothing, **values, **dict(flags))
    changed = tuple(i for i, name in enumerate(names) if name in made and (i > 0 or not slots_only))
    for i in changed:
        builder.output(builder.call("where", stays, values[names[i]], made[names[i]]))
    return UpdateKernel(builder.build(), changed)
