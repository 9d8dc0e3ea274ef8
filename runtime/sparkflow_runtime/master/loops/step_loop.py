"""Step loops over all partitions of an executable, which begin and end together."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from typing import Any

import numpy as np

from sparkflow_runtime.errors import CancelledError, InvalidArgumentError, OpError
from sparkflow_runtime.master.executable import Executable
from sparkflow_runtime.master.running import InBackground, Pending, failure_of
from sparkflow_runtime.master.updates import LoopUpdates
from sparkflow_runtime.worker.loop import Listen, LoopEnd, LoopTerms, LoopUpdate


class Loop:
    """A running step loop. Thread-safe.

    Args:
        executable: The executable that runs in every step.
        terms: How long the loop lasts; bounds are by the index of a fetch.
        args: One host array per feed, the same in every step.

    Raises:
        InvalidArgumentError: There is nothing to run, the number of steps is negative, or a value
            does not fit its feed.
    """

    def __init__(self, executable: Executable, terms: LoopTerms, args: Sequence[Any] = ()) -> None:
        if terms.num_steps is not None and terms.num_steps < 0:
            raise InvalidArgumentError(
                message=f"A loop cannot have {terms.num_steps} steps; with None it runs until "
                "its data end"
            )
        if not executable.parts:
            raise InvalidArgumentError(message="A loop needs at least one operation to run")
        executable.check_args(args)
        self._updates = LoopUpdates()
        self._executable = executable
        self._terms = terms
        self._args = args
        self._step = executable.steps.begin()
        self._lock = threading.Lock()
        self._stopping = False
        self._running = len(executable.parts)
        self._shortest: int | None = None
        threading.Thread(target=self._run, name="loop-join", daemon=True).start()

    @property
    def done(self) -> bool:
        """Whether the loop has ended in any way."""
        return self._updates.done

    def wait(self, timeout_s: float | None = None) -> LoopEnd:
        """Blocks until the loop has ended, see `LoopUpdates.wait`."""
        return self._updates.wait(timeout_s)

    def updates(self) -> Iterator[LoopUpdate]:
        """Yields the steps' results as they arrive, see `LoopUpdates.follow`."""
        return self._updates.follow()

    def poll(self, interval_s: float | None) -> Iterator[LoopUpdate | None]:
        """As `follow`, but also yields None whenever nothing arrived for a number of seconds."""
        return self._updates.poll(interval_s)

    def stop(self) -> None:
        """Ends the loop at the next step that all partitions can reach; does not wait for it.

        All partitions complete the steps that any of them has begun: a step that waits for
        something that never arrives needs `cancel`. May be called again.
        """
        stop_together([self])

    def _hold(self) -> list[Future[int]]:
        """Lets no partition begin another step; returns how many each has begun ([] if stopped)."""
        with self._lock:
            if self._stopping:
                return []
            self._stopping = True
        return [link.hold_loop(self._step.id) for link in self._executable.steps.links]

    def _end_after(self, num_steps: int) -> None:
        for link in self._executable.steps.links:
            link.end_loop(self._step.id, num_steps)

    def cancel(self, reason: str = "The loop was cancelled") -> None:
        """Ends the loop in the middle of its current step, with a CancelledError."""
        self._step.cancel(CancelledError(message=reason))

    def _run(self) -> None:
        try:
            begin = self._begin if self._terms.num_steps != 0 else list
            ends = self._executable.steps.run(self._step, begin)
            first = min(ends, key=lambda end: end.num_steps, default=LoopEnd(0))
            why = [end for end in ends if end.out_of_range and end.num_steps == first.num_steps]
            self._updates.finish(why[0] if why else first)
        except BaseException as error:
            self._updates.finish(error)

    def _begin(self) -> Iterator[Pending]:
        executable, terms = self._executable, self._terms
        joined = JoinedUpdates([part.results for part in executable.parts], self._updates.publish)
        for part, listen in zip(executable.parts, joined.listeners, strict=True):
            future = part.link.run_loop(
                executable.session,
                part.handle,
                self._step.id,
                {index: self._args[index] for index in part.args},
                LoopTerms(
                    terms.num_steps,
                    terms.first_step,
                    {i: bound for i, bound in terms.bounds.items() if i in part.results},
                ),
                listen,
            )
            future.add_done_callback(self._one_ended)
            yield InBackground(self._step, future)

    def _one_ended(self, future: Future[LoopEnd]) -> None:
        """Ends the other partitions after the same number of steps as one that ended early."""
        if failure_of(future) is not None:
            return
        count, limit = future.result().num_steps, self._terms.num_steps
        with self._lock:
            self._running -= 1
            if not self._running or count == limit:
                return
            if self._shortest is not None and self._shortest <= count:
                return
            self._shortest = count
        self._end_after(count)


