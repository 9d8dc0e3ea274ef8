"""Finds the pieces of the inputs of which outputs consist, for nodes that only move elements.

To find them, the node's own kernel is run once on marks instead of elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from sparkflow_runtime.codegen.cpu.copies import ZEROS, Pieces
from sparkflow_runtime.compiler.known import Known
from sparkflow_runtime.ir.node import Node
from sparkflow_runtime.ops import evaluation, registry

_MOST: Final = 1 << 22
"""Maximum number of analysed elements of an output."""
_MOST_PIECES: Final = 1 << 14
"""Maximum number of pieces; more would gain nothing."""
_CLEARED_BYTES: Final = 64
"""An output with a piece of zeros per this many bytes is cleared as a whole first."""

Marks = npt.NDArray[np.int64]


def moved_inputs(node: Node, inputs: Sequence[Known]) -> tuple[int, ...]:
    """Returns the inputs whose elements make up the outputs; none if the node does more."""
    op = registry.lookup(node.op)
    if not op.value_rule.moves or not evaluation.is_computable(op, node.attrs):
        return ()
    places = list(range(len(inputs)))
    found: list[int] = []
    for each in op.value_rule.moves:
        chosen = places[each]
        found += chosen if isinstance(chosen, list) else [chosen]
    others = (known for place, known in enumerate(inputs) if place not in found)
    if any(known.value is None for known in others):
        return ()
    if any(inputs[place].full_shape is None for place in found):
        return ()
    return tuple(found)


def pieces_of(
    node: Node, inputs: Sequence[Known], moved: Sequence[int]
) -> list[list[Pieces]] | None:
    """Returns the pieces of each output; sources are numbers in `moved`. None if unknown.

    Args:
        node: The node.
        inputs: What is known of its inputs.
        moved: See `moved_inputs`.
    """
    marked = [known.value for known in inputs]
    starts: list[int] = []
    sizes: list[int] = []
    following = 1
    for place in moved:
        shape = inputs[place].full_shape
        assert shape is not None
        marks = np.arange(following, following + int(np.prod(shape, dtype=np.int64)))
        starts.append(following)
        following += len(marks) + 1  # no piece extends from one input to the next
        marked[place] = marks.reshape(shape)
        sizes.append(inputs[place].dtype.size)
    if following > _MOST or len(set(sizes)) != 1:
        return None
    origins = evaluation.origins(registry.lookup(node.op), node, marked)
    if origins is None:
        return None
    found = []
    for each in origins:
        pieces = _pieces(each.reshape(-1), np.array(starts), sizes[0])
        if pieces is None:
            return None
        found.append(pieces)
    return found


def _pieces(marks: Marks, starts: Marks, size: int) -> list[Pieces] | None:
    if not marks.size:
        return []
    zero = marks == 0
    follows = (np.diff(marks) == 1) & ~zero[:-1] | zero[:-1] & zero[1:]
    begins = np.concatenate(([0], np.flatnonzero(~follows) + 1))
    if len(begins) > _MOST_PIECES:
        return None
    lengths = np.diff(np.concatenate((begins, [marks.size])))
    sources = np.where(zero[begins], ZEROS, np.searchsorted(starts, marks[begins], "right") - 1)
    offsets = np.where(sources < 0, 0, marks[begins] - starts[sources])
    found: list[Pieces] = []
    clears = np.count_nonzero(sources == ZEROS)
    is_cleared = clears > 1 and marks.size * size <= clears * _CLEARED_BYTES
    if is_cleared:
        found.append(Pieces(ZEROS, 0, 0, marks.size * size))
    kinds = np.stack([sources, lengths], 1)
    for kind in np.unique(kinds, axis=0):
        if is_cleared and kind[0] == ZEROS:
            continue
        chosen = np.flatnonzero((kinds == kind).all(1))
        found += _progressions(
            int(kind[0]), int(kind[1]) * size, offsets[chosen] * size, begins[chosen] * size
        )
    return found


def _progressions(source: int, length: int, offsets: Marks, targets: Marks) -> list[Pieces]:
    """Groups pieces of one source and length at equal distances."""
    found: list[Pieces] = []
    steps = np.stack([np.diff(offsets), np.diff(targets)], 1)
    place, total = 0, len(offsets)
    while place < total:
        end = place + 1
        if end < total:
            step = steps[place]
            differs = np.flatnonzero((steps[place:] != step).any(1))
            end = place + int(differs[0]) + 1 if len(differs) else total
        count = end - place
        step_by = steps[place].tolist() if count > 1 else [0, 0]
        start = (int(offsets[place]), int(targets[place]))
        found.append(Pieces(source, *start, length, count, *step_by))
        place = end
    return found
