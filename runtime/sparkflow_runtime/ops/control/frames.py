"""Control flow of TensorFlow's first releases, for reading their graphs.

`cond` was Switch and Merge, `while_loop` these with Enter, Exit and NextIteration. The nodes are
defined here with their types and shapes, so that such graphs can be imported, cut and exported.
They have no kernels: `passes.raise_control_flow` converts them to `If` and `While` before a step
runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sparkflow_runtime import dtypes, shapes
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.inference import attribute, same_as, unknown
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.ops.op import Inference, NodeView, Op, not_differentiable
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import bool_attr, int_attr, shape_attr, string_attr, type_attr
from sparkflow_runtime.shapes import Shape

_FRAME = {
    "T": type_attr(),
    "frame_name": string_attr(),
    "is_constant": bool_attr(False),
    "parallel_iterations": int_attr(10),
}


class _Frame(Op):
    is_frame = True
    stateful = True
    kernels = {}
    attrs = {"T": type_attr()}
    infer = same_as(0)


@register
class Switch(_Frame):
    """`data` on the output that `pred` chooses; nothing on the other."""

    inputs = "data: T, pred: bool"
    outputs = "output_false: T, output_true: T"

    def infer(self, node: Inference) -> Sequence[Shape]:
        """Both have the shape of the data."""
        return [node.shapes[0], node.shapes[0]]


@register
class RefSwitch(Switch):
    """`Switch` of a variable."""

    inputs = "data: Ref(T), pred: bool"
    outputs = "output_false: Ref(T), output_true: Ref(T)"


@register
class Merge(_Frame):
    """The input that is available, and its number."""

    inputs = "inputs: N * T"
    outputs = "output: T, value_index: int32"
    attrs = {"T": type_attr(), "N": int_attr(minimum=1)}

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The shape of the inputs if they agree; a scalar."""
        first = node.shapes[0]
        return [first if all(each == first for each in node.shapes) else None, shapes.SCALAR]


@register
class RefMerge(Merge):
    """`Merge` of variables."""

    inputs = "inputs: N * Ref(T)"
    outputs = "output: Ref(T), value_index: int32"


@register
class Enter(_Frame):
    """Passes a tensor into a loop."""

    inputs = "data: T"
    outputs = "output: T"
    attrs = _FRAME


@register
class RefEnter(Enter):
    """`Enter` of a variable."""

    inputs = "data: Ref(T)"
    outputs = "output: Ref(T)"


@register
class Exit(_Frame):
    """Passes a tensor out of a loop."""

    inputs = "data: T"
    outputs = "output: T"


@register
class NextIteration(_Frame):
    """Passes a tensor to the next iteration of a loop."""

    inputs = "data: T"
    outputs = "output: T"


@register
class LoopCond(_Frame):
    """Whether there is another iteration."""

    inputs = "input: bool"
    outputs = "output: bool"
    attrs = {}


@register
class RefExit(Exit):
    """`Exit` of a variable."""

    inputs = "data: Ref(T)"
    outputs = "output: Ref(T)"


@register
class RefNextIteration(NextIteration):
    """`NextIteration` of a variable."""

    inputs = "data: Ref(T)"
    outputs = "output: Ref(T)"


@register
class ControlTrigger(Op):
    """A control dependency that runs even if its inputs do not."""

    stateful = True

    def compute(self, xp: Any) -> None:
        """Nothing happens."""


@register
class FakeParam(Op):
    """A placeholder for a tensor that the chosen branch does not compute and nothing reads."""

    outputs = "output: dtype"
    attrs = {"dtype": type_attr(), "shape": shape_attr()}
    kernels = {"CPU": None, "GPU": None}
    gradient = not_differentiable
    infer = attribute("shape")

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """As few zeros as the shape allows; nothing for handles."""
        dtype, shape = node.attrs["dtype"], node.attrs["shape"] or ()
        if dtype in (dtypes.variant, dtypes.resource):
            return lambda: None
        sizes = tuple(size or 0 for size in shape)
        if dtype is dtypes.string:
            return lambda: np.full(sizes, b"", object)
        return lambda: context.xp.zeros(sizes, dtype.as_numpy_dtype)


@register
class NoValue(Op):
    """Raises an error: a fetch needs a tensor that the chosen branch does not compute. Ours."""

    type = "_NoValue"
    outputs = "output: dtype"
    attrs = {"dtype": type_attr(), "index": int_attr(0)}
    stateful = True
    gradient = not_differentiable
    infer = unknown

    def compute(self, xp: Any, *, dtype: Any, index: int) -> Any:
        """Raises InvalidArgumentError."""
        raise InvalidArgumentError(message=f"Retval[{index}] does not have value")
