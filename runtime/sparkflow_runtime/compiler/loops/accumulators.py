"""Variables of a loop that only grow, as the gradients of what every turn reads do.

In the graph such a variable becomes, in every turn, the sum of itself and of what the turn gives.
Where nobody else reads it, it is added to in place: a row to the row of a table whose other rows
nobody touches, and the product of two matrices not even in every turn. Its factors are kept, and
those of many turns are multiplied at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from sparkflow_runtime import dtypes
from sparkflow_runtime.codegen.tiles import gemm
from sparkflow_runtime.codegen.tiles.fixed_products import DTYPES as PRODUCT_DTYPES, Product
from sparkflow_runtime.compiler.known import Known
from sparkflow_runtime.compiler.loops.calls import call_of
from sparkflow_runtime.compiler.loops.pointers import Cell
from sparkflow_runtime.compiler.products import SUMS
from sparkflow_runtime.ir.function import Function
from sparkflow_runtime.ir.node import ARG, RETVAL, Endpoint, Node
from sparkflow_runtime.ops import registry
from sparkflow_runtime.resources.container import Resources

WINDOW_BYTES: Final = 1 << 19
"""About so much of all factors that are kept is kept at most: they are still in a cache then."""
MOST_KEPT_TURNS: Final = 256
LEAST_KEPT_TURNS: Final = 8
"""Factors of fewer turns are not worth keeping."""


@dataclass(frozen=True, slots=True)
class Accumulator:
    """A variable that only grows.

    Attributes:
        argument: Which one.
        terms: What is added in a turn.
        sums: Names of the nodes that are left out.
    """

    argument: int
    terms: tuple[Endpoint, ...]
    sums: frozenset[str]


def find_accumulators(
    condition: Function,
    body: Function,
    known: Mapping[Endpoint, Known],
    session: Resources,
) -> tuple[Accumulator, ...]:
    """The variables of a loop that something is added to which need not be made as a whole.

    Args:
        condition: Of the loop.
        body: Of the loop.
        known: What is known of the body's tensors.
        session: What outlives a step of the session.
    """
    uses = Counter(endpoint for node in body.body for endpoint in node.inputs)
    asked = {endpoint for node in condition.body for endpoint in node.inputs}
    found = []
    for number, (given, argument, result) in enumerate(
        zip(condition.args, body.args, body.results, strict=False)
    ):
        variable, root = Endpoint(argument.name, 0), result.inputs[0]
        if uses[variable] != 1 or uses[root] != 1 or Endpoint(given.name, 0) in asked:
            continue
        terms, sums = _summands(body, root, known, uses)
        if variable not in terms or not sums:
            continue
        terms.remove(variable)
        is_cheap = [uses[each] == 1 and _grows(body, each, known, session) for each in terms]
        if any(is_cheap) and is_cheap.count(False) <= 1:
            found.append(Accumulator(number, tuple(terms), frozenset(sums)))
    return tuple(found)


def without_sums(function: Function, accumulators: Sequence[Accumulator]) -> list[Node]:
    """The nodes of a function in order; what accumulators grow by stands for their sums."""
    terms = {each.argument: each.terms for each in accumulators}
    gone = frozenset[str]().union(*(each.sums for each in accumulators))
    return [
        replace(node, inputs=terms[node.attrs["index"]])
        if node.op == RETVAL and node.attrs["index"] in terms
        else node
        for node in function.body
        if node.name not in gone
    ]


def _summands(
    body: Function, root: Endpoint, known: Mapping[Endpoint, Known], uses: Counter[Endpoint]
) -> tuple[list[Endpoint], set[str]]:
    """What a tensor is the sum of, and the names of the nodes that add."""
    terms: list[Endpoint] = []
    sums: set[str] = set()
    shape, left = known[root].full_shape, [root]
    while left:
        endpoint = left.pop()
        node = body.body[endpoint.node]
        is_inner = (
            node.op in SUMS
            and uses[endpoint] == 1
            and not node.control_inputs
            and node.name not in body.targets
            and all(known[each].full_shape == shape for each in node.inputs)
        )
        if is_inner:
            sums.add(node.name)
            left += node.inputs
        else:
            terms.append(endpoint)
    return terms, sums


def _grows(
    body: Function, term: Endpoint, known: Mapping[Endpoint, Known], session: Resources
) -> bool:
    """Whether a term can be added without being made first."""
    node = body.body[term.node]
    if node.op == ARG or node.name in body.targets:
        return False
    product = product_of(node, known)
    if product is not None:
        return is_kept(product) or not product.is_small
    call = call_of(node, known, session)
    return call is not None and call.adding is not None


def product_of(node: Node, known: Mapping[Endpoint, Known]) -> Product | None:
    """The product of two matrices that a node is; None for stacks of them and for other nodes."""
    turns = registry.lookup(node.op).matrix_product(node)
    if turns is None:
        return None
    left, right, out = (known[each].full_shape for each in (*node.inputs, Endpoint(node.name, 0)))
    dtype = known[Endpoint(node.name, 0)].dtype
    if left is None or right is None or out is None or len(left) != 2 or len(right) != 2:
        return None
    if dtype not in PRODUCT_DTYPES or not all((*left, *right)):
        return None
    rows, columns = out
    return Product(dtype, rows, columns, left[0] if turns[0] else left[1], *turns)


def is_kept(product: Product) -> bool:
    """Whether a product's factors are kept, to be multiplied together with those of other turns.

    The rows of both are then one below the other, turn after turn.
    """
    if not product.turns_left or product.turns_right:
        return False
    factors = product.depth * (product.rows + product.columns)
    size = factors * np.dtype(product.dtype.as_numpy_dtype).itemsize
    return factors < product.rows * product.columns and LEAST_KEPT_TURNS * size <= WINDOW_BYTES


@dataclass(frozen=True, slots=True)
class KeptProduct:
    """A product whose factors are kept.

    Attributes:
        target: Number of the pointer to the sum.
        left, right: Numbers of the pointers to the factors, which move on with every turn.
    """

    target: int
    left: int
    right: int


class KeptFactors:
    """The factors of some turns, whose products are added to sums.

    Args:
        products: What is kept.
        cells: What pointers point to.

    Attributes:
        turns: So many turns there is room for.
        windows: By the number of its pointer, a factor in these turns: [turns, depth, n].
    """

    def __init__(self, products: Sequence[KeptProduct], cells: Sequence[Cell | None]) -> None:
        numbers = {number for each in products for number in (each.left, each.right)}
        found = {number: cell for number in numbers if (cell := cells[number]) is not None}
        turn_bytes = sum(cell.size_bytes for cell in found.values())
        self.turns = max(LEAST_KEPT_TURNS, min(MOST_KEPT_TURNS, WINDOW_BYTES // turn_bytes))
        self.windows = {
            number: np.empty((self.turns, *cell.shape), cell.dtype)
            for number, cell in found.items()
        }
        self._products = [(each, _multiplier(cells[each.target])) for each in products]

    def add(self, turns: int, totals: Mapping[int, np.ndarray[Any, Any]]) -> None:
        """Adds the products of the first turns.

        Args:
            turns: So many of them.
            totals: The sums by the numbers of their pointers: [rows, columns].
        """
        for product, multiply in self._products:
            total = totals[product.target]
            left, right = (
                window[:turns].reshape(-1, window.shape[2])
                for window in (self.windows[product.left], self.windows[product.right])
            )
            if multiply is None or not multiply(left, right, total):
                total += left.T @ right


def _multiplier(total: Cell | None) -> Callable[..., bool] | None:
    assert total is not None
    return gemm.bind_gemm(dtypes.as_dtype(total.dtype), True, adds=True)
