"""Compiles a partition to one straight-line Python function (ADR 0003).

Every node is one line of the function, so that a traceback's line number names the node that
failed without any bookkeeping while it runs. Values are locals and are deleted after their last
use: freeing dead arrays at once keeps the allocator in the cache (0.19 ms against 3.7 ms for 200
chained ops when a dictionary of values is kept to the end). This module binds kernels; `emit`
writes the source, both of plans and for arguments of any shapes, which is a plan without shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sparkflow_runtime.compiler.known import Known
from sparkflow_runtime.compiler.location import LinesOf, located_in, locating
from sparkflow_runtime.compiler.planned import Planned
from sparkflow_runtime.compiler.reads import reads_to_copy
from sparkflow_runtime.compiler.specialise import (
    Specialisations,
    Statistics,
    make_general,
    make_plan,
)
from sparkflow_runtime.compiler.stages import Stages, split
from sparkflow_runtime.compiler.storage import Kernels
from sparkflow_runtime.errors import InternalError, InvalidArgumentError, OpError
from sparkflow_runtime.ir.effects import has_effects
from sparkflow_runtime.ir.function import Function, called, find
from sparkflow_runtime.ir.node import ARG, RETVAL, Endpoint, Node
from sparkflow_runtime.ir.strands import (
    are_ordered,
    find_classes,
    found_beside_readers,
    may_block,
)
from sparkflow_runtime.once import once
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.distributed.transfer import fetched
from sparkflow_runtime.ops.kernel import KernelContext, StepArithmetic, StepContext
from sparkflow_runtime.ops.kernels.narrow import bind_kernel
from sparkflow_runtime.ops.op import Op

if TYPE_CHECKING:
    from sparkflow_runtime.compiler.loops.loop_function import Shapes

_NO_FUNCTIONS: Final[Mapping[str, Function]] = MappingProxyType({})


ObserveKernel = Callable[[Node, Callable[..., Any]], Callable[..., Any]]


@dataclass(frozen=True, slots=True)
class Observed:
    """The outcome of a plan's run.

    Attributes:
        results: See `Program.run`.
        block_bytes: The memory of its values.
    """

    results: tuple[Any, ...]
    block_bytes: int


@dataclass(frozen=True, slots=True)
class Program:
    """A compiled partition.

    Attributes:
        function: `(step, *args) -> results` for arguments of any shapes, see `run`.
        args: The step's argument index of each parameter, in order.
        results: The step's result index of each returned value, in order.
        lines_of: Gives the node at each line of `function`.
        needs_step: Whether any kernel takes the running step.
        loops: Whether it may run forever; it then ends with the step, if it receives one.
        specialisations: Faster functions for the shapes of arguments seen so far.
        statistics: Their statistics, also if they belong to a part of the program.
        rehearse: Computes, from all arguments, what can fail during a wait, see
            `resources.turns.Rehearsal`; None if nothing waits.
    """

    function: Callable[..., tuple[Any, ...]]
    args: tuple[int, ...]
    results: tuple[int, ...]
    lines_of: Callable[[], LinesOf]
    needs_step: bool
    loops: bool = False
    specialisations: Specialisations | None = None
    statistics: Statistics | None = None
    rehearse: Callable[[Sequence[Any]], object] | None = None
    in_strands: bool = False
    """Whether some of its nodes may run while others wait."""
    repeatable: bool = False
    """Whether nothing but its results tells how often it has run."""

    def run(self, step: StepContext | None, args: Sequence[Any]) -> tuple[Any, ...]:
        """Runs every node once, without numpy's warnings.

        Args:
            step: The running step; may be None if no kernel needs it.
            args: One value per parameter, in the order of `Program.args`.

        Returns:
            The fetched values, in the order of `Program.results`.

        Raises:
            OpError: A kernel failed; the text names node, op, device and the user's file:line.
        """
        planned = None if self.specialisations is None else self.specialisations.find(args)
        if planned is not None and planned.is_quiet:
            return self._run(planned, step, args)
        with StepArithmetic():
            return self._run(planned, step, args)

    def call(self, step: StepContext | None, *args: Any) -> tuple[Any, ...]:
        """Like `run`, with numpy's warnings unchanged."""
        planned = None if self.specialisations is None else self.specialisations.find(args)
        return self._run(planned, step, args)

    def run_observed(
        self, step: StepContext | None, args: Sequence[Any], observe: ObserveKernel
    ) -> Observed | None:
        """Runs every node once with a wrapper around each kernel, if there is a plan.

        Args:
            step: As for `run`.
            args: As for `run`.
            observe: See `Planned.run_observed`.

        Returns:
            The results; None, without effect, if there is no plan.

        Raises:
            OpError: As for `run`.
        """
        planned = None if self.specialisations is None else self.specialisations.peek(args)
        if planned is None:
            return None
        with StepArithmetic():
            try:
                return Observed(planned.run_observed(step, args, observe), planned.block_bytes)
            except Exception as error:
                made = located_in(error, planned.lines_of)
                if made is error:
                    raise
                raise made from error

    def _run(
        self, planned: Planned | None, step: StepContext | None, args: Sequence[Any]
    ) -> tuple[Any, ...]:
        if self.rehearse is None:
            return self._run_located(planned, step, args)
        from sparkflow_runtime.resources.turns import begin_rehearsal, end_rehearsal

        outer = begin_rehearsal(partial(self.rehearse, args))
        try:
            return self._run_located(planned, step, args)
        finally:
            end_rehearsal(outer)

    def _is_outdated(self) -> bool:
        """Whether a plan may have failed because another step gave a variable another shape."""
        found = self.specialisations
        return self.repeatable and found is not None and found.is_outdated

    def _run_located(
        self, planned: Planned | None, step: StepContext | None, args: Sequence[Any]
    ) -> tuple[Any, ...]:
        try:
            return self.function(step, *args) if planned is None else planned(step, *args)
        except Exception as error:
            if planned is None:
                made = located_in(error, self.lines_of())
            elif self._is_outdated():
                return self._run_located(None, step, args)
            else:
                made = located_in(error, planned.lines_of)
            if made is error:
                raise
            raise made from error


