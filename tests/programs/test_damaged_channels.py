"""Pulls, pushes and fetches through a proxy that damages traffic: no result is wrong."""

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.master.repeated_runs import client_side
from sparkflow_runtime.testing.faulty_link import FaultyLink
from sparkflow_runtime.testing.local_cluster import LocalCluster
from sparkflow_runtime.transport import peers
from sparkflow_runtime.transport.channel.reactor import available

pytestmark = pytest.mark.skipif(not available(), reason="channels need Linux")

SIZES = (1, 900, 40_000)
OPTIONS = tf.RunOptions(timeout_in_ms=1500)
KINDS = ("pull", "push", "fetch")
Fault = Callable[[random.Random, bytes], bytes]


def flip(rng: random.Random, data: bytes) -> bytes:
    place = rng.randrange(len(data))
    return data[:place] + bytes([data[place] ^ 1 << rng.randrange(8)]) + data[place + 1 :]


def garble(rng: random.Random, data: bytes) -> bytes:
    start = rng.randrange(len(data))
    end = min(len(data), start + rng.randrange(1, 100))
    return data[:start] + rng.randbytes(end - start) + data[end:]


def cut(rng: random.Random, data: bytes) -> bytes:
    start = rng.randrange(len(data))
    return data[:start] + data[rng.randrange(start, len(data)) + 1 :]


def duplicate(rng: random.Random, data: bytes) -> bytes:
    return data + data


def repeat(rng: random.Random, data: bytes) -> bytes:
    return data + data[rng.randrange(len(data)) :]


def swap(rng: random.Random, data: bytes) -> bytes:
    middle = rng.randrange(len(data))
    return data[middle:] + data[:middle]


def insert(rng: random.Random, data: bytes) -> bytes:
    place = rng.randrange(len(data))
    return data[:place] + rng.randbytes(rng.randrange(1, 50)) + data[place:]


FAULTS: list[Fault] = [
    flip,
    garble,
    duplicate,
    repeat,
    swap,
    insert,
    flip,
    duplicate,
    repeat,
    cut,
]


class Program:
    """Variables on a parameter server, read and changed by a worker, and a client's session."""

    def __init__(self, stack: ExitStack) -> None:
        cluster = stack.enter_context(LocalCluster(1, 1, transport="tcp"))
        self.links = []
        for server in cluster.servers:
            address = server.worker.channel_address
            assert address is not None
            link = FaultyLink(f"127.0.0.1:{address.port}")
            stack.callback(link.close)
            self.links.append(link)
            port = int(link.address.rpartition(":")[2])
            server.worker.channel_address = replace(address, port=port, unix_name="")
        stack.enter_context(tf.Graph().as_default())
        with tf.device("/job:ps"):
            variables = [
                tf.Variable(np.arange(size, dtype=np.float32), name=f"v{size}") for size in SIZES
            ]
        with tf.device("/job:worker"):
            self._given = tf.placeholder(tf.float32, [])
            self._pull = [2.0 * each for each in variables]
            added = [tf.zeros_like(each) + self._given for each in variables]
        with tf.device("/job:ps"):
            self._push = tf.group(*map(tf.assign_add, variables, added))
        self._read = [each.value() for each in variables]
        target, credentials = cluster.target("worker", 0), cluster.credentials
        self._session = stack.enter_context(tf.Session(target, credentials=credentials))
        self._session.run(tf.global_variables_initializer())
        self._total = 0

    def step(self, kind: str) -> None:
        if kind == "pull":
            self._check(self._session.run(self._pull, options=OPTIONS), 2, [self._total])
        elif kind == "fetch":
            self._check(self._session.run(self._read, options=OPTIONS), 1, [self._total])
        else:
            self._session.run(self._push, {self._given: 1.0}, options=OPTIONS)
            self._total += 1

    def look(self) -> None:
        """Checks after a failed step that all variables have old values, or what was pushed."""
        for _ in range(5):  # duplicates may end the other channel only now
            with suppress(tf.errors.OpError):
                found = self._session.run(self._read, options=OPTIONS)
                break
        self._total = self._check(found, 1, [self._total, self._total + 1])

    def _check(self, found: Any, factor: float, totals: list[int]) -> int:
        """Returns which of the totals these numbers match."""
        for total in totals:
            wanted = [factor * (np.arange(size, dtype=np.float32) + total) for size in SIZES]
            if all(map(np.array_equal, found, wanted)):
                return total
        pytest.fail(f"a wrong number: none of {totals}")


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Iterator[Program]:
    for module in (peers, client_side):  # a damaged handshake is retried immediately
        monkeypatch.setattr(module, "RETRY_S", 0.0)
    with ExitStack() as stack:
        made = Program(stack)
        for kind in 20 * KINDS:  # repeated runs use the client's channel
            made.step(kind)
        yield made


def spoilt(program: Program, link: FaultyLink, kind: str) -> bool | None:
    """Runs steps until a piece is damaged; returns whether one failed, None if none was damaged."""
    for _ in range(8):
        try:
            program.step(kind)
        except tf.errors.OpError:  # of the channel, or of the next one's handshake
            link.restore()
            program.look()
            return True
        if not link.spoils:
            return False
    link.restore()
    return None


@pytest.mark.parametrize("faults", [30])
def test_no_number_is_wrong(program: Program, faults: int) -> None:
    rng = random.Random(faults)
    outcomes: list[bool | None] = []
    while len(outcomes) - outcomes.count(None) < faults:
        number = len(outcomes)
        assert number < 4 * faults
        fault = FAULTS[number % len(FAULTS)]
        link = program.links[number // 3 % 2]
        program.look()  # reopens what the last fault closed
        link.spoil(partial(fault, rng), spared=rng.randrange(4))
        outcomes.append(spoilt(program, link, KINDS[number % 3]))
    assert outcomes.count(True) > faults // 3


@pytest.mark.nightly
@pytest.mark.timeout(1800)
def test_no_number_is_wrong_in_2000_faults(program: Program) -> None:
    test_no_number_is_wrong(program, 2000)
