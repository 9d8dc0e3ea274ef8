"""Python functions as nodes, and gradients written in Python."""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tree

from sparkflow._api import export
from sparkflow.differentiation.gradient_registry import RegisterGradient
from sparkflow.graph.collections import GraphKeys
from sparkflow.graph.operation import Operation
from sparkflow.graph.scopes import convert_to_tensor, get_default_graph
from sparkflow.graph.tensor import Tensor
from sparkflow.variables.variable import Variable
from sparkflow_runtime.dtypes import as_dtype, float64
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.op import Op
from sparkflow_runtime.resources.py_functions import PyFunction

_FUNCTIONS = ("sparkflow", "python functions")
"""The collection that keeps a graph's Python functions alive."""
_gradient_numbers = itertools.count()


@export("py_func")
def py_func(
    func: Callable[..., Any], inp: Any, Tout: Any, stateful: bool = True, name: str | None = None
) -> Any:
    """What a Python function returns when the graph runs.

    The function runs in the process that built the graph, which must be the one that runs the node:
    such a graph cannot be sent to another server.

    Args:
        func: From numpy arrays to arrays of the dtypes `Tout`.
        inp: The tensors it is called with.
        Tout: The dtype it returns, or a list of them.
        stateful: Whether it may have effects, or return something else another time.
        name: Name of the node.

    Returns:
        A tensor, or a list of them as `Tout` is one; an operation for an empty list. Their shapes
        are not known; no gradient flows through.
    """
    graph = get_default_graph()
    kept = PyFunction(func)
    graph.add_to_collection(_FUNCTIONS, kept)
    several = isinstance(Tout, list | tuple)
    dtypes = [as_dtype(each) for each in (Tout if several else [Tout])]
    op_type = "PyFunc" if stateful else "PyFuncStateless"
    attrs = {"token": kept.token, "Tout": dtypes}
    if not dtypes:
        given = [convert_to_tensor(each) for each in inp]
        return graph.add_node(op_type, [given], attrs, name or "PyFunc")
    outputs = graph.apply(op_type, ([*inp],), attrs, name or "PyFunc")
    return outputs if several else outputs[0]


@export("numpy_function")
def numpy_function(
    func: Callable[..., Any], inp: Any, Tout: Any, stateful: bool = True, name: str | None = None
) -> Any:
    """The same as `py_func`."""
    return py_func(func, inp, Tout, stateful, name)


@export("custom_gradient")
def custom_gradient(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function with a gradient of its own.

    Args:
        f: From tensors to a pair: the result (a tensor or structure of tensors), and a function
            from the gradients of the results to those of the tensors. Where `f` makes variables,
            that function takes a keyword `variables` and returns a second list, their gradients.

    Returns:
        A function from tensors to the result alone.
    """

    @functools.wraps(f)
    def decorated(*args: Any, **kwargs: Any) -> Any:
        graph = get_default_graph()
        inputs = [convert_to_tensor(each) for each in tree.flatten(args)]
        # Between these and the results lies what the given gradient stands for.
        inside = [graph.apply("Identity", (each,), {}) for each in inputs]
        before = len(graph.get_collection(GraphKeys.GLOBAL_VARIABLES))
        result, grad_fn = f(*tree.unflatten_as(args, inside), **kwargs)
        results = [convert_to_tensor(each) for each in tree.flatten(result)]
        known = graph.get_collection(GraphKeys.GLOBAL_VARIABLES)
        used = _handles_behind(results, inside)
        variables = [
            v
            for place, v in enumerate(known)
            if isinstance(v, Variable) and v.trainable and (place >= before or v.op in used)
        ]
        name = f"CustomGradient-{next(_gradient_numbers)}"
        count = len(results)

        @RegisterGradient(name)
        def _gradient(op: Any, *grads: Any) -> list[Any]:
            wanted = grads[:count]
            if variables:
                found, of_variables = grad_fn(*wanted, variables=variables)
            else:
                found, of_variables = grad_fn(*wanted), []
            flat = list(found) if isinstance(found, list | tuple) else [found]
            if len(flat) != len(inputs):
                raise ValueError(
                    f"Must return gradient for each input: {len(inputs)} inputs, {len(flat)} given"
                )
            return [*([None] * count), *flat, *of_variables]

        values: list[Tensor] = [v._to_tensor(as_ref=False) for v in variables]
        op = graph.add_node(
            "IdentityN", ([*results, *inputs, *values],), {"_gradient_op_type": name}
        )
        return tree.unflatten_as(result, list(op.outputs[:count]))

    return decorated


def _handles_behind(results: Sequence[Tensor], inside: Sequence[Tensor]) -> set[Operation]:
    """The handles of variables that results depend on, other than by the arguments."""
    stack, seen = [each.op for each in results], {each.op for each in inside}
    while stack:
        op = stack.pop()
        if op not in seen:
            seen.add(op)
            stack.extend(each.op for each in op.inputs)
    return {op for op in seen if _gives_handle(registry.find(op.type))}


def _gives_handle(kind: Op) -> bool:
    return kind.is_variable and kind.signature.gives_handles


@export("grad_pass_through")
def grad_pass_through(f: Callable[..., Any]) -> Callable[..., Any]:
    """`f`, through which gradients flow as if it were the identity."""

    @custom_gradient
    def passing(*args: Any, **kwargs: Any) -> Any:
        def grad(*grads: Any, **keywords: Any) -> Any:
            variables = keywords.get("variables")
            return (grads, [None] * len(variables)) if variables is not None else grads

        return f(*args, **kwargs), grad

    return passing


@export("recompute_grad")
def recompute_grad(f: Callable[..., Any]) -> Callable[..., Any]:
    """`f` as it is: what its gradient needs is kept, not computed again."""

    @functools.wraps(f)
    def same(*args: Any, **kwargs: Any) -> Any:
        return f(*args, **kwargs)

    return same


@export("timestamp")
def timestamp(name: str | None = None) -> Tensor:
    """The seconds since 1970 at which the node runs, a float64 scalar.

    It is the clock of the process that built the graph, see `tf.py_func`.
    """
    now: Tensor = py_func(lambda: np.float64(time.time()), [], float64, name=name or "Timestamp")
    now.set_shape([])
    return now
