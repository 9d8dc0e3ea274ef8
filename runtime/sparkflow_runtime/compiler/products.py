"""Adds matrix products directly to the sum or the variable in which they are used.

The sum of the gradients of several parts of a batch, or of what several layers have in common, is
as many products that are written, read and added up. Here all but the first are added to the sum
directly (`ops.linalg.added_products`), and a gradient that is only applied by
`GradientDescentOptimizer` is subtracted from its variable in the same way. Scalar factors of
products are included. Sums of other values stay as they are: they share a kernel with what they are
sums of.
"""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from sparkflow_runtime import dtypes
from sparkflow_runtime.compiler.fusion.grow import find_variables
from sparkflow_runtime.compiler.known import Known
from sparkflow_runtime.ir.node import SOURCE_ATTR, Endpoint, Node
from sparkflow_runtime.ops import registry

SUMS: Final = frozenset({"Add", "AddN", "AddV2"})
SCALES: Final = "Mul"
DESCENT: Final = "ApplyGradientDescent"
LEAST_ELEMENTS: Final = 1 << 12
"""Smaller results cost nothing to write and read again."""
LEAST_UPDATED: Final = 1 << 14
"""Smaller variables are updated in one call for all of them, see `update_groups`."""
_DTYPES: Final = (dtypes.float32, dtypes.float64)


def join_products(
    nodes: Sequence[Node],
    known: dict[Endpoint, Known],
    copied: Collection[tuple[str, int]],
) -> tuple[Sequence[Node], Mapping[Endpoint, Known]]:
    """Joins products with the only sum or update that needs them; also returns what is known.

    Args:
        nodes: In execution order.
        known: What is known of their tensors.
        copied: The reads of variables that must be copies, see `reads`.
    """
    return _Joiner(nodes, known, copied).join()


@dataclass(frozen=True, slots=True)
class _Product:
    """A matrix product that one node needs.

    Attributes:
        node: The product.
        scale: Its scalar factor; None for none.
        last: The node whose output it is.
    """

    node: Node
    scale: Endpoint | None
    last: Node

    @property
    def inputs(self) -> tuple[Endpoint, ...]:
        """The factors, and the number."""
        return (*self.node.inputs, *(() if self.scale is None else (self.scale,)))


