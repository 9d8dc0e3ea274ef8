import platform
import subprocess
import sys
import threading

import numpy as np
import pytest

from sparkflow_runtime.codegen.machine import denormals, native
from sparkflow_runtime.ops import kernel
from sparkflow_runtime.ops.kernel import StepArithmetic

pytestmark = [
    pytest.mark.skipif(not native.available(), reason="there is no code generator here"),
    pytest.mark.skipif(
        platform.machine() not in ("x86_64", "aarch64"), reason="denormals are kept here"
    ),
]
TINY = np.finfo(np.float32).tiny


def keeps_denormals():
    return bool(np.multiply(TINY, np.float32(0.5)))


def test_numpy_computes_as_kernels_do():
    assert denormals.switches()
    with StepArithmetic():
        assert not keeps_denormals()
        with StepArithmetic():
            assert not keeps_denormals()
        assert not keeps_denormals()
        assert np.isinf(np.float32(1) / np.float32(0))  # and does not warn
    assert keeps_denormals()
    with pytest.raises(KeyError), StepArithmetic():
        raise KeyError
    assert keeps_denormals()


@pytest.mark.parametrize("is_private", [True, False])
def test_numpy_is_silent_inside_and_as_before_afterwards(is_private, monkeypatch):
    if not is_private:  # as in numpy 1
        monkeypatch.setitem(sys.modules, "numpy._core", None)
    silent, as_before = kernel._silence()
    monkeypatch.setattr(kernel, "_silent", silent)
    monkeypatch.setattr(kernel, "_as_before", as_before)
    with np.errstate(all="raise", under="warn"):
        before = np.geterr()
        with StepArithmetic():
            assert set(np.geterr().values()) == {"ignore"}
            with StepArithmetic():
                assert np.isnan(np.float32(0) / np.float32(0))
            assert set(np.geterr().values()) == {"ignore"}
        assert np.geterr() == before
        with pytest.raises(FloatingPointError):
            np.float32(1) / np.float32(0)


def test_the_mode_is_a_threads_own():
    found = []
    with StepArithmetic():
        thread = threading.Thread(target=lambda: found.append(keeps_denormals()))
        thread.start()
        thread.join()
    other = threading.Thread(target=lambda: found.append(keeps_denormals()))
    other.start()
    other.join()
    assert found == [False, True]  # the first thread has inherited it
    assert keeps_denormals()


def test_nothing_is_loaded_for_it():
    code = (
        "import sys, sparkflow_runtime.ops.kernel as a\n"
        "with a.StepArithmetic(): pass\n"
        "print('llvmlite' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
