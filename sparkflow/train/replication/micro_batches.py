"""Micro-batches: the stages of a model work on different parts of a batch at the same time.

A model whose layers are on several tasks ("stages") would have all but one of them wait: a stage
needs what the one before it makes of the batch. So the batch is cut into micro-batches, and the
nodes that depend on it are there once for each of them. Their turns are those of the 1F1B schedule
(PipeDream-Flush): with k stages, stage i works on micro-batch j forward in turn i + 2j and backward
in turn 2k - 1 - i + 2j. What no other stage waits for, which are mostly gradients of variables, it
puts off for i micro-batches (ZB-H1 of Qi et al., "Zero Bubble Pipeline Parallelism", 2023). So
earlier stages get what they need for their last micro-batch sooner, and a stage holds what at most
k micro-batches need for their way back.

The model's function is called once, with the first micro-batch; the nodes of the others are copies.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Final

from sparkflow.graph.messages.importing import import_graph_def
from sparkflow.graph.nodes.reach import ALL
from sparkflow.graph.operation import Operation, ancestors
from sparkflow.graph.tensor import Tensor
from sparkflow.graph.values.indexed_slices import IndexedSlices
from sparkflow.ops.elementwise import elementwise
from sparkflow.ops.shape import arrays
from sparkflow.train.optimizers.strategy import Replication, Wrapping
from sparkflow.train.replication.told_shapes import ToldShapes, sizes_by_rows
from sparkflow_runtime.ir import graph_def as messages
from sparkflow_runtime.ir.node import CLASS_ATTR, TURN_ATTR
from sparkflow_runtime.protos.graph_pb2 import GraphDef

# Odd and large, so that no two copies' seeds meet in graphs with few random ops.
_SEED_STRIDE: Final = 0xD1B54A32D192ED03
_SEED_MASK: Final = (1 << 62) - 1

Stage = Callable[[Operation], int | None]
"""Gives the stage of an operation; None for one that belongs to none."""


class MicroBatches(Wrapping):
    """Passes another strategy the gradients of whole batches, computed by micro-batches.

    The loss is taken for a mean over rows, as replicas that train in step do: the gradients of a
    batch are the means of its micro-batches' weighted by their rows.

    Args:
        inner: The other strategy.
        batches: Per micro-batch its tensors, in the same order and of the same static shapes; the
            model's function is called with those of the first.
        rows: Per micro-batch a tensor, [] float32: its rows; 0 for one that does not count.
        stage: Where operations are.
        num_stages: How many there are.
        place: Is given the operations that a loss needs before its gradients are made, in order;
            may put them on stages. None for nothing.
        sizes: Per micro-batch a tensor, [], an integer: the first dimension of those tensors of it
            that are in `per_row`. Stages are told it, see `told_shapes`; None: they are not.
        per_row: Names of tensors of the first micro-batch.

    Attributes:
        is_used: Whether gradients were computed.
    """

    def __init__(
        self,
        inner: Replication,
        batches: Sequence[Sequence[Tensor]],
        rows: Sequence[Tensor],
        stage: Stage,
        num_stages: int,
        place: Callable[[Sequence[Operation]], None] | None = None,
        sizes: Sequence[Tensor] | None = None,
        per_row: Collection[str] = (),
    ) -> None:
        super().__init__(inner)
        self.is_waited_for = inner.is_waited_for
        self._stage = stage
        self._num_stages = num_stages
        self._place = place
        total = elementwise.maximum(elementwise.add_n(list(rows)), 1.0)
        self._shares = [elementwise.divide(each, total) for each in rows]
        self._copies: list[dict[str, Operation]] = [{} for _ in batches]
        self._given: list[dict[str, Tensor]] = [
            {first.name: each for first, each in zip(batches[0], batch, strict=True)}
            for batch in batches
        ]
        self._first = {tensor.op.name for tensor in batches[0]}
        for number, batch in enumerate(batches):
            for tensor in batch:
                tensor.op._set_attr(TURN_ATTR, _level(2 * number))
        self._forward: set[str] = set()
        self._put_off: set[str] = set()  # backward operations that no other stage waits for
        self._told = None if sizes is None else ToldShapes(self.graph, sizes, stage)
        self._per_row = per_row
        self._untold: set[str] = set()
        self._known_of: set[str] = set()
        self._shaping: set[str] = set()  # these have the turns of who reads them
        self.is_used = False

    def compute_gradients(
        self, loss: Any, compute: Callable[[bool], list[tuple[Any, Any]]]
    ) -> list[tuple[Any, Any]]:
        """See `Replication`: the gradients of the whole batch."""
        self.is_used = True
        names = self._between([self.graph.convert(loss)])
        if self._place is not None:
            self._place([op for op in self.graph.get_operations() if op.name in names])
        self._forward |= names
        computed = compute(True)
        self._put_off |= self._not_waited_for(computed)
        pairs = [(self._mean(gradient), variable) for gradient, variable in computed]
        self._tell_shapes()
        return pairs

    def of_whole_batch(self, value: Any) -> Any:
        """The mean of what the micro-batches give in place of what the first of them gives.

        Args:
            value: A tensor, `IndexedSlices` or None; given back as it is, if it is the same for all
                micro-batches.
        """
        mean = self._mean(value)
        self._tell_shapes()
        return mean

    def _mean(self, value: Any) -> Any:
        """See `of_whole_batch`."""
        if value is None:
            return None
        if isinstance(value, IndexedSlices):
            tensors = [value.values, value.indices]
            copies = self._of_all(tensors)
            if copies is None:
                return value
            with self.graph.as_default(), self.graph.device(value.values.device):
                values = [
                    self._in_turn(each[0], share)
                    for each, share in zip(copies, self._shares, strict=True)
                ]
                indices = [each[1] for each in copies]
                return IndexedSlices(
                    arrays.concat(values, 0), arrays.concat(indices, 0), value.dense_shape
                )
        copies = self._of_all([value])
        if copies is None:
            return value
        with self.graph.as_default(), self.graph.device(value.device):
            total: Any = None
            for each, share in zip(copies, self._shares, strict=True):
                total = self._in_turn(each[0], share, total)
            return total

    def _tell_shapes(self) -> None:
        """Has what was copied since the last time know the shapes of what comes to its stage."""
        new, self._untold = self._untold, set()
        self._known_of |= new
        if self._told is None or not new:
            return
        first = {op.name: op for op in self.graph.get_operations() if op.name in new}
        parts = [first, *(self._copies[n] for n in range(1, len(self._copies)))]
        wanted = self._told.crossing(first.values())
        if wanted:
            needed = self._before([tensor.op for tensor in wanted])
            sizes = sizes_by_rows(needed, self._per_row, wanted, self._told.sizes)
            for told in self._told.tell(parts, sizes):
                self._shaping.add(told[0].name)
                for copies, op in zip(self._copies, told, strict=True):
                    copies[told[0].name] = op

    def _in_turn(self, value: Tensor, share: Tensor, total: Any = None) -> Tensor:
        """The value's part of the mean, added to those before it, made as soon as it is there."""
        turn = value.op._attrs.get(TURN_ATTR, 0)
        part = elementwise.multiply(value, elementwise.cast(share, value.dtype))
        made = [part.op]
        if total is not None:
            part = elementwise.add(total, part)
            made.append(part.op)
        for op in made:
            op._set_attr(TURN_ATTR, turn)
        return part

    def _not_waited_for(self, pairs: Iterable[tuple[Any, Any]]) -> set[str]:
        """The backward operations of the first micro-batch that their stage alone needs."""
        tensors: list[Tensor] = []
        for gradient, _ in pairs:
            if isinstance(gradient, IndexedSlices):
                tensors += [gradient.values, gradient.indices]
            elif gradient is not None:
                tensors.append(gradient)
        names = self._between(tensors) - self._forward
        waited_for: set[str] = set()
        # Each operation comes after those that it reads, but for loops: those are left in turn.
        backward = [op for op in self.graph.get_operations() if op.name in names]
        grew = True
        while grew:
            grew = False
            for op in reversed(backward):
                for other in (*(tensor.op for tensor in op.inputs), *op.control_inputs):
                    if other.name not in names or other.name in waited_for:
                        continue
                    if op.name in waited_for or self._stage(op) != self._stage(other):
                        waited_for.add(other.name)
                        grew = True
        return names - waited_for

    def _of_all(self, tensors: Sequence[Tensor]) -> list[list[Tensor]] | None:
        """Per micro-batch what it gives in place of the tensors; None where all give the same."""
        names = self._between(tensors)
        if not names:
            return None
        self._give_turns(names - self._shaping, 0)
        self._untold |= names - self._known_of - self._shaping
        for number in range(1, len(self._copies)):
            self._copy(names, number)
        return [
            [self._counterpart(each, number) for each in tensors]
            for number in range(len(self._copies))
        ]

    def _counterpart(self, tensor: Tensor, number: int) -> Tensor:
        if number == 0:
            return tensor
        given = self._given[number].get(tensor.name)
        if given is not None:
            return given
        copy = self._copies[number].get(tensor.op.name)
        return tensor if copy is None else copy.outputs[tensor.value_index]

    def _between(self, tensors: Iterable[Tensor]) -> set[str]:
        """The operations that depend on the first micro-batch and lead to these tensors."""
        before = self._before([tensor.op for tensor in tensors])
        reached = set(self._first)
        grew = True
        while grew:  # more than once where loops come back
            grew = False
            for op in before:
                if op.name in reached:
                    continue
                if any(each.op.name in reached for each in op.inputs) or any(
                    each.name in reached for each in op.control_inputs
                ):
                    reached.add(op.name)
                    grew = True
        return {op.name for op in before if op.name in reached} - self._first

    def _before(self, ops: Iterable[Operation]) -> list[Operation]:
        """The operations and all that they need, in the order in which they were made."""
        found = ancestors(ops)
        return [op for op in self.graph.get_operations() if op in found]

    def _give_turns(self, names: Iterable[str], number: int) -> None:
        find = self.graph.get_operation_by_name
        for name in names:
            op = find(name) if number == 0 else self._copies[number][name]
            stage = self._stage(op)
            if stage is None:
                continue
            turn = stage if name in self._forward else 2 * self._num_stages - 1 - stage
            level = _level(turn + 2 * number)
            if name in self._put_off:
                level = _level(turn + 2 * (number + stage)) + 1  # behind what others wait for
            op._set_attr(TURN_ATTR, level)

    def _copy(self, names: set[str], number: int) -> None:
        """Copies what of these operations was not copied for a micro-batch yet."""
        made = self._copies[number]
        new = [op for op in self.graph.get_operations() if op.name in names and op.name not in made]
        if not new:
            return
        own = {op.name for op in new}
        graph_def = GraphDef()
        replaced: dict[str, Any] = {}
        for op in new:
            node = graph_def.node.add()
            node.CopyFrom(messages.export_node(op.to_node()))
            node.attr.pop(CLASS_ATTR, None)  # its device says it
            _change_seed(node, number)
            if "frame_name" in node.attr:
                node.attr["frame_name"].s += f"_{number}".encode()
            for tensor in op.inputs:
                if tensor.op.name not in own:
                    replaced[tensor.name] = self._counterpart(tensor, number)
            for other in op.control_inputs:
                if other.name not in own:
                    replaced[f"^{other.name}"] = made.get(other.name, other)
        with self.graph.as_default(), self.graph.init_scope(), self.graph.device(None):
            found = import_graph_def(
                graph_def,
                replaced,
                [op.name for op in new],
                name=f"micro_batch_{number}",
                allowed_ops=ALL,
            )
        assert found is not None
        for op, copy in zip(new, found, strict=True):
            assert isinstance(copy, Operation)
            made[op.name] = copy
        self._give_turns(own, number)


def _level(turn: int) -> int:
    """The least level of a turn's nodes: there is one between two turns, for what is put off."""
    return 2 * turn


def _change_seed(node: Any, number: int) -> None:
    """Has the random ops of a copy draw other numbers, where the graph says which."""
    if "seed" in node.attr and "seed2" in node.attr:
        seeds = node.attr["seed"].i, node.attr["seed2"].i
        if seeds != (0, 0):
            node.attr["seed2"].i = (seeds[1] + number * _SEED_STRIDE) & _SEED_MASK
