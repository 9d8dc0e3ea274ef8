"""Fused kernels on the CPU: compiles a `Kernel` to a function of numpy arrays."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from sparkflow_runtime import dtypes
from sparkflow_runtime.codegen.ir.kernel import (
    DTYPES,
    NARROW,
    OF_TRUTHS,
    REDUCTIONS,
    SOURCES,
    Axes,
    Column,
    Instruction,
    Kernel,
)
from sparkflow_runtime.codegen.ir.schedule import (
    COSTS,
    MOST_REGISTERS,
    Form,
    Schedule,
    Target,
    form_of,
    simplify,
)
from sparkflow_runtime.codegen.ir.short_rows import columns_of
from sparkflow_runtime.codegen.machine import host, native
from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.once import latest

MAX_RANK: Final = 4
_LINE: Final = 64
"""Bytes of a cache line: data written by different threads are at least this far apart."""
PART_S: Final = 40e-6
"""Minimum duration of a part of a kernel, in seconds: sleeping threads have to wake up first."""
AWAKE_PART_S: Final = 4e-6
"""The same if kernels follow each other without Python in between, so that threads are awake."""
_GIL_S: Final = 100e-6
"""Kernels that take less than this hold the GIL."""
_WORD: Final = 8
_ADDITION_S: Final = 0.03e-9
_CACHED_BYTE_S: Final = 0.02e-9
_BYTE_S: Final = 0.06e-9
_CACHE_BYTES: Final = 1 << 22
"""Smaller working sets are assumed to be in some cache (measured on a Zen 3 core, Nov. 2026)."""


class UnsupportedKernel(Exception):
    """Raised for a kernel that no code can be generated for; the message says why.

    Not a user error: the caller catches it and runs the nodes one by one.
    """


def compile_kernel(kernel: Kernel) -> CompiledKernel:
    """Returns an object that binds a kernel to sizes; code is generated when they are known.

    Args:
        kernel: Any kernel except those with more than four dimensions, an unknown function or
            dtype, a reduction whose result dtype differs from its argument's, a sum or product of
            booleans, a
            reused reduction that is not over the last dimensions, two reused ones over different
            dimensions, or a reduction that is an output twice.

    Raises:
        UnsupportedKernel: The kernel is one of these.
        ImportError: llvmlite is missing, see `host.available`.
    """
    _check(kernel)
    return CompiledKernel(kernel)


class CompiledKernel:
    """A kernel that can be bound to sizes.

    Attributes:
        kernel: The kernel as given.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel

    def bind(
        self, sizes: Sequence[int], threads: int | None = None, part_s: float = PART_S
    ) -> Callable[..., bool]:
        """Returns a function of the input arrays, then the output arrays, see `native.Body.bind`.

        It returns False and does nothing if an array is not contiguous or has another size.
        Results do not depend on timing; sums may round differently with another number of threads.
        A function may own memory, for data that parts share and for rows kept for a later pass, so
        it must not run concurrently with itself.

        Args:
            sizes: Sizes of the iteration space.
            threads: Maximum number of threads; None for one.
            part_s: Minimum time that each thread should work, in seconds.

        Raises:
            UnsupportedKernel: A size is 0, and some output neither varies along that dimension nor
                is a reduction over it.
        """
        simple, short = simplify(self.kernel, sizes)
        constants = repr([each.value for each in simple.instructions])
        schedule = _schedule(simple, constants)
        if schedule.leaves_out(short):
            raise UnsupportedKernel(f"an output that has elements where the sizes are {sizes}")
        places: tuple[Column, ...] = ()
        target = _target()
        columns = columns_of(schedule, short, target)
        if columns is not None:
            simple, places, short = columns.kernel, columns.places, short[:-1]
            constants = repr([each.value for each in simple.instructions])
            schedule = _schedule(simple, constants)
        axes = self.kernel.value_axes
        counts = [_count(operand.axes, sizes) for operand in self.kernel.inputs]
        counts += [_count(axes[value], sizes) for value in self.kernel.outputs]
        seconds = _seconds(schedule, short)
        extent = short[0] if short else 1
        parts = 1
        if schedule.is_divisible:
            parts = max(1, min(threads or 1, extent, int(seconds / part_s)))
        last = short[-1] if short else 0
        most = 1 if places else MOST_REGISTERS
        lanes = schedule.lanes(target.vector_bytes)
        form = form_of(last, lanes, len(short) == 1 and parts > 1, parts > 1, most)
        form = replace(form, columns=places)
        if schedule.keeps_columns(short, max(form.registers, 1) * lanes):
            form = replace(form, keeps_columns=True)
        body = _body(simple, constants, form, target)
        numbers = _numbers(schedule, short, parts)
        return body.bind(numbers, counts, extent, parts, releases_gil=seconds > _GIL_S)


