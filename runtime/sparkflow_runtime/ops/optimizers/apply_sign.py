"""Updates that look at magnitudes or signs rather than squares: AdaMax, AddSign, PowerSign.

Signatures and formulas; what all updates share is in `apply_gradient`.
"""

from __future__ import annotations

from sparkflow_runtime.ops.optimizers import update_rules
from sparkflow_runtime.ops.optimizers.apply_gradient import DenseUpdate, update_attrs
from sparkflow_runtime.ops.registry import register


@register
class ApplyAdaMax(DenseUpdate):
    """Adam by the largest gradient, see `update_rules.ada_max`."""

    inputs = (
        "var: Ref(T), m: Ref(T), v: Ref(T), beta1_power: T, lr: T, beta1: T, beta2: T, "
        "epsilon: T, grad: T"
    )
    attrs = update_attrs()
    rule = update_rules.ada_max


@register
class ApplyAddSign(DenseUpdate):
    """Steps by agreement of signs, see `update_rules.add_sign`."""

    inputs = "var: Ref(T), m: Ref(T), lr: T, alpha: T, sign_decay: T, beta: T, grad: T"
    attrs = update_attrs()
    rule = update_rules.add_sign


@register
class ApplyPowerSign(DenseUpdate):
    """Exponential steps by agreement of signs, see `update_rules.power_sign`."""

    inputs = "var: Ref(T), m: Ref(T), lr: T, logbase: T, sign_decay: T, beta: T, grad: T"
    attrs = update_attrs()
    rule = update_rules.power_sign
