"""Partially known tensor values before anything runs, and how ops propagate them.

Shape inference reads values: the target shape of a `Reshape`, the axes of a sum, the depth of a
one-hot encoding. Programs compute them from sizes, some of which may be unknown, so that a value is
often only partly known: [?, 12]. An op's `value_rule` derives its outputs from such values; if all
inputs are known, its kernel computes them (`evaluation`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from sparkflow_runtime import shapes
from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.shapes import Shape

HostArray = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor's value as far as it is known.

    Attributes:
        array: The elements; arbitrary where unknown.
        unknown: A boolean array of the same shape; None if every element is known.
    """

    array: HostArray
    unknown: HostArray | None = None

    @property
    def whole(self) -> HostArray | None:
        """The array if every element is known, else None."""
        return self.array if self.unknown is None else None

    def elements(self) -> tuple[int | None, ...]:
        """The elements of an integer tensor in row-major order, None for unknown ones."""
        numbers: list[int] = self.array.reshape(-1).tolist()
        if self.unknown is None:
            return tuple(numbers)
        hidden = self.unknown.reshape(-1).tolist()
        return tuple(None if h else n for n, h in zip(numbers, hidden, strict=True))


def fixed(array: HostArray) -> HostArray:
    """Returns a read-only view of a constant: kernels may cache what they compute from it."""
    view = array.view()
    view.flags.writeable = False
    return view


def wholly(array: HostArray | None) -> Value | None:
    """A fully known value; None for None."""
    return None if array is None else Value(array)


def partly(array: HostArray, unknown: HostArray) -> Value | None:
    """The value with additional `unknown` elements; None if none is known."""
    if not unknown.any():
        return Value(array)
    return None if unknown.all() else Value(array, unknown)


def of_sizes(shape: Shape, dtype: DType) -> Value | None:
    """The sizes of a shape as a vector, as far as they are known."""
    if shape is None:
        return None
    sizes = np.array([0 if dim is None else dim for dim in shape], dtype.as_numpy_dtype)
    return partly(sizes, np.array([dim is None for dim in shape], np.bool_))


@dataclass(frozen=True, slots=True)
class Valuation:
    """The input of a value rule.

    Attributes:
        shapes: Static shapes of the inputs.
        dtypes: Their dtypes.
        attrs: The node's attributes.
        values: The known values of the inputs; None for unknown.
        run: Runs the node's kernel, and raises its errors.
    """

    shapes: Sequence[Shape]
    dtypes: Sequence[DType]
    attrs: Mapping[str, Any]
    values: Sequence[Value | None]
    run: Callable[[Sequence[HostArray]], Sequence[HostArray]]


Found = Sequence[Value | None] | None
"""Per output its known value; None if nothing is known about any."""


@dataclass(frozen=True, slots=True)
class ValueRule:
    """How an op's outputs follow from partly known inputs.

    Attributes:
        find: The rule.
        reads: Whether the outputs depend on the inputs' values, not only on their shapes.
        lenient: Whether something can be derived even if an input is entirely unknown.
        moves: The inputs whose elements, and zeros, make up the outputs, see `moving`.
    """

    find: Callable[[Valuation], Found]
    reads: bool = True
    lenient: bool = False
    moves: tuple[int | slice, ...] = ()


WHOLE: Final = ValueRule(lambda node: None)
"""Derives nothing: the kernel needs all of its inputs. Right for every op."""


def of_shapes(find: Callable[[Valuation], Found]) -> ValueRule:
    """The rule of an op that only reads the shapes of its inputs."""
    return ValueRule(find, reads=False)


def moving(*data: int | slice, alike: bool = False) -> ValueRule:
    """The rule of an op that copies elements of some inputs to positions given by others.

    The outputs consist of those elements and zeros. So the kernel runs twice: on the elements and
    on marks of the unknown ones, which thus move in the same way.

    Args:
        data: The numbers of the inputs whose elements are copied.
        alike: Whether those inputs have one shape.
    """
    find = functools.partial(_moved, data=data, alike=alike)
    return ValueRule(find, lenient=True, moves=data)


