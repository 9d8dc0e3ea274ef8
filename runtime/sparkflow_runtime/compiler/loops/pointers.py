"""The table of pointers of a loop, while its steps are made: what each one points to."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sparkflow_runtime import dtypes
from sparkflow_runtime.codegen.cpu.copies import Pieces, bind_copies
from sparkflow_runtime.codegen.cpu.repeat import Call
from sparkflow_runtime.compiler.known import Known


class NotNativeError(Exception):
    """A loop does something that only Python can."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A pointer's target: what one row or buffer holds.

    Attributes:
        shape: Of the array.
        dtype: Of the array.
        size_bytes: Of the memory it needs.
        elements: How many it has.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    size_bytes: int = field(init=False, compare=False)
    elements: int = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "elements", math.prod(self.shape))
        object.__setattr__(self, "size_bytes", self.elements * self.dtype.itemsize)


class Pointers:
    """Numbers of pointers.

    Attributes:
        cells: What each one points to; None for those that are no array of the loop's.
        constants: Arrays by the numbers of their pointers.
        borrowed: Those that steps set, to what does not belong to the turn.
    """

    def __init__(self) -> None:
        self.cells: list[Cell | None] = []
        self.constants: dict[int, np.ndarray[Any, Any]] = {}
        self.borrowed: set[int] = set()

    def new(self, known: Known) -> int:
        """For a tensor.

        Raises:
            NotNativeError: Its shape is not known, or it is no array.
        """
        shape = known.full_shape
        if shape is None or known.dtype.is_ref or known.dtype not in dtypes.PLAIN:
            raise NotNativeError("a tensor has no known shape, or is no array")
        return self.of(Cell(shape, np.dtype(known.dtype.as_numpy_dtype)))

    def of(self, cell: Cell) -> int:
        """For an array."""
        self.cells.append(cell)
        return len(self.cells) - 1

    def borrow(self, cell: Cell) -> int:
        """For an array that a step finds."""
        number = self.of(cell)
        self.borrowed.add(number)
        return number

    def plain(self) -> int:
        """For something else, or a number instead."""
        self.cells.append(None)
        return len(self.cells) - 1

    def constant(self, array: np.ndarray[Any, Any]) -> int:
        """For an array that is always the same, in C order."""
        number = self.of(Cell(array.shape, array.dtype))
        self.constants[number] = array
        return number

    def cell(self, number: int) -> Cell:
        """What a pointer to an array points to."""
        cell = self.cells[number]
        assert cell is not None
        return cell

    def copy(self, source: int, target: int) -> Call:
        """The step that copies one array to another of its kind."""
        whole = Pieces(0, 0, 0, self.cell(source).size_bytes)
        return Call(bind_copies([whole], 1), (source, target))
