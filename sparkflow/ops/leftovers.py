"""Small functions from the margins of `tf.*`: old scopes, libraries, the clock, mapping."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy as np
import tree

from sparkflow._api import export
from sparkflow.graph.scopes import convert_to_tensor, name_scope
from sparkflow.graph.tensor import Tensor
from sparkflow.ops.control_flow.higher_order import map_fn
from sparkflow.ops.script import py_func
from sparkflow_runtime.dtypes import float64
from sparkflow_runtime.errors import UnimplementedError


@export("op_scope")
@contextmanager
def op_scope(
    values: Sequence[Any], name: str | None, default_name: str | None = None
) -> Iterator[str]:
    """The old form of `name_scope`, with `values` first."""
    with name_scope(name, default_name, values) as scope:
        yield scope


@export("timestamp")
def timestamp(name: str | None = None) -> Tensor:
    """The seconds since 1970 at which the node runs, a float64 scalar.

    It is the clock of the process that built the graph, see `tf.py_func`.
    """
    now: Tensor = py_func(lambda: np.float64(time.time()), [], float64, name=name or "Timestamp")
    now.set_shape([])
    return now


@export("vectorized_map")
def vectorized_map(
    fn: Callable[[Any], Any], elems: Any, fallback_to_while_loop: bool = True
) -> Any:
    """As `tf.map_fn`, with the dtypes that `fn` gives.

    Args:
        fn: From one element to its result, nested as the elements are or not.
        elems: Tensors of the same first dimension, nested.
        fallback_to_while_loop: Accepted for TensorFlow's sake: it is a loop.
    """
    elems = tree.map_structure(convert_to_tensor, elems)
    first = fn(tree.map_structure(lambda each: each[0], elems))
    return map_fn(fn, elems, dtype=tree.map_structure(lambda each: each.dtype, first))


def _refuse(function: str, path: Any) -> NoReturn:
    raise UnimplementedError(
        message=f"{function}({path!r}): sparkflow loads no compiled libraries of TensorFlow. Write "
        "the op as a class and register it with tf.register_op, see docs/own_ops.md"
    )


@export("load_op_library")
def load_op_library(library_filename: Any) -> NoReturn:
    """Not available: `tf.register_op` registers ops of your own.

    Raises:
        UnimplementedError: Always.
    """
    _refuse("load_op_library", library_filename)


@export("load_library")
def load_library(library_location: Any) -> NoReturn:
    """Not available, see `load_op_library`.

    Raises:
        UnimplementedError: Always.
    """
    _refuse("load_library", library_location)


@export("load_file_system_library")
def load_file_system_library(library_filename: Any) -> NoReturn:
    """Not available: files are those of this machine.

    Raises:
        UnimplementedError: Always.
    """
    _refuse("load_file_system_library", library_filename)


@export("is_symbolic_tensor")
def is_symbolic_tensor(tensor: Any) -> bool:
    """Whether it is a tensor of a graph, without a value of its own."""
    return isinstance(tensor, Tensor) and not tensor.graph.is_eager
