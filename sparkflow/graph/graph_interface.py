"""The methods of `tf.Graph` besides those that add and find nodes, in TensorFlow's terms."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sparkflow.graph.collections import Collections
from sparkflow.graph.operation import Operation
from sparkflow_runtime.ir import graph_def
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.signature import Arg
from sparkflow_runtime.protos import attr_value_pb2, op_def_pb2, versions_pb2


class GraphInterface(Collections):
    """The part of `Graph` that is written with the rest of it."""

    _producer = graph_def.PRODUCER_VERSION

    @abstractmethod
    def add_node(
        self,
        op_type: str,
        inputs: Sequence[Any] = (),
        attrs: Mapping[str, Any] | None = None,
        name: str | None = None,
    ) -> Operation:
        """See `Graph`."""

    @abstractmethod
    def get_operations(self) -> list[Operation]:
        """See `Graph`."""

    def create_op(
        self,
        op_type: str,
        inputs: Sequence[Any],
        dtypes: Any = None,
        input_types: Any = None,
        name: str | None = None,
        attrs: Mapping[str, Any] | None = None,
        op_def: Any = None,
        compute_shapes: bool = True,
        compute_device: bool = True,
    ) -> Operation:
        """Adds one node, with TensorFlow's order of arguments.

        Args:
            op_type: A registered op type.
            inputs: The tensors, lists flattened or not.
            dtypes: Not looked at: the op knows them.
            input_types: Not looked at.
            name: Made unique in the open name scope; the op type when None.
            attrs: Attributes by name, as values or as `AttrValue` messages.
            op_def: Not looked at.
            compute_shapes: Not looked at: shapes are always inferred.
            compute_device: Not looked at: device scopes always apply.

        Raises:
            TypeError, ValueError, RuntimeError, NotFoundError: As `add_node`.
        """
        given = {
            key: graph_def.import_attr(value)
            if isinstance(value, attr_value_pb2.AttrValue)
            else value
            for key, value in (attrs or {}).items()
        }
        return self.add_node(op_type, _by_argument(op_type, inputs, given), given, name)

    @property
    def collections(self) -> list[str]:
        """The names of all collections."""
        return [name for name in self.get_all_collection_keys() if isinstance(name, str)]

    @property
    def graph_def_versions(self) -> versions_pb2.VersionDef:
        """The version that `as_graph_def` says the graph is of."""
        return versions_pb2.VersionDef(producer=self._producer)

    def _take_versions(self, versions: versions_pb2.VersionDef) -> None:
        """Remembers the oldest version that nodes here were written in."""
        self._producer = min(self._producer, versions.producer)

    @property
    def operations(self) -> list[Operation]:
        """Every operation, in the order of their making."""
        return self.get_operations()

    def num_operations(self) -> int:
        """How many operations there are."""
        return len(self.get_operations())

    def op_def_for_type(self, type: str) -> op_def_pb2.OpDef:
        """The op type as a message.

        Raises:
            NotFoundError: There is no such op type.
        """
        from sparkflow.graph.nodes.op_defs import op_def

        return op_def(registry.lookup(type))


class PerThread(threading.local):
    """Stands for an object of which every thread has its own.

    Args:
        make: Makes the object of a thread when it first uses it.
    """

    def __init__(self, make: Callable[[], Any]) -> None:
        self.own = make()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.own, name)


def per_thread(make: Callable[[], Any], mine: Any) -> Any:
    """Such an object, which is `mine` in this thread."""
    found = PerThread(make)
    found.own = mine
    return found


def _by_argument(op_type: str, inputs: Sequence[Any], attrs: Mapping[str, Any]) -> list[Any]:
    """The inputs one per argument; tensors in a row where an argument is a list become one."""
    args = registry.lookup(op_type).signature.inputs
    if not any(arg.is_list for arg in args) or any(isinstance(each, list) for each in inputs):
        return list(inputs)
    rest, grouped = list(inputs), []
    for place, arg in enumerate(args):
        if not arg.is_list:
            grouped.append(rest.pop(0))
            continue
        last = not any(each.is_list for each in args[place + 1 :])
        after = len(args) - place - 1
        count = len(rest) - after if last else _count(arg, attrs)
        grouped.append(rest[:count])
        del rest[:count]
    return grouped


def _count(arg: Arg, attrs: Mapping[str, Any]) -> int:
    if arg.number_attr is not None:
        return int(attrs[arg.number_attr])
    return len(attrs[str(arg.list_attr)])
