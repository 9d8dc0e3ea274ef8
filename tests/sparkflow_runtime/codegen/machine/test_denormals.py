import platform

import numpy as np
import pytest

from sparkflow_runtime.codegen.machine import denormals, native, threads

pytestmark = [
    pytest.mark.skipif(not native.available(), reason="there is no code generator here"),
    pytest.mark.skipif(
        platform.machine() not in ("x86_64", "aarch64"), reason="denormals are kept here"
    ),
]

TINY = np.finfo(np.float32).tiny
HALF = """
define void @body(ptr %sizes, ptr %arrays, i64 %low, i64 %high, i64 %part) {
  %array = load ptr, ptr %arrays
  %place = getelementptr float, ptr %array, i64 %part
  %value = load float, ptr %place
  %half = fmul float %value, 0.5
  store float %half, ptr %place
  ret void
}
"""


def keeps_denormals():
    return bool(np.multiply(TINY, np.float32(0.5)))


def test_kernels_write_zero_and_leave_the_mode_as_it_was():
    parts = 8
    for threads_ in (1, parts):
        halved = native.body(HALF).bind((), (parts,), parts, threads_)
        for value, expected in ((TINY, 0), (TINY / 2, 0), (-TINY, 0), (4 * TINY, 2 * TINY)):
            array = np.full(parts, value, np.float32)
            for _ in range(20):  # so that the threads of the pool take part
                array[:] = value
                assert halved(array)
                assert np.all(array[:threads_] == expected)
            assert keeps_denormals()
    assert threads.count() >= 1


@pytest.mark.parametrize("machine", ["x86_64", "aarch64", "riscv64"])
def test_every_processor_has_both_functions(machine):
    text = denormals.text(machine)
    assert "@flush_denormals()" in text
    assert "@restore_denormals(i64 %mode)" in text
