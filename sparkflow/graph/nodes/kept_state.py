"""Who may change the state that a node reads.

A digest says from what a node computes. It does not say what a variable or a queue holds when it
does: that is decided by whatever else in the graph writes there, and by who shares its name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set

from sparkflow.graph.nodes.content import Digests, callees
from sparkflow_runtime import dtypes
from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.errors import OpError
from sparkflow_runtime.ir.graph_def import import_attr
from sparkflow_runtime.ops import registry
from sparkflow_runtime.protos.function_pb2 import FunctionDef
from sparkflow_runtime.protos.graph_pb2 import GraphDef
from sparkflow_runtime.protos.node_def_pb2 import NodeDef


class KeptState:
    """The variables, queues, readers and so on of a graph, and who has hold of them.

    Args:
        graph_def: The graph.
        functions: What its nodes may call, by name.
        digests: Of its nodes.
    """

    def __init__(
        self, graph_def: GraphDef, functions: Mapping[str, FunctionDef], digests: Digests
    ) -> None:
        self._nodes = {node.name: node for node in graph_def.node}
        self._functions = functions
        self._digests = digests
        self._readers: dict[str, list[str]] = {}
        for node in graph_def.node:
            for name in _read(node):
                self._readers.setdefault(name, []).append(node.name)
        kept = {node.name: self._names_kept(node) for node in graph_def.node}
        self._holders = {name: names for name, names in kept.items() if names}
        # What functions do with their state is seen by nobody outside.
        self._callers = [name for name in self._holders if not _holds(self._nodes[name])]

    def changers(self, node: NodeDef, inputs: Iterable[str]) -> set[bytes | None]:
        """Digests of all nodes that may change what a node gets from kept state.

        Args:
            node: The node. Where it makes a handle itself, whoever uses that is one of them.
            inputs: Those of its inputs that count, as it names them.

        Returns:
            None among them is a node that has no digest.
        """
        changing: set[str] = set()
        known: set[str] = set()
        todo = [node.name]
        for each in inputs:
            todo += self._above(each.partition(":")[0])
        while todo:
            name = todo.pop()
            if name in known:
                continue
            known.add(name)
            for holder in self._sharing(self._holders.get(name, frozenset())):
                for user in self._users(holder):
                    if user not in changing:
                        changing.add(user)
                        todo += self._above(user)
        changing.discard(node.name)
        return {self._digests.of(name) for name in changing}

    def _names_kept(self, node: NodeDef) -> frozenset[str]:
        """The names of the state that a node makes or finds, itself or in functions."""
        found = {_name_of(node)} if _holds(node) else set()
        called: set[str] = set()
        todo = [*callees(node)]
        while todo:
            name = todo.pop()
            if name not in called and name in self._functions:
                called.add(name)
                for inner in self._functions[name].node_def:
                    if _holds(inner):
                        found.add(_name_of(inner))
                    todo += callees(inner)
        return frozenset(found)

    def _sharing(self, names: Set[str]) -> Iterator[str]:
        """The nodes that may hold state of these names: an import puts a scope before a name."""
        if names:
            yield from self._callers
            for holder, others in self._holders.items():
                if any(_is_same(one, other) for one in names for other in others):
                    yield holder

    def _users(self, holder: str) -> Iterator[str]:
        """A node that holds state, and whoever its handle gets to."""
        seen = {holder}
        todo = [holder]
        while todo:
            name = todo.pop()
            yield name
            if name != holder and not _hands_on(self._nodes[name]):
                continue
            for reader in self._readers.get(name, ()):
                if reader not in seen:
                    seen.add(reader)
                    todo.append(reader)

    def _above(self, name: str) -> Iterator[str]:
        """A node and all that it computes from."""
        seen = {name}
        todo = [name]
        while todo:
            top = todo.pop()
            yield top
            node = self._nodes.get(top)
            for each in _read(node) if node is not None else ():
                if each not in seen:
                    seen.add(each)
                    todo.append(each)


def _read(node: NodeDef) -> Iterator[str]:
    return (each.partition(":")[0] for each in node.input if not each.startswith("^"))


def _holds(node: NodeDef) -> bool:
    """Whether a node makes or finds something that outlasts a step, by its own name or another."""
    if not registry.contains(node.op) or not registry.lookup(node.op).stateful:
        return False
    return _hands_on(node) and not any(map(_is_handle, _dtypes(node, of_inputs=True)))


def _hands_on(node: NodeDef) -> bool:
    """Whether handles or references may come out of a node."""
    return not registry.contains(node.op) or any(map(_is_handle, _dtypes(node)))


def _is_handle(dtype: DType) -> bool:
    return dtype.is_ref or dtype is dtypes.resource


def _dtypes(node: NodeDef, of_inputs: bool = False) -> Sequence[DType]:
    signature = registry.lookup(node.op).signature
    try:
        attrs = signature.read_attrs({key: import_attr(each) for key, each in node.attr.items()})
        return signature.input_dtypes(attrs) if of_inputs else signature.output_dtypes(attrs)
    except (OpError, KeyError):
        return () if of_inputs else (dtypes.resource,)


def _name_of(node: NodeDef) -> str:
    shared = node.attr["shared_name"].s if "shared_name" in node.attr else b""
    return shared.decode("utf-8", "replace") or node.name


def _is_same(one: str, other: str) -> bool:
    return one == other or one.endswith(f"/{other}") or other.endswith(f"/{one}")
