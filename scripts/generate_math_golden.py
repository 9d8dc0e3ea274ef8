"""Writes tests/golden/math_ops/*.npz: results of TensorFlow's kernels for special values.

Run with a Python that has TensorFlow; tests replay the files without it:

    /work/venvs/oracle/bin/python scripts/generate_math_golden.py

The format of the files is that of `generate_op_golden`. Arithmetic, comparisons and activations get
every pair of zeros, signs, halves, infinities and nan in every dtype that has a kernel; reductions
and matrix products get random shapes, axes that do not exist among them. Ops whose dtype has a
default get TensorFlow's tensors, since arrays would be converted to that.
"""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf
from generate_op_golden import DIRECTORY as OPS, Case, Draw, Writer, answer

DIRECTORY = OPS.parent / "math_ops"

FLOATS = (np.float16, np.float32, np.float64)
INTEGERS = (np.int8, np.uint8, np.int16, np.int32, np.int64)
COMPLEX = (np.complex64, np.complex128)

SPECIAL = [-np.inf, -7.5, -2.5, -1.0, -0.5, -0.0, 0.0, 0.5, 1.0, 1.5, 2.5, 3.0, np.inf, np.nan]
WHOLE = [0, 1, 2, 3, 7, 100, -1, -2, -7, -100]
PLANE = [0, 1, -1, 1j, -1j, 0.5 + 0.25j, -2 + 3j, 1 - 2j]

UNARY = [
    *("Neg", "Abs", "Exp", "Expm1", "Log", "Log1p", "Sqrt", "Rsqrt", "Square", "Reciprocal", "Inv"),
    *("Sign", "Sin", "Cos", "Tan", "Asin", "Acos", "Atan", "Sinh", "Cosh", "Floor", "Ceil"),
    *("Round", "Rint", "Erf", "Conj", "IsNan", "IsInf", "IsFinite"),
]
BINARY = [
    *("Add", "AddV2", "Sub", "Mul", "Div", "RealDiv", "DivNoNan", "FloorDiv", "TruncateDiv"),
    *("FloorMod", "Mod", "TruncateMod", "Maximum", "Minimum", "Pow", "SquaredDifference", "Atan2"),
    *("Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual"),
]
ACTIVATIONS = [
    *("Tanh", "Sigmoid", "Relu", "Relu6", "Elu", "Selu", "Softplus", "Softsign", "LeakyRelu"),
]
OF_FEATURES = ["ReluGrad", "Relu6Grad", "SoftplusGrad", "SoftsignGrad", "LeakyReluGrad"]
OF_OUTPUTS = ["EluGrad", "SeluGrad"]
OF_OUTPUT_FIRST = ["TanhGrad", "SigmoidGrad", "SqrtGrad", "RsqrtGrad", "ReciprocalGrad", "InvGrad"]
REDUCTIONS = ["Sum", "Mean", "Max", "Min", "Prod", "EuclideanNorm"]


def values(dtype: type) -> np.ndarray:
    """The special values that a dtype has."""
    kind = np.dtype(dtype).kind
    if kind == "f":
        return np.array(SPECIAL, dtype)
    if kind == "c":
        return np.array(PLANE, dtype)
    return np.array([value for value in WHOLE if value >= 0 or kind == "i"], dtype)


def unary(draw: Draw) -> Iterator[Case]:
    """Every function of one number."""
    for op in UNARY:
        for dtype in (*FLOATS, *INTEGERS, *COMPLEX):
            if op == "Round" and np.dtype(dtype).kind == "i":
                continue  # TensorFlow 2.21 rounds integers to 0
            x = values(dtype)
            if op == "Erf":
                x = x[np.isfinite(x)]  # TensorFlow 2.21: nan at infinity in float64
            if op == "Log1p" and dtype in COMPLEX:
                x = x[x != -1]  # TensorFlow 2.21: -inf + nan i
            if op != "Conj":
                yield op, [x], {}
            elif dtype in COMPLEX:
                yield op, [tf.constant(x)], {}
    for source in (np.float32, np.int32, np.int8, np.complex64, np.bool_):
        array = np.array([0, 1, 3, 100]).astype(source)
        for target in ("float16", "float32", "float64", "int8", "uint8", "int64", "bool"):
            yield "Cast", [array], {"DstT": target}
    fractions = np.array([-2.7, -0.5, 0.5, 99.9], np.float32)
    for target in ("int8", "int32", "int64", "bool", "float64"):
        yield "Cast", [fractions], {"DstT": target}


