"""Rows of `linear_systems`, `decompositions`, `einsum`."""

import numpy as np
import scipy.linalg

import sparkflow_runtime.ops.all  # noqa: F401 - gradients are made of ops of other families
from sparkflow_runtime import dtypes
from support.op_cases import FailureCase, OpCase, WrongShapeCase

A = np.array([[4.0, -1.0, 0.5], [0.5, 3.0, 1.0], [1.0, 0.25, -2.0]])
STACK = np.stack([A, A.T + np.eye(3)])
POSITIVE = A @ A.T + np.eye(3)
Y = np.arange(6.0).reshape(3, 2) / 3 - 0.7
TALL = np.array([[1.0, -2.0, 0.5], [3.0, 1.5, -1.0], [0.2, 0.4, 2.0], [-1.0, 2.5, 0.3]])
WIDE = TALL.T.copy()
RIDGE = np.array(0.3)
NONE = np.zeros((0, 3, 3))
LOOSE = {"rtol": 2e-5, "atol": 2e-5}
TIGHT = [dtypes.float32, dtypes.float64]


def adjoint(x):
    return np.conj(np.swapaxes(x, -1, -2))


def compact(*rows):
    return np.array(rows, float)


BANDS = compact([2.0, 1.0, 9.0], [5.0, 6.0, 7.0], [9.0, 1.0, 2.0])
CASES = [
    OpCase("MatrixDeterminant", [x], {}, np.linalg.det, (0,), True, dtypes=TIGHT, **LOOSE)
    for x in (A, STACK)
]
CASES += [
    OpCase("MatrixDeterminant", [NONE], expected=np.zeros(0)),
    OpCase(
        "LogMatrixDeterminant",
        [STACK],
        expected=lambda x: tuple(np.linalg.slogdet(x)),
        gradient=(0,),
        dtypes=TIGHT,
        **LOOSE,
    ),
    *(
        OpCase(
            "MatrixSolve",
            [x, y],
            {"adjoint": flag},
            expected=lambda x, y, flag=flag: np.linalg.solve(adjoint(x) if flag else x, y),
            gradient=(0, 1),
            second_order=x is A,
            gradient_rtol=1e-5,
            **LOOSE,
        )
        for flag in (False, True)
        for x, y in ((A, Y), (STACK, np.stack([Y, Y[::-1]])))
    ),
    *(
        OpCase(
            "MatrixTriangularSolve",
            [x, Y],
            {"lower": lower, "adjoint": flag},
            expected=lambda x, y, lower=lower, flag=flag: np.linalg.solve(
                adjoint(np.tril(x) if lower else np.triu(x))
                if flag
                else (np.tril(x) if lower else np.triu(x)),
                np.broadcast_to(y, (*x.shape[:-2], *y.shape)),
            ),
            gradient=(0, 1),
            **LOOSE,
        )
        for lower in (False, True)
        for flag in (False, True)
        for x in (A, STACK)
    ),
    *(
        OpCase(
            "MatrixSolveLs",
            [x, y, RIDGE],
            {"fast": True},
            expected=lambda x, y, r: np.linalg.solve(
                adjoint(x) @ x + r * np.eye(x.shape[1]), adjoint(x) @ y
            ),
            dtypes=TIGHT,
            **LOOSE,
        )
        for x, y in ((TALL, TALL[:, :2]), (WIDE, Y))
    ),
    OpCase(
        "MatrixSolveLs",
        [TALL, TALL[:, :2], np.array(0.0)],
        {"fast": False},
        expected=lambda x, y, r: np.linalg.pinv(x) @ y,
        dtypes=TIGHT,
        **LOOSE,
    ),
    OpCase(
        "TridiagonalSolve",
        [BANDS, Y],
        expected=lambda d, y: np.linalg.solve(
            np.diag(d[0, :-1], 1) + np.diag(d[1]) + np.diag(d[2, 1:], -1), y
        ),
        gradient=(0, 1),
        dtypes=TIGHT,
        **LOOSE,
    ),
    OpCase("Cholesky", [POSITIVE], expected=np.linalg.cholesky, dtypes=TIGHT, **LOOSE),
    OpCase("Cholesky", [NONE], expected=NONE),
    *(
        OpCase(
            "Qr",
            [x],
            expected=lambda x: tuple(np.linalg.qr(x)),
            gradient=(0,),
            dtypes=TIGHT,
            gradient_rtol=1e-5,
            **LOOSE,
        )
        for x in (A, STACK, TALL, WIDE)
    ),
    OpCase(
        "Qr",
        [TALL],
        {"full_matrices": True},
        expected=lambda x: tuple(np.linalg.qr(x, "complete")),
        dtypes=TIGHT,
        **LOOSE,
    ),
    *(
        OpCase(
            "Svd",
            [x],
            expected=lambda x: (
                np.linalg.svd(x, full_matrices=False)[1],
                np.linalg.svd(x, full_matrices=False)[0],
                adjoint(np.linalg.svd(x, full_matrices=False)[2]),
            ),
            gradient=(0,),
            dtypes=TIGHT,
            gradient_rtol=1e-5,
            **LOOSE,
        )
        for x in (A, TALL, WIDE)
    ),
    OpCase(
        "Svd",
        [STACK],
        {"compute_uv": False},
        expected=lambda x: (np.linalg.svd(x)[1], np.zeros(0), np.zeros(0)),
        dtypes=TIGHT,
        **LOOSE,
    ),
    *(
        OpCase(
            "SelfAdjointEigV2",
            [x],
            expected=lambda x: tuple(np.linalg.eigh(x)),
            gradient=(0,),
            dtypes=TIGHT,
            gradient_rtol=1e-5,
            **LOOSE,
        )
        for x in (POSITIVE, STACK)
    ),
    OpCase(
        "Lu",
        [A],
        expected=lambda x: (scipy.linalg.lu_factor(x)[0], np.arange(3, dtype=np.int32)),
        gradient=(0,),
        dtypes=TIGHT,
        **LOOSE,
    ),
    OpCase("Lu", [STACK[::-1, ::-1].copy()], gradient=(0,)),
    *(
        OpCase(
            "MatrixExponential",
            [x / 4],
            expected=scipy.linalg.expm,
            gradient=(0,),
            dtypes=TIGHT,
            gradient_rtol=1e-5,
            **LOOSE,
        )
        for x in (A, STACK)
    ),
    OpCase(
        "MatrixLogarithm",
        [(A + 3 * np.eye(3)) * (1 + 0.5j)],
        expected=lambda x: scipy.linalg.logm(x),
        dtypes=[dtypes.complex128],
        **LOOSE,
    ),
    OpCase(
        "MatrixSquareRoot",
        [POSITIVE],
        expected=lambda x: scipy.linalg.sqrtm(x),
        dtypes=TIGHT,
        **LOOSE,
    ),
]

