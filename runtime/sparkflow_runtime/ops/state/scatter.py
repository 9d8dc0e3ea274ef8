"""Updates of single rows of a variable: `ref[indices] op= updates`.

For repeated indices every update counts, applied in order as in TensorFlow (on a GPU the order is
undefined; for ScatterUpdate one of them wins).
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from sparkflow_runtime import dtypes, shapes
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.kernels.combining import combine_at, elements_of_rows
from sparkflow_runtime.ops.native import row_kernels
from sparkflow_runtime.ops.op import Array, Inference, Op, not_differentiable
from sparkflow_runtime.ops.optimizers.update import require_rows
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import bool_attr, type_attr
from sparkflow_runtime.resources.variable import Variable
from sparkflow_runtime.shapes import Shape

_TINDICES = type_attr(dtypes.INDEX)


class _Scatter(Op):
    """One update per index. `updates` has shape `indices.shape + ref.shape[1:]`, or is a scalar."""

    inputs = "ref: Ref(T), indices: Tindices, updates: T"
    outputs = "output_ref: Ref(T)"
    attrs = {
        "T": type_attr(dtypes.NUMERIC),
        "Tindices": _TINDICES,
        "use_locking": bool_attr(False),
    }
    stateful = True
    keeps_inputs = False
    kernels: ClassVar = {"CPU": None, "GPU": dtypes.FLOATING | dtypes.INDEX}
    gradient = not_differentiable
    ufunc: ClassVar[str]

    def infer(self, node: Inference) -> list[Shape]:
        """The shape of the variable.

        Raises:
            InvalidArgumentError: The variable is a scalar, or the updates do not fit.
        """
        ref, indices, updates = node.shapes
        if ref == ():
            raise InvalidArgumentError(message=f"{self.op_type} needs a variable with rows, got ()")
        rows = None if ref is None else ref[1:]
        expected = shapes.concatenate(indices, rows)
        if updates != () and not shapes.is_compatible(expected, updates):
            raise InvalidArgumentError(message=self._misfit(ref, indices, updates, expected))
        return [ref]

    def compute(self, xp: Any, ref: Variable, indices: Array, updates: Array) -> Variable:
        """Returns the variable.

        Raises:
            FailedPreconditionError: It is uninitialised.
            InvalidArgumentError: An index is no row of it, or the updates do not fit.
        """
        with ref.lock:
            array = ref.read()
            expected = indices.shape + array.shape[1:]
            fits = array.ndim > 0 and updates.shape in (expected, ())
            if xp is np and fits and row_kernels.scatter(self.ufunc, array, indices, updates):
                return ref
            require_rows(xp, ref, array, indices)
            if updates.shape not in (expected, ()):
                raise InvalidArgumentError(
                    message=self._misfit(array.shape, indices.shape, updates.shape, expected)
                )
            self.scatter(xp, array, indices, updates)
        return ref

    def scatter(self, xp: Any, array: Array, indices: Array, updates: Array) -> None:
        """Writes the checked updates into `array`."""
        where = elements_of_rows(xp, indices, array[:1].size)
        values = updates if updates.ndim == 0 else updates.reshape(-1)
        combine_at(xp, self.ufunc, array.reshape(-1), where, values)

    def _misfit(self, ref: Shape, indices: Shape, updates: Shape, expected: Shape) -> str:
        return (
            f"{self.op_type} needs updates of shape indices.shape + ref.shape[1:] = "
            f"{shapes.text(expected)}, got {shapes.text(updates)} "
            f"for ref {shapes.text(ref)} and indices {shapes.text(indices)}"
        )


@register
class ScatterUpdate(_Scatter):
    """Sets rows; the last of several updates of one row remains."""

    ufunc = row_kernels.SET
    attrs = {
        "T": type_attr(dtypes.ALL),
        "Tindices": _TINDICES,
        "use_locking": bool_attr(True),
    }
    kernels: ClassVar = {"CPU": None, "GPU": dtypes.PLAIN}

    def scatter(self, xp: Any, array: Array, indices: Array, updates: Array) -> None:
        """Writes the checked updates into `array`."""
        array[indices] = updates


@register
class ScatterAdd(_Scatter):
    """Adds to rows."""

    applies_gradients = True
    sums_rows = ("updates", "indices")
    tolerates_rounding = True
    ufunc = "add"


@register
class ScatterSub(_Scatter):
    """Subtracts from rows."""

    applies_gradients = True
    sums_rows = ("updates", "indices")
    tolerates_rounding = True
    ufunc = "subtract"


@register
class ScatterMul(_Scatter):
    """Multiplies rows."""

    ufunc = "multiply"


@register
class ScatterDiv(_Scatter):
    """Divides rows."""

    attrs = {
        "T": type_attr(dtypes.FLOATING | dtypes.COMPLEX),
        "Tindices": _TINDICES,
        "use_locking": bool_attr(False),
    }
    ufunc = "divide"


class _ScatterExtremum(_Scatter):
    attrs = {
        "T": type_attr(dtypes.FLOATING | dtypes.INDEX),
        "Tindices": _TINDICES,
        "use_locking": bool_attr(False),
    }


@register
class ScatterMin(_ScatterExtremum):
    """Lowers rows to the updates where these are smaller."""

    ufunc = "minimum"


@register
class ScatterMax(_ScatterExtremum):
    """Raises rows to the updates where these are larger."""

    ufunc = "maximum"
