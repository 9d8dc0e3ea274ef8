import pytest

from sparkflow_runtime.codegen.ir.kernel import Column, Instruction, Kernel, Operand
from sparkflow_runtime.codegen.ir.schedule import Schedule, Target
from sparkflow_runtime.codegen.ir.short_rows import columns_of
from sparkflow_runtime.dtypes import bool_, float16, float32, int64

AVX2 = Target(vector_bytes=32, registers=16, has_masks=True)
AVX512 = Target(vector_bytes=64, registers=32, has_masks=True)


def sums(*over, axes=(True, True), dtype=float32):
    """The squares of an array, and their sums over some dimensions."""
    squares = Instruction("multiply", (0, 0), dtype)
    totals = [Instruction("reduce_sum", (1,), dtype, each) for each in over]
    outputs = tuple(range(1, 2 + len(over)))
    return Kernel(len(axes), (Operand(dtype, axes),), (squares, *totals), outputs)


ROWS = sums((False, True))


def test_places_in_rows_are_values_of_their_own():
    found = columns_of(Schedule(ROWS), (40, 3), AVX2)
    assert found is not None
    square = [Instruction("multiply", (place, place), float32) for place in range(3)]
    chain = [Instruction("add", (3, 4), float32), Instruction("add", (6, 5), float32)]
    assert found.kernel == Kernel(
        1, (Operand(float32, (True,)),) * 3, (*square, *chain), (3, 4, 5, 7)
    )
    columns = [Column(array, 3, offset) for array in (0, 1) for offset in range(3)]
    assert found.places == (*columns, Column(2))


def test_sums_of_columns_and_of_everything_stay_reductions():
    found = columns_of(Schedule(sums((True, False), (True, True))), (40, 2), AVX2)
    assert found is not None
    reductions = [each for each in found.kernel.instructions if each.function == "reduce_sum"]
    assert [each.over for each in reductions] == [(True,)] * 3
    assert found.places[-3:] == (Column(2, 2, 0), Column(2, 2, 1), Column(3))


def test_positions_and_truths():
    kernel = Kernel(
        2,
        (Operand(int64, (True, True)),),
        (
            Instruction("index", (), int64, (False, True)),
            Instruction("equal", (0, 1), bool_),
            Instruction("reduce_max", (2,), bool_, (False, True)),
        ),
        (3,),
    )
    found = columns_of(Schedule(kernel), (40, 3), AVX2)
    assert found is not None
    functions = [each.function for each in found.kernel.instructions]
    assert functions == ["constant"] * 3 + ["equal"] * 3 + ["logical_or"] * 2
    assert [each.value for each in found.kernel.instructions[:3]] == [0, 1, 2]


@pytest.mark.parametrize(
    ("kernel", "sizes", "target"),
    [
        (ROWS, (40, 8), AVX2),  # fills a register
        (ROWS, (40, 1), AVX2),
        (ROWS, (7, 3), AVX2),  # fewer rows than lanes
        (ROWS, (15, 3), AVX512),
        (sums(), (40, 7), AVX2),  # nothing is gathered, since shuffles would cost more
        (sums((False, True), dtype=float16), (40, 3), AVX2),
        (sums((True, False, False), axes=(True,) * 3), (5, 40, 3), AVX2),  # summed in memory
        (sums(axes=(True,)), (3,), AVX2),
    ],
)
def test_other_kernels_go_over_rows(kernel, sizes, target):
    assert columns_of(Schedule(kernel), sizes, target) is None
