"""Random graphs partitioned at random over a cluster's tasks give the interpreter's results."""

import contextlib
import dataclasses
import random
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.compiler import specialise
from sparkflow_runtime.device.shared_memory import SharedArena
from sparkflow_runtime.ir.graph_def import export_graph
from sparkflow_runtime.ir.node import Endpoint, Node
from sparkflow_runtime.master.client import SessionClient, open_session
from sparkflow_runtime.master.session import MasterSession
from sparkflow_runtime.ops import registry
from sparkflow_runtime.passes.partitioning import bundles
from sparkflow_runtime.passes.prune import prune
from sparkflow_runtime.resources.variable import Variable
from sparkflow_runtime.testing.local_cluster import LocalCluster
from sparkflow_runtime.transport.channel import readings
from sparkflow_runtime.transport.channel.address import Transport
from support.graphs import node, placeholder
from support.interpreter import interpret
from support.random_graphs import Outcome, RandomProgram, assert_same, random_program
from support.step import FakeStep

TASKS = ["/job:ps/task:0", "/job:ps/task:1", "/job:worker/task:0", "/job:worker/task:1"]
FACTORS = (1.0, 0.75, 0.5, 0.9, 1.1, 0.6)
"""Steps: one creates plans, the others are a repeated run."""


class Divided:
    """A random program in a session, with unique variable names.

    Args:
        program: The program.
        client: The session, which may have other programs.
        tasks: The tasks to divide it among, some or all.
    """

    def __init__(
        self, program: RandomProgram, client: SessionClient, tasks: Sequence[str] = TASKS
    ) -> None:
        self.program = program
        self._client = client
        choose = random.Random(program.seed)
        self.devices: dict[str, str] = {}
        most = min(choose.choice([2, 2, 3, 4]), len(tasks))  # few have more ways back
        self._tasks = choose.sample(tasks, most)
        nodes = [self._placed(each, choose) for each in program.graph]
        for name, value in program.variables.items():
            device = self.devices[name]
            of = self._named(name)
            nodes += [
                placeholder(f"{of}/given", value.shape, device=device),
                node(f"{of}/set", "Assign", of, f"{of}/given", device=device),
                node(f"{of}/now", "Identity", of, device=device),
            ]
        client.extend(export_graph(nodes))

    def step(self, args: list[Any], factor: float) -> Outcome:
        """Runs a step whose variables begin as the initial values times a factor."""
        names = [self._named(name) for name in self.program.variables]
        start = [value * np.float32(factor) for value in self.program.variables.values()]
        given = {f"{name}/given:0": value for name, value in zip(names, start, strict=True)}
        self._client.run([], given, [f"{name}/set" for name in names])
        feeds = dict(zip(map(self._end, self.program.feeds), args, strict=True))
        fetches = list(map(self._end, self.program.fetches))
        targets = list(map(self._named, self.program.targets))
        fetched, _ = self._client.run(fetches, feeds, targets)
        state, _ = self._client.run([f"{name}/now:0" for name in names], {}, [])
        return Outcome(list(fetched), dict(zip(self.program.variables, state, strict=True)))

    def _placed(self, given: Node, choose: random.Random) -> Node:
        """Places a node with a variable that it takes by reference, else anywhere."""
        device = self._device(given, choose)
        for each in given.inputs:
            source = self.program.graph[each.node]
            if registry.lookup(source.op).signature.output_dtypes(source.attrs)[each.slot].is_ref:
                device = self.devices[each.node]
        self.devices[given.name] = device
        waits = given.control_inputs if given.inputs else ()  # variables are set by themselves
        return dataclasses.replace(
            given,
            name=self._named(given.name),
            inputs=tuple(Endpoint(self._named(each.node), each.slot) for each in given.inputs),
            control_inputs=tuple(map(self._named, waits)),
            device=device,
        )

    def _device(self, given: Node, choose: random.Random) -> str:
        near = [self.devices[each.node] for each in given.inputs]
        device = choose.choice(self._tasks)
        return choose.choice(near) if near and choose.random() < 0.5 else device

    def _named(self, name: str) -> str:
        return f"s{self.program.seed}/{name}"

    def _end(self, endpoint: Endpoint) -> str:
        return f"{self._named(endpoint.node)}:{endpoint.slot}"


class Served(Divided):
    """The same with all variables, and their updates, on a parameter server.

    Everything else is on the session's task, which reads the variables in place.
    """

    def _device(self, given: Node, choose: random.Random) -> str:
        op = registry.lookup(given.op)
        refers = any(each.is_ref for each in op.signature.input_dtypes(given.attrs))
        is_served = op.is_variable or refers
        return TASKS[0] if is_served else TASKS[2]


@pytest.fixture(scope="module", params=["tcp", "auto"])
def cluster(request: pytest.FixtureRequest) -> Iterator[LocalCluster]:
    transport: Transport = request.param
    with LocalCluster(2, 2, transport=transport) as made:
        yield made


def send_in_every_way(patch: pytest.MonkeyPatch) -> None:
    """Enables plans from the first step on, and early gradients of any size."""
    patch.setattr(specialise, "SIGHTINGS", 1)
    patch.setattr(bundles, "LEAST_PART_BYTES", 1)
    patch.setattr(MasterSession, "_are_apart", lambda self, source, destination: True)


