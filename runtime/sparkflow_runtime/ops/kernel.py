"""The environment of kernels: array module, resources, running step, numpy's error state."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from sparkflow_runtime.errors import NotFoundError

if TYPE_CHECKING:
    from sparkflow_runtime.device.gpu import Gpu
    from sparkflow_runtime.ops.traits import NodeView
    from sparkflow_runtime.resources.collectives.collective_exchange import Meeting
    from sparkflow_runtime.resources.container import Resources


class StepContext(Protocol):
    """The running step, as kernels with `takes_step` see it."""

    @property
    def step_id(self) -> int:
        """The step's number, unique per master."""

    @property
    def iteration(self) -> int:
        """The iteration of the step loop, from 0."""

    @property
    def number(self) -> int:
        """The training step's number: the loop's start plus the iteration."""

    def check_cancelled(self) -> None:
        """Raises the error that ended the step, if there is one."""

    def on_cancel(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Calls `callback` once if the step is cancelled; the returned function unregisters it."""

    def stop(self) -> None:
        """Ends all waits of the partition, because a part of it has failed."""

    def send(
        self, key: str, destination: str, values: tuple[Any, ...], lent: Sequence[int] = ()
    ) -> None:
        """Sends host arrays under a key of this step and iteration to a device.

        Args:
            key: The key.
            destination: The receiving device.
            values: The arrays, which may change after this returns.
            lent: The numbers of those that may be read in place, see `passes.lend`.
        """

    def receive(self, key: str, source: str) -> tuple[Any, ...]:
        """Waits for the tensors sent under `key` by the device `source`."""

    def transport(self, key: str, source: str) -> str:
        """How tensors arrive: "memory" within a task, else see `transport.channel.address`."""

    def meeting(self) -> Meeting:
        """The meeting point of the ranks of a collective that are all in this step."""

    def join(self, group: str, rank: int, devices: tuple[str, ...], timeout_s: float) -> Meeting:
        """The meeting point of ranks in separate sessions; waits until all have arrived."""


class BoundFunction(Protocol):
    """A compiled function of the graph's library, bound to a device."""

    @property
    def needs_step(self) -> bool:
        """Whether any of its kernels needs the running step."""

    @property
    def loops(self) -> bool:
        """Whether it may run forever, see `Op.is_loop`."""

    @property
    def taped(self) -> tuple[str, ...] | None:
        """The recorded body tensors at the end of the results, see `ir.function.Function`."""

    def __call__(self, step: StepContext | None, *args: Any) -> tuple[Any, ...]:
        """Runs it on arrays (or variables) and returns the results."""


class FunctionTable(Protocol):
    """The functions that nodes of a partition may call."""

    def get(self, name: str) -> BoundFunction:
        """The function of that name, compiled on first use.

        Raises:
            NotFoundError: It does not exist.
        """

    def taped(self, name: str) -> tuple[str, ...]:
        """What the function of that name records for gradients."""


@dataclass(frozen=True, slots=True)
class KernelContext:
    """The context in which a kernel is bound.

    Attributes:
        xp: numpy or cupy.
        device_type: `CPU` or `GPU`.
        device_name: The full device name, for error messages.
        resources: State of this task that outlives a step: variables, queues, batch sources.
        session: State of one session that outlives a step: random generators by node name.
        functions: The graph's functions; None if nodes cannot call any.
        gpu: State shared by partitions on this GPU; None on a CPU.
        observe: Wraps each node's kernel, e.g. to time it; None for nothing.
    """

    xp: Any
    device_type: str
    device_name: str
    resources: Resources
    session: Resources
    functions: FunctionTable | None = None
    gpu: Gpu | None = None
    observe: Callable[[NodeView, Callable[..., Any]], Callable[..., Any]] | None = None

    def function(self, name: str) -> BoundFunction:
        """The function of that name.

        Raises:
            NotFoundError: It does not exist.
        """
        if self.functions is None:
            raise NotFoundError(
                message=f"Functions cannot be called in this context (requested {name!r})"
            )
        return self.functions.get(name)


_MACHINE: Final = "sparkflow_runtime.codegen.machine.denormals"


def _silence() -> tuple[Callable[[], Any], Callable[[Any], Any]]:
    """Functions that silence numpy's warnings, and restore the state that the first returned.

    `np.errstate` parses its arguments each time, which takes most of a microsecond.
    """
    try:
        from numpy._core import umath

        variable = umath._extobj_contextvar
        return partial(variable.set, umath._make_extobj(all="ignore")), variable.reset
    except (ImportError, AttributeError):  # numpy 1, or a version that keeps it elsewhere
        return partial(np.seterr, all="ignore"), lambda before: np.seterr(**before)


_silent, _as_before = _silence()


class StepArithmetic:
    """A context in which numpy computes like kernels: without warnings, flushing denormals.

    Until a process has loaded machine code, denormals are kept: loading takes longer than the first
    step of a small graph.
    """

    __slots__ = ("_before", "_keep")

    def __enter__(self) -> None:
        self._before = _silent()
        machine = sys.modules.get(_MACHINE)
        if machine is None:
            self._keep = None
        else:
            flush, keep = machine.switches()
            self._keep = None if flush() else keep

    def __exit__(self, *_: object) -> None:
        if self._keep is not None:
            self._keep()
        _as_before(self._before)
