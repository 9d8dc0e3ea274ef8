"""A stand-in for cupy on numpy, to test decisions about GPUs without one.

Kernels and copies from the host wait in the queue of their stream until somebody waits for it, so
work in a wrong order, or a buffer written too early, gives wrong results. Numpy's own functions on
its arrays run immediately: wait for the stream first. Only what `sparkflow_runtime.device` uses is
implemented.
"""

from __future__ import annotations

import contextlib
import sys
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from support.cuda_emulator import CudaEmulator
from support.fake_cublas import FakeCublas, FakeNvmath
from support.fake_gpu_array import FakeArray

Work = Callable[[], None]
Launcher = Callable[[str, str, tuple[int, ...], tuple[int, ...], tuple[Any, ...]], None]
"""Runs a kernel: source, name, grid, block, arguments."""


class CaptureError(RuntimeError):
    """An operation was requested that cannot be captured."""


class _Stream:
    def __init__(self, cuda: FakeCupy, number: int) -> None:
        self.ptr = number
        self._cuda = cuda
        self._queue: deque[Work] = deque()
        self._recorded: list[Work] | None = None
        self._kept: list[Any] = []

    def keep(self, memory: Any) -> None:
        """Keeps the memory alive until the work so far is done; for good if it is captured."""
        if self._recorded is None:
            self._kept.append(memory)
        else:
            self._recorded.append(lambda: memory)

    @property
    def is_capturing(self) -> bool:
        return self._recorded is not None

    def put(self, work: Work) -> None:
        (self._queue if self._recorded is None else self._recorded).append(work)

    def __enter__(self) -> _Stream:
        self._cuda.streams.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._cuda.streams.pop() is self

    def synchronize(self) -> None:
        if self._recorded is not None:
            raise CaptureError("operation not permitted when stream is capturing")
        while self._queue:
            self._queue.popleft()()
        self._kept.clear()

    def wait_event(self, event: _Event) -> None:
        self.put(event.synchronize)

    def begin_capture(self) -> None:
        assert self._recorded is None
        self._recorded = []

    def end_capture(self) -> _Graph:
        assert self._recorded is not None
        recorded, self._recorded = self._recorded, None
        return _Graph(self._cuda, recorded)


class _Graph:
    def __init__(self, cuda: FakeCupy, recorded: list[Work]) -> None:
        self._cuda = cuda
        self._recorded = recorded

    def launch(self, stream: _Stream) -> None:
        self._cuda.graph_launches += 1
        for work in self._recorded:
            stream.put(work)


class _Event:
    def __init__(self, disable_timing: bool = False) -> None:
        self.done = True
        self._stream: _Stream | None = None
        self._mark = object()

    def record(self, stream: _Stream) -> None:
        self.done, self._stream = False, stream
        mark = self._mark = object()

        def reach() -> None:
            if self._mark is mark:
                self.done = True

        stream.put(reach)

    def synchronize(self) -> None:
        while not self.done and self._stream is not None and self._stream._queue:
            self._stream._queue.popleft()()


class _Pool:
    """Counts bytes; the memory itself is numpy's."""

    def __init__(self) -> None:
        self.limit = 0
        self.used = 0
        self.reserved = 0

    def malloc(self, size: int) -> int:
        if self.limit and self.used + size > self.limit:
            raise MemoryError(f"Out of memory allocating {size} bytes")
        self.used += size
        self.reserved = max(self.reserved, self.used)
        return size

    def set_limit(self, size: int) -> None:
        self.limit = size

    def used_bytes(self) -> int:
        return self.used

    def total_bytes(self) -> int:
        return self.reserved

    def free_all_blocks(self) -> None:
        self.reserved = self.used


class _Hook:
    name = ""

    def __enter__(self) -> _Hook:
        _hooks.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        assert _hooks.pop() is self


_hooks: list[Any] = []


