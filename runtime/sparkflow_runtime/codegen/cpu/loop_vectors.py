"""The innermost loop: vectors of several registers, then what is left over.

Several registers are worked on at once so that the processor has enough to do while it waits for
results. What is left over goes through a second loop of single registers, the last one cut short.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from sparkflow_runtime.codegen.cpu.loop_accumulators import BLOCK, Accumulator
from sparkflow_runtime.codegen.cpu.loop_frame import Frame
from sparkflow_runtime.codegen.cpu.loop_memory import I32, I64, Cut, number

Step = Callable[[Any, int, Cut | None, list[Any]], list[Any]]
"""Emits one step from index, width, what is cut short and carried vectors; gives these anew."""


class VectorLoops:
    """Emits such loops.

    Args:
        frame: The function they are part of.
        lanes: Of a single register.
    """

    def __init__(self, frame: Frame, lanes: int) -> None:
        self._frame = frame
        self._lanes = lanes
        self._before: Any = None

    def emit(
        self,
        low: Any,
        high: Any,
        step: Step,
        registers: int = 1,
        has_rest: bool = True,
        gathered: Sequence[Accumulator] = (),
    ) -> None:
        """A loop over one dimension.

        Args:
            low: The first index.
            high: Behind the last one.
            step: What is done with a vector.
            registers: Of a vector; a power of two. 0 if the loop is shorter than a register.
            has_rest: Whether the length may be no multiple of the vectors'.
            gathered: Take in the carried vectors, which begin as what changes nothing.
        """
        if registers:
            builder, width = self._frame.builder, registers * self._lanes
            length = builder.sub(high, low)
            full = high
            if has_rest:
                left = builder.and_(length, number(width - 1))
                full = builder.add(low, builder.sub(length, left))
            self._main(low, full, width, step, gathered)
            low = full
        if has_rest:
            self._rest(low, high, step, gathered)

    def splat(self, value: Any, width: int) -> Any:
        """A number in every lane, made before the loop that is being emitted."""
        builder = ir.IRBuilder(self._before)
        builder.position_before(self._before.terminator)
        return splat(builder, value, width)

    def _main(
        self, low: Any, high: Any, width: int, step: Step, gathered: Sequence[Accumulator]
    ) -> None:
        """Sums are made in blocks, for precision: the outer one of two loops is over these."""
        frame, builder = self._frame, self._frame.builder
        outer, inside, fold, after = map(frame.block, ("blocks", "vectors", "fold", "after"))
        self._before = builder.block
        builder.cbranch(builder.icmp_signed("<", low, high), outer, after)
        builder.position_at_end(outer)
        start = builder.phi(I64)
        start.add_incoming(low, self._before)
        end = high
        is_blocked = any(each.needs_blocks for each in gathered)
        if is_blocked:
            end = builder.add(start, number(BLOCK * width))
            end = builder.select(builder.icmp_signed("<", end, high), end, high)
        builder.branch(inside)
        builder.position_at_end(inside)
        index, carried = self._carry(start, outer, gathered, width)
        results = step(index, width, None, carried)
        following = self._next(index, width, carried, results)
        builder.cbranch(builder.icmp_signed("<", following, end), inside, fold)
        builder.position_at_end(fold)
        self._fold(gathered, results)
        if is_blocked:
            start.add_incoming(end, builder.block)
            builder.cbranch(builder.icmp_signed("<", end, high), outer, after)
        else:
            builder.branch(after)
        builder.position_at_end(after)

    def _rest(self, low: Any, high: Any, step: Step, gathered: Sequence[Accumulator]) -> None:
        frame, builder, lanes = self._frame, self._frame.builder, self._lanes
        inside, fold, after = map(frame.block, ("rest", "fold", "after"))
        self._before = builder.block
        builder.cbranch(builder.icmp_signed("<", low, high), inside, after)
        builder.position_at_end(inside)
        index, carried = self._carry(low, self._before, gathered, lanes)
        left = builder.sub(high, index)
        is_last = builder.icmp_signed("<", left, number(lanes))
        count = builder.select(is_last, left, number(lanes))
        limit = splat(builder, builder.trunc(count, I32), lanes)
        cut = Cut(count, builder.icmp_signed("<", counting(I32, lanes), limit))
        results = step(index, lanes, cut, carried)
        following = self._next(index, lanes, carried, results)
        builder.cbranch(builder.icmp_signed("<", following, high), inside, fold)
        builder.position_at_end(fold)
        self._fold(gathered, results)
        builder.branch(after)
        builder.position_at_end(after)

    def _carry(
        self, start: Any, before: Any, gathered: Sequence[Accumulator], width: int
    ) -> tuple[Any, list[Any]]:
        index = self._frame.builder.phi(I64)
        index.add_incoming(start, before)
        carried = []
        for accumulator in gathered:
            neutral = accumulator.neutral(width)
            vector = self._frame.builder.phi(neutral.type)
            vector.add_incoming(neutral, before)
            carried.append(vector)
        return index, carried

    def _next(self, index: Any, width: int, carried: list[Any], results: list[Any]) -> Any:
        builder = self._frame.builder
        following = builder.add(index, number(width))
        for phi, value in zip((index, *carried), (following, *results), strict=True):
            phi.add_incoming(value, builder.block)
        return following

    def _fold(self, gathered: Sequence[Accumulator], results: list[Any]) -> None:
        for accumulator, result in zip(gathered, results, strict=True):
            accumulator.add_lanes(self._frame.builder, result)


def splat(builder: Any, value: Any, width: int) -> Any:
    """A number in every lane."""
    kind = ir.VectorType(value.type, width)
    undefined = ir.Constant(kind, ir.Undefined)
    first = builder.insert_element(undefined, value, ir.Constant(I32, 0))
    return builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(I32, width), None))


def counting(scalar: Any, width: int) -> Any:
    """0, 1, 2 and so on, a constant."""
    return ir.Constant(ir.VectorType(scalar, width), list(range(width)))
