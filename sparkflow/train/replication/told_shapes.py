"""Shapes that a stage of a pipeline knows before the tensors come.

A tensor from another task has a shape that only the message tells. A stage gets many of them in the
middle of a step, and what reads them could have no plan for its shapes: no kernels of several
nodes, no sums of products in one place. But all that changes from batch to batch is how many rows a
micro-batch has. Every stage is told that with the first message of a step, and gives each tensor
that comes the shape that it must have for so many rows.

How a shape depends on the rows is found by inferring it for some numbers of them. Where that does
not tell, as with rows that a mask selects, the tensor is left as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from sparkflow.graph.graph import Graph
from sparkflow.graph.operation import Operation
from sparkflow.graph.tensor import Tensor
from sparkflow.ops.elementwise import elementwise
from sparkflow.ops.shape import arrays, constants
from sparkflow_runtime import dtypes
from sparkflow_runtime.compiler.known import Known, find_known
from sparkflow_runtime.ir.graph import Graph as Nodes
from sparkflow_runtime.ir.node import TURN_ATTR, Endpoint, Node
from sparkflow_runtime.ops import registry
from sparkflow_runtime.shapes import is_fully_defined

_TRIED: Final = (1, 2, 7, 1000, 200_003)
"""Numbers of rows, so that what is no sum of a constant and a multiple of them is seen: the last is
more than a micro-batch has, for `x[:2000]`, and times a size of a layer still an int32."""


@dataclass(frozen=True, slots=True)
class Size:
    """A size of a tensor: `each` times the rows, and `fixed`."""

    each: int
    fixed: int


def sizes_by_rows(
    operations: Sequence[Operation],
    batch: Collection[str],
    wanted: Iterable[Tensor],
    told: Mapping[str, Sequence[Size]] = MappingProxyType({}),
) -> dict[str, tuple[Size, ...]]:
    """How the shapes of tensors depend on the rows of a batch, by their names.

    Args:
        operations: All that the tensors need, each after those that it needs but for loops.
        batch: Names of the tensors of the batch whose first dimension is its rows.
        wanted: The tensors; those are left out of which that cannot be said.
        told: Tensors of which it is known, by their names.
    """
    nodes = _ordered(operations)
    by_name = {tensor.name: tensor for op in operations for tensor in op.outputs}
    tried: list[Mapping[Endpoint, Known]] = []
    for rows in _TRIED:
        given: dict[Endpoint, tuple[int, ...]] = {}
        for name in batch:
            tensor = by_name.get(name)
            if tensor is not None and tensor._shape and is_fully_defined(tensor._shape[1:]):
                given[tensor.endpoint] = (rows, *(int(size or 0) for size in tensor._shape[1:]))
        for name, known in told.items():
            if name in by_name:
                shape = tuple(size.each * rows + size.fixed for size in known)
                given[by_name[name].endpoint] = shape
        tried.append(find_known(nodes, given))
    found = {}
    for tensor in wanted:
        shapes = [known[tensor.endpoint].full_shape for known in tried if tensor.endpoint in known]
        sizes = _sizes([each for each in shapes if each is not None])
        if sizes is not None:
            found[tensor.name] = sizes
    return found


def _ordered(operations: Sequence[Operation]) -> list[Node]:
    """The nodes, each after those that it needs, without loops and what needs them."""
    graph = Nodes(op.to_node() for op in operations)
    todo = [op.name for op in operations if registry.find(op.type).is_frame]
    consumers = graph.consumers() if todo else {}
    left_out: set[str] = set()
    while todo:
        name = todo.pop()
        if name not in left_out:
            left_out.add(name)
            todo += [node.name for node in consumers[name]]
    return Nodes(node for node in graph if node.name not in left_out).sorted()


def _sizes(shapes: Sequence[tuple[int, ...]]) -> tuple[Size, ...] | None:
    if len(shapes) < len(_TRIED) or len({len(shape) for shape in shapes}) > 1:
        return None
    found = []
    for sizes in zip(*shapes, strict=True):
        each = sizes[1] - sizes[0]  # of two rows less that of one
        fixed = sizes[0] - each
        if any(each * rows + fixed != size for rows, size in zip(_TRIED, sizes, strict=True)):
            return None
        found.append(Size(each, fixed))
    return tuple(found)


class ToldShapes:
    """Gives tensors that go from stage to stage their shapes. Used while a graph is built.

    Args:
        graph: The graph.
        rows: Per micro-batch a tensor, [], an integer: the first dimension of its tensors.
        stage: Gives the stage of an operation; None for one that belongs to none.

    Attributes:
        sizes: Of the tensors of the first micro-batch that were made here, by their names.
    """

    def __init__(
        self, graph: Graph, rows: Sequence[Tensor], stage: Callable[[Operation], int | None]
    ) -> None:
        self._graph = graph
        self._rows = list(rows)
        self._stage = stage
        self._messages: dict[int, Tensor] = {}
        self._rows_on: dict[tuple[int, int], Tensor] = {}
        self._told: dict[tuple[str, int], Tensor] = {}
        self.sizes: dict[str, Sequence[Size]] = {}

    def tell(
        self, parts: Sequence[Mapping[str, Operation]], sizes: Mapping[str, Sequence[Size]]
    ) -> list[list[Operation]]:
        """Has operations read what comes from another stage with its shape.

        Args:
            parts: Per micro-batch its operations by the names of those of the first.
            sizes: By tensor of the first micro-batch, see `sizes_by_rows`.

        Returns:
            The operations made that give shapes: for each one of the first micro-batch, it and
            those of the others.
        """
        made: dict[str, list[Operation]] = {}
        for name, first in parts[0].items():
            here = self._stage(first)
            known = [
                sizes.get(tensor.name) if self._comes(tensor, here) else None
                for tensor in first.inputs
            ]
            if here is None or not any(known):
                continue
            for number, part in enumerate(parts):
                op = part[name]
                op.inputs = tuple(
                    tensor if shape is None else self._with_shape(tensor, shape, number, here, op)
                    for tensor, shape in zip(op.inputs, known, strict=True)
                )
            for place, shape in enumerate(known):
                if shape is not None:
                    told = [part[name].inputs[place] for part in parts]
                    self.sizes[told[0].name] = shape
                    made[told[0].name] = [tensor.op for tensor in told]
        return list(made.values())

    def crossing(self, operations: Iterable[Operation]) -> list[Tensor]:
        """Tensors of which these operations could be told the shapes."""
        found: dict[str, Tensor] = {}
        for op in operations:
            here = self._stage(op)
            found.update((each.name, each) for each in op.inputs if self._comes(each, here))
        return list(found.values())

    def _comes(self, tensor: Tensor, here: int | None) -> bool:
        there = self._stage(tensor.op)
        is_value = not tensor.dtype.is_ref and tensor.dtype is not dtypes.resource
        return (
            here is not None
            and there is not None
            and there != here
            and is_value
            and not is_fully_defined(tensor._shape)
        )

    def _with_shape(
        self, tensor: Tensor, sizes: Sequence[Size], number: int, here: int, reader: Operation
    ) -> Tensor:
        place = tensor.name, here
        told = self._told.get(place)
        turn = reader._attrs.get(TURN_ATTR, 0)
        if told is None:
            with self._at(reader.device):
                rows = self._rows_at(number, here)
                shape = [_size(each, rows) for each in sizes]
                told = arrays.reshape(tensor, shape, name="told_shape")
            told.set_shape(tensor.shape)
            self._told[place] = told
        else:
            turn = min(turn, told.op._attrs[TURN_ATTR])
        told.op._set_attr(TURN_ATTR, turn)
        return told

    def _rows_at(self, number: int, here: int) -> Tensor:
        """The rows of a micro-batch, told by the shape of a tensor that comes to a stage."""
        if (number, here) not in self._rows_on:
            if number not in self._messages:
                rows = self._rows[number]
                with self._at(rows.device):
                    zero = constants.zeros([], dtypes.uint8)
                    self._messages[number] = constants.fill([rows], zero, name="rows_told")
            shape = arrays.shape(self._messages[number], name="rows")
            self._rows_on[number, here] = arrays.reshape(shape, [])
        return self._rows_on[number, here]

    @contextmanager
    def _at(self, device: str) -> Iterator[None]:
        graph = self._graph
        with graph.as_default(), graph.init_scope(), graph.device(None), graph.device(device):
            yield


def _size(size: Size, rows: Tensor) -> Any:
    if not size.each:
        return size.fixed
    scaled = rows if size.each == 1 else elementwise.multiply(rows, size.each)
    return elementwise.add(scaled, size.fixed) if size.fixed else scaled
