"""One rank's run of a collective: agrees with the others, exchanges, merges.

Every run begins with a greeting from each rank to each other: its operation, and the weight of its
values. It reveals ranks whose graphs differ. Small arrays travel in the greeting itself, larger
ones according to `collective_plan`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import numpy as np

from sparkflow_runtime.dtypes import wide
from sparkflow_runtime.errors import (
    InternalError,
    InvalidArgumentError,
    OpError,
    from_status,
    to_status,
)
from sparkflow_runtime.resources.collectives import collective_plan as plan
from sparkflow_runtime.resources.collectives.collective_plan import Kind, Lane
from sparkflow_runtime.resources.collectives.collective_sums import Array, Merge, merge_into

SMALL_BYTES: Final = 1 << 15
"""Arrays up to this size are sent whole to every rank: one message instead of two."""
SEGMENT_BYTES: Final = 2 << 20
TWO_LANES_BYTES: Final = 4 << 20
"""From this size on two threads are used: while one waits, the other adds."""
_MAX_TEXT_BYTES: Final = 4096


class Meeting(Protocol):
    """Where ranks exchange tensors. Safe to use from several threads."""

    def send(
        self, key: str, turn: int, destination: str, values: tuple[Any, ...], lent: bool = False
    ) -> None:
        """Sends tensors to the rank on the device `destination`.

        Args:
            key: The message's name.
            turn: The message's index among those of this name.
            destination: The receiver's device.
            values: The tensors; they may change once this returns.
            lent: Whether the values stay unchanged until the receiver has read them, so that it may
                read them in place.
        """

    def receive(self, key: str, turn: int, source: str) -> tuple[Any, ...]:
        """Waits for the tensors that the rank on the device `source` sent under `key`.

        Raises:
            OpError: The rank is gone, or the meeting has ended.
        """

    def submit(self, call: Callable[[], Any]) -> Future[Any]:
        """Runs a call in a separate thread."""

    def release(self, instance: int, turn: int) -> None:
        """Releases what this rank lent in the run of an instance: all others have read it."""

    def end(self, error: OpError, is_complete: Callable[[str, int], bool]) -> None:
        """Ends the meeting for this rank and those that wait for it; does not block.

        It ends at once, unless others have not received what this rank sent in steps that are
        complete here: they have contributed, and may get the result for a few more seconds.

        Args:
            error: The error that the others get.
            is_complete: Whether a message, by its key and index, is part of such a step.
        """

    def leave(self, error: OpError) -> None:
        """Ends it once the others have received what this rank sent, or after a few seconds.

        If it is ending already, waits until it has ended.
        """


@dataclass(frozen=True, slots=True)
class Group:
    """The ranks of a collective group.

    Attributes:
        key: The group's number in its graph.
        rank: This rank.
        devices: The device of each rank, by rank.
        between: Whether the ranks are in separate sessions.
    """

    key: int
    rank: int
    devices: tuple[str, ...]
    between: bool = False

    @property
    def size(self) -> int:
        """The number of ranks."""
        return len(self.devices)

    @property
    def others(self) -> list[int]:
        """The other ranks, beginning with the next."""
        return [(self.rank + distance) % self.size for distance in range(1, self.size)]

    def describe(self, rank: int) -> str:
        """Returns a rank's name in errors."""
        return f"rank {rank} ({self.devices[rank]})"


@dataclass(slots=True)
class Exchange:
    """One run of one instance. Its lanes use it from several threads.

    Attributes:
        meeting: Where the ranks exchange tensors.
        group: The ranks.
        instance: The instance's key, the same on all ranks.
        turn: The run's index, the same on all ranks.
        waits_for: The rank that was last awaited, for error texts.
    """

    meeting: Meeting
    group: Group
    instance: int
    turn: int
    waits_for: int | None = field(default=None, init=False)

    def send(
        self, peers: Sequence[int], tag: str, values: tuple[Any, ...], lent: bool = False
    ) -> None:
        """Sends tensors to each of the ranks, see `Meeting.send`."""
        for peer in peers:
            key = self._key(self.group.rank, peer, tag)
            self.meeting.send(key, self.turn, self.group.devices[peer], values, lent)

    def receive(self, peer: int, tag: str) -> tuple[Any, ...]:
        """Waits for the tensors of another rank.

        Raises:
            OpError: They cannot arrive; the text names the rank.
        """
        self.waits_for = peer
        key = self._key(peer, self.group.rank, tag)
        try:
            return self.meeting.receive(key, self.turn, self.group.devices[peer])
        except OpError as error:
            code, text = to_status(error)
            if self.title in text:
                raise  # its text names the failed rank already
            where = f"{self.title} has lost {self.group.describe(peer)}"
            raise from_status(code, f"{where}: {text}") from error

    @property
    def title(self) -> str:
        """Its name in errors."""
        return f"Collective instance {self.instance} of group {self.group.key}"

    def _key(self, sender: int, receiver: int, tag: str) -> str:
        return f"collective{self.group.key}.{self.instance}.{sender}.{receiver}-{tag}"


