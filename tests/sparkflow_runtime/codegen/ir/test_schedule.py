import pytest

from sparkflow_runtime.codegen.ir.kernel import Instruction, Kernel, Operand
from sparkflow_runtime.codegen.ir.schedule import Form, Schedule, Target, form_of, simplify
from sparkflow_runtime.dtypes import bool_, float32, int64

Y, N = True, False
AVX2 = Target(vector_bytes=32, registers=16, has_masks=True)


def kernel(rank, inputs, instructions, *outputs):
    return Kernel(
        rank,
        tuple(Operand(float32, axes) for axes in inputs),
        tuple(Instruction(*each) for each in instructions),
        outputs,
    )


def elementwise(*axes):
    """A sum of inputs."""
    steps = [("add", (0, 1), float32)]
    steps += [("add", (i, len(axes) + i - 2), float32) for i in range(2, len(axes))]
    return kernel(len(axes[0]), axes, steps, len(axes) + len(steps) - 1)


@pytest.mark.parametrize(
    ("axes", "sizes", "short_axes", "short"),
    [
        (((Y, Y, Y), (Y, Y, Y)), (2, 3, 4), ((Y,), (Y,)), (24,)),
        (((Y, Y, Y), (N, N, Y)), (2, 3, 4), ((Y, Y), (N, Y)), (6, 4)),
        (((Y, Y, Y), (Y, N, N)), (2, 3, 4), ((Y, Y), (Y, N)), (2, 12)),
        (((Y, Y, Y), (N, Y, N)), (2, 3, 4), ((Y, Y, Y), (N, Y, N)), (2, 3, 4)),
        (((Y, Y, Y), (N, Y, N)), (1, 3, 4), ((Y, Y), (Y, N)), (3, 4)),
        (((Y, Y, Y), (N, Y, N)), (2, 1, 4), ((Y,), (N,)), (8,)),
        (((Y, Y), (N, Y)), (1, 1), ((), ()), ()),
        (((Y, Y), (N, Y)), (0, 1), ((Y,), (N,)), (0,)),
    ],
)
def test_neighbouring_dimensions_become_one(axes, sizes, short_axes, short):
    simple, found = simplify(elementwise(*axes), sizes)
    assert found == short
    assert tuple(operand.axes for operand in simple.inputs) == short_axes
    assert simple.rank == len(short)


def test_positions_keep_their_dimension():
    steps = [("index", (), int64, (N, Y, N)), ("cast", (1,), float32), ("add", (0, 2), float32)]
    counted = kernel(3, [(Y, Y, Y)], steps, 3)
    assert simplify(counted, (2, 3, 4))[1] == (2, 3, 4)
    simple, short = simplify(counted, (2, 1, 4))
    assert short == (8,)
    assert simple.instructions[0].function == "constant"


def test_reductions_over_one_element_are_that_element():
    rows = kernel(2, [(Y, Y)], [("reduce_sum", (0,), float32, (N, Y))], 1)
    simple, short = simplify(rows, (5, 1))
    assert short == (5,)
    assert simple.instructions[0].function == "identity"


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        (5, Form(registers=0, has_rest=True)),
        (8, Form(registers=1, has_rest=False)),
        (10, Form(registers=1, has_rest=True)),
        (16, Form(registers=2, has_rest=False)),
        (20, Form(registers=2, has_rest=True)),
        (24, Form(registers=1, has_rest=False)),
        (64, Form(registers=4, has_rest=False)),
        (1000, Form(registers=4, has_rest=True)),
        (1024, Form(registers=4, has_rest=False)),
    ],
)
def test_vectors_fit_short_rows(last, expected):
    assert form_of(last, lanes=8, may_be_cut=False, is_divided=False) == expected


def test_parts_may_end_inside_of_a_vector():
    assert form_of(1024, 8, may_be_cut=True, is_divided=True) == Form(True, 4, True)


def test_exp_of_a_softmax_is_computed_once():
    softmax = kernel(
        2,
        [(Y, Y)],
        [
            ("reduce_max", (0,), float32, (N, Y)),
            ("subtract", (0, 1), float32),
            ("exp", (2,), float32),
            ("reduce_sum", (3,), float32, (N, Y)),
            ("divide", (3, 4), float32),
        ],
        5,
    )
    schedule = Schedule(softmax)
    assert schedule.passes == 3
    assert [schedule.work(each).saved for each in range(3)] == [[], [3], []]
    assert [schedule.work(each).loaded for each in range(3)] == [[], [], [3]]
    assert schedule.homes == {3: 0}
    assert schedule.buffered == ()


def test_cheap_values_are_computed_again():
    centred = kernel(
        2,
        [(Y, Y)],
        [
            ("negative", (0,), float32),
            ("reduce_sum", (1,), float32, (N, Y)),
            ("subtract", (1, 2), float32),
        ],
        3,
    )
    schedule = Schedule(centred)
    assert [schedule.work(each).saved for each in range(2)] == [[], []]
    assert schedule.work(1).values == [0, 1, 3]


def test_what_is_written_by_every_part_alike_is_not_divided():
    assert Schedule(elementwise((Y, Y), (N, Y))).is_divisible
    beside = kernel(2, [(Y, Y), (N, Y)], [("exp", (1,), float32), ("add", (0, 2), float32)], 2, 3)
    assert not Schedule(beside).is_divisible
    whole = kernel(1, [(Y,)], [("reduce_sum", (0,), float32, (Y,))], 1)
    assert Schedule(whole).is_divisible


def test_vectors_are_as_long_as_registers_allow():
    few = elementwise((Y,), (Y,))
    assert Schedule(few).registers(0, AVX2, 4) == 4
    assert Schedule(few).registers(0, AVX2, 1) == 1
    inputs = 9
    products = [("multiply", (i, i), float32) for i in range(inputs)]
    sums = [("add", (inputs, inputs + 1), float32)]
    sums += [("add", (inputs + i, 2 * inputs + i - 2), float32) for i in range(2, inputs)]
    many = kernel(1, [(Y,)] * inputs, [*products, *sums], 3 * inputs - 2)
    assert Schedule(many).registers(0, AVX2, 4) == 1
    assert Schedule(many).registers(0, Target(64, 32, True), 4) == 2


def test_lanes_are_those_of_the_smallest_type():
    compared = kernel(1, [(Y,)], [("cast", (0,), int64), ("equal", (1, 1), bool_)], 2)
    assert Schedule(compared).lanes(32) == 8
    assert Schedule(kernel(1, [], [("index", (), int64, (Y,))], 0)).lanes(32) == 4