def binary(draw: Draw) -> Iterator[Case]:
    """Every function of two numbers, on all pairs."""
    for op in BINARY:
        for dtype in (*FLOATS, *INTEGERS, *COMPLEX):
            x = values(dtype)
            y = x
            if np.dtype(dtype).kind in "iu" and ("Div" in op or "Mod" in op):
                yield op, [x[:, None], x], {}  # refused: some are 0
                y = x[x != 0]
            if np.dtype(dtype).kind in "iu" and op == "Pow":
                y = np.array([0, 1, 2], dtype)
            if np.dtype(dtype).kind == "c" and op in ("Pow", "Div", "RealDiv"):
                y = y[1:]  # what a complex number divided by 0 is depends on the compiler
            yield op, [x[:, None], y], {}
    yield "Pow", [np.array([2, 1], np.int32), np.array([3, -1], np.int32)], {}
    for op in BINARY[:4]:
        for _ in range(6):
            first, second = draw.shape(1, 3, 3), draw.shape(1, 3, 3)
            yield op, [draw.array(first), draw.array(second)], {}
            first, second = draw.vector(first), draw.vector(second)
            yield "BroadcastGradientArgs", [first, second], {}
    truth = np.array([True, False])
    for op in ("LogicalAnd", "LogicalOr"):
        yield op, [truth[:, None], truth], {}
    yield "LogicalNot", [truth], {}
    for dtype in (np.float32, np.float64, np.int32):
        x = values(dtype)
        yield "ApproximateEqual", [np.repeat(x, len(x)), np.tile(x, len(x))], {"tolerance": 1.5}
    for _ in range(25):
        shape = draw.shape(1, 3, 3)
        condition = draw.array(draw.one_of(shape, shape[:1], [], draw.shape(1, 3, 2))) > 0
        t, e = draw.array(shape), draw.array(draw.one_of(shape, shape, draw.shape(1, 3, 2)))
        yield "Select", [condition, t, e], {}
        yield "SelectV2", [condition, t, e], {}
        yield "AddN", [[t, e, t]], {}


def activations(draw: Draw) -> Iterator[Case]:
    """Activation functions, the ops of their gradients, softmax."""
    for dtype in FLOATS:
        x = values(dtype)
        wide = np.array([-1000, -100, -20, -1e-3, 1e-3, 20, 100, 1000], dtype)
        for op in ACTIVATIONS:
            yield op, [tf.constant(x)], {}
            yield op, [tf.constant(wide)], {}
        dy = np.array([-2.0, 0.5, 3.0], dtype)[:, None]
        finite = x[np.isfinite(x)]
        for op in OF_FEATURES:
            pair = np.broadcast_arrays(dy, finite)
            yield op, [tf.constant(each) for each in pair], {}
        for op in OF_OUTPUTS:
            pair = np.broadcast_arrays(dy, finite[finite > -1.5])
            yield op, [np.ascontiguousarray(each) for each in pair], {}
        for op in OF_OUTPUT_FIRST:
            pair = np.broadcast_arrays(finite, dy)
            yield op, [np.ascontiguousarray(each) for each in pair], {}
        for op in ("Softmax", "LogSoftmax"):
            for shape in ((4,), (3, 4), (2, 1, 3), (0, 3), (2, 0), ()):
                yield op, [draw.array(shape, dtype)], {}
            yield op, [np.array([[1000, 0, -1000], [-np.inf, 0, 0]], dtype)], {}
    for dtype in COMPLEX:
        pair = np.broadcast_arrays(values(dtype)[1:, None], values(dtype))
        for op in OF_OUTPUT_FIRST:
            yield op, [np.ascontiguousarray(each) for each in pair], {}
    for alpha in (0.0, 0.5, 2.0, -1.0):
        x = np.array([-3, -0.5, 0, 2], np.float32)
        yield "LeakyRelu", [x], {"alpha": alpha}
        yield "LeakyReluGrad", [x + 1, x], {"alpha": alpha}


