"""Fused kernels on the GPU: from CUDA C to a function of cupy arrays.

The sources come from `codegen.cuda`, a higher layer; the protocols here say what is needed of it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

import numpy as np

OPTIONS: Final = ("--std=c++17",)
"""NVRTC's options. No fast math, which is inaccurate."""
REMEMBERED: Final = 64
"""Maximum number of sizes for which a kernel caches what it has bound."""


class Launch(Protocol):
    """One launch, see `codegen.cuda.Launch`."""

    @property
    def name(self) -> str:
        """The function."""

    @property
    def grid(self) -> tuple[int, int]:
        """Blocks along x and y."""

    @property
    def block(self) -> tuple[int, int]:
        """Threads along x and y."""

    @property
    def arrays(self) -> tuple[int, ...]:
        """Its array arguments."""

    @property
    def numbers(self) -> tuple[int, ...]:
        """Its integer arguments after the arrays."""


class LaunchPlan(Protocol):
    """The launches of a call, see `codegen.cuda.LaunchPlan`."""

    @property
    def wide(self) -> bool:
        """The argument of `Program.source`."""

    @property
    def launches(self) -> Sequence[Launch]:
        """The launches, in order."""

    @property
    def left_bytes(self) -> tuple[int, ...]:
        """Sizes of the arrays between launches."""

    @property
    def counts(self) -> tuple[int, ...]:
        """Elements of each array of the call."""


class Program(Protocol):
    """A kernel as CUDA, see `codegen.cuda.CudaProgram`."""

    def source(self, wide: bool = False) -> str:
        """CUDA C."""

    def plan(self, sizes: Sequence[int]) -> LaunchPlan:
        """Returns the launches for these sizes."""


class GpuKernel:
    """A fused kernel for the GPU that is current when it is called.

    `_lock` guards `_modules` and changes of `_bound`. Code is compiled when first bound; cupy
    caches it on disk.

    Args:
        cupy: The module.
        program: Its program.
    """

    def __init__(self, cupy: Any, program: Program) -> None:
        self._cupy = cupy
        self._program = program
        self._lock = threading.Lock()
        self._modules: dict[bool, Any] = {}
        self._bound: dict[tuple[int, ...], Callable[..., bool]] = {}

    def bound(self, sizes: tuple[int, ...]) -> Callable[..., bool]:
        """Returns the result of `bind`, cached for recent sizes.

        Args:
            sizes: Of the iteration space.
        """
        run = self._bound.get(sizes)
        if run is None:
            run = self.bind(sizes)
            with self._lock:
                if len(self._bound) >= REMEMBERED:
                    self._bound.clear()
                self._bound[sizes] = run
        return run

    def bind(self, sizes: Sequence[int]) -> Callable[..., bool]:
        """Returns a function of the input, then the output arrays, as `loops.CompiledKernel.bind`.

        The function launches on the current stream and returns True; or does nothing and returns
        False if an array is not cupy's, not contiguous, or has the wrong number of elements. The
        caller guarantees the dtypes.

        Args:
            sizes: Of the iteration space.
        """
        plan = self._program.plan(sizes)
        module = self._module(plan.wide)
        launches = [
            (
                module.get_function(launch.name),
                launch.grid,
                launch.block,
                launch.arrays,
                tuple(np.int64(number) for number in launch.numbers),
            )
            for launch in plan.launches
        ]
        array_type, empty = self._cupy.ndarray, self._cupy.empty
        counts, left_bytes = plan.counts, plan.left_bytes

        def run(*arrays: Any) -> bool:
            if len(arrays) != len(counts):
                return False
            for array, count in zip(arrays, counts, strict=True):
                if type(array) is not array_type or array.size != count:
                    return False
                if not array.flags.c_contiguous:
                    return False
            if left_bytes:
                arrays = (*arrays, *[empty(size, np.uint8) for size in left_bytes])
            for function, grid, block, taken, numbers in launches:
                function(grid, block, (*[arrays[number] for number in taken], *numbers))
            return True

        return run

    def _module(self, wide: bool) -> Any:
        with self._lock:
            module = self._modules.get(wide)
            if module is None:
                code = self._program.source(wide)
                module = self._cupy.RawModule(code=code, options=OPTIONS)
                module.compile()  # errors occur now, not in a step
                self._modules[wide] = module
            return module
