"""Pooling and its gradients as CUDA C, for any number of dimensions, channels last or second.

A thread computes a pack of adjacent results, and no two threads write the same element: the
gradient of an element is gathered from the windows that contain it, always in the same order. The
tasks and the arrays of a call are those of `pooling.pooling_ir`, the CPU version.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Final

import numpy as np

from sparkflow_runtime.codegen.gpu.cuda import NARROW, THREADS, Launch, LaunchPlan
from sparkflow_runtime.codegen.gpu.cuda_expressions import COMPUTED_IN, PACKS, elements, literal
from sparkflow_runtime.codegen.pooling.pooling_form import WRITTEN_OUT, Task
from sparkflow_runtime.codegen.tiles.convolution_geometry import Window
from sparkflow_runtime.dtypes import DType

PACK_BYTES: Final = 16
"""Bytes that a thread loads and stores at once, given enough adjacent channels."""
_NEAR: Final = 4
"""Maximum distance in elements of adjacent threads' stores, or minimum length of their runs."""
_ARRAYS: Final = {
    Task.MAXIMUM: ("images", "pooled"),
    Task.AVERAGE: ("images", "pooled"),
    Task.MAXIMUM_GRADIENT: ("images", "pooled", "given", "result"),
    Task.AVERAGE_GRADIENT: ("given", "result"),
}
"""The arrays of a call; `places`, the argmax within each window, is passed between launches."""

# A thread computes little: divisions by runtime values would take most of its time.
_NARROW_POSITIONS: Final = """\
typedef unsigned int index_t;
typedef int place_t;
__device__ index_t divided(index_t n, index_t, long long by) {
    return (index_t)((unsigned long long)n * (unsigned)by >> (by >> 32));
}
"""
_WIDE_POSITIONS: Final = """\
typedef unsigned long long index_t;
typedef long long place_t;
__device__ index_t divided(index_t n, index_t d, long long) { return n / d; }
"""
_POSITIONS: Final = """\
__device__ index_t split(index_t& rest, long long size, long long by) {
    const index_t whole = divided(rest, (index_t)size, by);
    const index_t part = rest - whole * (index_t)size;
    rest = whole;
    return part;
}
__device__ place_t smaller(place_t a, place_t b) { return a < b ? a : b; }
__device__ place_t larger(place_t a, place_t b) { return a > b ? a : b; }
"""


@dataclass(frozen=True, slots=True)
class Geometry:
    """Windows over images with the memory layout [outer, dimensions..., inner].

    With channels last, `outer` is the batch and `inner` the channels; with channels second, `outer`
    counts the channels of all images, and `inner` is 1.
    """

    outer: int
    dims: tuple[int, ...]
    windows: tuple[Window, ...]
    inner: int

    @property
    def sizes(self) -> tuple[int, ...]:
        """Returns the runtime sizes of a call, see `PoolingProgram.plan`."""
        axes = zip(self.dims, self.windows, strict=True)
        along = [(dim, window.before, window.count) for dim, window in axes]
        return (self.outer, self.inner, *(number for axis in along for number in axis))


