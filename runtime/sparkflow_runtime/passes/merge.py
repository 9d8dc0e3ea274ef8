"""Merges common subexpressions: equal pure nodes on equal devices become one."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Mapping
from typing import Any, Final

import numpy as np

from sparkflow_runtime import dtypes
from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.ir.graph import Graph, rewired
from sparkflow_runtime.ir.node import SOURCE_ATTR, Endpoint, Node
from sparkflow_runtime.ops import registry

_WHOLE_BYTES: Final = 64
"""Constants up to this size are compared directly."""


def merge(graph: Graph, keep: Collection[str] = ()) -> Graph:
    """Returns the graph without repeated pure computations; the same object if there are none.

    Two nodes are equal if op, inputs, control inputs, requested device and attributes (except the
    source line) are. The inputs of a commutative op may be in any order. Reads of a variable are
    compared like other nodes: those that wait for different updates differ. Other stateful nodes
    and those that change variables are never merged.

    Args:
        graph: Any graph.
        keep: Names of nodes that must stay: the targets of the step.
    """
    seen: dict[Any, Node] = {}
    renamed: dict[str, str] = {}
    replaced: dict[Endpoint, Endpoint] = {}
    kept: list[Node] = []
    for original in graph.sorted():
        node = _renamed(rewired(original, replaced), renamed) if renamed else original
        key = _key(node)
        if key is None:
            kept.append(node)
            continue
        first = seen.setdefault(key, node)
        if first is node or node.name in keep:
            kept.append(node)
            continue
        renamed[node.name] = first.name
        outputs = registry.lookup(node.op).signature.output_dtypes(node.attrs)
        for slot in range(len(outputs)):
            replaced[Endpoint(node.name, slot)] = Endpoint(first.name, slot)
    return Graph(kept) if renamed else graph


def _renamed(node: Node, renamed: dict[str, str]) -> Node:
    if not any(name in renamed for name in node.control_inputs):
        return node
    control = tuple(dict.fromkeys(renamed.get(name, name) for name in node.control_inputs))
    return Node(node.name, node.op, node.inputs, control, node.device, node.attrs)


def _key(node: Node) -> Any:
    if not registry.contains(node.op):
        return None
    op = registry.lookup(node.op)
    signature = op.signature
    if op.takes_step or (op.stateful and not op.reads_variable) or not signature.outputs:
        return None
    if signature.binds_to_inputs and any(d.is_ref for d in signature.input_dtypes(node.attrs)):
        return None
    inputs: Any = node.inputs
    if op.commutative and not _joins_texts(node):
        inputs = inputs if inputs[0] <= inputs[1] else (inputs[1], inputs[0])
    control = frozenset(node.control_inputs) if node.control_inputs else None
    return node.op, inputs, control, node.device, *_attrs(node, signature.attrs)


def _joins_texts(node: Node) -> bool:
    return node.attrs.get("T") is dtypes.string


def _attrs(node: Node, declared: Mapping[str, Any]) -> list[Any]:
    """Returns the attribute values, and the names of attributes that the op does not declare."""
    attrs = node.attrs
    found: list[Any] = [_value(attrs[name]) for name in declared if name in attrs]
    if len(found) + (SOURCE_ATTR in attrs) < len(attrs):
        for name in sorted(attrs.keys() - declared.keys() - {SOURCE_ATTR}):
            found.append(name)
            found.append(_value(attrs[name]))
    return found


def _value(value: Any) -> Any:
    if isinstance(value, DType):
        return value.number
    return value if type(value) in _HASHABLE else _hashable(value)


_HASHABLE: Final = frozenset({str, int, bool, type(None)})


def _hashable(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            return value.shape, tuple(value.reshape(-1).tolist())
        if value.nbytes <= _WHOLE_BYTES:
            return value.shape, value.dtype.str, value.tobytes()
        return _Content(value)
    if isinstance(value, list | tuple):
        return tuple([_value(item) for item in value])
    return type(value).__name__, value


class _Content:
    """A large array as a key: equal if shape, dtype and every byte are."""

    __slots__ = ("_hash", "bytes", "kind")

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.bytes = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        self.kind = (array.shape, array.dtype.str)
        self._hash = hash((self.kind, zlib.crc32(self.bytes.data)))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, _Content) or self._hash != other._hash:
            return False
        return self.kind == other.kind and bool(np.array_equal(self.bytes, other.bytes))
