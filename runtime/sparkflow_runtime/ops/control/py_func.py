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
    ResourceExhaustedError,
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
            except OutOfRangeError as error:
                # To its readers it would be the end of the data.
                raise UnknownError(message=f"{type(error).__name__}: {error.message}") from error
            except OpError:
                raise
            except Exception as error:
                raise _as_status(error) from error
            if not wanted:
                return ()
            given: Any = result if isinstance(result, list | tuple) else [result]
            if result is None:
                given = ()
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
        return _texts(token, index, value)
    array = np.asarray(value)
    if array.dtype != dtype.as_numpy_dtype:
        if not isinstance(value, np.ndarray | np.generic) and array.dtype.kind not in "OSU":
            return array.astype(dtype.as_numpy_dtype)  # Python numbers have no dtype of their own
        raise _other_dtype(token, index, array, dtype)
    return array


def _texts(token: str, index: int, value: Any) -> Any:
    """Bytes, in an array of objects; str in UTF-8.

    Raises:
        InvalidArgumentError: It consists of numbers.
        InternalError: It has another object among its texts; the classes are TensorFlow's.
    """
    array = np.asarray(value, object)
    made = np.empty(array.size, object)
    for place, each in enumerate(array.reshape(-1).tolist()):
        if isinstance(each, bytes):
            made[place] = bytes(each)
        elif isinstance(each, str):
            made[place] = each.encode()
        else:
            found = np.asarray(value)
            if found.dtype.kind not in "OSU":
                raise _other_dtype(token, index, found, dtypes.string)
            raise InternalError(
                message=f"Unsupported object type {type(each).__name__}: the {index}-th value "
                f"returned by {token} has {each!r} at position {place}, but strings consist of str "
                "or bytes; return a text for what is missing, and str(number) for numbers"
            )
    return made.reshape(array.shape)


def _other_dtype(token: str, index: int, array: Any, dtype: DType) -> InvalidArgumentError:
    given = dtypes.string.name if array.dtype.kind in "SU" else array.dtype.name
    return InvalidArgumentError(
        message=f"{index}-th value returned by {token} is {given}, but expects {dtype.name}"
    )


def _as_status(error: Exception) -> OpError:
    """TensorFlow's error for an exception of a Python function."""
    text = f"{type(error).__name__}: {error}"
    if isinstance(error, TypeError | ValueError):
        return InvalidArgumentError(message=text)
    if isinstance(error, StopIteration):
        return OutOfRangeError(message=text)
    if isinstance(error, MemoryError):
        return ResourceExhaustedError(message=text)
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
