"""Arithmetic rules that change no value, or not more than TensorFlow's optimizer does.

`x + 0.0` stays, because it changes -0.0 to 0. As in TensorFlow, `Pow` by 2, 0.5, -1 and -0.5
becomes the specific op, which may differ in the last bit, and for roots of -0.0 and -inf.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from sparkflow_runtime.ir.node import Endpoint, Node
from sparkflow_runtime.passes.simplify.rewriting import (
    Result,
    Rewriting,
    Rule,
    Rules,
    changed,
    with_inputs,
)

_MAX_LOOKED_AT: Final = 1 << 12
"""Maximum size of constants that are checked for equal elements."""
_PLAIN_KINDS: Final = "biuf"

Array = np.ndarray[Any, Any]


def _is_one(value: Array) -> bool:
    return bool((value == 1).all())


def _is_added_zero(value: Array) -> bool:
    """Zeros that leave -0.0 alone when they are added."""
    return not value.any() and (value.dtype.kind != "f" or bool(np.signbit(value).all()))


def _is_subtracted_zero(value: Array) -> bool:
    return not value.any() and (value.dtype.kind != "f" or not np.signbit(value).any())


def _is_true(value: Array) -> bool:
    return bool(value.all())


def _is_false(value: Array) -> bool:
    return not value.any()


_NEUTRAL: Final[dict[str, tuple[Callable[[Array], bool], tuple[int, ...]]]] = {
    "Mul": (_is_one, (0, 1)),
    "RealDiv": (_is_one, (1,)),
    "Div": (_is_one, (1,)),
    "TruncateDiv": (_is_one, (1,)),
    "Pow": (_is_one, (1,)),
    "Add": (_is_added_zero, (0, 1)),
    "AddV2": (_is_added_zero, (0, 1)),
    "Sub": (_is_subtracted_zero, (1,)),
    "LogicalAnd": (_is_true, (0, 1)),
    "LogicalOr": (_is_false, (0, 1)),
}
"""Neutral element and its input index, per binary op."""


def _plain_constant(g: Rewriting, endpoint: Endpoint) -> Array | None:
    value = g.constant(endpoint)
    if value is None or value.dtype.kind not in _PLAIN_KINDS:
        return None
    return value if 0 < value.size <= _MAX_LOOKED_AT else None


def broadcasts_into(g: Rewriting, small: Array, x: Endpoint) -> bool:
    """Whether broadcasting a constant against `x` results in the shape of `x`."""
    if small.ndim == 0:
        return True
    shape = g.shape(x)
    if shape is None or small.ndim > len(shape):
        return False
    pairs = zip(reversed(small.shape), reversed(shape), strict=False)
    return all(mine in (1, theirs) for mine, theirs in pairs)


def _without_neutral(g: Rewriting, node: Node) -> Result:
    is_neutral, places = _NEUTRAL[node.op]
    for place in places:
        value = _plain_constant(g, node.inputs[place])
        if value is not None and is_neutral(value):
            x = node.inputs[1 - place]
            if broadcasts_into(g, value, x):
                return x
    return None


def _times_minus_one(g: Rewriting, node: Node) -> Result:
    for place in (0, 1):
        value = _plain_constant(g, node.inputs[place])
        x = node.inputs[1 - place]
        if value is None or value.dtype.kind != "f" or (value != -1).any():
            continue
        if broadcasts_into(g, value, x):
            return changed(node, "Neg", [x], T=node.attrs["T"])
    return None


def _divided_by_power_of_two(g: Rewriting, node: Node) -> Result:
    """Multiplies by the reciprocal, if that is exact."""
    value = _plain_constant(g, node.inputs[1])
    if value is None or value.dtype.kind != "f":
        return None
    with np.errstate(all="ignore"):
        inverse = np.asarray(1 / value, value.dtype)
        exact = (np.abs(np.frexp(value)[0]) == 0.5) & np.isfinite(inverse) & (inverse != 0)
    if not exact.all():
        return None
    return changed(
        node, "Mul", [node.inputs[0], g.const(node, "reciprocal", inverse)], T=node.attrs["T"]
    )


_POWERS: Final = {2.0: "Square", 0.5: "Sqrt", -1.0: "Reciprocal", -0.5: "Rsqrt"}


def _power(g: Rewriting, node: Node) -> Result:
    exponent = _plain_constant(g, node.inputs[1])
    if exponent is None or exponent.dtype.kind != "f" or (exponent != exponent.flat[0]).any():
        return None
    op = _POWERS.get(float(exponent.flat[0]))
    if op is None or not broadcasts_into(g, exponent, node.inputs[0]):
        return None
    return changed(node, op, [node.inputs[0]], T=node.attrs["T"])


def _twice(*inner: str) -> Rule:
    """The op undoes itself."""

    def rule(g: Rewriting, node: Node) -> Result:
        first = g.source(node.inputs[0], *inner)
        return first.inputs[0] if first is not None else None

    return rule


def _once_is_enough(g: Rewriting, node: Node) -> Result:
    first = g.source(node.inputs[0], node.op)
    return node.inputs[0] if first is not None else None


def _of_negated(g: Rewriting, node: Node) -> Result:
    first = g.source(node.inputs[0], "Neg")
    return with_inputs(node, first.inputs[0]) if first is not None else None


def _sum_with_negated(g: Rewriting, node: Node) -> Result:
    """X + -y is x - y."""
    for place in (1, 0):
        negated = g.source(node.inputs[place], "Neg")
        if negated is not None:
            inputs = [node.inputs[1 - place], negated.inputs[0]]
            return changed(node, "Sub", inputs, T=node.attrs["T"])
    return None


def _less_negated(g: Rewriting, node: Node) -> Result:
    """X - -y is x + y."""
    negated = g.source(node.inputs[1], "Neg")
    if negated is None:
        return None
    return changed(node, "AddV2", [node.inputs[0], negated.inputs[0]], T=node.attrs["T"])


def _both_negated(g: Rewriting, node: Node) -> Result:
    found = [g.source(endpoint, "Neg") for endpoint in node.inputs]
    if found[0] is None or found[1] is None:
        return None
    return with_inputs(node, found[0].inputs[0], found[1].inputs[0])


def _added(g: Rewriting, node: Node) -> Result:
    """AddN of one input is that input; of two with one shape it is an addition, which is fused."""
    if len(node.inputs) == 1:
        return node.inputs[0]
    same = len(set(node.inputs)) == 1
    if len(node.inputs) == 2 and (same or g.same_sizes(*node.inputs)):
        return changed(node, "AddV2", node.inputs, T=node.attrs["T"])
    return None


RULES: Final[Rules] = {
    "Mul": (_without_neutral, _times_minus_one, _both_negated),
    "RealDiv": (_without_neutral, _divided_by_power_of_two, _both_negated),
    "Div": (_without_neutral,),
    "TruncateDiv": (_without_neutral,),
    "Pow": (_without_neutral, _power),
    "Add": (_without_neutral, _sum_with_negated),
    "AddV2": (_without_neutral, _sum_with_negated),
    "Sub": (_without_neutral, _less_negated),
    "LogicalAnd": (_without_neutral,),
    "LogicalOr": (_without_neutral,),
    "Neg": (_twice("Neg"),),
    "LogicalNot": (_twice("LogicalNot"),),
    "Conj": (_twice("Conj"),),
    "Invert": (_twice("Invert"),),
    "Abs": (_once_is_enough, _of_negated),
    "Square": (_of_negated,),
    "Relu": (_once_is_enough,),
    "Relu6": (_once_is_enough,),
    "Floor": (_once_is_enough,),
    "Ceil": (_once_is_enough,),
    "Rint": (_once_is_enough,),
    "Sign": (_once_is_enough,),
    "AddN": (_added,),
    "AccumulateNV2": (_added,),
}
