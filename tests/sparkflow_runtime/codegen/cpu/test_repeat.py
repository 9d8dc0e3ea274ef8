import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.codegen.cpu.loops import compile_kernel
from sparkflow_runtime.codegen.cpu.repeat import (
    Call,
    Check,
    Choose,
    Clear,
    Given,
    Look,
    Loop,
    Move,
    Put,
    Read,
    RefusedError,
    Step,
)
from sparkflow_runtime.codegen.cpu.repeat_ir import ListField
from sparkflow_runtime.codegen.ir.builder import KernelBuilder, Value
from sparkflow_runtime.codegen.machine import native

pytestmark = pytest.mark.skipif(not native.available(), reason="needs llvmlite")


def kernel(
    count: int,
    make: Callable[..., Value],
    dtype: dtypes.DType = dtypes.float32,
    size: int = 3,
) -> Callable[..., bool]:
    """A kernel of vectors of three elements, or of another size: `make` of `count` inputs."""
    builder = KernelBuilder(1 if size > 1 else 0)
    axes = (True,) if size > 1 else ()
    values = [builder.input(dtype, axes) for _ in range(count)]
    builder.output(make(builder, *values))
    return compile_kernel(builder.build()).bind((size,) if size > 1 else ())


def less_than(limit: int) -> Callable[..., bool]:
    return kernel(
        1,
        lambda b, i: b.call("less", i, b.constant(limit, dtypes.int32)),
        dtypes.int32,
        size=1,
    )


def plus_one() -> Callable[..., bool]:
    return kernel(
        1, lambda b, i: b.call("add", i, b.constant(1, dtypes.int32)), dtypes.int32, size=1
    )


class Memory:
    """Arrays, and the table of pointers to them."""

    def __init__(self, *arrays: Any) -> None:
        self.arrays = arrays
        numbers = [a if isinstance(a, int) else a.ctypes.data for a in arrays]
        self.pointers = np.array(numbers, np.int64)

    def swap(self, first: int, second: int) -> list[Move]:
        toggle = int(self.pointers[first] ^ self.pointers[second])
        return [Move(first, toggle=toggle), Move(second, toggle=toggle)]


def counting(limit: int, *steps: Step) -> Loop:
    """A loop whose pointers begin with the iteration, the next iteration and the flag."""
    return Loop([Call(less_than(limit), (0, 2))], [Call(plus_one(), (0, 1)), *steps], flag=2)


def counters(start: int = 0) -> list[Any]:
    return [np.array(start, np.int32), np.array(0, np.int32), np.array(False)]


@pytest.mark.parametrize("limit", [0, 1, 2, 255, 4097])
def test_turns_until_the_condition_does_not_hold(limit: int) -> None:
    memory = Memory(*counters())
    assert counting(limit).program(memory.swap(0, 1)).run(memory.pointers, 10_000) == (limit, True)
    assert memory.arrays[limit % 2] == limit


def test_a_loop_goes_on_where_it_was_interrupted() -> None:
    memory = Memory(*counters())
    loop = counting(10).program(memory.swap(0, 1))
    assert loop.run(memory.pointers, 4) == (4, False)
    assert loop.run(memory.pointers, 6) == (6, False)
    assert loop.run(memory.pointers, 6) == (0, True)


@pytest.mark.parametrize("limit", [0, 3, 9])
def test_what_is_called_before_the_first_turn_and_after_the_last(limit: int) -> None:
    """Once per run, however often it is interrupted; with the addresses of its arguments."""
    memory = Memory(*counters(), np.zeros(3, np.float32), np.zeros(3, np.float32), 0, 0)
    double = kernel(1, lambda b, x: b.call("add", x, x))
    loop = Loop(
        [Call(less_than(limit), (0, 2))],
        [Call(plus_one(), (0, 1)), Call(double, (3, 4))],
        2,
        [Call(double, (5, 3))],
        [Call(double, (3, 6))],
    )
    program = loop.program(memory.swap(0, 1) + memory.swap(3, 4))
    begin = program.beginning(7, [Given([(5, 12)], 6), Given([(6, 0)])])
    first, current = memory.pointers.copy(), memory.pointers
    for _ in range(2):
        memory.arrays[0][...] = 0
        given = np.float32([[9, 9, 9], [1, 2, 3]]), np.zeros(3, np.float32)
        assert program.begin(begin, current, first, (given[0][:1], given[1]), 4) is None
        outcome, turns = program.begin(begin, current, first, given, 4), 0
        assert outcome is not None
        while not outcome[1]:
            turns += outcome[0]
            assert not given[1].any()
            outcome = program.run(current, 4)
        assert turns + outcome[0] == limit
        assert given[1].tolist() == [4.0 * 2**limit * n for n in (1, 2, 3)]
        assert first[5] == first[6] == 0


