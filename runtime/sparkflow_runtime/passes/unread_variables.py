"""Drops loop variables whose final values are not read.

The gradient of a loop has a variable for the gradient of every tensor that flows through the loop,
even of mere inputs. Dropping such a variable saves its cost in every iteration: the gradient of the
input sequence is a list of one tensor per iteration, each a matrix product.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from sparkflow_runtime.ir.effects import has_effects
from sparkflow_runtime.ir.function import Function
from sparkflow_runtime.ir.graph import Graph, rewired
from sparkflow_runtime.ir.node import ARG, RETVAL, Endpoint, Node
from sparkflow_runtime.ops import registry

_PER_VARIABLE = ("T", "output_shapes")
"""Attributes of a loop with an entry for each of its variables."""


def drop_unread_variables(
    graph: Graph, made: Mapping[str, Function], load: Callable[[str], Function]
) -> tuple[Graph, Mapping[str, Function]]:
    """Returns the graph with fewer loop variables, and all functions that passes created.

    A variable stays if its final value is read, or if the condition, an effect or a remaining
    variable depends on it. All variables stay if the loop's tape is read, because it must hold what
    the gradient needs, or if dropping some would drop an effect. Returns the same objects if
    nothing is dropped.

    Args:
        graph: Pruned, with fetches as nodes.
        made: Functions that passes created, by name.
        load: Returns the others.
    """
    read = {endpoint for node in graph for endpoint in node.inputs}
    replaced: dict[Endpoint, Endpoint] = {}
    nodes: dict[str, Node] = {}
    functions = dict(made)
    for node in graph:
        if not registry.contains(node.op) or not registry.lookup(node.op).is_loop:
            continue
        count = len(node.attrs["T"])
        if Endpoint(node.name, count) in read:
            continue
        condition, body = (
            functions[name] if name in functions else load(name)
            for name in (node.attrs["cond"], node.attrs["body"])
        )
        if not (_is_numbered(condition.args, count) and _is_numbered(body.args, count)):
            continue  # the compiler reports the error
        if not (_is_numbered(condition.results, 1) and _is_numbered(body.results, count)):
            continue
        wanted = {slot for slot in range(count) if Endpoint(node.name, slot) in read}
        kept = _needed(condition, body, wanted)
        if len(kept) == count or _loses_effects(body, kept):
            continue
        for function in (condition, body):
            smaller = _with_variables(function, kept, node, gives_variables=function is body)
            functions[smaller.name] = smaller
        nodes[node.name] = _smaller_loop(node, kept)
        for place, slot in enumerate(kept):
            replaced[Endpoint(node.name, slot)] = Endpoint(node.name, place)
    if not nodes:
        return graph, made
    return Graph(rewired(nodes.get(node.name, node), replaced) for node in graph), functions


def _needed(condition: Function, body: Function, wanted: Collection[int]) -> list[int]:
    """Returns the wanted variables, and those on which they or effects depend."""
    needed = _read_arguments(condition, [*_ends(condition, None), *condition.targets])
    needed |= _read_arguments(body, body.targets)
    left = sorted(needed | set(wanted))
    needed = set()
    while left:
        number = left.pop()
        if number not in needed:
            needed.add(number)
            left += _read_arguments(body, _ends(body, {number}))
    return sorted(needed)


def _loses_effects(body: Function, kept: Collection[int]) -> bool:
    """Whether an iteration has effects for which only dropped variables wait."""
    depended = body.body.ancestors([*_ends(body, kept), *body.targets])
    return any(
        node.op != RETVAL and node.name not in depended and has_effects(node) for node in body.body
    )


def _ends(function: Function, numbers: Collection[int] | None) -> list[str]:
    """Returns the names of the nodes of results; of all results without numbers."""
    return [
        node.name for node in function.results if numbers is None or node.attrs["index"] in numbers
    ]


def _read_arguments(function: Function, roots: Sequence[str]) -> set[int]:
    """Returns the numbers of the arguments on which nodes depend."""
    depended = function.body.ancestors(roots)
    return {node.attrs["index"] for node in function.args if node.name in depended}


def _is_numbered(nodes: Sequence[Node], count: int) -> bool:
    """Whether arguments or results are numbered consecutively from 0."""
    return [node.attrs["index"] for node in nodes] == [*range(count)]


def _name(function: str, loop: Node) -> str:
    """The name of a loop's own version of a function."""
    return f"{function}/of/{loop.name}"


def _with_variables(
    function: Function, kept: Sequence[int], loop: Node, gives_variables: bool
) -> Function:
    """Returns the function with fewer arguments and, if it returns the variables, fewer results."""
    places = {number: place for place, number in enumerate(kept)}
    roots = _ends(function, kept if gives_variables else None)
    roots += [*function.targets, *(node.name for node in function.args)]
    depended = function.body.ancestors(roots)
    nodes = []
    for node in function.body:
        is_numbered = node.op == ARG or (node.op == RETVAL and gives_variables)
        if node.name not in depended or (is_numbered and node.attrs["index"] not in places):
            continue
        if is_numbered:
            attrs = {**node.attrs, "index": places[node.attrs["index"]]}
            inputs, waits = node.inputs, node.control_inputs
            node = Node(node.name, node.op, inputs, waits, node.device, attrs)
        nodes.append(node)
    return Function(_name(function.name, loop), Graph(nodes), function.targets)


def _smaller_loop(node: Node, kept: Sequence[int]) -> Node:
    attrs = {**node.attrs}
    for each in _PER_VARIABLE:
        if attrs[each]:
            attrs[each] = [attrs[each][number] for number in kept]
    for each in ("cond", "body"):
        attrs[each] = _name(attrs[each], node)
    inputs = tuple(node.inputs[number] for number in kept)
    return Node(node.name, node.op, inputs, node.control_inputs, node.device, attrs)