def compile_partition(
    nodes: Sequence[Node],
    context: KernelContext,
    functions: Mapping[str, Function] = _NO_FUNCTIONS,
) -> Program:
    """Compiles nodes that run in the given order.

    Args:
        nodes: One partition in execution order; inputs come before their users.
        context: Device and resources the kernels are bound to.
        functions: The functions that nodes may call, bodies in execution order.

    Raises:
        UnimplementedError: An op has no kernel for this device and its dtypes.
        InternalError: A node reads a value that no earlier node computes.
        NotFoundError: A node calls a function that does not exist.
    """
    if functions:
        context = with_functions(context, functions)
    blocks = may_block(functions)
    program = _in_strands(nodes, context, blocks) or compile_straight(nodes, context)
    tried = found_beside_readers(nodes, blocks)
    if not tried or context.xp is not np:
        return program
    return replace(program, rehearse=_rehearsal(tried, context, program.args))


def _rehearsal(
    nodes: Sequence[Node], context: KernelContext, args: Sequence[int]
) -> Callable[[Sequence[Any]], object]:
    """Returns a function that runs nodes to find out whether they fail; compiles on first use."""

    @once
    def compiled() -> Program:
        return _Compiler(nodes, context, is_function=True).compile(specialises=False)

    def rehearse(values: Sequence[Any]) -> None:
        program = compiled()
        given = dict(zip(args, values, strict=True))
        with StepArithmetic():
            program.call(None, *[given[index] for index in program.args])

    return rehearse


def compile_straight(nodes: Sequence[Node], context: KernelContext) -> Program:
    """Returns the program of nodes that run sequentially, in the given order.

    Args:
        nodes: As for `compile_partition`.
        context: The same.

    Raises:
        OpError: As `compile_partition`.
    """
    if context.observe is None and context.xp is np:
        count = 1 + max((node.attrs["index"] for node in nodes if node.op == ARG), default=-1)
        stages = split(nodes, count)
        if stages is not None:
            return _in_stages(stages, context, count)
    return _Compiler(nodes, context).compile()


