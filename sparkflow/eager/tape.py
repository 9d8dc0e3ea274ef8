"""`tf.GradientTape`: gradients in eager execution."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import Any

import tree

from sparkflow._api import export
from sparkflow.differentiation.backward import UnconnectedGradients, backward
from sparkflow.eager.context import EagerGraph
from sparkflow.graph.operation import Operation
from sparkflow.graph.operators import Symbolic
from sparkflow.graph.scopes import get_default_graph
from sparkflow.graph.tensor import Tensor


class _Recorded:
    """The operations of a tape, as the backward pass looks at a graph."""

    building_function = False

    def __init__(self, operations: Sequence[Operation]) -> None:
        self._operations = operations

    def get_operations(self) -> Sequence[Operation]:
        """In the order they ran."""
        return self._operations


@export("GradientTape")
class GradientTape:
    """Records what runs, to differentiate it.

    Args:
        persistent: Allow several calls of `gradient`.
        watch_accessed_variables: Watch trainable variables when they are read.
    """

    def __init__(self, persistent: bool = False, watch_accessed_variables: bool = True) -> None:
        self._persistent = persistent
        self._watch_variables = watch_accessed_variables
        self._graph: Any = get_default_graph()
        self._operations: list[Operation] = []
        self._producers: dict[Tensor, Operation] = {}
        self._watched: dict[Tensor, Any] = {}
        self._outer: GradientTape | None = None
        self._used = False
        self._paused = False

    # ------------------------------------------------------------------ recording

    def __enter__(self) -> GradientTape:
        graph = self._graph
        if isinstance(graph, EagerGraph):
            self._outer = graph.tapes.top()
            graph.tapes.push(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if isinstance(self._graph, EagerGraph):
            self._graph.tapes.remove(self)

    def watch(self, tensor: Any) -> None:
        """Records what is computed from `tensor`, or from each tensor of a structure.

        Raises:
            ValueError: One is neither a tensor nor a variable.
        """
        for each in tree.flatten(tensor):
            if not isinstance(each, Symbolic):
                raise ValueError(f"Passed in object of type {type(each)}, not tf.Tensor")
            self._watched[each._to_tensor(as_ref=True)] = each

    def watched_variables(self) -> tuple[Any, ...]:
        """The variables that are watched, in the order they were first read."""
        found = [each for each in self._watched.values() if not isinstance(each, Tensor)]
        return tuple(dict.fromkeys(found))

    @contextmanager
    def stop_recording(self) -> Iterator[None]:
        """Records nothing inside.

        Raises:
            ValueError: The tape is not recording.
        """
        if self._paused:
            raise ValueError("Tape is not recording.")
        self._paused = True
        try:
            yield
        finally:
            self._paused = False

    def reset(self) -> None:
        """Forgets what was recorded."""
        self._operations.clear()
        self._producers.clear()
        self._watched.clear()
        self._used = False

    def _record(self, operation: Operation, inputs: Sequence[Tensor]) -> None:
        """Keeps an operation if it depends on something watched. Called by the graph."""
        if self._outer is not None:
            self._outer._record(operation, inputs)
        if self._paused:
            return
        if self._watch_variables:
            for tensor in inputs:
                if tensor.dtype.is_ref and tensor not in self._watched and _trainable(tensor):
                    self._watched[tensor] = _owner(tensor)
        if any(tensor in self._producers or tensor in self._watched for tensor in inputs):
            kept = Operation(
                operation.graph, operation.name, operation.type, tuple(inputs), operation._attrs
            )
            kept.outputs = operation.outputs
            self._operations.append(kept)
            self._producers.update((tensor, kept) for tensor in kept.outputs)

    # ------------------------------------------------------------------ gradients

    def gradient(
        self,
        target: Any,
        sources: Any,
        output_gradients: Any = None,
        unconnected_gradients: Any = UnconnectedGradients.NONE,
    ) -> Any:
        """The derivatives of the sum of `target` with respect to `sources`.

        Args:
            target: A tensor or structure of tensors.
            sources: A tensor, a variable, or a structure of those.
            output_gradients: One tensor per target by which its derivatives are multiplied.
            unconnected_gradients: `NONE` or `ZERO` where the target does not depend on a source.

        Returns:
            Tensors, `IndexedSlices` or None in the structure of `sources`.

        Raises:
            RuntimeError: The tape is not persistent and was used before.
        """
        if self._used and not self._persistent:
            raise RuntimeError(
                "A non-persistent GradientTape can only be used to compute one set of gradients "
                "(or jacobians)"
            )
        self._used = True
        wanted = UnconnectedGradients(unconnected_gradients)
        graph = self._graph
        ys = [_tensor(graph, each) for each in tree.flatten(target)]
        xs = [each._to_tensor(as_ref=True) for each in tree.flatten(sources)]
        given = [None] * len(ys) if output_gradients is None else tree.flatten(output_gradients)
        open_here = isinstance(graph, EagerGraph) and graph.tapes.top() is self
        if open_here and not self._persistent:
            graph.tapes.remove(self)
        with graph.as_default():
            seeds = [_seed(graph, y, seed) for y, seed in zip(ys, given, strict=True)]
            if isinstance(graph, EagerGraph):
                found = backward(
                    graph,
                    ys,
                    xs,
                    seeds,
                    forward=_as_graph(self._operations),
                    producers=self._producers,
                )
            else:
                found = backward(graph, ys, xs, seeds)
            if wanted is UnconnectedGradients.ZERO:
                found = [
                    _zeros(graph, x) if g is None else g for x, g in zip(xs, found, strict=True)
                ]
        if not self._persistent:
            self._operations, self._producers = [], {}
        return tree.unflatten_as(sources, found)

    def jacobian(
        self,
        target: Any,
        sources: Any,
        unconnected_gradients: Any = UnconnectedGradients.NONE,
        parallel_iterations: Any = None,
        experimental_use_pfor: bool = True,
    ) -> Any:
        """The derivatives of each element of `target`: [target.shape, source.shape].

        Args:
            target: A tensor.
            sources: A tensor, a variable, or a structure of those.
            unconnected_gradients: As for `gradient`.
            parallel_iterations: Accepted for TensorFlow's sake, as the next.
            experimental_use_pfor: See `parallel_iterations`.

        Raises:
            RuntimeError: As `gradient`.
        """
        from sparkflow.ops.shape.arrays import reshape, stack

        graph = self._graph
        persistent, self._persistent = self._persistent, True
        try:
            with graph.as_default():
                shape = list(target.shape)
                with self:  # what is taken of the target is recorded, too
                    flat = reshape(target, [-1])
                    elements = [flat[i] for i in range(int(flat.shape[0]))]
                rows = [
                    tree.flatten(self.gradient(each, sources, None, unconnected_gradients))
                    for each in elements
                ]
                columns = list(zip(*rows, strict=True))
                found = [
                    None
                    if column[0] is None
                    else reshape(stack(column), [*shape, *column[0].shape.as_list()])
                    for column in columns
                ]
        finally:
            self._persistent = persistent
        return tree.unflatten_as(sources, found)


def _as_graph(operations: Sequence[Operation]) -> Any:
    return _Recorded(list(operations))


def _owner(tensor: Tensor) -> Any:
    graph = tensor.op.graph
    owner = graph.owners.get(id(tensor)) if isinstance(graph, EagerGraph) else None
    return tensor if owner is None else owner


def _trainable(tensor: Tensor) -> bool:
    owner = _owner(tensor)
    return bool(getattr(owner, "trainable", False))


def _tensor(graph: Any, value: Any) -> Tensor:
    return value._to_tensor() if isinstance(value, Symbolic) else graph.convert(value)


def _seed(graph: Any, y: Tensor, given: Any) -> Any:
    if not (y.dtype.base.is_floating or y.dtype.base.is_complex):
        return None
    if given is not None:
        return graph.convert(given, y.dtype.base)
    return graph.apply("OnesLike", (y,), {})


def _zeros(graph: Any, x: Tensor) -> Any:
    return graph.apply("ZerosLike", (x,), {})
