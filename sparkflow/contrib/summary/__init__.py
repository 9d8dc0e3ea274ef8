"""`tf.contrib.summary`: summaries by the step, written by the writer that is the default."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import sparkflow as tf

__all__ = [
    "always_record_summaries",
    "create_file_writer",
    "flush",
    "histogram",
    "never_record_summaries",
    "record_summaries_every_n_global_steps",
    "scalar",
    "should_record_summaries",
]


class _State(threading.local):
    """What a thread records, and where to."""

    def __init__(self) -> None:
        self.record: Any = False
        self.writer: _Writer | None = None


_state = _State()


class _Writer:
    """Where summaries go; a `FileWriter` that can be the default."""

    def __init__(self, logdir: str) -> None:
        self._events = tf.summary.FileWriter(logdir)

    @contextlib.contextmanager
    def as_default(self) -> Iterator[_Writer]:
        """Makes the writer the default inside the block; flushes it at the end."""
        before, _state.writer = _state.writer, self
        try:
            yield self
        finally:
            _state.writer = before
            self.flush()

    def set_as_default(self) -> None:
        """Makes the writer the default from now on."""
        _state.writer = self

    def flush(self) -> None:
        """Writes what was added to the file."""
        self._events.flush()

    def close(self) -> None:
        """Flushes and closes the file."""
        self._events.close()

    def add(self, summary: Any, step: Any) -> None:
        """Adds a summary of a step."""
        self._events.add_summary(summary, step)


def create_file_writer(
    logdir: str,
    max_queue: Any = None,
    flush_millis: Any = None,
    filename_suffix: Any = None,
    name: Any = None,
) -> Any:
    """A writer of event files in a directory.

    Args:
        logdir: The directory.
        max_queue: Accepted for TensorFlow's sake, as the others.
        flush_millis: See `max_queue`.
        filename_suffix: See there.
        name: See there.
    """
    return _Writer(logdir)


@contextlib.contextmanager
def _recording(record: Any) -> Iterator[None]:
    before, _state.record = _state.record, record
    try:
        yield
    finally:
        _state.record = before


def always_record_summaries() -> Any:
    """Records every step inside."""
    return _recording(True)


def never_record_summaries() -> Any:
    """Records nothing inside."""
    return _recording(False)


def record_summaries_every_n_global_steps(n: int, global_step: Any = None) -> Any:
    """Records every nth step inside."""
    step = tf.train.get_or_create_global_step() if global_step is None else global_step
    return _recording(lambda: int(step) % n == 0)


def should_record_summaries() -> bool:
    """Whether the current step is recorded."""
    record = _state.record
    return bool(record() if callable(record) else record)


def _write(make: Any, name: str, tensor: Any, step: Any) -> None:
    writer = _state.writer
    if writer is None or not should_record_summaries():
        return
    if not tf.executing_eagerly():
        raise RuntimeError(
            f"tf.contrib.summary ({name}) writes in eager execution; in a graph use tf.summary and "
            "a tf.summary.FileWriter"
        )
    step = tf.train.get_or_create_global_step() if step is None else step
    held: Any = tf.convert_to_tensor(tensor)
    value = held.numpy()
    with tf.Graph().as_default(), tf.Session() as session:
        summary = session.run(make(name, tf.constant(value)))
    writer.add(summary, int(step))


def scalar(name: str, tensor: Any, family: str | None = None, step: Any = None) -> None:
    """Writes a number.

    Raises:
        RuntimeError: Execution is not eager.
    """
    _write(tf.summary.scalar, f"{family}/{name}" if family else name, tensor, step)


def histogram(name: str, tensor: Any, family: str | None = None, step: Any = None) -> None:
    """Writes a histogram.

    Raises:
        RuntimeError: Execution is not eager.
    """
    _write(tf.summary.histogram, f"{family}/{name}" if family else name, tensor, step)


def flush(writer: Any = None, name: str | None = None) -> None:
    """Writes what was added to the file."""
    chosen = _state.writer if writer is None else writer
    if chosen is not None:
        chosen.flush()