def instance_of(key: str) -> int:
    """Returns the instance whose runs exchange messages under a key."""
    return int(key.split(".")[1])


def greet(
    exchange: Exchange, text: str, weight: float = 1.0, values: tuple[Any, ...] = ()
) -> tuple[list[float], list[tuple[Any, ...]]]:
    """Exchanges with all ranks what each is about to do.

    Args:
        exchange: The run.
        text: Describes the operation: must be the same on all ranks.
        weight: The weight of this rank's values.
        values: Tensors to send along.

    Returns:
        The weight of each rank, and its tensors.

    Raises:
        InvalidArgumentError: A rank is about to run another operation.
        OpError: A rank is lost.
    """
    group = exchange.group
    head = np.frombuffer(text.encode(), np.uint8)
    exchange.send(group.others, "hello", (head, np.float64(weight), *values))
    weights, given = [weight] * group.size, [values] * group.size
    for peer in group.others:
        message = exchange.receive(peer, "hello")
        if len(message) < 2 or len(message[0]) > _MAX_TEXT_BYTES:
            raise InternalError(message=f"{exchange.title}: a malformed greeting of rank {peer}")
        other = bytes(message[0]).decode(errors="replace")
        if other != text:
            raise InvalidArgumentError(
                message=f"{exchange.title}: {group.describe(group.rank)} does {text}, "
                f"{group.describe(peer)} does {other}. All ranks must run the same graph on "
                "tensors of the same shape"
            )
        weights[peer], given[peer] = float(message[1]), tuple(message[2:])
    return weights, given


