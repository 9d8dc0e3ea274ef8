"""Rows of `crossing`; the hashes are TensorFlow's."""

import numpy as np

from sparkflow_runtime import dtypes
from support.op_cases import FailureCase, OpCase

ROWS = np.array([[0, 0], [1, 0], [1, 1]])
WORDS = np.array([b"a", b"b", b"c"], np.object_)
SHAPE = np.array([2, 2])
DENSE = np.array([[b"x"], [b"z"]], np.object_)
PLACES = np.array([[0, 0], [1, 0], [1, 1]])

CASES = [
    OpCase(
        "Bucketize",
        [np.array([[-1.0, 0.0], [0.5, 3.0]])],
        {"boundaries": [0.0, 1.0, 3.0]},
        expected=np.array([[0, 1], [1, 3]], np.int32),
        dtypes=[dtypes.float32, dtypes.float64],
    ),
    OpCase(
        "SparseCross",
        [[ROWS], [WORDS], [SHAPE], [DENSE]],
        {
            "hashed_output": False,
            "num_buckets": 0,
            "hash_key": 1,
            "out_type": dtypes.string,
            "internal_type": dtypes.string,
        },
        expected=(
            PLACES,
            np.array([b"a_X_x", b"b_X_z", b"c_X_z"], np.object_),
            np.array([2, 2]),
        ),
        dynamic_shape=True,
    ),
]
FAILURES = [
    FailureCase(
        "Bucketize",
        [np.array([1.0])],
        {"boundaries": [2.0, 1.0]},
        message="Expected sorted boundaries, but got [2.0, 1.0]",
    ),
]
