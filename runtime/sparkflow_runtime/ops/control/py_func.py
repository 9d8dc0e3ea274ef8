"""Ops that call Python functions of the process that built the graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sparkflow_runtime import dtypes
from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.errors import (
    InternalError,
    InvalidArgumentError,
    OpError,
    OutOfRangeError,
    UnimplementedError,
    UnknownError,
)
from sparkflow_runtime.ops.inference import unknown
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.ops.op import PYTHON, NodeView, Op, not_differentiable
from sparkflow_runtime.ops.registry import add
from sparkflow_runtime.ops.signature import list_attr, string_attr
from sparkflow_runtime.resources import py_functions


class PyFunc(Op):
    """Calls the function of `token` with the inputs as arrays, and with scalars as numpy's."""

    inputs = "input: Tin"
    outputs = "output: Tout"
    aliases = frozenset({"input"})
    reaches = frozenset({PYTHON})
    attrs = {"token": string_attr(), "Tin": list_attr("type"), "Tout": list_attr("type")}
    kernels = {"CPU": None}
    stateful = True
    may_block = True
    gradient = not_differentiable
    infer = unknown

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """Looks up the function when it runs, since it may no longer exist."""
        token, wanted = node.attrs["token"], node.attrs["Tout"]

        def run(*inputs: Any) -> tuple[Any, ...]:
            function = py_functions.find(token)
            try:
                result = function(*map(_plain, inputs))
            except OpError:
                raise
            except Exception as error:
                raise _as_status(error) from error
            if not wanted:
                return ()
            given = result if isinstance(result, list | tuple) else [result]
            if len(given) != len(wanted):
                raise InvalidArgumentError(
                    message=f"{token} returns {len(given)} values, but expects to see "
                    f"{len(wanted)} values."
                )
            pairs = enumerate(zip(given, wanted, strict=True))
            return tuple([_checked(token, index, *pair) for index, pair in pairs])

        return run


def _plain(value: Any) -> Any:
    """Bytes or a numpy number for an array of rank 0, as in TensorFlow: a key, or a path."""
    return value[()] if isinstance(value, np.ndarray) and not value.ndim else value


def _checked(token: str, index: int, value: Any, dtype: DType) -> Any:
    if dtype is dtypes.string:
        array = np.asarray(value, object)
        if not array.ndim:
            return np.array(_bytes(array.item()), object)
        flat = [_bytes(each) for each in array.ravel()]
        made = np.empty(len(flat), object)
        made[:] = flat
        return made.reshape(array.shape)
    array = np.asarray(value)
    if array.dtype != dtype.as_numpy_dtype:
        if not isinstance(value, np.ndarray | np.generic) and array.dtype != object:
            return array.astype(dtype.as_numpy_dtype)  # Python numbers have no dtype of their own
        raise InvalidArgumentError(
            message=f"{index}-th value returned by {token} is {array.dtype.name}, but expects "
            f"{dtype.name}"
        )
    return array


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


def _as_status(error: Exception) -> OpError:
    """TensorFlow's error for an exception of a Python function."""
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, TypeError | ValueError):
        return InvalidArgumentError(message=text)
    if isinstance(error, StopIteration):
        return OutOfRangeError(message=text)
    if isinstance(error, MemoryError):
        return InternalError(message=text)
    if isinstance(error, NotImplementedError):
        return UnimplementedError(message=text)
    return UnknownError(message=text)


class PyFuncStateless(PyFunc):
    """The same for a pure function, whose result depends on its inputs only."""

    stateful = False

    def hands_on(self, node: NodeView) -> bool:
        """True, as for any Python function."""
        return True

    def outlives_step(self, node: NodeView) -> bool:
        """The same."""
        return True


for _op in (PyFunc, PyFuncStateless):
    add(_op())
