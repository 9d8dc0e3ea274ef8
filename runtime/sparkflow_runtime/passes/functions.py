"""Prepares the functions that a step calls: pruned, with tapes, cleaned, in execution order.

A gradient reads tensors of a function's earlier calls from a tape (`ops.tape`). The `_TapeRead`
nodes of the step determine what a function records: these tensors become additional results. A step
without gradients records nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ir.function import Function, called
from sparkflow_runtime.ir.graph import Graph
from sparkflow_runtime.ir.node import RETVAL, Node, parse_endpoint
from sparkflow_runtime.ir.strands import find_classes, in_order_of_classes, may_block
from sparkflow_runtime.ops import registry
from sparkflow_runtime.passes.clean import clean
from sparkflow_runtime.passes.partitioning.partition import schedule

_READERS = ("_TapeRead", "_TapeLength")


def reachable(nodes: Iterable[Node], load: Callable[[str], Function]) -> dict[str, Function]:
    """Returns every function that `nodes` call, directly or through others.

    Args:
        nodes: The nodes of a step.
        load: Returns the function of a name; raises NotFoundError if there is none.
    """
    found: dict[str, Function] = {}
    stack = [name for node in nodes for name in called(node)]
    while stack:
        name = stack.pop()
        if name not in found:
            found[name] = load(name)
            stack += [each for node in found[name].body for each in called(node)]
    return found


def ready_functions(graph: Graph, load: Callable[[str], Function]) -> dict[str, Function]:
    """Returns the functions that a pruned graph calls, ready to compile.

    Raises:
        NotFoundError: A function does not exist.
        InvalidArgumentError: A tape refers to a tensor that its function does not have.
    """
    # Unneeded nodes are removed first, so that nothing is recorded for them.
    functions = {name: _pruned(each) for name, each in reachable(graph, load).items()}
    if not functions:
        return {}
    taped = _taped(graph, functions)
    ready = {
        name: _ready(_recording(function, taped.get(name))) for name, function in functions.items()
    }
    blocks = may_block(ready)
    return {name: _in_order(function, blocks) for name, function in ready.items()}


def _in_order(function: Function, blocks: Callable[[Node], bool]) -> Function:
    """Returns the function with no node ordered after a waiting op on which it does not depend."""
    nodes = list(function.body)
    classes = find_classes(nodes, blocks)
    if classes is None:
        return function
    body = Graph(in_order_of_classes(nodes, classes))
    return Function(function.name, body, function.targets, function.taped)


def _taped(graph: Graph, functions: Mapping[str, Function]) -> dict[str, dict[str, None]]:
    """Returns, per function, the tensors that are read from its tape."""
    found: dict[str, dict[str, None]] = {}
    for body in (graph, *(function.body for function in functions.values())):
        for node in body:
            if node.op in _READERS:
                names = found.setdefault(node.attrs["function"], {})
                names.update(dict.fromkeys(node.attrs.get("names", ())))
    return found


def _recording(function: Function, names: Mapping[str, None] | None) -> Function:
    """Returns the function with the named tensors as its last results."""
    if names is None:
        return function
    added = []
    for place, name in enumerate(names, len(function.results)):
        endpoint = parse_endpoint(name)
        outputs: tuple[object, ...] = ()
        if endpoint.node in function.body:
            producer = function.body[endpoint.node]
            outputs = registry.lookup(producer.op).signature.output_dtypes(producer.attrs)
        if endpoint.slot >= len(outputs):
            raise InvalidArgumentError(message=f"Function {function.name!r} has no tensor {name!r}")
        attrs = {"T": outputs[endpoint.slot], "index": place}
        added.append(Node(f"_tape_{place}", RETVAL, (endpoint,), (), "", attrs))
    return Function(function.name, Graph([*function.body, *added]), function.targets, tuple(names))


def _pruned(function: Function) -> Function:
    roots = [node.name for node in (*function.results, *function.args)]
    kept = function.body.ancestors([*roots, *function.targets])
    body = Graph(
        Node(node.name, node.op, node.inputs, node.control_inputs, "", node.attrs)
        for node in function.body
        if node.name in kept
    )
    return Function(function.name, body, function.targets, function.taped)


def _ready(function: Function) -> Function:
    from sparkflow_runtime.passes.late_reads import late_reads
    from sparkflow_runtime.passes.sparse_updates import sparse_updates

    # A body runs on its caller's device, whatever its nodes request.
    body = sparse_updates(clean(late_reads(function.body), function.targets))
    levels = dict.fromkeys(body.nodes, 0)
    return Function(function.name, Graph(schedule(body, levels)), function.targets, function.taped)


def bodies(graph: Graph, functions: Mapping[str, Function]) -> dict[str, list[Node]]:
    """Returns, per calling node of `graph`, the nodes that run on its device because of it."""
    return {
        node.name: [
            each for f in reachable([node], functions.__getitem__).values() for each in f.body
        ]
        for node in graph
        if any(True for _ in called(node))
    }
