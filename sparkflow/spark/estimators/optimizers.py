"""Optimizers as the estimators' parameters describe them: one table says which takes what."""

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
    # Its weights are made anew from all gradients and the rate of the moment: a rate that falls
    # would take them to 0. It has a penalty of its own.
    "Ftrl": frozenset(),
    "RMSProp": frozenset({"momentum", "weightDecay", "learningRateSchedule"}),
    "SGD": frozenset({"momentum", "nesterov", "weightDecay", "learningRateSchedule"}),
}
"""By name of an optimizer the parameters that it takes beside `learningRate`."""

CONSTANT, COSINE, EXPONENTIAL, PIECEWISE = "constant", "cosine", "exponential", "piecewise"
SCHEDULES: Final = (CONSTANT, COSINE, EXPONENTIAL, PIECEWISE)

ADAMW_DECAY: Final = 0.01
"""What AdamW is called for: it decays weights where nobody says by how much."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """How the learning rate goes in the course of training.

    Attributes:
        kind: One of `SCHEDULES`.
        end: With `cosine` and `exponential`, the share of the rate that is left at the end.
        pieces: With `piecewise`, pairs of a share of training and the factor from there on.
        warmup: The share of training in which the rate rises from next to nothing.
        first: The global step at which this training begins.
        steps: Its updates.
    """

    kind: str = CONSTANT
    end: float = 0.01
    pieces: Sequence[Sequence[float]] = ()
    warmup: float = 0.0
    first: int = 0
    steps: int = 1

    def rate(self, initial: float) -> Any:
        """The rate of a step: a number, or a float32 scalar tensor where it changes."""
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
            # A step on a boundary still belongs to what is before it.
            boundaries = [round(share * self.steps) - 1 for share, _ in self.pieces]
            rates = [initial, *(initial * factor for _, factor in self.pieces)]
            return tf.train.piecewise_constant(step, boundaries, rates)
        return initial


@dataclass(frozen=True, slots=True)
class Stepping:
    """How a loss is made smaller.

    Attributes:
        optimizer: A name of `OPTIMIZERS`.
        learning_rate: At its greatest.
        schedule: How it goes on.
        momentum, nesterov: Of optimizers that have it.
        weight_decay: By which part, times the learning rate, each step makes matrices smaller.
        clip_norm: The greatest norm of all gradients of a step together; 0 for none.
    """

    optimizer: str
    learning_rate: float
    schedule: Schedule = Schedule()
    momentum: float = 0.0
    nesterov: bool = False
    weight_decay: float = 0.0
    clip_norm: float = 0.0

    def minimize(self, loss: Any, global_step: Any, variables: Sequence[Any]) -> Any:
        """The operation of a step.

        Args:
            loss: [] float.
            global_step: A variable to count in; None for none.
            variables: Those that are changed.
        """
        rate = self.schedule.rate(self.learning_rate)
        decaying = matrices(variables) if self.weight_decay else []
        optimizer = self._optimizer(rate, decays=bool(decaying))
        pairs = optimizer.compute_gradients(loss, list(variables))
        if self.clip_norm:
            clipped, _ = tf.clip_by_global_norm([each for each, _ in pairs], self.clip_norm)
            pairs = list(zip(clipped, (each for _, each in pairs), strict=True))
        if decaying:
            return optimizer.apply_gradients(pairs, global_step, decay_var_list=decaying)
        return optimizer.apply_gradients(pairs, global_step)

    def _optimizer(self, rate: Any, *, decays: bool) -> Any:
        kind, arguments = _class_of(self.optimizer, self.momentum, self.nesterov)
        if not decays:
            return kind(learning_rate=rate, **arguments)
        decaying: Any = extend_with_decoupled_weight_decay(kind)
        # Times the rate, as in the paper, so that both end together.
        return decaying(
            rate * self.weight_decay, learning_rate=rate, name=self.optimizer, **arguments
        )


def matrices(variables: Sequence[Any]) -> list[Any]:
    """Those that penalties and decay make smaller: no biases, no scales, no embedding tables."""
    return [
        each
        for each in variables
        if len(each.shape.as_list()) > 1 and not each.op.name.endswith("embedding_weights")
    ]


def require_known(name: str, given: Mapping[str, Any]) -> None:
    """Passes where an optimizer takes all that is given.

    Args:
        name: Of the optimizer.
        given: Parameters of the table that say something, by name.

    Raises:
        ValueError: It does not; the text names those that do.
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
