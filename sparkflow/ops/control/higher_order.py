"""`tf.map_fn`, `tf.foldl`, `tf.foldr`, `tf.scan`: functions over the rows of tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tree

from sparkflow._api import export
from sparkflow.graph.scopes import apply_op, convert_to_tensor, get_default_graph
from sparkflow.graph.shapes.tensor_shape import TensorShape
from sparkflow.graph.tensor import Tensor
from sparkflow.ops.control.tensor_array import TensorArray
from sparkflow.ops.control.while_loop import while_loop
from sparkflow_runtime.dtypes import int32


class _Rows:
    """The rows of nested tensors of equal first dimension."""

    def __init__(self, elems: Any) -> None:
        self.structure = elems
        self.tensors = [convert_to_tensor(each, name="elem") for each in tree.flatten(elems)]
        for tensor in self.tensors:
            if tensor.shape.ndims == 0:
                raise ValueError("elements in elems must be 1+ dimensional Tensors, not scalars")
        static = TensorShape([None])
        for tensor in self.tensors:
            static = static.merge_with(tensor.shape[:1])
        self.static_count = static.as_list()[0]
        if self.static_count is None:
            sizes = apply_op("Shape", self.tensors[0])
            self.count = sizes[0]
        else:
            self.count = convert_to_tensor(self.static_count, int32)
        self._arrays = [
            TensorArray(
                tensor.dtype,
                size=self.count,
                dynamic_size=False,
                infer_shape=True,
                element_shape=tensor.shape[1:],
            ).unstack(tensor)
            for tensor in self.tensors
        ]

    def at(self, index: Any) -> Any:
        """The structure of the rows at `index`."""
        return tree.unflatten_as(self.structure, [array.read(index) for array in self._arrays])

    def stacked(self, arrays: list[TensorArray], structure: Any) -> Any:
        """What was written row by row as tensors, in `structure`."""
        tensors = [array.stack() for array in arrays]
        for tensor in tensors:
            tensor.set_shape(TensorShape([self.static_count]).concatenate(tensor.shape[1:]))
        return tree.unflatten_as(structure, tensors)


def _require_callable(fn: Any) -> None:
    if not callable(fn):
        raise TypeError("fn must be callable.")


@export("map_fn")
def map_fn(
    fn: Callable[..., Any],
    elems: Any,
    dtype: Any = None,
    parallel_iterations: int | None = None,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    name: str | None = None,
    fn_output_signature: Any = None,
) -> Any:
    """`fn` of every row, stacked.

    Args:
        fn: From the rows of `elems`, in its structure, to tensors.
        elems: A tensor [n, ...], or a nested structure of such.
        dtype: The structure and dtypes of what `fn` returns, where they differ from `elems`.
        parallel_iterations: Rows are mapped one after another here.
        back_prop: Whether gradients flow through.
        swap_memory: Accepted for TensorFlow's sake.
        infer_shape: Require all results to have one shape.
        name: Name of the scope.
        fn_output_signature: The same as `dtype`.

    Returns:
        Tensors [n, ...] in the structure of `dtype`, or of `elems`.

    Raises:
        TypeError: `fn` is not callable, or `dtype` is missing where it must be given.
        ValueError: `elems` has a scalar, or first dimensions differ.
    """
    _require_callable(fn)
    wanted = fn_output_signature if dtype is None else dtype
    graph = get_default_graph()
    with graph.as_default(), graph.name_scope(name or "map"):
        rows = _Rows(elems)
        if wanted is None:
            wanted = tree.unflatten_as(elems, [tensor.dtype.base for tensor in rows.tensors])
        arrays = [
            TensorArray(each, size=rows.count, dynamic_size=False, infer_shape=infer_shape)
            for each in tree.flatten(wanted)
        ]

        def body(index: Tensor, written: list[TensorArray]) -> Any:
            results = fn(rows.at(index))
            tree.assert_same_structure(wanted, results, check_types=False)
            pairs = zip(written, tree.flatten(results), strict=True)
            return index + 1, [array.write(index, value) for array, value in pairs]

        _, written = while_loop(
            lambda index, _: index < rows.count,
            body,
            (convert_to_tensor(0), arrays),
            parallel_iterations=parallel_iterations or 10,
            back_prop=back_prop,
            swap_memory=swap_memory,
            maximum_iterations=rows.count,
        )
        return rows.stacked(written, wanted)


@export("foldl")
def foldl(
    fn: Callable[..., Any],
    elems: Any,
    initializer: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
) -> Any:
    """`fn(...fn(fn(initializer, row 0), row 1)...)`.

    Args:
        fn: From the result so far and a row to the next result.
        elems: A tensor [n, ...], or a nested structure of such.
        initializer: What to start with; the first row when None.
        parallel_iterations: Rows are taken one after another here.
        back_prop: Whether gradients flow through.
        swap_memory: Accepted for TensorFlow's sake.
        name: Name of the scope.

    Raises:
        TypeError: `fn` is not callable.
        ValueError: `elems` has a scalar.
    """
    return _fold(fn, elems, initializer, parallel_iterations, back_prop, name or "foldl", False)


@export("foldr")
def foldr(
    fn: Callable[..., Any],
    elems: Any,
    initializer: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
) -> Any:
    """The same from the last row to the first; see `foldl`."""
    return _fold(fn, elems, initializer, parallel_iterations, back_prop, name or "foldr", True)


def _fold(
    fn: Callable[..., Any],
    elems: Any,
    initializer: Any,
    parallel_iterations: int,
    back_prop: bool,
    name: str,
    backwards: bool,
) -> Any:
    _require_callable(fn)
    graph = get_default_graph()
    with graph.as_default(), graph.name_scope(name):
        rows = _Rows(elems)
        first = 0 if initializer is not None else 1
        last = rows.count - 1

        def place(index: Any) -> Any:
            return last - index if backwards else index

        if initializer is None:
            state = rows.at(place(convert_to_tensor(0)))
        else:
            state = tree.map_structure(convert_to_tensor, initializer)
        _, result = while_loop(
            lambda index, _: index < rows.count,
            lambda index, state: (index + 1, fn(state, rows.at(place(index)))),
            (convert_to_tensor(first), state),
            parallel_iterations=parallel_iterations,
            back_prop=back_prop,
            maximum_iterations=rows.count,
        )
        return result


@export("scan")
def scan(
    fn: Callable[..., Any],
    elems: Any,
    initializer: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    infer_shape: bool = True,
    reverse: bool = False,
    name: str | None = None,
) -> Any:
    """All results of `foldl`, stacked.

    Args:
        fn: From the result so far and a row to the next result.
        elems: A tensor [n, ...], or a nested structure of such.
        initializer: What to start with, not part of the result; the first row when None, which
            then is.
        parallel_iterations: Rows are taken one after another here.
        back_prop: Whether gradients flow through.
        swap_memory: Accepted for TensorFlow's sake.
        infer_shape: Require all results to have one shape.
        reverse: Go from the last row to the first.
        name: Name of the scope.

    Returns:
        Tensors [n, ...] in the structure of `initializer`, or of `elems`.

    Raises:
        TypeError: `fn` is not callable.
        ValueError: `elems` has a scalar.
    """
    _require_callable(fn)
    graph = get_default_graph()
    with graph.as_default(), graph.name_scope(name or "scan"):
        rows = _Rows(elems)
        last = rows.count - 1

        def place(index: Any) -> Any:
            return last - index if reverse else index

        if initializer is None:
            state, first = rows.at(place(convert_to_tensor(0))), 1
        else:
            state, first = tree.map_structure(convert_to_tensor, initializer), 0
        arrays = [
            TensorArray(
                each.dtype,
                size=rows.count,
                infer_shape=infer_shape,
                element_shape=each.shape if infer_shape else None,
            )
            for each in tree.flatten(state)
        ]
        if initializer is None:
            pairs = zip(arrays, tree.flatten(state), strict=True)
            arrays = [array.write(place(convert_to_tensor(0)), each) for array, each in pairs]

        def body(index: Tensor, state: Any, written: list[TensorArray]) -> Any:
            results = fn(state, rows.at(place(index)))
            tree.assert_same_structure(state, results, check_types=False)
            pairs = zip(written, tree.flatten(results), strict=True)
            return (
                index + 1,
                tree.unflatten_as(state, tree.flatten(results)),
                [array.write(place(index), value) for array, value in pairs],
            )

        _, _, written = while_loop(
            lambda index, *_: index < rows.count,
            body,
            (convert_to_tensor(first), state, arrays),
            parallel_iterations=parallel_iterations,
            back_prop=back_prop,
            swap_memory=swap_memory,
            maximum_iterations=rows.count,
        )
        return rows.stacked(written, state)


@export("vectorized_map")
def vectorized_map(
    fn: Callable[[Any], Any], elems: Any, fallback_to_while_loop: bool = True
) -> Any:
    """Like `tf.map_fn`, with the dtypes that `fn` returns.

    Args:
        fn: From one element to its result, nested as the elements are or not.
        elems: Tensors of the same first dimension, nested.
        fallback_to_while_loop: Accepted for TensorFlow's sake: it is a loop.
    """
    elems = tree.map_structure(convert_to_tensor, elems)
    first = fn(tree.map_structure(lambda each: each[0], elems))
    return map_fn(fn, elems, dtype=tree.map_structure(lambda each: each.dtype, first))
