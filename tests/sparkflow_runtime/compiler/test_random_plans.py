"""Random graphs: the interpreter, the general program, plans with and without machine code."""

import contextlib
import random
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.compiler.program import Program, compile_partition
from sparkflow_runtime.errors import OpError
from sparkflow_runtime.ir.node import Node
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.passes.prune import prune
from sparkflow_runtime.resources.variable import Variable
from support.interpreter import interpret
from support.plans import plan_of, without_machine_code
from support.random_graphs import (
    Outcome,
    RandomProgram,
    assert_same,
    random_program,
)
from support.step import FakeStep

Run = Callable[[Sequence[Any]], Sequence[Any]]

pytestmark = pytest.mark.usefixtures("plans_at_once")


class Way:
    """One way to run a random program, with its own variables."""

    def __init__(self, program: RandomProgram, bind: Callable[[KernelContext], Run]) -> None:
        self.program = program
        self.context = program.context()
        self.run = bind(self.context)
        self.fetched: list[tuple[Any, Any]] = []

    def step(self, args: Sequence[Any], factor: float) -> Outcome:
        """Runs a step whose variables begin as the initial values times a factor."""
        for name, value in self.program.variables.items():
            variable = self.context.resources.get("", name, Variable)
            variable.array[...] = value * np.float32(factor)
        with np.errstate(all="ignore"):
            results = list(self.run(args))
        self.fetched += [(each, np.array(each)) for each in results]
        return Outcome(results, self.program.state(self.context))

    def check_fetched(self) -> None:
        """Checks that nothing that was fetched ever changes."""
        for now, then in self.fetched:
            np.testing.assert_array_equal(now, then)


def nodes_of(program: RandomProgram) -> list[Node]:
    feeds = list(program.feeds)
    return prune(program.graph, feeds, program.fetches, program.targets).sorted()


def in_order(program: Program, results: Sequence[Any]) -> list[Any]:
    by_index = dict(zip(program.results, results, strict=True))
    return [by_index[index] for index in range(len(by_index))]


def defined(nodes: Sequence[Node]) -> Callable[[KernelContext], Run]:
    def bind(context: KernelContext) -> Run:
        def run(args: Sequence[Any]) -> Sequence[Any]:
            results = interpret(nodes, context, args, FakeStep())
            return [results[index] for index in range(len(results))]

        return run

    return bind


def general(nodes: Sequence[Node]) -> Callable[[KernelContext], Run]:
    def bind(context: KernelContext) -> Run:
        program = compile_partition(nodes, context)

        def run(args: Sequence[Any]) -> Sequence[Any]:
            given = [args[index] for index in program.args]
            return in_order(program, program.function(FakeStep(), *given))

        return run

    return bind


def planned(nodes: Sequence[Node], with_machine_code: bool) -> Callable[[KernelContext], Run]:
    def bind(context: KernelContext) -> Run:
        program = compile_partition(nodes, context)

        def run(args: Sequence[Any]) -> Sequence[Any]:
            given = [args[index] for index in program.args]
            how = contextlib.nullcontext() if with_machine_code else without_machine_code()
            with how:
                plan_of(program, given)
                results = program.run(FakeStep(), given)
            assert program.statistics is not None
            assert not program.statistics.general
            return in_order(program, results)

        return run

    return bind


def as_users_feed(array: Any, choose: random.Random) -> Any:
    """Returns the same numbers, in one of the memory layouts that users have."""
    if not array.ndim:
        return choose.choice([array, array[()]])
    way = choose.randrange(5)
    if way == 0:
        return np.asfortranarray(array)
    if way == 1:
        rows = np.empty((2 * len(array), *array.shape[1:]), array.dtype)
        rows[::2] = array
        return rows[::2]
    if way == 2:
        columns = np.empty((*array.shape[:-1], 2 * array.shape[-1]), array.dtype)
        columns[..., ::-2] = array
        return columns[..., ::-2]
    if way == 3:
        array = array.copy()
        array.flags.writeable = False
    return array


@pytest.mark.parametrize("seed", range(30))
def test_every_way_to_run_a_program_gives_the_same(seed: int) -> None:
    program = random_program(seed, 50, smooth=True)
    nodes = nodes_of(program)
    choose = random.Random(seed)
    reference = Way(program, defined(nodes))
    others = [
        Way(program, bind) for bind in (general(nodes), planned(nodes, True), planned(nodes, False))
    ]
    for factor in (1.0, 0.75, 0.5):
        scaled = [
            (array * factor).astype(array.dtype) if array.dtype.kind == "f" else array
            for array in map(np.asarray, program.args)
        ]
        args = [as_users_feed(array, choose) for array in map(np.asarray, scaled)]
        before = [np.array(each) for each in args]
        expected = reference.step(args, factor)
        for way in others:
            assert_same(way.step(args, factor), expected, rtol=2e-4)
        for each, value in zip(args, before, strict=True):
            np.testing.assert_array_equal(each, value)
    for way in others:
        way.check_fetched()


@pytest.mark.parametrize("seed", range(100, 110))
def test_jumping_ops_without_variables(seed: int) -> None:
    program = random_program(seed, 40, variables=False)
    nodes = nodes_of(program)
    expected = Way(program, defined(nodes)).step(program.args, 1.0)
    for with_machine_code in (True, False):
        way = Way(program, planned(nodes, with_machine_code))
        assert_same(way.step(program.args, 1.0), expected, rtol=2e-3)


@pytest.mark.parametrize("seed", range(200, 206))
def test_threads_share_a_program(seed: int) -> None:
    program = random_program(seed, 40, variables=False, smooth=True)
    nodes = nodes_of(program)
    compiled = compile_partition(nodes, program.context())

    def run(factor: float) -> Outcome:
        args = [
            (np.asarray(a) * factor).astype(a.dtype) if a.dtype.kind == "f" else a
            for a in program.args
        ]
        results = compiled.run(FakeStep(), [args[index] for index in compiled.args])
        return Outcome(in_order(compiled, results), {})

    factors = [1.0, 0.5, 0.25, 0.125] * 5
    expected = {factor: run(factor) for factor in set(factors)}
    with ThreadPoolExecutor(4) as pool:
        for factor, outcome in zip(factors, pool.map(run, factors), strict=True):
            assert_same(outcome, expected[factor])


@pytest.mark.parametrize("seed", range(300, 315))
def test_wrong_shapes_fail_alike(seed: int) -> None:
    program = random_program(seed, 30, variables=False, smooth=True)
    nodes = nodes_of(program)
    longer = [
        np.concatenate([array, array[:1]]) if array.ndim and len(array) else array
        for array in map(np.asarray, program.args)
    ]

    def outcome(way: Way) -> Outcome | str:
        try:
            return way.step(longer, 1.0)
        except (OpError, ValueError, TypeError, IndexError):
            return "fails"

    expected = outcome(Way(program, defined(nodes)))
    for bind in (planned(nodes, True), planned(nodes, False)):
        way = Way(program, bind)
        for _ in range(2):
            found = outcome(way)
            if isinstance(expected, str) or isinstance(found, str):
                assert found == expected
            else:
                assert_same(found, expected, rtol=2e-4)
