"""Rows of `linalg`."""

import numpy as np

import sparkflow_runtime.ops.all  # noqa: F401 - gradients are made of ops of other families
from support.op_cases import FailureCase, OpCase, WrongShapeCase

A = np.array([[1.0, -2.0, 0.5], [3.0, 1.5, -1.0]])
B = np.array([[2.0, 1.0, -1.0, 0.5], [0.5, -3.0, 2.0, 1.0], [1.0, 4.0, 0.25, -2.0]])
X = np.arange(12.0).reshape(2, 2, 3) / 4 - 1
Y = np.arange(24.0).reshape(2, 3, 4) / 8 - 1


def adjoint(x):
    return np.conj(np.swapaxes(x, -1, -2))


def product(adjoint_a, adjoint_b, turn=adjoint):
    return lambda a, b: np.matmul(turn(a) if adjoint_a else a, turn(b) if adjoint_b else b)


FLAGS = [(first, second) for first in (False, True) for second in (False, True)]
CASES = [
    OpCase(
        "MatMul",
        [np.ascontiguousarray(a.T if first else a), np.ascontiguousarray(b.T if second else b)],
        {"transpose_a": first, "transpose_b": second},
        expected=product(first, second, np.transpose),
        gradient=(0, 1),
        second_order=a is A,
        atol=1e-6,
    )
    for first, second in FLAGS
    for a, b in ((A, B), (np.zeros((0, 3)), B), (np.zeros((2, 0)), np.zeros((0, 4))))
]
CASES += [
    OpCase(
        op,
        [adjoint(x) if first else x, adjoint(y) if second else y],
        {"adj_x": first, "adj_y": second},
        expected=product(first, second),
        gradient=(0, 1),
        second_order=x is X,
        atol=1e-6,
    )
    for first, second in FLAGS
    for op, x, y in (
        ("BatchMatMul", X, Y),
        ("BatchMatMul", A, B),
        ("BatchMatMulV2", X, Y),
        ("BatchMatMulV2", X, B),
        ("BatchMatMulV2", A, Y),
        ("BatchMatMulV2", X[:, None], Y[None, :]),
        ("BatchMatMulV2", np.zeros((0, 2, 3)), B),
    )
]

SQUARE = np.array([[2.0, -1.0, 0.5], [0.5, 3.0, 1.0], [1.0, 0.25, -2.0]])
CASES += [
    OpCase("Diag", [np.array([1.0, -2, 3])], expected=np.diag, gradient=(0,), second_order=True),
    OpCase("Diag", [np.zeros(0)], expected=lambda x: np.zeros((0, 0), x.dtype), gradient=(0,)),
    OpCase(
        "Diag",
        [A],
        expected=lambda x: np.diag(x.ravel()).reshape(2, 3, 2, 3),
        gradient=(0,),
    ),
    OpCase("DiagPart", [SQUARE], expected=np.diagonal, gradient=(0,), second_order=True),
    OpCase(
        "DiagPart",
        [np.arange(36.0).reshape(2, 3, 2, 3)],
        expected=lambda x: np.einsum("ijij->ij", x),
        gradient=(0,),
    ),
    OpCase("DiagPart", [np.zeros((0, 0))], expected=np.diagonal, gradient=(0,)),
]
CASES += [
    OpCase(
        "MatrixInverse",
        [x],
        {"adjoint": flag},
        expected=lambda x, flag=flag: np.linalg.inv(adjoint(x) if flag else x),
        gradient=(0,),
        second_order=x.ndim == 2,
        rtol=3e-6,
        atol=1e-7,
    )
    for flag in (False, True)
    for x in (SQUARE, np.stack([SQUARE, SQUARE.T + np.eye(3)]), np.zeros((0, 3, 3)))
]

