"""Updates with a proximal step, which sets small parameters to exactly 0, and dual averaging.

Signatures and formulas; what all updates share is in `apply_gradient`. With `shrink(x, t)` for
`sign(x) * max(|x| - t, 0)`, the proximal step of l1 and l2 at rate r takes x to
`shrink(x, r * l1) / (1 + r * l2)` (Duchi, Singer 2009, "Efficient learning using forward-backward
splitting").
"""

from __future__ import annotations

from sparkflow_runtime.ops.optimizers import update_rules
from sparkflow_runtime.ops.optimizers.apply_gradient import DenseUpdate, RowUpdate, update_attrs
from sparkflow_runtime.ops.registry import register


@register
class ApplyProximalGradientDescent(DenseUpdate):
    """Gradient descent with a proximal step, see `update_rules.proximal_gradient_descent`."""

    inputs = "var: Ref(T), alpha: T, l1: T, l2: T, delta: T"
    attrs = update_attrs()
    rule = update_rules.proximal_gradient_descent
    grad = "delta"


@register
class SparseApplyProximalGradientDescent(RowUpdate):
    """Gradient descent with a proximal step, on rows."""

    inputs = "var: Ref(T), alpha: T, l1: T, l2: T, grad: T, indices: Tindices"
    attrs = update_attrs(sparse=True)
    rule = update_rules.proximal_gradient_descent


@register
class ApplyProximalAdagrad(DenseUpdate):
    """Adagrad with a proximal step, see `update_rules.proximal_adagrad`."""

    inputs = "var: Ref(T), accum: Ref(T), lr: T, l1: T, l2: T, grad: T"
    attrs = update_attrs()
    rule = update_rules.proximal_adagrad


@register
class SparseApplyProximalAdagrad(RowUpdate):
    """Adagrad with a proximal step, on rows."""

    inputs = "var: Ref(T), accum: Ref(T), lr: T, l1: T, l2: T, grad: T, indices: Tindices"
    attrs = update_attrs(sparse=True)
    rule = update_rules.proximal_adagrad


@register
class ApplyAdagradDA(DenseUpdate):
    """Adagrad with dual averaging, see `update_rules.adagrad_da`."""

    inputs = (
        "var: Ref(T), gradient_accumulator: Ref(T), gradient_squared_accumulator: Ref(T), "
        "grad: T, lr: T, l1: T, l2: T, global_step: int64"
    )
    attrs = update_attrs()
    rule = update_rules.adagrad_da


@register
class SparseApplyAdagradDA(RowUpdate):
    """Adagrad with dual averaging, on rows."""

    inputs = (
        "var: Ref(T), gradient_accumulator: Ref(T), gradient_squared_accumulator: Ref(T), "
        "grad: T, indices: Tindices, lr: T, l1: T, l2: T, global_step: int64"
    )
    attrs = update_attrs(sparse=True)
    rule = update_rules.adagrad_da
