"""Cuts a partition into parts between which a run can be parked, see `resources.parking`.

A part begins with the ops that may wait, which only repeat a request when they are run again, and
with nodes that only create handles and constants. Every part is a separate program; it passes
values to later ones. The program of the whole partition is faster, and is used by threads that
wait.

Only partitions qualify that never wait otherwise, once the tensors from other devices have arrived:
they are continued in threads that have other work.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sparkflow_runtime.compiler.concurrent import cut
from sparkflow_runtime.compiler.location import locating
from sparkflow_runtime.compiler.program import Program, compile_straight
from sparkflow_runtime.ir.function import called
from sparkflow_runtime.ir.node import ARG, NO_WORK, RECEIVE, RETVAL, SEND, Endpoint, Node
from sparkflow_runtime.ir.strands import is_repeated
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.kernel import KernelContext, StepContext
from sparkflow_runtime.ops.kernels.narrow import bind_kernel
from sparkflow_runtime.resources.parking import Visit


class Question(NamedTuple):
    """An op that can be run alone, as most runs wait for it: running a program takes longer.

    Attributes:
        kernel: Its kernel; errors name the node.
        inputs: Its inputs.
    """

    kernel: Callable[..., Any]
    inputs: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a partition, ready to run.

    Attributes:
        question: The op with which it begins, which the program runs, too; None if its inputs are
            not handles and constants.
        program: Its program.
        args: The numbers of its arguments: feeds, then results of parts.
        results: The numbers of its results: the partition's, then those for other parts.
        is_short: Whether it and those after it compute next to nothing.
    """

    question: Question | None
    program: Program
    args: tuple[int, ...]
    results: tuple[int, ...]
    is_short: bool

    def run(self, visit: Visit, step: StepContext, values: Mapping[int, Any]) -> tuple[Any, ...]:
        """Runs the part, see `Program.run`.

        Args:
            visit: Its requests so far.
            step: The running step.
            values: By number.

        Raises:
            Parked: An op would wait; run the part again later with the same arguments.
        """
        question = self.question
        if question is not None and not visit.is_begun:
            visit.attempt(question.kernel, step, *question.inputs)
        return visit.attempt(self.program.run, step, [values[number] for number in self.args])


@dataclass(frozen=True, slots=True)
class Parts:
    """A partition in parts.

    Attributes:
        parts: In execution order.
        num_args: The number of the partition's arguments; further ones come from parts.
        num_results: The number of its results; further ones go to parts.
        received: The keys of the bundles that it receives.
        sent: The keys of those that it sends.
        holds_up: Whether it computes after possibly ending the waits of others.
    """

    parts: tuple[Part, ...]
    num_args: int
    num_results: int
    received: frozenset[str]
    sent: frozenset[str]
    holds_up: bool


def can_be_left(nodes: Sequence[Node]) -> bool:
    """Whether a partition has ops at which a run can be parked, and none that wait otherwise."""
    is_any = False
    for node in nodes:
        op = registry.lookup(node.op)
        is_any |= op.parks
        waits = (op.takes_step or op.may_block) and not op.parks
        if (waits and node.op not in (SEND, RECEIVE)) or op.is_loop or next(called(node), None):
            return False
    return is_any


def compile_parts(nodes: Sequence[Node], context: KernelContext) -> Parts | None:
    """Compiles the parts of a partition; None if they would exchange values that are not numeric.

    Args:
        nodes: In execution order; `can_be_left`.
        context: As for `program.compile_partition`.
    """
    numbers = _numbers(nodes)
    made = cut(
        nodes, {name: frozenset(map(str, range(number))) for name, number in numbers.items()}
    )
    if not _gives_arrays(made.strands, made.num_results):
        return None
    parts: list[Part] = []
    is_short = True
    for strand in reversed(made.strands):
        is_short = is_short and all(map(_is_short, strand))
        program = compile_straight(strand, context)
        question = _question(strand, context)
        parts.append(Part(question, program, program.args, program.results, is_short))
    parts.reverse()
    return Parts(
        tuple(parts),
        made.num_args,
        made.num_results,
        frozenset(node.attrs["key"] for node in nodes if node.op == RECEIVE),
        frozenset(node.attrs["key"] for node in nodes if node.op == SEND),
        _holds_up(nodes),
    )


def _question(strand: Sequence[Node], context: KernelContext) -> Question | None:
    """Returns the op with which a part begins, if its inputs are handles and constants."""
    known: dict[Endpoint, Any] = {}
    for node in strand:
        op = registry.lookup(node.op)
        if node.op != ARG and is_repeated(node):
            known[Endpoint(node.name, 0)] = bind_kernel(op, node, context)()
        elif op.parks and all(endpoint in known for endpoint in node.inputs):
            kernel = locating(bind_kernel(op, node, context), node)
            return Question(kernel, tuple(known[each] for each in node.inputs))
        elif node.op not in (ARG, "Const"):
            break
    return None


def _numbers(nodes: Sequence[Node]) -> dict[str, int]:
    """Returns the number of the part of each node, from 1."""
    number, has_begun = 1, False
    found: dict[str, int] = {}
    for node in nodes:
        if registry.lookup(node.op).parks:
            number += has_begun
            has_begun = False
        elif not (is_repeated(node) or node.op in (ARG, "Const")):
            has_begun = True
        found[node.name] = number
    return found


def _gives_arrays(strands: Sequence[Sequence[Node]], num_results: int) -> bool:
    given = [
        node.attrs["T"]
        for strand in strands
        for node in strand
        if node.op == RETVAL and node.attrs["index"] >= num_results
    ]
    return not any(dtype.is_ref or not dtype.is_numeric for dtype in given)


def _is_short(node: Node) -> bool:
    op = registry.lookup(node.op)
    if op.parks or is_repeated(node) or node.op in NO_WORK:
        return True
    return node.op in (ARG, RETVAL, SEND, "Const") or op.reads_variable


def _holds_up(nodes: Sequence[Node]) -> bool:
    has_given = False
    for node in nodes:
        op = registry.lookup(node.op)
        gives = op.collects_gradients or (op.parks and not op.gives_collected)
        if has_given and not (gives or _is_short(node)):
            return True
        has_given |= gives
    return False
