"""Which elements of images, results and filters meet in a convolution, along one dimension.

Result o and element t of a window meet the image at o · stride + t · dilation - before, if that is
inside. Along lines they become tables that the machine code reads; along columns, patterns that
are written out in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sparkflow_runtime.codegen.tiles.convolution_geometry import Window


class Meeting(NamedTuple):
    """What is multiplied for one element of a result.

    Attributes:
        other: The element of the image for a result of the convolution, and vice versa.
        tap: The element of the filter.
    """

    other: int
    tap: int


def of_results(window: Window, dim: int) -> list[list[Meeting]]:
    """Returns the meetings of every result of a convolution over `dim` elements."""
    found = []
    for result in range(window.count):
        first = result * window.stride - window.before
        places = ((first + tap * window.dilation, tap) for tap in range(window.size))
        found.append([Meeting(place, tap) for place, tap in places if 0 <= place < dim])
    return found


def of_elements(window: Window, dim: int) -> list[list[Meeting]]:
    """Returns the meetings of every element of the images."""
    found: list[list[Meeting]] = [[] for _ in range(dim)]
    for result, meetings in enumerate(of_results(window, dim)):
        for place, tap in meetings:
            found[place].append(Meeting(result, tap))
    return found


@dataclass(frozen=True, slots=True)
class Pattern:
    """The products of adjacent elements.

    Attributes:
        width: How many.
        products: The distance from the first element of the other side, the number of the element
            and the filter's: in this order.
    """

    width: int
    products: tuple[tuple[int, int, int], ...]

    @property
    def seen(self) -> int:
        """Elements of the other side from the first to the last, both included."""
        return self.products[-1][0] + 1 if self.products else 0


class Place(NamedTuple):
    """Where a pattern is applied.

    Attributes:
        first: The first of the elements.
        other: The first element of the other side.
    """

    first: int
    other: int


def patterns(
    meetings: Sequence[Sequence[Meeting]], width: int, overlaps: bool
) -> dict[Pattern, list[Place]]:
    """Returns the patterns that cover all elements, and where.

    Args:
        meetings: Of every element.
        width: Elements per pattern.
        overlaps: Whether the last pattern may cover elements again, to be as wide as the others.
    """
    found: dict[Pattern, list[Place]] = {}
    count = len(meetings)
    for start in range(0, count, width):
        stop = min(start + width, count)
        first = max(stop - width, 0) if overlaps else start
        here = meetings[first:stop]
        low = min((each.other for some in here for each in some), default=0)
        products = sorted(
            (each.other - low, number, each.tap)
            for number, some in enumerate(here)
            for each in some
        )
        pattern = Pattern(len(here), tuple(products))
        found.setdefault(pattern, []).append(Place(first, low))
    return found
