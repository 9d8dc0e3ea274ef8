"""From the condition and the body of a loop to steps in machine code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from sparkflow_runtime import dtypes
from sparkflow_runtime.codegen.cpu.copies import Pieces, bind_copies
from sparkflow_runtime.codegen.cpu.repeat import MOST_ARRAYS, Call, Loop, Read
from sparkflow_runtime.codegen.tiles.fixed_products import DTYPES as PRODUCT_DTYPES, Product
from sparkflow_runtime.compiler.fusion.finish import FusedKernel
from sparkflow_runtime.compiler.known import Known
from sparkflow_runtime.compiler.loops.moves import moved_inputs, pieces_of
from sparkflow_runtime.compiler.loops.plan import Cell, LoopPlan, TapeReading
from sparkflow_runtime.compiler.plan import Unit
from sparkflow_runtime.ir.function import Function
from sparkflow_runtime.ir.node import ARG, RETVAL, Endpoint, Node
from sparkflow_runtime.ops import registry

_PRODUCT_S: Final = 5e-11
_BYTE_S: Final = 2e-10
"""About what a multiplication of a product takes, and what is done with a byte."""


class NotNativeError(Exception):
    """A loop does something that only Python can."""


@dataclass(frozen=True, slots=True)
class LoopFunction:
    """The condition or the body of a loop, planned for the shapes of its arguments.

    Attributes:
        function: What it is.
        units: What it does.
        known: What is known of its tensors.
    """

    function: Function
    units: Sequence[Unit]
    known: Mapping[Endpoint, Known]


def plan_loop(
    condition: LoopFunction,
    body: LoopFunction,
    bind: Callable[[FusedKernel], Callable[..., bool]],
    taped_places: Callable[[str], Sequence[str]],
    threads: int = 1,
) -> LoopPlan:
    """A loop in machine code.

    Args:
        condition: What tells whether there is another turn.
        body: The turn.
        bind: Binds a kernel.
        taped_places: What the function of a name records, see `ops.kernel.FunctionTable`.
        threads: Products are split in at most so many parts.

    Raises:
        NotNativeError: A turn does something that only Python can, or a shape changes.
    """
    return _Planner(bind, taped_places, threads).plan(condition, body)


class _Planner:
    def __init__(
        self,
        bind: Callable[[FusedKernel], Callable[..., bool]],
        taped_places: Callable[[str], Sequence[str]],
        threads: int,
    ) -> None:
        self.bind = bind
        self.taped_places = taped_places
        self.cells: list[Cell | None] = []
        self.constants: dict[int, np.ndarray[Any, Any]] = {}
        self.arguments: list[int | None] = []
        self.tapes: list[TapeReading] = []
        self.threads = threads
        self.turn_s = 0.0

    def plan(self, condition: LoopFunction, body: LoopFunction) -> LoopPlan:
        for node in body.function.args:
            known = body.known[Endpoint(node.name, 0)]
            is_tape = known.dtype is dtypes.variant
            self.arguments.append(None if is_tape else self._new(known))
        places: dict[Endpoint, int] = {}
        steps = self._steps(body, places)
        found = [self._place(body, places, node.inputs[0]) for node in body.function.results]
        count = len(self.arguments)
        results = self._results(found[:count], steps)
        taped = None
        if body.function.taped is not None:
            taped = tuple(self._recorded(each, steps) for each in found[count:])
        asked: dict[Endpoint, int] = {}
        asking = self._steps(condition, asked)
        (answer,) = condition.function.results
        flag = self._place(condition, asked, answer.inputs[0])
        cell = None if flag is None else self.cells[flag]
        if flag is None or cell is None or cell.shape != () or cell.dtype != np.bool_:
            raise NotNativeError("the condition is not one truth value")
        loop = Loop(asking, steps, flag)
        return LoopPlan(
            loop,
            self.cells,
            self.arguments,
            results,
            self.constants,
            taped,
            self.tapes,
            self.turn_s + _BYTE_S * sum(each.size_bytes for each in self.cells if each is not None),
        )

    def _new(self, known: Known) -> int:
        shape = known.full_shape
        if shape is None or known.dtype.is_ref or known.dtype not in dtypes.PLAIN:
            raise NotNativeError("a tensor has no known shape, or is no array")
        self.cells.append(Cell(shape, np.dtype(known.dtype.as_numpy_dtype)))
        return len(self.cells) - 1

    def _number(self) -> int:
        self.cells.append(None)
        return len(self.cells) - 1

    def _place(
        self, function: LoopFunction, places: Mapping[Endpoint, int], endpoint: Endpoint
    ) -> int | None:
        """The pointer to a tensor of a function; None for a tape."""
        if endpoint in places:
            return places[endpoint]
        node = function.function.body[endpoint.node]
        if node.op == ARG:
            index: int = node.attrs["index"]
            return self.arguments[index]
        known = function.known[endpoint]
        if known.value is None:
            raise NotNativeError(f"{endpoint} is made by Python")
        number = self._new(known)
        self.constants[number] = np.array(known.value, order="C")
        return number

    def _steps(self, function: LoopFunction, places: dict[Endpoint, int]) -> list[Call | Read]:
        steps: list[Call | Read] = []
        for unit in function.units:
            if unit.fused is not None:
                steps += self._call(function, places, unit.fused)
            elif unit.node.op == "_TapeRead":
                steps += self._read(function, places, unit)
            elif unit.node.op not in (ARG, RETVAL):
                steps += self._single(function, places, unit.node)
        return steps

    def _single(
        self, function: LoopFunction, places: dict[Endpoint, int], node: Node
    ) -> list[Call | Read]:
        op = registry.lookup(node.op)
        turns = op.matrix_product(node)
        if turns is not None:
            return [self._product(function, places, node, turns)]
        if op.passes_on:
            for slot, endpoint in enumerate(node.inputs):
                places[Endpoint(node.name, slot)] = self._array(function, places, endpoint)
            return []
        return self._moves(function, places, node)

    def _moves(
        self, function: LoopFunction, places: dict[Endpoint, int], node: Node
    ) -> list[Call | Read]:
        """Copies of pieces of the inputs, where that is all that the node does."""
        inputs = [function.known[endpoint] for endpoint in node.inputs]
        moved = moved_inputs(node, inputs)
        pieces = pieces_of(node, inputs, moved) if moved else None
        if pieces is None:
            raise NotNativeError(f"{node.op} is Python's")
        sources = [self._array(function, places, node.inputs[place]) for place in moved]
        if len(sources) >= MOST_ARRAYS:
            raise NotNativeError("too many tensors are joined")
        steps: list[Call | Read] = []
        for slot, each in enumerate(pieces):
            made = Endpoint(node.name, slot)
            target = places[made] = self._new(function.known[made])
            steps.append(Call(bind_copies(each, len(sources)), (*sources, target)))
        return steps

    def _copied(self, number: int, steps: list[Call | Read]) -> int:
        """A pointer to a copy, made at the end of the turn."""
        cell = self.cells[number]
        assert cell is not None
        self.cells.append(cell)
        copy = len(self.cells) - 1
        steps.append(Call(bind_copies([Pieces(0, 0, 0, cell.size_bytes)], 1), (number, copy)))
        return copy

    def _product(
        self,
        function: LoopFunction,
        places: dict[Endpoint, int],
        node: Node,
        turns: tuple[bool, bool],
    ) -> Call:
        made = Endpoint(node.name, 0)
        left, right = (self._array(function, places, endpoint) for endpoint in node.inputs)
        out = self._new(function.known[made])
        rows_and_depth, depth_and_columns, result = (self._matrix(n) for n in (left, right, out))
        depth, columns = depth_and_columns[:: -1 if turns[1] else 1]
        if rows_and_depth[:: -1 if turns[0] else 1] != (result[0], depth) or columns != result[1]:
            raise NotNativeError("the sizes of a product do not fit")
        product = Product(function.known[made].dtype, *result, depth, *turns)
        if product.dtype not in PRODUCT_DTYPES or not product.work:
            raise NotNativeError("a product of no elements, or of numbers of another kind")
        places[made] = out
        self.turn_s += product.work * _PRODUCT_S
        return Call(product.bind(self.threads), (left, right, out))

    def _matrix(self, number: int) -> tuple[int, int]:
        cell = self.cells[number]
        if cell is None or len(cell.shape) != 2:
            raise NotNativeError("a product of other than matrices")
        return cell.shape

    def _call(
        self, function: LoopFunction, places: dict[Endpoint, int], fused: FusedKernel
    ) -> list[Call | Read]:
        if fused.checks or any(output.divisor is not None for output in fused.outputs):
            raise NotNativeError("something is left to do when a kernel has run")
        arrays = [self._array(function, places, endpoint) for endpoint in fused.inputs]
        for endpoint, source in fused.copies.items():
            places[endpoint] = self._array(function, places, source)
        for output in fused.outputs:
            number = self._new(function.known[output.endpoints[0]])
            arrays.append(number)
            places.update(dict.fromkeys(output.endpoints, number))
        if len(arrays) > MOST_ARRAYS:
            raise NotNativeError("a kernel has too many arrays")
        return [Call(self.bind(fused), tuple(arrays))] if fused.kernel.outputs else []

    def _array(
        self, function: LoopFunction, places: Mapping[Endpoint, int], endpoint: Endpoint
    ) -> int:
        number = self._place(function, places, endpoint)
        if number is None:
            raise NotNativeError(f"{endpoint} is no array")
        return number

    def _read(
        self, function: LoopFunction, places: dict[Endpoint, int], unit: Unit
    ) -> list[Call | Read]:
        tape, index = unit.node.inputs
        source = function.function.body[tape.node]
        at = self._place(function, places, index)
        if source.op != ARG or at is None:
            raise NotNativeError("a tape is made in the loop")
        recorded = self.taped_places(unit.node.attrs["function"])
        steps: list[Call | Read] = []
        for slot, name in enumerate(unit.node.attrs["names"]):
            endpoint = Endpoint(unit.node.name, slot)
            target = places[endpoint] = self._new(function.known[endpoint])
            stack, row_bytes, rows = self._number(), self._number(), self._number()
            place = list(recorded).index(name)
            self.tapes.append(
                TapeReading(source.attrs["index"], place, target, stack, row_bytes, rows)
            )
            steps.append(Read(at, stack, row_bytes, rows, target))
        return steps

    def _results(self, found: list[int | None], steps: list[Call | Read]) -> list[int | None]:
        results: list[int | None] = []
        taken = {*self.arguments, *self.constants, *(each.target for each in self.tapes)}
        for argument, result in zip(self.arguments, found, strict=True):
            if argument == result:
                results.append(None)
                continue
            if argument is None or result is None:
                raise NotNativeError("a variable becomes a tape, or a tape another one")
            if self.cells[argument] != self.cells[result]:
                raise NotNativeError("a variable changes its shape")
            number = self._copied(result, steps) if result in taken else result
            taken.add(number)
            results.append(number)
        return results

    def _recorded(self, number: int | None, steps: list[Call | Read]) -> int:
        if number is None:
            raise NotNativeError("a tape is recorded")
        if any(number == each.target for each in self.tapes):
            return self._copied(number, steps)
        return number
