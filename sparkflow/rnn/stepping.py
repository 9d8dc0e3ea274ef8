"""What running a cell over time needs: batch sizes, first states, sequences that have ended."""

from __future__ import annotations

from typing import Any

import tree

from sparkflow.graph.tensor import Tensor
from sparkflow.ops.elementwise.comparison import where
from sparkflow.ops.shape import arrays
from sparkflow.ops.shape.constants import zeros_like


def batch_of(tensor: Tensor, axis: int) -> tuple[Tensor, int | None]:
    """The batch size of a tensor: as a tensor, and where it is known as a number."""
    static = None if tensor.shape.ndims is None else tensor.shape.as_list()[axis]
    return arrays.shape(tensor)[axis], static


def initial(cell: Any, state: Any, batch: Any, dtype: Any) -> Any:
    """The state to start from.

    Raises:
        ValueError: There is neither a state nor a dtype.
    """
    if state is not None:
        return state
    if dtype is None:
        raise ValueError("If there is no initial_state, you must give a dtype.")
    return cell.zero_state(batch, dtype)


def zero_outputs(output: Any) -> Any:
    """What stands in place of an output after the end of a sequence."""
    return tree.map_structure(zeros_like, output)


def copy_through(done: Tensor, old: Any, new: Any) -> Any:
    """`old` in the rows where `done` is true, else `new`; nested alike.

    Args:
        done: [batch] booleans.
        old: Tensors [batch, ...].
        new: Tensors [batch, ...].
    """

    def select(before: Any, after: Any) -> Any:
        if not isinstance(after, Tensor) or after.shape.ndims == 0:
            return after  # such as a TensorArray or a counter in the state
        chosen = where(done, before, after)
        chosen.set_shape(after.shape)
        return chosen

    flat = [select(a, b) for a, b in zip(tree.flatten(old), tree.flatten(new), strict=True)]
    return tree.unflatten_as(new, flat)