def _moved(node: Valuation, data: Sequence[int | slice], alike: bool) -> Found:
    places = list(range(len(node.values)))
    moved: set[int] = set()
    for each in data:
        chosen = places[each]
        moved.update(chosen if isinstance(chosen, list) else [chosen])
    if all(node.values[place] is None for place in moved):
        return None
    given = [node.shapes[place] for place in moved]
    common = functools.reduce(shapes.merge, given) if alike else None
    elements: list[HostArray] = []
    marks: list[HostArray] = []
    for place, value in enumerate(node.values):
        shape = common if alike and place in moved else node.shapes[place]
        array, unknown = _array(value, shape, node.dtypes[place])
        if array is None or (place not in moved and unknown is not None):
            return None
        elements.append(array)
        if place in moved:
            array = np.zeros_like(array) if unknown is None else unknown.astype(array.dtype)
        marks.append(array)
    hidden = [np.asarray(mark).astype(np.bool_) for mark in node.run(marks)]
    if all(mark.size and mark.all() for mark in hidden):
        return None
    return [partly(array, mark) for array, mark in zip(node.run(elements), hidden, strict=True)]


def _array(
    value: Value | None, shape: Shape, dtype: DType
) -> tuple[HostArray | None, HostArray | None]:
    """The array and the marks of unknown elements; (None, None) if its shape is unknown."""
    if value is not None:
        return value.array, value.unknown
    if shape is None or None in shape:
        return None, None
    zeros = np.zeros([dim or 0 for dim in shape], dtype.as_numpy_dtype)
    return zeros, np.ones(zeros.shape, np.bool_)


def _filled(value: Value) -> HostArray:
    """The array with ones for unknown elements, so that it can be a divisor."""
    if value.unknown is None:
        return value.array
    return np.where(value.unknown, value.array.dtype.type(1), value.array)


def _elementwise(node: Valuation) -> Found:
    known = [value for value in node.values if value is not None]
    (result,) = node.run([_filled(value) for value in known])
    marks = [np.False_ if each.unknown is None else each.unknown for each in known]
    unknown = functools.reduce(np.logical_or, marks)
    return [partly(result, np.broadcast_to(unknown, result.shape))]


ELEMENTWISE: Final = ValueRule(_elementwise)
"""The rule of an elementwise op whose inputs are broadcast."""


def _reduced(node: Valuation) -> Found:
    source, axes = node.values
    if source is None or source.unknown is None or axes is None or axes.whole is None:
        return None
    (result,) = node.run([_filled(source), axes.whole])
    over = tuple(int(axis) for axis in axes.whole.reshape(-1))
    unknown = source.unknown.any(axis=over, keepdims=node.attrs["keep_dims"])
    return [partly(result, np.asarray(unknown))]


REDUCING: Final = ValueRule(_reduced)
"""The rule of a reduction along the axes in the second input."""


def _scanned(node: Valuation) -> Found:
    source, axis = node.values
    if source is None or source.unknown is None or axis is None or axis.whole is None:
        return None
    (result,) = node.run([_filled(source), axis.whole])
    unknown = np.moveaxis(source.unknown, int(axis.whole), 0)
    unknown = unknown[::-1] if node.attrs["reverse"] else unknown
    unknown = np.logical_or.accumulate(unknown, axis=0)
    if node.attrs["exclusive"]:
        unknown = np.concatenate([np.zeros_like(unknown[:1]), unknown[:-1]])
    unknown = unknown[::-1] if node.attrs["reverse"] else unknown
    return [partly(result, np.moveaxis(unknown, 0, int(axis.whole)))]


SCANNING: Final = ValueRule(_scanned)
"""The rule of a scan along the axis in input 1 (from the end: `reverse`)."""
