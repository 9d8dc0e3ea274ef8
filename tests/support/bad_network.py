"""A network that drops, delays, swaps, repeats, changes and cuts some of the traffic.

All ports of a training without Spark (`process_fits.Fit`) are behind it: the driver's, and each
task's port for calls and port of its tensor channel. Tasks believe that they are alone on their
machines (`distant_child`), so that nothing uses shared memory or Unix sockets.
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
from sparkflow.spark.cluster.process.piped_process import executed
from sparkflow.spark.cluster.registration import RegistrationServer
from sparkflow_runtime.protos import worker_pb2
from sparkflow_runtime.security import Credentials
from sparkflow_runtime.testing.faulty_link import FaultyLink
from sparkflow_runtime.transport import rpc
from sparkflow_runtime.transport.peers import WORKER_SERVICE

FAULTS: Final = ("drop", "delay", "swap", "repeat", "flip", "cut")
AT: Final = "127.0.0.3"
"""The address that tasks announce; they listen at 127.0.0.1, on the same ports."""
MOST_DELAY_S: Final = 0.5
_ASK_S: Final = 20.0


class Weather:
    """Decides what happens to each piece of data. Thread-safe.

    `_lock` guards all fields.

    Args:
        seed: The seed of the faults; which piece gets which fault still depends on the threads.
        share: The fraction of pieces with a fault.
        faults: The possible faults.
        most: The maximum number of faults; after it, everything passes unchanged.

    Attributes:
        is_calm: Whether everything passes unchanged until this is reset.
        pieces: The number of pieces that passed.
        counts: The number of faults of each kind.
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
        """Returns a fault, or "" for none, and a number from 0 to 1 for its size."""
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
        """Whether all faults have occurred."""
        return self.counts.total() >= self._most

    def disturbance(self) -> _Direction:
        """Returns the disturbance of one direction of a connection."""
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
            case "swap":  # with the next piece, or without one, with its own other half
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
    """The links in front of a training's ports. Used by one thread, except for `before`.

    `_lock` guards `_links`.

    Args:
        weather: What happens on all links.
        credentials: The credentials for asking tasks for their channels.
    """

    def __init__(self, weather: Weather, credentials: Credentials) -> None:
        self._weather = weather
        self._credentials = credentials
        self._lock = threading.Lock()
        self._links: dict[str, FaultyLink] = {}

    def before(self, port: int, listens: str = "") -> str:
        """Returns the address of a link to a port of 127.0.0.1; always the same link."""
        target = f"127.0.0.1:{port}"
        with self._lock:
            if target not in self._links:
                link = self._links[target] = FaultyLink(target, listens)
                link.disturb(self._weather.disturbance)
            return self._links[target].address

    def before_task(self, address: str) -> None:
        """Creates links to the two ports of a task that claims to be at `AT`."""
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
    """Puts the links in front of each registering task before others learn of it.

    Args:
        network: The network of the tasks.
    """

    def __init__(self, *args: Any, network: BadNetwork, **more: Any) -> None:
        self._network = network
        super().__init__(*args, **more)

    def _register(self, request: Any) -> Any:
        self._network.before_task(request.task.address)
        return super()._register(request)


@contextlib.contextmanager
def distant_tasks() -> Iterator[None]:
    """Makes tasks that are started in the block believe that they are alone on their machines."""
    started = functools.partial(
        ChildProcess, start=functools.partial(executed, "support.distant_child")
    )
    with mock.patch.object(task, "ChildProcess", started):
        yield
