"""Queues of tuples of tensors between steps: `QueueState` decides, `Queue` waits.

The rules are TensorFlow's: operations are served in the order in which they came; one that moves
several elements moves as many as it can and holds its place; closing takes its turn after the
enqueue operations already waiting.
"""

from __future__ import annotations

import random
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from sparkflow_runtime import shapes
from sparkflow_runtime.dtypes import DType, string
from sparkflow_runtime.errors import CancelledError, InvalidArgumentError, OpError, OutOfRangeError
from sparkflow_runtime.resources.waiting import Cancellation, wait_for
from sparkflow_runtime.shapes import Shape

Element: TypeAlias = tuple[Any, ...]
"""One array per component."""


@dataclass(slots=True, eq=False)
class Operation:
    """A request to a queue, done at once or later.

    Attributes:
        elements: What is still to be put in, or what was taken out so far.
        wanted: How many elements are still to be taken out.
        closes: Whether this is a request to close.
        allow_fewer: Whether a closed queue may answer with the elements it has left.
        done: Whether the request is over, with `error` or without.
    """

    elements: deque[Element] = field(default_factory=deque)
    wanted: int = 0
    closes: bool = False
    allow_fewer: bool = False
    done: bool = False
    error: OpError | None = None

    def fail(self, error: OpError) -> None:
        """Ends the request with an error."""
        self.done = True
        self.error = error


class QueueState:
    """What a queue holds and who waits, without threads: calls change `Operation.done`.

    Args:
        name: As error texts show it.
        kind: `FIFOQueue` or `RandomShuffleQueue`, for error texts.
        capacity: The most elements it holds; None for no limit.
        min_after_dequeue: How many elements stay behind while it is open, to shuffle among.
        chooser: Picks the element that leaves next; None for the oldest.
    """

    def __init__(
        self,
        name: str,
        kind: str = "FIFOQueue",
        capacity: int | None = None,
        min_after_dequeue: int = 0,
        chooser: random.Random | None = None,
    ) -> None:
        self.kind = kind
        self.closed = False
        self._label = f"{kind} '{name}'"
        self._name = name
        self._capacity = capacity
        self._min_after_dequeue = min_after_dequeue
        self._chooser = chooser
        self._items: deque[Element] = deque()
        self._enqueues: deque[Operation] = deque()
        self._dequeues: deque[Operation] = deque()

    def __len__(self) -> int:
        return len(self._items)

    def enqueue(self, elements: Sequence[Element]) -> Operation:
        """Asks to put in elements, in order."""
        return self._submit(self._enqueues, Operation(deque(elements)))

    def dequeue(self, count: int, allow_fewer: bool = False) -> Operation:
        """Asks for `count` elements; for at least one if `allow_fewer` and the queue is closed."""
        return self._submit(self._dequeues, Operation(wanted=count, allow_fewer=allow_fewer))

    def close(self, cancel_pending_enqueues: bool) -> Operation:
        """Asks to close, after the enqueue operations that wait or instead of them."""
        if not cancel_pending_enqueues:
            return self._submit(self._enqueues, Operation(closes=True))
        self.closed = True
        for waiting in self._enqueues:
            waiting.fail(CancelledError(message="Enqueue operation was cancelled"))
        self._enqueues.clear()
        self._advance()
        return Operation(closes=True, done=True)

    def withdraw(self, operation: Operation) -> None:
        """Gives up an operation that is not done; elements it took out go back to the front."""
        for line in (self._enqueues, self._dequeues):
            if operation in line:
                line.remove(operation)
                if line is self._dequeues:
                    self._items.extendleft(reversed(operation.elements))
        self._advance()

    def _submit(self, line: deque[Operation], operation: Operation) -> Operation:
        line.append(operation)
        self._advance()
        return operation

    def _advance(self) -> None:
        moved = True
        while moved:
            moved = self._serve_first(self._enqueues) | self._serve_first(self._dequeues)

    def _serve_first(self, line: deque[Operation]) -> bool:
        """Lets the first operation of a line do what it can; whether anything changed."""
        if not line:
            return False
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
        while operation.elements and (self._capacity is None or len(self._items) < self._capacity):
            self._items.append(operation.elements.popleft())
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
                self._items.extendleft(reversed(operation.elements))
                return True
            operation.wanted = size
        moved = False
        reserve = 0 if self.closed else self._min_after_dequeue
        while operation.wanted and len(self._items) > reserve:
            operation.elements.append(self._pick())
            operation.wanted -= 1
            moved = True
        operation.done = not operation.wanted
        return moved

    def _pick(self) -> Element:
        if self._chooser is not None:
            self._items.rotate(-self._chooser.randrange(len(self._items)))
        return self._items.popleft()


