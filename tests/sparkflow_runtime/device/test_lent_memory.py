"""When lent memory is returned: with the last view, and not before."""

import numpy as np
import pytest

from sparkflow_runtime.device.lent_memory import LentMemory, bytes_at


def test_it_comes_back_once_with_the_last_view() -> None:
    memory, returned = np.arange(16, dtype=np.uint8), list[str]()
    whole = np.asarray(
        LentMemory(bytes_at(memory.ctypes.data, 16), lambda: returned.append("back"))
    )
    part = whole.view(np.uint32)[1:3]
    del whole
    assert returned == []
    assert part.tobytes() == memory[4:12].tobytes()
    del part
    assert returned == ["back"]


@pytest.mark.parametrize("read_only", [True, False])
def test_who_may_write(read_only: bool) -> None:
    memory = np.zeros(4, np.uint8)
    lent = np.asarray(LentMemory(bytes_at(memory.ctypes.data, 4, read_only), lambda: None))
    assert lent.flags.writeable is not read_only
    if not read_only:
        lent[1] = 7
        assert memory.tolist() == [0, 7, 0, 0]
