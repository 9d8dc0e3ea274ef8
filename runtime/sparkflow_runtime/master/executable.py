"""A graph made ready for one set of feeds, fetches and targets."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.errors import InvalidArgumentError, OpError, UnimplementedError
from sparkflow_runtime.ir.function import Function, no_function
from sparkflow_runtime.ir.graph import Graph
from sparkflow_runtime.ir.node import Endpoint
from sparkflow_runtime.ir.types import infer_types
from sparkflow_runtime.master.links import LocalLink, Record, WorkerLink
from sparkflow_runtime.master.running import RunningSteps
from sparkflow_runtime.passes.clean import Observe, clean, unobserved
from sparkflow_runtime.passes.functions import bodies, reachable, ready_functions
from sparkflow_runtime.passes.late_reads import late_reads
from sparkflow_runtime.passes.layout import channels_last
from sparkflow_runtime.passes.partition import Partition, partition
from sparkflow_runtime.passes.place import Placement, place
from sparkflow_runtime.passes.prune import prune
from sparkflow_runtime.passes.raise_control_flow import raise_control_flow
from sparkflow_runtime.passes.sparse_updates import sparse_updates
from sparkflow_runtime.worker.step import LoopUpdate


@dataclass(frozen=True, slots=True)
class Request:
    """What a step is asked for; the key of a session's cache."""

    feeds: tuple[Endpoint, ...]
    fetches: tuple[Endpoint, ...]
    targets: tuple[str, ...]


def optimise(
    graph: Graph,
    request: Request,
    placement: Placement,
    load: Callable[[str], Function] = no_function,
    observe: Observe = unobserved,
) -> list[Partition]:
    """Runs the master's passes on a graph; the result is what the workers run.

    They are: prune, raise control flow, check, read variables late, clean (drop what is unread,
    simplify, fold, merge, reduce control edges), place, put channels last, hand raw gradients
    to sparse updates, partition.

    Args:
        graph: The session's graph.
        request: What is asked for.
        placement: Where nodes may go.
        load: Gives the functions that nodes call.
        observe: Is shown the graph after `prune` and `place`, and after every pass that changed
            something; what is cut in the end is not one graph any more.

    Raises:
        OpError: See the passes and `infer_types`.
    """
    pruned = prune(graph, request.feeds, request.fetches, request.targets)
    observe("prune", pruned)
    raised, made = raise_control_flow(pruned)
    if raised is not pruned:
        observe("raise_control_flow", raised)
    types = infer_types(raised)
    late = late_reads(raised)
    if late is not raised:
        observe("late_reads", late)
    needed = clean(late, request.targets, types, observe)
    functions = ready_functions(needed, lambda name: made[name] if name in made else load(name))
    placed = place(needed, placement, graph, bodies(needed, functions))
    observe("place", placed)
    ordered = channels_last(placed, types, request.targets)
    if ordered is not placed:
        observe("channels_last", ordered)
    final = sparse_updates(ordered)
    if final is not ordered:
        observe("sparse_updates", final)
    partitions = partition(final)
    if functions:
        for part in partitions:
            part.functions = reachable(part.nodes, functions.__getitem__)
    return partitions


@dataclass(frozen=True, slots=True)
class Part:
    """One registered partition."""

    link: WorkerLink
    handle: str
    args: tuple[int, ...]
    results: tuple[int, ...]
    device: str


