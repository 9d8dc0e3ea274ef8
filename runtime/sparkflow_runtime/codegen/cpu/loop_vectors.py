"""The innermost loop: vectors of several registers, then the remainder.

The loop is unrolled over several registers to hide instruction latency. The remainder goes through
a second loop of single registers and a masked tail.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from sparkflow_runtime.codegen.cpu.loop_accumulators import BLOCK, Accumulator
from sparkflow_runtime.codegen.cpu.loop_frame import Frame
from sparkflow_runtime.codegen.cpu.loop_memory import I32, I64, Cut, number

Step = Callable[[Any, int, Cut | None, list[Any]], list[Any]]
"""Emits one step from index, width, tail mask and carried vectors; returns the new ones."""


class VectorLoops:
    """Emits the innermost loops.

    Args:
        frame: The function that contains them.
        lanes: Lanes of a single register.
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
        """Emits a loop over one dimension.

        Args:
            low: The first index.
            high: One past the last index.
            step: Emits the work on a vector.
            registers: Registers per vector, a power of two; 0 if the loop is shorter than a
                register.
            has_rest: Whether the length may not be a multiple of the vector length.
            gathered: Accumulate the carried vectors, which start as identities.
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
        """Broadcasts a scalar to all lanes, ahead of the loop that is being emitted."""
        builder = ir.IRBuilder(self._before)
        builder.position_before(self._before.terminator)
        return splat(builder, value, width)

    def _main(
        self, low: Any, high: Any, width: int, step: Step, gathered: Sequence[Accumulator]
    ) -> None:
        """Emits the loop over whole vectors, inside one over blocks if precise sums need that."""
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
    """Broadcasts a scalar to all lanes."""
    kind = ir.VectorType(value.type, width)
    undefined = ir.Constant(kind, ir.Undefined)
    first = builder.insert_element(undefined, value, ir.Constant(I32, 0))
    return builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(I32, width), None))


def counting(scalar: Any, width: int) -> Any:
    """Returns the constant vector 0, 1, 2, ...."""
    return ir.Constant(ir.VectorType(scalar, width), list(range(width)))
