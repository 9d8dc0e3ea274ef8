import numpy as np
import pytest

from sparkflow_runtime.codegen.cpu.addresses import list_begins, list_ends
from sparkflow_runtime.codegen.cpu.repeat_ir import ListField
from sparkflow_runtime.codegen.machine import native

pytestmark = pytest.mark.skipif(not native.available(), reason="needs llvmlite")


def block(**fields: int) -> np.ndarray:
    control = np.zeros(len(ListField), np.int64)
    for name, value in fields.items():
        control[ListField[name]] = value
    return control


def test_a_list_begins_with_the_rows_of_a_block_or_with_none_or_with_what_is_there() -> None:
    rows, zeros, memory = np.full(5, 7, np.int64), np.zeros(2), np.zeros((8, 2))
    elements = np.zeros((3, 2))
    control = block(LENGTH=4, FIRST_LENGTH=3, CAPACITY=5, ROW_BYTES=16)
    list_begins()(rows, zeros, memory, elements, control)
    assert rows.tolist() == [*(elements[n].ctypes.data for n in range(3)), 0, 0]
    assert control[ListField.LENGTH] == 3
    assert control[ListField.ROWS] == rows.ctypes.data
    assert control[ListField.MEMORY] == memory.ctypes.data
    assert control[ListField.ZEROS] == zeros.ctypes.data
    rows[:] = 5
    list_begins()(rows, zeros, memory, rows, control)
    assert rows.tolist() == [5] * 5
    list_begins()(rows, zeros, memory, zeros, control)
    assert rows.tolist() == [0] * 5


def test_elements_in_the_memory_of_a_list_are_counted() -> None:
    rows, memory, counted = np.zeros(3, np.int64), np.zeros((4, 2)), np.array(9, np.int64)
    control = block(FIRST_LENGTH=3, CAPACITY=3, ROW_BYTES=16)
    list_begins()(rows, np.zeros(2), memory, rows, control)
    for number, expected in ((0, 1), (2, 2), (1, 3)):
        rows[number] = memory[number].ctypes.data
        list_ends()(counted, control)
        assert counted == expected
    rows[1] = memory[2].ctypes.data
    list_ends()(counted, control)
    assert counted == 2
