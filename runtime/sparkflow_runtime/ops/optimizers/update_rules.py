"""The formulas of the optimizers, once for dense updates and for updates of rows.

A rule takes the step's scalars and returns a function that updates one flat piece in place:
`apply(scratch, grad, var, *slots)`, where `scratch` is working memory: two arrays like `var`.
Formulas are those of TensorFlow's training ops; papers are named with each. The scalars are numpy
or cupy scalars of the variable's dtype.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sparkflow_runtime.ops.op import Array

Apply = Callable[..., None]


def gradient_descent(xp: Any, *, alpha: Array) -> Apply:
    """`var -= alpha * grad`."""

    def apply(scratch: Array, grad: Array, var: Array) -> None:
        step, _ = scratch
        xp.multiply(grad, alpha, out=step)
        xp.subtract(var, step, out=var)

    return apply


def momentum(xp: Any, *, lr: Array, momentum: Array, use_nesterov: bool) -> Apply:
    """`accum = momentum * accum + grad; var -= lr * accum`.

    With Nesterov's look-ahead `var -= lr * grad + lr * momentum * accum` (Sutskever et al. 2013,
    "On the importance of initialization and momentum in deep learning", section 2).
    """

    def apply(scratch: Array, grad: Array, var: Array, accum: Array) -> None:
        step, _ = scratch
        xp.multiply(accum, momentum, out=accum)
        xp.add(accum, grad, out=accum)
        if use_nesterov:
            xp.multiply(accum, momentum, out=step)
            xp.add(step, grad, out=step)
            xp.multiply(step, lr, out=step)
        else:
            xp.multiply(accum, lr, out=step)
        xp.subtract(var, step, out=var)

    return apply


def adagrad(xp: Any, *, lr: Array, update_slots: bool) -> Apply:
    """`accum += grad²; var -= lr * grad / sqrt(accum)` (Duchi et al. 2011)."""

    def apply(scratch: Array, grad: Array, var: Array, accum: Array) -> None:
        step, _ = scratch
        if update_slots:
            xp.multiply(grad, grad, out=step)
            xp.add(accum, step, out=accum)
        xp.sqrt(accum, out=step)
        xp.divide(grad, step, out=step)
        xp.multiply(step, lr, out=step)
        xp.subtract(var, step, out=var)

    return apply


def adagrad_v2(xp: Any, *, lr: Array, epsilon: Array, update_slots: bool) -> Apply:
    """`accum += grad²; var -= lr * grad / (sqrt(accum) + epsilon)` (Duchi et al. 2011)."""

    def apply(scratch: Array, grad: Array, var: Array, accum: Array) -> None:
        step, _ = scratch
        if update_slots:
            xp.multiply(grad, grad, out=step)
            xp.add(accum, step, out=accum)
        xp.sqrt(accum, out=step)
        xp.add(step, epsilon, out=step)
        xp.divide(grad, step, out=step)
        xp.multiply(step, lr, out=step)
        xp.subtract(var, step, out=var)

    return apply


def adadelta(xp: Any, *, lr: Array, rho: Array, epsilon: Array) -> Apply:
    """Steps in units of the parameter (Zeiler 2012, algorithm 1).

    `accum = rho * accum + (1 - rho) * grad²;
    update = sqrt(accum_update + epsilon) / sqrt(accum + epsilon) * grad;
    accum_update = rho * accum_update + (1 - rho) * update²; var -= lr * update`.
    """
    rest = 1 - rho

    def apply(scratch: Array, grad: Array, var: Array, accum: Array, accum_update: Array) -> None:
        update, other = scratch
        xp.multiply(grad, grad, out=other)
        _decay(xp, accum, rho, other, rest)
        xp.add(accum_update, epsilon, out=update)
        xp.add(accum, epsilon, out=other)
        xp.divide(update, other, out=update)
        xp.sqrt(update, out=update)
        xp.multiply(update, grad, out=update)
        xp.multiply(update, update, out=other)
        _decay(xp, accum_update, rho, other, rest)
        xp.multiply(update, lr, out=update)
        xp.subtract(var, update, out=var)

    return apply


def adam(
    xp: Any,
    *,
    beta1_power: Array,
    beta2_power: Array,
    lr: Array,
    beta1: Array,
    beta2: Array,
    epsilon: Array,
    use_nesterov: bool,
) -> Apply:
    """Adam in the form before section 2.1 of Kingma & Ba 2014, with "epsilon hat".

    `m = beta1 * m + (1 - beta1) * grad; v = beta2 * v + (1 - beta2) * grad²;
    var -= lr * sqrt(1 - beta2_power) / (1 - beta1_power) * m / (sqrt(v) + epsilon)`.
    With Nesterov's look-ahead (Dozat 2016) `beta1 * m + (1 - beta1) * grad` stands for `m` in the
    last line.
    """
    alpha = lr * xp.sqrt(1 - beta2_power) / (1 - beta1_power)
    rest1 = 1 - beta1
    rest2 = 1 - beta2

    def apply(scratch: Array, grad: Array, var: Array, m: Array, v: Array) -> None:
        step, other = scratch
        xp.subtract(grad, m, out=step)
        xp.multiply(step, rest1, out=step)
        xp.add(m, step, out=m)
        xp.multiply(grad, grad, out=step)
        xp.subtract(step, v, out=step)
        xp.multiply(step, rest2, out=step)
        xp.add(v, step, out=v)
        xp.sqrt(v, out=step)
        xp.add(step, epsilon, out=step)
        if use_nesterov:
            xp.subtract(m, grad, out=other)
            xp.multiply(other, beta1, out=other)
            xp.add(other, grad, out=other)
            xp.divide(other, step, out=step)
        else:
            xp.divide(m, step, out=step)
        xp.multiply(step, alpha, out=step)
        xp.subtract(var, step, out=var)

    return apply


def rms_prop(xp: Any, *, lr: Array, rho: Array, momentum: Array, epsilon: Array) -> Apply:
    """`ms = rho * ms + (1 - rho) * grad²; mom = momentum * mom + lr * grad / sqrt(ms + epsilon)`.

    Then `var -= mom` (Hinton 2012, lecture 6e of "Neural networks for machine learning").
    """
    rest = 1 - rho

    def apply(scratch: Array, grad: Array, var: Array, ms: Array, mom: Array) -> None:
        step, _ = scratch
        xp.multiply(grad, grad, out=step)
        _decay(xp, ms, rho, step, rest)
        xp.add(ms, epsilon, out=step)
        _momentum_step(xp, step, grad, var, mom, lr, momentum)

    return apply


def centered_rms_prop(xp: Any, *, lr: Array, rho: Array, momentum: Array, epsilon: Array) -> Apply:
    """RMSProp divided by the standard deviation (Graves 2013, equations 38 to 45).

    `mg = rho * mg + (1 - rho) * grad; ms = rho * ms + (1 - rho) * grad²;
    mom = momentum * mom + lr * grad / sqrt(ms - mg² + epsilon); var -= mom`.
    """
    rest = 1 - rho

    def apply(scratch: Array, grad: Array, var: Array, mg: Array, ms: Array, mom: Array) -> None:
        step, other = scratch
        xp.multiply(grad, grad, out=step)
        _decay(xp, ms, rho, step, rest)
        xp.copyto(step, grad)
        _decay(xp, mg, rho, step, rest)
        xp.multiply(mg, mg, out=other)
        xp.subtract(ms, other, out=step)
        xp.add(step, epsilon, out=step)
        _momentum_step(xp, step, grad, var, mom, lr, momentum)

    return apply


def ftrl(
    xp: Any,
    *,
    lr: Array,
    l1: Array,
    l2: Array,
    lr_power: Array,
    multiply_linear_by_lr: bool,
    l2_shrinkage: Array | None = None,
) -> Apply:
    """Follow the regularised leader, per coordinate (McMahan et al. 2013, algorithm 1).

    With `new = accum + grad²` and `g = grad + 2 * l2_shrinkage * var`:
    `linear += g - (new**-lr_power - accum**-lr_power) / lr * var; accum = new;
    var = (clip(linear, -l1, l1) - linear) / (new**-lr_power / lr + 2 * l2)`.
    `multiply_linear_by_lr` keeps `linear` multiplied by `lr`, and so avoids dividing by it.
    """
    scale = lr if multiply_linear_by_lr else 1
    divisor = 1 if multiply_linear_by_lr else lr
    bound = l1 * scale
    ridge = 2 * l2 * scale

    def apply(scratch: Array, grad: Array, var: Array, accum: Array, linear: Array) -> None:
        old, new = scratch
        xp.power(accum, -lr_power, out=old)
        xp.multiply(grad, grad, out=new)
        xp.add(accum, new, out=accum)
        xp.power(accum, -lr_power, out=new)
        xp.subtract(new, old, out=old)
        xp.divide(old, divisor, out=old)
        xp.multiply(old, var, out=old)
        xp.subtract(linear, old, out=linear)
        if l2_shrinkage is not None:
            xp.multiply(var, 2 * l2_shrinkage * scale, out=old)
            xp.add(linear, old, out=linear)
        xp.multiply(grad, scale, out=old)
        xp.add(linear, old, out=linear)
        xp.divide(new, divisor, out=new)
        xp.add(new, ridge, out=new)
        xp.clip(linear, -bound, bound, out=old)
        xp.subtract(old, linear, out=old)
        xp.divide(old, new, out=var)

    return apply


def _decay(xp: Any, average: Array, rho: Array, value: Array, rest: Array) -> None:
    """`average = rho * average + rest * value`; overwrites `value`."""
    xp.multiply(average, rho, out=average)
    xp.multiply(value, rest, out=value)
    xp.add(average, value, out=average)


def _momentum_step(
    xp: Any, square: Array, grad: Array, var: Array, mom: Array, lr: Array, momentum: Array
) -> None:
    """`mom = momentum * mom + lr * grad / sqrt(square); var -= mom`; overwrites `square`."""
    xp.sqrt(square, out=square)
    xp.divide(grad, square, out=square)
    xp.multiply(square, lr, out=square)
    xp.multiply(mom, momentum, out=mom)
    xp.add(mom, square, out=mom)
    xp.subtract(var, mom, out=var)