CASES += [
    OpCase(op, [A * (1 + 1j), B * (0.5 - 1j)], gradient=(0, 1))
    for op in ("MatMul", "BatchMatMul", "BatchMatMulV2")
]
CASES += [
    OpCase("BatchMatMulV2", [A * (1 + 1j), A * (0.5 - 1j)], {"adj_x": True}, gradient=(0, 1)),
    OpCase("BatchMatMulV2", [A * (1 + 1j), A * (0.5 - 1j)], {"adj_y": True}, gradient=(0, 1)),
    OpCase("MatrixInverse", [SQUARE * (1 + 1j)], gradient=(0,)),
    OpCase("MatrixInverse", [SQUARE * (1 + 1j)], {"adjoint": True}, gradient=(0,)),
]

WRONG_SHAPES = [
    WrongShapeCase(
        "MatMul",
        [(2, 3), (4, 5)],
        message="Dimensions must be equal, but are 3 and 4 for MatMul "
        "with input shapes [2,3], [4,5]",
    ),
    WrongShapeCase(
        "MatMul",
        [(None, 3), (4, 5)],
        {"transpose_b": True},
        message="Dimensions must be equal, but are 3 and 5 for MatMul "
        "with input shapes [?,3], [4,5]",
    ),
    WrongShapeCase(
        "MatMul",
        [(2, 3, 4), (4, 5)],
        message="Shape must be rank 2 but is rank 3: Input 'a' of MatMul has shape (2, 3, 4)",
    ),
    WrongShapeCase(
        "BatchMatMul",
        [(2, 2, 3), (3, 2)],
        message="Shapes (2,) and () are not compatible",
    ),
    WrongShapeCase(
        "BatchMatMulV2",
        [(2, 2, 3), (3, 3, 2)],
        message="Dimensions must be equal, but are 2 and 3 for shapes (2,) and (3,)",
    ),
    WrongShapeCase(
        "BatchMatMulV2",
        [(2, 2, 3), (2, 4, 2)],
        message="Dimensions must be equal, but are 3 and 4 for BatchMatMulV2 "
        "with input shapes [2,2,3], [2,4,2]",
    ),
    WrongShapeCase(
        "BatchMatMul",
        [(3,), (3, 2)],
        message="BatchMatMul takes tensors of rank 2 or more, got shapes [3] and [3,2]",
    ),
    WrongShapeCase(
        "Diag",
        [()],
        message="The diagonal of Diag must have at least one dimension, got a scalar",
    ),
    *(
        WrongShapeCase(
            "DiagPart",
            [shape],
            message="DiagPart takes a tensor whose shape is some shape twice, got " + text,
        )
        for shape, text in (((2, 3), "[2,3]"), ((3,), "[3]"), ((), "[]"))
    ),
    *(
        WrongShapeCase(
            "MatrixInverse",
            [shape],
            message="MatrixInverse takes square matrices, got shape " + text,
        )
        for shape, text in (((2, 3), "[2,3]"), ((3,), "[3]"))
    ),
]

FAILURES = [
    FailureCase(
        "MatMul",
        [A, A],
        message="Matrix size-incompatible: In[0]: [2,3], In[1]: [2,3]",
    ),
    FailureCase(
        "MatMul",
        [X, B],
        message="MatMul takes two matrices, got shapes [2,2,3] and [3,4]",
    ),
    FailureCase(
        "BatchMatMul",
        [X, Y[:1]],
        message="BatchMatMul needs equal batch dimensions, got shapes [2,2,3] and [1,3,4]",
    ),
    FailureCase(
        "BatchMatMulV2",
        [np.ones(3), B],
        message="BatchMatMulV2 takes tensors of rank 2 or more, got shapes [3] and [3,4]",
    ),
    FailureCase(
        "BatchMatMulV2",
        [X, np.ones((3, 3, 2))],
        message="Matrix size-incompatible: In[0]: [2,2,3], In[1]: [3,3,2]",
    ),
    FailureCase(
        "MatrixInverse", [np.array([[1.0, 2.0], [2.0, 4.0]])], message="Input is not invertible"
    ),
    FailureCase(
        "MatrixInverse", [A], message="MatrixInverse takes square matrices, got shape [2,3]"
    ),
    FailureCase(
        "DiagPart",
        [A],
        message="DiagPart takes a tensor whose shape is some shape twice, got [2,3]",
    ),
]
