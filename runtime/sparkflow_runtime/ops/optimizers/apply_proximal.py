"""Updates with a proximal step, which sets small parameters to exactly 0, and dual averaging.

Signatures and formulas; what all updates share is in `training`. With `shrink(x, t)` for
`sign(x) * max(|x| - t, 0)`, the proximal step of l1 and l2 at rate r takes x to
`shrink(x, r * l1) / (1 + r * l2)` (Duchi, Singer 2009, "Efficient learning using forward-backward
splitting").
"""

from __future__ import annotations

from typing import Any

from sparkflow_runtime.ops.op import Array
from sparkflow_runtime.ops.optimizers.apply_gradient import DenseUpdate, RowUpdate, update_attrs
from sparkflow_runtime.ops.optimizers.update_rules import Apply
from sparkflow_runtime.ops.registry import register


def proximal_gradient_descent(xp: Any, *, alpha: Array, l1: Array, l2: Array) -> Apply:
    """`var = shrink(var - alpha * grad, alpha * l1) / (1 + alpha * l2)`."""

    def apply(scratch: Array, grad: Array, var: Array) -> None:
        step, _ = scratch
        xp.multiply(grad, alpha, out=step)
        xp.subtract(var, step, out=var)
        if l1 > 0:
            _shrink(xp, var, alpha * l1, step)
        xp.divide(var, 1 + l2 * alpha, out=var)

    return apply


def proximal_adagrad(xp: Any, *, lr: Array, l1: Array, l2: Array) -> Apply:
    """`accum += grad²; r = lr / sqrt(accum); var = shrink(var - r * grad, r * l1) / (1 + r * l2)`.

    Duchi, Hazan, Singer 2011, figure 1 with a composite mirror descent step.
    """

    def apply(scratch: Array, grad: Array, var: Array, accum: Array) -> None:
        rate, other = scratch
        xp.multiply(grad, grad, out=other)
        xp.add(accum, other, out=accum)
        xp.sqrt(accum, out=rate)
        xp.divide(lr, rate, out=rate)
        xp.multiply(grad, rate, out=other)
        xp.subtract(var, other, out=var)
        if l1 > 0:
            _shrink(xp, var, rate * l1, other)
        xp.multiply(rate, l2, out=rate)
        xp.add(rate, 1, out=rate)
        xp.divide(var, rate, out=var)

    return apply


def adagrad_da(xp: Any, *, lr: Array, l1: Array, l2: Array, global_step: Array) -> Apply:
    """Adagrad with regularised dual averaging (Duchi, Hazan, Singer 2011, equation 2).

    `total += grad; squares += grad²;
    var = -lr * shrink(total, l1 * global_step) / (l2 * global_step * lr + sqrt(squares))`.
    """
    steps = xp.asarray(global_step).astype(lr.dtype)

    def apply(scratch: Array, grad: Array, var: Array, total: Array, squares: Array) -> None:
        divisor, other = scratch
        xp.add(total, grad, out=total)
        xp.multiply(grad, grad, out=other)
        xp.add(squares, other, out=squares)
        xp.sqrt(squares, out=divisor)
        xp.add(divisor, l2 * steps * lr, out=divisor)
        xp.copyto(var, total)
        if l1 > 0:
            _shrink(xp, var, l1 * steps, other)
        xp.multiply(var, -lr, out=var)
        xp.divide(var, divisor, out=var)

    return apply


def _shrink(xp: Any, values: Array, threshold: Array, scratch: Array) -> None:
    """`values = sign(values) * max(|values| - threshold, 0)`."""
    xp.abs(values, out=scratch)
    xp.subtract(scratch, threshold, out=scratch)
    xp.maximum(scratch, 0, out=scratch)
    xp.sign(values, out=values)
    xp.multiply(values, scratch, out=values)


@register
class ApplyProximalGradientDescent(DenseUpdate):
    """Gradient descent with a proximal step, see `proximal_gradient_descent`."""

    inputs = "var: Ref(T), alpha: T, l1: T, l2: T, delta: T"
    attrs = update_attrs()
    rule = proximal_gradient_descent
    grad = "delta"


@register
class SparseApplyProximalGradientDescent(RowUpdate):
    """Gradient descent with a proximal step, on rows."""

    inputs = "var: Ref(T), alpha: T, l1: T, l2: T, grad: T, indices: Tindices"
    attrs = update_attrs(sparse=True)
    rule = proximal_gradient_descent


@register
class ApplyProximalAdagrad(DenseUpdate):
    """Adagrad with a proximal step, see `proximal_adagrad`."""

    inputs = "var: Ref(T), accum: Ref(T), lr: T, l1: T, l2: T, grad: T"
    attrs = update_attrs()
    rule = proximal_adagrad


@register
class SparseApplyProximalAdagrad(RowUpdate):
    """Adagrad with a proximal step, on rows."""

    inputs = "var: Ref(T), accum: Ref(T), lr: T, l1: T, l2: T, grad: T, indices: Tindices"
    attrs = update_attrs(sparse=True)
    rule = proximal_adagrad


@register
class ApplyAdagradDA(DenseUpdate):
    """Adagrad with dual averaging, see `adagrad_da`."""

    inputs = (
        "var: Ref(T), gradient_accumulator: Ref(T), gradient_squared_accumulator: Ref(T), "
        "grad: T, lr: T, l1: T, l2: T, global_step: int64"
    )
    attrs = update_attrs()
    rule = adagrad_da


@register
class SparseApplyAdagradDA(RowUpdate):
    """Adagrad with dual averaging, on rows."""

    inputs = (
        "var: Ref(T), gradient_accumulator: Ref(T), gradient_squared_accumulator: Ref(T), "
        "grad: T, indices: Tindices, lr: T, l1: T, l2: T, global_step: int64"
    )
    attrs = update_attrs(sparse=True)
    rule = adagrad_da
