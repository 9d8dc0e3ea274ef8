"""`Tensor`: one output of an operation, as a symbol."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from sparkflow._api import export
from sparkflow.graph.default_stack import sessions
from sparkflow.graph.operators import Operators
from sparkflow.graph.shapes.tensor_shape import TensorShape, to_shape
from sparkflow_runtime import shapes
from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.ir.node import Endpoint
from sparkflow_runtime.shapes import Shape

if TYPE_CHECKING:
    from sparkflow.graph.graph import Graph
    from sparkflow.graph.operation import Operation


@export("Tensor")
class Tensor(Operators):
    """One output of an operation. Holds no value: `Session.run` computes it.

    Tensors are compared and hashed by identity, as in TensorFlow 1; `tf.equal` compares values.

    Attributes:
        op: The operation that makes it.
        value_index: Which output of the operation it is.
        dtype: The element type; a `_ref` type for the mutable output of a variable.
        assign: Only of a part `v[...]` of a variable: a function that sets that part.
    """

    OVERLOADABLE_OPERATORS: ClassVar = frozenset(
        name
        for name, member in (*vars(Operators).items(), ("__eq__", len), ("__ne__", len))
        if name.startswith("__") and callable(member)
    )
    __slots__ = ("__weakref__", "_shape", "assign", "dtype", "op", "value_index")

    assign: Callable[..., Any]

    def __init__(self, op: Operation, value_index: int, dtype: DType, shape: Shape) -> None:
        self.op = op
        self.value_index = value_index
        self.dtype = dtype
        self._shape = shape

    @property
    def name(self) -> str:
        """`operation:index`."""
        return f"{self.op.name}:{self.value_index}"

    @property
    def graph(self) -> Graph:
        """The graph it belongs to."""
        return self.op.graph

    @property
    def device(self) -> str:
        """The device asked for its operation, "" when free."""
        return self.op.device

    @property
    def shape(self) -> TensorShape:
        """The static shape."""
        return TensorShape(self._shape)

    @property
    def endpoint(self) -> Endpoint:
        """The runtime's name of it."""
        return Endpoint(self.op.name, self.value_index)

    @property
    def ndim(self) -> int | None:
        """The number of dimensions, None where it is not known."""
        return self.shape.ndims

    def get_shape(self) -> TensorShape:
        """The same as `shape`."""
        return self.shape

    def set_shape(self, shape: Any) -> None:
        """Adds knowledge about the static shape.

        Raises:
            ValueError: It contradicts what is known.
        """
        given = to_shape(shape)
        if not shapes.is_compatible(self._shape, given):
            raise ValueError(
                f"{shapes.difference(self._shape or (), given or ())} "
                f"They are that of {self.name!r} and the one to set."
            )
        merged = shapes.merge(self._shape, given)
        if merged != self._shape:
            self._shape = merged
            self.op.graph.root.known_values.look_again()

    def consumers(self) -> list[Operation]:
        """The operations that read it. Looks through the whole graph."""
        operations = self.op.graph.get_operations()
        return [op for op in operations if any(each is self for each in op.inputs)]

    def eval(self, feed_dict: Any = None, session: Any = None) -> Any:
        """Its value, computed by `session` or the default session.

        Raises:
            ValueError: There is no session, or it runs another graph.
        """
        if session is None:
            session = sessions.top()
            if session is None:
                raise ValueError(
                    "Cannot evaluate tensor using `eval()`: No default session is registered. Use "
                    "`with sess.as_default()` or pass an explicit session to `eval(session=sess)`"
                )
            if session.graph is not self.op.graph:
                raise ValueError(
                    "Cannot use the default session to evaluate tensor: the tensor's graph is "
                    "different from the session's graph. Pass an explicit session to "
                    "`eval(session=sess)`."
                )
        elif session.graph is not self.op.graph:
            raise ValueError(
                "Cannot use the given session to evaluate tensor: the tensor's graph is different "
                "from the session's graph."
            )
        return session.run(self, feed_dict)

    def _to_tensor(self, as_ref: bool = False) -> Tensor:
        return self

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __bool__(self) -> NoReturn:
        raise TypeError(
            "Using a `tf.Tensor` as a Python `bool` is not allowed in Graph execution. Use "
            "`if t is not None:` instead of `if t:` to test if a tensor is defined, and use "
            "TensorFlow ops such as tf.where to choose values depending on a tensor."
        )

    def __len__(self) -> NoReturn:
        raise TypeError(
            f"len is not well defined for Tensor {self.name}. Please call `x.shape` rather than "
            "`len(x)` for shape information."
        )

    def __iter__(self) -> NoReturn:
        raise TypeError(
            f"'Tensor' object {self.name} is not iterable: iterating over `tf.Tensor` is not "
            "allowed in Graph execution, as values are known only when a session runs it. Tensor "
            "objects are only iterable when eager execution is enabled. To iterate over this "
            "tensor use tf.map_fn, or tf.unstack to split it."
        )

    def __float__(self) -> float:
        raise TypeError(self._no_value("float()", "tf.cast(x, tf.float32)"))

    def __int__(self) -> int:
        raise TypeError(self._no_value("int()", "tf.cast(x, tf.int32)"))

    @property
    def numpy(self) -> Any:
        """Only tensors of eager execution have it; so `hasattr` says, too.

        Raises:
            AttributeError: Always.
        """
        raise AttributeError(self._no_value("numpy()", "functions of tf"))

    def _no_value(self, what: str, instead: str) -> str:
        return (
            f"{what} needs the value of Tensor {self.name}, which a graph has only while a session "
            f"runs it: session.run(x) returns it; in a graph use {instead}"
        )

    def __array__(self, dtype: Any = None, copy: Any = None) -> NoReturn:
        from sparkflow.graph.numpy_calls import describe

        raise NotImplementedError(describe("symbolic Tensor", self.name))

    def __str__(self) -> str:
        shape = "" if self._shape is None else f", shape={shapes.text(self._shape)}"
        device = f", device={self.device}" if self.device else ""
        return f'Tensor("{self.name}"{shape}, dtype={self.dtype.name}{device})'

    def __repr__(self) -> str:
        shape = shapes.text(self._shape)
        return f"<tf.Tensor '{self.name}' shape={shape} dtype={self.dtype.name}>"
