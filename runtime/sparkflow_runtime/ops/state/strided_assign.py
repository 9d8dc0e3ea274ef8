"""Assignment to a part of a variable: `ref[2:4].assign(...)`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow_runtime import dtypes
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.inference import same_as
from sparkflow_runtime.ops.op import Array, Op, not_differentiable
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.shape.strided import Masks, StridedSpec
from sparkflow_runtime.ops.signature import int_attr, type_attr
from sparkflow_runtime.ops.static import STRINGS_ON_HOST, bracketed
from sparkflow_runtime.resources.variable import Variable


@register
class StridedSliceAssign(Op):
    """`ref[begin:end:strides] = value`, bounds and masks as in `StridedSlice`.

    The value may have fewer dimensions, or sizes of 1, and is broadcast.
    """

    inputs = "ref: Ref(T), begin: Index, end: Index, strides: Index, value: T"
    outputs = "output_ref: Ref(T)"
    attrs = {
        "T": type_attr(),
        "Index": type_attr(dtypes.INDEX),
        "begin_mask": int_attr(0),
        "end_mask": int_attr(0),
        "ellipsis_mask": int_attr(0),
        "new_axis_mask": int_attr(0),
        "shrink_axis_mask": int_attr(0),
    }
    stateful = True
    keeps_inputs = False
    kernels = STRINGS_ON_HOST
    gradient = not_differentiable
    infer = same_as(0)

    def compute(
        self,
        xp: Any,
        ref: Variable,
        begin: Array,
        end: Array,
        strides: Array,
        value: Array,
        *,
        begin_mask: int,
        end_mask: int,
        ellipsis_mask: int,
        new_axis_mask: int,
        shrink_axis_mask: int,
    ) -> Variable:
        """Returns the variable.

        Raises:
            FailedPreconditionError: It is uninitialised.
            InvalidArgumentError: The bounds or the value's shape do not fit.
        """
        masks = Masks(begin_mask, end_mask, ellipsis_mask, new_axis_mask, shrink_axis_mask)
        spec = StridedSpec.of(begin, end, strides, masks)
        with ref.lock:
            array = ref.read()
            part = array[spec.index(array.shape)]
            if not _broadcasts(value.shape, part.shape):
                raise InvalidArgumentError(
                    message=f"Shapes {bracketed(part.shape)} of the slice and "
                    f"{bracketed(value.shape)} of the value do not match"
                )
            part[...] = value
        return ref


def _broadcasts(given: Sequence[int], asked: Sequence[int]) -> bool:
    if len(given) > len(asked):
        return False
    tail = asked[len(asked) - len(given) :]
    return all(one in (1, other) for one, other in zip(given, tail, strict=True))
