"""What gradients of branches and loops read from the forward run.

A tape is a list with one entry per call of a function: the values of the body's tensors that
`passes.functions` found to be read. It is ours, not TensorFlow's; tapes never leave their device.
The gradient of a read is a tape too: `TapeGradient` holds, by iteration and tensor, the gradient to
add where the forward tensor was computed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sparkflow_runtime.ops.inference import same_as, scalars
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.ops.op import Inference, NodeView, Op, not_differentiable
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import list_attr, shape_attr, string_attr, type_attr
from sparkflow_runtime.shapes import Shape


@register
class TapeRead(Op):
    """The values of tensors of `function` in one of its calls."""

    type = "_TapeRead"
    inputs = "tape: variant, index: int32"
    outputs = "values: Tout"
    attrs = {
        "function": string_attr(),
        "names": list_attr("string"),
        "Tout": list_attr("type"),
        "output_shapes": list_attr("shape", []),
    }
    takes_step = False

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The shapes in the forward run, or else those that the front end found."""
        forward, declared = node.held(0).tensors, list(node.attrs["output_shapes"])
        if not forward:
            return declared
        names = node.attrs["names"]
        declared += [None] * (len(names) - len(declared))
        found = [forward.get(name) for name in names]
        return [b if a is None else a for a, b in zip(found, declared, strict=True)]

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """Selects from the entry of the call."""
        assert context.functions is not None, "a tape is read where its function is known"
        recorded = context.functions.taped(node.attrs["function"])
        places = [recorded.index(name) for name in node.attrs["names"]]

        def read(tape: Any, index: Any) -> tuple[Any, ...]:
            entry = tape[int(index)]
            return tuple([entry[place] for place in places])

        return read

    def gradient(self, g: Any, op: Any, *grads: Any) -> tuple[Any, None]:
        """Stores the gradients under the iteration and the tensors' names."""
        known = [(n, d) for n, d in zip(op.attr("names"), grads, strict=True) if d is not None]
        if not known:
            return None, None
        kept = g._TapeGradient(op.inputs[1], [d for _, d in known], names=[n for n, _ in known])
        return kept, None


@register
class TapeLength(Op):
    """The number of calls of a tape's function."""

    type = "_TapeLength"
    quiet = True
    inputs = "tape: variant"
    outputs = "length: int32"
    attrs = {"function": string_attr()}
    gradient = not_differentiable
    infer = scalars

    def compute(self, xp: Any, tape: Any) -> Any:
        """The number of entries."""
        return xp.asarray(len(tape), np.int32)


@register
class TapeGradient(Op):
    """Gradients of tensors that one `_TapeRead` returned, under their names and iteration."""

    type = "_TapeGradient"
    inputs = "index: int32, values: Tin"
    outputs = "gradient: variant"
    attrs = {"Tin": list_attr("type"), "names": list_attr("string")}
    infer = scalars

    def compute(self, xp: Any, index: Any, *values: Any, names: list[str]) -> Any:
        """A table of one row per tensor."""
        return {(int(index), name): value for name, value in zip(names, values, strict=True)}


@register
class TapeGradientRead(Op):
    """The gradient stored for one tensor and iteration; zeros if there is none."""

    type = "_TapeGradientRead"
    inputs = "gradient: variant, index: int32, like: T"
    outputs = "value: T"
    attrs = {"T": type_attr(), "name": string_attr(), "shape": shape_attr(None)}
    infer = same_as(2)

    def compute(self, xp: Any, gradient: Any, index: Any, like: Any, *, name: str) -> Any:
        """Looks it up."""
        found = gradient.get((int(index), name))
        return xp.zeros_like(like) if found is None else found
