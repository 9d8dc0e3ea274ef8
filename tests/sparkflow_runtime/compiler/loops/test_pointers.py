import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.compiler.known import Known
from sparkflow_runtime.compiler.loops.pointers import Cell, NotNativeError, Pointers


def test_numbers_in_order() -> None:
    pointers = Pointers()
    cell = Cell((2, 3), np.dtype(np.float32))
    assert pointers.new(Known(dtypes.float32, (2, 3))) == 0
    assert pointers.plain() == 1
    assert pointers.borrow(cell) == 2
    assert pointers.constant(np.zeros(3)) == 3
    assert pointers.cells == [cell, None, cell, Cell((3,), np.dtype(np.float64))]
    assert pointers.borrowed == {2}
    assert cell.size_bytes == 24


@pytest.mark.parametrize(
    "known",
    [
        Known(dtypes.float32, (None, 3)),
        Known(dtypes.float32, None),
        Known(dtypes.string, (2,)),
        Known(dtypes.variant, ()),
        Known(dtypes.float32.ref, (2,)),
    ],
)
def test_what_is_no_array_of_known_size(known: Known) -> None:
    with pytest.raises(NotNativeError):
        Pointers().new(known)


@pytest.mark.skipif(not native.available(), reason="needs llvmlite")
def test_a_copy_is_of_the_whole_array() -> None:
    pointers = Pointers()
    source, target = (pointers.of(Cell((2, 3), np.dtype(np.float32))) for _ in range(2))
    one, other = np.arange(6, dtype=np.float32), np.zeros(6, np.float32)
    step = pointers.copy(source, target)
    assert step.arrays == (source, target)
    step.kernel(one, other)
    assert other.tolist() == one.tolist()
