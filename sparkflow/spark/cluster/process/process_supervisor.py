"""Supervises the child process of one task: restarts it when the driver requests that."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from sparkflow.spark.cluster.child import ORPHANED
from sparkflow.spark.cluster_layout import TaskName
from sparkflow.spark.errors import SparkTrainingError


class Child(Protocol):
    """The part of `ChildProcess` that a supervisor needs."""

    def send(self, message: Mapping[str, Any]) -> None: ...  # noqa: D102  see ChildProcess
    def wait(self) -> int: ...  # noqa: D102
    def describe_end(self, code: int) -> str: ...  # noqa: D102
    def kill(self) -> None: ...  # noqa: D102
    def end(self) -> None: ...  # noqa: D102


class Driver(Protocol):
    """The part of `RegistrationClient` that a supervisor needs."""

    def report_failure(  # noqa: D102  see RegistrationClient
        self, task: TaskName, host: str, error: BaseException | str, lost: bool = False
    ) -> None: ...
    def await_restart(self, task: TaskName) -> bool: ...  # noqa: D102
    def close(self) -> None: ...  # noqa: D102


class ProcessSupervisor:
    """Watches the child of one task in a separate thread. `_lock` guards the other fields.

    Args:
        name: The task.
        start: Starts a child.
        driver: Connects to the driver; called only when there is something to report.
    """

    def __init__(
        self, name: TaskName, start: Callable[[], Child], driver: Callable[[], Driver]
    ) -> None:
        self._name = name
        self._start = start
        self._driver = driver
        self._lock = threading.Lock()
        self._messages: list[Mapping[str, Any]] = []
        self._error: BaseException | None = None
        self._child: Child | None = None
        self._ending = False
        self._thread = threading.Thread(target=self._run, name=f"keeper of {name}", daemon=True)
        self._thread.start()

    def send(self, message: Mapping[str, Any]) -> None:
        """Sends a message to the child, and to its successors.

        Raises:
            SparkTrainingError: The child has ended and is not restarted.
        """
        self._raise_error()
        with self._lock:
            self._messages.append(message)
            child = self._child
            if child is not None:
                child.send(message)

    def wait(self) -> None:
        """Blocks until the child has ended successfully.

        Raises:
            SparkTrainingError: It failed, and is not restarted.
        """
        self._thread.join()
        self._raise_error()

    def fail(self, error: BaseException) -> None:
        """Ends the child because of another error, which `wait` then raises."""
        self._report(error)
        with self._lock:
            self._error = self._error or error
            self._ending = True
            child = self._child
        if child is not None:
            child.kill()

    def end(self) -> None:
        """Ends the child if it is still running, and the thread. May be called more than once."""
        with self._lock:
            self._ending = True
            child = self._child
        if child is not None:
            child.end()
        self._thread.join()

    def _raise_error(self) -> None:
        with self._lock:
            error = self._error
        if error is not None:
            raise error

    def _run(self) -> None:
        # This thread starts the child, because the child dies with the thread that started it.
        try:
            while self._keep_one():
                pass
        except BaseException as error:
            with self._lock:
                self._error = self._error or error

    def _keep_one(self) -> bool:
        """Starts a child and waits for its end; returns whether to start another one."""
        with self._lock:
            if self._ending:
                return False
            self._child = child = self._start()
            for message in self._messages:
                child.send(message)
        code = child.wait()
        with self._lock:
            self._child = None
            ending = self._ending
        child.end()
        if code == 0 or ending:
            return False
        text = child.describe_end(code)
        # Killed, or given up by the driver.
        lost = code < 0 or code == ORPHANED
        driver = self._driver()
        try:
            driver.report_failure(self._name, socket.gethostname(), text, lost)
            if lost and driver.await_restart(self._name):
                return True
        finally:
            driver.close()
        raise SparkTrainingError(text)

    def _report(self, error: BaseException) -> None:
        driver = self._driver()
        try:
            # Our own message is complete; for other errors the driver shows the traceback.
            own = isinstance(error, SparkTrainingError)
            driver.report_failure(self._name, socket.gethostname(), str(error) if own else error)
        finally:
            driver.close()
