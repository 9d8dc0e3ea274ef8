"""Queues of tuples of tensors between steps: `QueueState` decides, `Queue` waits.

The rules are TensorFlow's: operations are served in the order in which they came; one that moves
several elements moves as many as it can and holds its place; closing takes its turn after the
enqueue operations already waiting.
"""

from __future__ import annotations

import heapq
import itertools
import random
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import numpy as np

from sparkflow_runtime import shapes
from sparkflow_runtime.dtypes import DType, as_dtype, string
from sparkflow_runtime.errors import CancelledError, InvalidArgumentError, OpError, OutOfRangeError
from sparkflow_runtime.resources.parking import Request, requested, tell
from sparkflow_runtime.resources.waiting import Cancellation, wait_for
from sparkflow_runtime.shapes import Shape

Element: TypeAlias = tuple[Any, ...]
"""One array per component."""


@dataclass(slots=True, eq=False)
class Operation(Request):
    """A request to a queue, done at once or later.

    Attributes:
        elements: Elements still to be enqueued, or those dequeued so far.
        wanted: How many elements are still to be dequeued.
        takes: Whether this is a request to dequeue.
        closes: Whether this is a request to close.
        allow_fewer: Whether a closed queue may answer with the elements it has left.
    """

    elements: deque[Element] = field(default_factory=deque)
    wanted: int = 0
    takes: bool = False
    closes: bool = False
    allow_fewer: bool = False

    @property
    def kind(self) -> str:
        """Its name in error texts."""
        return "Close" if self.closes else "Dequeue" if self.takes else "Enqueue"


class Store(Protocol):
    """Holds the elements of a queue and determines their order.

    Attributes:
        leaves_in_pieces: Whether a request for several elements takes the available ones and waits
            for the rest; otherwise it waits until all are available, so that the order applies to
            all of them.
    """

    leaves_in_pieces: bool

    def __len__(self) -> int: ...

    def add(self, element: Element) -> None:
        """Adds an element."""

    def take(self) -> Element:
        """Removes and returns the next element; there must be one."""

    def restore(self, elements: Iterable[Element]) -> None:
        """Puts elements back, in the order in which they were removed."""


class OldestFirst:
    """First in, first out."""

    leaves_in_pieces = True

    def __init__(self) -> None:
        self._items: deque[Element] = deque()

    def __len__(self) -> int:
        return len(self._items)

    def add(self, element: Element) -> None:
        """See `Store`."""
        self._items.append(element)

    def take(self) -> Element:
        """See `Store`."""
        return self._items.popleft()

    def restore(self, elements: Iterable[Element]) -> None:
        """See `Store`."""
        self._items.extendleft(reversed(list(elements)))


class AnyOrder:
    """Each element is equally likely to be the next.

    Args:
        chooser: Draws the numbers.
    """

    leaves_in_pieces = True

    def __init__(self, chooser: random.Random) -> None:
        self._items: list[Element] = []
        self._chooser = chooser

    def __len__(self) -> int:
        return len(self._items)

    def add(self, element: Element) -> None:
        """See `Store`."""
        self._items.append(element)

    def take(self) -> Element:
        """See `Store`."""
        items = self._items
        index = self._chooser.randrange(len(items))
        items[index], items[-1] = items[-1], items[index]
        return items.pop()

    def restore(self, elements: Iterable[Element]) -> None:
        """See `Store`."""
        self._items.extend(elements)


class LeastFirst:
    """The least first component, a number, leaves first; of equal ones the oldest."""

    leaves_in_pieces = False

    def __init__(self) -> None:
        self._items: list[tuple[int, int, Element]] = []
        self._numbers = itertools.count()

    def __len__(self) -> int:
        return len(self._items)

    def add(self, element: Element) -> None:
        """See `Store`."""
        heapq.heappush(self._items, (int(element[0]), next(self._numbers), element))

    def take(self) -> Element:
        """See `Store`."""
        return heapq.heappop(self._items)[2]

    def restore(self, elements: Iterable[Element]) -> None:
        """See `Store`."""
        for element in elements:
            self.add(element)


