"""Random graphs that can run, for property tests of passes and compilers.

What lives here: `random_program`, which grows a typed graph by running one op after another and
keeping what can be computed, and `outcome`, which computes the result of a list of nodes. Reads and
updates of variables are ordered by control edges, so that a graph has one correct outcome.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparkflow_runtime import dtypes
from sparkflow_runtime.ir.graph import Graph
from sparkflow_runtime.ir.node import Endpoint, Node
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.resources.container import Resources
from sparkflow_runtime.resources.variable import Variable
from support.interpreter import interpret
from support.random_growth import Growing
from support.random_steps import STEPS
from support.step import FakeStep


@dataclass(frozen=True, slots=True)
class RandomProgram:
    """A graph, with feeds and fetches.

    Attributes:
        seed: The seed that generated it.
        graph: Its nodes, with placeholders, in an order in which they can run.
        feeds: Values of the placeholders, whose static shapes may be less specific.
        fetches: Tensors that nobody reads, and some others.
        targets: Updates and other nodes that run for their effects.
        variables: Initial values by variable.
    """

    seed: int
    graph: Graph
    feeds: Mapping[Endpoint, np.ndarray[Any, Any]]
    fetches: tuple[Endpoint, ...]
    targets: tuple[str, ...]
    variables: Mapping[str, np.ndarray[Any, Any]]

    @property
    def args(self) -> list[np.ndarray[Any, Any]]:
        """The values to feed, in the order of `feeds`."""
        return list(self.feeds.values())

    def context(self) -> KernelContext:
        """Returns a new context to run in, with variables at their initial values."""
        resources = Resources()
        for name, value in self.variables.items():
            variable = Variable(name, dtypes.as_dtype(value.dtype), value.shape)
            variable.array = value.copy()
            resources.put("", name, variable)
        return KernelContext(np, "CPU", "/device:CPU:0", resources, Resources())

    def state(self, context: KernelContext) -> dict[str, np.ndarray[Any, Any]]:
        """The variables of a `context` after a step."""
        return {
            name: context.resources.get("", name, Variable).read().copy() for name in self.variables
        }


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a step: fetched values in order, and the variables after it."""

    fetched: list[Any]
    variables: dict[str, np.ndarray[Any, Any]]


def outcome(program: RandomProgram, nodes: Sequence[Node]) -> Outcome:
    """Returns the result of a program's nodes by the reference interpreter.

    Args:
        program: Specifies the feeds and the values of variables.
        nodes: In execution order, with `_Arg` and `_Retval` nodes as created by `passes.prune`.
    """
    context = program.context()
    results = interpret(nodes, context, program.args, FakeStep())
    fetched = [results[index] for index in range(len(results))]
    return Outcome(fetched, program.state(context))


def assert_same(actual: Outcome, expected: Outcome, rtol: float = 0.0) -> None:
    """Checks that two outcomes have the same dtypes, shapes and values.

    Args:
        actual: The tested outcome.
        expected: The correct outcome.
        rtol: The allowed error, in units of the larger of 1 and the value. With 0 only the sign of
            a zero may differ.

    Raises:
        AssertionError: They differ.
    """
    pairs = [*zip(actual.fetched, expected.fetched, strict=True)]
    assert actual.variables.keys() == expected.variables.keys()
    pairs += [(actual.variables[name], value) for name, value in expected.variables.items()]
    for given, wanted in pairs:
        given, wanted = np.asarray(given), np.asarray(wanted)
        assert given.dtype == wanted.dtype
        assert given.shape == wanted.shape
        np.testing.assert_allclose(given, wanted, rtol=rtol, atol=rtol)


def random_program(
    seed: int, size: int = 40, *, variables: bool = True, smooth: bool = False
) -> RandomProgram:
    """Returns a random graph with values to feed; the same for the same arguments.

    Args:
        seed: The seed of the random numbers.
        size: The approximate number of nodes, besides constants.
        variables: Whether it reads and updates variables.
        smooth: Whether to leave out ops whose results jump (comparisons, rounding to integers), so
            that a small error stays small.
    """
    g = Growing(seed, variables, smooth)
    start, tries = len(g.nodes), 0
    while len(g.nodes) - start < size and tries < 20 * size:
        tries += 1
        with contextlib.suppress(LookupError):  # nothing fits what the step needs
            g.random.choice(STEPS)(g)
    read = {endpoint for node in g.nodes.values() for endpoint in node.inputs}
    ends = [v.endpoint for v in g.values if v.endpoint not in read]
    others = [v.endpoint for v in g.values if v.endpoint in read]
    fetches = [*ends[:12], *g.random.sample(others, min(2, len(others)))]
    graph = Graph(g.nodes.values())
    return RandomProgram(seed, graph, g.feeds, tuple(fetches), tuple(g.updates), g.initial)