def test_what_a_turn_computes_is_read_by_the_next() -> None:
    memory = Memory(*counters(), np.float32([1, 2, 3]), np.zeros(3, np.float32))
    double = kernel(1, lambda b, x: b.call("add", x, x))
    loop = counting(5, Call(double, (3, 4)))
    loop.program(memory.swap(0, 1) + memory.swap(3, 4)).run(memory.pointers, 100)
    assert memory.arrays[4].tolist() == [32, 64, 96]


def test_rows_of_a_stack_are_filled_and_read_in_any_order() -> None:
    stack = np.zeros((5, 3), np.float32)
    memory = Memory(*counters(), np.float32([1, 2, 3]), np.zeros(3, np.float32), stack)
    double = kernel(1, lambda b, x: b.call("add", x, x))
    keep = kernel(1, lambda b, x: b.call("negative", x))
    loop = counting(5, Call(double, (3, 4)), Call(keep, (4, 5)))
    moves = memory.swap(0, 1) + memory.swap(3, 4) + [Move(5, add=stack.strides[0])]
    loop.program(moves).run(memory.pointers, 100)
    assert stack[:, 0].tolist() == [-2, -4, -8, -16, -32]

    from_last = kernel(
        1, lambda b, i: b.call("subtract", b.constant(4, dtypes.int32), i), dtypes.int32, size=1
    )
    index, total = np.array(0, np.int32), [np.zeros(3, np.float32), np.zeros(3, np.float32)]
    tenth = kernel(
        2, lambda b, s, x: b.call("add", b.call("multiply", s, b.constant(0.5, dtypes.float32)), x)
    )
    back = Memory(*counters(), index, stack, stack.strides[0], 5, stack, *total)
    reading = [Call(from_last, (0, 3)), Read(3, 4, 5, 6, 7), Call(tenth, (8, 7, 9))]
    counting(5, *reading).program(back.swap(0, 1) + back.swap(8, 9)).run(back.pointers, 100)
    expected = np.zeros(3)
    for row in stack[::-1]:
        expected = expected * 0.5 + row
    np.testing.assert_allclose(total[1], expected)


@pytest.mark.parametrize("index", [-1, 2, 2**31 - 1, -(2**31)])
def test_a_row_that_a_stack_does_not_have_is_not_read(index: int) -> None:
    stack = np.zeros((2, 3), np.float32)
    memory = Memory(*counters(), np.array(index, np.int32), stack, 12, len(stack), stack)
    loop = counting(5, Read(3, 4, 5, 6, 7))
    with pytest.raises(IndexError, match="row that its stack does not have"):
        loop.program(memory.swap(0, 1)).run(memory.pointers, 100)


def test_threads_share_a_loop() -> None:
    loop = counting(20_000)
    found: list[tuple[int, bool]] = []

    def run() -> None:
        memory = Memory(*counters())
        found.append(loop.program(memory.swap(0, 1)).run(memory.pointers, 30_000))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert found == [(20_000, True)] * 4


class Listed:
    """A list of rows of three in memory, and its block of numbers."""

    def __init__(self, count: int, capacity: int = 0, grows: bool = False) -> None:
        capacity = max(capacity, count)
        self.memory = np.zeros((max(capacity, 1), 3), np.float32)
        self.given = np.arange(3.0 * max(count, 1), dtype=np.float32).reshape(-1, 3)
        self.zeros = np.zeros(3, np.float32)
        self.rows = np.zeros(max(capacity, 1), np.int64)
        self.rows[:count] = self.given.ctypes.data + np.arange(count) * 12
        self.control = np.zeros(len(ListField), np.int64)
        for field, value in (
            (ListField.ROWS, self.rows.ctypes.data),
            (ListField.LENGTH, count),
            (ListField.CAPACITY, capacity),
            (ListField.MEMORY, self.memory.ctypes.data),
            (ListField.ROW_BYTES, 12),
            (ListField.ZEROS, self.zeros.ctypes.data),
            (ListField.GROWS, grows),
        ):
            self.control[field] = value

    def run(self, *steps: Step, index: int = 0, turns: int = 1) -> Memory:
        """The pointers: iteration, the next, flag, index, the list, one set by steps, a result."""
        at, out = np.array(index, np.int32), np.zeros(3, np.float32)
        memory = Memory(*counters(), at, self.control, 0, out)
        counting(turns, *steps).program(memory.swap(0, 1)).run(memory.pointers, 100)
        return memory


def double() -> Callable[..., bool]:
    return kernel(1, lambda b, x: b.call("add", x, x))