def all_reduce(
    exchange: Exchange, buffer: Array, op: str, divide: bool, weight: float | None = None
) -> None:
    """Merges the buffers of all ranks into each of them.

    Args:
        exchange: The run.
        buffer: [n], this rank's values, replaced by the merged ones. Not used by anything else.
        op: `Add`, `Mul`, `Min` or `Max`.
        divide: Whether to divide the result by the number of ranks.
        weight: This rank's weight in a weighted mean: values with weight 0 do not count, whatever
            they are. None for the plain merge.

    Raises:
        InvalidArgumentError: The ranks' operations differ, or a weight is negative or not finite.
        OpError: A rank is lost, or something ended the run.
    """
    group = exchange.group
    how = ("/n" if divide else "") + ("" if weight is None else " by weights")
    text = f"all-reduce {op}{how} {buffer.dtype} [{len(buffer)}]"
    is_small = buffer.nbytes <= SMALL_BYTES or group.size == 1
    along = (buffer,) if is_small else ()
    weights, given = greet(exchange, text, 1.0 if weight is None else weight, along)
    shares = None if weight is None else shares_of(exchange, weights)
    merge = Merge(op, group.size if divide else 1, shares)
    if is_small:
        parts = [_part(exchange, each, buffer) for each in given]
        merge_into(buffer, parts, merge, range(group.size))
        return
    work = buffer
    if plan.is_ring(group.size):
        # Partial sums travel: in the wider dtype, with each rank's values already weighted.
        work = buffer.astype(wide(buffer.dtype), copy=False)
        if shares is not None:
            merge_into(work, [work], Merge(op, 1, shares), [group.rank])
            merge = Merge(op, merge.divisor)
    longest = max(1, SEGMENT_BYTES // work.itemsize)
    num_lanes = 2 if work.nbytes >= TWO_LANES_BYTES else 1
    lanes = plan.all_reduce(group.rank, group.size, len(work), longest, num_lanes)
    run_lanes(exchange, lanes, work, merge)
    if work is not buffer:
        buffer[...] = work


def broadcast(
    exchange: Exchange, buffer: Array, is_sender: bool, longest: int | None = None
) -> None:
    """Copies the sender's buffer into the buffers of all ranks.

    Args:
        exchange: The run.
        buffer: [n], the values, or the memory to fill.
        is_sender: Whether this rank has the values; true for exactly one rank.
        longest: Elements of a segment.

    Raises:
        InvalidArgumentError: The ranks' operations differ, or not exactly one sends.
        OpError: A rank is lost, or something ended the run.
    """
    group = exchange.group
    text = f"broadcast {buffer.dtype} [{len(buffer)}]"
    weights, _ = greet(exchange, text, float(is_sender))
    senders = [rank for rank, weight in enumerate(weights) if weight]
    if len(senders) != 1:
        ranks = ", ".join(map(str, senders)) or "none"
        raise InvalidArgumentError(
            message=f"{exchange.title}: exactly one rank sends in a broadcast, here {ranks}"
        )
    if longest is None:
        longest = max(1, SEGMENT_BYTES // buffer.itemsize)
    lane = plan.broadcast(group.rank, group.size, senders[0], len(buffer), longest)
    run_lanes(exchange, [lane], buffer, Merge("Add"))


def all_gather(
    exchange: Exchange, text: str, values: tuple[Any, ...], weight: float = 1.0
) -> tuple[list[float], list[tuple[Any, ...]]]:
    """Returns all ranks' weights and tensors, by rank. Sizes along the first axis may differ.

    Raises:
        InvalidArgumentError: The ranks' operations differ.
        OpError: A rank is lost, or something ended the run.
    """
    return greet(exchange, f"all-gather {text}", weight, values)


def shares_of(exchange: Exchange, weights: Sequence[float]) -> tuple[float, ...]:
    """Returns each weight divided by their sum; zeros if all are 0.

    Raises:
        InvalidArgumentError: A weight is negative or not finite.
    """
    for rank, weight in enumerate(weights):
        if not (np.isfinite(weight) and weight >= 0):
            raise InvalidArgumentError(
                message=f"{exchange.title}: {exchange.group.describe(rank)} has weight {weight}; "
                "a weight is finite and at least 0"
            )
    total = sum(weights)
    return tuple(weight / total if total else 0.0 for weight in weights)


def run_lanes(exchange: Exchange, lanes: Sequence[Lane], buffer: Array, merge: Merge) -> None:
    """Runs the moves of all lanes on the buffer: the first in this thread, others in parallel.

    Sent memory is lent. Within a plan, memory sent to a rank changes only by what that rank sends
    after it has read it. The final buffer may still be read by others until the next run has begun
    on all ranks, which is before it ends on any: so two buffers alternate between runs.
    """
    beside = [
        exchange.meeting.submit(functools.partial(_run_lane, exchange, lane, buffer, merge))
        for lane in lanes[1:]
    ]
    for lane in lanes[:1]:
        _run_lane(exchange, lane, buffer, merge)
    for future in beside:
        future.result()


def _run_lane(exchange: Exchange, lane: Lane, buffer: Array, merge: Merge) -> None:
    own = exchange.group.rank
    for move in lane:
        piece = buffer[move.start : move.stop]
        if move.kind is Kind.SEND:
            exchange.send(move.peers, move.tag, (piece,), lent=True)
            continue
        received = [_part(exchange, exchange.receive(p, move.tag), piece) for p in move.peers]
        if move.kind is Kind.TAKE:
            piece[...] = received[0]
            continue
        ranks = list(move.peers)
        received.insert(move.own_at, piece)
        ranks.insert(move.own_at, own)
        merge_into(piece, received, merge, ranks, move.is_last)


def _part(exchange: Exchange, message: tuple[Any, ...], like: Array) -> Array:
    """Returns the single array of a message."""
    if len(message) == 1 and isinstance(message[0], np.ndarray):
        array: Array = message[0]
        if array.dtype == like.dtype and array.shape == like.shape:
            return array
    found = ", ".join(f"{np.asarray(each).dtype}{np.shape(each)}" for each in message)
    raise InternalError(
        message=f"{exchange.title}: expected {like.dtype}{like.shape}, "
        f"received {found or 'nothing'}"
    )
