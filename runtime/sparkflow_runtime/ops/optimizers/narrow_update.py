"""Updates of bfloat16 variables: computed in float32, rounded once when stored.

The slots of such a variable, the scalars of a step and the gradient are float32, and the formulas
are those of `update_rules`. Rounding to nearest loses every step below half a unit in the last
place, 1/512 of the number; stochastic rounding rounds up with a probability proportional to the
remainder, so that such steps count on average (Gupta et al. 2015, "Deep learning with limited
numerical precision").
"""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Final

import numpy as np

from sparkflow_runtime.dtypes import INDEX, bfloat16, float32
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.ops.kernels import narrow_kernels
from sparkflow_runtime.ops.native import row_kernels
from sparkflow_runtime.ops.native.equal_rows import sum_duplicates
from sparkflow_runtime.ops.op import Array, Inference, NodeView
from sparkflow_runtime.ops.optimizers import native_update, update_rules
from sparkflow_runtime.ops.optimizers.apply_gradient import DenseUpdate, RowUpdate
from sparkflow_runtime.ops.optimizers.other_rows import OTHER_ROWS, UNCHANGED, ZERO_GRADIENT
from sparkflow_runtime.ops.optimizers.update import (
    BLOCK_ELEMENTS,
    locked,
    require_same_shape,
    require_slots_fitting,
)
from sparkflow_runtime.ops.registry import contains, lookup, register
from sparkflow_runtime.ops.signature import Attr, int_attr, string_attr, type_attr
from sparkflow_runtime.resources.variable import Variable
from sparkflow_runtime.shapes import Shape

STOCHASTIC: Final = "stochastic"
NEAREST: Final = "nearest"
PREFIX: Final = "Narrow"
ON_HANDLE: Final = "Resource"
_NAMES: Final = (
    "GradientDescent",
    "Momentum",
    "Adagrad",
    "AdagradV2",
    "Adadelta",
    "Adam",
    "AdaMax",
    "RMSProp",
    "CenteredRMSProp",
    "Ftrl",
    "FtrlV2",
    "ProximalGradientDescent",
    "ProximalAdagrad",
    "AdagradDA",
    "AddSign",
    "PowerSign",
)
_WORD_BYTES: Final = 4
_OWN_ATTRS: Final[dict[str, Attr]] = {
    "rounding": string_attr(STOCHASTIC, frozenset({STOCHASTIC, NEAREST})),
    "seed": int_attr(0),
    "seed2": int_attr(0),
}


class NarrowUpdate(DenseUpdate):
    """An update of a bfloat16 variable, all of it or rows.

    Attributes:
        wide: The name of the op that updates a float32 variable by the same rule.
        twin: The op itself.
    """

    kernels: ClassVar = {"CPU": None}
    names_handle_form = True
    wide: ClassVar[str]

    def __init__(self) -> None:
        super().__init__()
        twin = lookup(self.wide)
        assert isinstance(twin, DenseUpdate)
        self.twin = twin
        self.refs = twin.refs
        self.flags = twin.flags
        names = [arg.name for arg in self.signature.inputs]
        arrays = {*twin.refs, self.grad, "indices"}
        self.scalars = {i: name for i, name in enumerate(names) if name not in arrays}

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """As `DenseUpdate.bind`."""
        step, store = _Step(self, node), _Rounding(node)

        def change(
            variables: Sequence[Variable], arrays: list[Array], inputs: Sequence[Any]
        ) -> None:
            require_slots_fitting(variables, arrays)
            self._narrow(step, store, variables[0], arrays, inputs)

        return locked(len(self.refs), change)

    def _narrow(
        self,
        step: _Step,
        store: _Rounding,
        variable: Variable,
        arrays: Sequence[Array],
        inputs: Sequence[Any],
    ) -> None:
        grad = inputs[self.grad_at]
        require_same_shape(variable, arrays[0], "the gradient", grad)
        _in_blocks(step, store, np.ascontiguousarray(grad), arrays, inputs)


class NarrowRowUpdate(NarrowUpdate, RowUpdate):
    """An update of the rows `indices` of a bfloat16 variable."""

    def _narrow(
        self,
        step: _Step,
        store: _Rounding,
        variable: Variable,
        arrays: Sequence[Array],
        inputs: Sequence[Any],
    ) -> None:
        assert self.indices_at is not None
        grad, indices = inputs[self.grad_at], inputs[self.indices_at]
        self.require_fitting(np, variable, arrays[0], grad, indices)
        rows, update = sum_duplicates(np, indices, np.ascontiguousarray(grad))
        held = [_taken(array, rows) for array in arrays]
        held[0] = widened(held[0])
        step(update, held, inputs)
        held[0] = store(held[0])
        if step.other_rows != UNCHANGED:
            nothing = np.broadcast_to(np.float32(0), arrays[0].shape)
            changed_by = store if step.other_rows == ZERO_GRADIENT else None
            _in_blocks(step, changed_by, nothing, arrays, inputs)
        for array, new in zip(arrays, held, strict=True):
            _put(array, rows, new)


def _in_blocks(
    step: _Step,
    store: _Rounding | None,
    grad: Array,
    arrays: Sequence[Array],
    inputs: Sequence[Any],
) -> None:
    """Updates a variable and its slots, or the slots alone without `store`."""
    flat = [array.reshape(-1) for array in (grad, *arrays)]
    for start in range(0, grad.size, BLOCK_ELEMENTS):
        update, table, *slots = (each[start : start + BLOCK_ELEMENTS] for each in flat)
        wide = widened(table)
        step(update, [wide, *slots], inputs)
        if store is not None:
            table[...] = store(wide)


