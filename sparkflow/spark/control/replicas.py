"""The workers' sessions: initial values, joining and leaving, loops, and results.

Used by the thread that called `fit`, between events; the errors are those of sessions.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from sparkflow.spark.cluster_layout import device_filters
from sparkflow.spark.control.checkpoints import tables as growing
from sparkflow.spark.control.checkpoints.snapshot import Snapshot, Values, WorkerState
from sparkflow.spark.graphs.commits import without
from sparkflow.spark.graphs.growing import TableNodes
from sparkflow.spark.graphs.state import VariableNodes
from sparkflow.spark.graphs.training_graph import TrainingGraph
from sparkflow_runtime import shapes
from sparkflow_runtime.master.driver import DriverSession, Master
from sparkflow_runtime.master.loops.step_loop import Loop

R = TypeVar("R")

_BATCH_BYTES: Final = 64 << 20
"""The size of values transferred between the driver and the tasks in one step."""
_MAX_THREADS: Final = 32


def open_sessions(
    master: Master,
    graphs: Sequence[Any],
    stack: contextlib.ExitStack,
    num_stages: int = 1,
    beside_first: bool = False,
) -> list[DriverSession]:
    """Opens one session per worker.

    Args:
        master: The driver's master.
        graphs: The graph of each worker, a GraphDef.
        stack: Closes the sessions.
        num_stages: The number of tasks that each replica is split across.
        beside_first: Whether the sessions may also use worker 0.
    """
    sessions = []
    for worker, graph_def in enumerate(graphs):
        filters = device_filters(worker, num_stages)
        if beside_first:
            filters.insert(1, "/job:worker/task:0")
        session = master.create_session(graph_def, device_filters=filters)
        stack.callback(session.close)
        sessions.append(session)
    return sessions


class Replicas:
    """The sessions of one run.

    Args:
        master: The driver's master.
        graph: The training graph of the workers.
        num_workers: The number of workers.
        stack: Closes the sessions.
    """

    def __init__(
        self,
        master: Master,
        graph: TrainingGraph,
        num_workers: int,
        stack: contextlib.ExitStack,
    ) -> None:
        self._graph = graph
        graphs = [graph.replica(index, num_workers) for index in range(num_workers)]
        self._sessions = open_sessions(master, graphs, stack, graph.num_stages)
        self._pool = ThreadPoolExecutor(
            # A broadcast needs all workers at the same time.
            num_workers if graph.config.has_copies else min(num_workers, _MAX_THREADS),
            thread_name_prefix="replicas",
        )
        # A thread that waits for a lost worker ends when the sessions are closed, which happens
        # later.
        stack.callback(self._pool.shutdown, wait=False, cancel_futures=True)

    def initialise(self, snapshot: Snapshot | None = None) -> None:
        """Initializes all variables, or sets them to the values of an earlier run.

        Args:
            snapshot: The snapshot of an earlier run; None for the initial values. Best values
                without a state of early stopping are those of another training, and become the
                current ones.
        """
        graph = self._graph
        if graph.config.has_copies:
            self._everywhere(lambda _, session: session.run([], {}, list(graph.initializers)))
        else:
            self._sessions[0].run([], {}, list(graph.initializers))
            local = list(graph.local_initializers)
            self._everywhere(lambda _, session: session.run([], {}, local), first=1)
        if graph.session_initializers:
            tables = list(graph.session_initializers)
            self._everywhere(lambda _, session: session.run([], {}, tables))
        if snapshot is not None:
            self._restore(snapshot)
            if snapshot.best and snapshot.early_stopping is None:
                self.give_back(tuple(snapshot.best))
        if graph.config.has_copies:
            self.join()  # all start from the values of worker 0

    def replace(self, worker: int, master: Master, stack: contextlib.ExitStack) -> None:
        """Opens the session of a worker that has come back without local state.

        Args:
            worker: The worker.
            master: A master that knows its current address.
            stack: Closes the session.
        """
        graph = self._graph
        filters = device_filters(worker, graph.num_stages)
        graph_def = graph.replica(worker, len(self._sessions))
        session = master.create_session(graph_def, device_filters=filters)
        stack.callback(session.close)
        for targets in (graph.local_initializers, graph.session_initializers):
            if targets:
                session.run([], {}, list(targets))
        self._sessions[worker] = session

    def start_loop(self, worker: int, count: int, number: int) -> Loop:
        """Starts `count` steps on one worker, numbered from `first`."""
        graph = self._graph
        fetches = [graph.loss, graph.weight, graph.waited_s]
        return self._sessions[worker].start_loop(fetches, [graph.train_op], count, number)

    def join(self, workers: Collection[int] | None = None) -> None:
        """Makes exactly these workers, or all, participate."""
        graph = self._graph

        def take_part(worker: int, session: DriverSession) -> None:
            takes_part = workers is None or worker in workers
            session.run([], {}, list(graph.join_ops if takes_part else graph.leave_ops))

        self._everywhere(take_part)

    def leave(self, worker: int) -> None:
        """Makes the others stop waiting for a worker."""
        self._sessions[worker].run([], {}, list(self._graph.leave_ops))

    def start_loops(self, steps: Sequence[int], first: Sequence[int]) -> dict[int, Loop]:
        """Starts steps on each worker that has any; returns the loops by worker.

        Args:
            steps: The number of steps of each worker.
            first: The number of the first of them, by worker.
        """
        return {
            worker: self.start_loop(worker, count, number)
            for worker, (count, number) in enumerate(zip(steps, first, strict=True))
            if count
        }

    def values(self, names: Sequence[str]) -> dict[str, npt.NDArray[Any]]:
        """Returns values of global variables, and ids and rows of growing tables, by name."""
        state = self._graph.state
        plain = {name: state.shared[name].value for name in names if name in state.shared}
        found = _fetched(self._sessions[0], plain, state.shared)
        for table in _asked_for(names, state.tables):
            keys, rows = growing.model_table(self._shards(table))
            found |= {table.keys: keys, table.rows: rows}
        return {name: found[name] for name in names}

    def _shards(self, table: TableNodes, kept: bool = False) -> list[Values]:
        """Returns the content of the shards of a table, or of the copies that `keep` made."""
        found: list[Values] = []
        for shard in table.shards:
            asked = shard.kept if kept else shard.values
            values = self._sessions[0].run(list(asked.values()), {}, [])
            found.append(dict(zip(asked, map(np.asarray, values), strict=True)))
        return found

    def applied(self, asked: int) -> npt.NDArray[np.int64] | None:
        """Returns the commits applied by parameter servers in this attempt, even of lost workers.

        Args:
            asked: The worker whose session to use.

        Returns:
            [commits, workers] int64; None if commits are not counted.
        """
        if not self._graph.commits:
            return None
        fetches = [each.applied for each in self._graph.commits]
        return np.asarray(self._sessions[asked].run(fetches, {}, []), np.int64)

    def complete(self, worker: int, master: Master, number: int, made_by: Sequence[int]) -> None:
        """Applies a worker's step on the parameter servers that lack it, and only on these.

        Args:
            worker: The worker; `replace` was called for it.
            master: A master that knows its current address.
            number: The number of the step.
            made_by: The numbers of the commits that have applied it.

        Raises:
            UnavailableError: It takes longer than the master waits for answers.
            ValueError: The rest of the step needs results of the part that was applied.
        """
        graph = self._graph
        graph_def = without(
            graph.replica(worker, len(self._sessions)), [graph.commits[each] for each in made_by]
        )
        filters = device_filters(worker, graph.num_stages)
        session = master.create_session(graph_def, device_filters=filters)
        with contextlib.closing(session):
            for targets in (graph.local_initializers, graph.session_initializers):
                if targets:
                    session.run([], {}, list(targets))
            session.run_loop([graph.loss], [graph.train_op], 1, number)

    def keep(self, names: Sequence[str]) -> None:
        """Copies these variables, on the tasks that hold them."""
        state = self._graph.state
        targets = [state.shared[name].keep for name in names if name in state.shared]
        for table in _asked_for(names, state.tables):
            targets += [shard.keep for shard in table.shards]
        self._sessions[0].run([], {}, targets)

    def give_back(self, names: Sequence[str]) -> None:
        """Sets these variables to the copies that `keep` made."""
        state = self._graph.state
        targets = [state.shared[name].give_back for name in names if name in state.shared]
        for table in _asked_for(names, state.tables):
            targets += [shard.give_back for shard in table.shards]
        self._sessions[0].run([], {}, targets)

    def learnt(self, kept: Sequence[str]) -> tuple[Values, Values, tuple[WorkerState, ...]]:
        """Returns global variables, the copies of these names, and the state of each worker."""
        state = self._graph.state
        shared = _fetched(
            self._sessions[0],
            {name: nodes.value for name, nodes in state.shared.items()},
            state.shared,
        )
        for table in state.tables.values():
            shared |= growing.named(table.name, self._shards(table))
        plain = {name: state.shared[name].kept for name in kept if name in state.shared}
        best = _fetched(self._sessions[0], plain, state.shared)
        for table in _asked_for(kept, state.tables):
            keys, rows = growing.model_table(self._shards(table, kept=True))
            best |= {table.keys: keys, table.rows: rows}
        own = {name: nodes.value for name, nodes in state.own.items()}

        def of_worker(_: int, session: DriverSession) -> WorkerState:
            (random,) = session.run([state.random], {}, [])
            text = bytes(np.asarray(random, object).item())
            return WorkerState(text, _fetched(session, own, state.own))

        return shared, best, tuple(self._everywhere(of_worker))

    def _restore(self, snapshot: Snapshot) -> None:
        state = self._graph.state
        first = self._sessions[0]
        plain = growing.beside_tables(snapshot.shared)
        _assign(first, state.shared, plain, lambda nodes: nodes.assign)
        best = {name: value for name, value in snapshot.best.items() if name in state.shared}
        _assign(first, state.shared, best, lambda nodes: nodes.assign_kept)
        for table in state.tables.values():
            for nodes, shard in zip(
                table.shards, growing.shards_for(snapshot.shared, table), strict=True
            ):
                feeds = {nodes.feeds[part]: value for part, value in shard.items()}
                first.run([], feeds, [nodes.restore])
        for table in _asked_for(snapshot.best, state.tables):
            keys, rows = snapshot.best[table.keys], snapshot.best[table.rows]
            parts = growing.shards_of_model(keys, rows, len(table.shards))
            for nodes, shard in zip(table.shards, parts, strict=True):
                feeds = {nodes.feeds[part]: value for part, value in shard.items()}
                first.run([], feeds, [nodes.assign_kept])

        def of_worker(index: int, session: DriverSession) -> None:
            if index >= len(snapshot.workers):
                return
            worker = snapshot.workers[index]
            own = {name: value for name, value in worker.own.items() if name in state.own}
            _assign(session, state.own, own, lambda nodes: nodes.assign)
            text = np.array(worker.random, object)
            session.run([], {state.random_feed: text}, [state.set_random])

        self._everywhere(of_worker)

    def _everywhere(self, do: Callable[[int, DriverSession], R], first: int = 0) -> list[R]:
        """Runs a function for every worker from `first` on, concurrently.

        Raises the first error, even if other workers would wait forever for the failed one.
        """
        futures = [
            self._pool.submit(do, worker, session)
            for worker, session in enumerate(self._sessions)
            if worker >= first
        ]
        for each in wait(futures, return_when=FIRST_EXCEPTION).done:
            each.result()
        return [each.result() for each in futures]


def _asked_for(names: Collection[str], tables: Mapping[str, TableNodes]) -> list[TableNodes]:
    """Returns the tables whose ids or rows are among some names."""
    return [each for each in tables.values() if each.keys in names or each.rows in names]


def _fetched(
    session: DriverSession, tensors: Mapping[str, str], nodes: Mapping[str, VariableNodes]
) -> dict[str, npt.NDArray[Any]]:
    found: dict[str, npt.NDArray[Any]] = {}
    for names in _batches({name: _size(nodes[name]) for name in tensors}):
        values = session.run([tensors[name] for name in names], {}, [])
        found.update(zip(names, map(np.asarray, values), strict=True))
    return found


def _assign(
    session: DriverSession,
    nodes: Mapping[str, VariableNodes],
    values: Values,
    operation: Callable[[VariableNodes], str],
) -> None:
    for names in _batches({name: value.nbytes for name, value in values.items()}):
        feeds = {nodes[name].feed: values[name] for name in names}
        session.run([], feeds, [operation(nodes[name]) for name in names])


def _batches(sizes: Mapping[str, int]) -> Iterator[list[str]]:
    batch: list[str] = []
    total = 0
    for name, size in sizes.items():
        if batch and total + size > _BATCH_BYTES:
            yield batch
            batch, total = [], 0
        batch.append(name)
        total += size
    if batch:
        yield batch


def _size(nodes: VariableNodes) -> int:
    return (shapes.num_elements(nodes.shape) or 0) * nodes.dtype.size
