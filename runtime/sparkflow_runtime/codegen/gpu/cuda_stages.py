"""Splits a `Kernel` into stages, one CUDA launch each, in an order that is safe in place.

A stage runs over the dimensions along which its values vary (its domain), and is one of

- `elementwise`: each element separately,
- `rows`: one block or warp per row, with reductions within the row that later instructions use,
- `partial`: any reduction to outputs, over parts of the reduced elements; the results of the parts
  are combined by a separate launch, so that sums are deterministic.

Stages of larger domains come first and combinations last. A stage reads only values that vary along
dimensions of its domain, so no array is read after an output was written in its place.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from sparkflow_runtime.codegen.ir.kernel import REDUCTIONS, Axes, Instruction, Kernel


@dataclass(frozen=True)
class Stage:
    """The work of one launch.

    Arrays are numbered: the kernel's inputs, its outputs, then intermediate arrays.

    Attributes:
        kernel: The kernel it belongs to.
        kind: `elementwise`, `rows` or `partial`.
        domain: The dimensions it runs over.
        over: Those that are reduced; none for an `elementwise` stage.
        given: Arrays in which earlier stages stored values, by value.
        stores: Values and the arrays they are written to, one element per thread.
        reduced: Reductions of a `partial` stage and the arrays of their results.
    """

    kernel: Kernel
    kind: str
    domain: Axes
    over: Axes
    given: dict[int, int] = field(default_factory=dict)
    stores: tuple[tuple[int, int], ...] = ()
    reduced: tuple[tuple[int, int], ...] = ()

    @cached_property
    def loads(self) -> dict[int, int]:
        """The values it reads, and from which arrays."""
        inputs = len(self.kernel.inputs)
        needed = [v for v in self.values if v < inputs or v in self.given]
        return {value: self.given.get(value, value) for value in needed}

    @cached_property
    def values(self) -> tuple[int, ...]:
        """All values that it reads or computes, in order, except those in `reduced`."""
        wanted = [value for value, _ in self.stores]
        for value, _ in self.reduced:
            wanted += instruction_of(self.kernel, value).arguments
        return _ancestors(self.kernel, wanted, self.given)

    @cached_property
    def groups(self) -> tuple[tuple[int, ...], ...]:
        """The domain's dimensions, with those that all arrays traverse contiguously merged."""
        patterns: list[tuple[bool, ...]] = []
        axes = self.kernel.value_axes
        counted = [
            each.over
            for value in self.values
            if value >= len(self.kernel.inputs)
            and (each := instruction_of(self.kernel, value)).function == "index"
        ]
        touched = [axes[value] for value in (*self.loads, *(value for value, _ in self.stores))]
        groups: list[list[int]] = []
        for dimension in range(self.kernel.rank):
            if not self.domain[dimension]:
                continue
            pattern = (
                self.over[dimension],
                *(each[dimension] for each in touched),
                *(each[dimension] for each in counted),
            )
            alone = any(each[dimension] for each in counted)
            if groups and patterns[-1] == pattern and not alone:
                groups[-1].append(dimension)
            else:
                groups.append([dimension])
            patterns.append(pattern)
        return tuple(tuple(group) for group in groups)

    def varies(self, value: int) -> tuple[bool, ...]:
        """Along which of the groups a value varies."""
        axes = self.kernel.value_axes[value]
        return tuple(any(axes[dimension] for dimension in group) for group in self.groups)

    @cached_property
    def reduced_groups(self) -> tuple[bool, ...]:
        """Which of the groups are reduced."""
        return tuple(self.over[group[0]] for group in self.groups)


def instruction_of(kernel: Kernel, value: int) -> Instruction:
    """Returns the instruction that computes a value."""
    return kernel.instructions[value - len(kernel.inputs)]


def stages(kernel: Kernel) -> tuple[tuple[Stage, ...], tuple[int, ...]]:
    """Returns the stages of a kernel, in order.

    Returns:
        The stages; and the values that they store in intermediate arrays for later ones.
    """
    return _Splitter(kernel).split()


