"""`Operation`: one node of the graph under construction."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from sparkflow._api import export
from sparkflow.graph.default_stack import sessions
from sparkflow.graph.tensor import Tensor
from sparkflow_runtime.ir import graph_def, node
from sparkflow_runtime.ops import registry
from sparkflow_runtime.protos import attr_value_pb2, node_def_pb2, op_def_pb2

if TYPE_CHECKING:
    from sparkflow.graph.graph import Graph


def ancestors(ops: Iterable[Operation]) -> set[Operation]:
    """Returns the operations and everything that they wait for."""
    found: set[Operation] = set()
    stack = list(ops)
    while stack:
        op = stack.pop()
        if op not in found:
            found.add(op)
            stack += [tensor.op for tensor in op.inputs]
            stack += op.control_inputs
    return found


@export("Operation")
class Operation:
    """One node: an op type, its inputs, its attributes. Made by `Graph.add_node` only.

    Attributes:
        graph: The graph it belongs to.
        name: Unique in the graph.
        type: The op type.
        inputs: Data inputs, lists flattened.
        outputs: Its tensors.
        control_inputs: Operations that must have run before.
    """

    __slots__ = (
        "__weakref__",
        "_attrs",
        "_device",
        "control_inputs",
        "graph",
        "inputs",
        "name",
        "outputs",
        "type",
    )

    outputs: list[Tensor]

    def __init__(
        self,
        graph: Graph,
        name: str,
        op_type: str,
        inputs: tuple[Tensor, ...],
        attrs: dict[str, Any],
    ) -> None:
        self.graph = graph
        self.name = name
        self.type = op_type
        self.inputs = inputs
        self.control_inputs: list[Operation] = []
        self._attrs = attrs
        self._device = ""

    @property
    def device(self) -> str:
        """The device asked for, as a partial name; "" when free."""
        return self._device

    def _set_device(self, device: str) -> None:
        self._device = device

    @property
    def source(self) -> str:
        """The user's `file:line` that made it."""
        return str(self._attrs.get(node.SOURCE_ATTR, ""))

    def attr(self, name: str) -> Any:
        """The value of an attribute, in the runtime's canonical form.

        Raises:
            ValueError: There is no such attribute.
        """
        try:
            return self._attrs[name]
        except KeyError:
            raise ValueError(f"Operation '{self.name}' has no attr named '{name}'.") from None

    def get_attr(self, name: str) -> Any:
        """The value of an attribute, in TensorFlow's Python types.

        Texts are bytes; shapes, arrays and functions are messages (`TensorShapeProto`,
        `TensorProto`, `NameAttrList`); numbers, bools and dtypes are themselves.

        Raises:
            ValueError: There is no such attribute.
        """
        value = self.attr(name)
        kind = None
        if registry.contains(self.type):
            spec = registry.lookup(self.type).signature.attrs.get(name)
            kind = None if spec is None else spec.kind
        return _as_tensorflow_gives(value, graph_def.export_attr(value, kind))

    def _set_attr(self, name: str, value: Any) -> None:
        self._attrs[name] = value

    @property
    def op_def(self) -> op_def_pb2.OpDef:
        """The op type as a message.

        Raises:
            NotFoundError: This process has no such op type.
        """
        from sparkflow.graph.nodes import op_defs

        return op_defs.op_def(registry.lookup(self.type))

    @property
    def traceback(self) -> traceback.StackSummary:
        """The user's line that made it, as a stack of one frame; empty where it is not known."""
        path, _, line = self.source.rpartition(":")
        if not path:
            return traceback.StackSummary()
        return traceback.StackSummary.from_list([(path, int(line), "<unknown>", None)])

    def values(self) -> Sequence[Tensor]:
        """The same as `outputs`."""
        return self.outputs

    def colocation_groups(self) -> list[bytes]:
        """The groups of operations that share its device, as `loc:@name`."""
        groups = self._attrs.get(node.CLASS_ATTR)
        if not groups:
            groups = [f"{node.COLOCATION_PREFIX}{self.name}"]
        return [group.encode() for group in groups]

    def run(self, feed_dict: Any = None, session: Any = None) -> None:
        """Runs it in `session` or the default session.

        Raises:
            ValueError: There is no session, or it runs another graph.
        """
        if session is None:
            session = sessions.top()
            if session is None:
                raise ValueError(
                    "Cannot execute operation using `run()`: No default session is registered. Use "
                    "`with sess.as_default():` or pass an explicit session to `run(session=sess)`"
                )
            if session.graph is not self.graph:
                raise ValueError(
                    "Cannot use the default session to execute operation: the operation's graph is "
                    "different from the session's graph. Pass an explicit session to "
                    "run(session=sess)."
                )
        elif session.graph is not self.graph:
            raise ValueError(
                "Cannot use the given session to execute operation: the operation's graph is "
                "different from the session's graph."
            )
        session.run(self, feed_dict)

    def to_node(self) -> node.Node:
        """The operation as the runtime's value."""
        return node.Node(
            self.name,
            self.type,
            tuple(tensor.endpoint for tensor in self.inputs),
            tuple(op.name for op in self.control_inputs),
            self._device,
            self._attrs,
        )

    @property
    def node_def(self) -> node_def_pb2.NodeDef:
        """The operation as a message; the line that made it is no part of that."""
        exported = graph_def.export_node(self.to_node())
        exported.attr.pop(node.SOURCE_ATTR, None)
        return exported

    def __str__(self) -> str:
        return str(self.node_def)

    def __repr__(self) -> str:
        return f"<tf.Operation '{self.name}' type={self.type}>"


def _as_tensorflow_gives(value: Any, message: attr_value_pb2.AttrValue) -> Any:
    """An attribute's value, or for texts, shapes, arrays and functions what the message has."""
    field = message.WhichOneof("value")
    if field in ("s", "shape", "tensor", "func"):
        return getattr(message, field)
    if field != "list":
        return value
    for field in ("s", "shape", "tensor", "func"):
        if len(getattr(message.list, field)):
            return list(getattr(message.list, field))
    return list(value)
