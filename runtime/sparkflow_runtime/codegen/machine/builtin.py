"""Machine code as functions that Python calls: CPython's builtins (METH_FASTCALL)."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, Final

import numpy as np

_METH_FASTCALL: Final = 0x80


class _MethodDef(ctypes.Structure):
    """CPython's `PyMethodDef`."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("documentation", ctypes.c_char_p),
    )


class Builtin:
    """Creates functions from `ptr function(ptr self, ptr args, i64 nargs)`; `self` is an array.

    Args:
        address: Address of the machine code.
    """

    def __init__(self, address: int) -> None:
        self._definition = _MethodDef(b"kernel", address, _METH_FASTCALL, None)
        new = ctypes.pythonapi.PyCFunction_NewEx
        new.restype = ctypes.py_object
        new.argtypes = (ctypes.c_void_p, ctypes.py_object, ctypes.py_object)
        self._new = new

    def of(self, record: np.ndarray[Any, Any]) -> Callable[..., bool]:
        """Returns the function whose `self` is this record, which must no longer change."""
        record.flags.writeable = False
        definition: Any = ctypes.addressof(self._definition)
        # The function keeps its third argument, the module, alive: here the first one's referent.
        return self._new(definition, record, self._definition)  # type: ignore[no-any-return]  # the builtin


def address_in_python(name: str) -> int:
    """Returns the address of a function of Python's C API."""
    return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0
