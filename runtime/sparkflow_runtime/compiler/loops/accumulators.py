"""Loop variables that only accumulate, such as gradients of loop-invariant tensors.

In the graph such a variable becomes, in every iteration, the sum of itself and a new term. If
nothing else reads it, it is updated in place: for a row of a table only that row, and matrix
products not even in every iteration. Their factors are kept, and those of many iterations are
multiplied at once.
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
"""Approximate maximum size of all kept factors, so that they stay in a cache."""
MOST_KEPT_TURNS: Final = 256
LEAST_KEPT_TURNS: Final = 8
"""Keeping the factors of fewer iterations does not pay."""


@dataclass(frozen=True, slots=True)
class Accumulator:
    """A variable that only accumulates.

    Attributes:
        argument: Its number.
        terms: The tensors added in an iteration.
        sums: Names of the nodes that are omitted.
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
    """Returns the loop variables to which terms are added that need not be materialized.

    Args:
        condition: The loop's condition.
        body: The loop's body.
        known: What is known of the body's tensors.
        session: The state of the session.
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
    """Returns the nodes of a function in order, with terms of accumulators instead of sums."""
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
    """Returns the terms of a sum, and the names of the adding nodes."""
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
    """Whether a term can be added without being materialized."""
    node = body.body[term.node]
    if node.op == ARG or node.name in body.targets:
        return False
    product = product_of(node, known)
    if product is not None:
        return is_kept(product) or not product.is_small
    call = call_of(node, known, session)
    return call is not None and call.adding is not None


def product_of(node: Node, known: Mapping[Endpoint, Known]) -> Product | None:
    """Returns a node as a product of two matrices; None for batches and other nodes."""
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
    """Whether a product's factors are kept, to be multiplied with those of other iterations.

    The rows of both are then concatenated, iteration after iteration.
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
        left, right: Numbers of the pointers to the factors, which advance with every iteration.
    """

    target: int
    left: int
    right: int


class KeptFactors:
    """The factors of some iterations, whose products are added to sums.

    Args:
        products: The products.
        cells: The targets of pointers.

    Attributes:
        turns: The maximum number of iterations.
        windows: By pointer number, a factor in these iterations: [turns, depth, n].
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
        """Adds the products of the first iterations.

        Args:
            turns: The number of iterations.
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
