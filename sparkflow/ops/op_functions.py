"""The function that adds a node of an op, made from the op's signature."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final

from sparkflow.graph.scopes import apply_op
from sparkflow_runtime.ops.op import Op
from sparkflow_runtime.ops.signature import REQUIRED

_Parameters = list[inspect.Parameter]
TAPE: Final = "tape"
"""The output that our ops of functions have beside TensorFlow's, see `ops/control_flow`."""


def inputs_of(op: Op, names: Mapping[str, str]) -> dict[str, str]:
    """The names of its inputs, each with the name that the caller uses."""
    return {arg.name: names.get(arg.name, arg.name) for arg in op.signature.inputs}


def attrs_of(op: Op, names: Mapping[str, str]) -> dict[str, str]:
    """Its attributes that no input implies, those without a default first, as `inputs_of`."""
    implied: set[str | None] = set()
    for arg in op.signature.inputs:
        implied |= {arg.type_attr, arg.list_attr, arg.number_attr}
    free = {
        key: attr
        for key, attr in op.signature.attrs.items()
        if key not in implied and not key.startswith("_")
    }
    ordered = sorted(free, key=lambda key: free[key].default is not REQUIRED)
    return {key: names.get(key, key) for key in ordered}


def function_of(
    op: Op, name: str, inputs: Any, names: Mapping[str, str], finished: Callable[[Any], Any]
) -> Callable[..., Any]:
    """The function.

    Args:
        op: The op.
        name: That of the function.
        inputs: The kind of its parameters for inputs; those for attributes are keywords only.
        names: What inputs and attributes are called where not as in the op.
        finished: From what `Graph.apply` gives to what the function returns.
    """
    values, attrs = inputs_of(op, names), attrs_of(op, names)
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [inspect.Parameter(each, inputs) for each in values.values()]
    for key, each in attrs.items():
        default = op.signature.attrs[key].default
        kept = inspect.Parameter.empty if default is REQUIRED else default
        parameters.append(inspect.Parameter(each, keyword, default=kept))
    parameters.append(inspect.Parameter("name", keyword, default=None))
    signature = inspect.Signature(parameters)

    def build(*args: Any, **kwargs: Any) -> Any:
        if args and inputs is keyword:
            raise TypeError(
                f"{name} only takes keyword args (possible keys: {[*signature.parameters]}). "
                "Please pass these args as kwargs instead."
            )
        try:
            bound = signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise TypeError(f"{name}{signature}: {error}") from None
        given = {key: bound[each] for key, each in attrs.items() if each in bound}
        # A default of TensorFlow's may be given as None, which means itself.
        given = {
            key: value
            for key, value in given.items()
            if value is not None or op.signature.attrs[key].kind == "shape"
        }
        arrays = [bound[each] for each in values.values()]
        return finished(apply_op(op.op_type, *arrays, name=bound.get("name"), **given))

    build.__name__ = build.__qualname__ = name
    build.__doc__ = inspect.getdoc(type(op)) or f"Adds a node of {op.op_type}."
    build.__signature__ = signature  # type: ignore[attr-defined]
    return build
