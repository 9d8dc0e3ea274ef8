"""Updates of host variables by machine code: the kernels of `update_kernels`, ready to call.

For unsupported arguments (gaps in memory, shapes that do not fit, indices out of bounds) they do
nothing and return False; the op then uses numpy, or reports the error.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sparkflow_runtime.codegen.cpu import loops
from sparkflow_runtime.codegen.machine import native, threads
from sparkflow_runtime.codegen.rows import sparse_rows_update
from sparkflow_runtime.codegen.rows.sparse_rows_update import Rule
from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.ops.native import row_kernels
from sparkflow_runtime.ops.op import Array
from sparkflow_runtime.ops.optimizers import update_kernels, update_rules
from sparkflow_runtime.ops.optimizers.update_kernels import UpdateKernel
from sparkflow_runtime.shapes import Shape

if TYPE_CHECKING:
    from sparkflow_runtime.ops.optimizers.apply_gradient import DenseUpdate

Run = Callable[[Sequence[Array], Sequence[Any]], bool]
"""A function of the arrays of a variable and its slots, and all op inputs; True on success."""
Decay = Callable[[Sequence[Array], Array, Sequence[Any]], bool]
"""See `bind_decay`."""
_MOST_SHAPES: Final = 16


def bind(op: DenseUpdate, dtype: DType, attrs: Mapping[str, Any]) -> Run | None:
    """Returns the kernel of a node.

    Args:
        op: The op, in its reference form.
        dtype: The dtype of the variable.
        attrs: The node's attributes.

    Returns:
        The kernel, to be called with the variables locked; None if there is none.
    """
    found = arguments(op, dtype, attrs)
    if found is None:
        return None
    return _Dense(found) if found.indices is None else _Rows(found)


def bind_decay(
    op: DenseUpdate, dtype: DType, attrs: Mapping[str, Any], slots_only: bool
) -> Decay | None:
    """Returns the kernel that updates the rows without a gradient, as by a gradient of 0.

    Args:
        op: As for `bind`, a row update.
        dtype: As there.
        attrs: As there.
        slots_only: Whether the variable itself stays as it is.

    Returns:
        A function of the arrays of a variable and its slots, the indices that it leaves out, which
        are those of rows, and all inputs of the op. True on success.
    """
    found = arguments(op, dtype, attrs)
    return None if found is None else _Decay(found, slots_only)


def arguments(op: DenseUpdate, dtype: DType, attrs: Mapping[str, Any]) -> Arguments | None:
    """What is known about a node that machine code supports; None if it does not. See `bind`."""
    if dtype not in update_kernels.DTYPES or not native.available():
        return None
    return Arguments(op, dtype, attrs)


class Arguments:
    """The roles of an update's inputs.

    Attributes:
        variables: Number of leading variables.
        grad, indices: Input numbers; `indices` is None for dense updates.
        scalars: Input numbers of the scalars.
        has_power: Whether one of them is FTRL's power.
    """

    def __init__(self, op: DenseUpdate, dtype: DType, attrs: Mapping[str, Any]) -> None:
        inputs = op.signature.inputs
        names = [arg.name for arg in inputs]
        places = {name: i for i, name in enumerate(names)}
        self.variables = len(op.refs)
        self.indices = op.indices_at
        self.grad = op.grad_at
        self.scalars = list(op.scalars)
        self._power = places.get("lr_power")
        self.has_power = self._power is not None
        self._rule = type(op).rule
        self._args = tuple(
            ("grad" if i == self.grad else arg.name, arg.dtype or dtype, i not in self.scalars)
            for i, arg in enumerate(inputs)
            if i != self.indices
        )
        self._flags = tuple((name, attrs[name]) for name in sorted(op.flags))

    def needs_root_only(self, inputs: Sequence[Any]) -> bool:
        """Whether the power among the scalars has a faster kernel."""
        return self._power is not None and inputs[self._power] == update_rules.ROOT_POWER

    def kernel(self, is_root: bool) -> UpdateKernel:
        """The kernel for it."""
        flags = (*self._flags, ("is_root", True)) if is_root else self._flags
        return update_kernels.update_kernel(self._rule, self._args, flags)

    def decay_kernel(self, slots_only: bool) -> UpdateKernel:
        """The kernel of `bind_decay`, whose last input marks rows."""
        return update_kernels.decay_kernel(self._rule, self._args, self._flags, slots_only)

    def rule(self, is_root: bool) -> Rule:
        """The same as a rule for rows."""
        made = self.kernel(is_root)
        arrays = [f"table{i}" for i in range(self.variables)]
        scalar = 0
        for _, _, is_array in self._args[self.variables :]:
            arrays.append("update" if is_array else f"scalar{scalar}")
            scalar += not is_array
        return sparse_rows_update.rule(made.kernel, arrays + [arrays[i] for i in made.changed])


class _Dense:
    """Dense updates, bound once per shape."""

    def __init__(self, arguments: Arguments) -> None:
        self._arguments = arguments
        self._count, self._grad = arguments.variables, arguments.grad
        self._has_power = arguments.has_power
        self._bound: dict[Any, Callable[..., bool]] = {}

    def __call__(self, arrays: Sequence[Array], inputs: Sequence[Any]) -> bool:
        shape = inputs[self._grad].shape
        for array in arrays:
            if array.shape != shape:
                return False
        key: Any = shape
        if self._has_power:
            key = (shape, self._arguments.needs_root_only(inputs))
        run = self._bound.get(key) or self._bind(key, arrays[0].size)
        return run(arrays, inputs[self._count :])

    def _bind(self, key: Any, size: int) -> Callable[..., bool]:
        made = self._arguments.kernel(is_root=self._has_power and key[1])
        kernel = loops.compile_kernel(made.kernel).bind((size,), threads.count())
        count = self._count

        def run_all(arrays: Sequence[Array], others: Sequence[Any]) -> bool:
            return kernel(*arrays, *others, *arrays) or kernel(
                *arrays, *map(np.ascontiguousarray, others), *arrays
            )

        def run_some(arrays: Sequence[Array], others: Sequence[Any]) -> bool:
            outputs = [arrays[i] for i in made.changed]
            return kernel(*arrays, *map(np.ascontiguousarray, others), *outputs)

        if len(self._bound) >= _MOST_SHAPES:
            self._bound.clear()
        run = run_all if len(made.changed) == count else run_some
        self._bound[key] = run
        return run


class _Decay:
    """See `bind_decay`; bound to the last shape.

    The marks of rows, all False between calls, are those of one call at a time: updates of other
    variables by this node may run at the same time.
    """

    def __init__(self, arguments: Arguments, slots_only: bool) -> None:
        self._arguments = arguments
        self._made = arguments.decay_kernel(slots_only)
        self._bound: tuple[Shape, Callable[..., bool]] | None = None
        self._marks: list[Array] = []

    def __call__(self, arrays: Sequence[Array], indices: Array, inputs: Sequence[Any]) -> bool:
        shape, bound = arrays[0].shape, self._bound
        if bound is None or bound[0] != shape:
            rows = shape[0], math.prod(shape[1:])
            kernel = loops.compile_kernel(self._made.kernel).bind(rows, threads.count())
            bound = self._bound = (shape, kernel)
        marks = None
        with contextlib.suppress(IndexError):  # another thread has the last ones
            marks = self._marks.pop()
        if marks is None or marks.shape != shape[:1]:
            marks = np.zeros(shape[:1], np.bool_)
        marks[indices] = True
        scalars = [np.asarray(inputs[i]) for i in self._arguments.scalars]
        outputs = [arrays[i] for i in self._made.changed]
        done = bound[1](*arrays, *scalars, marks, *outputs)
        marks[indices] = False
        self._marks.append(marks)
        return done


class _Rows:
    """Updates of rows."""

    def __init__(self, arguments: Arguments) -> None:
        self._arguments = arguments
        self._rules: dict[bool, Rule] = {}

    def __call__(self, arrays: Sequence[Array], inputs: Sequence[Any]) -> bool:
        arguments, shape = self._arguments, arrays[0].shape
        assert arguments.indices is not None
        grad, indices = inputs[arguments.grad], inputs[arguments.indices]
        if not shape or indices.ndim != 1 or grad.shape != indices.shape + shape[1:]:
            return False
        if any(array.shape != shape for array in arrays):
            return False
        is_root = arguments.needs_root_only(inputs)
        rule = self._rules.get(is_root)
        if rule is None:
            rule = self._rules[is_root] = arguments.rule(is_root)
        scalars = [np.asarray(inputs[i]) for i in arguments.scalars]
        return row_kernels.update(rule, arrays, indices, grad, scalars) is True
