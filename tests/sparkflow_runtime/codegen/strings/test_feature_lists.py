"""Where lists and their features are; odd and damaged messages are in `ops/files`."""

import numpy as np

from sparkflow_runtime.codegen.strings import feature_lists
from sparkflow_runtime.codegen.strings.example_wire import Keys
from sparkflow_runtime.protos.example_pb2 import SequenceExample


def _refuse(number: int) -> None:
    raise AssertionError(f"message {number} was left to Python")


def test_lists_and_their_features_are_found() -> None:
    message = SequenceExample()
    message.context.feature["c"].int64_list.value.append(1)
    for values in ([1, 300], [], [-1]):
        feature = message.feature_lists.feature_list["a"].feature.add()
        feature.int64_list.value.extend(values)
    message.feature_lists.feature_list["b"].feature.add()
    data = message.SerializeToString()
    messages = np.array([data, b"", data], object)
    contexts = np.zeros((2, 3), np.int64)
    found = np.full((3, 2, 3), feature_lists.MISSING, np.int64)
    feature_lists.find(messages, Keys([b"a", b"b"]), _refuse, contexts, found)
    assert found[0].tolist() == [[3, -1, 3], [1, -1, 1]]
    start, end = contexts[:, 0]
    assert data[start:end] == SequenceExample(context=message.context).SerializeToString()
    counts = np.maximum(found[0, 0], 0)
    features = np.zeros((3, 6), np.int64)
    given = (counts, found[1, 0], found[2, 0])
    feature_lists.features_of(messages, given, np.array([0, 3, 3]), _refuse, features)
    assert features[0].tolist() == [3] * 6
    assert features[1].tolist() == [2, 0, 1] * 2
    assert [data[start] for start in features[2, [0, 2]]] == [1, 0xFF]
