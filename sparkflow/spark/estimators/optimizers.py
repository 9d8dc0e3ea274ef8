"""Optimizers as the estimators' parameters describe them, with a table of what each supports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import sparkflow as tf
from sparkflow.train.optimizers.weight_decay import extend_with_decoupled_weight_decay

OPTIMIZERS: Final[Mapping[str, frozenset[str]]] = {
    "Adagrad": frozenset({"weightDecay", "learningRateSchedule"}),
    "Adam": frozenset({"weightDecay", "learningRateSchedule"}),
    "AdamW": frozenset({"weightDecay", "learningRateSchedule"}),
    # Its weights are recomputed from all gradients and the current rate: a falling rate would drive
    # them to 0. It has its own penalty.
    "Ftrl": frozenset(),
    "RMSProp": frozenset({"momentum", "weightDecay", "learningRateSchedule"}),
    "SGD": frozenset({"momentum", "nesterov", "weightDecay", "learningRateSchedule"}),
}
"""By optimizer, the parameters that it supports in addition to `learningRate`."""

CONSTANT, COSINE, EXPONENTIAL, PIECEWISE = "constant", "cosine", "exponential", "piecewise"
SCHEDULES: Final = (CONSTANT, COSINE, EXPONENTIAL, PIECEWISE)

ADAMW_DECAY: Final = 0.01
"""AdamW's default weight decay."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """The learning rate over the course of training.

    Attributes:
        kind: One of `SCHEDULES`.
        end: With `cosine` and `exponential`, the final rate as a fraction of the initial one.
        pieces: With `piecewise`, pairs of a fraction of training and the factor from there on.
        warmup: The fraction of training during which the rate rises from almost 0.
        first: The global step at which this training begins.
        steps: The number of its updates.
    """

    kind: str = CONSTANT
    end: float = 0.01
    pieces: Sequence[Sequence[float]] = ()
    warmup: float = 0.0
    first: int = 0
    steps: int = 1

    def rate(self, initial: float) -> Any:
        """Returns the rate of a step: a number, or a float32 scalar tensor if it changes."""
        if self.kind == CONSTANT and not self.warmup:
            return initial
        step = tf.cast(tf.train.get_or_create_global_step(), tf.int64) - self.first
        rate = self._decayed(initial, step)
        if self.warmup:
            risen = tf.cast(step + 1, tf.float32) / (self.warmup * self.steps)
            rate = rate * tf.minimum(risen, 1.0)
        return rate

    def _decayed(self, initial: float, step: Any) -> Any:
        if self.kind == COSINE:
            return tf.train.cosine_decay(initial, step, self.steps, alpha=self.end)
        if self.kind == EXPONENTIAL:
            return tf.train.exponential_decay(initial, step, self.steps, self.end)
        if self.kind == PIECEWISE:
            # A step on a boundary still belongs to the previous piece.
            boundaries = [round(share * self.steps) - 1 for share, _ in self.pieces]
            rates = [initial, *(initial * factor for _, factor in self.pieces)]
            return tf.train.piecewise_constant(step, boundaries, rates)
        return initial


@dataclass(frozen=True, slots=True)
class Stepping:
    """How a loss is minimized.

    Attributes:
        optimizer: A name of `OPTIMIZERS`.
        learning_rate: The peak learning rate.
        schedule: How the rate changes.
        momentum, nesterov: For optimizers that have momentum.
        weight_decay: The fraction, times the learning rate, by which each step shrinks matrices.
        clip_norm: The maximum global norm of a step's gradients; 0 for no limit.
    """

    optimizer: str
    learning_rate: float
    schedule: Schedule = Schedule()
    momentum: float = 0.0
    nesterov: bool = False
    weight_decay: float = 0.0
    clip_norm: float = 0.0

    def minimize(self, loss: Any, global_step: Any, variables: Sequence[Any]) -> Any:
        """Returns the training op.

        Args:
            loss: [] float.
            global_step: The variable that counts steps; None for none.
            variables: The variables to train.
        """
        return minimize_parts(loss, global_step, [(self, variables)], self.clip_norm)

    def optimizer_of(self, decaying: Sequence[Any]) -> Any:
        """Returns the optimizer, in the default graph.

        Args:
            decaying: The variables that decay; if there are any, `apply_gradients` needs them.
        """
        return self._optimizer(self.schedule.rate(self.learning_rate), decays=bool(decaying))

    def _optimizer(self, rate: Any, *, decays: bool) -> Any:
        kind, arguments = _class_of(self.optimizer, self.momentum, self.nesterov)
        if not decays:
            return kind(learning_rate=rate, **arguments)
        decaying: Any = extend_with_decoupled_weight_decay(kind)
        # Times the rate, as in the paper, so that both end together.
        return decaying(
            rate * self.weight_decay, learning_rate=rate, name=self.optimizer, **arguments
        )


def minimize_parts(
    loss: Any,
    global_step: Any,
    parts: Sequence[tuple[Stepping, Sequence[Any]]],
    clip_norm: float = 0.0,
) -> Any:
    """Returns the training op of variables with several optimizers.

    Args:
        loss: [] float.
        global_step: The variable that counts steps; None for none.
        parts: Pairs of how to minimize and the variables to train in this way.
        clip_norm: The maximum global norm of the gradients of all parts; 0 for no limit.
    """
    given = []
    for stepping, variables in parts:
        decaying = matrices(variables) if stepping.weight_decay else []
        optimizer = stepping.optimizer_of(decaying)
        given.append((optimizer, decaying, optimizer.compute_gradients(loss, list(variables))))
    gradients = [each for _, _, pairs in given for each, _ in pairs]
    if clip_norm:
        gradients, _ = tf.clip_by_global_norm(gradients, clip_norm)
    rest, steps = iter(gradients), []
    for index, (optimizer, decaying, pairs) in enumerate(given):
        clipped = [(next(rest), variable) for _, variable in pairs]
        counted = global_step if index == 0 else None
        more = {"decay_var_list": decaying} if decaying else {}
        steps.append(optimizer.apply_gradients(clipped, counted, **more))
    return steps[0] if len(steps) == 1 else tf.group(*steps)


def matrices(variables: Sequence[Any]) -> list[Any]:
    """The variables subject to penalties and decay: no biases, scales or embedding tables."""
    return [
        each
        for each in variables
        if len(each.shape.as_list()) > 1 and not each.op.name.endswith("embedding_weights")
    ]


def require_known(name: str, given: Mapping[str, Any]) -> None:
    """Checks that an optimizer supports all given parameters.

    Args:
        name: The name of the optimizer.
        given: The parameters of the table that are set, by name.

    Raises:
        ValueError: It does not; the message names the optimizers that do.
    """
    for param, value in given.items():
        if param not in OPTIMIZERS[name]:
            takers = [each for each, taken in OPTIMIZERS.items() if param in taken]
            raise ValueError(
                f"{param}={value!r} has no effect with optimizer={name!r}; "
                f"{', '.join(takers)} {'take' if len(takers) > 1 else 'takes'} it"
            )
    if given.get("nesterov") and not given.get("momentum"):
        raise ValueError("nesterov=True is a kind of momentum; set momentum, for instance to 0.9")


def _class_of(name: str, momentum: float, nesterov: bool) -> tuple[Any, dict[str, Any]]:
    if name == "SGD" and momentum:
        return tf.train.MomentumOptimizer, {"momentum": momentum, "use_nesterov": nesterov}
    if name == "RMSProp" and momentum:
        return tf.train.RMSPropOptimizer, {"momentum": momentum}
    kinds = {
        "Adagrad": tf.train.AdagradOptimizer,
        "Adam": tf.train.AdamOptimizer,
        "AdamW": tf.train.AdamOptimizer,
        "Ftrl": tf.train.FtrlOptimizer,
        "RMSProp": tf.train.RMSPropOptimizer,
        "SGD": tf.train.GradientDescentOptimizer,
    }
    return kinds[name], {}
