"""How the items of a collection become messages in a MetaGraphDef, and back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final

from sparkflow.graph.collections import GraphKeys
from sparkflow_runtime.protos.queue_runner_pb2 import QueueRunnerDef
from sparkflow_runtime.protos.saver_pb2 import SaverDef
from sparkflow_runtime.protos.variable_pb2 import VariableDef


@dataclass(frozen=True, slots=True)
class ProtoFunctions:
    """The two ways for one collection.

    Attributes:
        proto_type: The class of the message.
        to_proto: From (item, export_scope=) to the message, None where it is outside the scope.
        from_proto: From (message, import_scope=) to the item, whose nodes are in the default graph.
    """

    proto_type: type[Any]
    to_proto: Callable[..., Any]
    from_proto: Callable[..., Any]


VARIABLE_COLLECTIONS: Final = frozenset(
    {
        GraphKeys.GLOBAL_VARIABLES,
        GraphKeys.LOCAL_VARIABLES,
        GraphKeys.METRIC_VARIABLES,
        GraphKeys.MODEL_VARIABLES,
        GraphKeys.TRAINABLE_VARIABLES,
        GraphKeys.MOVING_AVERAGE_VARIABLES,
        GraphKeys.CONCATENATED_VARIABLES,
    }
)
"""Collections in which one variable may be several times."""
_registered: dict[str, ProtoFunctions] = {}


def register_proto_function(
    collection_name: str,
    proto_type: type[Any],
    to_proto: Callable[..., Any],
    from_proto: Callable[..., Any],
) -> None:
    """Makes the items of a collection of the user's own part of exported graphs.

    Args:
        collection_name: The collection.
        proto_type: The class of the messages.
        to_proto: From (item, export_scope=) to a message.
        from_proto: From (message, import_scope=) to an item.

    Raises:
        TypeError: A function cannot be called.
    """
    for function in (to_proto, from_proto):
        if not callable(function):
            raise TypeError(f"to_proto and from_proto must be callable, got {function!r}")
    _registered[collection_name] = ProtoFunctions(proto_type, to_proto, from_proto)


def proto_functions(collection_name: str) -> ProtoFunctions | None:
    """How the items of a collection become messages; None where they are written by name."""
    found = _registered.get(collection_name)
    if found is not None:
        return found
    if collection_name == GraphKeys.SAVERS:
        return ProtoFunctions(
            SaverDef, _to_proto, _from_proto("sparkflow.train.checkpoints.saver", "Saver")
        )
    if collection_name == GraphKeys.QUEUE_RUNNERS:
        make = _from_proto("sparkflow.train.queue_runner", "QueueRunner")
        return ProtoFunctions(QueueRunnerDef, _to_proto, make)
    if collection_name in VARIABLE_COLLECTIONS or collection_name == GraphKeys.GLOBAL_STEP:
        make = _from_proto("sparkflow.variables.variable", "Variable")
        return ProtoFunctions(VariableDef, _to_proto, make)
    return None


def _to_proto(item: Any, export_scope: str | None = None) -> Any:
    if not hasattr(item, "to_proto"):
        return None  # such as a tensor as the global step
    return item.to_proto(export_scope=export_scope)


def _from_proto(module: str, name: str) -> Callable[..., Any]:
    """The `from_proto` of a class, imported when it is first needed."""

    def make(message: Any, import_scope: str | None = None) -> Any:
        made_by: Any = getattr(import_module(module), name)
        return made_by.from_proto(message, import_scope=import_scope)

    return make
