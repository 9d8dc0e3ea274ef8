"""Slices of a variable set or updated in place at index vectors.

The same on tensors is in `tensor_scatter`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from sparkflow_runtime import dtypes, shapes
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.indexing.gather import check_depth, linear_rows
from sparkflow_runtime.ops.kernels.combining import combine_at, elements_of_rows
from sparkflow_runtime.ops.op import Array, Inference, Op, not_differentiable
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import bool_attr, string_attr, type_attr
from sparkflow_runtime.ops.static import STRINGS_ON_HOST, bracketed
from sparkflow_runtime.resources.variable import Variable
from sparkflow_runtime.shapes import Dim, Shape

_TINDICES = type_attr(dtypes.INDEX)
_POLICY = string_attr("", frozenset({"", "DEFAULT", "ERROR"}))


def scatter_nd(xp: Any, whole: Array, indices: Array, updates: Array, how: str) -> None:
    """Writes into the contiguous array `whole` where the vectors in `indices` point.

    Args:
        xp: numpy or cupy.
        whole: The array to change.
        indices: [..., depth].
        updates: indices.shape[:-1] + whole.shape[depth:].
        how: `update`, or the name of a ufunc.

    Raises:
        InvalidArgumentError: An index vector is out of bounds.
    """
    depth = indices.shape[-1]
    rows = linear_rows(xp, indices, whole.shape, "")
    count = int(np.prod(whole.shape[:depth]))
    if how == "update":
        flat = whole.reshape(count, *whole.shape[depth:])
        flat[rows] = updates.reshape(rows.size, *whole.shape[depth:])
    elif updates.size:
        places = elements_of_rows(xp, rows, whole.size // count)
        combine_at(xp, how, whole.reshape(-1), places, updates.reshape(-1))


class _ScatterNdRef(Op):
    """A variable with updates where the vectors in `indices` point."""

    inputs = "ref: Ref(T), indices: Tindices, updates: T"
    outputs = "output_ref: Ref(T)"
    attrs = {
        "T": type_attr(dtypes.NUMERIC),
        "Tindices": _TINDICES,
        "use_locking": bool_attr(False),
        "bad_indices_policy": _POLICY,
    }
    stateful = True
    keeps_inputs = False
    kernels: ClassVar[Any] = {"CPU": None, "GPU": dtypes.FLOATING | dtypes.INDEX}
    gradient = not_differentiable
    how: ClassVar[str]

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The variable's shape.

        Raises:
            InvalidArgumentError: The updates do not fit.
        """
        ref, indices, updates = node.shapes
        if indices == ():
            raise InvalidArgumentError(message="indices must be at least a vector")
        if ref is not None and indices is not None and indices[-1] is not None:
            self._check(ref, indices, updates)
        return [ref]

    def _check(self, ref: Sequence[Dim], indices: Sequence[Dim], updates: Shape) -> None:
        depth = indices[-1]
        assert depth is not None
        check_depth(depth, len(ref), "ref")
        expected = (*indices[:-1], *ref[depth:])
        if not shapes.is_compatible(expected, updates):
            raise InvalidArgumentError(
                message=f"updates must have shape indices.shape[:-1] + ref.shape[depth:] = "
                f"{bracketed(expected)}, but has {bracketed(updates)}"
            )

    def compute(self, xp: Any, ref: Variable, indices: Array, updates: Array) -> Variable:
        """Returns the variable.

        Raises:
            FailedPreconditionError: It is uninitialised.
            InvalidArgumentError: An index outside, or updates of the wrong shape.
        """
        if not indices.ndim:
            raise InvalidArgumentError(message="indices must be at least a vector")
        with ref.lock:
            array = ref.read()
            self._check(array.shape, indices.shape, updates.shape)
            scatter_nd(xp, array, indices, updates, self.how)
        return ref


@register
class ScatterNdUpdate(_ScatterNdRef):
    """Sets slices of a variable."""

    attrs = {
        "T": type_attr(),
        "Tindices": _TINDICES,
        "use_locking": bool_attr(True),
        "bad_indices_policy": _POLICY,
    }
    kernels = STRINGS_ON_HOST
    how = "update"


@register
class ScatterNdAdd(_ScatterNdRef):
    """Adds to slices of a variable."""

    how = "add"


@register
class ScatterNdSub(_ScatterNdRef):
    """Subtracts from slices of a variable."""

    how = "subtract"


@register
class ScatterNdMax(_ScatterNdRef):
    """Raises slices of a variable to the maximum of the two."""

    attrs = {**_ScatterNdRef.attrs, "T": type_attr(dtypes.REAL)}
    how = "maximum"


@register
class ScatterNdMin(_ScatterNdRef):
    """Lowers slices of a variable to the minimum of the two."""

    attrs = {**_ScatterNdRef.attrs, "T": type_attr(dtypes.REAL)}
    how = "minimum"
