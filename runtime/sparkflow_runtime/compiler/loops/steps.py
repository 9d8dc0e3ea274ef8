"""The steps of a loop as planned, before it is known which factors are constant in a run."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from sparkflow_runtime.codegen.cpu.repeat import Call, Choose, Loop, Repeat, Step


@dataclass(frozen=True, slots=True)
class Packing:
    """A right factor of a product, packed before the first iteration, see `Product.bind_packing`.

    Attributes:
        source: Number of the pointer to the factor.
        target: Number of the pointer to the packed factor.
        kernel: Packs it.
    """

    source: int
    target: int
    kernel: Callable[..., bool]


@dataclass(frozen=True, slots=True)
class WithFactor:
    """A product whose right factor may be constant in a run.

    Attributes:
        plain: The step if it is not.
        factor: Number of the pointer to the packed factor.
        packed: The step if it is constant and packed.
    """

    plain: Call
    factor: int
    packed: Call


@dataclass(frozen=True, slots=True)
class Branch:
    """Like `repeat.Choose`, before it is known which factors are constant."""

    condition: int
    then: tuple[TurnStep, ...]
    otherwise: tuple[TurnStep, ...]


@dataclass(frozen=True, slots=True)
class InnerLoop:
    """Like `repeat.Repeat`, before it is known which factors are constant."""

    condition: tuple[TurnStep, ...]
    turn: tuple[TurnStep, ...]
    flag: int
    exchanges: tuple[tuple[int, int], ...]
    most_turns: int


TurnStep: TypeAlias = "Step | WithFactor | Branch | InnerLoop"


@dataclass(frozen=True, slots=True)
class LoopSteps:
    """The steps of a `repeat.Loop`, before it is known which factors are constant."""

    condition: Sequence[TurnStep]
    turn: Sequence[TurnStep]
    flag: int

    def loop(
        self, packed: Collection[int], before: Sequence[Call] = (), after: Sequence[Call] = ()
    ) -> Loop:
        """Returns the loop for runs in which these factors are packed; see `repeat.Loop`."""

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
