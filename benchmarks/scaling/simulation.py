"""Discrete-event simulation of training steps, which wait for ports and processors.

A worker computes, sends its gradients to every parameter server, and receives the next parameters
from each (one round trip per step). Ports and processors serve in order of arrival. The arrival of
a message at the parameter server determines everything that follows, and the state of ports and
processors is the time at which they are next free; so there is one event per message, 2 µs of
Python each, whereas simpy would need a process, its requests and about 20 times as long. 1,000
workers with 64 parameter servers make 64,000 messages per step.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable

from scaling.model import Channel, Model, Network, Stragglers

WORKER_STEPS = 2000
"""Steps of all workers together, so that pauses of single workers average out."""
_FEWEST_STEPS = 6
_WARM_UP_SHARE = 0.25

Draw = Callable[[], float]


def steps_per_s(
    model: Model,
    channel: Channel,
    network: Network,
    workers: int,
    num_ps: int,
    *,
    synchronous: bool = False,
    stragglers: Stragglers,
    cores: int | None = None,
    worker_steps: int = WORKER_STEPS,
    seed: int = 0,
) -> float:
    """Returns the steps per second of all workers; a synchronous step of n workers counts n times.

    Args:
        model: The model.
        channel: The cost of messages.
        network: The network between tasks.
        workers: The number of workers.
        num_ps: The number of parameter servers, over which parameters are spread evenly.
        synchronous: Whether a parameter server waits for the gradients of all workers.
        stragglers: The variation of the workers' times.
        cores: The number of processors that all tasks share; None if each has its own.
        worker_steps: The approximate number of simulated steps.
        seed: The seed of the random numbers.
    """
    draw = compute_times(model, stragglers, seed)
    steps = max(_FEWEST_STEPS, worker_steps // workers)
    run = _Run(model, channel, network, workers, num_ps, cores, draw, steps)
    return run.synchronous() if synchronous else run.asynchronous()


def ring_steps_per_s(
    model: Model,
    channel: Channel,
    network: Network,
    workers: int,
    *,
    stragglers: Stragglers,
    worker_steps: int = WORKER_STEPS,
    seed: int = 0,
) -> float:
    """Returns the same for ring all-reduce; sparse gradients are gathered, not summed.

    All workers wait for the slowest, then each of 2 (n - 1) rounds passes on an n-th of the
    gradients (Patarasuk and Yuan, 2009), or each of n - 1 rounds the rows of one worker.
    """
    draw = compute_times(model, stragglers, seed)
    turns = (1 if model.sparse else 2) * (workers - 1)
    size = model.push_bytes if model.sparse else model.push_bytes / workers
    # Both ends and the port work at the same time; a round lasts as long as the slowest of the
    # three.
    turn_s = max(channel.cost_s(size), size / network.bytes_per_s) + network.latency_s
    applied = model.apply_s * (workers if model.sparse else 1)
    rounds = max(_FEWEST_STEPS, worker_steps // workers)
    waits = sum(max(draw() for _ in range(workers)) for _ in range(rounds)) / rounds
    return workers / (waits + turns * turn_s + applied)


def compute_times(model: Model, stragglers: Stragglers, seed: int) -> Draw:
    """Draws the time of one worker's step."""
    generator = random.Random(seed)
    sigma = stragglers.sigma

    def draw() -> float:
        time = model.compute_s * generator.lognormvariate(-sigma * sigma / 2, sigma)
        if generator.random() < stragglers.pause_share:
            time *= stragglers.pause_factor
        return time

    return draw