class FakeCupy:
    """The module that `import cupy` would return.

    Args:
        launch: Runs the kernels of `RawModule`.

    Attributes:
        cuda: As `cupy.cuda`.
        streams: The current streams, innermost last.
        graph_launches: The number of graph launches.
        allocations: The pools that arrays came from, in order.
        pinned: The sizes of allocated pinned memory.
        devices: The GPUs entered, in order.
        default_pool: The pool of arrays that are created outside of any run.
    """

    __name__ = "cupy"

    def __init__(self, launch: Launcher | None = None) -> None:
        self._launch = launch
        self.ndarray = type("ndarray", (FakeArray,), {"owner": self})
        self.streams: list[_Stream] = [_Stream(self, 0)]
        self.graph_launches = 0
        self.allocations: list[_Pool] = []
        self.pinned: list[int] = []
        self.devices: list[int] = []
        self.lib = SimpleNamespace(stride_tricks=SimpleNamespace(as_strided=self._as_strided))
        self._numbers = iter(range(1, 1 << 30))
        self.default_pool = _Pool()
        self._pools = [self.default_pool]
        self.cuda = SimpleNamespace(
            Stream=self._stream,
            Event=_Event,
            Device=self._device,
            MemoryPool=_Pool,
            MemoryHook=_Hook,
            using_allocator=self._using_allocator,
            alloc_pinned_memory=self._alloc_pinned_memory,
            get_current_stream=lambda: self.streams[-1],
            device=SimpleNamespace(get_cublas_handle=lambda: self),
            runtime=SimpleNamespace(getDeviceCount=lambda: 1),
        )

    def empty(self, shape: Any, dtype: Any) -> FakeArray:
        """A new array of the current pool."""
        plain = np.empty(shape, dtype)
        plain.reshape(-1).view(np.uint8)[...] = 0xAB  # garbage left by earlier contents
        made: Any = plain.view(self.ndarray)
        pool = self._pools[-1]
        pool.malloc(made.nbytes)
        self.allocations.append(pool)
        for hook in _hooks:
            hook.malloc_postprocess(device_id=0, size=made.nbytes, mem_size=made.nbytes)
        return made  # type: ignore[no-any-return]  # of `self.ndarray`

    def full(self, shape: Any, value: Any, dtype: Any = None) -> FakeArray:
        """A new array that is filled later."""
        made = self.empty(shape, np.asarray(value).dtype if dtype is None else dtype)
        made.fill(value)
        return made

    def zeros(self, shape: Any, dtype: Any = float) -> FakeArray:
        """A new array of zeros, later."""
        return self.full(shape, 0, dtype)

    def ones(self, shape: Any, dtype: Any = float) -> FakeArray:
        """A new array of ones, later."""
        return self.full(shape, 1, dtype)

    def release(self, pool: _Pool, size: int) -> None:
        """Called when cupy's last reference to an array is released."""
        pool.used -= size
        for hook in _hooks:
            hook.free_postprocess(device_id=0, mem_size=size)

    def asnumpy(self, array: Any) -> Any:
        """A copy on the host, after the work of the current stream."""
        if isinstance(array, FakeArray):
            return array.get()
        return np.array(array)

    def asarray(self, value: Any, dtype: Any = None) -> Any:
        """An array of the GPU; a host array is copied immediately, but not during capture."""
        if isinstance(value, FakeArray):
            return value if dtype in (None, value.dtype) else value.astype(dtype)
        if self.streams[-1].is_capturing:  # cupy would record the copy from a buffer that it lends
            raise CaptureError(
                "operation not permitted when stream is capturing: a copy from the host"
            )
        return np.array(value, dtype).view(self.ndarray)

    def array(self, value: Any, dtype: Any = None, order: str = "K", copy: bool = True) -> Any:
        """A new array of the GPU."""
        made = self.asarray(value, dtype)
        return made.copy() if made is value else made

    def ascontiguousarray(self, value: Any, dtype: Any = None) -> Any:
        """The array itself if it is contiguous, else a copy, later."""
        value = self.asarray(value, dtype)
        return value if value.flags.c_contiguous else value.copy()

    def __getattr__(self, name: str) -> Any:
        """A function of numpy that takes and returns arrays of the GPU."""
        found = getattr(np, name)
        if isinstance(found, type) or not callable(found):
            return found
        if isinstance(found, np.ufunc):
            return found  # it handles its arguments itself, and has methods

        def function(*args: Any, **kwargs: Any) -> Any:
            made = found(*args, **kwargs)
            if isinstance(made, np.ndarray) and not isinstance(made, FakeArray):
                return made.view(self.ndarray)
            return made

        return function

    def RawModule(self, *, code: str, options: tuple[str, ...]) -> Any:
        """Compiled code, whose functions call `launch`."""
        launch = self._launch
        assert launch is not None

        def get_function(name: str) -> Callable[..., None]:
            def run(grid: Any, block: Any, arguments: tuple[Any, ...]) -> None:
                self.streams[-1].put(lambda: launch(code, name, grid, block, arguments))

            return run

        return SimpleNamespace(get_function=get_function, compile=lambda: None)

    def _as_strided(self, array: FakeArray, shape: Any, strides: Any) -> Any:
        view = np.lib.stride_tricks.as_strided(array.memory, shape, strides)
        return view.view(self.ndarray)

    def _stream(self, non_blocking: bool = False) -> _Stream:
        assert non_blocking
        return _Stream(self, next(self._numbers))

    def _device(self, index: int) -> Any:
        @contextlib.contextmanager
        def entered() -> Iterator[None]:
            self.devices.append(index)
            yield

        return entered()

    @contextlib.contextmanager
    def _using_allocator(self, malloc: Any) -> Iterator[None]:
        self._pools.append(malloc.__self__)
        yield
        self._pools.pop()

    def _alloc_pinned_memory(self, size: int) -> bytearray:
        self.pinned.append(size)
        return bytearray(size)


def emulated(folder: Path) -> FakeCupy:
    """A stand-in whose fused kernels are their CUDA C, run on the CPU.

    Args:
        folder: The folder for compiled code.
    """
    emulator = CudaEmulator(folder)

    def launch(
        source: str,
        name: str,
        grid: tuple[int, ...],
        block: tuple[int, ...],
        arguments: tuple[Any, ...],
    ) -> None:
        numbers = [int(x) if isinstance(x, np.integer) else x.data.ptr for x in arguments]
        emulator.launch(source, name, grid, block, numbers)

    return FakeCupy(launch)


@contextlib.contextmanager
def installed(folder: Path, with_nvmath: bool = True) -> Iterator[FakeCupy]:
    """Makes `import cupy` return an `emulated` stand-in with one GPU during the block.

    Args:
        folder: The folder for compiled code.
        with_nvmath: Whether nvmath-python is available, too.
    """
    cupy = emulated(folder)
    routines = SimpleNamespace(COMPUTE_TYPE_TF32="tf32", set_compute_type=lambda dtype, kind: None)
    nvmath = FakeNvmath(cupy) if with_nvmath else None  # None means that a module is missing
    modules: dict[str, Any] = {
        "nvmath.bindings.cublas": nvmath,
        "cupy": cupy,
        "cupy._core._routines_linalg": routines,
        "cupy_backends.cuda.libs.cublas": FakeCublas(),
    }
    before = {name: sys.modules.get(name) for name in modules}
    sys.modules.update(modules)
    try:
        yield cupy
    finally:
        for name, module in before.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module
