"""Machine code from text: once per content, and never from text that LLVM rejects."""

import ctypes

import pytest

from sparkflow_runtime.codegen.machine import linking
from sparkflow_runtime.codegen.machine.host import available

pytestmark = pytest.mark.skipif(not available(), reason="needs llvmlite")

DOUBLE = """
define i64 @double(i64 %x) {
  %y = add i64 %x, %x
  ret i64 %y
}
"""


def called(linked: linking.Linked, x: int) -> int:
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(linked.address("double"))
    return int(function(x))


@pytest.mark.parametrize("is_tidy", [False, True])
def test_text_becomes_functions_that_can_be_called(is_tidy: bool) -> None:
    assert called(linking.link(DOUBLE, ("double",), is_tidy), 21) == 42


def test_the_same_text_is_linked_once() -> None:
    first = linking.link(DOUBLE, ("double",))
    assert linking.link(DOUBLE, ("double",)) is first
    assert linking.link(DOUBLE + "\n; another\n", ("double",)) is not first


def test_described_text_is_not_written_where_it_is_there_already() -> None:
    description = ("test_linking", DOUBLE)
    first = linking.link_described(description, lambda: DOUBLE, ("double",), False)

    def write() -> str:
        raise AssertionError("written again")

    assert linking.link_described(description, write, ("double",), False) is first


def test_text_that_is_none_is_refused() -> None:
    with pytest.raises(RuntimeError):
        linking.link("define nonsense", ("double",))
