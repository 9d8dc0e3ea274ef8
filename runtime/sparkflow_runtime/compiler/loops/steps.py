"""The steps of a loop as the planner makes them: what stays the same in a run is not yet known."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from sparkflow_runtime.codegen.cpu.repeat import Call, Choose, Loop, Repeat, Step


@dataclass(frozen=True, slots=True)
class Packing:
    """The right factor of a product, packed before the first turn, see `Product.bind_packing`.

    Attributes:
        source: Number of the pointer to the factor.
        target: Number of the pointer to what is packed.
        kernel: Packs it.
    """

    source: int
    target: int
    kernel: Callable[..., bool]


@dataclass(frozen=True, slots=True)
class WithFactor:
    """A product whose right factor may be the same in all turns of a run.

    Attributes:
        plain: The step where it is not.
        factor: Number of the pointer to the packed factor.
        packed: The step where it is, and was packed.
    """

    plain: Call
    factor: int
    packed: Call


@dataclass(frozen=True, slots=True)
class Branch:
    """As `repeat.Choose`, before it is known which factors stay."""

    condition: int
    then: tuple[TurnStep, ...]
    otherwise: tuple[TurnStep, ...]


@dataclass(frozen=True, slots=True)
class InnerLoop:
    """As `repeat.Repeat`, before it is known which factors stay."""

    condition: tuple[TurnStep, ...]
    turn: tuple[TurnStep, ...]
    flag: int
    exchanges: tuple[tuple[int, int], ...]
    most_turns: int


TurnStep: TypeAlias = "Step | WithFactor | Branch | InnerLoop"


@dataclass(frozen=True, slots=True)
class LoopSteps:
    """The steps of a loop, as of `repeat.Loop`, before it is known which factors stay."""

    condition: Sequence[TurnStep]
    turn: Sequence[TurnStep]
    flag: int

    def loop(
        self, packed: Collection[int], before: Sequence[Call] = (), after: Sequence[Call] = ()
    ) -> Loop:
        """The loop of runs in which these factors are packed; for the others see `repeat.Loop`."""

        def chosen(step: TurnStep) -> Step:
            if isinstance(step, Branch):
                then, otherwise = (tuple(map(chosen, e)) for e in (step.then, step.otherwise))
                return Choose(step.condition, then, otherwise)
            if isinstance(step, InnerLoop):
                asked, turn = (tuple(map(chosen, e)) for e in (step.condition, step.turn))
                return Repeat(asked, turn, step.flag, step.exchanges, step.most_turns)
            if not isinstance(step, WithFactor):
                return step
            return step.packed if step.factor in packed else step.plain

        condition, turn = ([*map(chosen, each)] for each in (self.condition, self.turn))
        return Loop(condition, turn, self.flag, before, after)
