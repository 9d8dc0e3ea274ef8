import numpy as np
import pytest

from sparkflow_runtime.codegen.cpu.addresses import bind_addresses, list_begins, list_ends
from sparkflow_runtime.codegen.cpu.repeat_ir import ListField
from sparkflow_runtime.codegen.machine import native

pytestmark = pytest.mark.skipif(not native.available(), reason="needs llvmlite")


def test_addresses_are_those_that_numpy_tells() -> None:
    arrays = [np.zeros(3), np.zeros((2, 5))[:, 1:2], np.zeros(())]
    table = np.full(6, -1, np.int64)
    write = bind_addresses([[(4, 0)], [(0, 16), (2, 0)], [(5, -8)]])
    assert write(*arrays, table)
    first, second, third = (each.ctypes.data for each in arrays)
    assert table.tolist() == [second + 16, -1, second, -1, first, third - 8]
    assert not write(arrays[0], [1, 2], arrays[2], table)
    assert bind_addresses([])(table)


def block(**fields: int) -> np.ndarray:
    control = np.zeros(len(ListField), np.int64)
    for name, value in fields.items():
        control[ListField[name]] = value
    return control


def test_a_list_begins_with_the_rows_of_a_block_or_with_none() -> None:
    rows, zeros, memory = np.zeros(3, np.int64), np.zeros(2), np.zeros((4, 2))
    elements, control = np.zeros((3, 2)), block(LENGTH=3, ROW_BYTES=16)
    list_begins()(rows, zeros, memory, elements, control)
    assert rows.tolist() == [elements[n].ctypes.data for n in range(3)]
    assert control[ListField.ROWS] == rows.ctypes.data
    assert control[ListField.MEMORY] == memory.ctypes.data
    assert control[ListField.ZEROS] == zeros.ctypes.data
    rows[:] = 5
    list_begins()(rows, zeros, memory, memory, control)
    assert rows.tolist() == [5, 5, 5]


def test_elements_in_the_memory_of_a_list_are_counted() -> None:
    rows, memory, counted = np.zeros(3, np.int64), np.zeros((4, 2)), np.array(9, np.int64)
    control = block(LENGTH=3, ROW_BYTES=16)
    list_begins()(rows, np.zeros(2), memory, memory, control)
    for number, expected in ((0, 1), (2, 2), (1, 3)):
        rows[number] = memory[number].ctypes.data
        list_ends()(counted, control)
        assert counted == expected
    rows[1] = memory[2].ctypes.data
    list_ends()(counted, control)
    assert counted == 2