def _in_strands(
    nodes: Sequence[Node],
    context: KernelContext,
    blocks: Callable[[Node], bool],
    is_function: bool = False,
) -> Program | None:
    """Returns the program of nodes some of which wait while others run; None if none does."""
    if context.gpu is not None:
        return None
    classes = find_classes(nodes, blocks)
    if classes is None or are_ordered(classes[node.name] for node in nodes):
        return None
    from sparkflow_runtime.compiler.concurrent import (
        CompiledStrand,
        cut,
        followers,
        numbers_of,
        runner,
    )

    made = cut(nodes, classes)
    strands: list[CompiledStrand] = []
    largest = max(made.strands, key=len)
    after = followers(made.before)
    for number, strand in enumerate(made.strands):
        gives = any(index >= made.num_results for index in numbers_of(strand, RETVAL))
        if gives or is_function or number in made.copying:
            program = _Compiler(strand, context, is_function=True).compile()
        else:
            program = compile_straight(strand, context)
        copies = gives or number in made.copying
        own = fetched if copies and not is_function else None
        before = len(made.before[number])
        strands.append(
            CompiledStrand(program.call, program.args, program.results, before, after[number], own)
        )
        if strand is largest:
            statistics = program.statistics
    args, results = numbers_of(nodes, ARG), numbers_of(nodes, RETVAL)
    if is_function:  # called by position
        args, results = sorted(args), sorted(results)
    run = runner(strands, made, args, results)
    loops = any(_loops(node, context) for node in nodes)
    return Program(
        run, tuple(args), tuple(results), dict, True, loops, statistics=statistics, in_strands=True
    )


def _in_stages(stages: Stages, context: KernelContext, num_args: int) -> Program:
    """Combines two programs; results of the first are further arguments of the second."""
    entry = _Compiler(stages.entry, context, is_function=True, is_entry=True).compile(False)
    rest = _Compiler(stages.rest, context).compile()
    given = sorted({*entry.args, *(index for index in rest.args if index < num_args)})
    place = {index: number for number, index in enumerate(given)}
    place |= {num_args + number: len(given) + number for number in range(len(stages.crossing))}
    take = tuple(place[index] for index in entry.args)
    order = tuple(place[index] for index in rest.args)
    enter, run_rest = entry.call, rest.call

    def run(step: StepContext | None, *args: Any) -> tuple[Any, ...]:
        values = (*args, *enter(step, *[args[index] for index in take]))
        return run_rest(step, *[values[index] for index in order])

    return Program(
        run,
        tuple(given),
        rest.results,
        dict,
        entry.needs_step or rest.needs_step,
        entry.loops or rest.loops,
        statistics=rest.statistics,
    )


def with_functions(context: KernelContext, functions: Mapping[str, Function]) -> KernelContext:
    """Returns the same context for kernels that may call these functions."""
    return replace(context, functions=_Functions(functions, context))


@dataclass(frozen=True, slots=True)
class _BoundFunction:
    """A compiled function, see `ops.kernel.BoundFunction`."""

    program: Program
    taped: tuple[str, ...] | None

    @property
    def needs_step(self) -> bool:
        return self.program.needs_step

    @property
    def loops(self) -> bool:
        return self.program.loops

    def __call__(self, step: StepContext | None, *args: Any) -> tuple[Any, ...]:
        return self.program.call(step, *args)


@dataclass(frozen=True, slots=True)
class _PlannedFunction:
    """A function for arguments of known shapes, see `ops.kernel.BoundFunction`."""

    planned: Planned
    needs_step: bool
    loops: bool
    taped: tuple[str, ...] | None

    def __call__(self, step: StepContext | None, *args: Any) -> tuple[Any, ...]:
        try:
            return self.planned(step, *args)
        except Exception as error:
            made = located_in(error, self.planned.lines_of)
            if made is error:
                raise
            raise made from error


