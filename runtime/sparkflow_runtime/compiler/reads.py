"""Which reads of variables must be copies.

A read returns the variable's own array, and updates change that array in place. If a node runs
after an update but uses a view of a value read before it, the read must be a copy. In a step whose
pure nodes all run before its updates there is no such node. Nodes that may keep an array after the
step always get a copy, as later steps update the variable, too.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Sequence
from typing import Final

from sparkflow_runtime.ir.function import Function, called
from sparkflow_runtime.ir.node import RETVAL, Endpoint, Node
from sparkflow_runtime.ops import registry

_FOR_EVER: Final = 1 << 62
Define = Callable[[str], Function]
"""Returns the function of a name."""


def reads_to_copy(
    nodes: Sequence[Node], define: Define | None = None, results_stay: bool = False
) -> set[tuple[str, int]]:
    """Returns the (node name, input number) of each such read.

    Args:
        nodes: A partition in execution order.
        define: Returns the functions that its nodes call; without it these keep nothing.
        results_stay: Whether results are used uncopied after later nodes; otherwise the receiver of
            results copies them.
    """
    variables: dict[Endpoint, str] = {}
    reads: list[tuple[int, int, str]] = []
    updates: dict[str, list[int]] = {}
    holding = _Holding(define, results_stay)
    uses = [_Use(index, node, holding) for index, node in enumerate(nodes)]
    for index, node in enumerate(nodes):
        signature = registry.lookup(node.op).signature
        expected = signature.input_dtypes(node.attrs)
        held, use = node.name, uses[index]
        for number, (endpoint, dtype) in enumerate(zip(node.inputs, expected, strict=False)):
            variable = variables.get(endpoint)
            if variable is None:
                continue
            if dtype.is_ref:
                held = variable
                updates.setdefault(variable, []).append(index)
            elif use.until > index or endpoint in use.shared:
                reads.append((index, number, variable))
        for slot, dtype in enumerate(signature.output_dtypes(node.attrs)):
            if dtype.is_ref:
                variables[Endpoint(node.name, slot)] = held
    if not reads:
        return set()
    used_until = _used_until(nodes, uses)
    return {
        (nodes[index].name, number)
        for index, number, variable in reads
        if used_until[index] == _FOR_EVER
        or _any_between(updates.get(variable, ()), uses[index].read_at, used_until[index])
    }


class _Holding:
    """Returns the nodes that may keep input arrays after the step."""

    def __init__(self, define: Define | None, results_stay: bool = False) -> None:
        self._define = define
        self._results_stay = results_stay
        self._functions: dict[str, bool] = {}

    def holds(self, node: Node) -> bool:
        names = list(called(node))
        if names:
            return self._define is not None and any(map(self._function_holds, names))
        if node.op == RETVAL:
            return self._results_stay
        return registry.lookup(node.op).outlives_step(node)

    def _function_holds(self, name: str) -> bool:
        assert self._define is not None
        if name not in self._functions:
            self._functions[name] = False  # during the analysis: it may call itself
            body = self._define(name).body
            self._functions[name] = any(self.holds(node) for node in body if node.op != RETVAL)
        return self._functions[name]


class _Use:
    """How a node uses its input arrays.

    A node that calls functions may update a variable and then use its old value, all at its
    position.

    Attributes:
        shared: The inputs whose memory its outputs may share.
        read_at: The position after which updates of what it reads must not be visible.
        until: The last position at which it uses them itself.
    """

    __slots__ = ("read_at", "shared", "until")

    def __init__(self, index: int, node: Node, holding: _Holding) -> None:
        calls = any(called(node))
        self.shared = registry.lookup(node.op).shared(node, node.inputs)
        self.read_at = index - calls
        self.until = _FOR_EVER if holding.holds(node) else index + calls


def _used_until(nodes: Sequence[Node], uses: Sequence[_Use]) -> list[int]:
    """Returns, per node, the last position at which its inputs, or their aliases, are used."""
    index_of = {node.name: index for index, node in enumerate(nodes)}
    until = [use.until for use in uses]
    for index in reversed(range(len(nodes))):
        use = uses[index]
        for endpoint in nodes[index].inputs:
            producer = index_of.get(endpoint.node)
            if producer is not None:
                last = until[index] if endpoint in use.shared else use.until
                until[producer] = max(until[producer], last)
    return until


def _any_between(updates: Sequence[int], first: int, last: int) -> bool:
    """Whether one of the ascending numbers is strictly between the two."""
    place = bisect.bisect_right(updates, first)
    return place < len(updates) and updates[place] < last
