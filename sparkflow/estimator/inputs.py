"""`tf.estimator.inputs`: input functions of arrays and of pandas' tables."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from sparkflow.differentiation.python_functions import py_func
from sparkflow_runtime.dtypes import as_dtype, string

_TARGET = "__target_key__"


def numpy_input_fn(
    x: Any,
    y: Any = None,
    batch_size: int = 128,
    num_epochs: int | None = 1,
    shuffle: bool | None = None,
    queue_capacity: int = 1000,
    num_threads: int = 1,
) -> Callable[[], Any]:
    """An input function that feeds arrays.

    Args:
        x: An array, or arrays by name, of as many rows.
        y: The labels: an array, or arrays by name; None for none.
        batch_size: How many rows make a batch; the last may be smaller.
        num_epochs: How often the rows are gone through; for ever when None.
        shuffle: Whether rows come in random order; must be said.
        queue_capacity: Accepted; batches are made when they are asked for.
        num_threads: Accepted.

    Returns:
        A function that gives features, or features and labels.

    Raises:
        ValueError: `shuffle` is not a truth value, something is empty, rows differ in number, or a
            name is in features and labels.
        TypeError: `x` is neither array nor dictionary.
    """
    _check_shuffle(shuffle)

    def input_fn() -> Any:
        if not isinstance(x, Mapping | np.ndarray):
            raise TypeError(f"x must be a dict or array; got {type(x).__name__}")
        named = x if isinstance(x, Mapping) else {"": x}
        if not named:
            raise ValueError("x cannot be an empty dict.")
        columns = {key: np.asarray(value) for key, value in named.items()}
        labels = _labels(y, columns)
        tensors = _batches({**columns, **labels}, batch_size, num_epochs, bool(shuffle))
        features = {key: tensors[key] for key in columns}
        given = features if isinstance(x, Mapping) else features[""]
        if y is None:
            return given
        if isinstance(y, Mapping):
            return given, {key: tensors[key] for key in labels}
        return given, tensors[_TARGET]

    return input_fn


def _labels(y: Any, columns: Mapping[str, Any]) -> dict[str, Any]:
    if y is None:
        return {}
    if isinstance(y, Mapping):
        if not y:
            raise ValueError("y cannot be empty dict, use None instead.")
        same = sorted(set(y) & set(columns))
        if same:
            raise ValueError(f"{len(same)} duplicate keys are found in both x and y: {same}")
        return {key: np.asarray(value) for key, value in y.items()}
    return {_TARGET: np.asarray(y)}


def pandas_input_fn(
    x: Any,
    y: Any = None,
    batch_size: int = 128,
    num_epochs: int | None = 1,
    shuffle: bool | None = None,
    queue_capacity: int = 1000,
    num_threads: int = 1,
    target_column: str = "target",
) -> Callable[[], Any]:
    """An input function that feeds a pandas table.

    Args:
        x: A `DataFrame`; features are named by its columns.
        y: A `Series`, or a `DataFrame` of labels by name; of the same index. None for none.
        batch_size: As for `numpy_input_fn`.
        num_epochs: As for `numpy_input_fn`.
        shuffle: As for `numpy_input_fn`.
        queue_capacity: Accepted.
        num_threads: Accepted.
        target_column: Accepted: the name of a Series.

    Raises:
        ValueError: `shuffle` is not a truth value, or the indices differ.
        TypeError: `x` is no table.
    """
    _check_shuffle(shuffle)
    if not hasattr(x, "columns") or not hasattr(x, "index"):
        raise TypeError(f"x must be a pandas DataFrame; got {type(x).__name__}")
    if y is not None and not np.array_equal(x.index, y.index):
        raise ValueError(
            f"Index for x and y are mismatched.\nIndex for x: {x.index}\nIndex for y: {y.index}\n"
        )
    x = x.copy()  # what changes in the table later is not fed
    y = None if y is None else y.copy()
    columns = {name: x[name].to_numpy() for name in x.columns}
    if y is None:
        labels: Any = None
    elif hasattr(y, "columns"):
        labels = {name: y[name].to_numpy() for name in y.columns}
    else:
        labels = y.to_numpy()
    given = (columns, labels, batch_size, num_epochs, shuffle, queue_capacity, num_threads)
    return numpy_input_fn(*given)


def _check_shuffle(shuffle: Any) -> None:
    if not isinstance(shuffle, bool):
        raise ValueError(
            "shuffle must be provided and explicitly set as boolean (it is recommended to set it "
            f"as True for training); got {shuffle}"
        )


def _batches(
    columns: Mapping[str, Any], batch_size: int, num_epochs: int | None, shuffle: bool
) -> dict[str, Any]:
    """Tensors of the next rows each time they run."""
    lengths = {key: len(value) for key, value in columns.items()}
    if len(set(lengths.values())) != 1:
        shapes = {key: value.shape for key, value in columns.items()}
        raise ValueError(
            "Length of tensors in x and y is mismatched. All elements in x and y must have the "
            f"same length.\nShapes: {shapes}"
        )
    (length,) = set(lengths.values())
    rows = _chunks(length, batch_size, num_epochs, shuffle)
    keys = list(columns)
    kinds = [_dtype(columns[key]) for key in keys]

    def next_batch() -> list[Any]:
        chosen = next(rows)
        return [columns[key][chosen] for key in keys]

    tensors = py_func(next_batch, [], kinds, stateful=True, name="numpy_input")
    for key, tensor in zip(keys, tensors, strict=True):
        tensor.set_shape([None, *columns[key].shape[1:]])
    return dict(zip(keys, tensors, strict=True))


def _dtype(array: Any) -> Any:
    return string if array.dtype.kind in "OSU" else as_dtype(array.dtype)


def _chunks(length: int, batch_size: int, num_epochs: int | None, shuffle: bool) -> Iterator[Any]:
    """Row numbers of each batch; batches run across epochs."""
    waiting = np.zeros(0, np.int64)
    epochs = itertools.count() if num_epochs is None else range(num_epochs)
    random = np.random.default_rng()
    for _ in epochs:
        order = random.permutation(length) if shuffle else np.arange(length)
        waiting = np.concatenate([waiting, order])
        while len(waiting) >= batch_size:
            yield waiting[:batch_size]
            waiting = waiting[batch_size:]
    if len(waiting):
        yield waiting