B = np.arange(24.0).reshape(2, 3, 4) / 7 - 1.5
EQUATIONS = [
    ("ij,jk->ik", [A, Y]),
    ("ij->ji", [TALL]),
    ("ij->", [TALL]),
    ("ij->j", [TALL]),
    ("ii->i", [A]),
    ("ii->", [A]),
    ("i,j->ij", [A[0], A[1]]),
    ("bij,bij->b", [STACK, STACK[::-1].copy()]),
    ("...ij,...jk->...ik", [STACK, B[:, :, :2].copy()]),
    ("...ij,jk->...ik", [STACK, Y]),
    ("a...,a...->...", [TALL, TALL[:, ::-1].copy()]),
    ("...i,...i->...", [TALL, A[:1]]),
    ("ij,jk,kl->il", [A, A.T.copy(), Y]),
    ("abc,d->ad", [B, A[0]]),
]
CASES += [
    OpCase(
        "Einsum",
        [inputs],
        {"equation": equation},
        expected=lambda inputs, equation=equation: np.einsum(equation, *inputs),
        gradient=tuple(range(len(inputs))),
        second_order=len(inputs) == 2 and "." not in equation,
        dtypes=[dtypes.float32, dtypes.float64, dtypes.int32],
        rtol=1e-5,
        atol=1e-5,
    )
    for equation, inputs in EQUATIONS
]
CASES += [
    OpCase("Einsum", [[A[0]]], {"equation": "i->ii"}, expected=np.diag(A[0]), gradient=(0,)),
    OpCase(
        "Einsum",
        [[A * (1 + 1j), Y * (0.5 - 1j)]],
        {"equation": "ij,jk->ik"},
        gradient=(0, 1),
    ),
]

WRONG_SHAPES = [
    WrongShapeCase(
        "Cholesky",
        [(2, 3)],
        message="Dimensions must be equal, but are 2 and 3: Cholesky takes square matrices, "
        "got shape [2,3]",
    ),
    WrongShapeCase(
        "Qr",
        [(3,)],
        message="Shape must be at least rank 2 but is rank 1: Qr takes matrices, got [3]",
    ),
    WrongShapeCase(
        "MatrixSolve",
        [(3, 3), (2, 1)],
        message="Dimensions must be equal, but are 3 and 2: MatrixSolve got a matrix of shape "
        "[3,3] and a right-hand side of [2,1]",
    ),
]

FAILURES = [
    FailureCase(
        "Cholesky",
        [-POSITIVE],
        message="Cholesky decomposition was not successful. The input might not be valid.",
    ),
    FailureCase(
        "MatrixSolve",
        [np.zeros((2, 2)), np.ones((2, 1))],
        message="Input matrix is not invertible.",
    ),
    FailureCase(
        "MatrixTriangularSolve",
        [np.zeros((2, 2)), np.ones((2, 1))],
        message="Input matrix is not invertible.",
    ),
]
