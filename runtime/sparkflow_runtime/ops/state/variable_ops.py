"""Variables: the ops that own, assign, count and query them.

A reference is, at run time, the `resources.variable.Variable` itself. Assignments copy their value
into the variable's own memory, under its lock, and return the reference.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from sparkflow_runtime import dtypes, shapes
from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.errors import InvalidArgumentError, OutOfRangeError
from sparkflow_runtime.ops.inference import attribute, same_as, scalars
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.ops.op import Array, Inference, NodeView, Op, not_differentiable
from sparkflow_runtime.ops.optimizers.update import require_same_shape, same_static_shape
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import (
    bool_attr,
    int_attr,
    shape_attr,
    string_attr,
    type_attr,
)
from sparkflow_runtime.resources.variable import Variable
from sparkflow_runtime.shapes import Shape

_KERNELS = {"CPU": None, "GPU": dtypes.PLAIN}


@register
class VariableV2(Op):
    """A reference to the variable of this name on the task, created at first use.

    Steps and sessions that name the same (container, shared_name or node name) share it.
    """

    is_variable = True
    quiet = True
    capturable = True
    outputs = "ref: Ref(dtype)"
    attrs = {
        "shape": shape_attr(),
        "dtype": type_attr(dtypes.ALL),
        "container": string_attr(""),
        "shared_name": string_attr(""),
    }
    stateful = True
    kernels: ClassVar = _KERNELS
    gradient = not_differentiable
    infer = attribute("shape")

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """Finds or creates the variable; the kernel returns it.

        Raises:
            InvalidArgumentError: The variable exists with another dtype or shape.
        """
        name = node.attrs["shared_name"] or node.name
        dtype: DType = node.attrs["dtype"]
        (shape,) = self.infer(Inference([], [], node.attrs))
        variable = context.resources.get_or_create(
            node.attrs["container"], name, Variable, lambda: Variable(name, dtype, shape)
        )
        if variable.dtype is not dtype or not shapes.is_compatible(variable.shape, shape):
            raise InvalidArgumentError(
                message=f"Variable {name!r} exists on {context.device_name} as "
                f"{variable.dtype.name} {shapes.text(variable.shape)}, but was asked for as "
                f"{dtype.name} {shapes.text(shape)}; use another name or reset the task"
            )
        variable.note_reshaped = context.resources.note_reshaped
        variable.note_moved = context.resources.note_moved
        variable.allocate = context.resources.allocate
        return lambda: variable


@register
class VariableV1(VariableV2):
    """The op of TensorFlow's first releases, in which shape () means unknown."""

    type = "Variable"

    def infer(self, node: Inference) -> list[Shape]:
        """The shape in the attribute, unknown for ()."""
        return [node.attrs["shape"] or None]


@register
class TemporaryVariable(Op):
    """A variable of zeros that lives for one step."""

    outputs = "ref: Ref(dtype)"
    attrs = {"shape": shape_attr(), "dtype": type_attr(dtypes.ALL), "var_name": string_attr("")}
    stateful = True
    kernels: ClassVar = _KERNELS
    gradient = not_differentiable
    infer = attribute("shape")

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """The kernel creates a new variable each time.

        Raises:
            InvalidArgumentError: The shape is not fully known.
        """
        name = node.attrs["var_name"] or node.name
        dtype: DType = node.attrs["dtype"]
        shape, xp = node.attrs["shape"], context.xp
        if not shapes.is_fully_defined(shape):
            raise InvalidArgumentError(
                message=f"TemporaryVariable {name!r} needs a complete shape, got "
                f"{shapes.text(shape)}"
            )

        def make() -> Variable:
            variable = Variable(name, dtype, shape)
            variable.array = xp.zeros(shape, dtype.as_numpy_dtype)
            if dtype is dtypes.string:
                variable.array[...] = b""
            return variable

        return make


@register
class DestroyTemporaryVariable(Op):
    """The last value of a variable that lives for one step."""

    inputs = "ref: Ref(T)"
    outputs = "value: T"
    attrs = {"T": type_attr(dtypes.ALL), "var_name": string_attr()}
    stateful = True
    kernels: ClassVar = _KERNELS
    gradient = not_differentiable
    infer = same_as(0)

    def compute(self, xp: Any, ref: Variable, *, var_name: str) -> Array:
        """Takes the array out of the variable.

        Raises:
            InvalidArgumentError: The variable has another name.
        """
        if ref.name != var_name:
            raise InvalidArgumentError(
                message=f"Tried to destroy the temporary variable {var_name!r}, but was given "
                f"{ref.name!r}"
            )
        array = ref.read()
        ref.array = None
        return array


@register
class IsVariableInitialized(Op):
    """Whether a value has been assigned to the variable."""

    inputs = "ref: Ref(dtype)"
    outputs = "is_initialized: bool"
    attrs = {"dtype": type_attr(dtypes.ALL)}
    stateful = True
    only_reads = True
    kernels: ClassVar = _KERNELS
    gradient = not_differentiable
    infer = scalars

    def compute(self, xp: Any, ref: Variable) -> Array:
        """Never fails on an uninitialised variable."""
        return xp.asarray(ref.array is not None)


