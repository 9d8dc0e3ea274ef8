"""A network that loses, holds up, swaps, repeats, changes and cuts some of all that passes.

Every port of a training without Spark (`process_fits.Fit`) is behind it: the driver's, and of each
task that for calls and that of its tensor channel. Tasks take themselves for alone on their
machines (`distant_child`), so that nothing goes through shared memory or Unix sockets.
"""

from __future__ import annotations

import contextlib
import functools
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final
from unittest import mock

from sparkflow.spark.cluster import task
from sparkflow.spark.cluster.process.child_process import ChildProcess
from sparkflow.spark.cluster.registration import RegistrationServer
from sparkflow_runtime.protos import worker_pb2
from sparkflow_runtime.security import Credentials
from sparkflow_runtime.testing.faulty_link import FaultyLink
from sparkflow_runtime.transport import rpc
from sparkflow_runtime.transport.peers import WORKER_SERVICE

FAULTS: Final = ("drop", "delay", "swap", "repeat", "flip", "cut")
AT: Final = "127.0.0.3"
"""The address that tasks say they have; they listen at 127.0.0.1, on the same ports."""
MOST_DELAY_S: Final = 0.5
_ASK_S: Final = 20.0


class Weather:
    """Decides what becomes of each piece. Safe to use from several threads.

    `_lock` guards all fields.

    Args:
        seed: Of the faults; which piece gets which of them depends on the threads all the same.
        share: Of all pieces.
        faults: Those that there are.
        most: So many of them; then all passes as it is.

    Attributes:
        is_calm: Whether all passes as it is until somebody says otherwise.
        pieces: How many passed by.
        counts: How many faults of each kind there were.
    """

    def __init__(
        self,
        seed: int,
        share: float = 0.01,
        faults: tuple[str, ...] = FAULTS,
        most: int = sys.maxsize,
    ) -> None:
        self._lock = threading.Lock()
        self._random = random.Random(seed)
        self._share = share
        self._faults = faults
        self._most = most
        self.is_calm = False
        self.pieces = 0
        self.counts: Counter[str] = Counter()

    def draw(self) -> tuple[str, float]:
        """A fault, or "" for a piece that passes as it is; a number from 0 to 1 for its size."""
        with self._lock:
            self.pieces += 1
            is_over = self.is_calm or self.is_over
            if is_over or self._random.random() >= self._share:
                return "", 0.0
            fault = self._random.choice(self._faults)
            self.counts[fault] += 1
            return fault, self._random.random()

    @property
    def is_over(self) -> bool:
        """Whether all faults that there were to be have come."""
        return self.counts.total() >= self._most

    def disturbance(self) -> _Direction:
        """For one direction of a connection."""
        return _Direction(self)


class _Direction:
    """One direction of a connection; used by one thread."""

    def __init__(self, weather: Weather) -> None:
        self._weather = weather
        self._kept = b""

    def __call__(self, piece: bytes) -> bytes | None:
        kept, self._kept = self._kept, b""
        fault, number = self._weather.draw()
        match fault:
            case "drop":
                return kept
            case "delay":
                time.sleep(number * MOST_DELAY_S)
            case "swap":  # with the next piece, or without one with the other half of its own
                if kept:
                    return piece + kept
                self._kept = piece
                return b""
            case "repeat":
                return piece + piece[int(number * len(piece)) :] + kept
            case "flip":
                place, bit = divmod(int(number * len(piece) * 8), 8)
                changed = bytes([piece[place] ^ 1 << bit])
                piece = piece[:place] + changed + piece[place + 1 :]
            case "cut":
                return None
        return piece + kept


class BadNetwork:
    """The links before the ports of a training. Used by one thread but for `before`.

    `_lock` guards `_links`.

    Args:
        weather: What happens on all of them.
        credentials: What tasks are asked with for their channels.
    """

    def __init__(self, weather: Weather, credentials: Credentials) -> None:
        self._weather = weather
        self._credentials = credentials
        self._lock = threading.Lock()
        self._links: dict[str, FaultyLink] = {}

    def before(self, port: int, listens: str = "") -> str:
        """The address of a link to a port of 127.0.0.1; the same for the same one."""
        target = f"127.0.0.1:{port}"
        with self._lock:
            if target not in self._links:
                link = self._links[target] = FaultyLink(target, listens)
                link.disturb(self._weather.disturbance)
            return self._links[target].address

    def before_task(self, address: str) -> None:
        """Links to the two ports of a task that says to be at `AT`."""
        port = int(address.rpartition(":")[2])
        own = f"127.0.0.1:{port}"
        link = rpc.channel(own, self._credentials.tls)
        with link:
            stub = rpc.Stub(link, WORKER_SERVICE, self._credentials.token, f"The task at {own}")
            status = worker_pb2.GetStatusResponse
            found = stub.call("GetStatus", worker_pb2.GetStatusRequest(), status.FromString, _ASK_S)
        for each in (port, found.channel_address.port):
            self.before(each, f"{AT}:{each}")

    def close(self) -> None:
        """Closes all links."""
        with self._lock:
            links, self._links = list(self._links.values()), {}
        for each in links:
            each.close()


class Registration(RegistrationServer):
    """Puts the links before each task that comes; the others learn of the task after that.

    Args:
        network: Theirs.
    """

    def __init__(self, *args: Any, network: BadNetwork, **more: Any) -> None:
        self._network = network
        super().__init__(*args, **more)

    def _register(self, request: Any) -> Any:
        for address in (request.task.address, request.task.ps_address):
            if address:
                self._network.before_task(address)
        return super()._register(request)


@contextlib.contextmanager
def distant_tasks() -> Iterator[None]:
    """Tasks that are started meanwhile take themselves for alone on their machines."""
    started = functools.partial(ChildProcess, module="support.distant_child")
    with mock.patch.object(task, "ChildProcess", started):
        yield
