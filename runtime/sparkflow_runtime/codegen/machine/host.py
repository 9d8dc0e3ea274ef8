"""The processor for which machine code is generated, as LLVM describes it."""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import logging
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, Final

import numpy as np

from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.once import once

_VECTOR_BYTES: Final = (("avx512f", 64), ("avx2", 32), ("avx", 32), ("sse2", 16), ("neon", 16))
_BASIC_VECTOR_BYTES: Final = 16
_OLDEST_LLVM: Final = 19
"""The minimum version: older assemblers do not know `splat`."""
_SLOWER: Final = (
    "Graphs run without compiled kernels, several times slower: "
    "pip install 'sparkflow-ml[compiled]'"
)
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Host:
    """The processor.

    Attributes:
        triple: LLVM's name of the platform.
        cpu: LLVM's name of the processor.
        features: Its features, in the format of LLVM's code generator.
        vector_bytes: The size of a vector register.
        has_fma: Whether it has fused multiply-add.
        machine: llvmlite's target machine.
    """

    triple: str
    cpu: str
    features: str
    vector_bytes: int
    has_fma: bool
    machine: Any

    def lanes(self, dtype: DType) -> int:
        """Returns the number of elements of this dtype that a vector register holds."""
        return self.vector_bytes // int(np.dtype(dtype.as_numpy_dtype).itemsize)


@functools.cache
def available() -> bool:
    """Whether code can be generated: llvmlite is installed, numpy's array layout as expected.

    If it is missing or too old, the consequences are logged once.
    """
    if importlib.util.find_spec("llvmlite") is None:
        _log.warning("llvmlite is not installed. %s", _SLOWER)
        return False
    try:
        import llvmlite.binding as llvm

        if llvm.llvm_version_info[0] < _OLDEST_LLVM:
            _log.warning("llvmlite %s is older than 0.45. %s", version("llvmlite"), _SLOWER)
            return False
        host()
    except (ImportError, OSError, RuntimeError):  # no LLVM for this processor
        return False
    return _arrays_are_as_known()


@once
def host() -> Host:
    """This processor.

    Raises:
        ImportError: llvmlite is not installed.
        RuntimeError: LLVM has no code generator for it.
    """
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    flags = llvm.get_host_cpu_features()
    cpu, features = llvm.get_host_cpu_name(), flags.flatten()
    machine = llvm.Target.from_default_triple().create_target_machine(
        cpu=cpu, features=features, opt=2, jit=True
    )
    has = {name for name, present in flags.items() if present}
    width = next((size for name, size in _VECTOR_BYTES if name in has), _BASIC_VECTOR_BYTES)
    triple = llvm.get_default_triple()
    has_fma = "fma" in has or triple.startswith(("aarch64", "arm64"))
    return Host(triple, cpu, features, width, has_fma, machine)


DATA, DIMENSIONS_NUMBER, DIMENSIONS, STRIDES, FLAGS = 16, 24, 32, 40, 64
"""Offsets of an array's fields, numpy's `PyArrayObject_fields` in CPython."""
C_CONTIGUOUS: Final = 1
"""The bit in the array's flags."""


def _arrays_are_as_known() -> bool:
    """Whether array fields are at the offsets that generated code uses; starts with safe reads."""
    array = np.arange(6, dtype=np.int64).reshape(2, 3)
    if type(array).__basicsize__ < FLAGS + 4:
        return False
    start = id(array)

    def field(kind: Any, offset: int) -> int:
        return int(kind.from_address(start + offset).value)

    if (
        field(ctypes.c_int64, DATA) != array.ctypes.data
        or field(ctypes.c_int32, DIMENSIONS_NUMBER) != array.ndim
    ):
        return False
    shape = (ctypes.c_int64 * 2).from_address(field(ctypes.c_int64, DIMENSIONS))
    strides = (ctypes.c_int64 * 2).from_address(field(ctypes.c_int64, STRIDES))
    return (
        tuple(shape) == array.shape
        and tuple(strides) == array.strides
        and field(ctypes.c_int32, FLAGS) & C_CONTIGUOUS == C_CONTIGUOUS
        and field(ctypes.c_int64, 8) == id(np.ndarray)
    )
