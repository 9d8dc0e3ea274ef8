from itertools import product

import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.codegen.cpu import loops
from sparkflow_runtime.codegen.ir.kernel import REDUCTIONS, Instruction, Kernel, Operand
from sparkflow_runtime.codegen.ir.schedule import Form, Schedule, Target
from sparkflow_runtime.codegen.machine import host, native
from sparkflow_runtime.dtypes import bool_, float32, float64, int32, int64
from support import kernel_interpreter
from support.random_kernels import random_array, random_kernel, random_sizes

pytestmark = pytest.mark.skipif(not native.available(), reason="there is no code generator here")

Y, N = True, False
LENGTHS = (0, 1, 7, 8, 9, 31, 32, 33, 100)
PAIRS = (*((1, 1), (1, 5), (5, 1), (3, 8), (4, 10), (7, 33), (20, 70), (3, 300)), (40, 3), (19, 7))


def kernel(rank, inputs, instructions, *outputs):
    """A kernel from (dtype, axes) and (function, arguments, dtype, over, value)."""
    return Kernel(
        rank,
        tuple(Operand(*each) for each in inputs),
        tuple(Instruction(*each) for each in instructions),
        outputs,
    )


ADD = kernel(1, [(float32, (Y,))] * 2, [("add", (0, 1), float32)], 2)
BIAS_AND_RELU = kernel(
    2,
    [(float32, (Y, Y)), (float32, (N, Y))],
    [
        ("add", (0, 1), float32),
        ("constant", (), float32),
        ("maximum", (2, 3), float32),
    ],
    4,
)
SOFTMAX = kernel(
    2,
    [(float32, (Y, Y))],
    [
        ("reduce_max", (0,), float32, (N, Y)),
        ("subtract", (0, 1), float32),
        ("exp", (2,), float32),
        ("reduce_sum", (3,), float32, (N, Y)),
        ("divide", (3, 4), float32),
    ],
    5,
)
CROSS_ENTROPY = kernel(  # of logits and labels: gradient, loss of each row, sum of the losses
    2,
    [(float32, (Y, Y)), (int64, (Y, N))],
    [
        ("reduce_max", (0,), float32, (N, Y)),  # 2
        ("subtract", (0, 2), float32),
        ("exp", (3,), float32),
        ("reduce_sum", (4,), float32, (N, Y)),  # 5
        ("index", (), int64, (N, Y)),
        ("equal", (6, 1), bool_),
        ("cast", (7,), float32),  # 8
        ("divide", (4, 5), float32),
        ("subtract", (9, 8), float32),  # 10
        ("log", (5,), float32),
        ("subtract", (3, 11), float32),
        ("multiply", (8, 12), float32),
        ("reduce_sum", (13,), float32, (N, Y)),  # 14
        ("negative", (14,), float32),  # 15
        ("reduce_sum", (15,), float32, (Y, N)),
    ],
    *(10, 15, 16),
)
LAYER_NORM = kernel(
    2,
    [(float32, (Y, Y)), (float32, (N, Y)), (float32, (N, Y)), (float32, (N, N))],
    [
        ("reduce_sum", (0,), float32, (N, Y)),
        ("multiply", (4, 3), float32),  # the mean: input 3 is one over the length
        ("subtract", (0, 5), float32),
        ("multiply", (6, 6), float32),
        ("reduce_sum", (7,), float32, (N, Y)),
        ("multiply", (8, 3), float32),
        ("constant", (), float32, (), 1e-3),
        ("add", (9, 10), float32),
        ("sqrt", (11,), float32),
        ("divide", (6, 12), float32),
        ("multiply", (13, 1), float32),
        ("add", (14, 2), float32),
    ],
    *(15, 5),
)
GRADIENT_OF_BIAS = kernel(  # sums over leading, last and all dimensions at once
    2,
    [(float32, (Y, Y)), (float32, (Y, Y))],
    [
        ("multiply", (0, 1), float32),
        ("reduce_sum", (2,), float32, (Y, N)),
        ("reduce_sum", (2,), float32, (N, Y)),
        ("reduce_sum", (2,), float32, (Y, Y)),
        ("reduce_max", (0,), float32, (Y, N)),
        ("reduce_min", (2,), float32, (Y, Y)),
    ],
    *(2, 3, 4, 5, 6, 7),
)
KEPT_IN_MEMORY = kernel(  # exp of what varies along the columns only has no output to be kept in
    2,
    [(float64, (N, Y)), (float64, (Y, Y))],
    [
        ("exp", (0,), float64),
        ("multiply", (2, 1), float64),
        ("reduce_sum", (3,), float64, (N, Y)),
        ("subtract", (2, 4), float64),
        ("tanh", (5,), float64),
        ("reduce_max", (6,), float64, (N, Y)),
        ("less", (6, 7), bool_),
    ],
    *(8, 7),
)
KERNELS = {
    "bias": BIAS_AND_RELU,
    "softmax": SOFTMAX,
    "cross_entropy": CROSS_ENTROPY,
    "layer_norm": LAYER_NORM,
    "gradient_of_bias": GRADIENT_OF_BIAS,
    "kept": KEPT_IN_MEMORY,
}


