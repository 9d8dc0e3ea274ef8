"""Memory planning of temporary values: one block, shared by values that are never live together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sparkflow_runtime.device.host_memory import ALIGNMENT_BYTES


@dataclass(frozen=True, slots=True)
class Life:
    """A piece of memory that a value needs temporarily.

    Attributes:
        size_bytes: Its size.
        begin: The position in execution order at which it is first written.
        end: The last position at which it is read.
    """

    size_bytes: int
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class Layout:
    """The locations of the pieces.

    Attributes:
        offsets: One per piece, in bytes.
        size_bytes: The size of the block: the peak need plus gaps.
    """

    offsets: tuple[int, ...]
    size_bytes: int


def lay_out(lives: Sequence[Life]) -> Layout:
    """Places pieces with overlapping lifetimes apart: largest first, at the lowest free offset.

    Y. Pisarchyk and J. Lee, Efficient Memory Management for Deep Neural Net Inference, 2020,
    section 4.3 ("greedy by size for offset calculation").
    """
    offsets = [0] * len(lives)
    placed: list[int] = []  # in order of offset
    total = 0
    for number in sorted(range(len(lives)), key=lambda each: -lives[each].size_bytes):
        life = lives[number]
        size = _aligned(life.size_bytes)
        place, best, best_gap = 0, -1, -1
        for other in placed:
            theirs = lives[other]
            if theirs.end < life.begin or life.end < theirs.begin:
                continue
            gap = offsets[other] - place
            if gap >= size and (best < 0 or gap < best_gap):
                best, best_gap = place, gap
            place = max(place, offsets[other] + _aligned(theirs.size_bytes))
        offsets[number] = place if best < 0 else best
        total = max(total, offsets[number] + size)
        placed.append(number)
        placed.sort(key=offsets.__getitem__)
    return Layout(tuple(offsets), total)


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
