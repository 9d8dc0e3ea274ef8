"""The ops that apply a gradient to a variable and its slots: `ApplyX` and `SparseApplyX`.

Here are their checks and critical sections, and one row each at the end; the formulas are in
`update_rules`. An update runs in place with the variable and all its slots locked (whatever
`use_locking` says), so concurrent replicas are applied sequentially: a variable and its slots fit
together. An update of several ops has no such lock: if replica A decays `v` from what it was before
B added its gradient, rows have a momentum without a variance, and the next step divides by epsilon.

Repeated rows in `indices` are summed first and applied once, as TensorFlow's optimizers do before
they call these ops.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from sparkflow_runtime import dtypes, shapes
from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.ops.native.equal_rows import sum_duplicates
from sparkflow_runtime.ops.op import Array, Inference, NodeView, Op, not_differentiable
from sparkflow_runtime.ops.optimizers import gpu_update, native_update, update_rules
from sparkflow_runtime.ops.optimizers.other_rows import ATTR, OTHER_ROWS, SLOTS_DECAY, UNCHANGED
from sparkflow_runtime.ops.optimizers.update import (
    Apply,
    Change,
    in_blocks,
    locked,
    require_rows,
    require_same_shape,
    require_slots_fitting,
    same_static_shape,
)
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import Attr, bool_attr, type_attr
from sparkflow_runtime.resources.variable import Variable
from sparkflow_runtime.shapes import Shape

_COMPLEX_TOO = dtypes.FLOATING | dtypes.COMPLEX


def update_attrs(
    *flags: str, sparse: bool = False, types: Any = dtypes.FLOATING
) -> dict[str, Attr]:
    """The attributes of an update: `T`, `Tindices` if it updates rows, `use_locking`, flags.

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
        names_handle_form: Whether its module also registers the op for handles.
    """

    applies_gradients = True
    trains = True
    outputs = "out: Ref(T)"
    stateful = True
    keeps_inputs = False
    gradient = not_differentiable
    rule: ClassVar[update_rules.Rule]
    grad: ClassVar[str] = "grad"
    names_handle_form: ClassVar[bool] = False

    def __init__(self) -> None:
        super().__init__()
        names = [arg.name for arg in self.signature.inputs]
        self.refs = [arg.name for arg in self.signature.inputs if arg.is_ref]
        self.grad_at = names.index(self.grad)
        self.indices_at = names.index("indices") if "indices" in names else None
        arrays = {*range(len(self.refs)), self.grad_at, self.indices_at}
        self.scalars = {i: name for i, name in enumerate(names) if i not in arrays}
        self.flags = self.signature.attrs.keys() - {"T", "Tindices", "use_locking", OTHER_ROWS}

    def infer(self, node: Inference) -> list[Shape]:
        """The shape of the variable, which its slots and the gradient share.

        Raises:
            InvalidArgumentError: They do not, or a scalar argument is not a scalar.
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
        """The kernel: a function of variables and arrays that returns the variable.

        It raises FailedPreconditionError if a variable or slot is uninitialised, and
        InvalidArgumentError if shapes differ or an index is out of range.
        """
        return locked(len(self.refs), self._change(node, context))

    def _change(self, node: NodeView, context: KernelContext) -> Change:
        xp = context.xp
        flags: Mapping[str, bool] = {name: node.attrs[name] for name in self.flags}
        functions = update_rules.ArrayFunctions(xp)
        native = None
        if xp is np:
            native = native_update.bind(self, node.attrs["T"], node.attrs)
        elif context.gpu is not None:
            native = gpu_update.bind(xp, self, node.attrs["T"], node.attrs)

        def change(
            variables: Sequence[Variable], arrays: list[Array], inputs: Sequence[Any]
        ) -> None:
            if native is not None and native(arrays, inputs):
                return
            apply = self.rule_in_place(functions, inputs, flags)
            require_slots_fitting(variables, arrays)
            self._update(xp, apply, variables[0], arrays, inputs)

        return change

    def rule_in_place(
        self,
        functions: update_rules.Functions,
        inputs: Sequence[Any],
        flags: Mapping[str, bool],
        slots_only: bool = False,
    ) -> Apply:
        """The rule as a function that updates the arrays of a variable and its slots."""
        kept = self.refs[0] if slots_only else None
        rule = type(self).rule
        known = {**{name: inputs[i] for i, name in self.scalars.items()}, **flags}

        def apply(grad: Array, *arrays: Array) -> None:
            held = dict(zip(self.refs, arrays, strict=True))
            for name, value in rule(functions, grad=grad, **held, **known).items():
                if name != kept:
                    held[name][...] = value

        return apply

    def _update(
        self,
        xp: Any,
        apply: Apply,
        variable: Variable,
        arrays: list[Array],
        inputs: Sequence[Any],
    ) -> None:
        grad = inputs[self.grad_at]
        require_same_shape(variable, arrays[0], "the gradient", grad)
        in_blocks(xp, apply, grad, arrays)