@pytest.mark.parametrize("seed", [*range(400, 412), 20656])
def test_a_program_on_some_tasks_gives_what_the_interpreter_gives(
    seed: int, cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    send_in_every_way(monkeypatch)
    compare(seed, cluster)


@pytest.mark.parametrize("seed", [*range(600, 606), 622, 626, 656, 657])
def test_so_does_a_program_with_its_variables_on_a_parameter_server(
    seed: int, cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(specialise, "SIGHTINGS", 1)
    if seed % 2:  # small variables are read in place, too
        monkeypatch.setattr(readings, "LEAST_SHARED_BYTES", 0)
    compare(seed, cluster, Served)


def test_such_a_program_asks_for_no_variables(
    cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[bool] = []
    find = readings.Readings.find

    def noting(self: readings.Readings, name: str, keys: Sequence[str]) -> Any:
        values = find(self, name, keys)
        if keys:
            found.append(values is not None)
        return values

    monkeypatch.setattr(readings.Readings, "find", noting)
    for seed in (622, 626):
        compare(seed, cluster, Served)
    assert any(found) == (cluster._transport == "auto" and SharedArena.available())


def compare(seed: int, cluster: LocalCluster, way: type[Divided] = Divided) -> None:
    """Runs a random program on the cluster and by the interpreter, for several steps.

    Raises:
        AssertionError: A step returns different values, or leaves different ones in the variables.
    """
    with contextlib.closing(session_on(cluster)) as client:
        program = random_program(seed, 80, smooth=True)
        Compared(program, way(program, client)).steps(FACTORS)


def session_on(cluster: LocalCluster) -> SessionClient:
    """Opens a session on a worker of the cluster."""
    return open_session(cluster.target("worker", 0), credentials=cluster.credentials)


class Compared:
    """Steps of a divided program, and the interpreter's result for each.

    Args:
        program: The program.
        divided: The same in a session.
    """

    def __init__(self, program: RandomProgram, divided: Divided) -> None:
        self._program, self._divided = program, divided
        self._context = program.context()
        ends = program.feeds, program.fetches, program.targets
        self._nodes = prune(program.graph, *ends).sorted()

    def expected(self, factor: float) -> tuple[list[Any], Outcome]:
        """Returns the feeds for a factor, and the expected outcome."""
        program = self._program
        args = [
            (array * factor).astype(array.dtype) if array.dtype.kind == "f" else array
            for array in map(np.asarray, program.args)
        ]
        for name, value in program.variables.items():
            held = self._context.resources.get("", name, Variable)
            held.array[...] = value * np.float32(factor)
        with np.errstate(all="ignore"):
            results = interpret(self._nodes, self._context, args, FakeStep())
        fetched = [np.array(results[index]) for index in range(len(results))]
        return args, Outcome(fetched, program.state(self._context))

    def steps(self, factors: Sequence[float]) -> None:
        """Runs the steps, in this thread.

        Raises:
            AssertionError: One returns different values, leaves different ones in the variables, or
                changes what another one returned.
        """
        known = {factor: self.expected(factor) for factor in set(factors)}
        kept: list[tuple[Any, Any]] = []
        for factor in factors:
            args, expected = known[factor]
            found = self._divided.step(args, factor)
            assert_same(found, expected, rtol=2e-4)
            kept += [(each, np.array(each)) for each in found.fetched]
        for now, then in kept:
            np.testing.assert_array_equal(now, then)


@pytest.mark.parametrize("seed", range(500, 503))
def test_programs_in_threads_of_one_session_do_not_touch_each_other(
    seed: int, cluster: LocalCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    send_in_every_way(monkeypatch)
    compare_in_threads(seed, cluster)


@pytest.mark.parametrize("seed", range(510, 513))
def test_programs_in_threads_of_this_process_do_not_touch_each_other(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    send_in_every_way(monkeypatch)
    compare_in_threads(seed, None)


def compare_in_threads(seed: int, cluster: LocalCluster | None) -> None:
    """Runs three programs with variables in one thread each, and one without in two threads.

    They share the session, and with it tasks, channels, kernels and memory.

    Args:
        seed: The seed of the programs.
        cluster: The cluster; None for a session in this process.

    Raises:
        AssertionError: As `Compared.steps`.
    """
    own = [random_program(10 * seed + index, 60, smooth=True) for index in range(3)]
    pure = random_program(10 * seed + 3, 60, variables=False, smooth=True)
    with contextlib.closing(open_session() if cluster is None else session_on(cluster)) as client:
        tasks = [""] if cluster is None else TASKS
        each = [Compared(program, Divided(program, client, tasks)) for program in own]
        shared = Divided(pure, client, tasks)
        each += [Compared(pure, shared) for _ in range(2)]
        orders = [random.Random(seed + index).choices(FACTORS, k=10) for index in range(5)]
        with np.errstate(all="ignore"), ThreadPoolExecutor(len(each)) as pool:
            list(pool.map(Compared.steps, each, orders))
