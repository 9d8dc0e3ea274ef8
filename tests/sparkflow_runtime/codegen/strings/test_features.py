"""What features are decoded to; what is found in messages is in `ops/files/test_example_batch`."""

import numpy as np

from sparkflow_runtime.codegen.strings import features
from sparkflow_runtime.codegen.strings.example_wire import BYTES, FLOAT, INT64
from sparkflow_runtime.protos.example_pb2 import Example

MESSAGE = Example()
MESSAGE.features.feature["a"].float_list.value.extend(range(6))
MESSAGE.features.feature["b"].int64_list.value.append(-3)
MESSAGE.features.feature["d"].bytes_list.value.extend([b"x", b"yy"])
MESSAGE.features.feature["e"].int64_list.value.extend([1, 2])
KEYS, KINDS = [b"a", b"b", b"c", b"d", b"e"], [FLOAT, INT64, FLOAT, BYTES, INT64]
WANTED = features.Features(KEYS, KINDS, [(2, 3), (), (0,), (2,), None])


def refuse(number: int) -> None:
    raise AssertionError(f"message {number} was left to Python")


def test_outputs_have_a_row_per_message() -> None:
    outputs = WANTED.outputs(4)
    assert [None if each is None else each.shape for each in outputs] == [
        *((4, 2, 3), (4,), (4, 0), (4, 2), None),
    ]
    dtypes = [each.dtype for each in outputs if each is not None]
    assert dtypes == [np.float32, np.int64, np.float32, object]


def test_features_of_the_expected_shape_are_decoded() -> None:
    for _ in range(2):  # the second time, the keys are where they were in the last message
        messages = np.array([MESSAGE.SerializeToString(), b""], object)
        outputs, found = WANTED.outputs(2), np.zeros((3, 5, 2), np.int64)
        features.find(messages, WANTED, outputs, refuse, found)
        done = (found[0] == WANTED.done).tolist()
        assert done == [[n in (0, 1, 3), False] for n in range(5)]
        first = [None if each is None else each[0].tolist() for each in outputs]
        assert [first[n] for n in (0, 1, 3)] == [
            *([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]], -3, [b"x", b"yy"]),
        ]
        assert found[1].tolist() == [[6, 0], [1, 0], [0, 0], [2, 0], [2, 0]]
