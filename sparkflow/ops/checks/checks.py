"""Checks of the values of tensors; those of ranks, shapes and types are in `shape_checks`.

What the graph tells already is checked while it is built; the rest becomes an `Assert` that runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

import numpy as np

from sparkflow._api import export
from sparkflow.graph.constant_value import constant_value, stated_value
from sparkflow.graph.operation import Operation
from sparkflow.graph.scopes import apply_op, convert_to_tensor, graph_of
from sparkflow.graph.tensor import Tensor
from sparkflow.ops.control.debugging import Assert
from sparkflow.ops.elementwise import comparison
from sparkflow.ops.elementwise.elementwise import abs
from sparkflow.ops.reduction.reduction import reduce_all
from sparkflow_runtime.errors import InvalidArgumentError

Check = Operation | Tensor


def _called(tensor: Tensor) -> str:
    """What a message calls a tensor; in eager execution tensors have no names."""
    return "eager" if tensor.graph.is_eager else tensor.name


def _pairwise(
    sign: str,
    default_name: str,
    compare: Callable[[Any, Any], Tensor],
    statically: Callable[[Any, Any], Any],
    x: Any,
    y: Any,
    data: Any,
    summarize: int | None,
    message: str | None,
    name: str | None,
) -> Operation:
    graph = graph_of((x, y, *(data or ())))
    with graph.as_default(), graph.name_scope(name or default_name):
        left = convert_to_tensor(x, name="x")
        right = convert_to_tensor(y, name="y")
        if data is None:
            data = [
                f"Condition x {sign} y did not hold element-wise:",
                f"x ({_called(left)}) = ",
                left,
                f"y ({_called(right)}) = ",
                right,
            ]
        if message is not None:
            data = [message, *data]
        condition = reduce_all(compare(left, right))
        known = stated_value(left), stated_value(right)
        if known[0] is not None and known[1] is not None:
            _check_now(np.all(statically(*known)), data)
        return Assert(condition, data, summarize=summarize)


def _check_now(condition: Any, data: Sequence[Any]) -> None:
    """Fails at once where the graph tells already that the condition does not hold."""
    if condition:
        return
    shown = []
    for each in data:
        value = constant_value(each) if isinstance(each, Tensor) else each
        shown.append(str(each if value is None else value))
    raise InvalidArgumentError(message="\n".join(shown))


class Comparison(Protocol):
    """A check of two tensors."""

    def __call__(
        self,
        x: Any,
        y: Any,
        data: Any = None,
        summarize: int | None = None,
        message: str | None = None,
        name: str | None = None,
    ) -> Operation:
        """See the functions below."""


_COMPARISON: Final = """An operation that fails unless every `x {} y`, elementwise and broadcast.

    Args:
        x: Numbers.
        y: Numbers of the same dtype.
        data: The tensors that the error shows; x and y when None.
        summarize: How many elements of each it shows.
        message: What the error begins with.
        name: Name of the scope.

    Raises:
        InvalidArgumentError: It can be told at once that it fails.
    """
"""The documentation of a check of two tensors."""


def _comparison(
    called: str,
    sign: str,
    compare: Callable[[Any, Any], Tensor],
    statically: Callable[[Any, Any], Any],
) -> Comparison:
    def check(
        x: Any,
        y: Any,
        data: Any = None,
        summarize: int | None = None,
        message: str | None = None,
        name: str | None = None,
    ) -> Operation:
        given = (x, y, data, summarize, message, name)
        return _pairwise(sign, called, compare, statically, *given)

    check.__name__ = check.__qualname__ = called
    check.__doc__ = _COMPARISON.format(sign)
    return check


assert_equal = _comparison("assert_equal", "==", comparison.equal, np.equal)
assert_none_equal = _comparison("assert_none_equal", "!=", comparison.not_equal, np.not_equal)
assert_less = _comparison("assert_less", "<", comparison.less, np.less)
assert_less_equal = _comparison("assert_less_equal", "<=", comparison.less_equal, np.less_equal)
assert_greater = _comparison("assert_greater", ">", comparison.greater, np.greater)
assert_greater_equal = _comparison(
    "assert_greater_equal", ">=", comparison.greater_equal, np.greater_equal
)


class Bound(Protocol):
    """A check of the signs of a tensor's elements."""

    def __call__(
        self,
        x: Any,
        data: Any = None,
        summarize: int | None = None,
        message: str | None = None,
        name: str | None = None,
    ) -> Operation:
        """See the functions below."""


