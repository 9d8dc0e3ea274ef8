"""A graph made ready for one set of feeds, fetches and targets."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.errors import InvalidArgumentError, OpError, UnimplementedError
from sparkflow_runtime.ir.function import Function, no_function
from sparkflow_runtime.ir.graph import Graph
from sparkflow_runtime.ir.node import Endpoint
from sparkflow_runtime.ir.types import infer_types
from sparkflow_runtime.master.cost_graph import CostModel
from sparkflow_runtime.master.fan_out import for_each
from sparkflow_runtime.master.links import LocalLink, Record, WorkerLink
from sparkflow_runtime.master.running import Pending, RunningSteps
from sparkflow_runtime.passes.bundles import Splitting
from sparkflow_runtime.passes.clean import Observe, clean, unobserved
from sparkflow_runtime.passes.collectives import split_collectives
from sparkflow_runtime.passes.distinct_rows import distinct_rows
from sparkflow_runtime.passes.functions import bodies, reachable, ready_functions
from sparkflow_runtime.passes.late_fetches import late_fetches
from sparkflow_runtime.passes.late_reads import late_reads
from sparkflow_runtime.passes.layout import channels_last
from sparkflow_runtime.passes.lend import lend
from sparkflow_runtime.passes.partition import Partition, partition
from sparkflow_runtime.passes.place import Placement, place
from sparkflow_runtime.passes.prune import prune
from sparkflow_runtime.passes.raise_control_flow import raise_control_flow
from sparkflow_runtime.passes.sparse_updates import sparse_updates
from sparkflow_runtime.passes.wire_dtypes import wire_dtypes


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
    is_split: Callable[[str, str], bool] = lambda source, destination: False,
) -> list[Partition]:
    """Runs the master's passes on a graph; the result is what the workers run.

    They are: prune, raise control flow, check, read variables late, serve fetched variables after
    their updates, clean (drop what is unread, simplify, fold, merge, reduce control edges), place,
    put channels last, hand raw gradients to sparse updates, tell ids apart before they travel,
    narrow what travels, partition, lend.

    Args:
        graph: The session's graph.
        request: What is asked for.
        placement: Where nodes may go.
        load: Gives the functions that nodes call.
        observe: Is shown the graph after `prune` and `place`, and after every pass that changed
            something; what is cut in the end is not one graph any more.
        is_split: Whether large gradients leave early on their way from a device to another one.

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
    served = late_fetches(late, request.targets)
    if served is not late:
        observe("late_fetches", served)
    needed = clean(served, request.targets, types, observe)
    functions = ready_functions(needed, lambda name: made[name] if name in made else load(name))
    placed = place(needed, placement, graph, bodies(needed, functions))
    observe("place", placed)
    ordered = channels_last(placed, types, request.targets)
    if ordered is not placed:
        observe("channels_last", ordered)
    raw = sparse_updates(ordered)
    if raw is not ordered:
        observe("sparse_updates", raw)
    distinct = distinct_rows(raw, types)
    if distinct is not raw:
        observe("distinct_rows", distinct)
    final = wire_dtypes(distinct, types, graph)
    if final is not distinct:
        observe("wire_dtypes", final)
    split = split_collectives(final, types, graph)
    if split is not final:
        observe("split_collectives", split)
    partitions = partition(split, Splitting(types, is_split), functions)
    if functions:
        for part in partitions:
            part.functions = reachable(part.nodes, functions.__getitem__)
    return lend(partitions)


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
        parts: The same, as their workers know it.
        session: The session's handle.
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
        cost_model: CostModel = CostModel(),  # noqa: B008  (a value that does not change)
    ) -> None:
        self.partitions = partitions
        self.show_passes = show_passes
        self.session = session
        self._timeout_s = timeout_s
        self._cost_model = cost_model
        self._recordable = itertools.count()
        self.parts = for_each(lambda part: _register(session, part, link_of), partitions)
        self._num_results = len(request.fetches)
        self._dtypes = _arg_dtypes(partitions, len(request.feeds))
        self.steps: RunningSteps[WorkerLink] = RunningSteps([part.link for part in self.parts])
        here = [part for part in self.parts if isinstance(part.link, LocalLink)]
        self._here = here[-1] if here else None
        self._others = [part for part in self.parts if part is not self._here]
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
        self.check_args(args)
        if timeout_s is None:
            timeout_s = self._timeout_s
        if self._direct is not None and timeout_s is None and record is None:
            self.steps.check()
            return self._direct(args)
        step = self.steps.begin(timeout_s)
        if on_begin is not None:
            on_begin(step.cancel)
        # Who watches the clock cannot run a partition.
        mine = self._here if timeout_s is None else None
        others = self.parts if mine is None else self._others

        def begin() -> Iterator[Pending]:
            is_alone = len(self.parts) == 1
            for part in others:
                given = _given(part, args)
                yield part.link.begin(
                    self.session, part.handle, step, given, record=record, is_alone=is_alone
                )

        def run_mine() -> dict[int, Any]:
            assert mine is not None
            assert isinstance(mine.link, LocalLink)
            given = _given(mine, args)
            return mine.link.run_here(self.session, mine.handle, step, given, record)

        found: dict[int, Any] = {}
        for values in self.steps.run(step, begin, None if mine is None else run_mine):
            found.update(values)
        return [found[index] for index in range(self._num_results)]

    def wants_costs(self) -> bool:
        """Whether the next step that is run with options is to tell what its nodes cost."""
        return self._cost_model.wants(next(self._recordable))

    def check_args(self, args: Sequence[Any]) -> None:
        """Passes when there is a value of the right dtype for every feed.

        Raises:
            InvalidArgumentError: There is not.
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

    def _direct_call(self) -> Callable[[Sequence[Any]], list[Any]] | None:
        """A partition in this process that needs no step is called, not scheduled."""
        if len(self.parts) != 1 or not isinstance(self.parts[0].link, LocalLink):
            return None
        part = self.parts[0]
        assert isinstance(part.link, LocalLink)
        graph = part.link.worker.graph(self.session, part.handle)
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


def _given(part: Part, args: Sequence[Any]) -> dict[int, Any]:
    """The fed values that a partition takes."""
    return {index: args[index] for index in part.args}


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
