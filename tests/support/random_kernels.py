"""Random fused kernels and arrays for them, for tests that compare two ways to run a kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from sparkflow_runtime import dtypes
from sparkflow_runtime.codegen.ir.kernel import (
    OF_TRUTHS,
    REDUCTIONS,
    Axes,
    Instruction,
    Kernel,
    Operand,
)
from sparkflow_runtime.dtypes import DType

DTYPES: Final = (dtypes.float32, dtypes.float64, dtypes.int32, dtypes.int64, dtypes.bool_)
_OF_TWO: Final = ("add", "subtract", "multiply", "maximum", "minimum")
_OF_ONE: Final = ("negative", "absolute", "sign")
_OF_A_FLOAT: Final = ("tanh", "sigmoid", "floor", "ceil", "trunc", "rint", "exp", "sqrt", "log1p")
_COMPARISONS: Final = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
SIZES: Final = (0, 1, 2, 3, 5, 7, 8, 9, 16, 17, 31, 33, 70)
"""Sizes around the lengths of vectors."""


def random_kernel(rng: np.random.Generator) -> Kernel:
    """A kernel of rank 0 to 4 with up to three inputs and nine instructions."""
    return _Grower(rng).grow()


def random_sizes(rng: np.random.Generator, rank: int) -> tuple[int, ...]:
    """Sizes of an iteration space; 0 is rare."""
    return tuple(int(rng.choice(SIZES[1:] if rng.random() < 0.9 else SIZES)) for _ in range(rank))


def random_array(rng: np.random.Generator, dtype: DType, shape: Sequence[int]) -> Any:
    """Small numbers of both signs."""
    if dtype is dtypes.bool_:
        return np.asarray(rng.random(shape) < 0.5)
    if dtype.is_integer:
        return np.asarray(rng.integers(-20, 20, shape)).astype(dtype.as_numpy_dtype)
    return np.asarray(rng.standard_normal(shape)).astype(dtype.as_numpy_dtype)


class _Grower:
    """A kernel that grows by one instruction at a time."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._rank = int(rng.integers(0, 5))
        self._row = int(rng.integers(self._rank)) if self._rank and rng.random() < 0.4 else None
        self._usual: DType = self._one(DTYPES[:4])
        self._types: list[DType] = []
        self._instructions: list[Instruction] = []
        self._final: set[int] = set()

    def grow(self) -> Kernel:
        inputs = [Operand(self._dtype(), self._axes(0.6)) for _ in range(self._rng.integers(1, 4))]
        self._types = [operand.dtype for operand in inputs]
        self._add("cast", self._any())
        for _ in range(self._rng.integers(9)):
            self._step()
        values = range(len(inputs), len(self._types))
        outputs = {int(self._rng.choice(values)) for _ in range(3)} | {values[-1]}
        return Kernel(self._rank, tuple(inputs), tuple(self._instructions), tuple(sorted(outputs)))

    def _step(self) -> None:
        kind, dtype = self._rng.random(), self._dtype()
        if kind < 0.1:
            value = self._rng.integers(-5, 5) / (4 if dtype.is_floating else 1)
            self._add("constant", dtype=dtype, value=dtype.as_numpy_dtype(value).item())
        elif kind < 0.15 and self._rank:
            over = [False] * self._rank
            over[self._rng.integers(self._rank)] = True
            self._add("index", dtype=dtypes.int64, over=tuple(over))
        elif kind < 0.25:
            self._add("cast", self._any(), dtype=dtype)
        elif kind < 0.45 and self._rank:
            self._reduce(self._any())
        else:
            self._compute(self._any())

    def _reduce(self, argument: int) -> None:
        is_truth = self._types[argument] is dtypes.bool_
        function = self._one(sorted(OF_TRUTHS if is_truth else REDUCTIONS))
        is_used = self._row is not None
        if is_used and self._rng.random() < 0.6:
            over = tuple(dimension >= (self._row or 0) for dimension in range(self._rank))
        else:
            is_used, over = False, self._axes(0.5)
        if any(over):
            value = self._add(function, argument, over=over)
            if not is_used:
                self._final.add(value)

    def _compute(self, first: int) -> None:
        dtype = self._types[first]
        second = self._any(dtype)
        if dtype is dtypes.bool_:
            third = self._any()
            choices: list[tuple[str, tuple[int, ...]]] = [
                ("logical_and", (first, second)),
                ("logical_or", (first, second)),
                ("logical_not", (first,)),
                ("where", (first, third, self._any(self._types[third]))),
            ]
            function, arguments = choices[self._rng.integers(len(choices))]
            self._add(function, *arguments, dtype=self._types[arguments[-1]])
        elif self._rng.random() < 0.15:
            self._add(self._one(_COMPARISONS), first, second, dtype=dtypes.bool_)
        else:
            more = _OF_A_FLOAT if dtype.is_floating else ()
            function = self._one((*_OF_TWO, *_OF_ONE, *more))
            self._add(function, *((first, second) if function in _OF_TWO else (first,)))

    def _add(
        self,
        function: str,
        *arguments: int,
        dtype: DType | None = None,
        over: Axes = (),
        value: float | int = 0,
    ) -> int:
        kind = dtype or self._types[arguments[0]]
        self._instructions.append(Instruction(function, arguments, kind, over, value))
        self._types.append(kind)
        return len(self._types) - 1

    def _any(self, dtype: DType | None = None) -> int:
        """Returns a value that may be used."""
        values = [
            value
            for value, kind in enumerate(self._types)
            if value not in self._final and dtype in (None, kind)
        ]
        return int(self._rng.choice(values))

    def _one(self, choices: Sequence[Any]) -> Any:
        return choices[int(self._rng.integers(len(choices)))]

    def _dtype(self) -> DType:
        return self._usual if self._rng.random() < 0.7 else self._one(DTYPES)

    def _axes(self, share: float) -> Axes:
        if self._rng.random() < 0.4:
            return (True,) * self._rank
        return tuple(bool(each) for each in self._rng.random(self._rank) < share)
