"""Checks of the ranks, shapes and types of tensors.

What the graph tells already is checked while it is built; the rest becomes an `Assert` that runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sparkflow._api import export
from sparkflow.graph.constant_value import constant_value
from sparkflow.graph.operation import Operation
from sparkflow.graph.scopes import apply_op, convert_to_tensor, graph_of, name_scope
from sparkflow.graph.tensor import Tensor
from sparkflow.ops.checks.checks import assert_equal
from sparkflow.ops.control.debugging import Assert
from sparkflow.ops.control.ordering import no_op
from sparkflow.ops.elementwise import comparison
from sparkflow_runtime.dtypes import FLOATING, NUMERIC, as_dtype


def _ranks(
    x: Any,
    ranks: Sequence[Any],
    fits: Callable[[int, Sequence[int]], bool],
    at_run_time: Callable[[Tensor, Sequence[Tensor]], Tensor],
    wanted: str,
    data: Any,
    summarize: int | None,
    message: str | None,
    name: str,
) -> Operation:
    graph = graph_of((x, *ranks))
    with graph.as_default(), graph.name_scope(name):
        tensor = convert_to_tensor(x, name="x")
        numbers = [convert_to_tensor(rank, name="rank") for rank in ranks]
        for number in numbers:
            if not number.dtype.is_integer:
                raise TypeError(
                    f"{message or ''} {wanted}: the rank must be an integer, got "
                    f"{number.dtype.name}"
                )
            if number._shape not in (None, ()):
                raise ValueError(f"{message or ''} Rank must be a scalar, got {number!r}.")
        known = [constant_value(number) for number in numbers]
        if tensor._shape is not None and all(value is not None for value in known):
            found = [int(value) for value in known if value is not None]
            if not fits(len(tensor._shape), found):
                raise ValueError(
                    f"{message or ''} Tensor {tensor.name} must have {wanted} "
                    f"{found[0] if len(found) == 1 else tuple(found)}.  Received rank "
                    f"{len(tensor._shape)}, shape {tensor.shape}"
                )
            return no_op(name="static_checks_determined_all_ok")
        rank = apply_op("Rank", tensor)
        if data is None:
            data = [
                f"Tensor {tensor.name} must have {wanted} ",
                *numbers,
                "Received shape: ",
                apply_op("Shape", tensor),
            ]
        if message is not None:
            data = [message, *data]
        return Assert(at_run_time(rank, numbers), data, summarize=summarize)


def _some_equal(rank: Tensor, numbers: Sequence[Tensor]) -> Tensor:
    found = comparison.equal(rank, numbers[0])
    for number in numbers[1:]:
        found = comparison.logical_or(found, comparison.equal(rank, number))
    return found


@export("assert_rank", "debugging.assert_rank")
def assert_rank(
    x: Any,
    rank: Any,
    data: Any = None,
    summarize: int | None = None,
    message: str | None = None,
    name: str | None = None,
) -> Operation:
    """An operation that fails unless `x` has this rank.

    Raises:
        ValueError: The static rank is another one.
    """
    return _ranks(
        x, [rank], lambda found, ranks: found == ranks[0], _some_equal, "rank",
        data, summarize, message, name or "assert_rank",
    )  # fmt: skip


@export("assert_rank_at_least", "debugging.assert_rank_at_least")
def assert_rank_at_least(
    x: Any,
    rank: Any,
    data: Any = None,
    summarize: int | None = None,
    message: str | None = None,
    name: str | None = None,
) -> Operation:
    """An operation that fails unless `x` has this rank or a higher one.

    Raises:
        ValueError: The static rank is lower.
    """
    return _ranks(
        x, [rank], lambda found, ranks: found >= ranks[0],
        lambda found, ranks: comparison.greater_equal(found, ranks[0]), "rank at least",
        data, summarize, message, name or "assert_rank_at_least",
    )  # fmt: skip


@export("assert_rank_in", "debugging.assert_rank_in")
def assert_rank_in(
    x: Any,
    ranks: Any,
    data: Any = None,
    summarize: int | None = None,
    message: str | None = None,
    name: str | None = None,
) -> Operation:
    """An operation that fails unless `x` has one of these ranks.

    Raises:
        ValueError: The static rank is none of them.
    """
    return _ranks(
        x, list(ranks), lambda found, allowed: found in allowed, _some_equal, "rank in",
        data, summarize, message, name or "assert_rank_in",
    )  # fmt: skip


@export("assert_integer", "debugging.assert_integer")
def assert_integer(x: Any, message: str | None = None, name: str | None = None) -> Operation:
    """An operation that does nothing, when `x` is of an integer type.

    Raises:
        TypeError: It is not.
    """
    tensor = convert_to_tensor(x, name="x")
    if not tensor.dtype.is_integer:
        raise TypeError(
            f'{message or ""} Expected "x" to be integer type.  Found: {tensor.dtype!r}'
        )
    with graph_of((tensor,)).as_default():
        return no_op(name="statically_determined_was_integer")


@export("assert_type", "debugging.assert_type")
def assert_type(
    tensor: Any, tf_type: Any, message: str | None = None, name: str | None = None
) -> Operation:
    """An operation that does nothing, when the tensor is of this type.

    Raises:
        TypeError: It is not.
    """
    given = convert_to_tensor(tensor, name="tensor")
    wanted = as_dtype(tf_type)
    if given.dtype.base is not wanted.base:
        raise TypeError(f"{message or ''}  {given.name} must be of type {wanted!r}")
    with name_scope(name, "assert_type", [given]):
        return no_op(name="statically_determined_correct_type")


@export("assert_scalar", "debugging.assert_scalar")
def assert_scalar(tensor: Any, name: str | None = None, message: str | None = None) -> Tensor:
    """The tensor, when its static rank is 0.

    Raises:
        ValueError: It is not.
    """
    given = convert_to_tensor(tensor, name=name)
    if given._shape != ():
        raise ValueError(
            f"{message or ''}Expected scalar shape for {given.name}, saw shape: {given.shape}."
        )
    return given


@export("debugging.assert_shapes")
def assert_shapes(
    shapes: Any,
    data: Any = None,
    summarize: int | None = None,
    message: str | None = None,
    name: str | None = None,
) -> Operation:
    """An operation that fails unless tensors have shapes whose sizes agree.

    Args:
        shapes: Pairs, or a dictionary, of a tensor and its shape: a list of sizes, of names that
            stand for one size wherever they occur, of None or "." for any size; a first or last
            `...` (or "*") stands for any number of axes.
        data: The tensors that the error shows.
        summarize: How many elements of each it shows.
        message: What the error begins with.
        name: Name of the scope.

    Raises:
        ValueError: The static shapes contradict.
    """
    pairs = list(shapes.items() if isinstance(shapes, dict) else shapes)
    graph = graph_of([tensor for tensor, _ in pairs])
    with graph.as_default(), graph.name_scope(name or "assert_shapes"):
        known: dict[Any, int] = {}
        first: dict[Any, Tensor] = {}
        checks: list[Operation] = []
        for value, symbols in pairs:
            tensor = convert_to_tensor(value)
            if isinstance(symbols, str | int) or symbols is None:
                symbols = [symbols]
            _check_shape(tensor, list(symbols), known, first, checks, data, summarize, message)
        with graph.control_dependencies(checks):
            return no_op(name="all_assertions")


def _is_rest(symbol: Any) -> bool:
    return symbol is Ellipsis or (isinstance(symbol, str) and symbol == "*")


def _check_shape(
    tensor: Tensor,
    symbols: list[Any],
    known: dict[Any, int],
    first: dict[Any, Tensor],
    checks: list[Operation],
    data: Any,
    summarize: int | None,
    message: str | None,
) -> None:
    from_end = bool(symbols) and _is_rest(symbols[0])
    to_end = bool(symbols) and not from_end and _is_rest(symbols[-1])
    sizes = symbols[1:] if from_end else symbols[:-1] if to_end else symbols
    if from_end or to_end:
        checks.append(assert_rank_at_least(tensor, len(sizes), data, summarize, message))
    else:
        checks.append(assert_rank(tensor, len(sizes), data, summarize, message))
    for index, symbol in enumerate(sizes):
        if symbol is None or symbol == ".":
            continue
        axis = index - len(sizes) if from_end else index
        size = None if tensor._shape is None else tensor._shape[axis]
        if isinstance(symbol, int | np.integer):
            known.setdefault(symbol, int(symbol))
        if size is not None:
            expected = known.setdefault(symbol, size)
            if expected != size:
                raise ValueError(
                    f"{message or ''}. Specified by tensor {tensor.name} dimension {axis}: tensor "
                    f"{tensor.name} dimension {axis} must have size {expected}.  Received size "
                    f"{size}, shape {tensor.shape}"
                )
            continue
        found = apply_op("Shape", tensor)[axis]
        wanted = known.get(symbol, first.get(symbol))
        if wanted is None:
            first[symbol] = found
        else:
            checks.append(assert_equal(found, wanted, data, summarize, message))


@export("assert_proper_iterable", "debugging.assert_proper_iterable")
def assert_proper_iterable(values: Any) -> None:
    """Passes when `values` is a list or the like, and neither text nor a single tensor.

    Raises:
        TypeError: It is not.
    """
    unintentional = Tensor, np.ndarray, bytes, str
    if isinstance(values, unintentional) or hasattr(values, "_to_tensor"):
        raise TypeError(
            f'Expected argument "values" to be a "proper" iterable.  Found: {type(values)}'
        )
    if not hasattr(values, "__iter__"):
        raise TypeError(f'Expected argument "values" to be iterable.  Found: {type(values)}')


@export("assert_same_float_dtype", "debugging.assert_same_float_dtype")
def assert_same_float_dtype(tensors: Any = None, dtype: Any = None) -> Any:
    """The floating-point dtype that all tensors have, float32 where there is none.

    Raises:
        ValueError: They differ, or are not of floating point.
    """
    wanted = None if dtype is None else as_dtype(dtype).base
    for tensor in tensors or ():
        if tensor is None:
            continue
        found = tensor.dtype.base
        if wanted is None:
            wanted = found
        elif found is not wanted:
            raise ValueError(f"Tensor {tensor}: dtype {found.name} must be {wanted.name}")
    wanted = wanted or as_dtype("float32")
    if wanted not in FLOATING:
        raise ValueError(f"Expected floating point type, got {wanted.name}.")
    return wanted


@export("is_numeric_tensor", "debugging.is_numeric_tensor")
def is_numeric_tensor(tensor: Any) -> bool:
    """Whether it is a tensor of numbers."""
    return isinstance(tensor, Tensor) and tensor.dtype.base in NUMERIC