def reductions(draw: Draw) -> Iterator[Case]:
    """Reductions, scans and extremes along axes."""
    for _ in range(90):
        dtype = draw.one_of(*FLOATS, np.int32, np.int64, np.int8, np.uint8, np.complex64)
        shape = draw.shape(0 if draw.int(0, 3) == 0 else 1, 4, 4)
        x = draw.array(shape, dtype) if dtype is not np.uint8 else draw.array(shape, "u1") % 5
        count = draw.int(0, x.ndim)
        axes: Any = list(draw.rng.permutation(x.ndim)[:count] - draw.one_of(0, x.ndim))
        if draw.int(0, 9) == 0:
            axes.append(draw.int(-6, 6))
        indices = draw.vector(axes, draw.one_of(np.int32, np.int64))
        attrs = {"keep_dims": draw.one_of(False, True)}
        for op in REDUCTIONS:
            if op == "EuclideanNorm" and np.dtype(dtype).kind in "iu":
                continue  # TensorFlow's accumulates integers in their own type
            if op in ("Max", "Min") and np.dtype(dtype).kind == "c":
                continue
            if op == "Prod" and dtype is np.float16:
                continue  # its products are rounded at every step
            yield op, [x, indices], attrs
        for op in ("All", "Any"):
            yield op, [x != 0, indices], attrs
        axis = np.array(draw.int(-x.ndim - 1, x.ndim), np.int32)
        scan = {"exclusive": draw.one_of(False, True), "reverse": draw.one_of(False, True)}
        for op in ("Cumsum", "Cumprod"):
            if dtype is not np.float16:
                yield op, [x, axis], scan
        if np.dtype(dtype).kind != "c" and x.ndim:
            for op in ("ArgMax", "ArgMin"):
                yield op, [x, axis], {"output_type": draw.one_of("int32", "int64")}
        if np.dtype(dtype).kind == "f":
            yield "L2Loss", [x], {}
    yield "Max", [np.array([1, np.nan, 3], np.float32), draw.vector([0])], {}


def matrices(draw: Draw) -> Iterator[Case]:
    """Products, diagonals, inverses."""
    for _ in range(40):
        dtype = draw.one_of(np.float32, np.float64, np.int32, np.complex64)
        m, k, n = (draw.int(0 if draw.int(0, 4) == 0 else 1, 4) for _ in range(3))
        flags = draw.one_of(False, True), draw.one_of(False, True)
        a_shape = [k, m] if flags[0] else [m, k]
        b_shape = [n, k] if flags[1] else [k, n]
        if draw.int(0, 9) == 0:
            b_shape = b_shape[::-1]
        a, b = draw.array(a_shape, dtype), draw.array(b_shape, dtype)
        if dtype is np.complex64:
            a, b = a * np.complex64(1 + 1j), b * np.complex64(2 - 1j)
        yield "MatMul", [a, b], {"transpose_a": flags[0], "transpose_b": flags[1]}
        batch = draw.shape(1, 3, 2)
        other = draw.one_of(batch, batch[1:], [1, *batch], draw.shape(1, 3, 2))
        x = draw.array([*batch, *a_shape], dtype)
        y = draw.array([*other, *b_shape], dtype)
        if dtype is np.complex64:
            x, y = x * np.complex64(1 + 1j), y * np.complex64(2 - 1j)
        for op in ("BatchMatMul", "BatchMatMulV2"):
            yield op, [x, y], {"adj_x": flags[0], "adj_y": flags[1]}
        yield "MatMul", [x, y], {}
    for shape in ((3,), (2, 3), (0,), (1, 2, 2)):
        diagonal = draw.array(shape)
        yield "Diag", [diagonal], {}
        yield "DiagPart", [draw.array(shape * 2)], {}
    for shape in ((2, 3), (3,), (2, 3, 2, 2)):
        yield "DiagPart", [draw.array(shape)], {}
    for dtype in (np.float32, np.float64, np.complex64):
        for shape in ((2, 2), (3, 3), (2, 3, 3), (0, 2, 2), (2, 3), (3,)):
            x = draw.array(shape, dtype)
            if len(shape) > 1 and shape[-1] == shape[-2]:
                x = x + np.array(9 * np.eye(shape[-1]), dtype)
            yield "MatrixInverse", [x], {"adjoint": draw.one_of(False, True)}
    yield "MatrixInverse", [np.array([[1, 2], [2, 4]], np.float32)], {}


FAMILIES: dict[str, Callable[[Draw], Iterator[Case]]] = {
    "unary": unary,
    "binary": binary,
    "activations": activations,
    "reductions": reductions,
    "matrices": matrices,
}


def has_kernel(case: Case) -> bool:
    """Whether TensorFlow has a kernel for this dtype on the CPU, and takes it at all."""
    result = answer(*case)
    return not isinstance(result, str) or not (
        "Could not find device" in result or "not in the list of allowed values" in result
    )


def main() -> None:
    """Writes every file and says what is in it."""
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    for seed, (name, make) in enumerate(FAMILIES.items()):
        writer = Writer()
        for case in filter(has_kernel, make(Draw(seed))):
            writer.add(case)
        path = DIRECTORY / f"{name}.npz"
        writer.save(path)
        errors = sum("error" in record for record in writer.records)
        print(
            f"{path.name}: {len(writer.records)} cases, {errors} of them errors, "
            f"{path.stat().st_size} bytes"
        )


if __name__ == "__main__":
    main()