def test_an_element_of_a_list_is_read() -> None:
    given = Listed(3)
    steps = (Look(3, 4, 5), Call(double(), (5, 6)))
    assert given.run(*steps, index=2).arrays[6].tolist() == [12, 14, 16]
    given.rows[2] = 0
    assert given.run(*steps, index=2).arrays[6].tolist() == [0, 0, 0]


def test_an_element_of_a_list_is_written_and_cleared() -> None:
    given = Listed(3)
    given.run(Put(3, 4, 5), Look(3, 4, 6), Call(double(), (6, 5)), index=1)
    assert given.rows[1] == given.memory[1].ctypes.data
    assert given.rows[0] == given.given.ctypes.data
    given.run(Clear(3, 4), index=1)
    given.run(Clear(3, 4), index=7)
    assert given.rows[1] == 0
    assert given.rows[2]


def test_a_list_grows_as_far_as_there_is_room() -> None:
    given = Listed(1, capacity=4, grows=True)
    given.run(Put(3, 4, 5, once=True), index=3)
    assert given.control[ListField.LENGTH] == 4
    assert given.rows[1:].tolist() == [0, 0, given.memory[3].ctypes.data]
    with pytest.raises(RefusedError) as error:
        given.run(Put(3, 4, 5), index=4)
    assert error.value.is_full


@pytest.mark.parametrize(
    ("step", "index"),
    [
        (Look(3, 4, 5), 3),
        (Look(3, 4, 5), -1),
        (Put(3, 4, 5), 3),
        (Put(3, 4, 5), -1),
        (Put(3, 4, 5, once=True), 1),
        (Clear(3, 4), -1),
    ],
)
def test_what_a_list_refuses(step: Step, index: int) -> None:
    given = Listed(3)
    before = given.rows.copy()
    with pytest.raises(RefusedError) as error:
        given.run(step, index=index)
    assert not error.value.is_full
    assert given.rows.tolist() == before.tolist()
    assert given.control[ListField.LENGTH] == 3


def test_a_kernel_of_several_parts() -> None:
    size = 1 << 16
    builder = KernelBuilder(1)
    values = [builder.input(dtypes.float32, (True,)) for _ in range(2)]
    builder.output(builder.call("tanh", builder.call("add", *values)))
    shared = compile_kernel(builder.build()).bind((size,), 4)
    one, other = np.linspace(-2, 2, size, dtype=np.float32), np.ones(size, np.float32)
    memory = Memory(*counters(), one, other, np.zeros(size, np.float32))
    counting(3, Call(shared, (3, 4, 5))).program(memory.swap(0, 1)).run(memory.pointers, 10)
    np.testing.assert_allclose(memory.arrays[5], np.tanh(one + 1), rtol=1e-5)


def test_a_turn_does_one_of_two_lists_of_steps() -> None:
    """What was doubled once is halved the next time; the iteration number determines the choice."""
    x, wide = np.float32([1, 2, 3]), np.zeros(3, np.float32)
    memory = Memory(*counters(), np.array(False), x, wide)
    early = kernel(1, lambda b, i: b.call("less", i, 2), dtypes.int32, size=1)
    one, ten = (kernel(1, lambda b, a, n=n: b.call("add", a, float(n))) for n in (1, 10))
    nested = Choose(3, (Call(one, (4, 5)),), (Call(ten, (4, 5)), Call(ten, (4, 5))))
    choice = Choose(3, (nested,), (Call(ten, (4, 5)),))
    loop = counting(5, Call(early, (0, 3)), choice)
    loop.program(memory.swap(0, 1) + memory.swap(4, 5)).run(memory.pointers, 100)
    assert memory.arrays[5].tolist() == [33, 34, 35]  # twice 1, three times 10


@pytest.mark.parametrize("is_chosen", [False, True])
def test_one_list_may_be_empty(is_chosen: bool) -> None:
    memory = Memory(
        *counters(), np.array(is_chosen), np.float32([1, 2, 3]), np.zeros(3, np.float32)
    )
    one = kernel(1, lambda b, a: b.call("add", a, 1.0))
    counting(1, Choose(3, (), (Call(one, (4, 5)),))).program([]).run(memory.pointers, 1)
    assert memory.arrays[5].tolist() == ([0, 0, 0] if is_chosen else [2, 3, 4])


def test_a_check_ends_the_run() -> None:
    memory = Memory(*counters(), np.array(0, np.int32))
    loop = counting(5, Check(3)).program(memory.swap(0, 1))
    assert loop.run(memory.pointers, 2) == (2, False)
    memory.arrays[3][...] = 1
    with pytest.raises(RefusedError):
        loop.run(memory.pointers, 2)
