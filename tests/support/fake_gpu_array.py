"""Arrays of the stand-in for a GPU: computations with them wait in the queue of a stream.

A result has its shape and dtype immediately, and its values when the stream reaches it. Views are
views. Reading a value on the host waits for the stream, which is an error during capture. As in
cupy, host arrays are rejected.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from typing import Any, ClassVar, Final

import numpy as np


class FakeArray(np.ndarray[Any, Any]):
    """An array of the GPU; `data.ptr` is its address.

    Attributes:
        owner: The stand-in for cupy to which it belongs.
    """

    owner: ClassVar[Any] = None

    @property
    def data(self) -> Pointer:  # type: ignore[override]  # cupy's
        """The memory."""
        return Pointer(self)

    @property
    def memory(self) -> np.ndarray[Any, Any]:
        """The current contents, without pending work; for tests."""
        return self.view(np.ndarray)

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **options: Any
    ) -> Any:
        """A result that is computed later."""
        _require_builtins(sys._getframe(1).f_globals)
        self._require_capturable(ufunc)
        targets = () if out is None else out
        function = getattr(ufunc, method)
        for each in targets:
            assert isinstance(each, FakeArray)
        if method == "at":  # changes the first input
            _require_at(ufunc.__name__, inputs[0].dtype)
            places = [_plain(each) for each in inputs]
            self._put(lambda: function(*places))
            return None
        if targets:
            given = [_plain(each) for each in inputs]
            plain = tuple(_plain(each) for each in targets)
            self._put(lambda: function(*given, out=plain, **options))
            return targets[0] if len(targets) == 1 else targets
        return self._later(function, inputs, options)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """A view, or a result that is computed later."""
        self._require_capturable(function)
        return self._later(function, args, kwargs)

    def copy(self, order: Any = "C") -> Any:
        """A new array."""
        return self._later(np.ndarray.copy, (self,), {"order": order})

    def astype(  # type: ignore[override]  # numpy's has more to say
        self, dtype: Any, **options: Any
    ) -> Any:
        """A new array."""
        return self._later(np.ndarray.astype, (self, dtype), options)

    def reshape(self, *shape: Any, **options: Any) -> Any:
        """A view, or a new array."""
        return self._later(np.ndarray.reshape, (self, *shape), options)

    def fill(self, value: Any) -> None:
        """Sets every element to this number, later."""
        plain = _plain(self)
        self._put(lambda: plain.fill(value))

    def __getitem__(self, key: Any) -> Any:
        """A view, or a new array."""
        return self._later(np.ndarray.__getitem__, (self, key), {})

    def __setitem__(self, key: Any, value: Any) -> None:
        """Changes elements later."""
        target, given, places = _plain(self), _plain(value), _plain(key)
        self._put(lambda: target.__setitem__(places, given))

    def tolist(self) -> Any:
        """The elements on the host."""
        return self._now().tolist()

    def item(self, *place: Any) -> Any:
        """The element on the host."""
        return self._now().item(*place)

    def get(self) -> Any:
        """A copy on the host."""
        return self._now().copy()

    def __bool__(self) -> bool:
        return bool(self._now())

    def __int__(self) -> int:
        return int(self._now())

    def __index__(self) -> int:
        return int(self._now())

    def __float__(self) -> float:
        return float(self._now())

    def _require_capturable(self, function: Any) -> None:
        """Checks for capture: cupy cannot record its products, nor copies from the host."""
        if not self.owner.streams[-1].is_capturing:
            return
        if function in _PRODUCTS:
            raise NotImplementedError("calling cuBLAS API during stream capture is unsupported")
        if function in _JOINING:
            raise RuntimeError("operation not permitted when stream is capturing: a copy")

    def _now(self) -> np.ndarray[Any, Any]:
        self.owner.streams[-1].synchronize()
        return _plain(self)  # type: ignore[no-any-return]  # an array

    def _put(self, work: Callable[[], object]) -> None:
        def run() -> None:
            with np.errstate(all="ignore"):
                work()

        self.owner.streams[-1].put(run)

    def _later(self, function: Callable[..., Any], args: Any, options: Any) -> Any:
        given, named = _plain(args), _plain(options)
        if function is np.copyto:  # has no result, whose shape would be needed now
            self._put(lambda: function(*given, **named))
            return None
        with np.errstate(all="ignore"):
            trial = function(*given, **named)
        if isinstance(trial, tuple | list):
            return type(trial)(
                self._result(each, function, given, named, place)
                for place, each in enumerate(trial)
            )
        return self._result(trial, function, given, named, None)

    def _result(
        self, trial: Any, function: Callable[..., Any], given: Any, named: Any, place: int | None
    ) -> Any:
        if not isinstance(trial, np.ndarray | np.generic):
            return trial
        if isinstance(trial, np.ndarray) and trial.size:
            for each in _arrays(given):
                if np.may_share_memory(trial, each):
                    return trial.view(type(self))
        result = self.owner.empty(trial.shape, trial.dtype)
        target = _plain(result)

        def run() -> None:
            made = function(*given, **named)
            np.copyto(target, made if place is None else made[place])

        self._put(run)
        return result


class Pointer:
    """Memory of the GPU."""

    def __init__(self, array: FakeArray) -> None:
        self._array = array
        self.ptr = array.ctypes.data
        # Freed memory is reused by later work of the stream; pending work still uses it.
        array.owner.streams[-1].keep(array)

    def copy_from_host_async(self, source: int, size: int, stream: Any) -> None:
        """Copies, later."""
        target, kept = self.ptr, self._array

        def copy() -> None:
            assert kept.nbytes >= size
            ctypes.memmove(target, source, size)

        stream.put(copy)


_JOINING: Final = (np.concatenate, np.stack)
"""cupy copies the addresses of their arrays to the GPU."""
_PRODUCTS: Final = (np.matmul, np.dot, np.tensordot, np.einsum, np.inner, np.vdot)
_AT: Final = {
    "add": frozenset(map(np.dtype, ("f2", "f4", "f8", "i4", "i8", "u4", "u8"))),
    "subtract": frozenset(map(np.dtype, ("i4", "u4"))),
}


def _require_at(name: str, dtype: np.dtype[Any]) -> None:
    """cupy has `at` for few functions and dtypes; its maximum and minimum for float64 are wrong."""
    if dtype not in _AT.get(name, ()):
        raise TypeError(f"cupy.{name}.at only supports few dtypes, not {dtype}")


def _require_builtins(names: dict[str, Any]) -> None:
    """cupy imports modules with its caller's builtins, like everything compiled by Cython."""
    found = names["__builtins__"]
    assert "__import__" in (found if isinstance(found, dict) else vars(found))


def _plain(value: Any) -> Any:
    """Replaces our arrays by numpy's own, also within lists."""
    if isinstance(value, FakeArray):
        return value.view(np.ndarray)
    if isinstance(value, np.ndarray):
        raise TypeError(f"Unsupported type {type(value)}: an array of the host")
    if isinstance(value, tuple | list):
        return type(value)(_plain(each) for each in value)
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return value


def _arrays(value: Any) -> list[Any]:
    if isinstance(value, np.ndarray):
        return [value]
    if isinstance(value, tuple | list):
        return [array for each in value for array in _arrays(each)]
    return []