def inputs_of(kernel, sizes, rng):
    return [
        random_array(rng, operand.dtype, shape(operand.axes, sizes)) for operand in kernel.inputs
    ]


def outputs_of(kernel, sizes):
    """Arrays filled with values that no result has by chance."""
    return [
        np.full(shape(kernel.value_axes[v], sizes), 77, kernel.value_dtypes[v].as_numpy_dtype)
        for v in kernel.outputs
    ]


def shape(axes, sizes):
    return tuple(size for size, varies in zip(sizes, axes, strict=True) if varies)


def assert_close(kernel, found, expected, tolerance=1e-5):
    for value, one, other in zip(kernel.outputs, found, expected, strict=True):
        assert one.shape == other.shape
        if kernel.value_dtypes[value].is_floating:
            finite = other[np.isfinite(other)]
            size = max(1.0, float(np.abs(finite).max(initial=0)))
            np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance * size)
        else:
            np.testing.assert_array_equal(one, other)


def check(kernel, sizes, rng, threads=1, tolerance=1e-5):
    """Runs a kernel twice and compares with the interpreter."""
    arrays = inputs_of(kernel, sizes, rng)
    expected = kernel_interpreter.run(kernel, sizes, *arrays)
    bound = loops.compile_kernel(kernel).bind(sizes, threads)
    for _ in range(2):
        found = outputs_of(kernel, sizes)
        assert bound(*arrays, *found) is True
        assert_close(kernel, found, expected, tolerance)


@pytest.fixture
def rng():
    return np.random.default_rng(5)


@pytest.fixture
def eager_threads(monkeypatch):
    """Splits even the smallest loop."""
    monkeypatch.setattr(loops, "PART_S", 1e-12)


@pytest.mark.parametrize("length", LENGTHS)
def test_two_arrays_are_added(rng, length):
    check(ADD, (length,), rng)


@pytest.mark.parametrize("sizes", PAIRS)
@pytest.mark.parametrize("name", KERNELS)
def test_rows_and_columns(rng, name, sizes):
    check(KERNELS[name], sizes, rng)


@pytest.mark.parametrize("sizes", [(1, 5), (2, 3), (20, 70)])
@pytest.mark.parametrize("name", KERNELS)
def test_parts_on_threads_give_the_same(rng, eager_threads, name, sizes):
    check(KERNELS[name], sizes, rng, threads=2)
    check(KERNELS[name], sizes, rng, threads=3)


def test_sums_of_parts_do_not_depend_on_timing(rng, eager_threads):
    sizes = (50, 40)
    arrays = inputs_of(GRADIENT_OF_BIAS, sizes, rng)
    bound = loops.compile_kernel(GRADIENT_OF_BIAS).bind(sizes, 3)
    first = outputs_of(GRADIENT_OF_BIAS, sizes)
    bound(*arrays, *first)
    for _ in range(50):
        again = outputs_of(GRADIENT_OF_BIAS, sizes)
        bound(*arrays, *again)
        assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))


@pytest.mark.parametrize("columns", [1, 3, 12, 16, 20, 64, 100, 300])
def test_sums_of_columns(rng, eager_threads, columns):
    scores = [
        ("add", (0, 1), float32),
        *((f"reduce_{f}", (2,), float32, (N, Y, N)) for f in ("sum", "max")),
    ]
    between = kernel(3, [(float32, (Y, Y, N)), (float32, (N, Y, Y))], scores, 2, 3, 4)
    first = kernel(3, [(int64, (Y, Y, Y))], [("reduce_min", (0,), int64, (Y, Y, N))], 1)
    for each, sizes in product((between, first), ((3, 1, columns), (2, 7, columns))):
        for threads in (1, 2):
            check(each, sizes, rng, threads)
    empty = kernel(2, [(float32, (Y, Y))], [("reduce_sum", (0,), float32, (Y, N))], 1)
    check(empty, (0, columns), rng)