class RowUpdate(DenseUpdate):
    """An update of the rows `indices`: of shape [n], for a gradient `[n] + var.shape[1:]`.

    With the attribute `other_rows` (see there) it can also reach the rows that are not in
    `indices`, as TensorFlow's optimizers with moments do.
    """

    sums_rows = ("grad", "indices")
    adds_up_rows = True

    def _change(self, node: NodeView, context: KernelContext) -> Change:
        change = super()._change(node, context)
        other_rows = node.attrs.get(OTHER_ROWS, UNCHANGED)
        if other_rows == UNCHANGED:
            return change
        at, decay = self.indices_at, self._decay(node, context, other_rows == SLOTS_DECAY)
        assert at is not None

        def change_all(
            variables: Sequence[Variable], arrays: list[Array], inputs: Sequence[Any]
        ) -> None:
            change(variables, arrays, inputs)
            decay(arrays, inputs[at], inputs)

        return change_all

    def _decay(
        self, node: NodeView, context: KernelContext, slots_only: bool
    ) -> Callable[[list[Array], Array, Sequence[Any]], None]:
        """A function that updates all rows but those of some indices for a gradient of 0."""
        xp, dtype = context.xp, node.attrs["T"]
        flags: Mapping[str, bool] = {name: node.attrs[name] for name in self.flags}
        functions = update_rules.ArrayFunctions(xp)
        native = None
        if xp is np:
            native = native_update.bind_decay(self, dtype, node.attrs, slots_only)
        elif context.gpu is not None:
            native = gpu_update.bind_decay(xp, self, dtype, node.attrs, slots_only)

        def decay(arrays: list[Array], indices: Array, inputs: Sequence[Any]) -> None:
            if native is not None and native(arrays, indices, inputs):
                return
            held = [array.take(indices, axis=0) for array in arrays]
            apply = self.rule_in_place(functions, inputs, flags, slots_only)
            first = arrays[0]
            nothing = xp.broadcast_to(xp.zeros((), first.dtype), first.shape)
            in_blocks(xp, apply, nothing, arrays)
            for array, rows in zip(arrays, held, strict=True):
                array[indices] = rows

        return decay

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
        inputs: Sequence[Any],
    ) -> None:
        assert self.indices_at is not None
        grad, indices = inputs[self.grad_at], inputs[self.indices_at]
        self.require_fitting(xp, variable, arrays[0], grad, indices)
        indices, grad = sum_duplicates(xp, indices, grad)
        rows = [array.take(indices, axis=0) for array in arrays]
        in_blocks(xp, apply, grad, rows)
        for array, new in zip(arrays, rows, strict=True):
            array[indices] = new

    def require_fitting(
        self, xp: Any, variable: Variable, array: Array, grad: Array, indices: Array
    ) -> None:
        """Checks that the rows exist and each has a gradient.

        Raises:
            InvalidArgumentError: An index is out of range, or shapes do not fit.
        """
        require_rows(xp, variable, array, indices)
        expected = indices.shape[:1] + array.shape[1:]
        if indices.ndim != 1 or grad.shape != expected:
            raise InvalidArgumentError(
                message=f"{self.op_type} of variable {variable.name!r} needs indices of rank 1 and "
                f"a gradient of shape {shapes.text(expected)}, got indices "
                f"{shapes.text(indices.shape)} and a gradient {shapes.text(grad.shape)}"
            )


