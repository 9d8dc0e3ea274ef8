"""Loops outside of plans: each is planned by the shapes of its own variables.

A plan is for the shapes of all arguments of a partition. Batches of sequences whose length differs
from step to step have few that repeat; but the variables of their loops have the same shapes, and
the length of a list does not matter. So a loop that runs without a plan is planned by itself.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from typing import Any, Final

from sparkflow_runtime import dtypes
from sparkflow_runtime.compiler.known import Known
from sparkflow_runtime.ir.node import Endpoint, Node
from sparkflow_runtime.ops.kernel import StepContext
from sparkflow_runtime.ops.lists.tensor_list import TensorList
from sparkflow_runtime.ops.op import Held
from sparkflow_runtime.shapes import SCALAR, Shape

MOST: Final = 8
"""Number of plans per loop; the least recently used one is dropped."""
SIGHTINGS: Final = 2
"""How often shapes are seen before they are planned for."""
SIGHTINGS_WHEN_FULL: Final = 32
"""The same if another plan has to go: a plan costs as much as some ten runs without one."""
_MOST_SEEN: Final = 64

Kernel = Callable[..., Any]
BindLoop = Callable[[Node, Mapping[Endpoint, Known], Collection[Endpoint]], "Kernel | None"]
"""Binds a loop, given what is known of its inputs, and the outputs that are read."""


class LoopByShapes:
    """The kernel of a loop that is planned when shapes of its variables are seen again.

    Args:
        node: The loop.
        general: Its kernel for any shapes.
        nodes: The partition.
        bind: See `BindLoop`.
        taped: Returns the names of the tensors that a function records.
    """

    def __init__(
        self,
        node: Node,
        general: Kernel,
        nodes: Sequence[Node],
        bind: BindLoop,
        taped: Callable[[str], Sequence[str]],
    ) -> None:
        self._node = node
        self._general = general
        self._nodes = nodes
        self._bind = bind
        self._taped = taped
        self._lock = threading.Lock()
        self._seen: OrderedDict[Hashable, int] = OrderedDict()
        self._kernels: OrderedDict[Hashable, Kernel] = OrderedDict()
        makers = {
            Endpoint(each.name, len(each.attrs["T"])): each.attrs["body"]
            for each in nodes
            if each.op == node.op
        }
        self._makers = [makers.get(endpoint) for endpoint in node.inputs]

    def __call__(self, step: StepContext | None, *values: Any) -> Any:
        """Runs the loop."""
        return self._kernel(values)(step, *values)

    def _kernel(self, values: Sequence[Any]) -> Kernel:
        key = tuple(map(_key, self._makers, values))
        with self._lock:
            found = self._kernels.get(key)
            if found is not None:
                self._kernels.move_to_end(key)
                return found
            self._seen[key] = count = self._seen.pop(key, 0) + 1
            if len(self._seen) > _MOST_SEEN:
                self._seen.popitem(last=False)
            is_full = len(self._kernels) >= MOST
            if count < (SIGHTINGS_WHEN_FULL if is_full else SIGHTINGS):
                return self._general
            self._kernels[key] = self._general  # for other threads, until it is planned
            if is_full:
                self._kernels.popitem(last=False)
            del self._seen[key]
        made = self._planned(values)
        with self._lock:
            if key in self._kernels:
                self._kernels[key] = made
        return made

    def _planned(self, values: Sequence[Any]) -> Kernel:
        inputs = zip(self._node.inputs, self._node.attrs["T"], self._makers, values, strict=True)
        known = {
            endpoint: Known(dtype, SCALAR, None, self._held(maker, value))
            if dtype is dtypes.variant
            else Known(dtype, _shape(value))
            for endpoint, dtype, maker, value in inputs
        }
        read = {endpoint for node in self._nodes for endpoint in node.inputs}
        return self._bind(self._node, known, read) or self._general

    def _held(self, maker: str | None, value: Any) -> Held:
        if type(value) is TensorList:
            return Held(None, _element(value), value.is_unset)
        if maker is None or not value:
            return Held()
        return Held(tensors=dict(zip(self._taped(maker), map(_shape, value[0]), strict=True)))


def _key(maker: str | None, value: Any) -> Hashable:
    """What a plan depends on: of a tape, which has a maker, the shapes in its first entry."""
    if type(value) is TensorList:
        return "list", value.is_unset, _element(value)
    if maker is not None:
        return "tape", tuple(map(_shape, value[0])) if value else None
    return _shape(value)


def _shape(value: Any) -> Shape:
    return getattr(value, "shape", None)


def _element(value: TensorList) -> Shape:
    """The shape of an element of a list; None if there is none, or none is set."""
    if value.block is not None:
        return tuple(value.block.shape[1:])
    if value.is_unset:
        return None
    return next((tuple(item.shape) for item in value.items if item is not None), None)
