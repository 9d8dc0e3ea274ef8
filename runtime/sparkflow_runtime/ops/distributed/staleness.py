"""The clock of bounded staleness as ops; the rules are those of `resources.staleness`.

These ops are sparkflow's own. Replicas whose graphs name the same clock on a task share it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.inference import scalars
from sparkflow_runtime.ops.kernel import KernelContext, StepContext
from sparkflow_runtime.ops.op import NodeView, Op, not_differentiable
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import float_attr, int_attr, string_attr
from sparkflow_runtime.resources.replicas import staleness


class _ClockOp(Op):
    stateful = True
    kernels: ClassVar = {"CPU": None}
    gradient = not_differentiable


@register
class StalenessClock(_ClockOp):
    """The clock of a task."""

    is_ours = True
    outputs = "handle: resource"
    attrs = {
        "num_replicas": int_attr(1, minimum=1),
        "staleness": int_attr(0, minimum=0),
        "timeout_s": float_attr(1800.0),
        "container": string_attr(""),
        "shared_name": string_attr(""),
    }
    infer = scalars

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """Finds or creates the clock; the kernel returns it.

        Raises:
            InvalidArgumentError: It exists with a different bound.
        """
        attrs = node.attrs
        name = attrs["shared_name"] or node.name

        def make() -> staleness.StalenessClock:
            clocks = staleness.Clocks(attrs["num_replicas"], attrs["staleness"])
            return staleness.StalenessClock(name, clocks, attrs["timeout_s"])

        found = context.resources.get_or_create(
            attrs["container"], name, staleness.StalenessClock, make
        )
        if found.staleness != attrs["staleness"]:
            raise InvalidArgumentError(
                message=f"The clock {name!r} on {context.device_name} has a staleness of "
                f"{found.staleness}, but {attrs['staleness']} was asked for; all replicas must use "
                "the same"
            )
        return lambda: found


class _ByReplica(_ClockOp):
    inputs = "handle: resource"
    attrs = {"replica": int_attr(0, minimum=0)}


@register
class StalenessClockAdvance(_ByReplica):
    """Counts a step of this replica and waits until it may start the next one."""

    is_ours = True
    takes_step = True

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """The kernel, see `resources.staleness.StalenessClock.advance`."""
        replica = node.attrs["replica"]

        def run(running: StepContext, handle: staleness.StalenessClock) -> None:
            handle.advance(replica, running)

        return run


@register
class StalenessClockJoin(_ByReplica):
    """Adds a new or restarted replica."""

    is_ours = True

    def compute(self, xp: Any, handle: staleness.StalenessClock, *, replica: int) -> None:
        """See `resources.staleness.StalenessClock.join`."""
        handle.join(replica)


@register
class StalenessClockLeave(_ByReplica):
    """Removes a replica that runs no more steps."""

    is_ours = True

    def compute(self, xp: Any, handle: staleness.StalenessClock, *, replica: int) -> None:
        """See `resources.staleness.StalenessClock.leave`."""
        handle.leave(replica)
