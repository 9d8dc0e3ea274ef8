"""Generated CUDA C, run on the CPU by `support.cuda_emulator` and compared with numpy."""

import numpy as np
import pytest
import scipy.special

from sparkflow_runtime import dtypes
from sparkflow_runtime.codegen.cpu.loops import UnsupportedKernel
from sparkflow_runtime.codegen.gpu.cuda import CudaProgram
from sparkflow_runtime.codegen.ir.kernel import REDUCTIONS, Instruction, Kernel, Operand
from support import cuda_emulator
from support.cuda_emulator import CudaEmulator

pytestmark = pytest.mark.skipif(cuda_emulator.COMPILER is None, reason="g++ is not installed")

F32, F64, I32, I64, BOOL = (
    dtypes.float32,
    dtypes.float64,
    dtypes.int32,
    dtypes.int64,
    dtypes.bool_,
)
T, F = True, False
ROW, COLUMN, BOTH = (T, F), (F, T), (T, T)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder of compiled sources: tests with the same kernel compile it once."""
    return tmp_path_factory.mktemp("cuda")


def op(function, *arguments, dtype=F32, over=(), value=0):
    return Instruction(function, arguments, dtype, over, value)


def normal(*shape, dtype=np.float32, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def run(kernel, sizes, *inputs, folder):
    """The outputs of a kernel, each with the sizes of the dimensions that it varies along."""
    outputs = []
    for value in kernel.outputs:
        shape = [s for s, flag in zip(sizes, kernel.value_axes[value], strict=True) if flag]
        outputs.append(np.full(shape, 77, kernel.value_dtypes[value].numpy))
    CudaEmulator(folder).run(CudaProgram(kernel), sizes, *inputs, *outputs)
    return outputs


SOFTMAX = Kernel(
    2,
    (Operand(F32, BOTH),),
    (
        op("reduce_max", 0, over=COLUMN),
        op("subtract", 0, 1),
        op("exp", 2),
        op("reduce_sum", 3, over=COLUMN),
        op("divide", 3, 4),
    ),
    (5,),
)


def softmax(x):
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


@pytest.mark.parametrize(
    "shape",
    [(1, 1), (3, 10), (17, 33), (9, 512), (3, 513), (2, 1100), (2, 4096), (1, 8192), (2, 8193)],
)
def test_softmax(shape, folder):
    x = normal(*shape) * 10
    (y,) = run(SOFTMAX, shape, x, folder=folder)
    np.testing.assert_allclose(y, softmax(x), rtol=1e-5, atol=1e-7)


def test_a_row_that_fits_is_read_once():
    """From memory, and its costly functions are computed once."""
    source = CudaProgram(SOFTMAX).source()
    again, kept = source.split("__launch_bounds__")
    assert again.count("a0[") == 3
    assert again.count("expf(") == 2
    assert kept.count("a0[") == kept.count("expf(") == 1
    names = {
        columns: {each.name for each in CudaProgram(SOFTMAX).plan((7, columns)).launches}
        for columns in (10, 8192, 8193)
    }
    assert names == {10: {"stage0_kept"}, 8192: {"stage0_kept"}, 8193: {"stage0"}}


def test_rows_with_nan_and_infinity_are_as_numpys(folder):
    x = normal(4, 40)
    x[0, 3], x[1, 5], x[2] = np.nan, -np.inf, np.inf
    (y,) = run(SOFTMAX, x.shape, x, folder=folder)
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(y, softmax(x), rtol=1e-5, atol=1e-7)


def test_cross_entropy_gives_loss_mean_and_gradient(folder):
    """Rows, then a reduction over the results of the rows."""
    kernel = Kernel(
        2,
        (Operand(F32, BOTH), Operand(I32, ROW), Operand(F32, (F, F))),
        (
            op("reduce_max", 0, over=COLUMN),  # 3
            op("subtract", 0, 3),  # 4
            op("exp", 4),  # 5
            op("reduce_sum", 5, over=COLUMN),  # 6
            op("log", 6),  # 7
            op("index", dtype=I64, over=COLUMN),  # 8
            op("cast", 1, dtype=I64),  # 9
            op("equal", 8, 9, dtype=BOOL),  # 10
            op("constant", value=0.0),  # 11
            op("where", 10, 4, 11),  # 12
            op("reduce_sum", 12, over=COLUMN),  # 13
            op("subtract", 7, 13),  # 14: the loss of a row
            op("reduce_sum", 14, over=ROW),  # 15
            op("divide", 5, 6),  # 16
            op("cast", 10, dtype=F32),  # 17
            op("subtract", 16, 17),  # 18
            op("multiply", 18, 2),  # 19: the gradient
        ),
        (14, 15, 19),
    )
    x, labels = normal(37, 10), np.arange(37, dtype=np.int32) % 10
    scale = np.array(1 / 37, np.float32)
    loss, total, gradient = run(kernel, (37, 10), x, labels, scale, folder=folder)
    p = softmax(x)
    expected = -np.log(p[np.arange(37), labels])
    np.testing.assert_allclose(loss, expected, rtol=1e-5)
    np.testing.assert_allclose(total, expected.sum(), rtol=1e-5)
    np.testing.assert_allclose(gradient, (p - np.eye(10)[labels]) * scale, rtol=1e-4, atol=1e-7)


def test_layer_norm_gradient_sums_columns_of_what_rows_gave(folder):
    """A reduction over leading dimensions that depends on reductions within rows."""
    kernel = Kernel(
        2,
        (Operand(F64, BOTH), Operand(F64, BOTH), Operand(F64, (F, F))),
        (
            op("reduce_sum", 0, dtype=F64, over=COLUMN),  # 3
            op("multiply", 3, 2, dtype=F64),  # 4: mean
            op("subtract", 0, 4, dtype=F64),  # 5
            op("multiply", 5, 5, dtype=F64),  # 6
            op("reduce_sum", 6, dtype=F64, over=COLUMN),  # 7
            op("multiply", 7, 2, dtype=F64),  # 8: variance
            op("sqrt", 8, dtype=F64),  # 9
            op("divide", 5, 9, dtype=F64),  # 10: normalised
            op("multiply", 1, 10, dtype=F64),  # 11
            op("reduce_sum", 11, dtype=F64, over=ROW),  # 12
            op("reduce_sum", 1, dtype=F64, over=ROW),  # 13
        ),
        (10, 12, 13),
    )
    x, dy = normal(70, 45, dtype=np.float64), normal(70, 45, dtype=np.float64, seed=1)
    one_over = np.array(1 / 45)
    y, dgamma, dbeta = run(kernel, (70, 45), x, dy, one_over, folder=folder)
    expected = (x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True)
    np.testing.assert_allclose(y, expected, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(dgamma, (dy * expected).sum(0), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(dbeta, dy.sum(0), rtol=1e-10, atol=1e-12)


BIAS_RELU = Kernel(
    2,
    (Operand(F32, BOTH), Operand(F32, COLUMN)),
    (op("add", 0, 1), op("constant", value=0.0), op("maximum", 2, 3)),
    (4,),
)


@pytest.mark.parametrize("shape", [(3, 8), (5, 7), (300, 12), (0, 4), (4, 0)])
def test_bias_and_activation(shape, folder):
    """Packs of four where rows are multiples of it, one by one otherwise."""
    x, bias = normal(*shape), normal(shape[1], seed=1)
    (y,) = run(BIAS_RELU, shape, x, bias, folder=folder)
    np.testing.assert_array_equal(y, np.maximum(x + bias, 0))


@pytest.mark.parametrize("offset", [0, 1])
@pytest.mark.parametrize("size", [1, 4, 7, 1024, 2051])
def test_flat_arrays_of_any_size_and_alignment(size, offset, folder):
    kernel = Kernel(
        1, (Operand(F32, (T,)), Operand(F32, (F,))), (op("multiply", 0, 1), op("sign", 2)), (2, 3)
    )
    x = normal(size + 1)[offset : offset + size]
    product, sign = run(kernel, (size,), x, np.array(-2, np.float32), folder=folder)
    np.testing.assert_array_equal(product, x * -2)
    np.testing.assert_array_equal(sign, np.sign(x * -2))


def test_four_dimensions_broadcast_in_turn(folder):
    axes = [(T, F, T, F), (F, T, F, T), (T, T, F, F), (F, F, F, F)]
    kernel = Kernel(
        4,
        tuple(Operand(F64, each) for each in axes),
        (
            op("add", 0, 1, dtype=F64),
            op("multiply", 4, 2, dtype=F64),
            op("subtract", 5, 3, dtype=F64),
            op("index", dtype=I64, over=(F, T, F, F)),
            op("cast", 7, dtype=F64),
            op("add", 6, 8, dtype=F64),
        ),
        (9, 2),
    )
    sizes = (3, 4, 2, 5)
    given = [normal(*(n for n, t in zip(sizes, each, strict=True) if t)) for each in axes]
    given = [each.astype(np.float64) for each in given]
    result, copy = run(kernel, sizes, *given, folder=folder)
    a, b, c, d = given
    expected = (a[:, None, :, None] + b[None, :, None, :]) * c[:, :, None, None] - d
    np.testing.assert_array_equal(result, expected + np.arange(4)[None, :, None, None])
    np.testing.assert_array_equal(copy, c)


@pytest.mark.parametrize(
    ("sizes", "over"),
    [
        ((5, 6, 7), (T, T, F)),  # as the gradient of a bias, channels last
        ((5, 6, 7), (T, F, T)),  # channels first
        ((5, 6, 7), (F, T, F)),
        ((300, 2, 70), (T, F, F)),
        ((3, 5, 1500), (F, F, T)),
        ((2, 3, 4), (T, T, T)),
        ((20, 30, 40), (T, T, T)),  # several parts
        ((0, 3, 4), (T, F, F)),
        ((3, 0, 4), (T, F, F)),
    ],
)
def test_reductions_beside_elementwise_results(sizes, over, folder):
    kernel = Kernel(
        3,
        (Operand(F64, (T, T, T)),),
        (
            op("multiply", 0, 0, dtype=F64),
            op("reduce_sum", 1, dtype=F64, over=over),
            op("reduce_max", 0, dtype=F64, over=over),
            op("reduce_min", 0, dtype=F64, over=over),
            op("reduce_prod", 0, dtype=F64, over=over),
        ),
        (1, 2, 3, 4, 5),
    )
    x = normal(*sizes, dtype=np.float64)
    square, total, highest, lowest, together = run(kernel, sizes, x, folder=folder)
    axis = tuple(i for i, flag in enumerate(over) if flag)
    np.testing.assert_array_equal(square, x * x)
    np.testing.assert_allclose(total, (x * x).sum(axis), rtol=1e-12)
    np.testing.assert_array_equal(highest, x.max(axis, initial=-np.inf))
    np.testing.assert_array_equal(lowest, x.min(axis, initial=np.inf))
    np.testing.assert_allclose(together, x.prod(axis), rtol=1e-12)


def test_reductions_give_nan_if_any_element_is(folder):
    kernel = Kernel(
        2, (Operand(F32, BOTH),), tuple(op(name, 0, over=BOTH) for name in REDUCTIONS), (1, 2, 3, 4)
    )
    x = normal(80, 90)
    x[40, 50] = np.nan
    assert np.isnan(run(kernel, x.shape, x, folder=folder)).all()


def test_an_output_in_the_place_of_an_input_that_others_read(folder):
    """The bias is overwritten by a result with the same dimensions: everything else comes first."""
    kernel = Kernel(
        2,
        (Operand(F64, BOTH), Operand(F64, COLUMN)),
        (
            op("add", 0, 1, dtype=F64),
            op("reduce_sum", 2, dtype=F64, over=ROW),
            op("exp", 1, dtype=F64),
        ),
        (2, 3, 4),
    )
    assert kernel.in_place
    x, bias = normal(90, 5, dtype=np.float64), normal(5, dtype=np.float64, seed=1)
    total, result = np.empty(5), np.empty(5)
    expected = x + bias, (x + bias).sum(0), np.exp(bias)
    for outputs in [(x, bias, result), (x, total, bias)]:
        x_now, bias_now = x.copy(), bias.copy()
        swapped = [{id(x): x_now, id(bias): bias_now}.get(id(a), a) for a in outputs]
        CudaEmulator(folder).run(CudaProgram(kernel), (90, 5), x_now, bias_now, *swapped)
        for got, wanted in zip(swapped, expected, strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-12)


def test_a_kernel_of_no_dimensions(folder):
    kernel = Kernel(0, (Operand(F32, ()),), (op("exp", 0),), (1, 0))
    x = np.array(0.5, np.float32)
    y, copy = run(kernel, (), x, folder=folder)
    assert y == np.exp(x)
    assert copy == x


def test_wide_positions_give_the_same(folder):
    program = CudaProgram(SOFTMAX)
    x = normal(5, 60)
    narrow, wide = np.empty_like(x), np.empty_like(x)
    emulator = CudaEmulator(folder)
    emulator.run(program, x.shape, x, narrow)
    emulator.run(program, x.shape, x, wide, wide=True)
    np.testing.assert_array_equal(narrow, wide)
    assert not program.plan(x.shape).wide
    assert program.plan((1 << 20, 1 << 12)).wide
    assert "typedef unsigned long long index_t" in program.source(wide=True)


FLOATS = [0.0, -0.0, 1.5, -2.5, 0.5, 3e38, -3e38, 1e-40, np.inf, -np.inf, np.nan, 88.8, -104.0]
UNARY = {
    "negative": np.negative,
    "absolute": np.absolute,
    "sign": np.sign,
    "exp": np.exp,
    "expm1": np.expm1,
    "log": np.log,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "tanh": np.tanh,
    "erf": scipy.special.erf,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "rint": np.rint,
}
BINARY = ("add", "subtract", "multiply", "divide", "maximum", "minimum")
COMPARISONS = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")
LOGIC = ("isnan", "isfinite", "isinf")


@pytest.mark.parametrize("dtype", [F32, F64])
def test_functions_of_floats_are_numpys(dtype, folder):
    one = np.array([*FLOATS, *normal(20)], dtype.numpy)
    a, b = np.repeat(one, one.size), np.tile(one, one.size)
    instructions = [
        *(op(name, 0, dtype=dtype) for name in UNARY),
        *(op(name, 0, 1, dtype=dtype) for name in BINARY),
        *(op(name, 0, 1, dtype=BOOL) for name in COMPARISONS),
        *(op(name, 0, dtype=BOOL) for name in LOGIC),
        *(op("cast", 0, dtype=each) for each in (F32, F64, I32, I64, BOOL)),
    ]
    outputs = tuple(range(2, 2 + len(instructions)))
    kernel = Kernel(1, (Operand(dtype, (T,)), Operand(dtype, (T,))), tuple(instructions), outputs)
    results = run(kernel, a.shape, a, b, folder=folder)
    with np.errstate(all="ignore"):
        wanted = [function(a) for function in UNARY.values()]
        wanted += [getattr(np, name)(a, b) for name in (*BINARY, *COMPARISONS)]
        wanted += [getattr(np, name)(a) for name in LOGIC]
        wanted += [a.astype(each.numpy) for each in (F32, F64, I32, I64, BOOL)]
    for instruction, got, expected in zip(instructions, results, wanted, strict=True):
        rtol = 4 * np.finfo(dtype.numpy).eps if instruction.function in UNARY else 0
        np.testing.assert_allclose(
            got, expected, rtol=rtol, atol=0, err_msg=instruction.function, equal_nan=True
        )
        if instruction.function in ("negative", "ceil", "rint", "sqrt", "tanh", "multiply"):
            numbers = ~np.isnan(expected)
            np.testing.assert_array_equal(
                np.signbit(got)[numbers], np.signbit(expected)[numbers], instruction.function
            )


@pytest.mark.parametrize("dtype", [I32, I64])
def test_functions_of_integers_wrap_around_as_numpys(dtype, folder):
    limits = np.iinfo(dtype.numpy)
    one = np.array([0, 1, -1, 7, -13, limits.max, limits.min, limits.min + 1], dtype.numpy)
    a, b = np.repeat(one, one.size), np.tile(one, one.size)
    unary = ("negative", "absolute", "sign")
    binary = ("add", "subtract", "multiply", "maximum", "minimum")
    instructions = [
        *(op(name, 0, dtype=dtype) for name in unary),
        *(op(name, 0, 1, dtype=dtype) for name in binary),
        op("constant", dtype=dtype, value=int(limits.min)),
        op("less", 0, 10, dtype=BOOL),
        *(op("cast", 0, dtype=each) for each in (F32, F64, I32, I64, BOOL)),
        *(op(name, 0, dtype=dtype, over=(T,)) for name in ("reduce_sum", "reduce_max")),
    ]
    outputs = tuple(n for n in range(2, 2 + len(instructions)) if n != 10)
    kernel = Kernel(1, (Operand(dtype, (T,)), Operand(dtype, (T,))), tuple(instructions), outputs)
    results = run(kernel, a.shape, a, b, folder=folder)
    wanted = [getattr(np, name)(a) for name in unary]
    wanted += [getattr(np, name)(a, b) for name in binary]
    wanted += [np.zeros(a.shape, bool)]
    wanted += [a.astype(each.numpy) for each in (F32, F64, I32, I64, BOOL)]
    wanted += [a.sum(dtype=dtype.numpy), a.max()]
    for got, expected in zip(results, wanted, strict=True):
        np.testing.assert_array_equal(got, expected)


def test_functions_of_bools(folder):
    a, b = np.array([F, F, T, T] * 3), np.array([F, T, F, T] * 3)
    names = ("logical_and", "logical_or", "maximum", "minimum", "add", "multiply", "not_equal")
    instructions = [
        *(op(name, 0, 1, dtype=BOOL) for name in names),
        op("logical_not", 0, dtype=BOOL),
        op("constant", dtype=BOOL, value=True),
        op("where", 0, 1, 10, dtype=BOOL),
        *(op(name, 0, dtype=BOOL, over=(T,)) for name in ("reduce_max", "reduce_min")),
        op("reduce_sum", 0, dtype=I32, over=(T,)),
    ]
    outputs = (2, 3, 4, 5, 6, 7, 8, 9, 11, 12, 13, 14)
    kernel = Kernel(1, (Operand(BOOL, (T,)), Operand(BOOL, (T,))), tuple(instructions), outputs)
    results = run(kernel, a.shape, a, b, folder=folder)
    wanted = [getattr(np, name)(a, b) for name in names]
    wanted += [~a, np.where(a, b, True), a.any(), a.all(), a.sum()]
    for got, expected in zip(results, wanted, strict=True):
        np.testing.assert_array_equal(got, expected)


def test_constants_come_through_exactly(folder):
    floats = [0.1, -0.0, 1e-45, 3.4028235e38, np.inf, -np.inf, np.nan, 1 / 3]
    doubles = [0.1, 5e-324, 1.7976931348623157e308, np.inf, np.nan]
    whole = [2**63 - 1, -(2**63), -5]
    instructions = [
        *(op("constant", value=value) for value in floats),
        *(op("constant", dtype=F64, value=value) for value in doubles),
        *(op("constant", dtype=I64, value=value) for value in whole),
    ]
    kernel = Kernel(0, (), tuple(instructions), tuple(range(len(instructions))))
    results = run(kernel, (), folder=folder)
    for got, value, each in zip(results, [*floats, *doubles, *whole], instructions, strict=True):
        wanted = np.array(value, each.dtype.numpy)
        np.testing.assert_array_equal(got, wanted)
        assert np.signbit(got) == np.signbit(wanted) or np.isnan(value)


def test_the_same_launches_for_the_same_sizes():
    program = CudaProgram(SOFTMAX)
    assert program.plan((64, 10)) == program.plan((64, 10))
    assert program.plan((64, 10)).counts == (640, 640)
    assert program.plan((0, 10)).launches == ()


def test_kernels_that_there_is_no_cuda_for():
    whole = Kernel(1, (Operand(I32, (T,)),), (op("divide", 0, 0, dtype=I32),), (1,))
    with pytest.raises(UnsupportedKernel, match="value 1: divide of int32, int32 to int32"):
        CudaProgram(whole)
    half = Kernel(1, (Operand(dtypes.float16, (T,)),), (op("exp", 0, dtype=dtypes.float16),), (1,))
    with pytest.raises(UnsupportedKernel, match="exp of float16"):
        CudaProgram(half)


def test_outputs_that_no_thread_would_write_are_refused():
    over_nothing = Kernel(
        2,
        (Operand(I32, COLUMN), Operand(I32, (F, F))),
        (op("reduce_sum", 1, dtype=I32, over=BOTH), op("add", 0, 2, dtype=I32)),
        (3,),
    )
    program = CudaProgram(over_nothing)
    assert program.plan((2, 16)).launches
    with pytest.raises(UnsupportedKernel, match=r"sizes are \(0, 16\)"):
        program.plan((0, 16))


def test_a_missed_barrier_is_an_error(folder):
    """The emulator detects what would hang or give wrong results on a GPU."""
    program = CudaProgram(SOFTMAX)
    whole = program.source
    program.source = lambda wide=False: whole(wide).replace(
        "const float v1 =", "if (threadIdx.x == 3) return;\n    const float v1 ="
    )
    x = normal(2, 40)
    with pytest.raises(RuntimeError, match="stage0_kept: a lane of a warp misses"):
        CudaEmulator(folder).run(program, x.shape, x, np.empty_like(x))


def test_float16_is_computed_in_float32(folder):
    half = dtypes.float16
    kernel = Kernel(
        2,
        (Operand(half, BOTH), Operand(half, COLUMN)),
        (
            op("cast", 0),
            op("cast", 1),
            op("multiply", 2, 3),
            op("cast", 4, dtype=half),
            op("cast", 5),
            op("reduce_sum", 6, over=COLUMN),
        ),
        (5, 7),
    )
    x, y = normal(5, 70, dtype=np.float16), normal(70, dtype=np.float16, seed=1)
    product, total = run(kernel, (5, 70), x, y, folder=folder)
    np.testing.assert_array_equal(product, x * y)
    np.testing.assert_allclose(total, (x * y).astype(np.float32).sum(1), rtol=1e-5, atol=1e-5)
    with pytest.raises(UnsupportedKernel):
        CudaProgram(Kernel(1, (Operand(half, (T,)),), (op("negative", 0, dtype=half),), (1,)))
    with pytest.raises(UnsupportedKernel):
        CudaProgram(Kernel(1, (Operand(dtypes.bfloat16, (T,)),), (op("cast", 0),), (1,)))
