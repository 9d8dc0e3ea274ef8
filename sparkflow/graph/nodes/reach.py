"""What nodes of a graph access outside their step: files, other tasks, Python functions.

A graph that comes from elsewhere may have such nodes only where the program names their ops
(ADR 0034), or where what they do is known:

- the program made them itself: `remember` knows every node that left this process in a message, by
  what it computes, so that it is known again under another name and in a part of the graph; where
  it computes from variables, queues or readers, whoever changes those has to be known, too;
- they save and restore what the caller says: the name of the checkpoint comes from a placeholder
  alone. A name for when nothing is fed is taken away (`Placeholder` for `PlaceholderWithDefault`);
- they read files of the model: the name comes from an asset of the model alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from functools import cached_property
from typing import Final

import numpy as np

from sparkflow.graph.nodes.content import Digests, callees, library_of
from sparkflow.graph.nodes.kept_state import KeptState
from sparkflow_runtime import dtypes
from sparkflow_runtime.errors import PermissionDeniedError
from sparkflow_runtime.ir.graph_def import import_attr
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.op import CHECKPOINTS, FILES, PYTHON, REACHES
from sparkflow_runtime.protos.function_pb2 import FunctionDef
from sparkflow_runtime.protos.graph_pb2 import GraphDef
from sparkflow_runtime.protos.node_def_pb2 import NodeDef
from sparkflow_runtime.tensor_proto import export_constant

ALL: Final = "all"
"""Stands for the names of all ops."""
Allowed = Collection[str] | None
"""Op types that a graph may have although they reach beyond the step, or `ALL`."""

_NOTHING: Final[Set[str]] = frozenset()
_ours: set[bytes] = set()
"""Digests of the nodes that reach something and left this process in a message."""
_changers: set[bytes | None] = set()
"""Digests of the nodes that change what those read of kept state."""


def remember(graph_def: GraphDef) -> None:
    """Notes that this program made the nodes, so that `contained` lets them pass."""
    graph = _Reaching(graph_def)
    if graph.nodes:
        known = _Known(graph_def, graph)
        for node in graph.nodes:
            digest = known.digests.of(node.name)
            if digest is not None:
                _ours.add(digest)
                _changers.update(known.changers(node) - {None})


def contained(
    graph_def: GraphDef,
    allowed: Allowed,
    origin: str,
    *,
    filenames: Collection[str] = (),
    assets: Mapping[str, str] | None = None,
    beside: Sequence[FunctionDef] = (),
) -> GraphDef:
    """A graph whose nodes reach no more than they may.

    Args:
        graph_def: The graph; not changed.
        allowed: Op types that may reach what they like, or `ALL`.
        origin: What it is, for error texts.
        filenames: Nodes that are fed the name of a checkpoint, besides placeholders.
        assets: The paths of assets, by the nodes that are their names: these become constants.
        beside: Functions that the nodes call and the message lacks, for the graph that it gets into
            has them.

    Raises:
        PermissionDeniedError: A node reaches what it may not.
        TypeError: `allowed` is a text other than `ALL`.
    """
    changed: dict[str, NodeDef] = {
        name: _constant(name, path) for name, path in (assets or {}).items()
    }
    graph = _Reaching(graph_def, allowed, beside=beside)
    if graph.nodes:
        sources = _Sources(graph_def, filenames, assets or {})
        known = _Known(graph_def, graph)
        refused: list[NodeDef] = []
        for node in graph.nodes:
            if known.is_ours(node):
                continue
            fed = sources.explain(node)
            if fed is None:
                refused.append(node)
            else:
                changed.update((name, _placeholder(name)) for name in fed)
        if refused:
            raise PermissionDeniedError(message=graph.refusal(refused, origin))
    if not changed:
        return graph_def
    result = GraphDef()
    result.CopyFrom(graph_def)
    for node in result.node:
        if node.name in changed:
            device = node.device
            node.CopyFrom(changed[node.name])
            node.device = device
    return result


def require_contained(graph_def: GraphDef, allowed: Allowed, origin: str) -> None:
    """Passes when no node of a model reaches beyond its step, not to checkpoints either.

    Op types that this process does not know count as such that reach everything.

    Raises:
        PermissionDeniedError, TypeError: As `contained`.
    """
    graph = _Reaching(graph_def, allowed, unknown=frozenset({PYTHON}))
    if graph.nodes:
        known = _Known(graph_def, graph)
        refused = [node for node in graph.nodes if not known.is_ours(node)]
        if refused:
            raise PermissionDeniedError(message=graph.refusal(refused, origin))


class _Reaching:
    """The nodes of a graph that reach beyond the step by ops which are not allowed.

    Args:
        graph_def: The graph.
        allowed: Op types that are not asked.
        unknown: What ops reach that are not registered here.
        beside: Functions that nodes call and the graph lacks.

    Attributes:
        nodes: The nodes; those inside of functions by the nodes that call these.
        functions: What nodes may call, by name.

    Raises:
        PermissionDeniedError: Functions have the same name.
    """

    def __init__(
        self,
        graph_def: GraphDef,
        allowed: Allowed = None,
        unknown: Set[str] = _NOTHING,
        beside: Sequence[FunctionDef] = (),
    ) -> None:
        if isinstance(allowed, str) and allowed != ALL:
            raise TypeError(f"allowed_ops must be a list of op types or {ALL!r}, not {allowed!r}")
        library = graph_def.library.function
        self.functions = library_of(graph_def, beside)
        if len({each.signature.name for each in library}) < len(library):
            raise PermissionDeniedError(
                message="The graph has more than one function of a name, so nothing tells which of "
                "them would run"
            )
        self._allowed: Collection[str] = allowed or ()
        self._unknown = unknown
        self._all = graph_def.node
        self.nodes = [] if allowed == ALL else [n for n in graph_def.node if self._uses(n)]

    def _uses(self, node: NodeDef) -> dict[str, Set[str]]:
        """What a node reaches, by the op types that do: its own and those of its functions."""
        found: dict[str, Set[str]] = {}
        called: set[str] = set()
        todo: list[tuple[NodeDef, Iterable[NodeDef]]] = [(node, self._all)]
        while todo:
            each, beside = todo.pop()
            if each.op not in self._allowed:
                reach = self._reach(each)
                if reach and not (reach == {FILES} and _names_no_file(each, beside)):
                    found[each.op] = reach | found.get(each.op, _NOTHING)
            for name in callees(each):
                if name not in called and name in self.functions:
                    called.add(name)
                    nodes = self.functions[name].node_def
                    todo += ((inner, nodes) for inner in nodes)
        return found

    def _reach(self, node: NodeDef) -> Set[str]:
        if not registry.contains(node.op):
            # Of a function its nodes say it. An op is not hidden by a function of its name.
            return _NOTHING if node.op in self.functions else self._unknown
        op = registry.lookup(node.op)
        if op.reaches is None:
            return frozenset({PYTHON})
        if not op.reaches:
            return _NOTHING
        known = op.signature.attrs
        defaults = {name: attr.default for name, attr in known.items()}
        given = {key: import_attr(value) for key, value in node.attr.items() if key in known}
        reach = op.reach({**defaults, **given})
        return REACHES.keys() if reach is None else reach

    def refusal(self, refused: Iterable[NodeDef], origin: str) -> str:
        """Why a graph is refused, and what to do."""
        by_type: dict[str, tuple[Set[str], str]] = {}
        for node in refused:
            for op_type, reach in self._uses(node).items():
                by_type.setdefault(op_type, (reach, node.name))
        said = "; ".join(
            f"{op_type} (node {name!r}) {' and '.join(REACHES[each] for each in sorted(reach))}"
            for op_type, (reach, name) in sorted(by_type.items())
        )
        return (
            f"{origin} has ops that reach beyond its tensors: {said}. They would run with the "
            "rights of this process. If you trust whoever made it, allow them by name: "
            f"allowed_ops={sorted(by_type)}"
        )


class _Known:
    """Which nodes this program made itself.

    Args:
        graph_def: The graph.
        graph: What of it reaches something.

    Attributes:
        digests: Of its nodes.
    """

    def __init__(self, graph_def: GraphDef, graph: _Reaching) -> None:
        self.digests = Digests(graph_def, graph.functions)
        self._graph_def = graph_def
        self._functions = graph.functions

    def is_ours(self, node: NodeDef) -> bool:
        """Whether a node is one of those, and nobody else decides where it reaches."""
        return self.digests.of(node.name) in _ours and self.changers(node) <= _changers

    def changers(self, node: NodeDef) -> set[bytes | None]:
        """Digests of what changes the state that decides where a node reaches."""
        inputs = [each for each in node.input if not each.startswith("^")]
        op = registry.find(node.op) if registry.contains(node.op) else None
        if op is not None and op.paths and not any(arg.is_list for arg in op.signature.inputs):
            names = [arg.name for arg in op.signature.inputs]
            inputs = [inputs[names.index(path)] for path in op.paths]
        return self._state.changers(node, inputs)

    @cached_property
    def _state(self) -> KeptState:
        return KeptState(self._graph_def, self._functions, self.digests)


class _Sources:
    """Where the names of files come from that nodes read and write."""

    def __init__(
        self, graph_def: GraphDef, filenames: Collection[str], assets: Collection[str]
    ) -> None:
        self._nodes = {node.name: node for node in graph_def.node}
        self._filenames = filenames
        self._assets = assets

    def explain(self, node: NodeDef) -> list[str] | None:
        """The nodes that the caller is to feed so that a node reaches only what he says.

        Returns:
            None where it may reach something else.
        """
        op = registry.find(node.op)
        if not op.paths or not op.reaches:
            return None
        arguments = [arg.name for arg in op.signature.inputs]
        ends: list[NodeDef] = []
        for path in op.paths:
            place = arguments.index(path)
            if place >= len(node.input) or any(a.is_list for a in op.signature.inputs[:place]):
                return None
            found = self._ends(node.input[place])
            if not found:
                return None
            ends += found
        if op.reaches == {FILES}:
            known = all(each.name in self._assets for each in ends)
            return [] if known else None
        if op.reaches == {CHECKPOINTS} and all(map(self._is_fed, ends)):
            return [each.name for each in ends if not _has_to_be_fed(each)]
        return None

    def _is_fed(self, node: NodeDef) -> bool:
        return registry.find(node.op).is_placeholder or node.name in self._filenames

    def _ends(self, tensor: str) -> list[NodeDef] | None:
        """Nodes with whose texts a text begins; None, or none, where that cannot be told."""
        found: list[NodeDef] = []
        seen: set[str] = set()
        todo = [tensor]
        while todo:
            name = todo.pop().partition(":")[0]
            if name in seen:
                continue
            seen.add(name)
            node = self._nodes.get(name)
            if node is None:
                return None
            inputs = [each for each in node.input if not each.startswith("^")]
            if node.op == "Const" or name in self._assets or self._is_fed(node):
                found.append(node)
            elif node.op == "Pack":
                todo += inputs
            elif node.op == "ShardedFilename" or (
                node.op == "StringJoin"
                and not ("separator" in node.attr and node.attr["separator"].s)
                and all(map(self._is_plain, inputs[1:]))
            ):
                todo += inputs[:1]
            elif registry.find(node.op).passes_on and len(inputs) == 1:
                todo += inputs
            else:
                return None
        return found

    def _is_plain(self, tensor: str) -> bool:
        """Whether a text that is put behind the name of a file leads into no other folder."""
        node = self._nodes.get(tensor.partition(":")[0])
        if node is not None and node.op in ("Select", "SelectV2") and len(node.input) >= 3:
            return all(
                _is_plain_text(self._nodes.get(each.partition(":")[0])) for each in node.input[1:3]
            )
        return _is_plain_text(node)


def _has_to_be_fed(node: NodeDef) -> bool:
    """Whether a node is a placeholder that takes its default from nowhere."""
    return registry.find(node.op).is_placeholder and not node.input


def _names_no_file(node: NodeDef, beside: Iterable[NodeDef]) -> bool:
    """Whether the names of its files are empty, as of a cache in memory."""
    op = registry.find(node.op)
    if not op.paths or any(arg.is_list for arg in op.signature.inputs):
        return False
    inputs = [arg.name for arg in op.signature.inputs]
    names = {node.input[inputs.index(path)].partition(":")[0] for path in op.paths}
    return names == {each.name for each in beside if each.name in names and _text(each) == ""}


def _is_plain_text(node: NodeDef | None) -> bool:
    text = None if node is None else _text(node)
    return text is not None and ".." not in text and not text.endswith(".")


def _text(node: NodeDef) -> str | None:
    """The text that a node is, where it is one."""
    if node.op != "Const" or node.attr["dtype"].type != dtypes.string.number:
        return None
    values = node.attr["value"].tensor.string_val
    return values[0].decode("utf-8", "replace") if len(values) == 1 else None


def _placeholder(name: str) -> NodeDef:
    made = NodeDef(name=name, op="Placeholder")
    made.attr["dtype"].type = dtypes.string.number  # type: ignore[assignment]  # the enum's numbers are ints
    made.attr["shape"].shape.SetInParent()
    return made


def _constant(name: str, text: str) -> NodeDef:
    made = NodeDef(name=name, op="Const")
    made.attr["dtype"].type = dtypes.string.number  # type: ignore[assignment]  # the enum's numbers are ints
    made.attr["value"].tensor.CopyFrom(export_constant(np.array(text.encode(), object)))
    return made
