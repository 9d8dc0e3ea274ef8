"""Layers as functions: `tf.layers.conv2d(inputs, ...)` applies a new `Conv2D(...)`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from inspect import Parameter
from typing import Any, Concatenate, Final, ParamSpec

from sparkflow.graph.scopes import convert_to_tensor
from sparkflow.graph.tensor import Tensor
from sparkflow.layers.base import Layer

P = ParamSpec("P")
_INPUTS: Final = {
    1: "sequences [batch, width, channels]",
    2: "images [batch, height, width, channels]",
    3: "volumes [batch, depth, height, width, channels]",
}


def functional(
    name: str, kind: Callable[P, Layer], rank: int, has_variables: bool = True
) -> Callable[Concatenate[Any, P], Tensor]:
    """The function that makes a layer of a class and applies it.

    It takes the inputs, then what the class takes, then, where the layer has variables, `reuse`:
    whether to share those of the layer of that name.

    Args:
        name: What it is called.
        kind: The class.
        rank: How many dimensions its inputs have beside batch and channels.
        has_variables: Whether the layer has variables, of the dtype of the inputs.
    """
    taken = inspect.signature(kind).parameters.values()
    parameters = [
        Parameter("inputs", Parameter.POSITIONAL_OR_KEYWORD, annotation="Any"),
        *(each for each in taken if each.kind is not Parameter.VAR_KEYWORD),
    ]
    if has_variables:
        reuse = Parameter("reuse", Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation="Any")
        parameters.append(reuse)
    signature = inspect.Signature(parameters, return_annotation="Tensor")

    def apply(*args: Any, **kwargs: Any) -> Tensor:
        try:
            given = signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise TypeError(f"{name}() {error}") from None
        values = given.pop("inputs")
        if has_variables:
            values = convert_to_tensor(values)
            given["_reuse"], given["_scope"] = given.pop("reuse", None), given.get("name")
            given["dtype"] = values.dtype.base
        made: Any = kind
        result: Tensor = made(**given)(values)
        return result

    apply.__name__ = apply.__qualname__ = name
    apply.__module__ = kind.__module__
    apply.__doc__ = f"A `{getattr(kind, '__name__', name)}` layer applied to {_INPUTS[rank]}."
    apply.__annotations__ = {each.name: each.annotation for each in parameters}
    apply.__annotations__["return"] = "Tensor"
    apply.__signature__ = signature  # type: ignore[attr-defined]  # read by `inspect`
    return apply
