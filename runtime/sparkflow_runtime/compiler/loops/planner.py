"""Plans the condition and the body of a loop as steps in machine code."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from sparkflow_runtime import dtypes
from sparkflow_runtime.codegen.cpu.copies import Pieces, bind_copies
from sparkflow_runtime.codegen.cpu.repeat import Call, Check, Read, Step
from sparkflow_runtime.codegen.cpu.repeat_ir import MOST_ARRAYS
from sparkflow_runtime.codegen.tiles.fixed_products import DTYPES as PRODUCT_DTYPES, Product
from sparkflow_runtime.compiler.fusion.finish import FusedKernel
from sparkflow_runtime.compiler.loops.accumulators import (
    KeptProduct,
    is_kept,
    product_of,
)
from sparkflow_runtime.compiler.loops.calls import call_of, division, outputs_of
from sparkflow_runtime.compiler.loops.inner_loops import InnerVariables, most_turns
from sparkflow_runtime.compiler.loops.lists import ListSteps, LoopList, addition
from sparkflow_runtime.compiler.loops.loop_function import BranchOf, LoopFunction
from sparkflow_runtime.compiler.loops.moves import moved_inputs, pieces_of
from sparkflow_runtime.compiler.loops.overwriting import overwritable, overwrite
from sparkflow_runtime.compiler.loops.plan import LoopPlan
from sparkflow_runtime.compiler.loops.planned_loop import NOTHING_KNOWN, Ends
from sparkflow_runtime.compiler.loops.pointers import Cell, NotNativeError, Pointers
from sparkflow_runtime.compiler.loops.steps import (
    Branch,
    InnerLoop,
    LoopSteps,
    Packing,
    TurnStep,
    WithFactor,
)
from sparkflow_runtime.compiler.loops.tapes import (
    BranchTape,
    Place,
    Recorded,
    TapePart,
    TapeReading,
    numbers_of,
)
from sparkflow_runtime.compiler.plan import Unit
from sparkflow_runtime.ir.node import ARG, RETVAL, Endpoint, Node
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.control.control_flow import If
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.ops.machine_call import Stream

_PRODUCT_S: Final = 5e-11
_BYTE_S: Final = 2e-10
"""Approximate time per multiplication of a product, and per byte of other work."""
_FAILURE: Final = Cell((), np.dtype(np.int32))
"""What a call sets to a non-zero value if it rejects its arguments."""


def plan_loop(
    condition: LoopFunction,
    body: LoopFunction,
    bind: Callable[[FusedKernel], Callable[..., bool]],
    context: KernelContext,
    branch: BranchOf,
    threads: int = 1,
    ends: Ends = NOTHING_KNOWN,
) -> LoopPlan:
    """Plans a loop in machine code.

    Args:
        condition: Decides whether there is another iteration.
        body: The iteration.
        bind: Binds a kernel.
        context: What the kernels of nodes are bound to; it has the functions.
        branch: Returns the function of a name that iterations may call.
        threads: The maximum number of parts of a product.
        ends: What is known of the variables outside the loop.

    Raises:
        NotNativeError: An iteration needs Python, or a shape changes.
    """
    return _Planner(bind, context, branch, threads).plan(condition, body, ends)


class _Planner:
    def __init__(
        self,
        bind: Callable[[FusedKernel], Callable[..., bool]],
        context: KernelContext,
        branch: BranchOf,
        threads: int,
    ) -> None:
        self.bind = bind
        self.context = context
        self.branch = branch
        self.pointers = Pointers()
        self.arguments: list[int | None] = []
        self.places: list[Place] = []
        self.lists: list[LoopList] = []
        self.tapes: list[TapeReading] = []
        self.steady: set[int] = set()
        self.packings: list[Packing] = []
        self.threads = threads
        self.streams: list[Stream] = []
        self.kept: list[KeptProduct] = []
        self.windows: dict[int, int] = {}
        self.turn_s = 0.0
        self.has_loops = False

    def taped_places(self, name: str) -> Sequence[str]:
        """Returns what the function of a name records, see `ops.kernel.FunctionTable`."""
        assert self.context.functions is not None
        return self.context.functions.taped(name)

    def plan(self, condition: LoopFunction, body: LoopFunction, known_ends: Ends) -> LoopPlan:
        pointers = self.pointers
        for number, node in enumerate(body.function.args):
            argument = Endpoint(node.name, 0)
            known = body.known[argument]
            changes = body.function.results[number].inputs[0] != argument
            if known.dtype is not dtypes.variant:
                self.arguments.append(pointers.new(known))
                self.places.append(self.arguments[-1])
                if not changes:
                    self.steady.add(len(pointers.cells) - 1)
                continue
            self.arguments.append(None)
            self.places.append(TapePart(number))
            self.lists.append(LoopList(number, pointers.plain(), changes))
        arguments = [Endpoint(node.name, 0) for node in body.function.args]
        lists = {arguments[each.argument]: each for each in self.lists}
        turn = _FunctionSteps(self, body, self.places, lists, may_change=True)
        steps = turn.steps()
        ends = [node.inputs[0] for node in body.function.results]
        count = len(self.arguments)
        for each in self.lists:
            if turn.lists.list_at_end(ends[each.argument]) is not each:
                raise NotNativeError("a list is replaced by another one")
        growing = {each.argument for each in body.accumulators}
        found = [
            self.places[number] if number in growing else turn.shaped_place(endpoint)
            for number, endpoint in enumerate(ends)
        ]
        results = self._results(found[:count], steps)
        taped = None
        if body.function.taped is not None:
            taped = tuple(self.recorded(each, steps) for each in found[count:])
        arguments = [Endpoint(node.name, 0) for node in condition.function.args]
        lists = {arguments[each.argument]: each for each in self.lists}
        question = _FunctionSteps(self, condition, self.places, lists, may_change=False)
        asking = question.steps()
        flag = question.truth(condition.function.results[0].inputs[0], "the condition is")
        for each in self.lists:
            if each.is_changed and each.cell is None:
                raise NotNativeError("the elements of a list are unknown")
            if each.grows and each.length is not None:
                raise NotNativeError("the length of a growing list is needed")
        used = [each for each in self.lists if each.cell is not None or each.length is not None]
        cells = pointers.cells
        fixed = {*numbers_of(taped), *self.windows, *self.windows.values()}
        pairs = [
            each for each in zip(self.arguments, results, strict=True) if fixed.isdisjoint(each)
        ]
        steps, found_in_place = overwrite(steps, pairs, pointers.may_replace)
        pointers.overwriting.update(found_in_place)
        return LoopPlan(
            LoopSteps(asking, steps, flag),
            cells,
            self.arguments,
            results,
            pointers.constants,
            taped,
            self.tapes,
            used,
            pointers.borrowed,
            self.turn_s + _BYTE_S * sum(each.size_bytes for each in cells if each is not None),
            self.packings,
            self.streams,
            {grown for place in growing if (grown := self.arguments[place]) is not None},
            self.kept,
            has_loops=self.has_loops,
            ends=known_ends,
            overwriting=pointers.overwriting,
        )

    def keep(self, number: int, steps: list[TurnStep]) -> int:
        """Returns the pointer to an array's copy kept per iteration; adds the copy to the steps."""
        if number not in self.windows:
            pointers = self.pointers
            is_of_turn = number not in {*self.arguments, *pointers.constants, *pointers.borrowed}
            self.windows[number] = number if is_of_turn else self._copied(number, steps)
        return self.windows[number]

    def pack(self, product: Product, right: int) -> int | None:
        """Returns the pointer to a right factor packed before the loop; None for none.

        Whether a factor on a tape is loop-invariant may be known only in a run.
        """
        read = {each.target for each in self.tapes}
        size = product.packed_elements
        if not size or right not in self.steady | read | self.pointers.constants.keys():
            return None
        dtype = self.pointers.cell(right).dtype
        target = self.pointers.of(Cell((size,), dtype))
        self.packings.append(Packing(right, target, product.bind_packing()))
        return target

    def _results(self, found: Sequence[Place], steps: list[TurnStep]) -> list[int | None]:
        pointers = self.pointers
        results: list[int | None] = []
        taken = {*self.arguments, *pointers.constants, *pointers.borrowed, *self.windows.values()}
        for argument, result in zip(self.arguments, found, strict=True):
            if argument == result:
                results.append(None)
                continue
            if argument is None or not isinstance(result, int):
                raise NotNativeError("a variable becomes a list, or a list is replaced")
            if pointers.cells[argument] != pointers.cells[result]:
                raise NotNativeError("a variable changes its shape")
            number = self._copied(result, steps) if result in taken else result
            taken.add(number)
            results.append(number)
        return results

    def recorded(self, place: Place, steps: list[TurnStep]) -> Recorded:
        """Returns what is recorded of a tensor; adds the steps needed for it."""
        if isinstance(place, BranchTape):
            flag = place.flag
            is_borrowed = flag in self.pointers.borrowed
            return replace(place, flag=self._copied(flag, steps) if is_borrowed else flag)
        if place is None or isinstance(place, TapePart):
            raise NotNativeError("a list is recorded")
        is_elsewhere = place in self.pointers.borrowed or place in self.windows.values()
        return self._copied(place, steps) if is_elsewhere else place

    def _copied(self, number: int, steps: list[TurnStep]) -> int:
        """Returns the pointer to a copy made at the end of the iteration."""
        copy = self.pointers.of(self.pointers.cell(number))
        steps.append(self.pointers.copy(number, copy))
        return copy


