"""The straight-line function of a plan, and the memory it runs in.

Several steps may run at once: each takes a frame, which is the function with a block of memory of
its own, and gives it back. Only generated register names enter the source text.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import CodeType, FunctionType
from typing import Any, Final

import numpy as np

from sparkflow_runtime.device.host_memory import aligned_memory
from sparkflow_runtime.ir.node import Node
from sparkflow_runtime.ops import registry

FILE: Final = "<sparkflow partition>"


@dataclass(frozen=True, slots=True)
class SlotArray:
    """A value in the block of memory."""

    register: str
    offset: int
    shape: tuple[int, ...]
    dtype: Any

    def view(self, block: np.ndarray[Any, Any]) -> Any:
        """The array in a block."""
        size = int(np.prod(self.shape, dtype=np.int64)) * np.dtype(self.dtype).itemsize
        return block[self.offset : self.offset + size].view(self.dtype).reshape(self.shape)


@dataclass(frozen=True, slots=True)
class StaticView:
    """Values made once per frame: views of what is in the block, kernels with memory of their own.

    Attributes:
        registers: Of the outputs.
        kernel: Makes them from the arguments.
        arguments: Registers.
        makes_list: Whether the kernel gives several outputs, or a list of one.
    """

    registers: tuple[str, ...]
    kernel: Callable[..., Any]
    arguments: tuple[str, ...]
    makes_list: bool


@dataclass(frozen=True, slots=True)
class Called:
    """What a kernel of the plan does.

    Attributes:
        node: The node; for several nodes, one that stands for them.
        filled: How many of the last arguments are arrays that it fills.
    """

    node: Node
    filled: int = 0

    def giving_outputs(self, kernel: Callable[..., Any]) -> Callable[..., Any]:
        """The kernel, returning its outputs also where it fills arrays."""
        if not self.filled:
            return kernel

        def run(*arguments: Any) -> Any:
            refused = kernel(*arguments) is False
            return False if refused else arguments[-self.filled :]

        return run


@dataclass(frozen=True, slots=True)
class Planned:
    """A compiled plan.

    Attributes:
        code: Of the function `(step, *args)`.
        bound: Its globals: kernels, constants.
        slots, views: What each frame adds to them.
        block_bytes: The size of a frame's memory.
        lines: The node at each line.
        args, results: The step's index of each parameter and returned value, in order.
        xp: The module of the arrays.
        alone: The types of the nodes that run by themselves in every step, or fail in it.
        calls: What the registers of kernels stand for.
        variables: The nodes that give the same variable in every step, by its register.
        is_quiet: Whether nothing in it makes numpy warn.
        late: Nodes that fail where the number is not 0 that comes for them after the results.
    """

    code: CodeType
    bound: Mapping[str, Any]
    slots: Sequence[SlotArray]
    views: Sequence[StaticView]
    block_bytes: int
    lines: tuple[Node | None, ...]
    args: tuple[int, ...]
    results: tuple[int, ...]
    xp: Any = np
    alone: frozenset[str] = frozenset()
    late: tuple[Node, ...] = ()
    calls: Mapping[str, Called] = field(default_factory=dict)
    variables: Mapping[str, Node] = field(default_factory=dict)
    is_quiet: bool = field(init=False)
    _frames: list[Callable[..., tuple[Any, ...]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        is_quiet = all(registry.lookup(op).quiet for op in self.alone)
        object.__setattr__(self, "is_quiet", is_quiet)

    def __call__(self, step: Any, *args: Any) -> tuple[Any, ...]:
        """Runs one step in a frame that no other step is in."""
        try:
            frame = self._frames.pop()
        except IndexError:
            frame = self.new_frame()
        try:
            return frame(step, *args)
        finally:
            self._frames.append(frame)

    def run_observed(
        self,
        step: Any,
        args: Sequence[Any],
        observe: Callable[[Node, Callable[..., Any]], Callable[..., Any]],
    ) -> tuple[Any, ...]:
        """Runs one step with something put around each kernel, such as a clock.

        Args:
            step: The running step.
            args: As for a call.
            observe: Is given a node and a kernel that returns the outputs, and returns what runs.
        """
        frame = self.new_frame()
        names = frame.__globals__
        for register, called in self.calls.items():
            names[register] = observe(called.node, called.giving_outputs(names[register]))
        for register, node in self.variables.items():
            observe(node, partial(names.__getitem__, register))()  # no kernel is called for them
        results: tuple[Any, ...] = frame(step, *args)
        return results

    @property
    def lines_of(self) -> Mapping[CodeType, Sequence[Node | None]]:
        """The node at each line of the function."""
        return {self.code: self.lines}

    def new_frame(self) -> FunctionType:
        """The function, with memory of its own."""
        block = self._new_block()
        # cupy imports modules with what is built in for its caller.
        names = {"__builtins__": builtins.__dict__, **self.bound}
        for slot in self.slots:
            names[slot.register] = slot.view(block)
        for view in self.views:
            made = view.kernel(*(names[each] for each in view.arguments))
            several = made if view.makes_list and isinstance(made, tuple | list) else (made,)
            names.update(zip(view.registers, several, strict=True))
        return FunctionType(self.code, names)

    def _new_block(self) -> Any:
        if self.xp is not np:
            return self.xp.empty(self.block_bytes, np.uint8)  # a GPU's memory is aligned
        return aligned_memory(self.block_bytes)
