"""Updates that look at magnitudes or signs rather than squares: AdaMax, AddSign, PowerSign.

Signatures and formulas; what all updates share is in `training`.
"""

from __future__ import annotations

from typing import Any

from sparkflow_runtime.ops.op import Array
from sparkflow_runtime.ops.optimizers.apply_gradient import DenseUpdate, update_attrs
from sparkflow_runtime.ops.optimizers.update_rules import Apply
from sparkflow_runtime.ops.registry import register


def ada_max(
    xp: Any, *, beta1_power: Array, lr: Array, beta1: Array, beta2: Array, epsilon: Array
) -> Apply:
    """Adam by the largest gradient (Kingma & Ba 2014, algorithm 2).

    `m += (1 - beta1) * (grad - m); v = max(beta2 * v, |grad|);
    var -= lr / (1 - beta1_power) * m / (v + epsilon)`.
    """
    rate = lr / (1 - beta1_power)
    rest = 1 - beta1

    def apply(scratch: Array, grad: Array, var: Array, m: Array, v: Array) -> None:
        step, other = scratch
        xp.subtract(grad, m, out=step)
        xp.multiply(step, rest, out=step)
        xp.add(m, step, out=m)
        xp.multiply(v, beta2, out=v)
        xp.abs(grad, out=step)
        xp.maximum(v, step, out=v)
        xp.add(v, epsilon, out=other)
        xp.divide(m, other, out=step)
        xp.multiply(step, rate, out=step)
        xp.subtract(var, step, out=var)

    return apply


def add_sign(xp: Any, *, lr: Array, alpha: Array, sign_decay: Array, beta: Array) -> Apply:
    """Larger steps where gradient and momentum agree (Bello et al. 2017).

    `m = beta * m + (1 - beta) * grad;
    var -= lr * (alpha + sign_decay * sign(grad) * sign(m)) * grad`.
    """

    def apply(scratch: Array, grad: Array, var: Array, m: Array) -> None:
        step, _ = scratch
        _agreement(xp, scratch, grad, m, beta)
        xp.multiply(step, sign_decay, out=step)
        xp.add(step, alpha, out=step)
        _step(xp, step, grad, var, lr)

    return apply


def power_sign(xp: Any, *, lr: Array, logbase: Array, sign_decay: Array, beta: Array) -> Apply:
    """Exponentially larger steps where gradient and momentum agree (Bello et al. 2017).

    `m = beta * m + (1 - beta) * grad;
    var -= lr * exp(logbase * sign_decay * sign(grad) * sign(m)) * grad`.
    """
    power = logbase * sign_decay

    def apply(scratch: Array, grad: Array, var: Array, m: Array) -> None:
        step, _ = scratch
        _agreement(xp, scratch, grad, m, beta)
        xp.multiply(step, power, out=step)
        xp.exp(step, out=step)
        _step(xp, step, grad, var, lr)

    return apply


def _agreement(xp: Any, scratch: Array, grad: Array, m: Array, beta: Array) -> None:
    """`m = beta * m + (1 - beta) * grad`; leaves `sign(grad) * sign(m)` in the first scratch."""
    step, other = scratch
    xp.multiply(m, beta, out=m)
    xp.multiply(grad, 1 - beta, out=step)
    xp.add(m, step, out=m)
    xp.sign(grad, out=step)
    xp.sign(m, out=other)
    xp.multiply(step, other, out=step)


def _step(xp: Any, factor: Array, grad: Array, var: Array, lr: Array) -> None:
    """`var -= lr * factor * grad`; overwrites `factor`."""
    xp.multiply(factor, grad, out=factor)
    xp.multiply(factor, lr, out=factor)
    xp.subtract(var, factor, out=var)


@register
class ApplyAdaMax(DenseUpdate):
    """Adam by the largest gradient, see `ada_max`."""

    inputs = (
        "var: Ref(T), m: Ref(T), v: Ref(T), beta1_power: T, lr: T, beta1: T, beta2: T, "
        "epsilon: T, grad: T"
    )
    attrs = update_attrs()
    rule = ada_max


@register
class ApplyAddSign(DenseUpdate):
    """Steps by agreement of signs, see `add_sign`."""

    inputs = "var: Ref(T), m: Ref(T), lr: T, alpha: T, sign_decay: T, beta: T, grad: T"
    attrs = update_attrs()
    rule = add_sign


@register
class ApplyPowerSign(DenseUpdate):
    """Exponential steps by agreement of signs, see `power_sign`."""

    inputs = "var: Ref(T), m: Ref(T), lr: T, logbase: T, sign_decay: T, beta: T, grad: T"
    attrs = update_attrs()
    rule = power_sign
