"""The straight-line function of a plan, and its memory.

Several steps may run at once: each takes a frame, which is the function with its own block of
memory, and returns it. Only generated register names enter the source text.
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
    """Values created once per frame: views of the block, kernels with their own memory.

    Attributes:
        registers: The registers of the outputs.
        kernel: Computes them from the arguments.
        arguments: The registers of the arguments.
        makes_list: Whether the kernel returns several outputs, or a list of one.
    """

    registers: tuple[str, ...]
    kernel: Callable[..., Any]
    arguments: tuple[str, ...]
    makes_list: bool


@dataclass(frozen=True, slots=True)
class Called:
    """A description of a plan's kernel.

    Attributes:
        node: The node; for several nodes, one that represents them.
        filled: The number of last arguments that are arrays to fill.
    """

    node: Node
    filled: int = 0

    def giving_outputs(self, kernel: Callable[..., Any]) -> Callable[..., Any]:
        """Returns the kernel, returning its outputs even if it fills arrays."""
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
        code: The code of the function `(step, *args)`.
        bound: Its globals: kernels, constants.
        slots, views: The additional globals of each frame.
        block_bytes: The size of a frame's memory.
        lines: The node at each line.
        args, results: The step's index of each parameter and returned value, in order.
        xp: The module of the arrays.
        alone: The types of the nodes that run singly in every step, or fail in it.
        calls: The meaning of the registers of kernels.
        variables: The nodes that return the same variable in every step, by its register.
        is_quiet: Whether nothing in it makes numpy warn.
        late: Nodes that fail if their number, which follows the results, is not 0.
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
        """Runs one step in a frame that no other step uses."""
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
        """Runs one step with a wrapper, such as a clock, around each kernel.

        Args:
            step: The running step.
            args: As for a call.
            observe: Maps a node and a kernel that returns the outputs to the wrapped kernel.
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
        """Returns the node at each line of the function."""
        return {self.code: self.lines}

    def new_frame(self) -> FunctionType:
        """Returns the function with its own memory."""
        block = self._new_block()
        # cupy imports modules with its caller's builtins.
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
            return self.xp.empty(self.block_bytes, np.uint8)  # GPU memory is aligned
        return aligned_memory(self.block_bytes)