def _check(kernel: Kernel) -> None:
    if kernel.rank > MAX_RANK:
        raise UnsupportedKernel(f"{kernel.rank} dimensions, at most {MAX_RANK} are supported")
    types = kernel.value_dtypes
    for dtype in types:
        if dtype not in DTYPES | NARROW:
            raise UnsupportedKernel(f"values of dtype {dtype.name}")
    used: set[int] = set()
    reductions: dict[int, Instruction] = {}
    for number, each in enumerate(kernel.instructions, len(kernel.inputs)):
        arguments = tuple(types[argument] for argument in each.arguments)
        used.update(each.arguments)
        if each.function != "cast" and NARROW & {each.dtype, *arguments}:
            names = ", ".join(argument.name for argument in arguments)
            raise UnsupportedKernel(f"{each.function} of {names} to {each.dtype.name}")
        if each.function in REDUCTIONS:
            reductions[number] = each
            misses = each.dtype is dtypes.bool_ and each.function not in OF_TRUTHS
            if arguments[0] is not each.dtype or misses or not any(each.over):
                raise UnsupportedKernel(
                    f"{each.function} of {arguments[0].name} to {each.dtype.name} over {each.over}"
                )
        elif each.function not in SOURCES and not _is_emitted(each.function, each.dtype, arguments):
            names = ", ".join(argument.name for argument in arguments)
            raise UnsupportedKernel(f"{each.function} of {names} to {each.dtype.name}")
    again = {each.over for number, each in reductions.items() if number in used}
    for over in again:
        if sorted(over) != list(over) or len(again) > 1:
            raise UnsupportedKernel(f"reductions over {sorted(again)} are used again")
    outputs = [number for number in kernel.outputs if number in reductions]
    if len(set(outputs)) < len(outputs):
        raise UnsupportedKernel("a reduction is an output twice")


@functools.cache
def _is_emitted(function: str, dtype: DType, arguments: tuple[DType, ...]) -> bool:
    """Whether code can be generated for a function."""
    from llvmlite import ir

    from sparkflow_runtime.codegen.cpu import maths

    kinds = [maths.SCALARS[argument] for argument in arguments]
    module = ir.Module(context=ir.Context())
    trial = ir.Function(module, ir.FunctionType(ir.VoidType(), kinds), name="trial")
    builder = ir.IRBuilder(trial.append_basic_block())
    try:
        result = maths.emit(builder, function, dtype, *trial.args)
    except (InvalidArgumentError, TypeError, IndexError):  # unknown function, or wrong arity
        return False
    return bool(result.type == maths.SCALARS[dtype])


@latest(4096)
def _schedule(kernel: Kernel, constants: str) -> Schedule:
    """Returns the plan of a simplified kernel; its constants as text distinguish 0 from -0."""
    return Schedule(kernel)


@latest(4096)
def _body(kernel: Kernel, constants: str, form: Form, target: Target) -> native.Body:
    described = repr((kernel, constants, form, target))
    return native.described_body(
        described, lambda: _text(_schedule(kernel, constants), form, target), is_tidy=True
    )


def flat_text(kernel: Kernel) -> str:
    """Returns the module of a rank-1 kernel without reductions, for loops that call its body.

    The body reads only the first of its numbers, the size.

    Raises:
        UnsupportedKernel: See `compile_kernel`.
    """
    _check(kernel)
    return _text(Schedule(kernel), Form(), _target())


def _text(schedule: Schedule, form: Form, target: Target) -> str:
    from sparkflow_runtime.codegen.cpu import loop_nest

    return loop_nest.generate(schedule, target, form)


def _target() -> Target:
    here = host.host()
    many = here.vector_bytes == 64 or not here.triple.startswith("x86_64")
    return Target(here.vector_bytes, 32 if many else 16, here.vector_bytes >= 32)


def _count(axes: Axes, sizes: Sequence[int]) -> int:
    return math.prod(size for size, varies in zip(sizes, axes, strict=True) if varies)


def _seconds(schedule: Schedule, sizes: Sequence[int]) -> float:
    """Estimates how long a kernel takes on one thread."""
    kernel, total = schedule.kernel, 0.0
    for value in schedule.live:
        axes = (True,) * schedule.levels[value] + (False,) * kernel.rank
        instruction = schedule.instruction(value)
        function = instruction.function if instruction else ""
        cost = COSTS.get(function, 1.0) * _ADDITION_S
        total += cost * _count(axes[: kernel.rank], sizes)
    moved = sum(
        kernel.value_dtypes[value].size * _count(kernel.value_axes[value], sizes)
        for value in (*range(len(kernel.inputs)), *kernel.outputs)
    )
    return float(total + moved * (_CACHED_BYTE_S if moved < _CACHE_BYTES else _BYTE_S))


def _numbers(schedule: Schedule, sizes: Sequence[int], parts: int) -> Any:
    """Returns the numbers for the body, see `loop_frame`."""
    kernel, areas = schedule.kernel, []
    place = 0

    def reserve(size_bytes: int) -> int:
        nonlocal place
        start = place
        place += -(-size_bytes // _LINE) * _LINE
        return start

    values = schedule.areas(parts > 1)
    header = len(sizes) + 2 + 2 * len(values)
    reserve(header * _WORD)
    counter = reserve(_LINE)
    buffered = set(schedule.buffered)
    for value in values:
        axes = schedule.row_axes(value) if value in buffered else kernel.value_axes[value]
        dtype = kernel.value_dtypes[value]
        distance = -(-max(_count(axes, sizes) * dtype.size, _WORD) // _LINE) * _LINE
        areas += [reserve(distance * parts), distance]
    numbers = np.zeros(place // _WORD + _LINE // _WORD, np.int64)
    numbers[:header] = (*sizes, parts, counter, *areas)
    return numbers
