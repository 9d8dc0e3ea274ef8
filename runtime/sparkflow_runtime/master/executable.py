"""A graph that was prepared for one set of feeds, fetches and targets."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.errors import InvalidArgumentError, OpError, UnimplementedError
from sparkflow_runtime.ir.node import ARG, RETVAL
from sparkflow_runtime.master.links import LocalLink, Record, WorkerLink, for_each
from sparkflow_runtime.master.pipeline import Request
from sparkflow_runtime.master.running import Pending, RunningSteps
from sparkflow_runtime.ops.kernel import StepContext
from sparkflow_runtime.passes.clean import Observe
from sparkflow_runtime.passes.partitioning.partition import Partition

if TYPE_CHECKING:
    from sparkflow_runtime.master.cost_graph import CostModel
    from sparkflow_runtime.master.taking_turns import TakingTurns
    from sparkflow_runtime.passes.partitioning.openings import Opening


@dataclass(frozen=True, slots=True)
class Part:
    """One registered partition."""

    link: WorkerLink
    handle: str
    args: tuple[int, ...]
    results: tuple[int, ...]
    device: str
    opening: Opening | None = None


class Executable:
    """Partitions registered with their workers. Several threads may run it at once.

    `_lock` guards `_turns`.

    Attributes:
        partitions: What was registered, for RunMetadata.
        parts: The registered partitions with their workers' handles.
        session: The session's handle.
        show_passes: Runs the master's passes again and records their effect, for RunMetadata.
        steps: The running steps.
    """

    def __init__(
        self,
        session: str,
        request: Request,
        partitions: Sequence[Partition],
        link_of: Callable[[str], WorkerLink],
        timeout_s: float | None,
        show_passes: Callable[[Observe], object],
        cost_model: CostModel | None = None,
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
        others = [part for part in self.parts if part is not self._here]
        self._others = [self._with_opening(part) for part in others]
        self._loops = False
        self._direct = self._direct_call()
        self._lock = threading.Lock()
        self._turns: TakingTurns | None = None

    def run(
        self,
        args: Sequence[Any],
        *,
        timeout_s: float | None = None,
        on_begin: Callable[[Callable[[OpError], None]], object] | None = None,
        record: Record | None = None,
        repeats: bool = False,
    ) -> list[Any]:
        """Runs one step.

        A step that runs as one call in this thread, without a timeout or a record, is cancelled
        only by the end of the session, and only if it loops.

        Args:
            args: One host array per feed, in the request's order.
            timeout_s: How long the step may take; None for what the session allows.
            on_begin: Called with a function that cancels the step.
            record: Receives the recording of every partition; None for no trace.
            repeats: Whether several steps may be run one after another: those of a single remote
                partition, which then needs no request for each.

        Returns:
            One host array or numpy scalar per fetch.

        Raises:
            OpError: The first failure of any partition.
        """
        self.check_args(args)
        if timeout_s is None:
            timeout_s = self._timeout_s
        is_left_alone = timeout_s is None and (on_begin is None or not self._loops)
        if self._direct is not None and is_left_alone and record is None:
            self.steps.check()
            return self._direct(args)
        step = self.steps.begin(timeout_s)
        if on_begin is not None:
            on_begin(step.cancel)
        # The thread that watches the clock cannot run a partition.
        mine = self._here if timeout_s is None else None
        others = self.parts if mine is None else self._others

        def begin() -> Iterator[Pending]:
            is_alone = len(self.parts) == 1
            for part in others:
                given = _given(part, args)
                yield part.link.begin(
                    *(self.session, part.handle, step, given),
                    record=record,
                    is_alone=is_alone,
                    opening=part.opening,
                    repeats=repeats and is_alone and timeout_s is None,
                )

        def run_mine() -> dict[int, Any]:
            assert mine is not None
            assert isinstance(mine.link, LocalLink)
            given = _given(mine, args)
            shortcuts = step.shortcuts
            return mine.link.run_here(self.session, mine.handle, step, given, record, shortcuts)

        found: dict[int, Any] = {}
        for values in self.steps.run(step, begin, None if mine is None else run_mine):
            found.update(values)
        return [found[index] for index in range(self._num_results)]

    def wants_costs(self) -> bool:
        """Whether the next step that is run with options reports its nodes' costs."""
        number = next(self._recordable)
        return self._cost_model is not None and self._cost_model.wants(number)

    def check_args(self, args: Sequence[Any]) -> None:
        """Checks that there is a value of the right dtype for every feed.

        Raises:
            InvalidArgumentError: A value is missing or has another dtype.
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

    def callable(self, *, repeats: bool = False) -> Callable[..., list[Any]]:
        """Returns a function of the fed values that runs a step, see `run`, with less overhead.

        Args:
            repeats: Whether it may run the step several times.
        """
        direct, check, dtypes = self._direct, self.steps.check, self._dtypes
        if repeats and self._repeats_here():
            return partial(self._run_in_turn, self._shared_turns())
        if direct is None or self._timeout_s is not None:
            return lambda *args: self.run(args, repeats=repeats)

        def call(*args: Any) -> list[Any]:
            if [arg.dtype for arg in args] != dtypes:
                return self.run(args)  # which raises the error
            check()
            return direct(args)

        return call

    def _repeats_here(self) -> bool:
        """Whether a step can consist of several runs: the only partition is here, and waits."""
        if len(self.parts) != 1 or self._here is None or self._dtypes or self._num_results:
            return False
        if self._direct is not None or self._timeout_s is not None:
            return False
        link = self._here.link
        assert isinstance(link, LocalLink)
        graph = link.worker.graph(self.session, self._here.handle)
        return graph.takes_step and not graph.wanted and not graph.number

    def _shared_turns(self) -> TakingTurns:
        from sparkflow_runtime.master.taking_turns import TakingTurns

        with self._lock:
            if self._turns is None:
                self._turns = TakingTurns()
            return self._turns

    def _run_in_turn(self, turns: TakingTurns) -> list[Any]:
        turns.run(self._run_repeatedly)
        return []

    def _run_repeatedly(self, for_s: float) -> int:
        assert self._here is not None
        link, handle = self._here.link, self._here.handle
        assert isinstance(link, LocalLink)
        step = self.steps.begin()
        run = partial(link.run_repeatedly, self.session, handle, step, for_s)
        return int(self.steps.run(step, tuple, run)[0])

    def _with_opening(self, part: Part) -> Part:
        """Returns a part, with the opening with which a step can begin with it if it is remote."""
        if self._here is None or isinstance(part.link, LocalLink):
            return part
        from sparkflow_runtime.passes.partitioning.openings import find_opening

        by_device = {each.device: each for each in self.partitions}
        opening = find_opening(by_device[part.device], by_device[self._here.device])
        return replace(part, opening=opening)

    def _direct_call(self) -> Callable[[Sequence[Any]], list[Any]] | None:
        """Returns a call of the only partition if it is here and needs no step object; or None."""
        if len(self.parts) != 1 or not isinstance(self.parts[0].link, LocalLink):
            return None
        part = self.parts[0]
        assert isinstance(part.link, LocalLink)
        graph = part.link.worker.graph(self.session, part.handle)
        program = graph.program
        if program.needs_step:
            return None
        self._loops = program.loops
        # Loops check whether the step was cancelled; kernels need nothing else from it.
        step = cast(StepContext, _Uncounted(self.steps)) if program.loops else None
        if program.args == tuple(range(len(program.args))) and program.results == tuple(
            range(self._num_results)
        ):
            return lambda args: list(program.run(step, args))

        def call(args: Sequence[Any]) -> list[Any]:
            values = program.run(step, [args[index] for index in program.args])
            by_index = dict(zip(program.results, values, strict=True))
            return [by_index[index] for index in range(len(values))]

        return call


class _Uncounted:
    """The step object of a partition that is called, not scheduled."""

    def __init__(self, steps: RunningSteps[WorkerLink]) -> None:
        self.check_cancelled = steps.check


def _given(part: Part, args: Sequence[Any]) -> dict[int, Any]:
    """Returns the fed values of a partition."""
    return {index: args[index] for index in part.args}


def _register(session: str, part: Partition, link_of: Callable[[str], WorkerLink]) -> Part:
    link = link_of(part.device)
    handle = link.register(session, part.nodes, part.functions)
    args = tuple(node.attrs["index"] for node in part.nodes if node.op == ARG)
    results = tuple(node.attrs["index"] for node in part.nodes if node.op == RETVAL)
    return Part(link, handle, args, results, part.device)


def _arg_dtypes(partitions: Sequence[Partition], count: int) -> list[np.dtype[Any] | None]:
    found: list[np.dtype[Any] | None] = [None] * count
    for part in partitions:
        for node in part.nodes:
            if node.op == ARG:
                dtype: DType = node.attrs["T"]
                if not dtype.is_numpy_compatible:
                    raise UnimplementedError(
                        message=f"Tensors of {dtype.name} cannot be fed: numpy has no such type"
                    ).at(node.describe())
                found[node.attrs["index"]] = np.dtype(dtype.as_numpy_dtype)
    return found