class Executable:
    """Partitions registered with their workers. Several threads may run it at once.

    Attributes:
        partitions: What was registered, for RunMetadata.
        show_passes: Runs the master's passes again and shows what they do, for RunMetadata.
        steps: The steps that run.
    """

    def __init__(
        self,
        session: str,
        request: Request,
        partitions: Sequence[Partition],
        link_of: Callable[[str], WorkerLink],
        timeout_s: float | None,
        show_passes: Callable[[Observe], object],
    ) -> None:
        self.partitions = partitions
        self.show_passes = show_passes
        self._session = session
        self._timeout_s = timeout_s
        self._parts = [_register(session, part, link_of) for part in partitions]
        self._num_results = len(request.fetches)
        self._dtypes = _arg_dtypes(partitions, len(request.feeds))
        self.steps = RunningSteps([part.link for part in self._parts])
        self._direct = self._direct_call()

    def run(
        self,
        args: Sequence[Any],
        *,
        timeout_s: float | None = None,
        on_begin: Callable[[Callable[[OpError], None]], object] | None = None,
        record: Record | None = None,
    ) -> list[Any]:
        """Runs one step.

        Args:
            args: One host array per feed, in the request's order.
            timeout_s: How long the step may take; None for what the session allows.
            on_begin: Is given a function that cancels the step.
            record: Gets what every partition recorded; None for no trace.

        A step that runs as one call in this thread, without a time or a record, is not cancelled.

        Returns:
            One host array or numpy scalar per fetch.

        Raises:
            OpError: The first failure of any partition.
        """
        if len(args) != len(self._dtypes):
            raise InvalidArgumentError(
                message=f"The step takes {len(self._dtypes)} fed values, got {len(args)}"
            )
        for index, (value, dtype) in enumerate(zip(args, self._dtypes, strict=True)):
            if dtype is not None and value.dtype != dtype:
                raise InvalidArgumentError(
                    message=f"Feed {index} has dtype {value.dtype}, expected {dtype}"
                )
        if timeout_s is None:
            timeout_s = self._timeout_s
        if self._direct is not None and timeout_s is None and record is None:
            self.steps.check()
            return self._direct(args)
        step_id = self.steps.begin()
        if on_begin is not None:
            on_begin(lambda error: self.steps.cancel(step_id, error))

        def start() -> Iterator[Future[dict[int, Any]]]:
            for part in self._parts:
                given = {index: args[index] for index in part.args}
                yield part.link.run(self._session, part.handle, step_id, given, record)

        results: list[Any] = [None] * self._num_results
        for values in self.steps.run(step_id, start, timeout_s=timeout_s):
            for index, value in values.items():
                results[index] = value
        return results

    def callable(self) -> Callable[..., list[Any]]:
        """A function of the fed values that runs one step, see `run`; it asks nothing twice."""
        direct, check, dtypes = self._direct, self.steps.check, self._dtypes
        if direct is None or self._timeout_s is not None:
            return lambda *args: self.run(args)

        def call(*args: Any) -> list[Any]:
            if [arg.dtype for arg in args] != dtypes:
                return self.run(args)  # which says what is wrong
            check()
            return direct(args)

        return call

    def start_loop(
        self,
        num_steps: int | None,
        listen: Callable[[LoopUpdate], None],
        first_step: int = 0,
    ) -> tuple[int, Future[int]]:
        """Starts the step loop of every partition.

        Args:
            num_steps: At most so many steps; None: until the data end.
            listen: Gets the fetched values, in a thread of ours.
            first_step: The number of the first step.

        Returns:
            The step's id and the number of complete steps to come.

        Raises:
            InvalidArgumentError: The fetches are computed on more than one device.
        """
        fetching = [part for part in self._parts if part.results]
        if len(fetching) > 1:
            raise InvalidArgumentError(
                message="The fetches of a loop must be on one device, these are on "
                f"{', '.join(part.device for part in fetching)}"
            )
        if not self._parts:
            raise InvalidArgumentError(message="A loop needs at least one operation to run")
        step_id = self.steps.begin()
        order = fetching[0].results if fetching else ()

        def reorder(update: LoopUpdate) -> None:
            by_index = dict(zip(order, update.values, strict=True))
            values = tuple(by_index[index] for index in sorted(by_index))
            listen(
                LoopUpdate(
                    update.first_step,
                    update.num_steps,
                    values,
                    update.waited_s,
                    update.elapsed_s,
                )
            )

        # Without a fetch, the first partition's updates count the steps.
        reporting = fetching[0] if fetching else self._parts[0]
        listeners = [reorder if part is reporting else _ignore for part in self._parts]

        def start() -> Iterator[Future[int]]:
            for part, listener in zip(self._parts, listeners, strict=True):
                yield part.link.run_loop(
                    self._session, part.handle, step_id, num_steps, listener, first_step
                )

        def ends_early(count: int) -> bool:
            return num_steps is None or count < num_steps

        done: Future[int] = Future()

        def join() -> None:
            try:
                counts = self.steps.run(step_id, start, ends_early=ends_early)
                done.set_result(min(counts))
            except Exception as error:
                done.set_exception(error)

        threading.Thread(target=join, name="loop-join", daemon=True).start()
        return step_id, done

    def _direct_call(self) -> Callable[[Sequence[Any]], list[Any]] | None:
        """A partition in this process that needs no step is called, not scheduled."""
        if len(self._parts) != 1 or not isinstance(self._parts[0].link, LocalLink):
            return None
        part = self._parts[0]
        assert isinstance(part.link, LocalLink)
        graph = part.link.worker.graph(self._session, part.handle)
        if graph.needs_step:
            return None
        program = graph.program
        if program.args == tuple(range(len(program.args))) and program.results == tuple(
            range(self._num_results)
        ):
            return lambda args: list(program.run(None, args))

        def call(args: Sequence[Any]) -> list[Any]:
            values = program.run(None, [args[index] for index in program.args])
            by_index = dict(zip(program.results, values, strict=True))
            return [by_index[index] for index in range(len(values))]

        return call


def _register(session: str, part: Partition, link_of: Callable[[str], WorkerLink]) -> Part:
    link = link_of(part.device)
    handle = link.register(session, part.nodes, part.functions)
    args = tuple(node.attrs["index"] for node in part.nodes if node.op == "_Arg")
    results = tuple(node.attrs["index"] for node in part.nodes if node.op == "_Retval")
    return Part(link, handle, args, results, part.device)


def _arg_dtypes(partitions: Sequence[Partition], count: int) -> list[np.dtype[Any] | None]:
    found: list[np.dtype[Any] | None] = [None] * count
    for part in partitions:
        for node in part.nodes:
            if node.op == "_Arg":
                dtype: DType = node.attrs["T"]
                if not dtype.is_numpy_compatible:
                    raise UnimplementedError(
                        message=f"Tensors of {dtype.name} cannot be fed: numpy has no such type"
                    ).at(node.describe())
                found[node.attrs["index"]] = np.dtype(dtype.as_numpy_dtype)
    return found


def _ignore(_: LoopUpdate) -> None:
    """Partitions without fetches report nothing anybody needs."""