@pytest.mark.parametrize("length", [2, 3, 5, 7])
def test_rows_shorter_than_a_vector(rng, eager_threads, length):
    for rows in (8, 16, 17, 31, 47):
        for each in (SOFTMAX, CROSS_ENTROPY, BIAS_AND_RELU, GRADIENT_OF_BIAS):
            check(each, (rows, length), rng, threads=1 + rows % 2)
    for dtype in (float64, int64):
        total = [("add", (0, 1), dtype), ("reduce_sum", (2,), dtype, (N, N, Y))]
        planes = kernel(3, [(dtype, (Y, Y, Y)), (dtype, (N, Y, N))], total, 2, 3)
        check(planes, (2, 19, length), rng)


def test_short_rows_in_place_and_with_nan(rng):
    array = rng.standard_normal((21, 3), np.float32)
    array[5, 1] = np.nan
    expected = kernel_interpreter.run(BIAS_AND_RELU, (21, 3), array, array[2])[0]
    assert loops.compile_kernel(BIAS_AND_RELU).bind((21, 3))(array, array[2].copy(), array)
    np.testing.assert_array_equal(array, expected)
    largest = kernel(2, [(float32, (Y, Y))], [("reduce_max", (0,), float32, (N, Y))], 1)
    found = np.zeros(21, np.float32)
    assert loops.compile_kernel(largest).bind((21, 3))(array, found)
    np.testing.assert_array_equal(found, array.max(axis=1))
    assert np.isnan(found[5])


@pytest.mark.parametrize(("dtype", "length"), [*product((float32, float64, int32, int64), LENGTHS)])
def test_reductions_of_every_length(rng, dtype, length):
    whole = [(f, (0,), dtype, (Y,)) for f in sorted(REDUCTIONS)]
    check(kernel(1, [(dtype, (Y,))], whole, 1, 2, 3, 4), (length,), rng)


@pytest.mark.parametrize("function", ["reduce_max", "reduce_min"])
@pytest.mark.parametrize("place", [0, 30, 32, 39])
def test_largest_of_a_row_with_nan_is_nan(function, place):
    array = np.arange(40, dtype=np.float32)
    array[place] = np.nan
    found = np.zeros((), np.float32)
    whole = kernel(1, [(float32, (Y,))], [(function, (0,), float32, (Y,))], 1)
    assert loops.compile_kernel(whole).bind((40,))(array, found)
    assert np.isnan(found)


@pytest.mark.parametrize("sizes", [(1000000,), (100000, 10), (10, 100000)])
def test_long_sums_are_as_exact_as_pairwise_ones(rng, sizes):
    axes = (Y,) * len(sizes)
    rows = kernel(
        len(sizes),
        [(float32, axes)],
        [
            ("reduce_sum", (0,), float32, axes),
            # keeps the dimensions apart:
            ("reduce_sum", (0,), float32, (*[N] * (len(sizes) - 1), Y)),
        ],
        *(1, 2),
    )
    array = rng.random(sizes, dtype=np.float32)
    found = outputs_of(rows, sizes)
    assert loops.compile_kernel(rows).bind(sizes)(array, *found)
    for one, other in zip(found, kernel_interpreter.run(rows, sizes, array), strict=True):
        np.testing.assert_allclose(one, other, rtol=3e-7)


@pytest.mark.parametrize("target", [float32, float64, int32, int64, bool_])
@pytest.mark.parametrize("source", [float32, float64, int32, int64, bool_])
def test_dtypes_side_by_side(rng, source, target):
    both = kernel(
        2,
        [(source, (Y, Y)), (source, (Y, N)), (target, (N, Y))],
        [("cast", (0,), target), ("equal", (3, 2), bool_), ("where", (4, 0, 1), source)],
        *(3, 4, 5),
    )
    for sizes in ((1, 40), (3, 9), (5, 1)):
        check(both, sizes, rng)


