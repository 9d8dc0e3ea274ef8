"""The schedule of a collective: which rank sends which elements to which, and when.

An array is cut into one block per rank, a block into segments. In the first phase every block is
summed by one rank, in the second this rank hands it to all others: each rank sends and receives
`2 (n - 1) / n` of the array, which is the least possible (Patarasuk and Yuan, "Bandwidth optimal
all-reduce algorithms for clusters of workstations", 2009). The order of additions depends only on
the number of ranks, so that every run on every rank returns the same bits.

A plan is a list of lanes, a lane a list of moves to run one after another. Lanes run concurrently:
while one waits, another adds. Sends never wait, so no order of lanes can deadlock.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

MAX_DIRECT: Final = 8
"""Up to this many ranks exchange blocks directly; more use a ring."""


class Kind(enum.Enum):
    """The kind of a move."""

    SEND = "send"
    """Sends the elements to each of the peers."""
    REDUCE = "reduce"
    """Receives the elements of each peer and merges them with this rank's."""
    TAKE = "take"
    """Receives the peer's elements in place of this rank's."""


@dataclass(frozen=True, slots=True)
class Move:
    """One step of a lane.

    Attributes:
        kind: The kind of move.
        peers: The other ranks.
        tag: The message's name, the same at both ends.
        start, stop: The range of elements.
        own_at: In REDUCE, how many of the peers' values precede this rank's in the sum.
        is_last: In REDUCE, whether the elements are then complete.
    """

    kind: Kind
    peers: tuple[int, ...]
    tag: str
    start: int
    stop: int
    own_at: int = 0
    is_last: bool = False


Lane = list[Move]


def blocks(count: int, size: int) -> list[tuple[int, int]]:
    """Returns start and stop of each rank's block of `count` elements.

    >>> blocks(7, 3)
    [(0, 3), (3, 5), (5, 7)]
    """
    least, more = divmod(count, size)
    bounds = [0]
    for rank in range(size):
        bounds.append(bounds[-1] + least + (rank < more))
    return list(itertools.pairwise(bounds))


def segments(start: int, stop: int, longest: int) -> list[tuple[int, int]]:
    """Splits a range into pieces of at most `longest` elements; none if it is empty.

    >>> segments(3, 8, 2)
    [(3, 5), (5, 7), (7, 8)]
    """
    return [(first, min(first + longest, stop)) for first in range(start, stop, longest)]


def all_reduce(rank: int, size: int, count: int, longest: int, num_lanes: int) -> list[Lane]:
    """Returns one rank's lanes of an all-reduce.

    Args:
        rank: The rank.
        size: How many ranks there are.
        count: Elements of the array, the same on every rank.
        longest: Elements of a segment.
        num_lanes: The number of lanes over which segments are distributed.
    """
    if size == 1 or count == 0:
        return []
    cut = [segments(*block, longest) for block in blocks(count, size)]
    make = _direct if size <= MAX_DIRECT else _ring
    lanes = [make(rank, _dealt(cut, lane, num_lanes)) for lane in range(num_lanes)]
    return [lane for lane in lanes if lane]


def is_ring(size: int) -> bool:
    """Whether partial sums travel, instead of each rank's own values."""
    return size > MAX_DIRECT


def broadcast(rank: int, size: int, root: int, count: int, longest: int) -> Lane:
    """Returns one rank's moves of a broadcast from the root, down a binomial tree."""
    place = (rank - root) % size
    above, below = _tree(place, size)
    moves: Lane = []
    for number, (start, stop) in enumerate(segments(0, count, longest)):
        tag = f"b{number}"
        if above is not None:
            moves.append(Move(Kind.TAKE, ((above + root) % size,), tag, start, stop))
        if below:
            peers = tuple((each + root) % size for each in below)
            moves.append(Move(Kind.SEND, peers, tag, start, stop))
    return moves


def _tree(place: int, size: int) -> tuple[int | None, list[int]]:
    """Returns the parent and the children, largest subtree first, in a binomial tree."""
    bit = 1
    while bit < size and not place & bit:
        bit <<= 1
    above = place - bit if place else None
    below = []
    bit >>= 1
    while bit:
        if place + bit < size:
            below.append(place + bit)
        bit >>= 1
    return above, below


_Segments = Sequence[Sequence[tuple[int, int, int]]]
"""Returns, per block, start and stop of a lane's segments."""


def _dealt(cut: Sequence[Sequence[tuple[int, int]]], lane: int, num_lanes: int) -> _Segments:
    return [
        [(number, *segment) for number, segment in enumerate(block) if number % num_lanes == lane]
        for block in cut
    ]


def _direct(rank: int, cut: _Segments) -> Lane:
    """Each rank sums its block of all ranks' arrays, in the order of ranks."""
    size = len(cut)
    others = tuple((rank + distance) % size for distance in range(1, size))
    in_order = tuple(sorted(others))
    moves: Lane = []
    for peer in others:
        for number, start, stop in cut[peer]:
            moves.append(Move(Kind.SEND, (peer,), f"r{number}", start, stop))
    for number, start, stop in cut[rank]:
        moves.append(Move(Kind.REDUCE, in_order, f"r{number}", start, stop, rank, True))
        moves.append(Move(Kind.SEND, others, f"g{number}", start, stop))
    for peer in others[::-1]:
        for number, start, stop in cut[peer]:
            moves.append(Move(Kind.TAKE, (peer,), f"g{number}", start, stop))
    return moves


def _ring(rank: int, cut: _Segments) -> Lane:
    """Blocks travel round the ring and each rank adds its own; then the sums travel round."""
    size = len(cut)
    right, left = ((rank + 1) % size,), ((rank - 1) % size,)

    def turn(letter: str, sent: int, taken: int, step: int, kind: Kind) -> Iterator[Move]:
        for number, start, stop in cut[sent]:
            yield Move(Kind.SEND, right, f"{letter}{step}.{number}", start, stop)
        for number, start, stop in cut[taken]:
            last = kind is Kind.REDUCE and step == size - 2
            yield Move(kind, left, f"{letter}{step}.{number}", start, stop, 1, last)

    moves: Lane = []
    for step in range(size - 1):
        moves += turn("r", (rank - step) % size, (rank - step - 1) % size, step, Kind.REDUCE)
    for step in range(size - 1):
        moves += turn("g", (rank + 1 - step) % size, (rank - step) % size, step, Kind.TAKE)
    return moves
