"""How an op becomes instructions of a fused kernel: the argument and the result of `Op.fuse`.

A kernel runs over an iteration space: the sizes greater than 1 of one shape. Every dimension of a
tensor in it maps to one dimension of the space, or to none if its size is 1 or the tensor is
broadcast along it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from sparkflow_runtime.dtypes import DType

if TYPE_CHECKING:
    from sparkflow_runtime.codegen.ir.builder import KernelBuilder, Value

Dims = tuple[int | None, ...]
"""Per dimension of a tensor the dimension of the iteration space to which it maps."""


class NotFusableError(Exception):
    """The op cannot be part of this kernel; it runs separately."""


@dataclass(frozen=True, slots=True)
class Fused:
    """A tensor in a kernel.

    Attributes:
        value: The kernel's value for it.
        shape: Its shape.
        dims: The mapping of its dimensions.
        is_final: Whether nothing in the kernel can read it: it is complete only at the end.
        divisor: The divisor of a final value after the kernel has run; None for none.
    """

    value: Value
    shape: tuple[int, ...]
    dims: Dims
    is_final: bool = False
    divisor: float | None = None


@dataclass(frozen=True, slots=True)
class Check:
    """A scalar of a kernel that is non-zero if the op must fail.

    Attributes:
        value: The scalar.
        inputs: Numbers of the inputs that the error concerns; they are inputs of the kernel.
        fail: Accepts these arrays and raises.
    """

    value: Value
    inputs: tuple[int, ...]
    fail: Callable[..., object]


@dataclass(slots=True)
class Fusion:
    """One op that is being fused into a kernel.

    Attributes:
        builder: Receives the instructions.
        space: Sizes of the iteration space.
        attrs: The node's attributes.
        shapes, dtypes: Shapes and dtypes of the inputs.
        constants: Known values of the inputs, else None.
        inside: The inputs that this kernel computes, else None.
        output_shapes, output_dtypes: Shapes and dtypes of the outputs.
        load: Loads input `i` from outside, with the given mapping.
        reduces: Whether a reduction over these dimensions of the space may be read in the kernel.
        checks: The conditions on the inputs, see `Check`.
    """

    builder: KernelBuilder
    space: tuple[int, ...]
    attrs: Mapping[str, Any]
    shapes: Sequence[tuple[int, ...]]
    dtypes: Sequence[DType]
    constants: Sequence[Any]
    inside: Sequence[Fused | None]
    output_shapes: Sequence[tuple[int, ...]]
    output_dtypes: Sequence[DType]
    load: Callable[[int, Dims], Value]
    reduces: Callable[[tuple[bool, ...], tuple[bool, ...]], bool]
    checks: list[Check] = field(default_factory=list)

    def align(self, shape: tuple[int, ...], inputs: Sequence[int]) -> Dims:
        """Returns the mapping of a tensor to which these inputs are broadcast.

        Raises:
            NotFusableError: The inputs map to different dimensions.
        """
        dims: list[int | None] = [None] * len(shape)
        for number in inputs:
            given = self.inside[number]
            if given is None:
                continue
            for place, dim in enumerate(reversed(given.dims), 1):
                if dim is None:
                    continue
                if dims[-place] not in (None, dim):
                    raise NotFusableError("the inputs map to different dimensions")
                dims[-place] = dim
        needed = [
            dims[place] is None
            and any(
                self.inside[number] is None and _size_from_right(self.shapes[number], back) > 1
                for number in inputs
            )
            for place, back in enumerate(range(len(shape), 0, -1))
        ]
        return fit(self.space, shape, dims, needed)

    def input(self, number: int, dims: Dims) -> Value:
        """Returns an input's value, broadcast to a tensor with the mapping `dims`.

        Raises:
            NotFusableError: It is computed in this kernel with another mapping, or is final.
        """
        shape = self.shapes[number]
        own = tuple(
            dim if size > 1 else None
            for size, dim in zip(shape, dims[len(dims) - len(shape) :], strict=True)
        )
        given = self.inside[number]
        if given is not None:
            if given.is_final:
                raise NotFusableError("it is complete only at the end of the kernel")
            if any(
                theirs not in (None, mine) for theirs, mine in zip(given.dims, own, strict=True)
            ):
                raise NotFusableError("the input maps to other dimensions")
            return given.value
        constant = self.constants[number]
        if constant is not None and is_uniform(constant):
            return self.builder.constant(constant.flat[0].item(), self.dtypes[number])
        if any(size > 1 and dim is None for size, dim in zip(shape, own, strict=True)):
            raise NotFusableError("a dimension of the input maps to none")
        return self.load(number, own)

    def whole(self, number: int) -> Fused:
        """Returns an input, not broadcast.

        Raises:
            NotFusableError: It does not map to the space, or is final.
        """
        shape = self.shapes[number]
        given = self.inside[number]
        dims = self.align(shape, [number]) if given is None else given.dims
        return Fused(self.input(number, dims), shape, dims)

    def reduce(
        self, function: str, tensor: Fused, positions: Sequence[int], keep_dims: bool
    ) -> Fused:
        """Returns a reduction over dimensions along which a tensor varies or has size 1.

        Raises:
            NotFusableError: It is broadcast along one of them.
        """
        over = [False] * len(self.space)
        for position in positions:
            dim = tensor.dims[position]
            if dim is not None:
                over[dim] = True
            elif tensor.shape[position] > 1:
                raise NotFusableError("the tensor is broadcast along a reduced dimension")
        if keep_dims:
            dims: Dims = tuple(None if i in positions else dim for i, dim in enumerate(tensor.dims))
            shape = tuple(1 if i in positions else size for i, size in enumerate(tensor.shape))
        else:
            kept = [i for i in range(len(tensor.dims)) if i not in positions]
            dims, shape = tuple(tensor.dims[i] for i in kept), tuple(tensor.shape[i] for i in kept)
        if not any(over):
            return Fused(tensor.value, shape, dims)
        if any(flag and not axis for flag, axis in zip(over, tensor.value.axes, strict=True)):
            raise NotFusableError("the tensor is broadcast along a reduced dimension")
        is_final = not self.reduces(tensor.value.axes, tuple(over))
        value = self.builder.reduce(function, tensor.value, tuple(over))
        return Fused(value, shape, dims, is_final)

    def like(self, tensor: Fused, value: Value, is_final: bool = False) -> Fused:
        """Returns another value with the mapping of a tensor."""
        return Fused(value, tensor.shape, tensor.dims, is_final)


def is_uniform(array: Any) -> bool:
    """Whether an array is one broadcast number (all strides 0)."""
    return bool(array.size) and (array.size == 1 or not any(array.strides))


def _size_from_right(shape: Sequence[int], back: int) -> int:
    return shape[-back] if back <= len(shape) else 1


def fit(
    space: Sequence[int], shape: Sequence[int], dims: Sequence[int | None], needed: Sequence[bool]
) -> Dims:
    """Completes `dims`, in ascending order, with the last dimensions of the space if possible.

    Raises:
        NotFusableError: There is no dimension of that size left, or the given ones are not
            ascending.
    """
    found = list(dims)
    limit = len(space)
    for place in range(len(shape) - 1, -1, -1):
        dim = found[place]
        if dim is None:
            if not needed[place]:
                continue
            lower = max((each for each in found[:place] if each is not None), default=-1)
            dim = limit - 1
            while dim > lower and space[dim] != shape[place]:
                dim -= 1
            if dim <= lower:
                raise NotFusableError("the shapes do not fit into one iteration space")
            found[place] = dim
        if dim >= limit:
            raise NotFusableError("the dimensions are in another order")
        limit = dim
    return tuple(found)


def squeezed(shape: Sequence[int]) -> tuple[int, ...]:
    """Returns the iteration space of a shape."""
    return tuple(size for size in shape if size != 1)


def same_value(fusion: Fusion) -> Fused:
    """Returns the first input with dimensions of size 1 added or dropped.

    Raises:
        NotFusableError: The other dimensions change, or the kernel does not compute the input.
    """
    given, shape = fusion.inside[0], fusion.output_shapes[0]
    if given is None:
        raise NotFusableError("nothing is computed")
    if squeezed(given.shape) != squeezed(shape):
        raise NotFusableError("the elements are in other dimensions")
    dims = iter([dim for size, dim in zip(given.shape, given.dims, strict=True) if size != 1])
    lying = tuple(None if size == 1 else next(dims) for size in shape)
    return replace(given, shape=shape, dims=lying)


def axes_of(indices: Any, rank: int) -> tuple[int, ...]:
    """Returns constant reduction indices as positions.

    Raises:
        NotFusableError: They are unknown, or invalid.
    """
    if indices is None:
        raise NotFusableError("the axes are not known")
    given = [int(axis) for axis in np.asarray(indices).reshape(-1)]
    if any(not -rank <= axis < rank for axis in given):
        raise NotFusableError("there is no such axis")
    axes = sorted({axis % rank for axis in given})
    if len(axes) < len(given):
        raise NotFusableError("an axis is given twice")
    return tuple(axes)
