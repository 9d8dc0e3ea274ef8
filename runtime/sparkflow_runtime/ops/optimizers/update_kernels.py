"""The formulas of the optimizers as parts of fused kernels: one pass over memory per update.

They are those of `update_rules`, in the same order of operations; papers are named there. A
compiler can fuse them with what makes the gradient (`rule`); `update_kernel` is an update alone.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from sparkflow_runtime.codegen.ir.builder import KernelBuilder, Value
from sparkflow_runtime.codegen.ir.kernel import Kernel
from sparkflow_runtime.dtypes import DType, float32, float64

DTYPES: Final = frozenset({float32, float64})
"""Of variables that such kernels update."""
ROOT_POWER: Final = -0.5
"""The `lr_power` with which FTRL needs only a root."""


Values = dict[str, Value]


def gradient_descent(*, var: Value, alpha: Value, grad: Value) -> Values:
    """Gradient descent."""
    return {"var": var - grad * alpha}


def momentum(
    *,
    var: Value,
    accum: Value,
    lr: Value,
    grad: Value,
    momentum: Value,
    use_nesterov: bool,
) -> Values:
    """Gradient descent with momentum."""
    accum = accum * momentum + grad
    step = (accum * momentum + grad if use_nesterov else accum) * lr
    return {"var": var - step, "accum": accum}


def adagrad(*, var: Value, accum: Value, lr: Value, grad: Value, update_slots: bool) -> Values:
    """Adagrad."""
    new = accum + grad * grad if update_slots else accum
    return {"var": var - grad / _sqrt(new) * lr, **({"accum": new} if update_slots else {})}


def adagrad_v2(
    *,
    var: Value,
    accum: Value,
    lr: Value,
    epsilon: Value,
    grad: Value,
    update_slots: bool,
) -> Values:
    """Adagrad with epsilon."""
    new = accum + grad * grad if update_slots else accum
    step = grad / (_sqrt(new) + epsilon) * lr
    return {"var": var - step, **({"accum": new} if update_slots else {})}


def adadelta(
    *,
    var: Value,
    accum: Value,
    accum_update: Value,
    lr: Value,
    rho: Value,
    epsilon: Value,
    grad: Value,
) -> Values:
    """Adadelta."""
    rest = 1 - rho
    accum = accum * rho + grad * grad * rest
    update = _sqrt((accum_update + epsilon) / (accum + epsilon)) * grad
    accum_update = accum_update * rho + update * update * rest
    return {"var": var - update * lr, "accum": accum, "accum_update": accum_update}


def adam(
    *,
    var: Value,
    m: Value,
    v: Value,
    beta1_power: Value,
    beta2_power: Value,
    lr: Value,
    beta1: Value,
    beta2: Value,
    epsilon: Value,
    grad: Value,
    use_nesterov: bool,
) -> Values:
    """Adam."""
    alpha = lr * _sqrt(1 - beta2_power) / (1 - beta1_power)
    m = m + (grad - m) * (1 - beta1)
    v = v + (grad * grad - v) * (1 - beta2)
    direction = (m - grad) * beta1 + grad if use_nesterov else m
    return {"var": var - direction / (_sqrt(v) + epsilon) * alpha, "m": m, "v": v}


def rms_prop(
    *,
    var: Value,
    ms: Value,
    mom: Value,
    lr: Value,
    rho: Value,
    momentum: Value,
    epsilon: Value,
    grad: Value,
) -> Values:
    """RMSProp."""
    ms = ms * rho + grad * grad * (1 - rho)
    mom = mom * momentum + grad / _sqrt(ms + epsilon) * lr
    return {"var": var - mom, "ms": ms, "mom": mom}


def centered_rms_prop(
    *,
    var: Value,
    mg: Value,
    ms: Value,
    mom: Value,
    lr: Value,
    rho: Value,
    momentum: Value,
    epsilon: Value,
    grad: Value,
) -> Values:
    """RMSProp by standard deviation."""
    rest = 1 - rho
    ms = ms * rho + grad * grad * rest
    mg = mg * rho + grad * rest
    mom = mom * momentum + grad / _sqrt(ms - mg * mg + epsilon) * lr
    return {"var": var - mom, "mg": mg, "ms": ms, "mom": mom}


def ftrl(
    *,
    var: Value,
    accum: Value,
    linear: Value,
    grad: Value,
    lr: Value,
    l1: Value,
    l2: Value,
    lr_power: Value,
    multiply_linear_by_lr: bool,
    l2_shrinkage: Value | None = None,
    is_root: bool = False,
) -> Values:
    """FTRL-proximal.

    `is_root` promises that `lr_power` is `ROOT_POWER`.
    """

    def raised(x: Value) -> Value:
        """`x ** -lr_power`, in double precision, which hides the errors of the logarithm."""
        if is_root:
            return _sqrt(x)
        builder = x.builder
        power = -builder.cast(lr_power, float64)
        wide = builder.call("exp", builder.call("log", builder.cast(x, float64)) * power)
        return builder.cast(builder.call("where", power.equal(0.0), 1.0, wide), x.dtype)

    def times_rate(x: Value) -> Value:
        return x * lr if multiply_linear_by_lr else x

    def over_rate(x: Value) -> Value:
        return x if multiply_linear_by_lr else x / lr

    new = accum + grad * grad
    root = raised(new)
    linear = linear - over_rate(root - raised(accum)) * var
    if l2_shrinkage is not None:
        linear = linear + var * times_rate(2 * l2_shrinkage)
    linear = linear + times_rate(grad)
    divisor = over_rate(root) + times_rate(2 * l2)
    bound = times_rate(l1)
    clipped = var.builder.call("minimum", var.builder.call("maximum", linear, -bound), bound)
    return {"var": (clipped - linear) / divisor, "accum": new, "linear": linear}


def proximal_gradient_descent(
    *, var: Value, alpha: Value, l1: Value, l2: Value, grad: Value
) -> Values:
    """Gradient descent with a proximal step."""
    return {"var": _shrunk(var - grad * alpha, alpha * l1, l1) / (l2 * alpha + 1)}


def proximal_adagrad(
    *, var: Value, accum: Value, lr: Value, l1: Value, l2: Value, grad: Value
) -> Values:
    """Adagrad with a proximal step."""
    accum = accum + grad * grad
    rate = lr / _sqrt(accum)
    var = _shrunk(var - grad * rate, rate * l1, l1) / (rate * l2 + 1)
    return {"var": var, "accum": accum}


def adagrad_da(
    *,
    var: Value,
    gradient_accumulator: Value,
    gradient_squared_accumulator: Value,
    grad: Value,
    lr: Value,
    l1: Value,
    l2: Value,
    global_step: Value,
) -> Values:
    """Adagrad with regularised dual averaging."""
    steps = var.builder.cast(global_step, var.dtype)
    total = gradient_accumulator + grad
    squares = gradient_squared_accumulator + grad * grad
    var = _shrunk(total, l1 * steps, l1) * -lr / (_sqrt(squares) + l2 * steps * lr)
    return {"var": var, "gradient_accumulator": total, "gradient_squared_accumulator": squares}


def ada_max(
    *,
    var: Value,
    m: Value,
    v: Value,
    beta1_power: Value,
    lr: Value,
    beta1: Value,
    beta2: Value,
    epsilon: Value,
    grad: Value,
) -> Values:
    """Adam by the largest gradient."""
    m = m + (grad - m) * (1 - beta1)
    v = v.builder.call("maximum", v * beta2, _absolute(grad))
    return {"var": var - m / (v + epsilon) * (lr / (1 - beta1_power)), "m": m, "v": v}


def add_sign(
    *,
    var: Value,
    m: Value,
    lr: Value,
    alpha: Value,
    sign_decay: Value,
    beta: Value,
    grad: Value,
) -> Values:
    """Larger steps where gradient and momentum agree."""
    m = m * beta + grad * (1 - beta)
    factor = _sign(grad) * _sign(m) * sign_decay + alpha
    return {"var": var - factor * grad * lr, "m": m}


def power_sign(
    *,
    var: Value,
    m: Value,
    lr: Value,
    logbase: Value,
    sign_decay: Value,
    beta: Value,
    grad: Value,
) -> Values:
    """Exponentially larger steps where gradient and momentum agree."""
    m = m * beta + grad * (1 - beta)
    factor = m.builder.call("exp", _sign(grad) * _sign(m) * (logbase * sign_decay))
    return {"var": var - factor * grad * lr, "m": m}


def _sqrt(x: Value) -> Value:
    return x.builder.call("sqrt", x)


def _sign(x: Value) -> Value:
    return x.builder.call("sign", x)


def _absolute(x: Value) -> Value:
    return x.builder.call("absolute", x)


def _shrunk(x: Value, threshold: Value, l1: Value) -> Value:
    """`sign(x) * max(|x| - threshold, 0)` where l1 is positive, else x."""
    less = _sign(x) * x.builder.call("maximum", _absolute(x) - threshold, 0.0)
    return x.builder.call("where", l1.greater(0.0), less, x)


_FORMULAS: Final[Mapping[str, Callable[..., Values]]] = {
    "GradientDescent": gradient_descent,
    "Momentum": momentum,
    "Adagrad": adagrad,
    "AdagradV2": adagrad_v2,
    "Adadelta": adadelta,
    "Adam": adam,
    "RMSProp": rms_prop,
    "CenteredRMSProp": centered_rms_prop,
    "Ftrl": ftrl,
    "FtrlV2": ftrl,
    "ProximalGradientDescent": proximal_gradient_descent,
    "ProximalAdagrad": proximal_adagrad,
    "AdagradDA": adagrad_da,
    "AdaMax": ada_max,
    "AddSign": add_sign,
    "PowerSign": power_sign,
}
_FLAGS: Final = ("use_nesterov", "update_slots", "multiply_linear_by_lr", "is_root")

Rule = Callable[[KernelBuilder, Mapping[str, Value], Mapping[str, Any]], dict[str, Value]]


def rule(op_type: str) -> Rule | None:
    """How a kernel does what an update does, None where no kernel can.

    Args:
        op_type: `ApplyX`, `SparseApplyX`, `ResourceApplyX` or `ResourceSparseApplyX`.

    Returns:
        A function of a builder, the values of the op's arguments by name (without indices; those
        of the variable and its slots are their rows) and the op's attributes. It gives the new
        values by name, without those that stay as they are. The attribute `is_root`, which is not
        TensorFlow's, promises FTRL that `lr_power` is `ROOT_POWER`.
    """
    name = op_type.removeprefix("Resource").removeprefix("Sparse").removeprefix("Apply")
    formula = _FORMULAS.get(name)
    if formula is None or name == op_type:
        return None

    def build(
        builder: KernelBuilder, values: Mapping[str, Value], attrs: Mapping[str, Any]
    ) -> dict[str, Value]:
        renamed = {"grad" if arg == "delta" else arg: value for arg, value in values.items()}
        flags = {flag: attrs[flag] for flag in _FLAGS if flag in attrs}
        return formula(**renamed, **flags)

    return build


@dataclass(frozen=True, slots=True)
class UpdateKernel:
    """An update by itself, as a kernel of rank 1.

    Attributes:
        kernel: Its inputs are the op's arguments in order, without indices.
        changed: Which of them its outputs are.
    """

    kernel: Kernel
    changed: tuple[int, ...]


@functools.cache
def update_kernel(
    op_type: str, args: tuple[tuple[str, DType, bool], ...], flags: tuple[tuple[str, bool], ...]
) -> UpdateKernel:
    """The kernel of an update.

    Args:
        op_type: One that has a `rule`.
        args: Name and dtype of each argument without indices, and whether it is an array.
        flags: The op's attributes that the rule looks at.
    """
    build = rule(op_type)
    assert build is not None, op_type
    builder = KernelBuilder(1)
    values = {name: builder.input(dtype, (is_array,)) for name, dtype, is_array in args}
    made = build(builder, values, dict(flags))
    names = [name for name, _, _ in args]
    changed = tuple(i for i, name in enumerate(names) if name in made)
    for i in changed:
        builder.output(made[names[i]])
    return UpdateKernel(builder.build(), changed)