@dataclass(frozen=True, slots=True)
class Form:
    """The compile-time parameters of a kernel.

    Attributes:
        task: The computation.
        dtype: The element type, one of `COMPUTED_IN`.
        pack: Adjacent elements per thread; `inner` is a multiple of it. sizes, strides: Sizes and
            strides of the windows.
        whole: Whether all windows and cells are inside the image.
        cells: Whether gradients of max pooling take one launch: a thread reads a window and writes
            its cell, which extends to the next windows. Otherwise one launch finds the argmaxes,
            and another gathers.
    """

    task: Task
    dtype: DType
    pack: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    whole: bool
    cells: bool

    @classmethod
    def of(cls, task: Task, dtype: DType, geometry: Geometry, aligned: bool = True) -> Form:
        """Returns the form for images and windows like these.

        Args:
            task: The computation.
            dtype: The element type.
            geometry: Geometry of the images; windows have no dilation.
            aligned: Whether all arrays begin at multiples of `PACK_BYTES`.
        """
        most = PACK_BYTES // np.dtype(dtype.as_numpy_dtype).itemsize if aligned else 1
        sizes = tuple(window.size for window in geometry.windows)
        strides = tuple(window.stride for window in geometry.windows)
        cells = (
            task is Task.MAXIMUM_GRADIENT
            and all(size <= stride for size, stride in zip(sizes, strides, strict=True))
            and math.prod(strides) <= WRITTEN_OUT
            and (strides[-1] <= _NEAR or geometry.inner >= _NEAR)
        )
        whole = all(
            window.before == 0
            and (window.count - 1) * window.stride + window.size <= dim
            and (not cells or window.count * window.stride == dim)
            for dim, window in zip(geometry.dims, geometry.windows, strict=True)
        )
        return cls(task, dtype, math.gcd(geometry.inner, most), sizes, strides, whole, cells)

    @property
    def place(self) -> tuple[str, int]:
        """The type and size of a position within a window, with an extra value for none."""
        return ("unsigned char", 1) if math.prod(self.sizes) < 255 else ("int", 4)


