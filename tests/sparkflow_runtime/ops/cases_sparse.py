"""Rows of `sparse_layout`, `sparse_math`, `sparse_products`, `sparse_serial`, `sets`."""

import numpy as np

import sparkflow_runtime.ops.all  # noqa: F401 - gradients are made of ops of other families
from sparkflow_runtime import dtypes
from sparkflow_runtime.tensor_proto import export_tensor
from support.op_cases import FailureCase, OpCase

PLACES = np.array([[0, 1], [1, 0], [1, 3], [2, 2]])
VALUES = np.array([1.0, -2.0, 3.0, 4.0])
SHAPE = np.array([3, 4])
OTHER = np.array([[0, 1], [1, 2], [2, 2]])
OTHER_VALUES = np.array([0.5, 1.5, 2.0])
ORDER = np.array([3, 0, 2, 1])
DENSE = np.arange(12.0).reshape(3, 4) / 4 - 1.3
Y = np.arange(8.0).reshape(4, 2) / 3 - 1
ALL = (PLACES, VALUES, SHAPE)
TWO = (PLACES, VALUES, SHAPE, OTHER, OTHER_VALUES, SHAPE)
BOTH = np.array([[0, 1], [1, 0], [1, 2], [1, 3], [2, 2]])
SUM = np.array([1.5, -2.0, 1.5, 3.0, 6.0])
OPEN = {"dynamic_shape": True}
REAL = [dtypes.float32, dtypes.float64]


def dense(places, values, shape):
    result = np.zeros(tuple(shape), np.asarray(values).dtype)
    for place, value in zip(places, values, strict=True):
        result[tuple(place)] += value
    return result


def at(array, places=PLACES):
    return array[tuple(places.T)]


def ints(*values):
    return np.array(values, np.int32)