def _bound(called: str, sign: str) -> Bound:
    def check(
        x: Any,
        data: Any = None,
        summarize: int | None = None,
        message: str | None = None,
        name: str | None = None,
    ) -> Operation:
        return _against_zero(called, sign, x, data, summarize, message, name)

    check.__name__ = check.__qualname__ = called
    check.__doc__ = (
        f"An operation that fails unless every `x {sign} 0`; arguments as for `assert_equal`."
    )
    return check


assert_negative = _bound("assert_negative", "<")
assert_positive = _bound("assert_positive", ">")
assert_non_negative = _bound("assert_non_negative", ">=")
assert_non_positive = _bound("assert_non_positive", "<=")


def _against_zero(
    called: str,
    sign: str,
    x: Any,
    data: Any,
    summarize: int | None,
    message: str | None,
    name: str | None,
) -> Operation:
    """The check `x SIGN 0`, made as the check of `called`."""
    graph = graph_of((x, *(data or ())))
    with graph.as_default(), graph.name_scope(name or called):
        tensor = convert_to_tensor(x, name="x")
        if data is None:
            data = [
                f"Condition x {sign} 0 did not hold element-wise:",
                f"x ({_called(tensor)}) = ",
                tensor,
            ]
        if message is not None:
            data = [message, *data]
        zero = convert_to_tensor(0, tensor.dtype.base)
        low, high = (tensor, zero) if sign.startswith("<") else (zero, tensor)
        check = assert_less_equal if sign.endswith("=") else assert_less
        return check(low, high, data=data, summarize=summarize)


@export("assert_near", "debugging.assert_near")
def assert_near(
    x: Any,
    y: Any,
    rtol: Any = None,
    atol: Any = None,
    data: Any = None,
    summarize: int | None = None,
    message: str | None = None,
    name: str | None = None,
) -> Operation:
    """An operation that fails unless every `|x - y| <= atol + rtol |y|`.

    Args:
        x: Floating-point or complex numbers.
        y: Numbers of the same dtype.
        rtol: Relative tolerance; ten steps of the dtype when None.
        atol: Absolute tolerance, likewise.
        data: The tensors that the error shows; all four when None.
        summarize: How many elements of each it shows.
        message: What the error begins with.
        name: Name of the scope.
    """
    graph = graph_of((x, y, *(data or ())))
    with graph.as_default(), graph.name_scope(name or "assert_near"):
        left = convert_to_tensor(x, name="x")
        right = convert_to_tensor(y, left.dtype.base, "y")
        kind = left.dtype.base.real_dtype
        step = np.finfo(kind.as_numpy_dtype).eps * 10 if kind.name != "bfloat16" else 0.078125
        relative = convert_to_tensor(step if rtol is None else rtol, kind, "rtol")
        absolute = convert_to_tensor(step if atol is None else atol, kind, "atol")
        if data is None:
            data = [
                "x and y not equal to tolerance rtol = ",
                relative,
                "atol = ",
                absolute,
                f"x ({_called(left)}) = ",
                left,
                f"y ({_called(right)}) = ",
                right,
            ]
        if message is not None:
            data = [message, *data]
        tolerance = absolute + relative * abs(right)
        condition = reduce_all(abs(left - right) <= tolerance)
        return Assert(condition, data, summarize=summarize)


def _steps(x: Any, name: str, compare: Callable[[Any, Any], Tensor]) -> Tensor:
    graph = graph_of((x,))
    with graph.as_default(), graph.name_scope(name):
        tensor = convert_to_tensor(x, name="x")
        flat = apply_op("Reshape", tensor, np.array([-1], np.int32))
        zero = convert_to_tensor(0, tensor.dtype.base)
        return reduce_all(compare(flat[1:] - flat[:-1], zero))


@export("is_non_decreasing", "debugging.is_non_decreasing", "math.is_non_decreasing")
def is_non_decreasing(x: Any, name: str | None = None) -> Tensor:
    """Whether no element is less than the one before, in row-major order."""
    return _steps(x, name or "is_non_decreasing", comparison.greater_equal)


@export("is_strictly_increasing", "debugging.is_strictly_increasing", "math.is_strictly_increasing")
def is_strictly_increasing(x: Any, name: str | None = None) -> Tensor:
    """Whether every element is greater than the one before, in row-major order."""
    return _steps(x, name or "is_strictly_increasing", comparison.greater)
