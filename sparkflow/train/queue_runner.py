"""`QueueRunner`: threads that keep a queue filled while a session trains."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from typing import Any

from sparkflow import logging
from sparkflow._api import export
from sparkflow.errors import (
    OpError,
    OutOfRangeError,
    error_code_from_exception_type,
    exception_type_from_error_code,
)
from sparkflow.graph.collections import GraphKeys
from sparkflow.graph.default_stack import sessions
from sparkflow.graph.graph import Graph
from sparkflow.graph.scopes import add_to_collection, get_default_graph
from sparkflow.session.session import BaseSession
from sparkflow_runtime.protos.queue_runner_pb2 import QueueRunnerDef


@export("train.QueueRunner")
class QueueRunner:
    """Enqueue operations for one queue, each run again and again by a thread of its own.

    When a thread's data end, it is over; the last one closes the queue. When the coordinator stops,
    the queue is closed and enqueue operations that wait are cancelled. Safe to use from several
    threads: `_lock` guards `_runs_per_session` and `_exceptions_raised`.

    Args:
        queue: The queue.
        enqueue_ops: One per thread; the same operation may be in several times.
        close_op: Closes the queue; waiting enqueue operations are served.
        cancel_op: Closes it and cancels them.
        queue_closed_exception_types: What tells that the data ended; `OutOfRangeError` when None.
        queue_runner_def: A message to restore it from, instead of the above.
        import_scope: Prefix of the names in the message.

    Raises:
        ValueError: Queue or operations are missing, or given besides the message.
        TypeError: `queue_closed_exception_types` are no exceptions of `tf.errors`.
    """

    def __init__(
        self,
        queue: Any = None,
        enqueue_ops: Sequence[Any] | None = None,
        close_op: Any = None,
        cancel_op: Any = None,
        queue_closed_exception_types: tuple[type[OpError], ...] | None = None,
        queue_runner_def: QueueRunnerDef | None = None,
        import_scope: str | None = None,
    ) -> None:
        if queue_runner_def is not None:
            if queue is not None or enqueue_ops is not None:
                raise ValueError("queue_runner_def and queue are mutually exclusive.")
            self._restore(queue_runner_def, import_scope)
        else:
            if queue is None or not enqueue_ops:
                raise ValueError("Must provide queue and enqueue_ops.")
            self._queue = queue
            self._enqueue_ops = list(enqueue_ops)
            self._close_op = queue.close() if close_op is None else close_op
            self._cancel_op = (
                queue.close(cancel_pending_enqueues=True) if cancel_op is None else cancel_op
            )
            self._queue_closed_exception_types = _exceptions(queue_closed_exception_types)
        self._lock = threading.Lock()
        self._runs_per_session: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._exceptions_raised: list[BaseException] = []

    def _restore(self, message: QueueRunnerDef, import_scope: str | None) -> None:
        graph = get_default_graph()
        prefix = f"{import_scope}/" if import_scope else ""

        def found(name: str) -> Any:
            return graph.as_graph_element(prefix + name)

        self._queue = found(message.queue_name)
        self._enqueue_ops = [found(name) for name in message.enqueue_op_name]
        self._close_op = found(message.close_op_name)
        self._cancel_op = found(message.cancel_op_name)
        codes = message.queue_closed_exception_types
        self._queue_closed_exception_types = tuple(
            exception_type_from_error_code(code) for code in codes
        ) or (OutOfRangeError,)

    @property
    def queue(self) -> Any:
        """The queue; its operation where it was restored from a message."""
        return self._queue

    @property
    def enqueue_ops(self) -> list[Any]:
        """One per thread."""
        return self._enqueue_ops

    @property
    def close_op(self) -> Any:
        """Closes the queue."""
        return self._close_op

    @property
    def cancel_op(self) -> Any:
        """Closes the queue and cancels waiting enqueue operations."""
        return self._cancel_op

    @property
    def queue_closed_exception_types(self) -> tuple[type[OpError], ...]:
        """The exceptions that signal the end of the data."""
        return self._queue_closed_exception_types

    @property
    def exceptions_raised(self) -> list[BaseException]:
        """Exceptions of threads without a coordinator since they were created."""
        return self._exceptions_raised

    @property
    def name(self) -> str:
        """The name of the queue."""
        name: str = self._queue.name
        return name

    def create_threads(
        self, sess: Any, coord: Any = None, daemon: bool = False, start: bool = False
    ) -> list[threading.Thread]:
        """Creates the threads for a session.

        Args:
            sess: The session.
            coord: A Coordinator that the threads stop with, and that learns of their failures.
            daemon: Whether the program may end while they run.
            start: Start them.

        Returns:
            The threads; none where those of an earlier call for the session still run.
        """
        with self._lock:
            if self._runs_per_session.get(sess, 0) > 0:
                return []
            self._runs_per_session[sess] = len(self._enqueue_ops)
            self._exceptions_raised = []
        threads = [
            threading.Thread(
                target=self._run,
                args=(sess, op, coord),
                name=f"QueueRunnerThread-{self.name}-{op.name}",
                daemon=daemon,
            )
            for op in self._enqueue_ops
        ]
        if coord is not None:
            threads.append(
                threading.Thread(
                    target=self._close_on_stop,
                    args=(sess, coord),
                    name=f"QueueRunnerThread-{self.name}-close_on_stop",
                    daemon=daemon,
                )
            )
        for thread in threads:
            if coord is not None:
                coord.register_thread(thread)
            if start:
                thread.start()
        return threads

    def _run(self, sess: Any, enqueue_op: Any, coord: Any) -> None:
        try:
            enqueue = _repeated(sess, enqueue_op)
            while coord is None or not coord.should_stop():
                try:
                    enqueue()
                except self._queue_closed_exception_types:
                    self._end(sess, close=True)
                    return
        except Exception as error:
            self._end(sess)
            if coord is not None:
                coord.request_stop(error)
                return
            logging.error("Exception in QueueRunner: %s", error)
            with self._lock:
                self._exceptions_raised.append(error)
            raise
        self._end(sess)

    def _end(self, sess: Any, close: bool = False) -> None:
        """Counts one thread less; the last one closes the queue if its data ended."""
        with self._lock:
            left = self._runs_per_session[sess] = self._runs_per_session[sess] - 1
        if close and not left:
            try:
                sess.run(self._close_op)
            except Exception as error:  # closed already, or the session is
                logging.vlog(1, "Ignored exception: %s", error)

    def _close_on_stop(self, sess: Any, coord: Any) -> None:
        coord.wait_for_stop()
        try:
            sess.run(self._cancel_op)
        except Exception as error:  # closed already, or the session is
            logging.vlog(1, "Ignored exception: %s", error)

    def to_proto(self, export_scope: str | None = None) -> QueueRunnerDef | None:
        """The names of its operations as a message; None where it is outside `export_scope`."""
        prefix = f"{export_scope.rstrip('/')}/" if export_scope else ""
        if not self.name.startswith(prefix):
            return None
        return QueueRunnerDef(
            queue_name=self.name.removeprefix(prefix),
            enqueue_op_name=[op.name.removeprefix(prefix) for op in self._enqueue_ops],
            close_op_name=self._close_op.name.removeprefix(prefix),
            cancel_op_name=self._cancel_op.name.removeprefix(prefix),
            queue_closed_exception_types=[
                error_code_from_exception_type(kind)  # type: ignore[misc]  # the numbers agree
                for kind in self._queue_closed_exception_types
            ],
        )

    @staticmethod
    def from_proto(
        queue_runner_def: QueueRunnerDef, import_scope: str | None = None
    ) -> QueueRunner:
        """The runner whose operations are already in the default graph."""
        return QueueRunner(queue_runner_def=queue_runner_def, import_scope=import_scope)


def _repeated(sess: Any, op: Any) -> Any:
    """What runs an operation, perhaps several times; once for sessions of other kinds."""
    is_plain = isinstance(sess, BaseSession) and (
        type(sess).make_callable is BaseSession.make_callable
    )
    return sess._make_repeated(op) if is_plain else sess.make_callable(op)


def _exceptions(given: Any) -> tuple[type[OpError], ...]:
    if given is None:
        return (OutOfRangeError,)
    if (
        not isinstance(given, tuple)
        or not given
        or not all(isinstance(each, type) and issubclass(each, OpError) for each in given)
    ):
        raise TypeError(
            "queue_closed_exception_types, when provided, must be a tuple of tf.error types, but "
            f"saw: {given}"
        )
    return given


@export("train.add_queue_runner")
def add_queue_runner(qr: QueueRunner, collection: str = GraphKeys.QUEUE_RUNNERS) -> None:
    """Lists a runner, for `start_queue_runners`."""
    add_to_collection(collection, qr)


@export("train.start_queue_runners")
def start_queue_runners(
    sess: Any = None,
    coord: Any = None,
    daemon: bool = True,
    start: bool = True,
    collection: str = GraphKeys.QUEUE_RUNNERS,
) -> list[threading.Thread]:
    """Starts the threads of all runners listed in the session's graph.

    Args:
        sess: The session; the default one when None.
        coord: A Coordinator that they stop with.
        daemon: Whether the program may end while they run.
        start: Start them, not only make them.
        collection: Where they are listed.

    Returns:
        The threads.

    Raises:
        ValueError: There is no session.
        TypeError: `sess` is none.
    """
    if sess is None:
        sess = sessions.top()
        if sess is None:
            raise ValueError(
                "Cannot start queue runners: No default session is registered. Use `with "
                "sess.as_default()` or pass an explicit session to "
                "tf.start_queue_runners(sess=sess)"
            )
    if not isinstance(sess, BaseSession):
        if isinstance(getattr(sess, "graph", None), Graph):
            # A MonitoredSession has started them.
            logging.warning("tf.train.start_queue_runners: %s starts its own.", type(sess).__name__)
            return []
        raise TypeError(f"sess must be a `tf.Session` object. Given class: {type(sess)}")
    threads: list[threading.Thread] = []
    for runner in sess.graph.get_collection(collection):
        threads += runner.create_threads(sess, coord=coord, daemon=daemon, start=start)
    return threads
