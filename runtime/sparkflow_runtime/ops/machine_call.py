"""An op as one call of machine code, so that compiled loops can run it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from sparkflow_runtime.dtypes import DType

if TYPE_CHECKING:
    from sparkflow_runtime.resources.container import Resources


class Stream(Protocol):
    """The random stream that a call draws from, so that discarded calls can be undone.

    Attributes:
        lock: Held while drawing.
        state: Its state, which can be set.
    """

    lock: threading.Lock
    state: Any


@dataclass(frozen=True, slots=True)
class CallSite:
    """What is known about the node to call.

    Attributes:
        shapes: Shapes of the inputs.
        constants: Known values of the inputs, else None.
        dtypes: Dtypes of the inputs.
        output_shapes: Shapes of the outputs.
        session: The session's state, see `ops.kernel.KernelContext`.
    """

    shapes: Sequence[tuple[int, ...]]
    constants: Sequence[Any]
    dtypes: Sequence[DType]
    output_shapes: Sequence[tuple[int, ...]]
    session: Resources


@dataclass(frozen=True, slots=True)
class MachineCall:
    """A call.

    Attributes:
        kernel: The bound kernel, see `codegen.machine.native.Body.bind`: a function of the inputs
            that it reads and the outputs, all in C order, and an int32 if it `can_fail`.
        inputs: Numbers of the inputs that it reads.
        can_fail: Whether a non-zero last array reports that it rejected its inputs: the op's own
            kernel then finds out why.
        stream: The random stream it draws from; None for none.
        adding: A variant of the kernel that adds its result to the only output; None if there is
            none. It leaves elements alone to which zero is added.
    """

    kernel: Callable[..., bool]
    inputs: tuple[int, ...]
    can_fail: bool = False
    stream: Stream | None = None
    adding: Callable[..., bool] | None = None