class PoolingProgram:
    """A form as CUDA, for `device.gpu_kernels`. Immutable; safe to share between threads.

    Args:
        form: The compile-time parameters.
    """

    def __init__(self, form: Form) -> None:
        self.form = form
        writer = _Writer(form)
        self._functions = {
            Task.MAXIMUM: lambda: [writer.pooled()],
            Task.AVERAGE: lambda: [writer.pooled()],
            Task.MAXIMUM_GRADIENT: lambda: (
                [writer.cells()] if form.cells else [writer.places(), writer.gathered()]
            ),
            Task.AVERAGE_GRADIENT: lambda: [writer.gathered()],
        }[form.task]()

    def source(self, wide: bool = False) -> str:
        """CUDA C, for NVRTC or nvcc.

        Args:
            wide: Whether positions take 64 bits.
        """
        return (_WIDE_POSITIONS if wide else _NARROW_POSITIONS) + self._text

    @cached_property
    def _text(self) -> str:
        form = self.form
        types = [
            f"typedef Pack<element_t, {form.pack}> Elements;",
            f"typedef Pack<{form.place[0]}, {form.pack}> Places;\n",
        ]
        written = [function.text for function in self._functions]
        return "\n".join([_POSITIONS, PACKS, elements(form.dtype), *types, *written])

    def plan(self, sizes: Sequence[int]) -> LaunchPlan:
        """Returns the launches of a call.

        Args:
            sizes: See `Geometry.sizes`.
        """
        form = self.form
        outer, channels, *numbers = sizes
        axes = [tuple(numbers[at : at + 3]) for at in range(0, len(numbers), 3)]
        images = outer * math.prod(dim for dim, _, _ in axes) * channels
        pooled = outer * math.prod(count for _, _, count in axes) * channels
        counts = {"images": images, "pooled": pooled, "given": pooled, "result": images}
        named = _ARRAYS[form.task]
        order = [*named, "places"]
        launches = []
        for function in self._functions:
            walked = [
                _along(function.walk, dim, before, count, stride)
                for (dim, before, count), stride in zip(axes, form.strides, strict=True)
            ]
            inner = channels // form.pack
            total = outer * math.prod(walked) * inner
            if total == 0:
                continue
            along = [(size, _divisor(size), *axis) for size, axis in zip(walked, axes, strict=True)]
            given = (total, inner, _divisor(inner), *(number for axis in along for number in axis))
            arrays = tuple(order.index(name) for name in function.arrays)
            shape = ((-(-total // THREADS), 1), (THREADS, 1))
            launches.append(Launch(function.name, *shape, arrays, given))
        leaves = any("places" in function.arrays for function in self._functions)
        return LaunchPlan(
            max(images, pooled) >= NARROW,
            tuple(launches),
            (pooled * form.place[1],) if leaves else (),
            tuple(counts[name] for name in named),
        )


class _Walk(Enum):
    """What the threads of a launch iterate over."""

    WINDOWS = "windows"
    ELEMENTS = "elements"
    CELLS = "cells"


def _along(walk: _Walk, dim: int, before: int, count: int, stride: int) -> int:
    """Counts iterations along a dimension; cells cover the image and the padding before it."""
    return {_Walk.WINDOWS: count, _Walk.ELEMENTS: dim, _Walk.CELLS: -(-(dim + before) // stride)}[
        walk
    ]


def _divisor(size: int) -> int:
    """Returns multiplier and shift with which `divided` divides positions below 2^31 by a size.

    See Granlund and Montgomery, Division by Invariant Integers using Multiplication (1994).
    """
    if size >= 1 << 31:
        return 0  # such positions are wide
    shift = 31 + (size - 1).bit_length()
    return -(-(1 << shift) // size) | shift << 32


@dataclass(frozen=True, slots=True)
class _Function:
    """One function of the source.

    Attributes:
        name: Its name.
        walk: What its threads iterate over.
        arrays: Its array arguments; the last one is written.
        text: CUDA C.
    """

    name: str
    walk: _Walk
    arrays: tuple[str, ...]
    text: str


class _Writer:
    """Writes the functions of a form, one after another."""

    def __init__(self, form: Form) -> None:
        self._form = form
        self._axes = range(len(form.sizes))
        self._lines: list[str] = []
        self._indent = 1

    def pooled(self) -> _Function:
        """One window per thread: its maximum or mean."""
        form = self._form
        is_maximum = form.task is Task.MAXIMUM
        start = literal(-math.inf, COMPUTED_IN[form.dtype]) if is_maximum else "0"
        self._starts()
        self._line(f"number_t made[{form.pack}];")
        self._each(f"made[e] = {start};")
        with self._windows_elements(form.sizes) as element:
            self._line(f"const Elements taken = images[{element}];")
            if is_maximum:  # NaN is larger than all, as in numpy's maximum
                self._each(
                    "const number_t value = number_of(taken.at[e]);",
                    "made[e] = value > made[e] || value != value ? value : made[e];",
                )
            else:
                self._each("made[e] += number_of(taken.at[e]);")
        if not is_maximum:
            self._line(f"const number_t count = {self._count()};")
        self._line("Elements stored;")
        self._each(f"stored.at[e] = element_of(made[e]{'' if is_maximum else ' / count'});")
        self._line("pooled[at] = stored;")
        name = "max_pool" if is_maximum else "average_pool"
        return self._finish(name, _Walk.WINDOWS, ("images", "pooled"))

    def places(self) -> _Function:
        """One window per thread: the position of its first maximum."""
        self._starts()
        self._line("const Elements most = pooled[at];")
        self._line(f"int found[{self._form.pack}];")
        self._each("found[e] = -1;")
        with self._windows_elements(self._form.sizes) as element:
            self._line(f"const Elements taken = images[{element}];")
            self._each(
                "const bool equal = number_of(taken.at[e]) == number_of(most.at[e]);",
                f"if (equal && found[e] < 0) found[e] = (int)({self._within('t{}')});",
            )
        self._line("Places stored;")
        self._each(f"stored.at[e] = ({self._form.place[0]})found[e];")
        self._line("places[at] = stored;")
        return self._finish("max_pool_places", _Walk.WINDOWS, ("images", "pooled", "places"))

    def gathered(self) -> _Function:
        """One element of the gradient per thread, from the windows that contain it."""
        form = self._form
        is_maximum = form.task is Task.MAXIMUM_GRADIENT
        self._line(f"number_t made[{form.pack}];")
        self._each("made[e] = 0;")
        with self._elements_windows() as window:
            self._line(f"const index_t window = {window};")
            self._line("const Elements share = given[window];")
            if is_maximum:
                self._line("const Places most = places[window];")
                self._line(f"const int here = (int)({self._within('(p{0} - start{0})')});")
                self._each("if (most.at[e] == here) made[e] += number_of(share.at[e]);")
            else:
                self._line(f"const number_t count = {self._count()};")
                self._each("made[e] += number_of(share.at[e]) / count;")
        self._line("Elements stored;")
        self._each("stored.at[e] = element_of(made[e]);")
        self._line("result[at] = stored;")
        if is_maximum:
            arrays: tuple[str, ...] = ("given", "places", "result")
            return self._finish("max_pool_gradient", _Walk.ELEMENTS, arrays)
        return self._finish("average_pool_gradient", _Walk.ELEMENTS, ("given", "result"))

    def cells(self) -> _Function:
        """One cell of the gradient per thread; no other window has elements in it."""
        form = self._form
        inside = " && ".join(f"x{k} < (place_t)count{k}" for k in self._axes)
        self._starts()
        self._line(f"const bool has = {'true' if form.whole else inside};")
        self._line("Elements most = {}, share = {};")
        self._open("if (has)")
        self._line(f"const index_t window = {self._position('count{}', 'x{}')};")
        self._line("most = pooled[window];")
        self._line("share = given[window];")
        self._close()
        self._line(f"bool free[{form.pack}];")
        self._each("free[e] = has;")
        with self._windows_elements(form.strides) as element:
            self._line(f"const index_t element = {element};")
            self._line("Elements stored = {};")
            within = " && ".join(f"t{k} < {size}" for k, size in enumerate(form.sizes))
            self._open(f"if ({within})")
            self._line("const Elements taken = images[element];")
            self._each(
                "const bool equal = number_of(taken.at[e]) == number_of(most.at[e]);",
                "if (equal && free[e]) stored.at[e] = share.at[e];",
                "free[e] = free[e] && !equal;",
            )
            self._close()
            self._line("result[element] = stored;")
        arrays = ("images", "pooled", "given", "result")
        return self._finish("max_pool_gradient", _Walk.CELLS, arrays)

    # ------------------------------------------------------------------------------- positions

    def _starts(self) -> None:
        """Emits the start of the thread's window or cell."""
        for k, stride in enumerate(self._form.strides):
            self._line(f"const place_t start{k} = x{k} * {stride} - (place_t)before{k};")

    @contextmanager
    def _windows_elements(self, extents: Sequence[int]) -> Iterator[str]:
        """Emits a loop over the image elements in `extents` from the start on."""
        written_out = math.prod(extents) <= WRITTEN_OUT
        for k, extent in enumerate(extents):
            if written_out:
                self._line("#pragma unroll")
                self._open(f"for (int t{k} = 0; t{k} < {extent}; ++t{k})")
                self._line(f"const place_t y{k} = start{k} + t{k};")
                if not self._form.whole:
                    self._line(f"if (y{k} < 0 || y{k} >= (place_t)dim{k}) continue;")
            else:
                self._line(f"const place_t end{k} = smaller({extent}, (place_t)dim{k} - start{k});")
                self._open(f"for (place_t t{k} = larger(0, -start{k}); t{k} < end{k}; ++t{k})")
                self._line(f"const place_t y{k} = start{k} + t{k};")
        yield self._position("dim{}", "y{}")
        for _ in extents:
            self._close()

    @contextmanager
    def _elements_windows(self) -> Iterator[str]:
        """Emits a loop over the windows that contain the thread's element, in order."""
        form = self._form
        along = [-(-size // stride) for size, stride in zip(form.sizes, form.strides, strict=True)]
        written_out = math.prod(along) <= WRITTEN_OUT
        for k, (size, stride) in enumerate(zip(form.sizes, form.strides, strict=True)):
            self._line(f"const place_t p{k} = x{k} + (place_t)before{k};")
            after = f"(place_t)((index_t)(p{k} - {size}) / {stride}) + 1"
            self._line(f"const place_t first{k} = p{k} < {size} ? 0 : {after};")
            last = f"smaller((place_t)((index_t)p{k} / {stride}), (place_t)count{k} - 1)"
            self._line(f"const place_t last{k} = {last};")
        for k, stride in enumerate(form.strides):
            if written_out:
                self._line("#pragma unroll")
                self._open(f"for (int u{k} = 0; u{k} < {along[k]}; ++u{k})")
                self._line(f"const place_t w{k} = first{k} + u{k};")
                self._line(f"if (w{k} > last{k}) continue;")
            else:
                self._open(f"for (place_t w{k} = first{k}; w{k} <= last{k}; ++w{k})")
            self._line(f"const place_t start{k} = w{k} * {stride};")
        yield self._position("count{}", "w{}")
        for _ in form.strides:
            self._close()

    def _position(self, size: str, at: str) -> str:
        """Returns the pack at a position of the thread's image and channels."""
        text = "outer"
        for k in self._axes:
            text = f"({text} * (index_t){size.format(k)} + (index_t){at.format(k)})"
        return f"{text} * (index_t)inner + channel"

    def _within(self, at: str) -> str:
        """Returns the linear index of a position within its window."""
        text = "0"
        for k, size in enumerate(self._form.sizes):
            text = f"({text} * {size} + {at.format(k)})"
        return text

    def _count(self) -> str:
        """Returns the number of window elements inside the image."""
        form = self._form
        if form.whole:
            return f"{math.prod(form.sizes)}"
        gathers = form.task is Task.AVERAGE_GRADIENT
        counts = []
        for k, size in enumerate(form.sizes):
            start = f"start{k} - (place_t)before{k}" if gathers else f"start{k}"
            self._line(f"const place_t from{k} = {start};")
            high = f"smaller(from{k} + {size}, (place_t)dim{k})"
            counts.append(f"({high} - larger(from{k}, 0))")
        return f"(number_t)({' * '.join(counts)})"

    # ------------------------------------------------------------------------------ statements

    def _finish(self, name: str, walk: _Walk, arrays: tuple[str, ...]) -> _Function:
        """Returns the function from the lines written so far."""
        kinds = ["Places" if each == "places" else "Elements" for each in arrays]
        *read, written = [
            f"{kind}* __restrict__ {each}" for kind, each in zip(kinds, arrays, strict=True)
        ]
        numbers = ["total", "inner", "by_inner"]
        for k in self._axes:
            numbers += [f"size{k}", f"by{k}", f"dim{k}", f"before{k}", f"count{k}"]
        parameters = [f"const {each}" for each in read]
        parameters += [written, *(f"long long {each}" for each in numbers)]
        head = [
            f'extern "C" __global__ void {name}({", ".join(parameters)}) {{',
            "    const index_t at = blockIdx.x * (index_t)blockDim.x + threadIdx.x;",
            "    if (at >= (index_t)total) return;",
            "    index_t outer = at;",
            "    const index_t channel = split(outer, inner, by_inner);",
        ]
        head += [
            f"    const place_t x{k} = (place_t)split(outer, size{k}, by{k});"
            for k in reversed(self._axes)
        ]
        text = "\n".join([*head, *self._lines, "}\n"])
        self._lines = []
        return _Function(name, walk, arrays, text)

    def _each(self, *lines: str) -> None:
        """Emits a statement for each element `e` of a pack."""
        self._line("#pragma unroll")
        self._open(f"for (int e = 0; e < {self._form.pack}; ++e)")
        for line in lines:
            self._line(line)
        self._close()

    def _open(self, head: str) -> None:
        self._line(f"{head} {{")
        self._indent += 1

    def _close(self) -> None:
        self._indent -= 1
        self._line("}")

    def _line(self, text: str) -> None:
        self._lines.append("    " * self._indent + text)
