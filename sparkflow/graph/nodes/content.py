"""Nodes by what they compute: equal digests compute the same, whatever their names and devices."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping

from sparkflow.graph.nodes.op_defs import without_default_attrs
from sparkflow_runtime.ir.graph_def import called_functions
from sparkflow_runtime.protos.function_pb2 import FunctionDef
from sparkflow_runtime.protos.graph_pb2 import GraphDef
from sparkflow_runtime.protos.node_def_pb2 import NodeDef


class Digests:
    """Digests of the nodes of a graph, over all that they read.

    What they only wait for does not count, nor do names, devices, attributes that begin with `_`,
    and attributes that say what is taken for granted.

    Args:
        graph_def: The graph.
        functions: What its nodes may call, by name; what it has itself if None.
    """

    def __init__(
        self, graph_def: GraphDef, functions: Mapping[str, FunctionDef] | None = None
    ) -> None:
        self._nodes = {node.name: node for node in graph_def.node}
        self._functions = library_of(graph_def) if functions is None else functions
        self._found: dict[str, bytes | None] = {}

    def of(self, name: str) -> bytes | None:
        """The digest of a node; None where it reads itself, or what is not in the graph."""
        todo = [name]
        open_: set[str] = set()
        while todo:
            top = todo[-1]
            if top in self._found:
                todo.pop()
                continue
            node = self._nodes.get(top)
            if node is None:
                self._found[top] = None
                continue
            read = [_read(each) for each in node.input if not each.startswith("^")]
            missing = [each for each, _ in read if each not in self._found]
            if top in open_ or not missing:
                # What is still missing now reads this node.
                self._found[top] = self._digest(node, read)
            else:
                open_.add(top)
                todo += missing
        return self._found[name]

    def _digest(self, node: NodeDef, read: list[tuple[str, str]]) -> bytes | None:
        content = hashlib.sha256(self._itself(node))
        for name, slot in read:
            digest = self._found.get(name)
            if digest is None:
                return None
            content.update(digest + slot.encode() + b";")
        return content.digest()

    def _itself(self, node: NodeDef) -> bytes:
        """A node without what it reads, with the functions it calls."""
        copy = NodeDef()
        copy.CopyFrom(node)
        for field in ("name", "device", "input"):
            copy.ClearField(field)
        for key in [key for key in copy.attr if key.startswith("_")]:
            del copy.attr[key]
        without_default_attrs(copy)
        called: dict[str, bytes] = {}
        todo = [*callees(node)]
        while todo:
            name = todo.pop()
            function = self._functions.get(name)
            if name not in called and function is not None:
                called[name] = function.SerializeToString(deterministic=True)
                for inner in function.node_def:
                    todo += callees(inner)
        parts = [copy.SerializeToString(deterministic=True)]
        parts += [content for _, content in sorted(called.items())]
        return b"".join(len(each).to_bytes(8, "little") + each for each in parts)


def library_of(graph_def: GraphDef, beside: Iterable[FunctionDef] = ()) -> dict[str, FunctionDef]:
    """The functions that the nodes of a message call, by name.

    Args:
        graph_def: The message.
        beside: Functions of the graph that the nodes get into; the message's own come before.
    """
    return {each.signature.name: each for each in (*beside, *graph_def.library.function)}


def callees(node: NodeDef) -> Iterator[str]:
    """The names of functions that a node may call; its op type may be one, too."""
    yield node.op
    yield from called_functions(node)


def _read(tensor: str) -> tuple[str, str]:
    name, _, slot = tensor.partition(":")
    return name, slot or "0"
