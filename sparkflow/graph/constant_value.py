"""Values of tensors that follow from the graph alone, without running anything.

Shape inference needs the values of shape-like inputs (`Reshape`'s shape, `Sum`'s axes), which are
often computed from static shapes. Ops say what follows from what (`Op.value_rule`) and compute it
(`sparkflow_runtime.ops.evaluation`); here is the walk back through the graph, which remembers what
it found, so that a tensor is looked at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow.graph.tensor import Tensor
from sparkflow_runtime import shapes
from sparkflow_runtime.ops import evaluation, registry
from sparkflow_runtime.ops.value import Value, wholly
from sparkflow_runtime.shapes import Shape


def constant_value(tensor: Tensor) -> np.ndarray[Any, Any] | None:
    """The value of `tensor` if the graph determines every element, else None."""
    found = known_value(tensor)
    return None if found is None else found.whole


def stated_value(tensor: Tensor) -> np.ndarray[Any, Any] | None:
    """The value of `tensor` where its own node says it: a constant, or by shapes alone.

    None where it would have to be computed: what is wrong with a computed value is said by the step
    that computes it, for a branch that is never taken may have it.
    """
    op = tensor.op
    while len(op.inputs) == 1 and registry.lookup(op.type).value_rule.reads:
        op = op.inputs[0].op  # a cast, say
    computes = bool(op.inputs) and registry.lookup(op.type).value_rule.reads
    return None if computes and not op.graph.is_eager else constant_value(tensor)


def constant_value_as_shape(tensor: Tensor) -> Shape:
    """The shape that an integer vector describes, as far as it is known.

    -1 and everything unknown become unknown sizes.
    """
    found = known_value(tensor)
    if found is not None:
        return shapes.as_shape(found.elements())
    known = tensor._shape
    return None if known is None or len(known) != 1 else shapes.unknown(known[0])


def known_value(tensor: Tensor) -> Value | None:
    """What the graph tells of the value of `tensor`, None where that is nothing.

    Values are followed through every op that has no state and whose outputs are small; what may be
    fed or assigned (placeholders, also those with a default, and variables) is not known.
    """
    op = tensor.op
    if op.type == "Const":
        return Value(op.attr("value"))
    if op.graph.is_eager:
        held = getattr(tensor, "held", None)
        return wholly(np.asarray(held)) if isinstance(held, np.ndarray | np.generic) else None
    known = op.graph.root.known_values
    waiting = [tensor]
    while waiting:
        last = waiting[-1]
        missing = () if last in known else _find(last, known)
        if missing:
            waiting.extend(missing)
        else:
            waiting.pop()
    return known[tensor]


class KnownValues:
    """What was found of a graph's tensors, those of its functions included."""

    __slots__ = ("_partial", "_whole")

    def __init__(self) -> None:
        self._whole: dict[Tensor, Value] = {}
        self._partial: dict[Tensor, Value | None] = {}

    def __contains__(self, tensor: Tensor) -> bool:
        return tensor in self._whole or tensor in self._partial

    def __getitem__(self, tensor: Tensor) -> Value | None:
        return self._whole.get(tensor) or self._partial[tensor]

    def __setitem__(self, tensor: Tensor, value: Value | None) -> None:
        if value is not None and value.unknown is None:
            self._whole[tensor] = value
        else:
            self._partial[tensor] = value

    def look_again(self) -> None:
        """Forgets what was not known, or not wholly: a static shape tells more now."""
        if self._partial:
            self._partial.clear()


def _find(tensor: Tensor, known: KnownValues) -> list[Tensor]:
    """Notes the value of `tensor`, or gives the tensors whose values must be found before."""
    op = tensor.op
    if op.type == "Const":
        known[tensor] = Value(op.attr("value"))
        return []
    if op.type in ("_Arg", "If", "StatelessIf"):
        same, before = _same_value(tensor, known)
        if same is not None and same not in known:
            before = [same]
        if not before:
            known[tensor] = None if same is None else known[same]
        return before
    kind = registry.lookup(op.type)
    found = None
    if (
        op.inputs
        and not kind.stateful
        and all(evaluation.is_worth_following(each._shape, each.dtype) for each in op.outputs)
    ):
        rule = kind.value_rule
        values: list[Value | None] = []
        missing: list[Tensor] = []
        hopeless = False
        if rule.reads:
            for each in op.inputs:
                if each not in known:
                    missing.append(each)
                    continue
                value = known[each]
                values.append(value)
                hopeless = hopeless or (value is None and not rule.lenient)
        if missing and not hopeless:
            return missing if rule.lenient else missing[:1]
        if not hopeless and evaluation.is_computable(kind, op._attrs):
            static, kinds = [each._shape for each in op.inputs], [each.dtype for each in op.inputs]
            node = evaluation.NamedNode(op.name, op.type, op._attrs)
            found = evaluation.evaluate(kind, node, static, kinds, values)
    for slot, output in enumerate(op.outputs):
        known[output] = None if found is None else found[slot]
    return []


def _same_value(tensor: Tensor, known: KnownValues) -> tuple[Tensor | None, list[Tensor]]:
    """The tensor with the value of a captured argument, or of a result of the branch taken.

    Returns:
        The tensor, None where there is none; and what must be found before that can be said.
    """
    op = tensor.op
    if op.type == "_Arg":
        return op.graph.stands_for(tensor), []
    predicate = op.inputs[0]
    if predicate not in known:
        return None, [predicate]
    value = known[predicate]
    if value is None or value.whole is None or tensor is op.outputs[-1]:
        return None, []
    from sparkflow_runtime.ops.control.control_flow import is_true

    branch = op.attr("then_branch" if is_true(value.whole) else "else_branch")
    outputs = getattr(op.graph.root.find_function(branch), "outputs", None)
    return (outputs[tensor.value_index] if outputs else None), []


def variable_shape(handle: Tensor) -> Shape:
    """What is known of the shape of the variable that a handle stands for."""
    op = handle.op
    while not (kind := registry.lookup(op.type)).is_variable:
        captured = op.graph.stands_for(handle)
        if captured is None and not kind.passes_on and op.type not in ("Enter", "Switch"):
            return None
        handle = op.inputs[0] if captured is None else captured
        op = handle.op
    shape: Shape = op.attr("shape")
    return shape
