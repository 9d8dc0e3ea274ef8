"""The ops that apply a gradient to a variable and its slots: `ApplyX` and `SparseApplyX`.

Here are their signatures, checks and critical sections; the formulas are in `update_rules`, updates
with a proximal step or by signs in `apply_proximal` and `apply_sign`. An update runs in place
with the variable and all its slots locked (whatever `use_locking` says), so concurrent replicas
apply one after the other; the kernels keep no state of their own.

Rows that appear several times in `indices` are summed first and applied once, which is what
TensorFlow's optimizers do before they call these ops.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from sparkflow_runtime import dtypes, shapes
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.ops.op import Array, Inference, NodeView, Op, not_differentiable
from sparkflow_runtime.ops.optimizers import gpu_update, native_update, update_rules
from sparkflow_runtime.ops.optimizers.update import (
    Apply,
    LockOrder,
    in_blocks,
    require_rows,
    require_same_shape,
    same_static_shape,
    sum_duplicates,
)
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import Attr, bool_attr, type_attr
from sparkflow_runtime.resources.variable import Variable
from sparkflow_runtime.shapes import Shape

_COMPLEX_TOO = dtypes.FLOATING | dtypes.COMPLEX


def update_attrs(
    *flags: str, sparse: bool = False, types: Any = dtypes.FLOATING
) -> dict[str, Attr]:
    """The attributes of an update: `T`, `Tindices` where it is one of rows, `use_locking`, flags.

    Flags are false by default, except `update_slots`.
    """
    indices = {"Tindices": type_attr(dtypes.INDEX)} if sparse else {}
    names = {name: bool_attr(name == "update_slots") for name in ("use_locking", *flags)}
    return {"T": type_attr(types), **indices, **names}


class DenseUpdate(Op):
    """A dense update of a variable and its slots.

    Attributes:
        rule: The formula, see `update_rules`.
        grad: The name of the gradient's argument.
    """

    applies_gradients = True
    outputs = "out: Ref(T)"
    stateful = True
    keeps_inputs = False
    gradient = not_differentiable
    rule: ClassVar[update_rules.Rule]
    grad: ClassVar[str] = "grad"

    def __init__(self) -> None:
        super().__init__()
        names = [arg.name for arg in self.signature.inputs]
        self.refs = [arg.name for arg in self.signature.inputs if arg.is_ref]
        self.grad_at = names.index(self.grad)
        self.indices_at = names.index("indices") if "indices" in names else None
        arrays = {*range(len(self.refs)), self.grad_at, self.indices_at}
        self.scalars = {i: name for i, name in enumerate(names) if i not in arrays}
        self.flags = self.signature.attrs.keys() - {"T", "Tindices", "use_locking"}

    def infer(self, node: Inference) -> list[Shape]:
        """The shape of the variable, which its slots and the gradient share.

        Raises:
            InvalidArgumentError: They do not, or a scalar argument is none.
        """
        for index, name in self.scalars.items():
            node.with_rank(index, 0, name)
        shape = same_static_shape(node, self.refs)
        expected = self._gradient_shape(node, shape)
        given = node.shapes[self.grad_at]
        if not shapes.is_compatible(expected, given):
            raise InvalidArgumentError(
                message=f"{shapes.difference(expected or (), given or ())} "
                f"{self.op_type} needs a gradient of shape {shapes.text(expected)} for a "
                f"variable of shape {shapes.text(shape)}, got {shapes.text(given)}"
            )
        return [shape if self.indices_at is not None else shapes.merge(shape, given)]

    def _gradient_shape(self, node: Inference, shape: Shape) -> Shape:
        return shape

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """The kernel: takes variables and arrays, returns the variable.

        It raises FailedPreconditionError where a variable or slot is uninitialised, and
        InvalidArgumentError where shapes differ or an index is out of range.
        """
        xp = context.xp
        flags: Mapping[str, bool] = {name: node.attrs[name] for name in self.flags}
        functions, count = update_rules.ArrayFunctions(xp), len(self.refs)
        native = None
        if xp is np:
            native = native_update.bind(self, node.attrs["T"], node.attrs)
        elif context.gpu is not None:
            native = gpu_update.bind(xp, self, node.attrs["T"], node.attrs)
        locks = LockOrder()

        def run(*inputs: Any) -> Variable:
            variables: tuple[Variable, ...] = inputs[:count]
            held = locks.of(variables)
            for lock in held:
                lock.acquire()
            try:
                arrays = [variable.read() for variable in variables]
                if native is not None and native(arrays, inputs):
                    return variables[0]
                apply = self._rule_in_place(functions, inputs, flags)
                for slot, array in zip(variables[1:], arrays[1:], strict=True):
                    require_same_shape(slot, array, "its variable", arrays[0])
                self._update(xp, apply, variables[0], arrays, inputs)
                return variables[0]
            finally:
                for lock in held:
                    lock.release()

        return run

    def _rule_in_place(
        self, functions: update_rules.Functions, inputs: Sequence[Any], flags: Mapping[str, bool]
    ) -> Apply:
        rule = type(self).rule
        known = {**{name: inputs[i] for i, name in self.scalars.items()}, **flags}

        def apply(grad: Array, *arrays: Array) -> None:
            held = dict(zip(self.refs, arrays, strict=True))
            for name, value in rule(functions, grad=grad, **held, **known).items():
                held[name][...] = value

        return apply

    def _update(
        self,
        xp: Any,
        apply: Apply,
        variable: Variable,
        arrays: list[Array],
        inputs: tuple[Any, ...],
    ) -> None:
        grad = inputs[self.grad_at]
        require_same_shape(variable, arrays[0], "the gradient", grad)
        in_blocks(xp, apply, grad, arrays)


class RowUpdate(DenseUpdate):
    """An update of the rows `indices`: of shape [n], for a gradient `[n] + var.shape[1:]`."""

    sums_rows = ("grad", "indices")

    def _gradient_shape(self, node: Inference, shape: Shape) -> Shape:
        assert self.indices_at is not None
        indices = node.with_rank(self.indices_at, 1, "indices")
        if shape == ():
            raise InvalidArgumentError(message=f"{self.op_type} needs a variable with rows, got ()")
        return shapes.concatenate(indices, None if shape is None else shape[1:])

    def _update(
        self,
        xp: Any,
        apply: Apply,
        variable: Variable,
        arrays: list[Array],
        inputs: tuple[Any, ...],
    ) -> None:
        assert self.indices_at is not None
        grad, indices = inputs[self.grad_at], inputs[self.indices_at]
        require_rows(xp, variable, arrays[0], indices)
        expected = indices.shape[:1] + arrays[0].shape[1:]
        if indices.ndim != 1 or grad.shape != expected:
            raise InvalidArgumentError(
                message=f"{self.op_type} of variable {variable.name!r} needs indices of rank 1 and "
                f"a gradient of shape {shapes.text(expected)}, got indices "
                f"{shapes.text(indices.shape)} and a gradient {shapes.text(grad.shape)}"
            )
        indices, grad = sum_duplicates(xp, indices, grad)
        rows = [array.take(indices, axis=0) for array in arrays]
        in_blocks(xp, apply, grad, rows)
        for array, new in zip(arrays, rows, strict=True):
            array[indices] = new


@register
class ApplyGradientDescent(DenseUpdate):
    """`var -= alpha * delta`."""

    capturable = True
    inputs = "var: Ref(T), alpha: T, delta: T"
    attrs = update_attrs(types=_COMPLEX_TOO)
    rule = update_rules.gradient_descent
    grad = "delta"


@register
class ApplyMomentum(DenseUpdate):
    """Gradient descent with momentum, see `update_rules.momentum`."""

    capturable = True
    inputs = "var: Ref(T), accum: Ref(T), lr: T, grad: T, momentum: T"
    attrs = update_attrs("use_nesterov", types=_COMPLEX_TOO)
    rule = update_rules.momentum


@register
class SparseApplyMomentum(RowUpdate):
    """Momentum on rows; rows without a gradient keep their momentum and do not move."""

    inputs = "var: Ref(T), accum: Ref(T), lr: T, grad: T, indices: Tindices, momentum: T"
    attrs = update_attrs("use_nesterov", sparse=True, types=_COMPLEX_TOO)
    rule = update_rules.momentum


@register
class ApplyAdagrad(DenseUpdate):
    """Adagrad, see `update_rules.adagrad`."""

    capturable = True
    inputs = "var: Ref(T), accum: Ref(T), lr: T, grad: T"
    attrs = update_attrs("update_slots")
    rule = update_rules.adagrad


@register
class SparseApplyAdagrad(RowUpdate):
    """Adagrad on rows."""

    inputs = "var: Ref(T), accum: Ref(T), lr: T, grad: T, indices: Tindices"
    attrs = update_attrs("update_slots", sparse=True)
    rule = update_rules.adagrad


@register
class ApplyAdagradV2(DenseUpdate):
    """Adagrad with epsilon, see `update_rules.adagrad_v2`."""

    inputs = "var: Ref(T), accum: Ref(T), lr: T, epsilon: T, grad: T"
    attrs = update_attrs("update_slots")
    rule = update_rules.adagrad_v2


@register
class SparseApplyAdagradV2(RowUpdate):
    """Adagrad with epsilon, on rows."""

    inputs = "var: Ref(T), accum: Ref(T), lr: T, epsilon: T, grad: T, indices: Tindices"
    attrs = update_attrs("update_slots", sparse=True)
    rule = update_rules.adagrad_v2


@register
class ApplyAdadelta(DenseUpdate):
    """Adadelta, see `update_rules.adadelta`."""

    capturable = True
    inputs = "var: Ref(T), accum: Ref(T), accum_update: Ref(T), lr: T, rho: T, epsilon: T, grad: T"
    attrs = update_attrs()
    rule = update_rules.adadelta


@register
class SparseApplyAdadelta(RowUpdate):
    """Adadelta on rows."""

    inputs = (
        "var: Ref(T), accum: Ref(T), accum_update: Ref(T), lr: T, rho: T, epsilon: T, grad: T, "
        "indices: Tindices"
    )
    attrs = update_attrs(sparse=True)
    rule = update_rules.adadelta


@register
class ApplyAdam(DenseUpdate):
    """Adam, see `update_rules.adam`."""

    capturable = True
    inputs = (
        "var: Ref(T), m: Ref(T), v: Ref(T), beta1_power: T, beta2_power: T, lr: T, beta1: T, "
        "beta2: T, epsilon: T, grad: T"
    )
    attrs = update_attrs("use_nesterov")
    rule = update_rules.adam


@register
class ApplyRMSProp(DenseUpdate):
    """RMSProp, see `update_rules.rms_prop`."""

    capturable = True
    inputs = "var: Ref(T), ms: Ref(T), mom: Ref(T), lr: T, rho: T, momentum: T, epsilon: T, grad: T"
    attrs = update_attrs()
    rule = update_rules.rms_prop


@register
class SparseApplyRMSProp(RowUpdate):
    """RMSProp on rows; the averages of rows without a gradient do not decay."""

    inputs = (
        "var: Ref(T), ms: Ref(T), mom: Ref(T), lr: T, rho: T, momentum: T, epsilon: T, grad: T, "
        "indices: Tindices"
    )
    attrs = update_attrs(sparse=True)
    rule = update_rules.rms_prop


@register
class ApplyCenteredRMSProp(DenseUpdate):
    """RMSProp by standard deviation, see `update_rules.centered_rms_prop`."""

    capturable = True
    inputs = (
        "var: Ref(T), mg: Ref(T), ms: Ref(T), mom: Ref(T), lr: T, rho: T, momentum: T, "
        "epsilon: T, grad: T"
    )
    attrs = update_attrs()
    rule = update_rules.centered_rms_prop


@register
class SparseApplyCenteredRMSProp(RowUpdate):
    """RMSProp by standard deviation, on rows."""

    inputs = (
        "var: Ref(T), mg: Ref(T), ms: Ref(T), mom: Ref(T), lr: T, rho: T, momentum: T, "
        "epsilon: T, grad: T, indices: Tindices"
    )
    attrs = update_attrs(sparse=True)
    rule = update_rules.centered_rms_prop


@register
class ApplyFtrl(DenseUpdate):
    """FTRL-proximal, see `update_rules.ftrl`."""

    inputs = "var: Ref(T), accum: Ref(T), linear: Ref(T), grad: T, lr: T, l1: T, l2: T, lr_power: T"
    attrs = update_attrs("multiply_linear_by_lr")
    rule = update_rules.ftrl


@register
class SparseApplyFtrl(RowUpdate):
    """FTRL-proximal on rows."""

    inputs = (
        "var: Ref(T), accum: Ref(T), linear: Ref(T), grad: T, indices: Tindices, lr: T, l1: T, "
        "l2: T, lr_power: T"
    )
    attrs = update_attrs("multiply_linear_by_lr", sparse=True)
    rule = update_rules.ftrl


@register
class ApplyFtrlV2(DenseUpdate):
    """FTRL-proximal with shrinkage, see `update_rules.ftrl`."""

    inputs = (
        "var: Ref(T), accum: Ref(T), linear: Ref(T), grad: T, lr: T, l1: T, l2: T, "
        "l2_shrinkage: T, lr_power: T"
    )
    attrs = update_attrs("multiply_linear_by_lr")
    rule = update_rules.ftrl


@register
class SparseApplyFtrlV2(RowUpdate):
    """FTRL-proximal with shrinkage, on rows."""

    inputs = (
        "var: Ref(T), accum: Ref(T), linear: Ref(T), grad: T, indices: Tindices, lr: T, l1: T, "
        "l2: T, l2_shrinkage: T, lr_power: T"
    )
    attrs = update_attrs("multiply_linear_by_lr", sparse=True)
    rule = update_rules.ftrl
