"""What an op does as one call of machine code, said so that a loop in machine code can do it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from sparkflow_runtime.dtypes import DType

if TYPE_CHECKING:
    from sparkflow_runtime.resources.container import Resources


class Stream(Protocol):
    """What a call draws from, so that calls that did not count can be taken back.

    Attributes:
        lock: Held while it is drawn from.
        state: Where it is; may be set.
    """

    lock: threading.Lock
    state: Any


@dataclass(frozen=True, slots=True)
class CallSite:
    """What is known of the node that is to be called.

    Attributes:
        shapes: Of the inputs.
        constants: Values of the inputs that are known, else None.
        dtypes: Of the inputs.
        output_shapes: Of the outputs.
        session: What outlives a step of the session, see `ops.kernel.KernelContext`.
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
        kernel: Bound, see `codegen.machine.native.Body.bind`. It takes the inputs that it reads,
            the outputs, all in C order, and an int32 if it `can_fail`.
        inputs: Numbers of the inputs that it reads.
        can_fail: Whether it says by its last array, with other than 0, that it refuses what it
            was given: the op's own kernel says why.
        stream: What it draws from; None for nothing.
        adding: The same kernel, but that the only output grows by what the call gives; None for no
            such kernel. It leaves the elements alone to which zero is added.
    """

    kernel: Callable[..., bool]
    inputs: tuple[int, ...]
    can_fail: bool = False
    stream: Stream | None = None
    adding: Callable[..., bool] | None = None
