"""Functions: graphs with arguments and results that control flow nodes call by name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sparkflow_runtime.errors import NotFoundError
from sparkflow_runtime.ir.graph import Graph
from sparkflow_runtime.ir.node import ARG, RETVAL, Node
from sparkflow_runtime.ops import registry


@dataclass(frozen=True, slots=True)
class Function:
    """A named body.

    Attributes:
        name: Unique in its library.
        body: `_Arg` and `_Retval` nodes are its arguments and results, by their `index`.
        targets: Nodes that run for their effects, even if no result needs them.
        taped: Tensors of the body (`node:slot`) whose values are the last results, for gradients;
            None if they are not read. See `passes.functions`.
    """

    name: str
    body: Graph
    targets: tuple[str, ...] = ()
    taped: tuple[str, ...] | None = None

    @property
    def args(self) -> list[Node]:
        """The `_Arg` nodes by index."""
        return _numbered(self.body, ARG)

    @property
    def results(self) -> list[Node]:
        """The `_Retval` nodes by index."""
        return _numbered(self.body, RETVAL)


def _numbered(body: Graph, op: str) -> list[Node]:
    return sorted((node for node in body if node.op == op), key=lambda node: node.attrs["index"])


def called(node: Node) -> Iterator[str]:
    """Returns the names of the functions in a node's attributes."""
    if not registry.contains(node.op):
        return
    for name, attr in registry.lookup(node.op).attrs.items():
        if attr.kind == "func":
            yield node.attrs[name]
        elif attr.kind == "list(func)":
            yield from node.attrs[name]


def find(library: Mapping[str, Function], name: str) -> Function:
    """Returns the function of that name.

    Raises:
        NotFoundError: There is none.
    """
    return library[name] if name in library else no_function(name)


def no_function(name: str) -> Function:
    """The library of a graph without functions.

    Raises:
        NotFoundError: Always.
    """
    raise NotFoundError(message=f"There is no function {name!r} in the graph's library")