CASES = [
    OpCase(
        "SparseReorder",
        [PLACES[ORDER], VALUES[ORDER], SHAPE],
        expected=(PLACES, VALUES),
        gradient=(1,),
    ),
    OpCase(
        "SparseReshape",
        [PLACES, SHAPE, np.array([2, -1])],
        expected=(np.array([[0, 1], [0, 4], [1, 1], [1, 4]]), np.array([2, 6])),
        **OPEN,
    ),
    OpCase(
        "SparseConcat",
        [[PLACES, OTHER], [VALUES, OTHER_VALUES], [SHAPE, SHAPE]],
        {"concat_dim": 1},
        expected=(
            np.array([[0, 1], [0, 5], [1, 0], [1, 3], [1, 6], [2, 2], [2, 6]]),
            np.array([1.0, 0.5, -2.0, 3.0, 1.5, 4.0, 2.0]),
            np.array([3, 8]),
        ),
        **OPEN,
    ),
    OpCase(
        "SparseSplit",
        [np.array(1), *ALL],
        {"num_split": 2},
        expected=(
            PLACES[:2],
            np.array([[1, 1], [2, 0]]),
            VALUES[:2],
            VALUES[2:],
            np.array([3, 2]),
            np.array([3, 2]),
        ),
        **OPEN,
    ),
    OpCase(
        "SparseSlice",
        [*ALL, np.array([1, 0]), np.array([2, 3])],
        expected=(np.array([[0, 0], [1, 2]]), np.array([-2.0, 4.0]), np.array([2, 3])),
        gradient=(1,),
        **OPEN,
    ),
    OpCase(
        "SparseSliceGrad",
        [np.array([5.0, 7.0]), PLACES, np.array([1, 0]), np.array([[0, 0], [1, 2]])],
        expected=np.array([0.0, 5.0, 0.0, 7.0]),
    ),
    OpCase(
        "SparseFillEmptyRows",
        [PLACES[1:3], VALUES[1:3], SHAPE, np.array(9.0)],
        expected=(
            np.array([[0, 0], [1, 0], [1, 3], [2, 0]]),
            np.array([9.0, -2.0, 3.0, 9.0]),
            np.array([True, False, True]),
            np.array([1, 2]),
        ),
        gradient=(1, 3),
        **OPEN,
    ),
    OpCase(
        "SparseFillEmptyRowsGrad",
        [np.array([1, 2]), np.array([1.0, 2.0, 3.0, 4.0])],
        expected=(np.array([2.0, 3.0]), np.array(5.0)),
    ),
    OpCase(
        "SparseToDense",
        [PLACES, SHAPE, VALUES, np.array(7.0)],
        expected=lambda p, s, v, d: np.where(dense(p, v != 0, s), dense(p, v, s), d),
        gradient=(2, 3),
        second_order=True,
        dtypes=REAL,
    ),
    OpCase(
        "SparseToDense",
        [ints(1, 3), ints(5), np.array(2.0), np.array(0.0)],
        expected=np.array([0.0, 2, 0, 2, 0]),
    ),
    OpCase(
        "SparseAdd",
        [*TWO, np.array(0.0)],
        expected=(BOTH, SUM, SHAPE),
        gradient=(1, 4),
        **OPEN,
    ),
    OpCase(
        "SparseAdd",
        [*TWO, np.array(2.0)],
        expected=(BOTH[1:], SUM[1:], SHAPE),
        **OPEN,
    ),
    OpCase(
        "SparseAddGrad",
        [SUM, PLACES, OTHER, BOTH],
        expected=(SUM[[0, 1, 3, 4]], SUM[[0, 2, 4]]),
    ),
    OpCase(
        "SparseTensorDenseAdd",
        [*ALL, DENSE],
        expected=lambda p, v, s, d: d + dense(p, v, s),
        gradient=(1, 3),
        second_order=True,
        dtypes=REAL,
    ),
    *(
        OpCase(
            f"SparseDenseCwise{name}",
            [*ALL, other],
            expected=lambda p, v, s, d, f=function: f(v, at(np.broadcast_to(d, (3, 4)), p)),
            gradient=() if name == "Add" else (1, 3),
            dtypes=REAL,
        )
        for name, function in (("Add", np.add), ("Mul", np.multiply), ("Div", np.divide))
        for other in (DENSE + 0.1, DENSE[0] + 0.1, DENSE[:, :1] + 0.1)
    ),
    OpCase(
        "SparseSparseMaximum",
        [*TWO],
        expected=(BOTH, np.array([1.0, 0.0, 1.5, 3.0, 4.0])),
        **OPEN,
    ),
    OpCase(
        "SparseSparseMinimum",
        [*TWO],
        expected=(BOTH, np.array([0.5, -2.0, 0.0, 0.0, 2.0])),
        **OPEN,
    ),
    OpCase(
        "SparseSoftmax",
        [*ALL],
        expected=lambda p, v, s: np.array(
            [1.0, *(np.exp(v[1:3]) / np.exp(v[1:3]).sum()), 1.0], v.dtype
        ),
        gradient=(1,),
        dtypes=REAL,
    ),
    *(
        OpCase(
            f"SparseReduce{name}",
            [PLACES, np.abs(VALUES), SHAPE, axes],
            {"keep_dims": keep},
            expected=lambda p, v, s, a, f=function, keep=keep: f(
                dense(p, v, s), axis=tuple(a.reshape(-1)) or None, keepdims=keep
            ),
            gradient=(1,) if name == "Sum" else (),
            dtypes=REAL,
            **OPEN,
        )
        for name, function in (("Sum", np.sum), ("Max", np.max))
        for axes in (ints(1), ints(0), ints(-1, 0), ints())
        for keep in (False, True)
    ),
    OpCase(
        "SparseReduceSumSparse",
        [*ALL, ints(1)],
        expected=(np.array([[0], [1], [2]]), np.array([1.0, 1.0, 4.0]), np.array([3])),
        **OPEN,
    ),
    OpCase(
        "SparseReduceMaxSparse",
        [*ALL, ints(1)],
        {"keep_dims": True},
        expected=(np.array([[0, 0], [1, 0], [2, 0]]), np.array([1.0, 3.0, 4.0]), np.array([3, 1])),
        **OPEN,
    ),
    *(
        OpCase(
            "SparseTensorDenseMatMul",
            [*ALL, b],
            {"adjoint_a": first, "adjoint_b": second},
            expected=lambda p, v, s, b, first=first, second=second: np.matmul(
                dense(p, v, s).T if first else dense(p, v, s), b.T if second else b
            ),
            gradient=(1, 3),
            dtypes=REAL,
        )
        for first, second, b in (
            (False, False, Y),
            (True, False, DENSE),
            (False, True, Y.T.copy()),
            (True, True, DENSE.T.copy()),
        )
    ),
    OpCase(
        "SparseTensorDenseMatMul",
        [PLACES, VALUES * (1 + 2j), SHAPE, Y * (1 - 1j)],
        gradient=(1, 3),
    ),
    *(
        OpCase(
            "SparseMatMul",
            [a.astype(np.float32), b.astype(np.float32)],
            {"transpose_a": first, "transpose_b": second},
            expected=(DENSE @ Y).astype(np.float32),
            rtol=1e-5,
            atol=1e-5,
        )
        for first, a in ((False, DENSE), (True, DENSE.T.copy()))
        for second, b in ((False, Y), (True, Y.T.copy()))
    ),
]


