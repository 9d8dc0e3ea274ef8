"""`tf.py_function`: a function that runs eagerly inside a graph, with gradients."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sparkflow._api import export
from sparkflow.differentiation.python_functions import custom_gradient, py_func
from sparkflow.eager.context import EagerGraph
from sparkflow.eager.mode import executing_eagerly
from sparkflow.eager.tape import GradientTape
from sparkflow.graph.scopes import convert_to_tensor
from sparkflow_runtime.dtypes import DType, as_dtype
from sparkflow_runtime.once import once


@once
def _eager_graph() -> EagerGraph:
    """Where the functions of graphs run."""
    return EagerGraph()


@export("py_function")
def py_function(
    func: Callable[..., Any] | None = None,
    inp: Any = None,
    Tout: Any = None,
    name: str | None = None,
) -> Any:
    """The result of a Python function that is called with eager tensors when the graph runs.

    The function runs in the process that built the graph, as that of `tf.py_func` does. Gradients
    flow through: the function runs a second time for them, recorded by a tape.

    Args:
        func: From eager tensors to tensors of the dtypes `Tout`, or None for an empty `Tout`.
        inp: The tensors it is called with.
        Tout: The dtype it returns, or a list of them.
        name: Name of the node.

    Returns:
        A tensor, or a list of them as `Tout` is one; an operation for an empty list. Their shapes
        are not known.

    Raises:
        TypeError: `func` is no function.
    """
    if not callable(func):
        raise TypeError(f"py_function takes a function, not {func!r}")
    several = isinstance(Tout, list | tuple)
    dtypes = [as_dtype(each) for each in (Tout if several else [Tout])]
    given = [convert_to_tensor(each) for each in inp or ()]
    if executing_eagerly():
        results = _results(func(*given), dtypes)
        return results if several else results[0]
    if not dtypes:
        return py_func(functools.partial(_forward, func, dtypes), given, [], name=name)

    @custom_gradient
    def call(*tensors: Any) -> Any:
        outputs = py_func(functools.partial(_forward, func, dtypes), tensors, dtypes, name=name)

        def gradient(*grads: Any) -> list[Any]:
            backward = functools.partial(_backward, func, dtypes, len(tensors))
            kinds = [each.dtype.base for each in tensors]
            found = py_func(backward, [*tensors, *grads], kinds, name="py_function_grad")
            for each, tensor in zip(found, tensors, strict=True):
                each.set_shape(tensor.shape)
            return [
                each if kind.is_floating or kind.is_complex else None
                for each, kind in zip(found, kinds, strict=True)
            ]

        return outputs, gradient

    results = list(call(*given))
    return results if several else results[0]


def _results(value: Any, dtypes: Sequence[DType]) -> list[Any]:
    """What a function returned, as tensors of the dtypes.

    Raises:
        ValueError: Not as many as there are dtypes.
    """
    if not dtypes:
        return []
    values = list(value) if isinstance(value, list | tuple) else [value]
    if len(values) != len(dtypes):
        raise ValueError(
            f"The function of py_function returned {len(values)} values, Tout asks for "
            f"{len(dtypes)}"
        )
    return [convert_to_tensor(each, dtype) for each, dtype in zip(values, dtypes, strict=True)]


def _forward(func: Callable[..., Any], dtypes: Sequence[DType], *arrays: Any) -> list[Any]:
    with _eager_graph().as_default():
        tensors = [convert_to_tensor(each) for each in arrays]
        return [each.numpy() for each in _results(func(*tensors), dtypes)]


def _backward(
    func: Callable[..., Any], dtypes: Sequence[DType], count: int, *arrays: Any
) -> list[Any]:
    with _eager_graph().as_default():
        tensors = [convert_to_tensor(each) for each in arrays[:count]]
        with GradientTape() as tape:
            tape.watch(tensors)
            results = _results(func(*tensors), dtypes)
        grads = [convert_to_tensor(each) for each in arrays[count:]]
        real = [
            (result, grad)
            for result, grad in zip(results, grads, strict=True)
            if result.dtype.is_floating or result.dtype.is_complex
        ]
        found = tape.gradient(
            [result for result, _ in real],
            tensors,
            output_gradients=[grad for _, grad in real],
        )
        return [
            np.zeros_like(array) if grad is None else np.asarray(convert_to_tensor(grad))
            for array, grad in zip(arrays[:count], found, strict=True)
        ]


@export("function")
def function(
    func: Callable[..., Any] | None = None, input_signature: Any = None, **kwargs: Any
) -> Any:
    """A function that calls `func`: at once in eager execution, into the open graph otherwise.

    Args:
        func: The function; a decorator is returned when None.
        input_signature: Accepted for TensorFlow's sake, as the other arguments (`autograph`, ...):
            `func` runs as Python in every call.
        kwargs: See `input_signature`.
    """
    if func is None:
        return functools.partial(function, input_signature=input_signature, **kwargs)

    @functools.wraps(func)
    def called(*args: Any, **keywords: Any) -> Any:
        return func(*args, **keywords)

    called.python_function = func  # type: ignore[attr-defined]  # attributes of a function object
    called.input_signature = input_signature  # type: ignore[attr-defined]  # attributes of a function object
    return called
