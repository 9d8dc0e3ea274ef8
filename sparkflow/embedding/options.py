"""Policies by which an embedding variable adds and evicts rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sparkflow._api import export

_EVICTS_BY: Final = ("frequency", "age")


@export("CounterFilter")
@dataclass(frozen=True, slots=True)
class CounterFilter:
    """Gives an id a trainable row once it has been looked up often enough.

    Until then it reads as zeros.

    Args:
        filter_freq: The number of lookups; 1 for the first.

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
    """Evicts the row of an id that has not been looked up for a number of steps.

    Args:
        steps_to_live: The number of lookups of the table (of the id's shard) by any replica.

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
    """Lets `EmbeddingVariable.evict` remove rows whose Euclidean norm is too small.

    Args:
        l2_weight_threshold: Rows with a smaller norm are removed.

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
    """When an embedding variable adds and evicts rows.

    Args:
        filter_option: When an id gets a row; on the first lookup when None.
        evict_option: When it loses its row; never when None.
        capacity: The maximum number of rows in all shards; None for no limit. A full table evicts a
            sixteenth of its rows at a time.
        evict_by: Which rows a full table evicts first: `frequency`, those looked up least often
            (among equals, those unused for longest); `age`, those unused for longest.
        initial_rows: The number of rows that the initializer creates; every id starts from the one
            selected by its hash, regardless of when and where it is first looked up.

    Raises:
        ValueError: A number is less than 1, or `evict_by` is something else.
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