class _Joiner:
    def __init__(
        self,
        nodes: Sequence[Node],
        known: dict[Endpoint, Known],
        copied: Collection[tuple[str, int]],
    ) -> None:
        self._nodes = nodes
        self._known = known
        self._copied = {name for name, _ in copied}
        self._uses = Counter(endpoint for node in nodes for endpoint in node.inputs)
        self._by_name = {node.name: node for node in nodes}
        self._place = {node.name: number for number, node in enumerate(nodes)}
        self._gone: set[str] = set()
        self._after: dict[int, list[Node]] = {}
        self._joined: set[str] = set()
        self._parts: dict[Endpoint, Known] = {}
        self._variables, self._updates = find_variables(nodes)

    def join(self) -> tuple[Sequence[Node], Mapping[Endpoint, Known]]:
        for node in self._nodes:
            if node.op in SUMS:
                self._join_sum(node)
            elif node.op == DESCENT:
                self._join_update(node)
        if not self._gone:
            return self._nodes, self._known
        lost = self._gone - self._joined
        made: list[Node] = []
        for number, node in enumerate(self._nodes):
            if node.name not in self._gone:
                made.append(node)
            made += self._after.get(number, ())
        return [_without(lost, node) for node in made], self._known | self._parts

    def _join_sum(self, node: Node) -> None:
        """Adds each product but the first to those before it."""
        inputs = node.inputs
        if len(inputs) < 2:  # nothing is added to it
            return
        if len(inputs) == 2:  # of two, the earlier one is the accumulator
            inputs = tuple(sorted(inputs, key=self._made_at))
        total, *others = inputs
        products = [self._product(each) for each in others]
        first = None if total.node in self._joined else self._product(total)
        shape = self._shape(total)
        if first is None and not self._is_sum(total):
            return
        if any(self._shape(each) != shape for each in others):
            return
        place = self._made_at(total) if first is None else self._place_for(first, -1)
        places = []
        for product in products:
            if product is None or place is None:
                return
            place = self._place_for(product, place)
            places.append(place)
        if place is None:
            return
        if first is not None and first.scale is not None:
            self._put(first.last, "_ScaledProduct", first.inputs, first, self._place_for(first, -1))
        for number, (product, place) in enumerate(zip(products, places, strict=True), 1):
            assert product is not None
            op = "_AddedProduct" if product.scale is None else "_AddedScaledProduct"
            made = node if number == len(products) else replace(node, name=self._part(node, number))
            self._put(made, op, (total, *product.inputs), product, place)
            total = Endpoint(made.name, 0)
        self._gone.add(node.name)

    def _is_sum(self, endpoint: Endpoint) -> bool:
        """Whether it was joined before, and only one node needs it.

        Not a variable to which a product was applied: its value depends on the time of the read.
        """
        is_made = endpoint.node in self._joined and not self._known[endpoint].dtype.is_ref
        return is_made and self._uses[endpoint] == 1

    def _part(self, node: Node, number: int) -> str:
        """Returns a name for a sum of the first inputs."""
        name = f"{node.name}/part_{number}"
        while name in self._by_name:
            name += "_"
        self._parts[Endpoint(name, 0)] = self._known[Endpoint(node.name, 0)]
        return name

    def _join_update(self, node: Node) -> None:
        variable, rate, gradient = node.inputs
        product = self._product(gradient)
        shape = self._shape(gradient)
        if product is None or shape is None or shape[0] * shape[1] < LEAST_UPDATED:
            return
        place = self._place[node.name]
        if product.scale is None and not self._passes_update(product, place):
            inputs = (variable, rate, *product.node.inputs)
            self._put(node, "_AppliedProduct", inputs, product, place)

    def _put(
        self,
        node: Node,
        op: str,
        inputs: tuple[Endpoint, ...],
        product: _Product,
        place: int | None,
    ) -> None:
        """Adds one node that replaces a product and its successors up to `node`."""
        turns = registry.lookup(product.node.op).matrix_product(product.node)
        assert turns is not None
        assert place is not None
        attrs: dict[str, Any] = {"T": product.node.attrs["T"]}
        attrs["transpose_a"], attrs["transpose_b"] = turns
        if SOURCE_ATTR in node.attrs:
            attrs[SOURCE_ATTR] = node.attrs[SOURCE_ATTR]
        joined = (product.node, product.last, node)
        waits = dict.fromkeys(name for each in joined for name in each.control_inputs)
        made = Node(node.name, op, inputs, tuple(waits), node.device, attrs)
        self._gone |= {each.name for each in joined}
        self._after.setdefault(place, []).append(made)
        self._place[node.name] = place
        self._joined.add(node.name)

    def _product(self, endpoint: Endpoint) -> _Product | None:
        """Returns a tensor as a product, if only one node needs it."""
        last = self._alone(endpoint)
        if last is None:
            return None
        if last.op != SCALES:
            return _Product(last, None, last) if self._is_product(last) else None
        for matrix, number in (last.inputs, last.inputs[::-1]):
            node = self._alone(matrix)
            scalar = self._known[number]
            if node is not None and self._is_product(node) and scalar.full_shape == ():
                return None if scalar.dtype.is_ref else _Product(node, number, last)
        return None

    def _alone(self, endpoint: Endpoint) -> Node | None:
        """Returns the producer of a tensor that is read once and not joined; None for others."""
        node = self._by_name.get(endpoint.node)
        if node is None or node.name in self._gone or self._uses[endpoint] != 1:
            return None
        return node

    def _is_product(self, node: Node) -> bool:
        op = registry.lookup(node.op)
        if op.matrix_product(node) is None or node.attrs["T"] not in _DTYPES:
            return False
        shape = self._shape(Endpoint(node.name, 0))
        return (
            shape is not None
            and len(shape) == 2
            and min(shape) > 1
            and shape[0] * shape[1] >= LEAST_ELEMENTS
            and node.name not in self._copied
        )

    def _shape(self, endpoint: Endpoint) -> tuple[int, ...] | None:
        return self._known[endpoint].full_shape

    def _place_for(self, product: _Product, after: int) -> int | None:
        """Returns the first possible position of a product from `after` on; None if none."""
        place = max(after, self._place[product.node.name], *map(self._made_at, product.inputs))
        return None if self._passes_update(product, place) else place

    def _made_at(self, endpoint: Endpoint) -> int:
        return self._place.get(endpoint.node, -1)

    def _passes_update(self, product: _Product, place: int) -> bool:
        """Whether a variable that a product reads is updated before a position."""
        readers = [product.node] if product.scale is None else [product.node, product.last]
        for node in readers:
            for endpoint in node.inputs:
                for variable in self._variables.get(endpoint, ()):
                    updates = self._updates.get(variable, ())
                    number = bisect.bisect_left(updates, self._place[node.name])
                    if number < len(updates) and updates[number] <= place:
                        return True
        return False


def _without(names: set[str], node: Node) -> Node:
    if names.isdisjoint(node.control_inputs):
        return node
    kept = tuple(name for name in node.control_inputs if name not in names)
    return replace(node, control_inputs=kept)
