"""`tf.gradients`: reverse accumulation over the graph, with the gradients that ops define."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from typing import Any

from sparkflow._api import export
from sparkflow.differentiation.gradient_registry import gradient_of
from sparkflow.differentiation.graph_builder import FrontEndBuilder
from sparkflow.graph.graph import Graph
from sparkflow.graph.operation import Operation
from sparkflow.graph.operators import Symbolic
from sparkflow.graph.scopes import graph_of
from sparkflow.graph.slicing import sizes_of
from sparkflow.graph.tensor import Tensor
from sparkflow.graph.values.indexed_slices import IndexedSlices
from sparkflow.ops.control.ordering import tuple_of
from sparkflow_runtime.dtypes import int64, resource, variant
from sparkflow_runtime.ops import registry

Gradient = Tensor | IndexedSlices


@export("UnconnectedGradients")
class UnconnectedGradients(Enum):
    """What a gradient is where there is no path."""

    NONE = "none"
    ZERO = "zero"


@export("gradients")
def gradients(
    ys: Any,
    xs: Any,
    grad_ys: Any = None,
    name: str = "gradients",
    colocate_gradients_with_ops: bool = False,
    gate_gradients: bool = False,
    aggregation_method: Any = None,
    stop_gradients: Any = None,
    unconnected_gradients: Any = "none",
) -> list[Gradient | None]:
    """The derivatives of the sum of `ys` with respect to each of `xs`.

    Args:
        ys: A tensor or list of tensors.
        xs: A tensor or variable, or a list of those.
        grad_ys: One tensor per y (or None), by which its derivatives are multiplied; ones when not
            given.
        name: Name scope of the new nodes.
        colocate_gradients_with_ops: Put each gradient where its forward operation is.
        gate_gradients: Make all gradients of an operation available at the same time.
        aggregation_method: Accepted; gradients over several paths are always added by AddN.
        stop_gradients: Tensors taken as constants.
        unconnected_gradients: `tf.UnconnectedGradients.ZERO` for zeros in place of None.

    Returns:
        One entry per x: a tensor; `IndexedSlices` where only some rows get a gradient; None where
        `ys` do not depend on x, or are integers.

    Raises:
        LookupError: An operation in between has no gradient.
        TypeError: A y is complex and has no `grad_ys`.
        ValueError: A `grad_ys` does not fit its y, or the lists differ in length.
    """
    if graph_of(()).is_eager:
        raise RuntimeError(
            "tf.gradients is not supported when eager execution is enabled. Use tf.GradientTape "
            "instead."
        )
    ys, xs, stop = (_listed(each) for each in (ys, xs, stop_gradients))
    graph = graph_of([*ys, *xs])
    with graph.as_default(), graph.name_scope(name):
        targets = [graph.convert(y) for y in ys]
        sources = [_source(graph, x) for x in xs]
        seeds = _initial(graph, targets, _listed(grad_ys, len(targets)))
        found = backward(
            graph,
            targets,
            sources,
            seeds,
            stop={_source(graph, each) for each in stop},
            colocate=colocate_gradients_with_ops,
            gate=gate_gradients,
        )
        if UnconnectedGradients(unconnected_gradients) is UnconnectedGradients.NONE:
            return found
        return [
            graph.apply("ZerosLike", (x,), {}) if each is None else each
            for x, each in zip(sources, found, strict=True)
        ]


def backward(
    graph: Graph,
    ys: Sequence[Tensor],
    xs: Sequence[Tensor],
    seeds: Sequence[Gradient | None],
    *,
    forward: Graph | None = None,
    stop: Collection[Tensor] = (),
    colocate: bool = False,
    gate: bool = False,
    producers: Mapping[Tensor, Operation] | None = None,
) -> list[Gradient | None]:
    """The gradients of `xs`, given those of `ys`.

    Args:
        graph: Where the new nodes go; the default graph already.
        ys: Tensors of `forward`.
        xs: Tensors of `forward`; while a function is built also of the graphs around it.
        seeds: The gradient of each y, None for none.
        forward: The graph of the operations to differentiate; None for `graph`.
        stop: Tensors taken as constants.
        colocate: Put each gradient where its forward operation is.
        gate: Make all gradients of an operation available at the same time.
        producers: Which operation of `forward` made a tensor, where the tensor does not know.
    """
    pass_ = _Backward(graph, forward or graph, ys, xs, set(stop), colocate, gate, producers or {})
    return pass_.run(seeds)


def _listed(value: Any, length: int = 0) -> list[Any]:
    if value is None:
        return [None] * length
    return list(value) if isinstance(value, list | tuple) else [value]


def _source(graph: Graph, x: Any) -> Tensor:
    # A variable is differentiated at its reference, through which every reading goes.
    return x._to_tensor(as_ref=True) if isinstance(x, Symbolic) else graph.convert(x)


def _initial(graph: Graph, ys: Sequence[Tensor], grad_ys: Sequence[Any]) -> list[Tensor | None]:
    if len(ys) != len(grad_ys):
        raise ValueError(f"Passed {len(grad_ys)} grad_ys for {len(ys)} ys")
    seeds: list[Tensor | None] = []
    for index, (y, given) in enumerate(zip(ys, grad_ys, strict=True)):
        base = y.dtype.base
        if not (base.is_floating or base.is_complex):
            seeds.append(None)  # a step function has no useful derivative
            continue
        if given is None:
            if base.is_complex:
                raise TypeError(f"Gradients of complex tensors ({y!r}) must set grad_ys")
            with graph.name_scope(f"grad_ys_{index}") as scope:
                sizes = sizes_of(graph, y)
                one = graph.convert(1.0, base, "Const")
                seeds.append(graph.apply("Fill", (sizes, one), {}, scope))
            continue
        seed = graph.convert(given, base, f"grad_ys_{index}")
        y.shape.assert_is_compatible_with(seed.shape)
        seeds.append(seed)
    return seeds


class _Backward:
    """One backward pass: visits operations once all gradients of their outputs are known."""

    def __init__(
        self,
        graph: Graph,
        forward: Graph,
        ys: Sequence[Tensor],
        xs: Sequence[Tensor],
        stop: set[Tensor],
        colocate: bool,
        gate: bool,
        producers: Mapping[Tensor, Operation],
    ) -> None:
        self._graph = graph
        self._producers = producers
        self._forward = forward
        # A user's gradient inside a function goes on in the graphs around it.
        self._through = forward is graph and graph.building_function
        self._builder = FrontEndBuilder(graph)
        self._ys = ys
        self._xs = xs
        self._stop = stop
        self._colocate = colocate
        self._gate = gate
        self._parts: dict[Tensor, list[Gradient]] = {}

    def _op(self, tensor: Tensor) -> Operation:
        """The operation that made a tensor."""
        return self._producers.get(tensor, tensor.op) if self._producers else tensor.op

    def _inputs(self, op: Operation) -> Sequence[Tensor]:
        """What the operation reads: captured arguments are the tensors they were captured from."""
        if not self._through:
            return op.inputs
        return [self._behind(tensor) for tensor in op.inputs]

    def _behind(self, tensor: Tensor) -> Tensor:
        while (captured := tensor.op.graph.stands_for(tensor)) is not None:
            tensor = captured
        return tensor

    def _operations(self) -> Iterator[Operation]:
        """The operations to look at; inputs come before their users."""
        graphs = [self._forward]
        while self._through and graphs[-1].building_function:
            graphs.append(graphs[-1].outer)  # type: ignore[attr-defined]  # only functions have one
        for graph in reversed(graphs):
            yield from graph.get_operations()

    def run(self, seeds: Sequence[Gradient | None]) -> list[Gradient | None]:
        """The gradients of `xs`."""
        between = self._between()
        waiting = self._fan_out(between)
        wanted = set(self._xs)
        results: dict[Tensor, Gradient] = {}
        for y, seed in zip(self._ys, seeds, strict=True):
            if seed is not None:
                self._parts.setdefault(y, []).append(seed)
        ready = deque(
            op for op in dict.fromkeys(self._op(y) for y in self._ys) if not waiting.get(op, 0)
        )
        while ready:
            op = ready.popleft()
            grads = [self._collected(tensor) for tensor in op.outputs]
            found = zip(op.outputs, grads, strict=True)
            results.update((t, grad) for t, grad in found if grad is not None and t in wanted)
            if op not in between:
                continue
            self._propagate(op, grads)
            for tensor in self._inputs(op):
                producer = self._op(tensor)
                waiting[producer] -= 1
                if not waiting[producer]:
                    ready.append(producer)
        return [results.get(x) for x in self._xs]

    def _between(self) -> set[Operation]:
        """Operations on a path from an x to a y, through which gradients pass."""
        sources = {self._op(x) for x in self._xs}
        stopped = {self._op(x) for x in self._stop}
        needed: set[Operation] = set()
        upstream: dict[Operation, None] = {}
        stack = [self._op(y) for y in self._ys]
        while stack:
            op = stack.pop()
            if op not in upstream:
                upstream[op] = None
                if op not in stopped:
                    stack.extend(self._op(tensor) for tensor in self._inputs(op))
        for op in self._operations():
            if op not in upstream or op in stopped:
                continue
            made_by = [self._op(tensor) for tensor in self._inputs(op)]
            if any(each in needed or each in sources for each in made_by):
                needed.add(op)
        return needed

    def _fan_out(self, between: set[Operation]) -> dict[Operation, int]:
        """For each operation how many inputs of operations `between` read it."""
        reachable: set[Operation] = set()
        counts: dict[Operation, int] = {}
        stack = [self._op(y) for y in self._ys]
        while stack:
            op = stack.pop()
            if op in reachable:
                continue
            reachable.add(op)
            if op in between:
                for tensor in self._inputs(op):
                    producer = self._op(tensor)
                    counts[producer] = counts.get(producer, 0) + 1
                    stack.append(producer)
        return counts

    def _collected(self, tensor: Tensor) -> Gradient | None:
        parts = self._parts.pop(tensor, [])
        if len(parts) < 2:
            return parts[0] if parts else None
        with self._placed(self._op(tensor)):
            sparse = [part for part in parts if isinstance(part, IndexedSlices)]
            if len(sparse) == len(parts):
                return self._joined(sparse)
            kind = "_AddVariants" if tensor.dtype.base is variant else "AddN"
            return self._graph.apply(kind, (parts,), {})  # type: ignore[no-any-return]

    def _joined(self, parts: Sequence[IndexedSlices]) -> IndexedSlices:
        values = self._graph.apply("ConcatV2", ([p.values for p in parts], 0), {}, "concat")
        given = [part.indices for part in parts]
        if len({each.dtype for each in given}) > 1:  # int32 and int64, as of different lookups
            given = [self._graph.apply("Cast", (each,), {"DstT": int64}) for each in given]
        indices = self._graph.apply("ConcatV2", (given, 0), {}, "concat")
        return IndexedSlices(values, indices, parts[0].dense_shape)

    def _propagate(self, op: Operation, grads: Sequence[Gradient | None]) -> None:
        if all(grad is None for grad in grads):
            return
        gradient = gradient_of(op)
        with self._graph.name_scope(f"{op.name}_grad"), self._placed(op):
            dense = [
                grad._to_tensor() if isinstance(grad, IndexedSlices) and not _passes(op) else grad
                for grad in grads
            ]
            found = list(gradient(self._builder, op, *dense))
            if len(found) != len(op.inputs):
                raise ValueError(
                    f"The gradient of {op.type} gives {len(found)} tensors for {len(op.inputs)} "
                    f"inputs of '{op.name}'"
                )
            if self._gate and sum(each is not None for each in found) > 1:
                found = tuple_of(found)
        for tensor, grad in zip(self._inputs(op), found, strict=True):
            if grad is not None:
                # A handle's gradient is that of the variable's value.
                if (
                    isinstance(grad, Tensor)
                    and tensor._shape not in (None, grad._shape)
                    and tensor.dtype is not resource
                ):
                    _merge_shape(grad, tensor, op)
                self._parts.setdefault(tensor, []).append(grad)

    @contextmanager
    def _placed(self, op: Operation) -> Iterator[None]:
        if not self._colocate or op.graph is not self._graph:
            yield
            return
        with self._graph.colocate_with(op, ignore_existing=True):
            yield


def _passes(op: Operation) -> bool:
    """Whether a sparse gradient goes through `op` unchanged."""
    return registry.lookup(op.type).reads_variable


def _merge_shape(grad: Tensor, tensor: Tensor, op: Operation) -> None:
    try:
        grad.set_shape(tensor.shape)
    except ValueError:
        raise ValueError(
            f"The gradient of {op.type} ({op.name}) has shape {grad.shape} for an input of shape "
            f"{tensor.shape}"
        ) from None