class _FunctionSteps:
    """Plans the steps of the condition, of the body, or of a branch in one of them."""

    def __init__(
        self,
        planner: _Planner,
        function: LoopFunction,
        arguments: Sequence[Place],
        lists: Mapping[Endpoint, LoopList],
        may_change: bool,
    ) -> None:
        self._planner = planner
        self._pointers = planner.pointers
        self._function = function
        self._arguments = arguments
        self._places: dict[Endpoint, int | BranchTape | TapePart] = {}
        self._growing: dict[Endpoint, list[int]] = {}
        for accumulator in function.accumulators:
            number = arguments[accumulator.argument]
            assert isinstance(number, int)
            for term in accumulator.terms:
                self._growing.setdefault(term, []).append(number)
        self._made: list[TurnStep] = []
        self._copies: dict[Endpoint, int] = {}
        known = function.known
        self.lists = ListSteps(planner.pointers, lists, known, self.shaped, may_change)

    def steps(self) -> list[TurnStep]:
        """Returns all steps, in order."""
        steps = self._made
        for unit in self._function.units:
            if unit.fused is not None:
                steps += self._call(unit.fused)
            elif unit.node.op == "_TapeRead":
                steps += self._read(unit)
            elif unit.node.op not in (ARG, RETVAL):
                growth = self._growth(unit.node)
                steps += self._single(unit.node) if growth is None else growth
        for endpoint, totals in self._growing.items():
            for total in totals:
                kernel = addition(self._pointers.cell(total))
                steps.append(Call(kernel, (total, self.array(endpoint), total)))
        return steps

    def _growth(self, node: Node) -> Sequence[TurnStep] | None:
        """Returns steps that add a node's output to a variable without materializing it.

        None if no variable grows by it, or if that is not faster.
        """
        made = Endpoint(node.name, 0)
        totals = self._growing.get(made, ())
        if len(totals) != 1:
            return None
        known, steps, total = self._function.known, list[TurnStep](), totals[0]
        product = product_of(node, known)
        if product is None:
            call = call_of(node, known, self._planner.context.session)
            if call is None or call.adding is None:
                return None
            arrays = [self.array(node.inputs[place]) for place in call.inputs]
            steps += self._checked(call.adding, [*arrays, total], call.can_fail)
        elif is_kept(product):
            left, right = (self._planner.keep(self.shaped(each), steps) for each in node.inputs)
            self._planner.kept.append(KeptProduct(total, left, right))
        elif product.is_small:
            return None
        else:
            self._planner.turn_s += product.work * _PRODUCT_S
            factors = (self.array(endpoint) for endpoint in node.inputs)
            steps += [Call(product.bind(self._planner.threads, adds=True), (*factors, total))]
        del self._growing[made]
        return steps

    def place(self, endpoint: Endpoint) -> Place:
        """Returns what a tensor is."""
        if endpoint in self._places:
            return self._places[endpoint]
        if self.lists.list_at_end(endpoint) is not None:
            return None
        node = self._function.function.body[endpoint.node]
        if node.op == ARG:
            index: int = node.attrs["index"]
            return self._arguments[index]
        known = self._function.known[endpoint]
        if known.value is None:
            raise NotNativeError(f"{endpoint} is computed by Python")
        number = self._pointers.new(known)
        self._pointers.constants[number] = np.array(known.value, order="C")
        return number

    def _variant(self, endpoint: Endpoint) -> Place:
        """Returns the tape that a tensor may be; a list of the loop may pass for one until read."""
        node = self._function.function.body[endpoint.node]
        if node.op != ARG:
            return self._places.get(endpoint)
        index: int = node.attrs["index"]
        return self._arguments[index]

    def array(self, endpoint: Endpoint) -> int:
        """Returns the pointer to an array, which may have been created with another shape."""
        number = self.place(endpoint)
        if not isinstance(number, int):
            raise NotNativeError(f"{endpoint} is not an array")
        return number

    def shaped(self, endpoint: Endpoint) -> int:
        """Returns the pointer to an array of this shape: a copy if it had another one."""
        number = self.array(endpoint)
        if self._pointers.cell(number).shape == self._shape(endpoint):
            return number
        if endpoint not in self._copies:
            copy = self._copies[endpoint] = self._pointers.new(self._function.known[endpoint])
            self._made.append(self._pointers.copy(number, copy))
        return self._copies[endpoint]

    def truth(self, endpoint: Endpoint, what_it_is: str) -> int:
        """Returns the pointer to a boolean."""
        number = self.shaped(endpoint)
        if self._pointers.cell(number) != Cell((), np.dtype(np.bool_)):
            raise NotNativeError(f"{what_it_is} not one truth value")
        return number

    def shaped_place(self, endpoint: Endpoint) -> Place:
        """Returns what a tensor is, an array in its shape."""
        place = self.place(endpoint)
        return self.shaped(endpoint) if isinstance(place, int) else place

    def _shape(self, endpoint: Endpoint) -> tuple[int, ...]:
        shape = self._function.known[endpoint].full_shape
        if shape is None:
            raise NotNativeError("a tensor has no known shape")
        return shape

    def _new(self, endpoint: Endpoint) -> int:
        number = self._pointers.new(self._function.known[endpoint])
        self._places[endpoint] = number
        return number

    def _single(self, node: Node) -> Sequence[TurnStep]:
        op = registry.lookup(node.op)
        if isinstance(op, If):
            return [self._branch(node)]
        if op.is_loop:
            return self._loop(node)
        turns = op.matrix_product(node)
        if turns is not None:
            return [self._product(node, turns)]
        access = op.list_access(node)
        if access is not None:
            steps, number = self.lists.steps(node, access)
            if number is not None:
                self._places[Endpoint(node.name, 0)] = number
            return steps
        if op.passes_on:
            for slot, endpoint in enumerate(node.inputs):
                self._places[Endpoint(node.name, slot)] = self.array(endpoint)
            return []
        made = self._moves(node)
        if made is None:
            made = self._machine_call(node)
        if made is None:
            raise NotNativeError(f"{node.op} is Python's")
        return made

    def _branch(self, node: Node) -> Branch:
        """Plans a branch: both functions write to the same arrays."""
        condition, *given = node.inputs
        flag = self.truth(condition, "what chooses a branch is")
        places = [
            self._variant(each)
            if self._function.known[each].dtype is dtypes.variant
            else self.array(each)
            for each in given
        ]
        shapes = tuple(self._function.known[endpoint].full_shape for endpoint in given)
        count = len(node.attrs["Tout"])
        targets = [self._new(Endpoint(node.name, slot)) for slot in range(count)]
        names = (node.attrs["then_branch"], node.attrs["else_branch"])
        branches: list[tuple[TurnStep, ...]] = []
        taped: list[tuple[Recorded, ...] | None] = []
        for name in names:
            called = self._planner.branch(name, shapes)
            inner = _FunctionSteps(self._planner, called, places, {}, may_change=False)
            steps = inner.steps()
            ends = [result.inputs[0] for result in called.function.results]
            for end, target in zip(ends[:count], targets, strict=True):
                number = inner.array(end)
                if called.known[end].full_shape != self._pointers.cell(target).shape:
                    raise NotNativeError("branches have results of other shapes")
                steps.append(self._pointers.copy(number, target))
            taped.append(None)
            if called.function.taped is not None:
                places_at_end = [inner.shaped_place(each) for each in ends[count:]]
                recorded = [self._planner.recorded(each, steps) for each in places_at_end]
                taped[-1] = tuple(recorded)
            branches.append(tuple(steps))
        self._places[Endpoint(node.name, count)] = BranchTape(flag, names, (taped[0], taped[1]))
        return Branch(flag, branches[0], branches[1])

    def _loop(self, node: Node) -> list[TurnStep]:
        """Plans an inner loop; see `inner_loops`."""
        planner, pointers, known = self._planner, self._pointers, self._function.known
        outer = [self.shaped_place(each) for each in node.inputs]
        shapes = tuple(known[endpoint].full_shape for endpoint in node.inputs)
        condition, body = (planner.branch(node.attrs[name], shapes) for name in ("cond", "body"))
        if body.function.taped is not None:
            raise NotNativeError("an inner loop is recorded")
        before, first = planner.turn_s, len(pointers.cells)
        variables = InnerVariables(pointers, body.function, outer)
        asked, inner = (
            _FunctionSteps(planner, each, variables.places, {}, may_change=False)
            for each in (condition, body)
        )
        asking = asked.steps()
        flag = asked.truth(condition.function.results[0].inputs[0], "the condition is")
        turn = inner.steps()
        results = [inner.shaped_place(result.inputs[0]) for result in body.function.results]
        taken = {*planner.arguments, *pointers.constants, *pointers.borrowed}
        exchanges = variables.exchanges(results, taken, turn)
        planner.has_loops = True
        seconds = planner.turn_s - before
        seconds += _BYTE_S * sum(cell.size_bytes for cell in pointers.cells[first:] if cell)
        loop = InnerLoop(tuple(asking), tuple(turn), flag, exchanges, most_turns(seconds))
        ends = [Endpoint(node.name, number) for number in range(len(outer))]
        self._places.update(zip(ends, variables.ends, strict=True))
        return [*variables.begin, loop, *variables.after]

    def _machine_call(self, node: Node) -> list[Step] | None:
        """Returns the machine-code call of the node's op, and a check of its success."""
        call = call_of(node, self._function.known, self._planner.context.session)
        if call is None:
            return None
        arrays = [self.array(node.inputs[place]) for place in call.inputs]
        arrays += [self._new(each) for each in outputs_of(node)]
        if call.stream is not None:
            self._planner.streams.append(call.stream)
        return self._checked(call.kernel, arrays, call.can_fail)

    def _checked(
        self, kernel: Callable[..., bool], arrays: Sequence[int], can_fail: bool
    ) -> list[Step]:
        """Returns a call and a check of its success."""
        if not can_fail:
            return [Call(kernel, tuple(arrays))]
        failure = self._pointers.of(_FAILURE)
        return [Call(kernel, (*arrays, failure)), Check(failure)]

    def _moves(self, node: Node) -> list[Step] | None:
        """Returns copies of pieces of the inputs if the node does nothing else; else None."""
        inputs = [self._function.known[endpoint] for endpoint in node.inputs]
        moved = moved_inputs(node, inputs)
        pieces = pieces_of(node, inputs, moved) if moved else None
        if pieces is None:
            return None
        sources = [self.array(node.inputs[place]) for place in moved]
        if len(sources) >= MOST_ARRAYS:
            raise NotNativeError("too many tensors are concatenated")
        if len(sources) == len(pieces) == 1:
            cell, made = self._pointers.cell(sources[0]), Endpoint(node.name, 0)
            is_same = self._function.known[made].dtype.as_numpy_dtype == cell.dtype
            if is_same and pieces[0] == [Pieces(0, 0, 0, cell.size_bytes)]:
                self._places[made] = sources[0]
                return []
        targets = [self._new(Endpoint(node.name, slot)) for slot in range(len(pieces))]
        return [
            Call(bind_copies(each, len(sources)), (*sources, target))
            for each, target in zip(pieces, targets, strict=True)
        ]

    def _product(self, node: Node, turns: tuple[bool, bool]) -> TurnStep:
        made = Endpoint(node.name, 0)
        left, right = (self.array(endpoint) for endpoint in node.inputs)
        out = self._new(made)
        (stacks, rows_and_depth), (others, depth_and_columns), (results, result) = (
            self._matrices(endpoint) for endpoint in (*node.inputs, made)
        )
        depth, columns = depth_and_columns[:: -1 if turns[1] else 1]
        if rows_and_depth[:: -1 if turns[0] else 1] != (result[0], depth) or columns != result[1]:
            raise NotNativeError("the sizes of a product do not fit")
        count = math.prod(results)
        moves = [each == results for each in (stacks, others)]
        if any(
            not moved and math.prod(each) != 1
            for moved, each in zip(moves, (stacks, others), strict=True)
        ):
            raise NotNativeError("stacks of matrices are broadcast")
        dtype = self._function.known[made].dtype
        product = Product(dtype, *result, depth, *turns, count, *moves)
        if product.dtype not in PRODUCT_DTYPES or not product.work:
            raise NotNativeError("a product of no elements, or of numbers of another kind")
        self._planner.turn_s += product.work * _PRODUCT_S
        threads = self._planner.threads
        plain = Call(product.bind(threads), (left, right, out))
        packed = self._planner.pack(product, right)
        if packed is None:
            return plain
        return WithFactor(plain, packed, Call(product.bind_packed(threads), (left, packed, out)))

    def _matrices(self, endpoint: Endpoint) -> tuple[tuple[int, ...], tuple[int, int]]:
        """Returns the batch shape and the matrix shape of a stack of matrices."""
        shape = self._shape(endpoint)
        if len(shape) < 2:
            raise NotNativeError("a product of tensors that are not matrices")
        *stack, rows, columns = shape
        return tuple(stack), (rows, columns)

    def _call(self, fused: FusedKernel) -> list[Step]:
        arrays = [self.array(endpoint) for endpoint in fused.inputs]
        named = [(endpoint, self.array(source)) for endpoint, source in fused.copies.items()]
        divisions: list[Step] = []
        for output in fused.outputs:
            number = self._pointers.new(self._function.known[output.endpoints[0]])
            arrays.append(number)
            if output.divisor is not None:
                divided = self._pointers.of(self._pointers.cell(number))
                kernel = division(self._pointers.cell(number), output.divisor)
                divisions.append(Call(kernel, (number, divided)))
                number = divided
            named += [(endpoint, number) for endpoint in output.endpoints]
        failures = [self._pointers.of(_FAILURE) for _ in fused.checks]
        arrays += failures
        self._pointers.may_replace.update(overwritable(fused, arrays))
        if len(arrays) > MOST_ARRAYS:
            raise NotNativeError("a kernel has too many arrays")
        steps: list[Step] = []
        if fused.kernel.outputs:
            steps.append(Call(self._planner.bind(fused), tuple(arrays)))
        steps += [*map(Check, failures), *divisions]
        self._places.update(named)
        return steps

    def _read(self, unit: Unit) -> list[Step]:
        tape, index = unit.node.inputs
        source = self._variant(tape)
        if not isinstance(source, TapePart):
            raise NotNativeError("a tape is created in the loop")
        at = self.array(index) if source.at is None else source.at
        function = unit.node.attrs["function"]
        recorded = list(self._planner.taped_places(function))
        steps: list[Step] = []
        for slot, name in enumerate(unit.node.attrs["names"]):
            made = Endpoint(unit.node.name, slot)
            path = (*source.path, (function, recorded.index(name)))
            if self._function.known[made].dtype is dtypes.variant:
                self._places[made] = TapePart(source.argument, path, at)
                continue
            target = self._new(made)
            self._pointers.borrowed.add(target)
            stack, row_bytes, rows = (self._pointers.plain() for _ in range(3))
            reading = TapeReading(source.argument, path, target, stack, row_bytes, rows)
            self._planner.tapes.append(reading)
            steps.append(Read(at, stack, row_bytes, rows, target))
        return steps