class QueueState:
    """A queue's elements and pending operations, without threads: calls set `Operation.done`.

    Args:
        name: Its name in error texts.
        kind: `FIFOQueue` or the like, for error texts.
        capacity: Maximum number of elements; None for no limit.
        min_after_dequeue: How many elements must remain while it is open, to shuffle among.
        store: Holds the elements; None for first in, first out.
    """

    def __init__(
        self,
        name: str,
        kind: str = "FIFOQueue",
        capacity: int | None = None,
        min_after_dequeue: int = 0,
        store: Store | None = None,
    ) -> None:
        self.kind = kind
        self.closed = False
        self.capacity = capacity
        self.min_after_dequeue = min_after_dequeue
        self._label = f"{kind} '{name}'"
        self._name = name
        self._items: Store = OldestFirst() if store is None else store
        self._enqueues: deque[Operation] = deque()
        self._dequeues: deque[Operation] = deque()

    def __len__(self) -> int:
        return len(self._items)

    def enqueue(self, elements: Sequence[Element]) -> Operation:
        """Requests to enqueue elements, in order."""
        return self._submit(self._enqueues, Operation(elements=deque(elements)))

    def dequeue(self, count: int, allow_fewer: bool = False) -> Operation:
        """Requests `count` elements; at least one if `allow_fewer` and the queue is closed."""
        return self._submit(
            self._dequeues, Operation(wanted=count, takes=True, allow_fewer=allow_fewer)
        )

    def close(self, cancel_pending_enqueues: bool) -> Operation:
        """Requests to close, after the pending enqueue operations or by cancelling them."""
        if not cancel_pending_enqueues:
            return self._submit(self._enqueues, Operation(closes=True))
        self.closed = True
        for waiting in self._enqueues:
            waiting.fail(CancelledError(message="Enqueue operation was cancelled"))
        self._enqueues.clear()
        self._advance()
        return Operation(closes=True, done=True)

    def withdraw(self, operation: Operation) -> None:
        """Cancels an operation that is not done; elements it dequeued go back to the front."""
        for line in (self._enqueues, self._dequeues):
            if operation in line:
                line.remove(operation)
                if line is self._dequeues:
                    self._items.restore(operation.elements)
        self._advance()

    def _submit(self, line: deque[Operation], operation: Operation) -> Operation:
        line.append(operation)
        self._advance()
        return operation

    def _advance(self) -> None:
        enqueues, dequeues = self._enqueues, self._dequeues
        moved = True
        while moved:
            moved = bool(enqueues) and self._serve_first(enqueues)
            if dequeues and self._serve_first(dequeues):
                moved = True

    def _serve_first(self, line: deque[Operation]) -> bool:
        """Advances the first operation as far as possible; returns whether anything changed."""
        first = line[0]
        if line is self._dequeues:
            moved = self._take(first)
        else:
            moved = self._shut(first) if first.closes else self._put(first)
        if first.done:
            line.popleft()
        return moved or first.done

    def _shut(self, operation: Operation) -> bool:
        if self.closed:
            operation.fail(CancelledError(message=f"Queue '{self._name}' is already closed."))
        self.closed = operation.done = True
        return True

    def _put(self, operation: Operation) -> bool:
        if self.closed:
            operation.fail(CancelledError(message=f"{self._label} is closed."))
            return True
        moved = False
        while operation.elements and (self.capacity is None or len(self._items) < self.capacity):
            self._items.add(operation.elements.popleft())
            moved = True
        operation.done = not operation.elements
        return moved

    def _take(self, operation: Operation) -> bool:
        size = len(self._items)
        if self.closed and size < operation.wanted:
            if not operation.allow_fewer or not (size or operation.elements):
                # As TensorFlow does, the text counts what was still missing.
                operation.fail(
                    OutOfRangeError(
                        message=f"{self._label} is closed and has insufficient elements "
                        f"(requested {operation.wanted}, current size {size})"
                    )
                )
                self._items.restore(operation.elements)
                return True
            operation.wanted = size
        moved = False
        reserve = 0 if self.closed else self.min_after_dequeue
        if not self._items.leaves_in_pieces and size < operation.wanted:
            return False
        while operation.wanted and len(self._items) > reserve:
            operation.elements.append(self._items.take())
            operation.wanted -= 1
            moved = True
        operation.done = not operation.wanted
        return moved


