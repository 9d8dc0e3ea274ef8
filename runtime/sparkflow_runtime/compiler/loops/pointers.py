"""The pointer table of a loop while its steps are planned: the target of each pointer."""

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
    """A loop needs Python."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A pointer's target: the contents of one row or buffer.

    Attributes:
        shape: The array's shape.
        dtype: The array's dtype.
        size_bytes: The memory it needs.
        elements: The number of elements.
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
        cells: The target of each; None if it is not an array of the loop.
        constants: Arrays by the numbers of their pointers.
        borrowed: Those that steps set to memory outside the iteration.
        may_replace: Per output of a kernel, the inputs that it may be written over.
        overwriting: Those to next values that are written over the current ones, by the pointer of
            the variable.
    """

    def __init__(self) -> None:
        self.cells: list[Cell | None] = []
        self.constants: dict[int, np.ndarray[Any, Any]] = {}
        self.borrowed: set[int] = set()
        self.may_replace: dict[int, frozenset[int]] = {}
        self.overwriting: dict[int, int] = {}

    def new(self, known: Known) -> int:
        """Adds a pointer to a tensor.

        Raises:
            NotNativeError: Its shape is unknown, or it is not an array.
        """
        shape = known.full_shape
        if shape is None or known.dtype.is_ref or known.dtype not in dtypes.PLAIN:
            raise NotNativeError("a tensor has no known shape, or is not an array")
        return self.of(Cell(shape, np.dtype(known.dtype.as_numpy_dtype)))

    def of(self, cell: Cell) -> int:
        """Adds a pointer to an array."""
        self.cells.append(cell)
        return len(self.cells) - 1

    def borrow(self, cell: Cell) -> int:
        """Adds a pointer to an array that a step determines."""
        number = self.of(cell)
        self.borrowed.add(number)
        return number

    def plain(self) -> int:
        """Adds a pointer to something else, or a number."""
        self.cells.append(None)
        return len(self.cells) - 1

    def constant(self, array: np.ndarray[Any, Any]) -> int:
        """Adds a pointer to a constant array, in C order."""
        number = self.of(Cell(array.shape, array.dtype))
        self.constants[number] = array
        return number

    def cell(self, number: int) -> Cell:
        """Returns the target of a pointer to an array."""
        cell = self.cells[number]
        assert cell is not None
        return cell

    def copy(self, source: int, target: int) -> Call:
        """Returns the step that copies one array to another of its kind."""
        whole = Pieces(0, 0, 0, self.cell(source).size_bytes)
        return Call(bind_copies([whole], 1), (source, target))
