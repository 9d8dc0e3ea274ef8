"""Learning rates that change with the step: `exponential_decay` and its like.

Each function gives a scalar tensor of the dtype of the initial rate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from sparkflow._api import export
from sparkflow.graph.scopes import convert_to_tensor, graph_of, output_of
from sparkflow.graph.tensor import Tensor
from sparkflow.ops.elementwise import elementwise as ew
from sparkflow.ops.elementwise.comparison import equal, greater, less_equal, logical_and
from sparkflow.ops.random.random import random_normal
from sparkflow_runtime import dtypes


@export("train.exponential_decay")
def exponential_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    decay_rate: Any,
    staircase: bool = False,
    name: str | None = None,
) -> Tensor:
    """`learning_rate * decay_rate ** (global_step / decay_steps)`.

    Args:
        learning_rate: The initial rate, a number or scalar tensor.
        global_step: The step, a number, scalar tensor or variable; at least 0.
        decay_steps: Steps after which the rate has changed by `decay_rate`.
        decay_rate: The factor.
        staircase: Use the integer quotient, so that the rate falls in steps.
        name: Name of the scope.

    Raises:
        ValueError: There is no global_step.
    """

    def decayed(rate: Tensor, step: Tensor, scope: str) -> Tensor:
        progress = _quotient(rate, step, decay_steps, staircase)
        return _mul(rate, ew.pow(_like(rate, decay_rate), progress), scope)

    _require(global_step, "global_step is required for exponential_decay.")
    return _scheduled(learning_rate, global_step, name or "ExponentialDecay", decayed)


@export("train.natural_exp_decay")
def natural_exp_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    decay_rate: Any,
    staircase: bool = False,
    name: str | None = None,
) -> Tensor:
    """`learning_rate * exp(-decay_rate * global_step / decay_steps)`.

    Arguments as for `exponential_decay`.

    Raises:
        ValueError: There is no global_step.
    """

    def decayed(rate: Tensor, step: Tensor, scope: str) -> Tensor:
        progress = _quotient(rate, step, decay_steps, staircase)
        return _mul(rate, ew.exp(-_like(rate, decay_rate) * progress), scope)

    _require(global_step, "global_step is required for natural_exp_decay.")
    return _scheduled(learning_rate, global_step, name or "ExponentialDecay", decayed)


@export("train.inverse_time_decay")
def inverse_time_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    decay_rate: Any,
    staircase: bool = False,
    name: str | None = None,
) -> Tensor:
    """`learning_rate / (1 + decay_rate * global_step / decay_steps)`.

    Arguments as for `exponential_decay`.

    Raises:
        ValueError: There is no global_step.
    """

    def decayed(rate: Tensor, step: Tensor, scope: str) -> Tensor:
        progress = _quotient(rate, step, decay_steps, staircase)
        return ew.divide(rate, 1 + _like(rate, decay_rate) * progress, name=scope)

    _require(global_step, "global_step is required for inverse_time_decay.")
    return _scheduled(learning_rate, global_step, name or "InverseTimeDecay", decayed)


@export("train.polynomial_decay")
def polynomial_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    end_learning_rate: Any = 0.0001,
    power: Any = 1.0,
    cycle: bool = False,
    name: str | None = None,
) -> Tensor:
    """`(learning_rate - end) * (1 - global_step / decay_steps) ** power + end`.

    Args:
        learning_rate: The initial rate, a number or scalar tensor.
        global_step: The step, a number, scalar tensor or variable.
        decay_steps: Steps after which the end is reached.
        end_learning_rate: The rate then.
        power: Of the polynomial.
        cycle: Go on beyond `decay_steps` with its next multiple, rather than stay at the end.
        name: Name of the scope.

    Raises:
        ValueError: There is no global_step.
    """

    def decayed(rate: Tensor, step: Tensor, scope: str) -> Tensor:
        steps, end = _like(rate, decay_steps), _like(rate, end_learning_rate)
        if cycle:
            rounds = ew.ceil(step / steps)
            # The first round begins at step 0, which is a multiple of everything.
            steps = steps * _where(equal(step, 0.0), _like(rate, 1.0), rounds)
        else:
            step = ew.minimum(step, steps)
        left = ew.pow(1 - step / steps, _like(rate, power))
        return ew.add(_mul(rate - end, left), end, name=scope)

    _require(global_step, "global_step is required for polynomial_decay.")
    return _scheduled(learning_rate, global_step, name or "PolynomialDecay", decayed)


@export("train.piecewise_constant")
def piecewise_constant(
    x: Any, boundaries: Sequence[Any], values: Sequence[Any], name: str | None = None
) -> Tensor:
    """`values[0]` up to `boundaries[0]`, `values[1]` up to `boundaries[1]`, ..., the last beyond.

    Args:
        x: The step, a scalar number, tensor or variable.
        boundaries: Increasing numbers or scalar tensors of the dtype of `x`.
        values: One more than there are boundaries, of one dtype.
        name: Name of the scope.

    Raises:
        ValueError: Numbers or dtypes do not fit.
    """
    if len(boundaries) != len(values) - 1:
        raise ValueError("The length of boundaries should be 1 less than the length of values")
    graph = graph_of((x, *boundaries, *values))
    with graph.as_default(), graph.name_scope(name or "PiecewiseConstant"):
        step = convert_to_tensor(x)
        edges = [_edge(each, step) for each in boundaries]
        levels = [convert_to_tensor(each) for each in values]
        for level in levels:
            if level.dtype.base is not levels[0].dtype.base:
                raise ValueError(
                    f"Values must have elements all with the same dtype ({levels[0].dtype.name} vs "
                    f"{level.dtype.name})."
                )
        result = levels[-1]
        for index in reversed(range(len(edges))):
            inside = less_equal(step, edges[index])
            if index:
                inside = logical_and(greater(step, edges[index - 1]), inside)
            result = _where(inside, levels[index], result)
        return result


piecewise_constant_decay = piecewise_constant


@export("train.cosine_decay")
def cosine_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    alpha: Any = 0.0,
    name: str | None = None,
) -> Tensor:
    """`learning_rate` times half a cosine wave, down to `alpha` (Loshchilov, Hutter 2017).

    Args:
        learning_rate: The initial rate, a number or scalar tensor.
        global_step: The step, a number, scalar tensor or variable.
        decay_steps: Steps after which the rate is least.
        alpha: The least rate as a part of the initial one.
        name: Name of the scope.

    Raises:
        ValueError: There is no global_step.
    """

    def decayed(rate: Tensor, step: Tensor, scope: str) -> Tensor:
        steps = _like(rate, decay_steps)
        part = 0.5 * (1.0 + ew.cos(math.pi * (ew.minimum(step, steps) / steps)))
        return _mul(rate, (1 - alpha) * part + alpha)

    _require(global_step, "cosine decay requires global_step")
    return _scheduled(learning_rate, global_step, name or "CosineDecay", decayed)


@export("train.cosine_decay_restarts")
def cosine_decay_restarts(
    learning_rate: Any,
    global_step: Any,
    first_decay_steps: Any,
    t_mul: Any = 2.0,
    m_mul: Any = 1.0,
    alpha: Any = 0.0,
    name: str | None = None,
) -> Tensor:
    """Cosine decays one after the other (SGDR; Loshchilov, Hutter 2017).

    Args:
        learning_rate: The initial rate, a number or scalar tensor.
        global_step: The step, a number, scalar tensor or variable.
        first_decay_steps: Length of the first decay.
        t_mul: How much longer each decay is than the one before.
        m_mul: What the initial rate of each decay is of that of the one before.
        alpha: The least rate as a part of the initial one.
        name: Name of the scope.

    Raises:
        ValueError: There is no global_step.
    """

    def decayed(rate: Tensor, step: Tensor, scope: str) -> Tensor:
        done = step / _like(rate, first_decay_steps)
        longer = _like(rate, t_mul)
        equally_long = equal(longer, 1.0)
        # In the case that is not taken, 2 keeps the logarithm from 0.
        base = _where(equally_long, _like(rate, 2.0), longer)
        restarts = ew.floor(ew.log(1.0 - done * (1.0 - base)) / ew.log(base))
        power = ew.pow(base, restarts)
        fraction = (done - (1.0 - power) / (1.0 - base)) / power
        whole = ew.floor(done)
        restarts = _where(equally_long, whole, restarts)
        fraction = _where(equally_long, done - whole, fraction)
        height = ew.pow(_like(rate, m_mul), restarts)
        part = 0.5 * height * (1.0 + ew.cos(math.pi * fraction))
        return _mul(rate, (1 - alpha) * part + alpha, scope)

    _require(global_step, "cosine decay restarts requires global_step")
    return _scheduled(learning_rate, global_step, name or "SGDRDecay", decayed)


@export("train.linear_cosine_decay")
def linear_cosine_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    num_periods: Any = 0.5,
    alpha: Any = 0.0,
    beta: Any = 0.001,
    name: str | None = None,
) -> Tensor:
    """`learning_rate * ((alpha + linear) * cosine + beta)` (Bello et al. 2017).

    Args:
        learning_rate: The initial rate, a number or scalar tensor.
        global_step: The step, a number, scalar tensor or variable.
        decay_steps: Steps of the linear decay to 0.
        num_periods: Of the cosine meanwhile.
        alpha: See above.
        beta: See above.
        name: Name of the scope.

    Raises:
        ValueError: There is no global_step.
    """

    def decayed(rate: Tensor, step: Tensor, scope: str) -> Tensor:
        linear, cosine, _ = _linear_and_cosine(rate, step, decay_steps, num_periods)
        return _mul(rate, (alpha + linear) * cosine + beta, scope)

    _require(global_step, "linear cosine decay requires global_step")
    return _scheduled(learning_rate, global_step, name or "LinearCosineDecay", decayed)


@export("train.noisy_linear_cosine_decay")
def noisy_linear_cosine_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    initial_variance: Any = 1.0,
    variance_decay: Any = 0.55,
    num_periods: Any = 0.5,
    alpha: Any = 0.0,
    beta: Any = 0.001,
    name: str | None = None,
) -> Tensor:
    """`linear_cosine_decay` with normal noise on the linear part.

    Args:
        learning_rate: As there.
        global_step: As there.
        decay_steps: As there.
        initial_variance: Of the noise at step 0.
        variance_decay: The variance at step n is `initial_variance / (1 + n) ** variance_decay`.
        num_periods: As there.
        alpha: As there.
        beta: As there.
        name: As there.

    Raises:
        ValueError: There is no global_step.
    """

    def decayed(rate: Tensor, step: Tensor, scope: str) -> Tensor:
        linear, cosine, step = _linear_and_cosine(rate, step, decay_steps, num_periods)
        fall = ew.pow(1.0 + step, _like(rate, variance_decay))
        deviation = ew.sqrt(_like(rate, initial_variance) / fall)
        noise = random_normal([], dtype=rate.dtype.base) * deviation
        return _mul(rate, (alpha + (linear + noise)) * cosine + beta, scope)

    _require(global_step, "noisy linear cosine decay requires global_step")
    return _scheduled(learning_rate, global_step, name or "NoisyLinearCosineDecay", decayed)


def _require(global_step: Any, message: str) -> None:
    if global_step is None:
        raise ValueError(message)


def _scheduled(
    learning_rate: Any,
    global_step: Any,
    name: str,
    decayed: Callable[[Tensor, Tensor, str], Tensor],
) -> Tensor:
    graph = graph_of((learning_rate, global_step))
    with graph.as_default(), graph.name_scope(name) as scope:
        rate = convert_to_tensor(learning_rate, name="learning_rate")
        return decayed(rate, _like(rate, global_step), scope)


def _like(rate: Tensor, value: Any) -> Tensor:
    """A number, tensor or variable in the dtype of the rate."""
    if isinstance(value, int | float):
        return convert_to_tensor(float(value), rate.dtype.base)
    return ew.cast(value, rate.dtype.base)


def _quotient(rate: Tensor, step: Tensor, decay_steps: Any, staircase: bool) -> Tensor:
    progress: Tensor = step / _like(rate, decay_steps)
    return ew.floor(progress) if staircase else progress


def _linear_and_cosine(
    rate: Tensor, step: Tensor, decay_steps: Any, num_periods: Any
) -> tuple[Tensor, Tensor, Tensor]:
    steps = _like(rate, decay_steps)
    step = ew.minimum(step, steps)
    fraction = 2.0 * _like(rate, num_periods) * step / steps
    return (steps - step) / steps, 0.5 * (1.0 + ew.cos(math.pi * fraction)), step


def _edge(boundary: Any, step: Tensor) -> Tensor:
    edge = convert_to_tensor(boundary)
    kind, wanted = edge.dtype.base, step.dtype.base
    if kind is wanted:
        return edge
    if kind is dtypes.int32 and wanted is dtypes.int64:
        return ew.cast(edge, dtypes.int64)
    raise ValueError(f"Boundaries ({kind.name}) must have the same dtype as x ({wanted.name}).")


def _mul(a: Tensor, b: Tensor, name: str | None = None) -> Tensor:
    return ew.multiply(a, b, name=name)


def _where(condition: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return output_of("Select", condition, a, b)