def stop_together(loops: Sequence[Loop]) -> None:
    """Ends several loops after the same number of steps, the first that all of them can reach.

    For replicas that wait for each other within a step. Does not wait until they have ended. Loops
    that were stopped or have ended before are left alone.
    """
    held = [(loop, loop._hold()) for loop in loops]
    begun = [each for _, futures in held for each in futures]
    left = len(begun)
    lock = threading.Lock()

    def count(_: Future[int]) -> None:
        nonlocal left
        with lock:
            left -= 1
            if left:
                return
        known = [each.result() for each in begun if each.exception() is None]
        for loop, futures in held:
            error = next(filter(None, (each.exception() for each in futures)), None)
            if isinstance(error, OpError):
                # The partitions cannot agree on a step, unless the loop is over already.
                loop._step.cancel(error)
            elif futures:
                loop._end_after(max(known))

    for each in begun:
        each.add_done_callback(count)


class JoinedUpdates:
    """Joins the updates of several partitions: one update per step, with all results.

    A step is reported when every partition has completed it. `_lock` guards all fields.

    Args:
        results: Per partition the indices of its results among the fetches.
        listen: Receives the joined updates, each in the thread that delivers the last part of it.

    Attributes:
        listeners: The receivers of each partition's updates.
    """

    def __init__(self, results: Sequence[Sequence[int]], listen: Listen) -> None:
        self._lock = threading.Lock()
        self._listen = listen
        self._results = results
        self._waiting: list[deque[LoopUpdate]] = [deque() for _ in results]
        self.listeners: list[Listen] = [self._listener(queue) for queue in self._waiting]

    def _listener(self, waiting: deque[LoopUpdate]) -> Listen:
        def listen(update: LoopUpdate) -> None:
            with self._lock:
                waiting.append(update)
                while all(self._waiting):
                    self._listen(self._next())

        return listen

    def _next(self) -> LoopUpdate:
        count = min(queue[0].num_steps for queue in self._waiting)
        heads = [_take(queue, count) for queue in self._waiting]
        values: dict[int, np.ndarray[Any, Any]] = {}
        for places, head in zip(self._results, heads, strict=True):
            values.update(zip(places, head.values, strict=True))
        # The waiting time of the fetches' partitions; without any, the first partition's.
        reporting = [head for head in heads if head.values] or heads[:1]
        return LoopUpdate(
            heads[0].first_step,
            count,
            tuple(values[place] for place in sorted(values)),
            max(head.waited_s for head in reporting),
            max(head.elapsed_s for head in reporting),
        )


def _take(queue: deque[LoopUpdate], count: int) -> LoopUpdate:
    """Removes and returns the first `count` steps of the first update; the rest stays."""
    update = queue.popleft()
    if update.num_steps == count:
        return update
    share = count / update.num_steps
    waited_s, elapsed_s = update.waited_s * share, update.elapsed_s * share
    queue.appendleft(
        LoopUpdate(
            update.first_step + count,
            update.num_steps - count,
            tuple(value[count:] for value in update.values),
            update.waited_s - waited_s,
            update.elapsed_s - elapsed_s,
        )
    )
    return LoopUpdate(
        update.first_step,
        count,
        tuple(value[:count] for value in update.values),
        waited_s,
        elapsed_s,
    )