class _Splitter:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.first = len(kernel.inputs)
        self.none: Axes = (False,) * kernel.rank
        self.used = sorted(
            {
                argument
                for each in kernel.instructions
                for argument in each.arguments
                if self._is_reduction(argument)
            }
        )
        self.left: dict[int, int] = {}
        """Row reductions that `partial` stages need, and the intermediate arrays that hold them."""

    def split(self) -> tuple[tuple[Stage, ...], tuple[int, ...]]:
        rows: dict[Axes, list[tuple[int, int]]] = {}
        partial: dict[tuple[Axes, Axes], list[tuple[int, int]]] = {}
        plain: dict[Axes, list[tuple[int, int]]] = {}
        for number, value in enumerate(self.kernel.outputs):
            store = (value, self.first + number)
            if self._is_reduction(value) and not self._within_rows(value):
                key = (self._domain(value, self.used), instruction_of(self.kernel, value).over)
                partial.setdefault(key, []).append(store)
                continue
            needed = _ancestors(self.kernel, [value], ())
            found = rows if any(self._is_reduction(each) for each in needed) else plain
            found.setdefault(self._domain(value), []).append(store)
        for stored in partial.values():
            for value, _ in stored:
                self._leave(value, rows)
        first = [
            Stage(self.kernel, "rows", domain, self._row_over(domain), {}, tuple(stores))
            for domain, stores in rows.items()
        ]
        later = [
            Stage(self.kernel, "partial", domain, over, dict(self.left), reduced=tuple(stored))
            for (domain, over), stored in partial.items()
        ]
        for domain, stores in plain.items():
            later.append(Stage(self.kernel, "elementwise", domain, self.none, {}, tuple(stores)))
        later.sort(key=lambda stage: (-sum(stage.domain), stage.domain, stage.kind != "partial"))
        return (*first, *_joined(later)), tuple(self.left)

    def _leave(self, value: int, rows: dict[Axes, list[tuple[int, int]]]) -> None:
        """Has the row reductions that this one depends on stored in intermediate arrays."""
        arguments = instruction_of(self.kernel, value).arguments
        for each in _ancestors(self.kernel, arguments, self.used):
            if each in self.used and each not in self.left:
                array = self.first + len(self.kernel.outputs) + len(self.left)
                self.left[each] = array
                rows.setdefault(self._domain(each), []).append((each, array))

    def _row_over(self, domain: Axes) -> Axes:
        over = instruction_of(self.kernel, self.used[0]).over
        return tuple(a and b for a, b in zip(over, domain, strict=True))

    def _within_rows(self, value: int) -> bool:
        """Whether a reduction is over the same rows as the reused ones."""
        if not self.used:
            return False
        over = instruction_of(self.kernel, value).over
        return over == instruction_of(self.kernel, self.used[0]).over

    def _domain(self, value: int, given: Collection[int] = ()) -> Axes:
        """Returns the dimensions of everything that a value depends on."""
        domain = self.none
        for each in _ancestors(self.kernel, [value], given):
            axes = [domain, self.kernel.value_axes[each]]
            if self._is_reduction(each) and each not in given:
                axes.append(instruction_of(self.kernel, each).over)
            domain = tuple(any(flags) for flags in zip(*axes, strict=True))
        return domain

    def _is_reduction(self, value: int) -> bool:
        return value >= self.first and instruction_of(self.kernel, value).function in REDUCTIONS


def _ancestors(kernel: Kernel, wanted: Sequence[int], given: Collection[int]) -> tuple[int, ...]:
    """Returns these values and their transitive arguments, up to given values."""
    found: set[int] = set()
    waiting = list(wanted)
    while waiting:
        value = waiting.pop()
        if value in found:
            continue
        found.add(value)
        if value >= len(kernel.inputs) and value not in given:
            waiting += instruction_of(kernel, value).arguments
    return tuple(sorted(found))


def _joined(found: Sequence[Stage]) -> list[Stage]:
    """Fuses elementwise work into a preceding reduction over the same domain."""
    joined: list[Stage] = []
    for stage in found:
        last = joined[-1] if joined else None
        if (
            last is not None
            and stage.kind == "elementwise"
            and last.kind == "partial"
            and last.domain == stage.domain
        ):
            joined[-1] = Stage(
                stage.kernel,
                "partial",
                last.domain,
                last.over,
                last.given,
                stage.stores,
                last.reduced,
            )
        else:
            joined.append(stage)
    return joined
