"""What is built on `tf.gradients`: second derivatives; how gradients over several paths add up."""

from __future__ import annotations

from typing import Any, Final

from sparkflow._api import export
from sparkflow.differentiation.backward import gradients
from sparkflow.graph.scopes import convert_to_tensor, graph_of
from sparkflow.graph.tensor import Tensor
from sparkflow.ops.shape import arrays, constants


@export("AggregationMethod")
class AggregationMethod:
    """How gradients that reach a tensor over several paths are added. All give the same sum.

    Here they are always added by one AddN, whose memory is that of the sum.
    """

    ADD_N: Final = 0
    DEFAULT: Final = ADD_N
    EXPERIMENTAL_TREE: Final = 1
    EXPERIMENTAL_ACCUMULATE_N: Final = 2


@export("hessians")
def hessians(
    ys: Any,
    xs: Any,
    name: str = "hessians",
    colocate_gradients_with_ops: bool = False,
    gate_gradients: bool = False,
    aggregation_method: Any = None,
) -> list[Tensor]:
    """The second derivatives of the sum of `ys` with respect to each of `xs`.

    Args:
        ys: A tensor or list of tensors.
        xs: A tensor or variable of complete static shape, or a list of those.
        name: Name scope of the new nodes.
        colocate_gradients_with_ops: As for `tf.gradients`, as the next two.
        gate_gradients: See `tf.gradients`.
        aggregation_method: See `tf.gradients`.

    Returns:
        Per x of shape `s` a tensor of shape `s + s`.

    Raises:
        ValueError: `ys` do not depend on an x, or the shape of an x is not known.
    """
    listed = list(xs) if isinstance(xs, list | tuple) else [xs]
    options = (colocate_gradients_with_ops, gate_gradients, aggregation_method)
    firsts = gradients(ys, listed, None, "gradients", *options)
    found = []
    for index, (first, x) in enumerate(zip(firsts, listed, strict=True)):
        if first is None:
            raise ValueError(f"The value given does not depend on {x!r}")
        graph = graph_of((first,))
        with graph.as_default(), graph.name_scope(f"{name}_{index}" if index else name):
            found.append(_second(convert_to_tensor(first), x, options))
    return found


def _second(first: Tensor, x: Any, options: tuple[Any, ...]) -> Tensor:
    if not first.shape.is_fully_defined():
        raise ValueError(f"The static shape of {x!r} is {first.shape}; hessians need all of it")
    flat = arrays.reshape(first, [-1])
    rows = []
    for position in range(first.shape.num_elements() or 0):
        (row,) = gradients(flat[position], x, None, "gradients", *options)
        rows.append(constants.zeros_like(first) if row is None else convert_to_tensor(row))
    shape = first.shape.as_list()
    return arrays.reshape(arrays.stack(rows), [*shape, *shape])
