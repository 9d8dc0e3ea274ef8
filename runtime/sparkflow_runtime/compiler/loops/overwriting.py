"""Finds the variables of a loop whose next values can be written over the current ones.

Otherwise a variable alternates between two buffers, which takes twice the room in the caches.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from sparkflow_runtime.codegen.cpu.repeat import (
    Call,
    Check,
    Choose,
    Clear,
    Look,
    Put,
    Read,
    Repeat,
)
from sparkflow_runtime.compiler.fusion.finish import FusedKernel
from sparkflow_runtime.compiler.loops.steps import Branch, InnerLoop, TurnStep, WithFactor


def overwritable(fused: FusedKernel, arrays: Sequence[int]) -> dict[int, frozenset[int]]:
    """Returns, for every output of a kernel, the inputs that it may be written over.

    Args:
        fused: The kernel.
        arrays: Numbers of the pointers to its inputs, then its outputs and the results of checks.
    """
    count = len(fused.inputs)
    inputs, outputs = arrays[:count], arrays[count:]
    whole = {inputs[place] for place in fused.whole_inputs if inputs.count(inputs[place]) == 1}
    found = dict.fromkeys(outputs, frozenset[int]())
    found.update((outputs[place], frozenset(whole)) for place in fused.whole_outputs)
    return found


def overwrite(
    steps: Sequence[TurnStep],
    variables: Iterable[tuple[int | None, int | None]],
    may_replace: Mapping[int, Collection[int]],
) -> tuple[list[TurnStep], dict[int, int]]:
    """Decides which variables change in place.

    The kernel that computes a next value must be the last step that uses the variable. It moves
    behind those that do if they need none of its outputs.

    Args:
        steps: The steps of an iteration; each pointer has one value in it.
        variables: The pointers to the variables and to their next values; None for others.
        may_replace: See `overwritable`, for all kernels.

    Returns:
        The steps, and the pointers to next values that share a variable's memory, by the pointer
        to the variable.
    """
    ordered = list(steps)
    used = [{*numbers(step)} for step in ordered]
    found: dict[int, int] = {}
    for number, result in variables:
        if number is None or result is None or number not in may_replace.get(result, ()):
            continue
        place = next(place for place, each in enumerate(used) if result in each)
        step = ordered[place]
        if not isinstance(step, Call):  # its order with other uses in the step is unknown
            continue
        end = max(place for place, each in enumerate(used) if number in each) + 1
        # What may not be used by a step that it moves behind: its outputs, and the next values of
        # variables that it reads.
        barred = {each for each in step.arrays if each in may_replace}
        barred.update(after for before, after in found.items() if before in step.arrays)
        if all(barred.isdisjoint(each) for each in used[place + 1 : end]):
            ordered.insert(end - 1, ordered.pop(place))
            used.insert(end - 1, used.pop(place))
            found[number] = result
    return ordered, found


def numbers(step: TurnStep) -> Iterator[int]:
    """Returns the numbers of all pointers that a step uses."""
    match step:
        case Call(arrays=arrays):
            yield from arrays
        case Read():
            yield from (step.index, step.stack, step.row_bytes, step.rows, step.target)
        case Look() | Put():
            yield from (step.index, step.control, step.target)
        case Clear():
            yield from (step.index, step.control)
        case Check():
            yield step.failure
        case WithFactor():
            yield from (*step.plain.arrays, *step.packed.arrays)
        case Branch() | Choose():
            yield step.condition
            yield from _all((*step.then, *step.otherwise))
        case InnerLoop(turn=turn) | Repeat(steps=turn):
            yield step.flag
            yield from (number for pair in step.exchanges for number in pair)
            yield from _all((*step.condition, *turn))


def _all(steps: Iterable[TurnStep]) -> Iterator[int]:
    for step in steps:
        yield from numbers(step)