class _Step:
    """Applies the rule to float32 arrays: those of a variable and its slots, or of their rows.

    Attributes:
        other_rows: What happens to rows without a gradient, see `RowUpdate`.
    """

    def __init__(self, op: NarrowUpdate, node: NodeView) -> None:
        twin = self._twin = op.twin
        self.other_rows = node.attrs.get(OTHER_ROWS, UNCHANGED)
        self._flags = {name: node.attrs[name] for name in op.flags}
        self._native = native_update.bind(twin, float32, self._flags)
        names = [arg.name for arg in op.signature.inputs]
        self._places = [
            None if number == twin.grad_at else names.index(arg.name)
            for number, arg in enumerate(twin.signature.inputs)
        ]

    def __call__(self, grad: Array, arrays: Sequence[Array], inputs: Sequence[Any]) -> None:
        count = len(arrays)
        given = [grad if place is None else inputs[place] for place in self._places[count:]]
        given = [*arrays, *given]
        if self._native is not None and self._native(arrays, given):
            return
        functions = update_rules.ArrayFunctions(np)
        self._twin.rule_in_place(functions, given, self._flags)(grad, *arrays)


class _Rounding:
    """Converts float32 to bfloat16; called with the variable locked."""

    def __init__(self, node: NodeView) -> None:
        self._is_stochastic = node.attrs["rounding"] == STOCHASTIC
        seeds = node.attrs["seed"], node.attrs["seed2"]
        self._start = hash(seeds) if any(seeds) else secrets.randbits(62)
        self._calls = itertools.count(1)

    def __call__(self, values: Array) -> Array:
        if not self._is_stochastic:
            return narrow_kernels.rounded(values)
        return narrow_kernels.rounded_by_chance(values, _mixed(self._start + next(self._calls)))


def _mixed(number: int) -> int:
    """32 bits, half of which differ from those of the next number (SplitMix64)."""
    z = number * 0x9E3779B97F4A7C15 % (1 << 64)
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % (1 << 64)
    z = (z ^ z >> 27) * 0x94D049BB133111EB % (1 << 64)
    return z >> 32


def widened(array: Array) -> Array:
    """The same numbers as float32."""
    return narrow_kernels.widened(array)


def _taken(array: Array, rows: Array) -> Array:
    found = row_kernels.gather(array, rows)
    return array.take(rows, axis=0) if found is None else found


def _put(array: Array, rows: Array, new: Array) -> None:
    """Writes distinct rows."""
    table, values = array, new
    is_even = array.ndim > 1 and array.shape[-1] % 2 == 0  # the rows of a vector are scalars
    if array.itemsize < _WORD_BYTES and is_even and array.flags.c_contiguous:
        table, values = array.view(np.int32), new.view(np.int32)
    if row_kernels.scatter(row_kernels.SET, table, rows, values) is None:
        array[rows] = new


class _OnHandle(NarrowUpdate):
    """The op for handles; it has no outputs."""

    outputs = ""

    def infer(self, node: Inference) -> list[Shape]:
        """No outputs."""
        return []

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """As for references."""
        run = super().bind(node, context)

        def update(*inputs: Any) -> None:
            run(*inputs)

        return update


class _RowsOnHandle(_OnHandle, NarrowRowUpdate):
    """The same for rows."""


def _enter(name: str) -> None:
    """Registers the four forms of an update: dense and of rows, by reference and by handle."""
    twin = lookup(f"Apply{name}")
    assert isinstance(twin, DenseUpdate)
    refs = [f"{each}: Ref({'float32' if n else 'T'})" for n, each in enumerate(twin.refs)]
    others = [
        (arg.name, "float32" if arg.dtype is None else str(arg.dtype.name))
        for arg in twin.signature.inputs[len(refs) :]
    ]
    attrs = {each: twin.attrs[each] for each in twin.attrs if each != "T"}
    attrs |= {"T": type_attr(frozenset({bfloat16})), **_OWN_ATTRS}
    rows = lookup(f"SparseApply{name}").attrs if contains(f"SparseApply{name}") else {}
    of_rows = {each: rows[each] for each in rows if each == OTHER_ROWS}
    for is_sparse, is_handle in itertools.product((False, True), repeat=2):
        inputs = [each.replace("Ref(T)", "resource") for each in refs] if is_handle else refs
        if is_handle:
            inputs = [each.replace("Ref(float32)", "resource") for each in inputs]
        inputs = list(inputs)
        for argument, kind in others:
            if is_sparse and argument == twin.grad:
                inputs += ["grad: float32", "indices: Tindices"]
            else:
                inputs.append(f"{argument}: {kind}")
        own = {**attrs, **of_rows, "Tindices": type_attr(INDEX)} if is_sparse else attrs
        op_type = f"{PREFIX}{'Sparse' * is_sparse}Apply{name}"
        members: dict[str, Any] = {
            "inputs": ", ".join(inputs),
            "attrs": own,
            "grad": "grad" if is_sparse else twin.grad,
            "rule": type(twin).rule,
            "wide": twin.op_type,
            "__doc__": f"`{'Sparse' * is_sparse}Apply{name}` of a variable stored as bfloat16.",
            "__module__": __name__,
        }
        base = {
            (False, False): NarrowUpdate,
            (True, False): NarrowRowUpdate,
            (False, True): _OnHandle,
            (True, True): _RowsOnHandle,
        }[is_sparse, is_handle]
        op_type = f"{ON_HANDLE}{op_type}" if is_handle else op_type
        register(type(op_type, (base,), members))


for _name in _NAMES:
    _enter(_name)
