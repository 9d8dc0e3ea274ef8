"""The formulas of the optimizers: for numpy and cupy, machine code and CUDA, variables and rows.

The arguments of a rule are `Functions` and, by name, the variable and its slots, the gradient, the
step's scalars and the op's flags. All except the flags are values with operators: arrays, or values
of a kernel that is being built (`update_kernels`). It returns the new values by name, without
unchanged ones. Formulas are those of TensorFlow's training ops; papers are named with each.

With `shrink(x, t)` for `sign(x) * max(|x| - t, 0)`, the proximal step of l1 and l2 at rate r maps x
to `shrink(x, r * l1) / (1 + r * l2)` (Duchi, Singer 2009, "Efficient learning using
forward-backward splitting").
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from sparkflow_runtime.ops.op import Array

ROOT_POWER: Final = -0.5
"""The `lr_power` with which FTRL needs only a root."""

Values = dict[str, Array]
Rule = Callable[..., Values]


class Functions(Protocol):
    """The functions that rules use in addition to operators."""

    def call(self, function: str, *values: Array) -> Array:
        """Calls a numpy function by name."""

    def like(self, value: Array, other: Array) -> Array:
        """Casts a value to the dtype of another one."""

    def inverse_power(self, x: Array, power: Array) -> Array:
        """`x ** -power`."""


@dataclass(frozen=True, slots=True)
class ArrayFunctions:
    """`Functions` for arrays.

    Attributes:
        xp: numpy or cupy.
    """

    xp: Any

    def call(self, function: str, *values: Array) -> Array:
        """See `Functions`."""
        return getattr(self.xp, function)(*values)

    def like(self, value: Array, other: Array) -> Array:
        """See `Functions`."""
        return self.xp.asarray(value).astype(other.dtype)

    def inverse_power(self, x: Array, power: Array) -> Array:
        """See `Functions`."""
        return self.xp.power(x, -power)


def gradient_descent(f: Functions, *, var: Array, alpha: Array, grad: Array) -> Values:
    """`var -= alpha * grad`."""
    return {"var": var - grad * alpha}


def moving_average(f: Functions, *, var: Array, rate: Array, grad: Array) -> Values:
    """`var -= (var - grad) * rate`: an average moves towards a value, which is called `grad`."""
    return {"var": var - (var - grad) * rate}


def momentum(
    f: Functions,
    *,
    var: Array,
    accum: Array,
    lr: Array,
    grad: Array,
    momentum: Array,
    use_nesterov: bool,
) -> Values:
    """`accum = momentum * accum + grad; var -= lr * accum`.

    With Nesterov's look-ahead `var -= lr * grad + lr * momentum * accum` (Sutskever et al. 2013,
    "On the importance of initialization and momentum in deep learning", section 2).
    """
    accum = accum * momentum + grad
    step = (accum * momentum + grad if use_nesterov else accum) * lr
    return {"var": var - step, "accum": accum}


def adagrad(
    f: Functions, *, var: Array, accum: Array, lr: Array, grad: Array, update_slots: bool
) -> Values:
    """`accum += grad²; var -= lr * grad / sqrt(accum)` (Duchi et al. 2011)."""
    new = accum + grad * grad if update_slots else accum
    return {
        "var": var - grad / f.call("sqrt", new) * lr,
        **({"accum": new} if update_slots else {}),
    }


def adagrad_v2(
    f: Functions,
    *,
    var: Array,
    accum: Array,
    lr: Array,
    epsilon: Array,
    grad: Array,
    update_slots: bool,
) -> Values:
    """`accum += grad²; var -= lr * grad / (sqrt(accum) + epsilon)` (Duchi et al. 2011)."""
    new = accum + grad * grad if update_slots else accum
    step = grad / (f.call("sqrt", new) + epsilon) * lr
    return {"var": var - step, **({"accum": new} if update_slots else {})}


def adadelta(
    f: Functions,
    *,
    var: Array,
    accum: Array,
    accum_update: Array,
    lr: Array,
    rho: Array,
    epsilon: Array,
    grad: Array,
) -> Values:
    """Steps in units of the parameter (Zeiler 2012, algorithm 1).

    `accum = rho * accum + (1 - rho) * grad²;
    update = sqrt(accum_update + epsilon) / sqrt(accum + epsilon) * grad;
    accum_update = rho * accum_update + (1 - rho) * update²; var -= lr * update`.
    """
    rest = 1 - rho
    accum = accum * rho + grad * grad * rest
    update = f.call("sqrt", (accum_update + epsilon) / (accum + epsilon)) * grad
    accum_update = accum_update * rho + update * update * rest
    return {"var": var - update * lr, "accum": accum, "accum_update": accum_update}


def adam(
    f: Functions,
    *,
    var: Array,
    m: Array,
    v: Array,
    beta1_power: Array,
    beta2_power: Array,
    lr: Array,
    beta1: Array,
    beta2: Array,
    epsilon: Array,
    grad: Array,
    use_nesterov: bool,
) -> Values:
    """Adam in the form before section 2.1 of Kingma & Ba 2014, with "epsilon hat".

    `m = beta1 * m + (1 - beta1) * grad; v = beta2 * v + (1 - beta2) * grad²;
    var -= lr * sqrt(1 - beta2_power) / (1 - beta1_power) * m / (sqrt(v) + epsilon)`.
    With Nesterov's look-ahead (Dozat 2016) `beta1 * m + (1 - beta1) * grad` stands for `m` in the
    last line.
    """
    alpha = lr * f.call("sqrt", 1 - beta2_power) / (1 - beta1_power)
    m = m + (grad - m) * (1 - beta1)
    v = v + (grad * grad - v) * (1 - beta2)
    direction = (m - grad) * beta1 + grad if use_nesterov else m
    return {"var": var - direction / (f.call("sqrt", v) + epsilon) * alpha, "m": m, "v": v}


def rms_prop(
    f: Functions,
    *,
    var: Array,
    ms: Array,
    mom: Array,
    lr: Array,
    rho: Array,
    momentum: Array,
    epsilon: Array,
    grad: Array,
) -> Values:
    """`ms = rho * ms + (1 - rho) * grad²; mom = momentum * mom + lr * grad / sqrt(ms + epsilon)`.

    Then `var -= mom` (Hinton 2012, lecture 6e of "Neural networks for machine learning").
    """
    ms = ms * rho + grad * grad * (1 - rho)
    mom = mom * momentum + grad / f.call("sqrt", ms + epsilon) * lr
    return {"var": var - mom, "ms": ms, "mom": mom}


def centered_rms_prop(
    f: Functions,
    *,
    var: Array,
    mg: Array,
    ms: Array,
    mom: Array,
    lr: Array,
    rho: Array,
    momentum: Array,
    epsilon: Array,
    grad: Array,
) -> Values:
    """RMSProp divided by the standard deviation (Graves 2013, equations 38 to 45).

    `mg = rho * mg + (1 - rho) * grad; ms = rho * ms + (1 - rho) * grad²;
    mom = momentum * mom + lr * grad / sqrt(ms - mg² + epsilon); var -= mom`.
    """
    rest = 1 - rho
    ms = ms * rho + grad * grad * rest
    mg = mg * rho + grad * rest
    mom = mom * momentum + grad / f.call("sqrt", ms - mg * mg + epsilon) * lr
    return {"var": var - mom, "mg": mg, "ms": ms, "mom": mom}


def ftrl(
    f: Functions,
    *,
    var: Array,
    accum: Array,
    linear: Array,
    grad: Array,
    lr: Array,
    l1: Array,
    l2: Array,
    lr_power: Array,
    multiply_linear_by_lr: bool,
    l2_shrinkage: Array | None = None,
    is_root: bool = False,
) -> Values:
    """Follow the regularised leader, per coordinate (McMahan et al. 2013, algorithm 1).

    With `new = accum + grad²` and `g = grad + 2 * l2_shrinkage * var`:
    `linear += g - (new**-lr_power - accum**-lr_power) / lr * var; accum = new;
    var = (clip(linear, -l1, l1) - linear) / (new**-lr_power / lr + 2 * l2)`.
    `multiply_linear_by_lr` keeps `linear` multiplied by `lr`, and so avoids dividing by it.
    `is_root` promises that `lr_power` is `ROOT_POWER`.
    """

    def raised(x: Array) -> Array:
        return f.call("sqrt", x) if is_root else f.inverse_power(x, lr_power)

    def times_rate(x: Array) -> Array:
        return x * lr if multiply_linear_by_lr else x

    def over_rate(x: Array) -> Array:
        return x if multiply_linear_by_lr else x / lr

    new = accum + grad * grad
    root = raised(new)
    linear = linear - over_rate(root - raised(accum)) * var
    if l2_shrinkage is not None:
        linear = linear + var * times_rate(2 * l2_shrinkage)
    linear = linear + times_rate(grad)
    divisor = over_rate(root) + times_rate(2 * l2)
    bound = times_rate(l1)
    clipped = f.call("minimum", f.call("maximum", linear, -bound), bound)
    return {"var": (clipped - linear) / divisor, "accum": new, "linear": linear}


def proximal_gradient_descent(
    f: Functions, *, var: Array, alpha: Array, l1: Array, l2: Array, grad: Array
) -> Values:
    """`var = shrink(var - alpha * grad, alpha * l1) / (1 + alpha * l2)`."""
    return {"var": _shrunk(f, var - grad * alpha, alpha * l1, l1) / (l2 * alpha + 1)}


def proximal_adagrad(
    f: Functions, *, var: Array, accum: Array, lr: Array, l1: Array, l2: Array, grad: Array
) -> Values:
    """`accum += grad²; r = lr / sqrt(accum); var = shrink(var - r * grad, r * l1) / (1 + r * l2)`.

    Duchi, Hazan, Singer 2011, figure 1 with a composite mirror descent step.
    """
    accum = accum + grad * grad
    rate = lr / f.call("sqrt", accum)
    var = _shrunk(f, var - grad * rate, rate * l1, l1) / (rate * l2 + 1)
    return {"var": var, "accum": accum}


def adagrad_da(
    f: Functions,
    *,
    var: Array,
    gradient_accumulator: Array,
    gradient_squared_accumulator: Array,
    grad: Array,
    lr: Array,
    l1: Array,
    l2: Array,
    global_step: Array,
) -> Values:
    """Adagrad with regularised dual averaging (Duchi, Hazan, Singer 2011, equation 2).

    `total += grad; squares += grad²;
    var = -lr * shrink(total, l1 * global_step) / (l2 * global_step * lr + sqrt(squares))`.
    """
    steps = f.like(global_step, var)
    total = gradient_accumulator + grad
    squares = gradient_squared_accumulator + grad * grad
    var = _shrunk(f, total, l1 * steps, l1) * -lr / (f.call("sqrt", squares) + l2 * steps * lr)
    return {"var": var, "gradient_accumulator": total, "gradient_squared_accumulator": squares}


def ada_max(
    f: Functions,
    *,
    var: Array,
    m: Array,
    v: Array,
    beta1_power: Array,
    lr: Array,
    beta1: Array,
    beta2: Array,
    epsilon: Array,
    grad: Array,
) -> Values:
    """AdaMax: Adam with the infinity norm (Kingma & Ba 2014, algorithm 2).

    `m += (1 - beta1) * (grad - m); v = max(beta2 * v, |grad|);
    var -= lr / (1 - beta1_power) * m / (v + epsilon)`.
    """
    m = m + (grad - m) * (1 - beta1)
    v = f.call("maximum", v * beta2, f.call("absolute", grad))
    return {"var": var - m / (v + epsilon) * (lr / (1 - beta1_power)), "m": m, "v": v}


def add_sign(
    f: Functions,
    *,
    var: Array,
    m: Array,
    lr: Array,
    alpha: Array,
    sign_decay: Array,
    beta: Array,
    grad: Array,
) -> Values:
    """Takes larger steps where gradient and momentum agree (Bello et al. 2017).

    `m = beta * m + (1 - beta) * grad;
    var -= lr * (alpha + sign_decay * sign(grad) * sign(m)) * grad`.
    """
    m = m * beta + grad * (1 - beta)
    factor = f.call("sign", grad) * f.call("sign", m) * sign_decay + alpha
    return {"var": var - factor * grad * lr, "m": m}


def power_sign(
    f: Functions,
    *,
    var: Array,
    m: Array,
    lr: Array,
    logbase: Array,
    sign_decay: Array,
    beta: Array,
    grad: Array,
) -> Values:
    """Takes exponentially larger steps where gradient and momentum agree (Bello et al. 2017).

    `m = beta * m + (1 - beta) * grad;
    var -= lr * exp(logbase * sign_decay * sign(grad) * sign(m)) * grad`.
    """
    m = m * beta + grad * (1 - beta)
    factor = f.call("exp", f.call("sign", grad) * f.call("sign", m) * (logbase * sign_decay))
    return {"var": var - factor * grad * lr, "m": m}


def _shrunk(f: Functions, x: Array, threshold: Array, l1: Array) -> Array:
    """`sign(x) * max(|x| - threshold, 0)` if l1 is positive, else x."""
    less = f.call("sign", x) * f.call("maximum", f.call("absolute", x) - threshold, 0)
    return f.call("where", f.call("greater", l1, 0), less, x)
