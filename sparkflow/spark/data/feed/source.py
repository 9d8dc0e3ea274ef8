"""Sources of batches: a thread prepares the next batches while a step runs.

Every batch includes the time that its step waited for it; the driver adds these times up like
losses.

Positions number the rows in the order of their arrival.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from sparkflow.spark.data.feed.row_table import Chunk, Components, RowTable
from sparkflow.spark.data.feed_plan import ARRIVAL, FeedPlan, Shards
from sparkflow_runtime.errors import OutOfRangeError

_PORTION_BYTES: Final = 2 << 20
"""Bytes gathered at once; fits into the cache of a core."""
_PORTIONS_AHEAD: Final = 2
_END = "End of the {} data"

Positions: TypeAlias = npt.NDArray[np.int64]
Portion: TypeAlias = tuple[list[Components], list[int]]
"""Batches, and their numbers of rows."""


class RowSource:
    """A `BatchSource` of rows that arrive in files. Thread-safe.

    `_state` guards everything that is not used by the preparing thread alone. Subclasses define the
    order of batches in `_draw`.

    Args:
        table: The rows, empty at first; from now on used by the preparing thread only.
        use: `training` or `validation`, for error texts.
    """

    def __init__(self, table: RowTable, use: str) -> None:
        self._table = table
        self._use = use
        self._state = threading.Condition()
        self._chunks: list[Chunk] = []
        self._complete = False
        self._ready: deque[Portion] = deque()
        self._current: Iterator[tuple[Components, int]] = iter(())
        self._ended: BaseException | None = None
        self._thread: threading.Thread | None = None

    @property
    def is_closed(self) -> bool:
        """Whether no more batches will be requested."""
        with self._state:
            return self._ended is not None

    def add(self, chunk: Chunk) -> None:
        """Records that more rows have arrived."""
        with self._state:
            self._chunks.append(chunk)
            self._state.notify_all()

    def complete(self) -> None:
        """Records that all rows have arrived."""
        with self._state:
            self._complete = True
            self._state.notify_all()

    def fail(self, error: BaseException) -> None:
        """Records that the rows will never be complete: from now on `next` raises this error."""
        with self._state:
            self._end(error)

    def next_batch(self) -> Components:
        """Returns the components of the next batch; may block until rows arrive.

        Raises:
            OutOfRangeError: There are no more batches, or the source was closed.
        """
        with self._state:
            for components, rows in self._current:
                return (*components, np.zeros((), np.float32), np.array(rows, np.float32))
            waited_s = self._wait_for_portion()
            batches, counts = self._ready.popleft()
            self._current = zip(batches, counts, strict=True)
            self._state.notify_all()
            components, rows = next(self._current)
        return (*components, np.array(waited_s, np.float32), np.array(rows, np.float32))

    def close(self) -> None:
        """Ends the batches and releases the rows. May be called more than once."""
        with self._state:
            self._end(OutOfRangeError(message=_END.format(self._use)))
            self._ready.clear()
            self._current = iter(())
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _wait_for_portion(self) -> float:
        """Waits until a portion is ready and returns the seconds waited; `_state` is held."""
        if self._thread is None and self._ended is None:
            name = f"{self._use} data"
            thread = threading.Thread(target=self._prepare, name=name, daemon=True)
            thread.start()
            self._thread = thread
        started = time.perf_counter()
        while not self._ready:
            if self._ended is not None:
                raise self._ended
            self._state.wait()
        return time.perf_counter() - started

    def _end(self, error: BaseException) -> None:
        if self._ended is None:
            self._ended = error
        self._state.notify_all()

    def _prepare(self) -> None:
        """The preparing thread: gathers portions, `_PORTIONS_AHEAD` ahead of their use."""
        try:
            for portion in self._draw():
                with self._state:
                    while len(self._ready) >= _PORTIONS_AHEAD and self._ended is None:
                        self._state.wait()
                    if self._ended is not None:
                        break
                    self._ready.append(portion)
                    self._state.notify_all()
            error: BaseException = OutOfRangeError(message=_END.format(self._use))
        except BaseException as failure:  # raised again by `next`
            error = failure
        with self._state:
            self._end(error)
        self._table.close()

    def _draw(self) -> Iterator[Portion]:
        """Yields the portions: batches and their numbers of rows."""
        raise NotImplementedError

    def _wait_for_rows(self, more: bool) -> bool:
        """Maps the rows that have arrived and returns whether they are complete.

        Args:
            more: Whether to wait until more rows have arrived.

        Raises:
            OutOfRangeError: The source was closed.
        """
        with self._state:
            while more and not self._chunks and not self._complete and self._ended is None:
                self._state.wait()
            if self._ended is not None:
                raise self._ended
            chunks, self._chunks = self._chunks, []
            complete = self._complete
        for chunk in chunks:
            self._table.append(chunk)
        return complete

    def _wait_for_all_rows(self) -> None:
        while not self._wait_for_rows(more=True):
            pass

    def _portion_rows(self, batch_size: int) -> int:
        # Reading rows of large files makes pages resident, which are released after each portion.
        size_bytes = 0 if self._table.is_large else _PORTION_BYTES
        return portion_rows(self._table.row_bytes, batch_size, size_bytes)

    def _portions(self, positions: Positions, batch_size: int) -> Iterator[Portion]:
        size = self._portion_rows(batch_size)
        for first in range(0, len(positions), size):
            chosen = positions[first : first + size]
            yield self._table.take(chosen, batch_size), _counts(len(chosen), batch_size)


class TrainingSource(RowSource):
    """The batches of the epochs of a `FeedPlan`.

    Args:
        table: The rows, empty at first.
        plan: What to feed.
        worker: The worker's index.
    """

    def __init__(self, table: RowTable, plan: FeedPlan, worker: int) -> None:
        super().__init__(table, "training")
        self._plan = plan
        self._worker = worker

    def _draw(self) -> Iterator[Portion]:
        plan = self._plan
        epoch, step = plan.start_of(self._worker)
        # Which rows an interrupted run had used in its first epoch is unknown, so the rest of that
        # epoch is drawn from all rows.
        if (
            epoch < plan.epochs
            and plan.order == ARRIVAL
            and plan.shuffle
            and (epoch, step) == (0, 0)
        ):
            yield from self._padded(self._draw_arrivals(), 0, 0, plan.batch_size, None)
            epoch = 1
        self._wait_for_all_rows()
        if plan.shards is not None:
            yield from self._draw_shards(plan.shards, epoch, step)
            return
        in_order = self._table.in_order() if epoch < plan.epochs else None
        for number in range(epoch, plan.epochs):
            assert in_order is not None
            if not len(in_order) and not plan.steps_per_epoch:
                return  # even if the number of epochs is unlimited
            order = (
                shuffled(in_order, plan.seed, self._worker, number) if plan.shuffle else in_order
            )
            rest = order[step * plan.batch_size :]
            portions = self._portions(rest, plan.batch_size)
            yield from self._padded(portions, step, number, plan.batch_size, in_order)
            step = 0

    def _draw_shards(self, shards: Shards, epoch: int, step: int) -> Iterator[Portion]:
        """Batches that join one batch of each shard, in each shard's own order."""
        plan = self._plan
        size = plan.batch_size
        in_order = self._table.in_order()
        of_shards = shards.cut(self._worker, self._table.numbers_in_order(), in_order)
        for number in range(epoch, plan.epochs):
            orders = [
                shuffled(rows, plan.seed, shard, number) if plan.shuffle else rows
                for shard, rows in of_shards
            ]
            batches = self._joined(orders, step, size)
            yield from self._padded(batches, step, number, size * len(orders), in_order)
            step = 0

    def _joined(self, orders: Sequence[Positions], step: int, size: int) -> Iterator[Portion]:
        """Yields the batches from `step` on, each made of the next `size` rows of every order."""
        whole = min(len(order) // size for order in orders)
        at_once = self._portion_rows(size * len(orders)) // (size * len(orders))
        while step < whole:
            upto = min(step + at_once, whole)
            # [steps, orders, size]: one batch after another.
            chosen = np.stack(
                [order[step * size : upto * size].reshape(-1, size) for order in orders], axis=1
            ).ravel()
            yield self._table.take(chosen, size * len(orders)), [size * len(orders)] * (upto - step)
            step = upto
        longest = max(-(-len(order) // size) for order in orders)
        for last in range(step, longest):
            chosen = np.concatenate([order[last * size : (last + 1) * size] for order in orders])
            yield self._table.take(chosen, len(chosen)), [len(chosen)]

    def _draw_arrivals(self) -> Iterator[Portion]:
        size = self._plan.batch_size
        arrivals = Arrivals(self._plan.seed, self._worker)
        complete = False
        while True:
            # Rows that have arrived in the meantime take part in the draw immediately.
            complete = complete or self._wait_for_rows(more=False)
            arrivals.grow(self._table.positions)
            while len(arrivals) < size and not complete:
                complete = self._wait_for_rows(more=True)
                arrivals.grow(self._table.positions)
            if not len(arrivals):
                return
            most = self._portion_rows(size)
            whole = len(arrivals) // size * size
            drawn = arrivals.draw(min(most, whole) or len(arrivals))
            yield self._table.take(drawn, size), _counts(len(drawn), size)

    def _padded(
        self,
        portions: Iterator[Portion],
        step: int,
        epoch: int,
        size: int,
        in_order: Positions | None,
    ) -> Iterator[Portion]:
        """Adds batches of weight 0 until the epoch has all its steps.

        They are whole batches of the worker's rows, another one in each step: what the model keeps
        besides its gradients, such as moving averages, would else be that of a few rows.

        Args:
            portions: The batches.
            step: Steps of the epoch that are over.
            epoch: From 0.
            size: The number of rows in a batch.
            in_order: The rows by their numbers; None if they are not complete yet.
        """
        for batches, counts in portions:
            step += len(batches)
            yield batches, counts
        if step >= self._plan.steps_per_epoch:
            return
        if in_order is None:
            in_order = self._table.in_order()
        order = shuffled(in_order, self._plan.seed, self._worker, epoch)
        for number in range(step, self._plan.steps_per_epoch):
            if len(order) > size:
                chosen = order[np.arange(number * size, (number + 1) * size) % len(order)]
            else:
                chosen = order
            batch = self._table.take(chosen, size)[0] if len(chosen) else self._table.blank()
            yield [batch], [0]


class ValidationSource(RowSource):
    """The rows in the order of their numbers, repeated forever; ends immediately if there are none.

    Args:
        table: The rows, empty at first.
        batch_size: Rows per batch; the last one of a pass may be shorter.
    """

    def __init__(self, table: RowTable, batch_size: int) -> None:
        super().__init__(table, "validation")
        self._batch_size = batch_size

    def _draw(self) -> Iterator[Portion]:
        self._wait_for_all_rows()
        in_order = self._table.in_order()
        while len(in_order):
            yield from self._portions(in_order, self._batch_size)


def _counts(rows: int, batch_size: int) -> list[int]:
    return [min(batch_size, rows - first) for first in range(0, rows, batch_size)]


def shuffled(in_order: Positions, seed: int, worker: int, epoch: int) -> Positions:
    """Returns the positions of all rows in an order drawn for the epoch.

    Args:
        in_order: Positions by the numbers of their rows, so that the order does not depend on how
            the rows arrived.
        seed: The seed, combined with the other arguments.
        worker: The worker's index.
        epoch: From 0.
    """
    return in_order[np.random.default_rng([seed, worker, epoch]).permutation(len(in_order))]


class Arrivals:
    """The rows of the first epoch that have arrived and were not used.

    Args:
        seed, worker: Determine the order, which also depends on how the rows arrive.
    """

    def __init__(self, seed: int, worker: int) -> None:
        self._generator = np.random.default_rng([seed, worker])
        self._unused: Positions = np.zeros(0, np.int64)
        self._next = 0
        self._count = 0

    def __len__(self) -> int:
        """Returns the number of unused rows."""
        return len(self._unused) - self._next

    def grow(self, positions: Positions) -> None:
        """Adds all rows that have arrived; new ones are mixed with those not used yet."""
        if len(positions) == self._count:
            return
        new = positions[self._count :]
        self._count = len(positions)
        self._unused = np.concatenate([self._unused[self._next :], new])
        self._generator.shuffle(self._unused)
        self._next = 0

    def draw(self, count: int) -> Positions:
        """Returns at most `count` positions; none of them is repeated."""
        drawn = self._unused[self._next : self._next + count]
        self._next += len(drawn)
        return drawn


def portion_rows(row_bytes: float, batch_size: int, portion_bytes: int) -> int:
    """Returns the number of rows to gather at once: whole batches of about `portion_bytes`.

    Gathering has a fixed cost per call.
    """
    batches = int(portion_bytes / max(row_bytes * batch_size, 1))
    return batch_size * max(1, min(batches, 64))