@register
class InitializedValue(Op):
    """The variable's value, or `initial_value` if it has none yet.

    A variable whose initial value depends on this one reads it so. Ours: TensorFlow builds a
    conditional.
    """

    is_ours = True
    inputs = "ref: Ref(T), initial_value: T"
    outputs = "value: T"
    aliases = frozenset({"initial_value"})
    attrs = {"T": type_attr(dtypes.ALL)}
    stateful = True
    only_reads = True
    kernels: ClassVar = _KERNELS
    gradient = not_differentiable

    def infer(self, node: Inference) -> list[Shape]:
        """The shape that both have."""
        return [same_static_shape(node, ("the variable", "the initial value"))]

    def compute(self, xp: Any, ref: Variable, initial_value: Array) -> Array:
        """A copy, which later updates do not reach."""
        with ref.lock:
            return initial_value if ref.array is None else ref.array.copy()


@register
class Assign(Op):
    """Copies `value` into the variable.

    `validate_shape=False` lets the variable take any shape. The lock is held whatever `use_locking`
    says, which costs nothing without contention.
    """

    tolerates_rounding = True
    capturable = True
    inputs = "ref: Ref(T), value: T"
    outputs = "output_ref: Ref(T)"
    attrs = {
        "T": type_attr(dtypes.ALL),
        "validate_shape": bool_attr(True),
        "use_locking": bool_attr(True),
    }
    stateful = True
    keeps_inputs = False
    kernels: ClassVar = _KERNELS
    gradient = not_differentiable

    def infer(self, node: Inference) -> list[Shape]:
        """The shape of the value, which fits the variable's if that is validated."""
        if not node.attrs["validate_shape"]:
            return [node.shapes[1]]
        return [same_static_shape(node, ("the variable", "the value"))]

    def compute(self, xp: Any, ref: Variable, value: Array, *, validate_shape: bool) -> Variable:
        """Returns the variable.

        Raises:
            InvalidArgumentError: The shape is validated and differs.
        """
        shape = xp.shape(value)
        with ref.lock:
            array = ref.array
            if validate_shape:
                required = ref.shape if array is None else array.shape
                if not shapes.is_compatible(required, shape):
                    raise InvalidArgumentError(
                        message="Assign requires shapes of both tensors to match. lhs shape= "
                        f"{shapes.bracketed(required)} rhs shape= {shapes.bracketed(shape)} "
                        f"(variable {ref.name!r})"
                    )
            if array is None or array.shape != shape:
                kind = ref.dtype.as_numpy_dtype
                if not shapes.is_compatible(ref.shape, shape):
                    ref.note_reshaped()  # before another step can find the value
                if xp is np:
                    fresh = ref.allocate(shape, kind)
                    fresh[...] = value
                    ref.array = fresh
                else:
                    ref.array = xp.array(value, dtype=kind, order="C", copy=True)
            else:
                # numpy copes with a value that overlaps the variable; cupy would race.
                overlaps = xp.__name__ != "numpy" and xp.may_share_memory(array, value)
                array[...] = value.copy() if overlaps else value
        return ref


class _AssignUpdate(Op):
    """An elementwise update of a whole variable."""

    applies_gradients = True
    tolerates_rounding = True
    capturable = True
    inputs = "ref: Ref(T), value: T"
    outputs = "output_ref: Ref(T)"
    attrs = {"T": type_attr(dtypes.NUMERIC), "use_locking": bool_attr(False)}
    stateful = True
    keeps_inputs = False
    kernels: ClassVar = _KERNELS
    gradient = not_differentiable
    ufunc: ClassVar[str]

    def infer(self, node: Inference) -> list[Shape]:
        """The shape that variable and value share."""
        return [same_static_shape(node, ("the variable", "the value"))]

    def compute(self, xp: Any, ref: Variable, value: Array) -> Variable:
        """Returns the variable.

        Raises:
            FailedPreconditionError: It is uninitialised.
            InvalidArgumentError: The shapes differ.
        """
        with ref.lock:
            array = ref.read()
            require_same_shape(ref, array, "the value", value)
            getattr(xp, self.ufunc)(array, value, out=array)
        return ref


@register
class AssignAdd(_AssignUpdate):
    """Adds `value` to the variable."""

    flops = 1
    ufunc = "add"


@register
class AssignSub(_AssignUpdate):
    """Subtracts `value` from the variable."""

    flops = 1
    ufunc = "subtract"


@register
class CountUpTo(Op):
    """Increments a scalar variable until it reaches `limit`; returns the value before."""

    inputs = "ref: Ref(T)"
    outputs = "output: T"
    attrs = {"limit": int_attr(), "T": type_attr(dtypes.INDEX)}
    stateful = True
    kernels: ClassVar = {"CPU": None}
    gradient = not_differentiable
    infer = same_as(0, 0, "the variable of CountUpTo")

    def compute(self, xp: Any, ref: Variable, *, limit: int) -> Array:
        """The count before it is incremented.

        Raises:
            OutOfRangeError: The variable has reached `limit`.
        """
        with ref.lock:
            array = ref.read()
            if array >= limit:
                raise OutOfRangeError(message=f"Reached limit of {limit}: variable {ref.name!r}")
            before = array.copy()
            array += 1
        return before
