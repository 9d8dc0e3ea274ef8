"""The contract of an op: one class holds attributes, inference, kernel and gradient.

Subclasses, one family per file in this package, are registered by `@register`.
`compute` is written once for numpy and cupy through `xp`. Ops whose kernel keeps state between
steps, or needs the running step, override `bind`. Everything else that an op may declare is in
`traits`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.ops.signature import Attr, Signature, parse_args
from sparkflow_runtime.ops.traits import (
    CHECKPOINTS,
    FILES,
    NETWORK,
    PYTHON,
    REACHES,
    Arithmetic,
    Execution,
    Held,
    Inference,
    Memory,
    NodeView,
    Structure,
    Training,
)
from sparkflow_runtime.shapes import Shape

if TYPE_CHECKING:
    from sparkflow_runtime.ops.builder import GraphBuilder, OperationView
    from sparkflow_runtime.ops.kernel import KernelContext

__all__ = [
    "CHECKPOINTS",
    "FILES",
    "NETWORK",
    "PYTHON",
    "REACHES",
    "Array",
    "Held",
    "Inference",
    "NodeView",
    "Op",
    "keyword_names",
    "not_differentiable",
]

Array = Any
"""A numpy or cupy array or scalar."""


class Op(Memory, Arithmetic, Training, Structure, Execution):
    """One op type. Subclass, set the class attributes, implement the methods, `@register` it.

    This is what every op defines. The rest is inherited, with defaults that are right for any op:
    effects (`stateful`, ...) and memory (`aliases`, ...), arithmetic (`elementwise`, ...),
    training, structure, and how its kernels run; see `ops.traits`.

    Attributes:
        type: TensorFlow's op type name; the class name when not set.
        inputs, outputs: Argument lists, see `signature`.
        attrs: Attributes by name, in TensorFlow's order.
        kernels: Device types with a kernel, each with the dtypes it supports (None: all allowed).
        gradient: Builds the gradient; None where no gradient is defined. `not_differentiable`
            where gradients stop.
        is_ours: Whether TensorFlow has no op of that name; names that start with `_` are ours, too.
    """

    type: ClassVar[str] = ""
    inputs: ClassVar[str] = ""
    outputs: ClassVar[str] = ""
    attrs: ClassVar[Mapping[str, Attr]] = {}
    kernels: ClassVar[Mapping[str, frozenset[DType] | None]] = {"CPU": None, "GPU": None}
    gradient: ClassVar[Callable[..., Any] | None] = None
    is_ours: ClassVar[bool] = False

    def __init__(self) -> None:
        self.op_type = self.type or type(self).__name__
        self.signature = Signature(
            self.op_type,
            parse_args(self.inputs, self.attrs),
            parse_args(self.outputs, self.attrs),
            self.attrs,
        )
        self._compute_attrs = keyword_names(self.compute) & self.attrs.keys()

    def infer(self, node: Inference) -> Sequence[Shape]:
        """Returns the static shape of every output; `ops.inference` has common rules.

        Raises:
            InvalidArgumentError: The input shapes are incompatible; the message shows them.
        """
        if self.outputs:
            raise NotImplementedError(self.op_type)
        return []

    def compute(self, xp: Any, *inputs: Array, **attrs: Any) -> Any:
        """Returns one array, or a tuple of arrays if the op has several outputs.

        Implementations name the attributes they need as keyword arguments:
        `def compute(self, xp, a, b, *, transpose_a, transpose_b)`.
        """
        raise NotImplementedError(self.op_type)

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """Returns the function that runs this node: input arrays to the results of `compute`."""
        xp = context.xp
        compute = self.compute
        attrs = {name: node.attrs[name] for name in self._compute_attrs}
        if attrs:
            return lambda *inputs: compute(xp, *inputs, **attrs)
        return lambda *inputs: compute(xp, *inputs)

    @property
    def with_references(self) -> Op:
        """The op that does the same with references to variables instead of handles.

        Arguments have the same order. An op without such a form returns itself.
        """
        return self


def not_differentiable(
    op: Op, graph: GraphBuilder, node: OperationView, *grads: Any
) -> tuple[None, ...]:
    """The gradient of non-differentiable ops (comparisons, shapes, integers)."""
    return (None,) * len(node.inputs)


def keyword_names(function: Callable[..., Any]) -> set[str]:
    """The keyword-only arguments of a function."""
    parameters = inspect.signature(function).parameters.values()
    return {p.name for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY}
