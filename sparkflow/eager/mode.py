"""Turning eager execution on, and asking whether it is."""

from __future__ import annotations

from typing import Any

from sparkflow._api import export
from sparkflow.eager.context import EagerGraph
from sparkflow.graph.default_stack import default_graphs


@export("executing_eagerly")
def executing_eagerly() -> bool:
    """Whether functions compute at once here; False inside `with graph.as_default()`."""
    graph = default_graphs.top() or default_graphs.fallback
    return graph is not None and graph.is_eager


@export("executing_eagerly_outside_functions")
def executing_eagerly_outside_functions() -> bool:
    """Whether functions compute at once where no function is being built around this."""
    return executing_eagerly() or (
        default_graphs.fallback is not None
        and (top := default_graphs.top()) is not None
        and top.root.is_eager
    )


@export("enable_eager_execution")
def enable_eager_execution(
    config: Any = None, device_policy: Any = None, execution_mode: Any = None
) -> None:
    """Makes functions compute immediately, for the rest of the program.

    Args:
        config: Accepted for TensorFlow's sake, as the others.
        device_policy: See `config`.
        execution_mode: See `config`.

    Raises:
        ValueError: A graph was built before.
    """
    if default_graphs.fallback is not None:
        return
    implicit = default_graphs.implicit
    if not default_graphs.is_empty or (implicit is not None and implicit.version):
        raise ValueError("tf.enable_eager_execution must be called at program startup.")
    default_graphs.fallback = EagerGraph()


@export("disable_eager_execution")
def disable_eager_execution() -> None:
    """Goes back to building graphs."""
    default_graphs.fallback = None
