"""The seam through which a trainer changes how replicas' gradients are combined.

A strategy that is in scope while the graph is built is asked by `Optimizer.apply_gradients` instead
of the optimizer's own code. Users need not wrap their optimizers.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol

from sparkflow.graph.default_stack import DefaultStack

if TYPE_CHECKING:
    from sparkflow.graph.operation import Operation
    from sparkflow.train.optimizer import Optimizer


class Strategy(Protocol):
    """How the gradients of several replicas reach the variables."""

    def apply_gradients(
        self,
        optimizer: Optimizer,
        grads_and_vars: Sequence[tuple[Any, Any]],
        global_step: Any,
        name: str | None,
    ) -> Operation:
        """The operation of one training step.

        The optimizer's plain update is `optimizer.apply_dense_and_sparse`, with the same arguments.
        """


_strategies: DefaultStack[Strategy] = DefaultStack("replication strategy")


def scope(strategy: Strategy) -> AbstractContextManager[Strategy]:
    """Makes optimizers used inside a `with` block follow `strategy`. Per thread."""
    return _strategies.entered(strategy)


def current() -> Strategy | None:
    """The strategy in scope, None when updates are applied plainly."""
    return _strategies.top()