class Queue:
    """A queue that steps of several sessions share. Safe to use from several threads.

    `_lock` guards `_state`, `_waiting` and `_parked`; each waiting operation has its own condition,
    so that only threads which can go on are woken. Arrays are copied when they enter, so that
    what happens to their source later (a variable, for instance) does not reach the queue.

    Args:
        state: The rules, empty and open.
        component_types: The dtype of each component.
        component_shapes: The shape of each; empty where elements may differ in shape.
        pads: Whether stacked elements are padded with zeros to one shape.
        seeds: The requested seeds; None if it needs none.
    """

    def __init__(
        self,
        state: QueueState,
        component_types: Sequence[DType],
        component_shapes: Sequence[Shape],
        pads: bool = False,
        seeds: tuple[int, int] | None = None,
    ) -> None:
        self.component_types = tuple(component_types)
        self.component_shapes = tuple(component_shapes)
        self._state = state
        self.seeds = seeds
        self._pads = pads
        # used directly: `Condition` enters it in Python code, which is slower
        self._lock = threading.Lock()
        self._waiting: list[tuple[Operation, threading.Condition]] = []
        self._parked: list[Operation] = []  # of runs that wait in no thread

    def enqueue(self, components: Sequence[Any], step: Cancellation) -> None:
        """Enqueues one element; blocks while the queue is full.

        Raises:
            InvalidArgumentError: A component has the wrong dtype or shape.
            CancelledError: The queue is closed, or was while this waited.
        """
        self._run(lambda: self._submit_enqueue([tuple(self._checked(components))]), step)

    def enqueue_many(self, components: Sequence[Any], step: Cancellation) -> None:
        """Enqueues one element per row of the components; blocks while the queue is full.

        Raises:
            InvalidArgumentError: A component has the wrong dtype or shape, or another number of
                rows than the first.
            CancelledError: The queue is closed, or was while this waited.
        """
        rows = int(np.shape(components[0])[0]) if np.ndim(components[0]) else 0

        def ask() -> Operation:
            arrays = self._checked(components, rows)
            elements = [tuple(array[row, ...] for array in arrays) for row in range(rows)]
            # Without rows there is nothing to wait for, even if the queue is full or closed.
            return self._submit_enqueue(elements) if rows else Operation(done=True)

        self._run(ask, step)

    def dequeue(self, step: Cancellation) -> Element:
        """Dequeues one element; blocks while there is none.

        Raises:
            OutOfRangeError: The queue is closed and empty.
        """
        return self._run(lambda: self._submit_dequeue(1, False), step).elements[0]

    def dequeue_many(self, count: int, step: Cancellation, allow_fewer: bool = False) -> Element:
        """Dequeues `count` elements, stacked along a new first axis; blocks until available.

        Args:
            count: At least 0.
            step: Ends the wait when it is cancelled.
            allow_fewer: Whether a closed queue returns the remaining elements, if there are any.

        Raises:
            InvalidArgumentError: The queue's components have no fixed shape, or `count` < 0.
            OutOfRangeError: The queue is closed and has too few elements.
        """
        known = self.component_shapes
        if not known or not (self._pads or all(map(shapes.is_fully_defined, known))):
            raise InvalidArgumentError(
                message=f"{self._state.kind}'s DequeueMany and DequeueUpTo require the components "
                "to have specified shapes."
            )
        if count < 0:
            raise InvalidArgumentError(message=f"Input 'n' must be >= 0, but is {count}")
        elements: Sequence[Element] = ()
        if count:
            elements = self._run(lambda: self._submit_dequeue(count, allow_fewer), step).elements
        return tuple(
            _stack([element[i] for element in elements], dtype, shape)
            for i, (dtype, shape) in enumerate(zip(self.component_types, known, strict=True))
        )

    def request_close(self, cancel_pending_enqueues: bool, step: Cancellation) -> None:
        """Closes the queue: nothing more is enqueued, and what remains can be dequeued.

        Without `cancel_pending_enqueues`, blocks until the pending enqueue operations are done.

        Raises:
            CancelledError: It is closed already (unless `cancel_pending_enqueues`).
        """
        self._run(lambda: self._submit(lambda: self._state.close(cancel_pending_enqueues)), step)

    def close(self) -> None:
        """Closes the queue at once, when it is dropped; pending operations end with errors."""
        self._submit(lambda: self._state.close(True))

    def __len__(self) -> int:
        with self._lock:
            return len(self._state)

    @property
    def kind(self) -> str:
        """`FIFOQueue` or the like."""
        return self._state.kind

    @property
    def limits(self) -> tuple[int, int]:
        """Its capacity, -1 for none, and how many elements must remain to shuffle among."""
        capacity = self._state.capacity
        return -1 if capacity is None else capacity, self._state.min_after_dequeue

    @property
    def is_closed(self) -> bool:
        """Whether the queue is closed."""
        with self._lock:
            return self._state.closed

    def park(self, request: Request, on_done: Callable[[], None]) -> bool:
        """See `parking.Owner`."""
        assert isinstance(request, Operation)
        with self._lock:
            if request.done:
                return False
            request.on_done = on_done
            self._parked.append(request)
        return True

    def give_up(self, request: Request, error: OpError) -> None:
        """See `parking.Owner`: the operation loses its place, and what it dequeued goes back."""
        assert isinstance(request, Operation)
        with self._lock:
            if not request.done:
                self._state.withdraw(request)
                request.fail(_cancelled(request, error))
            served = self._served()
        tell(served)

    def _submit_enqueue(self, elements: Sequence[Element]) -> Operation:
        return self._submit(lambda: self._state.enqueue(elements))

    def _submit_dequeue(self, count: int, allow_fewer: bool) -> Operation:
        return self._submit(lambda: self._state.dequeue(count, allow_fewer))

    def _submit(self, ask: Callable[[], Operation]) -> Operation:
        with self._lock:
            operation = ask()
            served = self._served()
        tell(served)
        return operation

    def _served(self) -> list[Operation]:
        """Wakes the waiting threads that can continue; returns the parked requests to notify."""
        for operation, ended in self._waiting:
            if operation.done:
                ended.notify_all()
        if not self._parked or not any(each.done for each in self._parked):
            return []
        served = [each for each in self._parked if each.done]
        self._parked = [each for each in self._parked if not each.done]
        return served

    def _run(self, ask: Callable[[], Operation], step: Cancellation) -> Operation:
        operation = requested(ask, self)
        if not operation.done:
            self._wait(operation, step)
        if operation.error is not None:
            raise operation.error
        return operation

    def _wait(self, operation: Operation, step: Cancellation) -> None:
        ended = threading.Condition(self._lock)
        waiting = operation, ended
        with self._lock:
            self._waiting.append(waiting)
        try:
            wait_for(ended, lambda: True if operation.done else None, step)
        except BaseException as error:
            with self._lock:
                if not operation.done:
                    self._state.withdraw(operation)
                served = self._served()
            tell(served)
            if isinstance(error, CancelledError):
                raise _cancelled(operation, error) from error
            raise
        finally:
            with self._lock:
                self._waiting.remove(waiting)

    def _checked(self, components: Sequence[Any], rows: int | None = None) -> list[Any]:
        """Returns copies of the components, each with `rows` rows of the queue's shape if given."""
        types = self.component_types
        if len(components) != len(types):
            raise InvalidArgumentError(
                message=f"The queue's elements have {len(types)} components, got {len(components)}"
            )
        known = self.component_shapes or (None,) * len(types)
        arrays = []
        for index, value in enumerate(components):
            dtype, shape = types[index], known[index]
            array = np.array(value, np.object_ if dtype is string else None)
            if array.dtype != dtype.as_numpy_dtype:
                raise InvalidArgumentError(
                    message=f"Type mismatch in tuple component {index}. "
                    f"Expected {dtype.name}, got {as_dtype(array.dtype).name}"
                )
            expected = shape if rows is None else shapes.concatenate((rows,), shape)
            fits = rows is None or array.shape[:1] == (rows,)
            if not (fits and shapes.is_compatible(expected, array.shape)):
                raise InvalidArgumentError(
                    message=f"Shape mismatch in tuple component {index}. "
                    f"Expected {shapes.bracketed(expected)}, got {shapes.bracketed(array.shape)}"
                )
            arrays.append(array)
        return arrays


def _cancelled(operation: Operation, error: OpError) -> OpError:
    """Returns the error of an operation whose step has ended with this error."""
    if isinstance(error, CancelledError):
        return CancelledError(message=f"{operation.kind} operation was cancelled")
    return error


def _stack(values: Sequence[Any], dtype: DType, shape: Shape) -> Any:
    """Stacks arrays along a new first axis; pads dimensions unknown in `shape` to the largest."""
    assert shape is not None
    row = [
        max((np.shape(value)[axis] for value in values), default=0) if size is None else size
        for axis, size in enumerate(shape)
    ]
    if None in shape:
        stacked = np.full((len(values), *row), b"" if dtype is string else 0, dtype.as_numpy_dtype)
        for index, value in enumerate(values):
            stacked[index][tuple(map(slice, np.shape(value)))] = value
        return stacked
    stacked = np.empty((len(values), *row), dtype.as_numpy_dtype)
    for index, value in enumerate(values):
        stacked[index] = value[()]  # a string itself, not an array of one
    return stacked
