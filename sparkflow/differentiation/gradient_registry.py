"""Which function gives the gradient of an operation.

In this order: the one that `Graph.gradient_override_map` asked for, one the user registered for the
op type, the front end's own (branches and loops, whose gradients build functions), the op's.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, Final, TypeVar

from sparkflow._api import export
from sparkflow.graph.graph import OVERRIDE_ATTR
from sparkflow.graph.operation import Operation
from sparkflow_runtime.ops import registry

BuildGradient = Callable[..., Any]
"""From the graph builder, the operation and the gradients of its outputs to those of its inputs."""
F = TypeVar("F", bound=Callable[..., Any])

_registered: dict[str, BuildGradient] = {}
_OURS: Final = {
    name: ("sparkflow.differentiation.control_flow", function)
    for function, names in {
        "if_gradient": ("If", "StatelessIf"),
        "case_gradient": ("Case", "StatelessCase"),
        "while_gradient": ("While", "StatelessWhile"),
        "call_gradient": ("PartitionedCall", "StatefulPartitionedCall"),
    }.items()
    for name in names
}


def gradient_of(op: Operation) -> BuildGradient:
    """The function that builds the gradient of `op`.

    Raises:
        LookupError: There is none.
    """
    override = op._attrs.get(OVERRIDE_ATTR)
    if override is not None and (op.type not in _OURS or override in _registered):
        return _named(override)  # a call's may name a function of the program that wrote the graph
    found = _registered.get(op.type)
    if found is not None:
        return found
    if op.type in _OURS:
        module, name = _OURS[op.type]
        ours: BuildGradient = getattr(import_module(module), name)
        return ours
    gradient = registry.lookup(op.type).gradient
    if gradient is None:
        raise LookupError(
            f"No gradient defined for operation '{op.name}' (op type: {op.type}), "
            f"defined at {op.source}"
        )
    return gradient


def _named(name: str) -> BuildGradient:
    found = _registered.get(name)
    if found is None and registry.contains(name):
        found = registry.lookup(name).gradient
    if found is None:
        raise LookupError(f"gradient registry has no entry for: {name}")
    return found


@export("RegisterGradient")
class RegisterGradient:
    """A decorator that makes a function the gradient of an op type, or of a name for overriding.

    The function takes the operation and one gradient per output, and returns one per input, each a
    tensor, `IndexedSlices` or None; a single one or a list.

    Args:
        op_type: The op type, or any name for `Graph.gradient_override_map`.

    Raises:
        TypeError: `op_type` is not a text.
        KeyError: The name has a gradient already.
    """

    def __init__(self, op_type: str) -> None:
        if not isinstance(op_type, str):
            raise TypeError("op_type must be a string")
        self._op_type = op_type

    def __call__(self, function: F) -> F:
        """Registers `function`."""

        def build(_: Any, op: Operation, *grads: Any) -> list[Any]:
            filled = [
                _zeros(op.outputs[index]) if grad is None else grad
                for index, grad in enumerate(grads)
            ]
            found = function(op, *filled)
            return list(found) if isinstance(found, list | tuple) else [found]

        _register(self._op_type, build)
        return function


def _zeros(tensor: Any) -> Any:
    from sparkflow.ops.shape.constants import zeros_like

    base = tensor.dtype.base
    return zeros_like(tensor) if base.is_floating or base.is_complex else None


@export("NoGradient", "NotDifferentiable", "no_gradient")
def not_differentiable(op_type: str) -> None:
    """Says that no gradient flows through ops of this type.

    Raises:
        TypeError: `op_type` is not a text.
        KeyError: The type has a gradient already.
    """
    if not isinstance(op_type, str):
        raise TypeError("op_type must be a string")
    _register(op_type, lambda _, op, *grads: [None] * len(op.inputs))


def _register(name: str, build: BuildGradient) -> None:
    if name in _registered:
        raise KeyError(f"Registering two gradient with name '{name}'!")
    _registered[name] = build


NotDifferentiable = NoGradient = no_gradient = not_differentiable
