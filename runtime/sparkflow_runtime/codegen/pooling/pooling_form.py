"""The compile-time parameters of the machine code for pooling."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

WRITTEN_OUT: Final = 16
"""Windows of up to this many elements are unrolled."""


class Task(Enum):
    """The computation of a kernel."""

    MAXIMUM = "maximum"
    AVERAGE = "average"
    MAXIMUM_GRADIENT = "maximum gradient"
    AVERAGE_GRADIENT = "average gradient"

    @property
    def is_gradient(self) -> bool:
        """Whether the result has the shape of the images."""
        return self in (Task.MAXIMUM_GRADIENT, Task.AVERAGE_GRADIENT)


@dataclass(frozen=True, slots=True)
class Form:
    """The compile-time parameters of a kernel.

    Attributes:
        task: The computation.
        element: `float` or `double`.
        lanes: Elements per vector.
        planes, rows, columns: Size of a window.
        disjoint: Whether windows do not overlap.
        step: Columns from one window of a run to the next, see `pooling_runs`; 0: there are none.
    """

    task: Task
    element: str
    lanes: int
    planes: int
    rows: int
    columns: int
    disjoint: bool
    step: int = 0
