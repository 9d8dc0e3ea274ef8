"""Detection of NaNs and infinities in training, and the errors for them."""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from sparkflow.spark.control.callbacks import Update
from sparkflow.spark.data.schema.row_schema import all_finite
from sparkflow.spark.errors import NonFiniteError
from sparkflow_runtime import dtypes

_log = logging.getLogger(__name__)

_SHOWN: Final = 5
_GROWTH: Final = 10.0
"""A loss that has grown by this factor within a few steps counts as diverging."""

REMEDIES: Final = (
    "Remedies: a lower learning rate; clip the gradients (tf.clip_by_global_norm); standardize the "
    "features; where the loss has a logarithm, a division or a square root, keep its argument away "
    "from 0 (tf.nn.*_with_logits losses do that by themselves, tf.clip_by_value or a small epsilon "
    "elsewhere). tf.check_numerics(tensor, 'name') in model_fn stops at the operation that makes "
    "the first one. allowNonFinite=True lets training continue nevertheless"
)
"""The advice at the end of every such error."""


def non_finite(values: Mapping[str, npt.NDArray[Any]], trainable: Collection[str]) -> list[str]:
    """Describes the variables that hold NaNs or infinities, each with their number.

    Infinities are checked in trainable variables only: others may contain them on purpose, such as
    a mask, or the smallest value seen so far.

    Args:
        values: Variables by name.
        trainable: The names of those that an optimizer changes.
    """
    found = []
    for name, value in values.items():
        if not (dtypes.as_dtype(value.dtype).is_floating or value.dtype.kind == "c"):
            continue
        if all_finite(value.ravel()):
            continue
        nans = int(np.isnan(value).sum())
        infinities = int(value.size - np.isfinite(value).sum()) - nans
        if nans or (name in trainable and infinities):
            counts = [f"{nans} NaN"] * bool(nans) + [f"{infinities} infinite"] * bool(infinities)
            found.append(f"{name} ({' and '.join(counts)} of {value.size} elements)")
    return found


class FiniteWatch:
    """Stops training when loss or variables become NaN or infinite. For the thread of `fit`.

    It checks only values that are on the driver anyway: the losses that workers report, the values
    of checkpoints and of the model. So it does not slow down steps, and is late by at most one
    report.

    Args:
        loss: The name of the loss, for error texts.
        trainable: The names of the variables that an optimizer changes.
        allowed: Whether to warn, once, instead of stopping.
        values: Returns the current values of the model's variables, by name.
        last_checkpoint: Returns the path of the last complete checkpoint, "" if there is none.
    """

    def __init__(
        self,
        loss: str,
        trainable: Collection[str],
        *,
        allowed: bool,
        values: Callable[[], Mapping[str, npt.NDArray[Any]]],
        last_checkpoint: Callable[[], str],
    ) -> None:
        self._loss = loss
        self._trainable = frozenset(trainable)
        self._allowed = allowed
        self._values = values
        self._last_checkpoint = last_checkpoint
        self._recent: deque[float] = deque(maxlen=_SHOWN)
        self._warned: set[str] = set()

    def saw_losses(self, update: Update) -> None:
        """Checks the losses of some steps.

        Raises:
            NonFiniteError: A loss is NaN or infinite.
        """
        bad = ~np.isfinite(update.losses) & (update.rows > 0)
        if not bad.any():
            self._recent.extend(update.losses[update.rows > 0][-_SHOWN:].tolist())
            return
        place = int(np.argmax(bad))
        before = [*self._recent, *update.losses[:place][update.rows[:place] > 0].tolist()]
        whose = f" of worker {update.worker}" if update.worker >= 0 else ""
        step = update.first_step + place + 1
        text = f"The loss ({self._loss}) is {update.losses[place]:g} in step {step}{whose}; "
        before = before[-_SHOWN:]
        text += (
            f"in the steps before it was {', '.join(f'{each:.4g}' for each in before)}. "
            if before
            else "it is the first that is known. "
        )
        if len(before) > 1 and before[-1] > _GROWTH * abs(before[0]):
            text += "It grew until it was no number: the steps are too large. "
        self._stop("loss", text)

    def saw_metrics(self, metrics: Mapping[str, float], step: int) -> None:
        """Checks the metrics of the validation rows.

        A metric may legitimately be NaN, such as the AUC of rows of one class, and the loss
        infinite, of a row that the model considers impossible: that is a warning, unless variables
        are not finite either.

        Raises:
            NonFiniteError: A variable holds NaNs or infinities.
        """
        bad = [name for name, value in metrics.items() if not math.isfinite(value)]
        for name in bad:
            if name not in self._warned:
                self._warned.add(name)
                _log.warning(
                    "%s of the validation rows is %g after step %d; such a value is never the best",
                    name,
                    metrics[name],
                    step,
                )
        if bad and not self._allowed:
            self.saw_values(self._values(), step)

    def saw_values(self, values: Mapping[str, npt.NDArray[Any]], step: int) -> bool:
        """Checks variables, and returns whether they are finite.

        Raises:
            NonFiniteError: A variable holds NaNs or infinities, and that is not allowed.
        """
        found = non_finite(values, self._trainable)
        if found:
            self._stop(
                "variables",
                f"After step {step} variables are not finite, though all losses were: ",
                found,
            )
        return not found

    def _stop(self, what: str, text: str, variables: Sequence[str] | None = None) -> None:
        if self._allowed:
            if what not in self._warned:
                self._warned.add(what)
                _log.warning(
                    "allowNonFinite=True, training continues: %s", text + _listed(variables)
                )
            return
        if variables is None:
            variables = self._look()
            text += (
                f"Variables that are not finite by now: {_listed(variables)}. "
                if variables
                else "All variables are finite still. "
            )
        else:
            text += f"{_listed(variables)}. "
        checkpoint = self._last_checkpoint()
        kept = (
            f"The last checkpoint, {checkpoint}, has finite values (resume='always' continues "
            "from it with other parameters)"
            if checkpoint
            else "There is no checkpoint (checkpointDir)"
        )
        raise NonFiniteError(f"{text}{kept}. {REMEDIES}")

    def _look(self) -> list[str]:
        try:
            return non_finite(self._values(), self._trainable)
        except Exception as error:  # the loss says more than an error here
            _log.info("the variables could not be checked: %r", error)
            return []


def _listed(variables: Sequence[str] | None) -> str:
    variables = variables or ()
    more = f" and {len(variables) - _SHOWN} more" if len(variables) > _SHOWN else ""
    return f"{', '.join(variables[:_SHOWN])}{more}"