@pytest.mark.parametrize("rank", range(5))
def test_every_pattern_of_broadcasting(rng, rank):
    for axes in product((Y, N), repeat=rank):
        spread = kernel(
            rank,
            [(float32, axes), (int32, (Y,) * rank)],
            [("cast", (1,), float32), ("multiply", (2, 0), float32), ("tanh", (0,), float32)],
            *(3, 4),
        )
        check(spread, (2, 3, 5, 9)[:rank], rng)
        check(spread, (9, 1, 2, 1)[:rank], rng)


def test_inputs_may_be_outputs_and_values_outputs_twice(rng):
    copies = kernel(
        2,
        [(float32, (Y, Y)), (float32, (N, Y)), (float32, (Y, N)), (bool_, (N, N))],
        [("multiply", (0, 2), float32)],
        *(0, 1, 2, 3, 4, 4),
    )
    for sizes in ((1, 1), (3, 9), (2, 40)):
        check(copies, sizes, rng)


@pytest.mark.parametrize("axis", range(3))
def test_positions(rng, axis):
    over = tuple(axis == each for each in range(3))
    positions = kernel(
        3,
        [(float32, (Y, Y, Y))],
        [("index", (), int64, over), ("cast", (1,), float32), ("add", (0, 2), float32)],
        *(1, 3),
    )
    for sizes in ((2, 3, 40), (3, 1, 1), (4, 5, 7)):
        check(positions, sizes, rng)


def test_zero_and_minus_zero_are_different_constants():
    for value in (0.0, -0.0):
        constant = kernel(0, [], [("constant", (), float32, (), value)], 0)
        found = np.ones((), np.float32)
        assert loops.compile_kernel(constant).bind(())(found)
        assert np.signbit(found) == np.signbit(value)


@pytest.mark.parametrize("offset", [1, 3, 5])
def test_arrays_may_begin_anywhere(rng, offset):
    memory = rng.random((3, 64), dtype=np.float32)
    a, b, found = (row[offset : offset + 43] for row in memory)
    expected = a + b
    assert loops.compile_kernel(ADD).bind((43,))(a, b, found)
    np.testing.assert_array_equal(found, expected)
    flags = np.arange(64) % 3 == 0
    conditions = flags[offset : offset + 43]
    inverse = kernel(1, [(bool_, (Y,))], [("logical_not", (0,), bool_)], 1)
    before = flags.copy()
    assert loops.compile_kernel(inverse).bind((43,))(conditions, conditions)
    before[offset : offset + 43] ^= True
    np.testing.assert_array_equal(flags, before)  # nothing next to it is touched


@pytest.mark.parametrize("length", [10, 1000])
def test_outputs_in_place_of_inputs(rng, length):
    swap = kernel(
        1,
        [(float32, (Y,)), (float32, (Y,))],
        [("add", (0, 1), float32), ("subtract", (0, 1), float32)],
        *(2, 3),
    )
    a, b = (rng.random(length, dtype=np.float32) for _ in range(2))
    expected = a + b, a - b
    assert swap.in_place
    assert loops.compile_kernel(swap).bind((length,))(a, b, b, a)
    np.testing.assert_array_equal((b, a), expected)


def test_a_number_in_place_beside_parts_on_threads(rng, eager_threads):
    decayed = kernel(
        1,
        [(float32, (Y,)), (float32, (N,))],
        [("multiply", (0, 1), float32), ("multiply", (1, 1), float32)],
        *(2, 3),
    )
    array, number = rng.random(1000, dtype=np.float32), np.array(0.5, np.float32)
    expected = array / 2
    assert loops.compile_kernel(decayed).bind((1000,), 4)(array, number, array, number)
    np.testing.assert_array_equal(array, expected)
    assert number == 0.25


@pytest.mark.parametrize("wrong", [np.zeros(4, np.float32), np.zeros((5, 2), np.float32)[:, 0]])
def test_other_arrays_are_refused(wrong):
    found = np.full(5, 7, np.float32)
    bound = loops.compile_kernel(ADD).bind((5,))
    assert bound(np.ones(5, np.float32), wrong, found) is False
    assert np.all(found == 7)


