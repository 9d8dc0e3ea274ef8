"""Policies by which an embedding variable adds and evicts rows of ids."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sparkflow._api import export

_EVICTS_BY: Final = ("frequency", "age")


@export("CounterFilter")
@dataclass(frozen=True, slots=True)
class CounterFilter:
    """Ids get a row, and are trained, once they were looked up so often.

    Until then they read as zeros.

    Args:
        filter_freq: How often; 1 for at once.

    Raises:
        ValueError: It is less than 1.
    """

    filter_freq: int = 1

    def __post_init__(self) -> None:
        if self.filter_freq < 1:
            raise ValueError(f"filter_freq must be at least 1, got {self.filter_freq}")


@export("GlobalStepEvict")
@dataclass(frozen=True, slots=True)
class GlobalStepEvict:
    """Ids lose their row when they were not looked up for so long.

    Args:
        steps_to_live: After how many lookups of the table (of its shard) by any replica.

    Raises:
        ValueError: It is less than 1.
    """

    steps_to_live: int

    def __post_init__(self) -> None:
        if self.steps_to_live < 1:
            raise ValueError(f"steps_to_live must be at least 1, got {self.steps_to_live}")


@export("L2WeightEvict")
@dataclass(frozen=True, slots=True)
class L2WeightEvict:
    """Ids lose their row when `EmbeddingVariable.evict` finds its euclidean norm too small.

    Args:
        l2_weight_threshold: Rows of a smaller norm go.

    Raises:
        ValueError: It is not positive.
    """

    l2_weight_threshold: float

    def __post_init__(self) -> None:
        if not self.l2_weight_threshold > 0:
            raise ValueError(
                f"l2_weight_threshold must be positive, got {self.l2_weight_threshold}"
            )


@export("EmbeddingVariableOption")
@dataclass(frozen=True, slots=True)
class EmbeddingVariableOption:
    """How the rows of an embedding variable come and go.

    Args:
        filter_option: When an id gets a row; at once when None.
        evict_option: When it loses it; never when None.
        capacity: How many rows there are at most, in all shards; None for no limit. A table that is
            full evicts a sixteenth of its rows at once.
        evict_by: Who goes first when it is full: `frequency`, those looked up least (of equal ones
            the ones unused for longest); `age`, those unused for longest.
        initial_rows: How many rows the initializer makes; every id starts from the one that a hash
            of it says, wherever and whenever it comes.

    Raises:
        ValueError: A number is less than 1, or `evict_by` is neither.
    """

    filter_option: CounterFilter | None = None
    evict_option: GlobalStepEvict | L2WeightEvict | None = None
    capacity: int | None = None
    evict_by: str = "frequency"
    initial_rows: int = 4096

    def __post_init__(self) -> None:
        if self.capacity is not None and self.capacity < 1:
            raise ValueError(f"capacity must be at least 1, got {self.capacity}")
        if self.initial_rows < 1:
            raise ValueError(f"initial_rows must be at least 1, got {self.initial_rows}")
        if self.evict_by not in _EVICTS_BY:
            raise ValueError(f"evict_by must be 'frequency' or 'age', got {self.evict_by!r}")