def texts(*arrays):
    return [export_tensor(np.asarray(each)).SerializeToString() for each in arrays]


ROWS = [PLACES[PLACES[:, 0] == row, 1:] for row in range(3)]
PARTS = [VALUES[PLACES[:, 0] == row] for row in range(3)]
SERIALIZED = np.array([texts(r, p, SHAPE[1:]) for r, p in zip(ROWS, PARTS, strict=True)], object)
WORDS = np.array([[b"a", b"b", b"a"], [b"c", b"c", b"c"]], object)
SETS = np.array([[1, 2, 2], [3, 3, 3]])
OTHER_SETS = np.array([[2, 9, 1], [3, 4, 4]])
SPARSE_SETS = (np.array([[0, 0], [0, 1], [1, 0]]), np.array([9, 2, 3]), np.array([2, 3]))
COMMON = {"a-b": ([[1], []]), "intersection": ([[2], [3]]), "union": ([[1, 2, 9], [3]])}


def rows_of(lists):
    places = [[i, j] for i, row in enumerate(lists) for j in range(len(row))]
    values = [value for row in lists for value in row]
    longest = max(len(row) for row in lists)
    return np.array(places).reshape(-1, 2), np.array(values), np.array([len(lists), longest])


CASES += [
    OpCase("SerializeSparse", [*ALL], expected=np.array(texts(*ALL), object)),
    OpCase("SerializeManySparse", [*ALL], expected=SERIALIZED, **OPEN),
    OpCase("DeserializeManySparse", [SERIALIZED], {"dtype": dtypes.float64}, expected=ALL, **OPEN),
    OpCase("DeserializeSparse", [SERIALIZED], {"dtype": dtypes.float64}, expected=ALL, **OPEN),
    OpCase(
        "DeserializeSparse",
        [np.array(texts(*ALL), object)],
        {"dtype": dtypes.float64},
        expected=ALL,
        **OPEN,
    ),
    OpCase("SetSize", [*SPARSE_SETS], expected=ints(2, 1)),
    *(
        OpCase(
            "DenseToDenseSetOperation",
            [SETS, OTHER_SETS],
            {"set_operation": name},
            expected=rows_of(found),
            **OPEN,
        )
        for name, found in (
            ("a-b", [[], []]),
            ("b-a", [[9], [4]]),
            ("intersection", [[1, 2], [3]]),
            ("union", [[1, 2, 9], [3, 4]]),
        )
    ),
    OpCase(
        "DenseToDenseSetOperation",
        [WORDS, WORDS[:, :1].copy()],
        {"set_operation": "a-b"},
        expected=(np.array([[0, 0]]), np.array([b"b"], object), np.array([2, 1])),
        **OPEN,
    ),
    *(
        OpCase(
            op,
            [*first, *SPARSE_SETS],
            {"set_operation": name},
            expected=rows_of(found),
            **OPEN,
        )
        for op, first in (
            ("DenseToSparseSetOperation", (SETS,)),
            ("SparseToSparseSetOperation", (rows_of([[1, 2, 2], [3, 3, 3]]))),
        )
        for name, found in COMMON.items()
    ),
    *(
        OpCase(
            "EditDistance",
            [*rows_of([[1, 2, 3], [4]]), *rows_of([[1, 3], [5, 6]])],
            {"normalize": flag},
            expected=np.array(found, np.float32),
        )
        for flag, found in ((False, [1, 2]), (True, [0.5, 1]))
    ),
]

FAILURES = [
    FailureCase(
        "SparseToDense",
        [PLACES[ORDER], SHAPE, VALUES, np.array(0.0)],
        message="indices[1] = [0,1] is out of order",
    ),
    FailureCase(
        "SparseReorder",
        [PLACES, VALUES, np.array([3, 3])],
        message="indices[2] = [1,3] is out of bounds: need 0 <= index < [3,3]",
    ),
    FailureCase(
        "SparseAdd",
        [*TWO[:5], np.array([3, 5]), np.array(0.0)],
        message="Operands' shapes do not match: got [3,4] and [3,5]",
    ),
    FailureCase(
        "SparseTensorDenseMatMul",
        [*ALL, DENSE],
        message="Cannot multiply A and B because inner dimension does not match: 4 vs. 3. "
        "Did you forget a transpose?",
    ),
    FailureCase(
        "DeserializeManySparse",
        [np.array([[b"x", b"y", b"z"]], object)],
        {"dtype": dtypes.float64},
        message="Could not parse a serialized sparse tensor: not a TensorProto",
    ),
    FailureCase(
        "DenseToDenseSetOperation",
        [SETS, OTHER_SETS],
        {"set_operation": "x"},
        message="Invalid set_operation x.",
    ),
]