class _Run:
    """Ports and processors, by the time at which they are next free, in seconds."""

    def __init__(
        self,
        model: Model,
        channel: Channel,
        network: Network,
        workers: int,
        num_ps: int,
        cores: int | None,
        draw: Draw,
        steps: int,
    ) -> None:
        self._model, self._channel, self._network = model, channel, network
        self._workers, self._num_ps, self._draw = workers, num_ps, draw
        push, pull = model.push_bytes / num_ps, model.pull_bytes / num_ps
        self._push_wire_s = push / network.bytes_per_s
        self._pull_wire_s = pull / network.bytes_per_s
        self._receive_s, self._send_s = channel.cost_s(push), channel.cost_s(pull)
        self._apply_s = model.apply_s / num_ps
        # A worker receives and sends one message per parameter server in every step.
        self._worker_s = num_ps * (channel.cost_s(pull) + channel.cost_s(push))
        self._in_port = [0.0] * num_ps
        self._out_port = [0.0] * num_ps
        self._processor = [0.0] * num_ps
        self._cores = [0.0] * cores if cores else None
        self._events: list[tuple[float, int, int]] = []  # time, worker, parameter server or -1
        self._steps = steps

    def asynchronous(self) -> float:
        """Every worker continues as soon as all parameter servers have answered it."""
        missing = [self._num_ps] * self._workers
        answered = [0.0] * self._workers
        ended: list[float] = []
        wanted = self._steps * self._workers
        self._start()
        while len(ended) < wanted:
            now, worker, ps = heapq.heappop(self._events)
            if ps < 0:
                self._compute(now, worker)
                continue
            done = self._receive(now, ps, self._receive_s + self._apply_s + self._send_s)
            answered[worker] = max(answered[worker], self._answer(done, ps))
            missing[worker] -= 1
            if not missing[worker]:
                missing[worker] = self._num_ps
                ended.append(answered[worker])
                heapq.heappush(self._events, (answered[worker], worker, -1))
        return _rate(ended, 1)

    def synchronous(self) -> float:
        """Each parameter server answers all workers once the gradients of all have been applied."""
        arrived = [0] * self._num_ps
        answered = [0.0] * self._workers
        applied = 0
        ended: list[float] = []
        self._start()
        summed = self._apply_s * (self._workers if self._model.sparse else 1)
        while len(ended) < self._steps:
            now, worker, ps = heapq.heappop(self._events)
            if ps < 0:
                self._compute(now, worker)
                continue
            done = self._receive(now, ps, self._receive_s)
            arrived[ps] += 1
            if arrived[ps] < self._workers:
                continue
            arrived[ps] = 0
            applied += 1
            done = self._work(done, ps, summed)
            for each in range(self._workers):
                done = self._work(done, ps, self._send_s)
                answered[each] = max(answered[each], self._answer(done, ps))
            if applied == self._num_ps:
                applied = 0
                ended.append(max(answered))
                for each, time in enumerate(answered):
                    heapq.heappush(self._events, (time, each, -1))
        return _rate(ended, self._workers)

    def _start(self) -> None:
        for worker in range(self._workers):
            heapq.heappush(self._events, (self._draw() * worker / self._workers, worker, -1))

    def _compute(self, now: float, worker: int) -> None:
        """The worker has its parameters: it computes, then its port sends to all servers."""
        spent = self._draw() + self._worker_s
        done = self._on_core(now, spent)
        # They start with different parameter servers, since gradients are ready in different
        # orders.
        for turn in range(self._num_ps):
            done += self._push_wire_s
            ps = (worker + turn) % self._num_ps
            heapq.heappush(self._events, (done + self._network.latency_s, worker, ps))

    def _receive(self, now: float, ps: int, spent: float) -> float:
        """Returns when the processor has handled a message whose last byte could arrive now."""
        port = max(now, self._in_port[ps] + self._push_wire_s)
        self._in_port[ps] = port
        return self._work(port, ps, spent)

    def _work(self, now: float, ps: int, spent: float) -> float:
        done = self._on_core(max(now, self._processor[ps]), spent)
        self._processor[ps] = done
        return done

    def _answer(self, now: float, ps: int) -> float:
        """Returns when parameters that are ready now will have arrived."""
        sent = max(now, self._out_port[ps]) + self._pull_wire_s
        self._out_port[ps] = sent
        return sent + self._network.latency_s

    def _on_core(self, now: float, spent: float) -> float:
        if self._cores is None:
            return now + spent
        begun = max(now, heapq.heappop(self._cores))
        heapq.heappush(self._cores, begun + spent)
        return begun + spent


def _rate(ended: list[float], steps_each: int) -> float:
    """Returns steps per second for these end times, without the steps during which queues fill."""
    ended.sort()
    first = int(len(ended) * _WARM_UP_SHARE)
    return steps_each * (len(ended) - 1 - first) / (ended[-1] - ended[first])
