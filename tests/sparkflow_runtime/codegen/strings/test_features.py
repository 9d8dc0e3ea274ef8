"""Where features are decoded to; what is found in messages is in `ops/files/test_example_batch`."""

import numpy as np

from sparkflow_runtime.codegen.strings.example_wire import BYTES, FLOAT, INT64
from sparkflow_runtime.codegen.strings.features import Features


def test_outputs_are_at_their_addresses_and_apart() -> None:
    wanted = Features(
        [b"a", b"b", b"c", b"d", b"e"], [FLOAT, INT64, FLOAT, BYTES, INT64], [3, 1, 0, 2, -1]
    )
    found, addresses = wanted.outputs(4)
    assert {number: each.shape for number, each in found.items()} == {
        0: (4, 3),
        1: (4, 1),
        2: (4, 0),
        3: (4, 2),
    }
    assert [found[n].dtype for n in range(4)] == [np.float32, np.int64, np.float32, object]
    assert [found[n].ctypes.data for n in (0, 1, 3)] == addresses[[0, 1, 3]].tolist()
    assert addresses[4] == 0
    assert not np.shares_memory(found[0], found[2])
