"""`optimize_loss`: one training step with everything around it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sparkflow as tf
from sparkflow.train.optimizers.optimizer import Optimizer

OPTIMIZER_CLS_NAMES: dict[str, Any] = {
    "Adagrad": tf.train.AdagradOptimizer,
    "Adam": tf.train.AdamOptimizer,
    "Ftrl": tf.train.FtrlOptimizer,
    "Momentum": lambda learning_rate: tf.train.MomentumOptimizer(learning_rate, momentum=0.9),
    "RMSProp": tf.train.RMSPropOptimizer,
    "SGD": tf.train.GradientDescentOptimizer,
}
OPTIMIZER_SUMMARIES = [
    "learning_rate",
    "loss",
    "gradients",
    "gradient_norm",
    "global_gradient_norm",
]


def optimize_loss(
    loss: Any,
    global_step: Any,
    learning_rate: Any,
    optimizer: Any,
    gradient_noise_scale: float | None = None,
    gradient_multipliers: Mapping[Any, Any] | None = None,
    clip_gradients: Any = None,
    learning_rate_decay_fn: Callable[[Any, Any], Any] | None = None,
    update_ops: Sequence[Any] | None = None,
    variables: Sequence[Any] | None = None,
    name: str | None = None,
    summaries: Sequence[str] | None = None,
    colocate_gradients_with_ops: bool = False,
    increment_global_step: bool = True,
) -> Any:
    """The loss, which when it is fetched has made one training step.

    Args:
        loss: A scalar.
        global_step: The step counter; the graph's, made if need be, when None.
        learning_rate: A number or scalar tensor; None where the optimizer has one.
        optimizer: A name of `OPTIMIZER_CLS_NAMES`, an optimizer class, a function of the rate, a
            function of nothing, or an optimizer.
        gradient_noise_scale: Add noise of this scale to the gradients.
        gradient_multipliers: Factors of gradients, by variable or by its name.
        clip_gradients: The longest gradients may be together, or a function of pairs of gradients
            and variables.
        learning_rate_decay_fn: From rate and step to rate.
        update_ops: Operations to run first; those of `UPDATE_OPS` when None.
        variables: What is trained; the trainable variables when None.
        name: The variable scope; `OptimizeLoss` when None.
        summaries: What to write summaries of, see `OPTIMIZER_SUMMARIES`.
        colocate_gradients_with_ops: As for `Optimizer.compute_gradients`.
        increment_global_step: Count the step.

    Raises:
        ValueError: An argument outside those, or no variable depends on the loss.
    """
    loss = tf.convert_to_tensor(loss)
    if loss.shape.ndims not in (None, 0):
        raise ValueError(f"Expected a scalar loss, got a tensor of shape {loss.shape}")
    if global_step is None:
        global_step = tf.train.get_or_create_global_step()
    else:
        tf.train.assert_global_step(global_step)
    with tf.variable_scope(name, "OptimizeLoss", [loss, global_step]):
        if update_ops is None:
            update_ops = list(dict.fromkeys(tf.get_collection(tf.GraphKeys.UPDATE_OPS)))
        if update_ops:
            with tf.control_dependencies(list(update_ops)):
                loss = tf.identity(loss)
        chosen = (
            ["loss", "learning_rate", "global_gradient_norm"] if summaries is None else summaries
        )
        for each in chosen:
            if each not in OPTIMIZER_SUMMARIES:
                raise ValueError(
                    f"Summaries should be one of [{', '.join(OPTIMIZER_SUMMARIES)}], you provided "
                    f"{each}."
                )
        rate = _rate(learning_rate, global_step, learning_rate_decay_fn, chosen)
        opt = _optimizer(optimizer, rate)
        if variables is None:
            variables = tf.trainable_variables()
        gradients = opt.compute_gradients(
            loss, variables, colocate_gradients_with_ops=colocate_gradients_with_ops
        )
        if gradient_noise_scale is not None:
            gradients = add_scaled_noise_to_gradients(gradients, gradient_noise_scale)
        if gradient_multipliers is not None:
            gradients = multiply_gradients(gradients, gradient_multipliers)
            if not gradients:
                raise ValueError(
                    "Empty list of (gradient, var) pairs encountered. This is most likely to be "
                    "caused by an improper value of gradient_multipliers."
                )
        if "global_gradient_norm" in chosen or "gradient_norm" in chosen:
            tf.summary.scalar(
                "global_norm/gradient_norm", tf.global_norm([g for g, _ in gradients])
            )
        gradients = _clipped(gradients, clip_gradients)
        if "loss" in chosen:
            tf.summary.scalar("loss", loss)
        _summarize(gradients, chosen, clip_gradients)
        train = opt.apply_gradients(
            gradients, global_step=global_step if increment_global_step else None, name="train"
        )
        with tf.control_dependencies([train]):
            return tf.identity(loss)


def _rate(learning_rate: Any, step: Any, decay: Any, chosen: Sequence[str]) -> Any:
    if learning_rate is None:
        return None
    if isinstance(learning_rate, tf.Tensor) and learning_rate.shape.ndims == 0:
        rate: Any = learning_rate
    elif isinstance(learning_rate, int | float):
        if learning_rate < 0.0:
            raise ValueError(f"Invalid learning_rate {learning_rate}.")
        rate = tf.get_variable(
            "learning_rate",
            [],
            trainable=False,
            initializer=tf.constant_initializer(learning_rate),
        )
    else:
        raise ValueError(
            "Learning rate should be 0d Tensor or float. "
            f"Got {learning_rate} of type {type(learning_rate)}"
        )
    if decay is not None:
        rate = decay(rate, step)
    if "learning_rate" in chosen:
        tf.summary.scalar("learning_rate", rate)
    return rate


def _optimizer(optimizer: Any, rate: Any) -> Any:
    if isinstance(optimizer, str):
        if rate is None:
            raise ValueError(
                "Learning rate is None, but should be specified if optimizer is string "
                f"({optimizer})."
            )
        if optimizer not in OPTIMIZER_CLS_NAMES:
            raise ValueError(
                f"Optimizer name should be one of [{', '.join(OPTIMIZER_CLS_NAMES)}], you provided "
                f"{optimizer}."
            )
        return OPTIMIZER_CLS_NAMES[optimizer](learning_rate=rate)
    if isinstance(optimizer, type) and issubclass(optimizer, Optimizer):
        if rate is None:
            raise ValueError(
                "Learning rate is None, but should be specified if optimizer is class "
                f"({optimizer})."
            )
        made: Any = optimizer
        return made(learning_rate=rate)
    if isinstance(optimizer, Optimizer):
        return optimizer
    if callable(optimizer):
        opt = optimizer() if rate is None else optimizer(rate)
        if not isinstance(opt, Optimizer):
            raise ValueError(
                f"Unrecognized optimizer: function should return subclass of Optimizer. Got {opt}."
            )
        return opt
    raise ValueError(
        "Unrecognized optimizer: should be string, subclass of Optimizer, instance of subclass of "
        f"Optimizer or function with one argument. Got {optimizer}."
    )


def _clipped(gradients: Any, clip: Any) -> Any:
    if clip is None:
        return gradients
    if isinstance(clip, int | float):
        parts, variables = zip(*gradients, strict=True)
        clipped, _ = tf.clip_by_global_norm(parts, clip)
        return list(zip(clipped, variables, strict=True))
    if callable(clip):
        return clip(gradients)
    raise ValueError(f"Unknown type {type(clip)} for clip_gradients")


def _summarize(gradients: Any, chosen: Sequence[str], clip: Any) -> None:
    for gradient, variable in gradients:
        values = getattr(gradient, "values", gradient)
        if values is None:
            continue
        name = variable.name.replace(":", "_")
        if "gradients" in chosen:
            tf.summary.histogram(f"gradients/{name}", values)
        if "gradient_norm" in chosen:
            tf.summary.scalar(f"gradient_norm/{name}", tf.global_norm([values]))
    if clip is not None and {"global_gradient_norm", "gradient_norm"} & set(chosen):
        norm = tf.global_norm([gradient for gradient, _ in gradients])
        tf.summary.scalar("global_norm/clipped_gradient_norm", norm)


def add_scaled_noise_to_gradients(grads_and_vars: Any, gradient_noise_scale: float) -> Any:
    """Pairs of gradients and variables, with normal noise of that scale added."""
    noisy: list[tuple[Any, Any]] = []
    for gradient, variable in grads_and_vars:
        if gradient is None:
            noisy.append((None, variable))
            continue
        shape = getattr(gradient, "dense_shape", None)
        size = tf.shape(gradient) if shape is None else shape
        noise = tf.truncated_normal(size) * gradient_noise_scale
        noisy.append((tf.convert_to_tensor(gradient) + noise, variable))
    return noisy


def multiply_gradients(grads_and_vars: Any, gradient_multipliers: Mapping[Any, Any]) -> Any:
    """Pairs of gradients and variables, multiplied by factors given by variable or its name.

    Raises:
        ValueError: A factor is given for a variable without a gradient.
    """
    multiplied = []
    for gradient, variable in grads_and_vars:
        key = next((k for k in (variable, variable.name) if k in gradient_multipliers), None)
        if key is not None:
            if gradient is None:
                raise ValueError(
                    "Attempting to multiply gradient by factor for a variable with no gradient: "
                    f"{variable.name}"
                )
            factor = tf.cast(gradient_multipliers[key], gradient.dtype.base_dtype)
            if isinstance(gradient, tf.IndexedSlices):
                gradient = tf.IndexedSlices(
                    gradient.values * factor, gradient.indices, gradient.dense_shape
                )
            else:
                gradient = gradient * factor
        multiplied.append((gradient, variable))
    return multiplied


def adaptive_clipping_fn(
    std_factor: float = 2.0,
    decay: float = 0.95,
    static_max_norm: float | None = None,
    global_step: Any = None,
    report_summary: bool = False,
    epsilon: float = 1e-8,
    name: str | None = None,
) -> Callable[[Any], Any]:
    """A function that clips gradients by what their norms were before.

    Args:
        std_factor: Allow norms up to the mean plus this many standard deviations.
        decay: What stays of the moving averages in a step.
        static_max_norm: A bound besides, where there is one.
        global_step: A step counter; the averages settle faster at the start if it is given.
        report_summary: Write summaries.
        epsilon: Keeps the norm from being divided by 0.
        name: The variable scope.
    """

    def clip(grads_and_vars: Any) -> Any:
        gradients, variables = zip(*grads_and_vars, strict=True)
        norm: Any = tf.global_norm(gradients)
        with tf.variable_scope(name, "AdaptiveMaxNorm", [norm]):
            log = tf.log(norm + epsilon)
            share: Any = decay
            if global_step is not None:
                steps = tf.cast(global_step, tf.float32)
                share = tf.minimum(decay, steps / (steps + 1.0))
            mean = _moving("mean", log, share)
            square = _moving("sq_mean", tf.square(log), share)
            deviation = tf.sqrt(tf.maximum(epsilon, square - tf.square(mean)))
            bound = tf.exp(mean + std_factor * deviation)
            if static_max_norm is not None:
                bound = tf.minimum(bound, static_max_norm)
            if report_summary:
                tf.summary.scalar("global_norm/adaptive_max_gradient_norm", bound)
        factor = tf.where(norm < bound, tf.ones_like(norm), tf.exp(mean) / norm)
        scaled = [None if each is None else _times(each, factor) for each in gradients]
        return list(zip(scaled, variables, strict=True))

    return clip


def _moving(name: str, value: Any, share: Any) -> Any:
    average = tf.get_variable(
        name, shape=(), dtype=tf.float32, initializer=tf.zeros_initializer(), trainable=False
    )
    return tf.assign(average, average * share + value * (1.0 - share))


def _times(gradient: Any, factor: Any) -> Any:
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(gradient.values * factor, gradient.indices, gradient.dense_shape)
    return gradient * factor