class _Functions:
    """Compiles the functions of one partition on first use."""

    def __init__(self, library: Mapping[str, Function], context: KernelContext) -> None:
        self._library = library
        self._context = replace(context, functions=self)
        self._bound: dict[str, _BoundFunction | None] = {}

    def get(self, name: str) -> _BoundFunction:
        """See `ops.kernel.FunctionTable`."""
        if name in self._bound:
            bound = self._bound[name]
            if bound is None:
                raise InvalidArgumentError(message=f"Function {name!r} calls itself")
            return bound
        function = find(self._library, name)
        self._bound[name] = None
        body = list(function.body)
        program = _in_strands(body, self._context, may_block(self._library), True)
        if program is None:
            program = _Compiler(body, self._context, is_function=True).compile()
        self._bound[name] = bound = _BoundFunction(program, function.taped)
        return bound

    def taped(self, name: str) -> tuple[str, ...]:
        """See `ops.kernel.FunctionTable`."""
        return find(self._library, name).taped or ()

    def define(self, name: str) -> Function:
        """Returns the function of that name.

        Raises:
            NotFoundError: There is none.
        """
        return find(self._library, name)

    def planned(self, name: str, shapes: Shapes) -> _PlannedFunction | None:
        """Returns the named function for arguments of these shapes; None if it has no plan."""
        bound = self.get(name)
        specialisations = bound.program.specialisations
        plan = None if specialisations is None else specialisations.at_once(shapes)
        return (
            None
            if plan is None
            else _PlannedFunction(plan, bound.needs_step, bound.loops, bound.taped)
        )


def _needs_step(node: Node, context: KernelContext) -> bool:
    op = registry.lookup(node.op)
    functions = list(called(node))
    if functions:
        return any(context.function(name).needs_step for name in functions)
    return op.takes_step


def _loops(node: Node, context: KernelContext) -> bool:
    is_loop = registry.lookup(node.op).is_loop
    return is_loop or any(context.function(name).loops for name in called(node))