def update(
    name: str,
    rule: update_rules.Rule,
    slots: str,
    others: str,
    *flags: str,
    types: frozenset[DType] = dtypes.FLOATING,
    has_rows: bool = True,
    decays: bool = False,
    **members: Any,
) -> None:
    """Registers `Apply` + name, and `SparseApply` + name for rows.

    Args:
        name: The name without these prefixes.
        rule: The formula.
        slots: The names of the variable and its slots.
        others: The names of the other arguments, scalars except `grad` or `delta`, with the dtype
            if it is not the variable's. Row updates have `indices` after `grad`.
        flags: Attributes that the rule uses.
        types: The dtypes of variables.
        has_rows: Whether there is a row update.
        decays: Whether the row update has `OTHER_ROWS`.
        members: Class attributes of the dense op.
    """
    names = others.split()
    refs = ", ".join(f"{each}: Ref(T)" for each in slots.split())
    rest = ", ".join(each.replace(":", ": ") if ":" in each else f"{each}: T" for each in names)
    text = f"{name}, see `update_rules.{rule.__name__}`."
    grad = "delta" if "delta" in names else "grad"
    dense = {
        "__doc__": text,
        "inputs": f"{refs}, {rest}",
        "attrs": update_attrs(*flags, types=types),
        "grad": grad,
    }
    register(type(f"Apply{name}", (DenseUpdate,), {"rule": rule, **dense, **members}))
    if not has_rows:
        return
    rest = rest.replace(f"{grad}: T", "grad: T, indices: Tindices")
    sparse = {
        "__doc__": f"Of rows: {text}",
        "inputs": f"{refs}, {rest}",
        "attrs": update_attrs(*flags, sparse=True, types=types)
        | ({OTHER_ROWS: ATTR} if decays else {}),
    }
    register(type(f"SparseApply{name}", (RowUpdate,), {"rule": rule, **sparse}))


update(
    "GradientDescent",
    update_rules.gradient_descent,
    "var",
    "alpha delta",
    types=_COMPLEX_TOO,
    has_rows=False,
    capturable=True,
)
update("MovingAverage", update_rules.moving_average, "var", "rate grad", has_rows=False)
update(
    "Momentum",
    update_rules.momentum,
    "var accum",
    "lr grad momentum",
    "use_nesterov",
    types=_COMPLEX_TOO,
    capturable=True,
)
update("Adagrad", update_rules.adagrad, "var accum", "lr grad", "update_slots", capturable=True)
update("AdagradV2", update_rules.adagrad_v2, "var accum", "lr epsilon grad", "update_slots")
update(
    "Adadelta",
    update_rules.adadelta,
    "var accum accum_update",
    "lr rho epsilon grad",
    capturable=True,
)
update(
    "Adam",
    update_rules.adam,
    "var m v",
    "beta1_power beta2_power lr beta1 beta2 epsilon grad",
    "use_nesterov",
    decays=True,
    capturable=True,
)
update(
    "RMSProp",
    update_rules.rms_prop,
    "var ms mom",
    "lr rho momentum epsilon grad",
    capturable=True,
)
update(
    "CenteredRMSProp",
    update_rules.centered_rms_prop,
    "var mg ms mom",
    "lr rho momentum epsilon grad",
    capturable=True,
)
_FTRL = update_rules.ftrl, "var accum linear"
_BY_LR = "multiply_linear_by_lr"
update("Ftrl", *_FTRL, "grad lr l1 l2 lr_power", _BY_LR)
update("FtrlV2", *_FTRL, "grad lr l1 l2 l2_shrinkage lr_power", _BY_LR)
update(
    "ProximalGradientDescent",
    update_rules.proximal_gradient_descent,
    "var",
    "alpha l1 l2 delta",
)
update("ProximalAdagrad", update_rules.proximal_adagrad, "var accum", "lr l1 l2 grad")
update(
    "AdagradDA",
    update_rules.adagrad_da,
    "var gradient_accumulator gradient_squared_accumulator",
    "grad lr l1 l2 global_step:int64",
)
update(
    "AdaMax",
    update_rules.ada_max,
    "var m v",
    "beta1_power lr beta1 beta2 epsilon grad",
)
update("AddSign", update_rules.add_sign, "var m", "lr alpha sign_decay beta grad", decays=True)
update(
    "PowerSign", update_rules.power_sign, "var m", "lr logbase sign_decay beta grad", decays=True
)