class Queue:
    """A queue that steps of several sessions share. Safe to use from several threads.

    `_changed` guards `_state`. Arrays are copied when they enter, so that what happens to their
    source later (a variable, for instance) does not reach the queue.

    Args:
        state: The rules, empty and open.
        component_types: The dtype of each component.
        component_shapes: The shape of each; empty where elements may differ in shape.
    """

    def __init__(
        self,
        state: QueueState,
        component_types: Sequence[DType],
        component_shapes: Sequence[Shape],
    ) -> None:
        self.component_types = tuple(component_types)
        self.component_shapes = tuple(component_shapes)
        self._state = state
        self._changed = threading.Condition()

    def enqueue(self, components: Sequence[Any], step: Cancellation) -> None:
        """Puts in one element; blocks while the queue is full.

        Raises:
            InvalidArgumentError: A component has the wrong dtype or shape.
            CancelledError: The queue is closed, or was while this waited.
        """
        self._run(self._submit_enqueue([tuple(self._checked(components))]), step)

    def enqueue_many(self, components: Sequence[Any], step: Cancellation) -> None:
        """Puts in one element per row of the components; blocks while the queue is full.

        Raises:
            InvalidArgumentError: A component has the wrong dtype or shape, or another number of
                rows than the first.
            CancelledError: The queue is closed, or was while this waited.
        """
        rows = int(np.shape(components[0])[0]) if np.ndim(components[0]) else 0
        arrays = self._checked(components, rows)
        elements = [tuple(array[row, ...] for array in arrays) for row in range(rows)]
        self._run(self._submit_enqueue(elements), step)

    def dequeue(self, step: Cancellation) -> Element:
        """Takes out one element; blocks while there is none.

        Raises:
            OutOfRangeError: The queue is closed and empty.
        """
        return self._run(self._submit_dequeue(1, False), step).elements[0]

    def dequeue_many(self, count: int, step: Cancellation, allow_fewer: bool = False) -> Element:
        """Takes out `count` elements, stacked along a new first axis; blocks until they are there.

        Args:
            count: At least 0.
            step: Ends the waiting when it is cancelled.
            allow_fewer: Whether a closed queue answers with what it has left, if that is not 0.

        Raises:
            InvalidArgumentError: The queue's components have no fixed shape, or `count` < 0.
            OutOfRangeError: The queue is closed and has too few elements.
        """
        known = self.component_shapes
        if not known or not all(map(shapes.is_fully_defined, known)):
            raise InvalidArgumentError(
                message=f"{self._state.kind}'s DequeueMany and DequeueUpTo require the components "
                "to have specified shapes."
            )
        if count < 0:
            raise InvalidArgumentError(message=f"Input 'n' must be >= 0, but is {count}")
        elements: Sequence[Element] = ()
        if count:
            elements = self._run(self._submit_dequeue(count, allow_fewer), step).elements
        return tuple(
            _stack([element[i] for element in elements], dtype, shape)
            for i, (dtype, shape) in enumerate(zip(self.component_types, known, strict=True))
        )

    def request_close(self, cancel_pending_enqueues: bool, step: Cancellation) -> None:
        """Closes the queue: nothing more goes in, and takers get what is left.

        Without `cancel_pending_enqueues`, blocks until the enqueue operations that wait are served.

        Raises:
            CancelledError: It is closed already (unless `cancel_pending_enqueues`).
        """
        with self._changed:
            operation = self._state.close(cancel_pending_enqueues)
            self._changed.notify_all()
        self._run(operation, step)

    def close(self) -> None:
        """Closes the queue at once, for whoever drops it; waiting operations end with errors."""
        with self._changed:
            self._state.close(True)
            self._changed.notify_all()

    def __len__(self) -> int:
        with self._changed:
            return len(self._state)

    @property
    def is_closed(self) -> bool:
        """Whether the queue is closed."""
        with self._changed:
            return self._state.closed

    def _submit_enqueue(self, elements: Sequence[Element]) -> Operation:
        with self._changed:
            operation = self._state.enqueue(elements)
            self._changed.notify_all()
        return operation

    def _submit_dequeue(self, count: int, allow_fewer: bool) -> Operation:
        with self._changed:
            operation = self._state.dequeue(count, allow_fewer)
            self._changed.notify_all()
        return operation

    def _run(self, operation: Operation, step: Cancellation) -> Operation:
        try:
            wait_for(self._changed, lambda: True if operation.done else None, step)
        except BaseException:
            with self._changed:
                if not operation.done:
                    self._state.withdraw(operation)
                    self._changed.notify_all()
            raise
        if operation.error is not None:
            raise operation.error
        return operation

    def _checked(self, components: Sequence[Any], rows: int | None = None) -> list[Any]:
        """Copies of the components, each with `rows` rows of the queue's shape if that is given."""
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
                    f"Expected {dtype.name}, got {array.dtype}"
                )
            expected = shape if rows is None else shapes.concatenate((rows,), shape)
            fits = rows is None or array.shape[:1] == (rows,)
            if not (fits and shapes.is_compatible(expected, array.shape)):
                raise InvalidArgumentError(
                    message=f"Shape mismatch in tuple component {index}. "
                    f"Expected {shapes.text(expected)}, got {shapes.text(array.shape)}"
                )
            arrays.append(array)
        return arrays


def _stack(values: Sequence[Any], dtype: DType, shape: Shape) -> Any:
    assert shape is not None
    row = tuple(dim for dim in shape if dim is not None)  # all of them: the caller has checked
    stacked = np.empty((len(values), *row), dtype.as_numpy_dtype)
    for index, value in enumerate(values):
        stacked[index] = value
    return stacked