class _Compiler:
    """Binds the kernels of nodes, and creates the program that calls them."""

    def __init__(
        self,
        nodes: Sequence[Node],
        context: KernelContext,
        is_function: bool = False,
        is_entry: bool = False,
    ) -> None:
        self.nodes = nodes
        self.context = context
        self.is_function = is_function
        self.is_entry = is_entry
        functions = context.functions
        define = functions.define if isinstance(functions, _Functions) else None
        self.copied_reads = reads_to_copy(nodes, define, results_stay=is_entry)
        self.kernels: dict[str, Callable[..., Any]] = {}
        self.constants: dict[Endpoint, Any] = {}
        self.args = self._numbers(ARG)
        self.results = self._numbers(RETVAL)

    def compile(self, specialises: bool = True) -> Program:
        self._bind()
        specialisations = self._specialisations() if specialises else None
        general = once(self._general)
        if specialisations is None:
            function: Callable[..., tuple[Any, ...]] = general().new_frame()
        else:
            # Most partitions run only plans: the other function is written on first use.
            frame = once(lambda: general().new_frame())

            def function(step: StepContext | None, *args: Any) -> tuple[Any, ...]:
                results: tuple[Any, ...] = frame()(step, *args)
                return results

        return Program(
            function,
            self.args,
            self.results,
            lambda: general().lines_of,
            any(_needs_step(node, self.context) for node in self.nodes),
            any(_loops(node, self.context) for node in self.nodes),
            specialisations,
            None if specialisations is None else specialisations.statistics,
            repeatable=not any(has_effects(node) and node.op != RETVAL for node in self.nodes),
        )

    def _numbers(self, op: str) -> tuple[int, ...]:
        """Returns argument or result indices, in the order of parameters or returned values."""
        found = [node.attrs["index"] for node in self.nodes if node.op == op]
        return tuple(sorted(found) if self.is_function else found)  # functions: by position

    def _bind(self) -> None:
        made: set[Endpoint] = set()
        for node in self.nodes:
            try:
                op = registry.lookup(node.op)
                self.kernels[node.name] = self._by_shapes(op, node, self._kernel(op, node))
                for endpoint in node.inputs:
                    if endpoint not in made:
                        raise InternalError(message=f"{endpoint} is read before it is computed")
                outputs = op.signature.output_dtypes(node.attrs)
                made.update(Endpoint(node.name, slot) for slot in range(len(outputs)))
                if node.op == "Const":
                    self.constants[Endpoint(node.name, 0)] = self.kernels[node.name]()
            except OpError as error:
                raise error.at(node.describe()) from None

    def _kernel(self, op: Op, node: Node) -> Callable[..., Any]:
        registry.require_kernel(op, self.context.device_type, node.attrs)
        kernel = bind_kernel(op, node, self.context)
        if op.may_block and not op.takes_step:
            from sparkflow_runtime.resources.turns import call_unseen

            kernel = partial(call_unseen, node.name, kernel)
        if self.context.observe is not None:
            kernel = self.context.observe(node, kernel)
        return kernel

    def _by_shapes(self, op: Op, node: Node, kernel: Callable[..., Any]) -> Callable[..., Any]:
        """Returns the kernel, that of a loop planned by its own shapes."""
        context, functions = self.context, self.context.functions
        if not op.is_loop or context.xp is not np or context.observe is not None:
            return kernel
        from sparkflow_runtime.compiler.loops.by_shapes import LoopByShapes

        assert isinstance(functions, _Functions)
        return LoopByShapes(node, kernel, self.nodes, self._loop_kernel, functions.taped)

    @property
    def _copies_reads(self) -> bool:
        return self.is_function and not self.is_entry

    def _general(self) -> Planned:
        """Returns the function for arguments of any shapes."""
        kernels = Kernels(
            lambda node: self.kernels[node.name],
            lambda _: None,
            self.context.xp,
            copies_reads=self._copies_reads,
        )
        return make_general(
            self.nodes,
            self.constants,
            kernels,
            self.is_function,
            self.copied_reads,
            not self.is_entry,  # which is never traced
        )

    def _specialisations(self) -> Specialisations | None:
        context = self.context
        if context.observe is not None:
            return None
        order = self.args
        if context.gpu is not None:
            from sparkflow_runtime.compiler import card  # only where there is a GPU

            return card.card_specialisations(
                self.nodes, context, self.kernels, order, self.is_function, self.copied_reads
            )
        if context.xp is not np:
            return None

        def bind_out(node: Node) -> Callable[..., Any] | None:
            from sparkflow_runtime.ops.kernels.filling import bind_filling_kernel

            return bind_filling_kernel(registry.lookup(node.op), node, context)

        def bind_group(nodes: Sequence[Node]) -> Callable[..., Any] | None:
            from sparkflow_runtime.ops.optimizers import update_group

            own = [locating(self.kernels[node.name], node) for node in nodes]
            return update_group.bind(nodes, context, own)

        given = {node.name: node.op for node in self.nodes}

        def bind(node: Node) -> Callable[..., Any]:
            if given.get(node.name) == node.op:
                return self.kernels[node.name]
            return self._kernel(registry.lookup(node.op), node)  # a plan's own, see `products`

        kernels = Kernels(bind, bind_out, bind_group=bind_group, copies_reads=self._copies_reads)

        functions = context.functions
        define = functions.define if isinstance(functions, _Functions) else None

        def plan(shapes: Sequence[Any]) -> Planned:
            by_index = dict(zip(order, shapes, strict=True))
            return make_plan(
                self.nodes,
                by_index,
                kernels,
                self.is_function,
                self.copied_reads,
                bind_loop=self._loop_kernel,
                define=define,
            )

        return Specialisations(plan, resources=context.resources)

    def _loop_kernel(
        self, node: Node, known: Mapping[Endpoint, Known], read: Collection[Endpoint]
    ) -> Callable[..., Any] | None:
        from sparkflow_runtime.compiler.loops.binding import bind_loop

        functions = self.context.functions
        assert isinstance(functions, _Functions)
        return bind_loop(node, known, read, self.context, functions.define, functions.planned)
