"""Plans with every fork that they can have, with threads and in the worst orders."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from sparkflow_runtime.codegen import threads
from sparkflow_runtime.compiler import branch_threads
from sparkflow_runtime.compiler.program import compile_partition
from sparkflow_runtime.compiler.trial import ForkedPlan
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.passes.prune import prune
from sparkflow_runtime.resources.variable import Variable
from support.graphs import const, node
from support.plans import arg, fetch, forked_plan_of, new_context, plan_of
from support.random_graphs import Outcome, RandomProgram, random_program
from support.step import FakeStep

pytestmark = pytest.mark.usefixtures("plans_at_once")


def run_at_once(task):
    task.run()
    task.done.release()
    return True


ORDERS = {
    "threads": branch_threads._hand_over,
    "early": run_at_once,  # every branch before the step's own
    "late": lambda task: False,  # after it
}


@pytest.fixture(autouse=True)
def _three_threads(monkeypatch):
    monkeypatch.setattr(branch_threads, "count", lambda: 3)


@pytest.fixture(params=ORDERS)
def _every_order(request, monkeypatch):
    monkeypatch.setattr(branch_threads, "_hand_over", ORDERS[request.param])


def nodes_of(program: RandomProgram):
    return prune(program.graph, [*program.feeds], program.fetches, program.targets).sorted()


def assert_equal(actual: Outcome, expected: Outcome) -> None:
    """Bit for bit."""
    for given, wanted in zip(actual.fetched, expected.fetched, strict=True):
        np.testing.assert_array_equal(np.asarray(given), np.asarray(wanted), strict=True)
    for name, wanted in expected.variables.items():
        np.testing.assert_array_equal(actual.variables[name], wanted, strict=True)


class Way:
    """A random program as one of its plans runs it, with variables of its own."""

    def __init__(self, program: RandomProgram, has_forks: bool) -> None:
        self.program = program
        self.context = program.context()
        compiled = compile_partition(nodes_of(program), self.context)
        self.args = [program.args[index] for index in compiled.args]
        find = forked_plan_of if has_forks else plan_of
        self.plan = find(compiled, self.args)

    def step(self, factor: float) -> Outcome:
        for name, value in self.program.variables.items():
            variable = self.context.resources.get("", name, Variable)
            variable.array[...] = value * np.float32(factor)
        with np.errstate(all="ignore"):
            results = list(self.plan(FakeStep(), *self.args))
        return Outcome(results, self.program.state(self.context))


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.usefixtures("_every_order")
def test_forks_change_no_result(seed):
    program = random_program(seed, 50)
    serial, forked = Way(program, False), Way(program, True)
    assert isinstance(forked.plan, ForkedPlan)
    for factor in (1.0, 0.5, 0.75):
        assert_equal(forked.step(factor), serial.step(factor))


def test_several_steps_at_once():
    program = random_program(4, 60, variables=False)
    expected = Way(program, False).step(1.0)
    forked = Way(program, True)
    begin = threading.Barrier(4, timeout=60)

    def run(number):
        begin.wait()
        return [forked.step(1.0) for _ in range(20)]

    with ThreadPoolExecutor(4) as pool:
        for outcomes in pool.map(run, range(4)):
            for each in outcomes:
                assert_equal(each, expected)


def towers(*extra):
    """Two towers of one node each that are no kernels, and what joins them."""
    return [
        arg("x", 0),
        node("one", "Cumsum", "x", "axis"),
        node("other", "Cumprod", "x", "axis"),
        *extra,
        node("both", "Add", "one", "other"),
        fetch("both"),
    ]


def forked_program(*nodes, args):
    program = compile_partition([const("axis", np.int32(0)), *nodes], new_context())
    forked = forked_plan_of(program, args)
    assert forked is not None
    plans = program.specialisations
    signature = tuple(np.shape(each) for each in args)
    plans._settle(signature, plan_of(program, args), forked)
    return program, forked


X = np.float32([1, 2, 3])


@pytest.mark.usefixtures("_every_order")
@pytest.mark.parametrize("failing", ["one", "other"])
def test_an_error_in_a_branch_names_its_node(failing):
    wrong = node("wrong", "CheckNumerics", failing, message="is not finite")
    nodes = [*towers(wrong), fetch("wrong", 1)]
    program, _ = forked_program(*nodes, args=[X])
    assert program.run(FakeStep(), [X])[0].tolist() == [2, 5, 12]
    for _ in range(3):
        with pytest.raises(InvalidArgumentError, match="is not finite") as caught:
            program.run(FakeStep(), [X * np.float32(np.inf)])
        assert caught.value.node_def == "wrong"
    assert program.run(FakeStep(), [X])[0].tolist() == [2, 5, 12]
    assert program.statistics.forked == 1


def test_a_plan_with_forks_is_observed_node_by_node():
    program, _ = forked_program(*towers(), args=[X])
    seen = []

    def observe(node, kernel):
        def run(*arguments):
            seen.append((node.name, threading.current_thread() is threading.main_thread()))
            return kernel(*arguments)

        return run

    observed = program.run_observed(FakeStep(), [X], observe)
    assert observed.results[0].tolist() == [2, 5, 12]
    assert {("one", True), ("other", True)} <= {*seen}


def test_a_cancelled_step_ends_both_branches():
    """What takes the step runs outside of forks; the error it ends with is the step's."""
    received = node("r", "_RecvBundle", key="k", source="d", T=["float"], shapes=[[3]])

    class Cancelled(FakeStep):
        def receive(self, key, source):
            self.check_cancelled()
            return (X,)

    program, forked = forked_program(
        *towers(), received, node("s", "Exp", "r"), fetch("s", 1), args=[X]
    )
    step = Cancelled()
    assert len(forked(step, X)) == 2
    step.cancel(InvalidArgumentError(message="the step is over"))
    with pytest.raises(InvalidArgumentError, match="the step is over"):
        program.run(step, [X])


def test_one_thread_has_no_forks(monkeypatch):
    monkeypatch.setattr(branch_threads, "count", lambda: 1)
    program = compile_partition([const("axis", np.int32(0)), *towers()], new_context())
    assert type(plan_of(program, [X])).__name__ == "Planned"
    assert forked_plan_of(program, [X]) is None


def test_limits_of_threads_come_from_the_environment_of_kernels(monkeypatch):
    monkeypatch.undo()
    monkeypatch.setattr(threads, "count", lambda: 1)
    assert branch_threads.count() == 1


@pytest.mark.usefixtures("_every_order")
@pytest.mark.parametrize("names", [("kernel", "reader"), ("reader", "kernel")])
def test_no_kernel_overwrites_what_another_branch_reads(names):
    users = {
        "kernel": [node("kernel", "Exp", "made"), node("summed", "Cumsum", "kernel", "axis")],
        "reader": [node("reader", "Cumprod", "made", "axis")],
    }
    nodes = [
        arg("x", 0),
        node("made", "Cumsum", "x", "axis"),
        *(each for name in names for each in users[name]),
        *(fetch("summed"), fetch("reader", 1)),
    ]
    x = np.linspace(0, 1, 64, dtype=np.float32)
    program, forked = forked_program(*nodes, args=[x])
    made = np.cumsum(x)
    for _ in range(2):
        results = dict(zip(program.results, forked(FakeStep(), x), strict=True))
        np.testing.assert_allclose(results[0], np.cumsum(np.exp(made)), rtol=1e-6)
        np.testing.assert_allclose(results[1], np.cumprod(made), rtol=1e-6)