@pytest.mark.parametrize(
    "target",
    [
        Target(vector_bytes=16, registers=32, has_masks=False),
        Target(vector_bytes=64, registers=32, has_masks=True),
    ],
    ids=["neon", "avx512"],
)
@pytest.mark.parametrize("name", ["bias", "softmax", "gradient_of_bias", "cross_entropy"])
def test_code_for_other_processors(rng, monkeypatch, name, target):
    """Also runs here: LLVM splits vectors as necessary."""
    monkeypatch.setattr(loops, "_target", lambda: target)
    for sizes in ((3, 10), (5, 70), (21, 3)):
        check(KERNELS[name], sizes, rng)


def test_each_row_value_is_computed_once():
    """Values that do not vary along the columns are scalars in the code."""
    scaled = kernel(
        2,
        [(float32, (Y, Y)), (float32, (Y, N))],
        [("sqrt", (1,), float32), ("multiply", (0, 2), float32)],
        3,
    )
    from sparkflow_runtime.codegen.cpu import loop_nest

    text = loop_nest.generate(Schedule(scaled), Target(32, 16, True), Form())
    assert "llvm.sqrt.f32" in text
    assert "llvm.sqrt.v" not in text


def test_small_work_keeps_to_one_thread():
    assert host.host().vector_bytes >= 16
    calls = []
    bind = native.Body.bind

    def spy(self, sizes, counts, extent, threads=1, releases_gil=False):
        calls.append((threads, releases_gil))
        return bind(self, sizes, counts, extent, threads, releases_gil)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native.Body, "bind", spy)
        for length in (10, 10_000_000):
            loops.compile_kernel(ADD).bind((length,), 4)
    assert calls == [(1, False), (4, True)]


ROWS = (float32, (Y, Y))
UNSUPPORTED = [
    (kernel(5, [(float32, (Y,) * 5)], [("exp", (0,), float32)], 1), "5 dimensions"),
    (kernel(1, [(dtypes.float16, (Y,))], [("exp", (0,), dtypes.float16)], 1), "float16"),
    (kernel(1, [(int32, (Y,))], [("exp", (0,), int32)], 1), "exp of int32"),
    (kernel(1, [(int32, (Y,))] * 2, [("divide", (0, 1), int32)], 2), "divide of int32, int32"),
    (kernel(1, [(float32, (Y,))], [("gamma", (0,), float32)], 1), "gamma of float32"),
    (kernel(1, [(float32, (Y,))], [("add", (0,), float32)], 1), "add of float32"),
    (kernel(1, [(int32, (Y,))], [("reduce_sum", (0,), int64, (Y,))], 1), "reduce_sum of int32"),
    (kernel(1, [(bool_, (Y,))], [("reduce_sum", (0,), bool_, (Y,))], 1), "reduce_sum of bool"),
    (kernel(1, [(float32, (Y,))], [("reduce_sum", (0,), float32, (N,))], 1), "over"),
    (
        kernel(2, [ROWS], [("reduce_sum", (0,), float32, (Y, N)), ("exp", (1,), float32)], 2),
        "used again",
    ),
    (kernel(2, [ROWS], [("reduce_sum", (0,), float32, (Y, N))], 1, 1), "an output twice"),
]


@pytest.mark.parametrize(("kernel", "message"), UNSUPPORTED)
def test_unsupported_kernels_say_why(kernel, message):
    with pytest.raises(loops.UnsupportedKernel, match=message):
        loops.compile_kernel(kernel)


def test_outputs_that_empty_loops_would_not_write_are_refused():
    beside = kernel(
        2, [ROWS, (float32, (N, Y))], [("exp", (1,), float32), ("add", (0, 2), float32)], 2, 3
    )
    compiled = loops.compile_kernel(beside)
    compiled.bind((0, 0))
    with pytest.raises(loops.UnsupportedKernel, match=r"\(0, 3\)"):
        compiled.bind((0, 3))


@pytest.mark.parametrize("start", range(0, 100, 20))
def test_random_kernels(monkeypatch, start):
    for seed in range(start, start + 20):
        rng = np.random.default_rng(seed)
        grown = random_kernel(rng)
        compiled = loops.compile_kernel(grown)
        for _ in range(3):
            sizes = random_sizes(rng, grown.rank)
            monkeypatch.setattr(loops, "PART_S", float(rng.choice([40e-6, 1e-12])))
            try:
                compiled.bind(sizes)
            except loops.UnsupportedKernel:
                assert 0 in sizes
                continue
            check(grown, sizes, rng, threads=int(rng.integers(1, 4)), tolerance=1e-4)
