"""Cuts a partition into strands, each of which is compiled separately.

A strand passes tensors to others as results, and receives them as arguments after the feeds.
References and handles are not passed: each strand looks the variable up itself. Values in the
memory of variables are passed as copies, since updates may come between.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sparkflow_runtime.compiler.known import find_known
from sparkflow_runtime.ir.effects import find_handles, find_updates
from sparkflow_runtime.ir.graph import predecessors, rewired
from sparkflow_runtime.ir.node import ARG, RETVAL, Endpoint, Node
from sparkflow_runtime.ir.strands import Classes, is_repeated
from sparkflow_runtime.ops.kernel import StepContext
from sparkflow_runtime.resources.turns import StrandRun


@dataclass(frozen=True, slots=True)
class Cut:
    """The strands of a partition before they are compiled.

    Attributes:
        strands: The nodes of each, in execution order.
        before: Per strand the numbers of those that it waits for.
        num_args: The number of the partition's arguments; further ones come from strands.
        num_results: The number of its results; further ones go to strands, in the order of the
            further arguments.
        copying: The numbers of strands that use a variable which another one updates: this may
            happen while they wait, so they must copy what they read.
    """

    strands: list[list[Node]]
    before: list[set[int]]
    num_args: int
    num_results: int
    copying: frozenset[int]


def cut(nodes: Sequence[Node], classes: Classes) -> Cut:
    """Returns the strands of a partition: the nodes of one class are one strand.

    Args:
        nodes: In execution order.
        classes: The classes of these nodes.
    """
    repeated = {node.name: node for node in nodes if is_repeated(node)}
    numbers: dict[frozenset[str], int] = {}
    for node in nodes:
        if node.name not in repeated:
            numbers.setdefault(classes[node.name], len(numbers))
    strand_of = {n.name: numbers[classes[n.name]] for n in nodes if n.name not in repeated}
    num_args = 1 + max((n.attrs["index"] for n in nodes if n.op == ARG), default=-1)
    num_results = 1 + max((n.attrs["index"] for n in nodes if n.op == RETVAL), default=-1)
    held = find_handles(nodes)
    updates = find_updates(nodes, held)
    copying = frozenset(
        number
        for node in nodes
        for handle in {held[endpoint] for endpoint in node.inputs if endpoint in held}
        if (number := strand_of.get(node.name)) is not None
        and any(strand_of[name] != number for name in updates.get(handle, ()))
    )
    made = Cut([[] for _ in numbers], [set() for _ in numbers], num_args, num_results, copying)
    known = find_known(nodes, {})
    first: list[dict[str, Node]] = [{} for _ in numbers]  # nodes without inputs
    given: dict[Endpoint, int] = {}
    taken: dict[tuple[int, Endpoint], Endpoint] = {}
    for node in nodes:
        if node.name in repeated:
            continue
        own = strand_of[node.name]
        replaced: dict[Endpoint, Endpoint] = {}
        for endpoint in node.inputs:
            source = endpoint
            if strand_of.get(endpoint.node, own) != own:
                source = held.get(endpoint, endpoint)
            if source.node in repeated:
                first[own][source.node] = repeated[source.node]
            elif strand_of[source.node] != own:
                place = (own, source)
                if place not in taken:
                    number = given.setdefault(source, len(given))
                    name = f"_taken_{number}"
                    about = known[source]
                    attrs = {"T": about.dtype, "index": num_args + number, "shape": about.shape}
                    first[own][name] = Node(name, ARG, device=node.device, attrs=attrs)
                    taken[place] = Endpoint(name, 0)
                source = taken[place]
            if source != endpoint:
                replaced[endpoint] = source
        for name in predecessors(node):
            if strand_of.get(name, own) != own:
                made.before[own].add(strand_of[name])
        control = []
        for name in node.control_inputs:
            if name in repeated:
                first[own][name] = repeated[name]
            if strand_of.get(name, own) == own:
                control.append(name)
        node = rewired(node, replaced)
        made.strands[own].append(
            Node(node.name, node.op, node.inputs, tuple(control), node.device, node.attrs)
        )
    for endpoint, number in given.items():
        attrs = {"T": known[endpoint].dtype, "index": num_results + number}
        made.strands[strand_of[endpoint.node]].append(
            Node(f"_given_{number}", RETVAL, (endpoint,), attrs=attrs)
        )
    for strand, others in zip(made.strands, first, strict=True):
        strand[:0] = others.values()
    return made


@dataclass(frozen=True, slots=True)
class CompiledStrand:
    """A strand, ready to run.

    Attributes:
        call: Runs it, see `Program.call`.
        args: The numbers of its arguments.
        results: The numbers of its results.
        before: The number of strands that it waits for.
        after: The numbers of those that wait for it.
        fetched: Makes a result independent of the program's memory.
    """

    call: Callable[..., tuple[Any, ...]]
    args: tuple[int, ...]
    results: tuple[int, ...]
    before: int
    after: tuple[int, ...]
    fetched: Callable[[Any], Any] | None


def followers(before: Sequence[set[int]]) -> list[tuple[int, ...]]:
    """Returns, per strand, those that wait for it."""
    return [
        tuple(number for number, waits in enumerate(before) if own in waits)
        for own in range(len(before))
    ]


def runner(
    strands: Sequence[CompiledStrand],
    made: Cut,
    args_of: Sequence[int],
    results_of: Sequence[int],
) -> Callable[..., tuple[Any, ...]]:
    """Returns the function `(step, *args) -> results` of a partition of strands.

    Args:
        strands: The strands.
        made: The strands before compilation.
        args_of: The numbers of its arguments, in order.
        results_of: The numbers of its results, in order.
    """
    slow: set[object] = set()
    num_args, num_results = made.num_args, made.num_results

    def run(step: StepContext, *args: Any) -> tuple[Any, ...]:
        values: dict[int, Any] = dict(zip(args_of, args, strict=True))
        results: dict[int, Any] = {}

        def call(number: int) -> None:
            strand = strands[number]
            found = strand.call(step, *[values[index] for index in strand.args])
            for index, value in zip(strand.results, found, strict=True):
                if index >= num_results:
                    values[num_args + index - num_results] = value
                else:
                    results[index] = value if strand.fetched is None else strand.fetched(value)

        StrandRun(strands, call, step.stop).execute(slow)
        return tuple([results[index] for index in results_of])

    return run


def numbers_of(nodes: Sequence[Node], op: str) -> list[int]:
    """Returns the indices of arguments or results, in the order of the nodes."""
    return [node.attrs["index"] for node in nodes if node.op == op]
