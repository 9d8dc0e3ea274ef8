"""`Switch` and `Merge` outside of loops become `If` nodes with a function for each branch.

Every node runs under a condition: a set of predicates with required values, those of the `Switch`
outputs it depends on. A `Merge` joins two conditions that differ in one predicate. Nodes are
processed in topological order; those that depend on one predicate and can run together become one
`If`, in which the remaining predicates are treated likewise. For values that one branch computes
and a later `If` uses, the other branch returns a `FakeParam`, which is never read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from sparkflow_runtime import dtypes
from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.errors import UnimplementedError
from sparkflow_runtime.ir.graph import Graph, predecessors
from sparkflow_runtime.ir.node import RETVAL, Endpoint, Node
from sparkflow_runtime.ops import registry
from sparkflow_runtime.passes.raising.outline import (
    Outline,
    common_device,
    read_by_reference,
    replaced,
    with_local_control,
)

SWITCHES = ("Switch", "RefSwitch")
MERGES = ("Merge", "RefMerge")

Condition = frozenset[tuple[Endpoint, bool]]
_ALWAYS: Condition = frozenset()


def raise_branches(nodes: Sequence[Node], outline: Outline) -> list[Node]:
    """Returns the nodes with `If` instead of `Switch` and `Merge`.

    Args:
        nodes: A graph without cycles, all of whose inputs are among them.
        outline: Receives the functions.

    Raises:
        UnimplementedError: A `Merge` does not join the two branches of one predicate.
    """
    if not any(node.op in SWITCHES or node.op in MERGES for node in nodes):
        return list(nodes)
    return _Branches(_told_fetches(nodes, outline), outline).raised()


def _told_fetches(nodes: Sequence[Node], outline: Outline) -> list[Node]:
    """Adds an `Identity` before each fetch, so that fetches share no inputs with other nodes."""
    found: list[Node] = []
    for node in nodes:
        if node.op == RETVAL and not node.attrs["T"].is_ref:
            base = node.attrs["T"]
            read = outline.node(f"{node.name}/value", "Identity", node.inputs, attrs={"T": base})
            found.append(read)
            renamed = {node.inputs[0]: Endpoint(read.name, 0)}
            node = replaced(node, renamed, node.control_inputs)
        found.append(node)
    return found


@dataclass(slots=True)
class _Context:
    """The nodes emitted so far in one function or at the top level.

    Attributes:
        nodes: In topological order.
        tensors: The outputs here of tensors that an `If` computes.
        controls: The nodes to wait for instead of nodes inside an `If`.
    """

    nodes: list[Node] = field(default_factory=list)
    tensors: dict[Endpoint, Endpoint] = field(default_factory=dict)
    controls: dict[str, str] = field(default_factory=dict)


class _Branches:
    def __init__(self, nodes: Sequence[Node], outline: Outline) -> None:
        self._outline = outline
        self._order = Graph(nodes).sorted()
        self._nodes = {node.name: node for node in self._order}
        self._place = {node.name: index for index, node in enumerate(self._order)}
        self._conditions: dict[str, Condition | None] = {}
        self._joined: dict[str, tuple[Endpoint, dict[bool, int]]] = {}
        self._alias: dict[Endpoint, Endpoint] = {}
        for node in self._order:
            self._conditions[node.name] = self._condition(node)
        self._paths = {
            name: sorted(condition, key=lambda literal: self._rank(literal[0]))
            for name, condition in self._conditions.items()
            if condition is not None
        }
        self._readers = self._find_readers()
        self._waited = {name for node in self._order for name in node.control_inputs}

    def raised(self) -> list[Node]:
        """Returns the nodes of the top level."""
        return self._emit([node.name for node in self._order if node.name in self._paths], 0).nodes

    # ------------------------------------------------------------------ conditions

    def _condition(self, node: Node) -> Condition | None:
        """Returns the condition under which the node runs; None for never."""
        if node.op in MERGES:
            return self._merge_condition(node)
        if node.op == "ControlTrigger" or node.op == RETVAL:
            return _ALWAYS
        parts = [self._of(endpoint) for endpoint in node.inputs]
        return _all([*parts, *(self._conditions[name] for name in node.control_inputs)])

    def _of(self, endpoint: Endpoint) -> Condition | None:
        """Returns the condition under which a tensor exists."""
        node = self._nodes[endpoint.node]
        condition = self._conditions[node.name]
        if node.op not in SWITCHES:
            return condition
        self._alias[endpoint] = node.inputs[0]
        chosen = (self._predicate(node.inputs[1]), endpoint.slot == 1)
        return _all([condition, frozenset([chosen])])

    def _predicate(self, endpoint: Endpoint) -> Endpoint:
        """Returns the original tensor of a predicate."""
        while True:
            node = self._nodes[endpoint.node]
            passes = node.op == "Identity" and not self._outline.dtype(node.inputs[0]).is_ref
            if not passes and node.op not in SWITCHES:
                return endpoint
            endpoint = node.inputs[0]

    def _merge_condition(self, node: Node) -> Condition | None:
        conditions = [self._of(endpoint) for endpoint in node.inputs]
        live = [index for index, each in enumerate(conditions) if each is not None]
        if len(live) == 1:
            self._alias[Endpoint(node.name, 0)] = node.inputs[live[0]]
        if len(live) < 2:
            return conditions[live[0]] if live else None
        if len(live) == 2:
            first, second = (conditions[index] for index in live)
            assert first is not None
            assert second is not None
            own, other = first - second, second - first
            if len(own) == len(other) == 1:
                ((predicate, value),), ((other_predicate, _),) = own, other
                if predicate == other_predicate:
                    self._joined[node.name] = predicate, {value: live[0], not value: live[1]}
                    return first & second
        raise UnimplementedError(
            message=f"{node.op} {node.name!r} joins {', '.join(map(str, node.inputs))}, which are "
            "not the two branches of one predicate: it cannot become an If"
        ).at(node.describe())

    def _rank(self, predicate: Endpoint) -> tuple[int, int]:
        """Sorts outer predicates before those computed inside their branches."""
        return len(self._conditions[predicate.node] or ()), self._place[predicate.node]

    # ------------------------------------------------------------------ readers

    def _resolved(self, endpoint: Endpoint) -> Endpoint:
        while endpoint in self._alias:
            endpoint = self._alias[endpoint]
        return endpoint

    def _find_readers(self) -> dict[Endpoint, set[str]]:
        """Returns, per tensor, the nodes that use it, or are in a branch that it selects."""
        found: dict[Endpoint, set[str]] = {}
        for name, path in self._paths.items():
            node = self._nodes[name]
            read = [] if node.op in SWITCHES else list(map(self._resolved, node.inputs))
            read += [self._resolved(predicate) for predicate, _ in path]
            if name in self._joined:
                read.append(self._resolved(self._joined[name][0]))
            for endpoint in read:
                found.setdefault(endpoint, set()).add(name)
        return found

    # ------------------------------------------------------------------ nodes and functions

    def _emit(self, names: Sequence[str], depth: int) -> _Context:
        """Emits the named nodes, which all run under one condition of `depth` predicates."""
        context = _Context()
        pending = dict.fromkeys(names)
        while pending:
            for name in list(pending):
                if self._group(name, depth) is None and self._is_ready(name, pending):
                    del pending[name]
                    self._emit_one(self._nodes[name], context)
            ready = next((name for name in pending if self._is_ready(name, pending)), None)
            if ready is None:
                continue
            predicate = self._group(ready, depth)
            assert predicate is not None
            inner: list[str] = []
            exits: list[str] = []
            waiting = dict(pending)
            for name in pending:
                if self._group(name, depth) == predicate and self._is_ready(name, waiting):
                    if name in self._joined and len(self._paths[name]) == depth:
                        exits.append(name)
                    else:
                        inner.append(name)
                        del waiting[name]
            self._emit_if(predicate, inner, exits, depth, context)
            for name in (*inner, *exits):
                del pending[name]
        return context

    def _group(self, name: str, depth: int) -> Endpoint | None:
        """Returns the predicate whose `If` the node belongs to; None if it needs none."""
        path = self._paths[name]
        if len(path) > depth:
            return path[depth][0]
        return self._joined[name][0] if name in self._joined else None

    def _is_ready(self, name: str, pending: dict[str, None]) -> bool:
        return not any(each in pending for each in predecessors(self._nodes[name]))

    def _emit_one(self, node: Node, context: _Context) -> None:
        control = [context.controls.get(name, name) for name in node.control_inputs]
        control = [name for name in control if name not in self._conditions or name in self._paths]
        if node.op in SWITCHES or (node.op in MERGES and node.name not in self._joined):
            if node.name in self._waited:
                control += [context.controls.get(e.node, e.node) for e in node.inputs[1:]]
                context.nodes.append(Node(node.name, "NoOp", (), tuple(control), node.device))
            return
        inputs = {}
        for endpoint in node.inputs:
            found = self._resolved(endpoint)
            inputs[endpoint] = context.tensors.get(found, found)
        context.nodes.append(replaced(node, inputs, control))

    def _emit_if(
        self,
        predicate: Endpoint,
        inner: Sequence[str],
        exits: Sequence[str],
        depth: int,
        context: _Context,
    ) -> None:
        outline = self._outline
        outputs = self._outputs(inner, exits)
        dtype_of = [outline.dtype(endpoint).base for endpoint in outputs]
        bodies: list[tuple[list[Node], list[Endpoint]]] = []
        for value in (True, False):
            chosen = (predicate, value)
            branch = self._emit([name for name in inner if chosen in self._paths[name]], depth + 1)
            local = set(inner)
            results = [self._branch_result(e, chosen, branch, local) for e in outputs]
            bodies.append((branch.nodes, results))
        label = (*exits, *inner)[0]
        free = _free(bodies)
        read = [node for nodes, _ in bodies for node in nodes]
        types = self._argument_types(free, read)
        functions = [
            self._function(f"{label}/{name}", nodes, results, free, types, dtype_of)
            for (nodes, results), name in zip(bodies, ("then", "else"), strict=True)
        ]
        attrs = {
            "Tcond": dtypes.bool_,
            "Tin": types,
            "Tout": dtype_of,
            "then_branch": functions[0],
            "else_branch": functions[1],
            "output_shapes": [],
        }
        inside = {*inner, *exits}
        made = outline.node(
            f"{label}/If",
            "If" if outline.is_stateful(functions) else "StatelessIf",
            [context.tensors.get(e, e) for e in (self._resolved(predicate), *free)],
            self._controls(inside, read, exits, context),
            common_device([self._nodes[name] for name in inside]),
            attrs,
        )
        context.nodes.append(made)
        context.controls.update(dict.fromkeys(inside, made.name))
        for slot, endpoint in enumerate(outputs):
            context.tensors[endpoint] = Endpoint(made.name, slot)

    def _argument_types(self, free: Sequence[Endpoint], read: Sequence[Node]) -> list[DType]:
        """Returns the inputs of an `If`: variables that a branch changes, by reference."""
        referred = read_by_reference(read)
        dtype_of = [self._outline.dtype(endpoint) for endpoint in free]
        return [
            dtype.base.ref if dtype.is_ref and endpoint in referred else dtype.base
            for endpoint, dtype in zip(free, dtype_of, strict=True)
        ]

    def _controls(
        self, inside: set[str], read: Sequence[Node], exits: Sequence[str], context: _Context
    ) -> list[str]:
        """Returns the control inputs of an `If`."""
        local = {node.name for node in read} | inside
        waits = [name for node in read for name in node.control_inputs]
        waits += [name for merge in exits for name in self._nodes[merge].control_inputs]
        return [
            context.controls.get(name, name)
            for name in waits
            if name not in local and (name not in self._conditions or name in self._paths)
        ]

    def _function(
        self,
        label: str,
        nodes: Sequence[Node],
        results: Sequence[Endpoint],
        free: Sequence[Endpoint],
        types: Sequence[DType],
        result_types: Sequence[DType],
    ) -> str:
        """Returns one branch as a function."""
        outline = self._outline
        args = [
            outline.argument(endpoint, index, dtype.is_ref)
            for index, (endpoint, dtype) in enumerate(zip(free, types, strict=True))
        ]
        names = {e: Endpoint(arg.name, 0) for e, arg in zip(free, args, strict=True)}
        body = [replaced(node, names, node.control_inputs) for node in nodes]
        ends = [
            outline.result(names.get(e, e), index, dtype)
            for index, (e, dtype) in enumerate(zip(results, result_types, strict=True))
        ]
        return outline.add_function(label, with_local_control([*args, *body, *ends]))

    def _outputs(self, inner: Sequence[str], exits: Sequence[str]) -> list[Endpoint]:
        """Returns the tensors of an `If`'s nodes that other nodes read."""
        inside = {*inner, *exits}
        found = []
        for name in exits:
            found += [Endpoint(name, s) for s in (0, 1) if self._readers.get(Endpoint(name, s))]
        for name in inner:
            node = self._nodes[name]
            count = len(registry.lookup(node.op).signature.output_dtypes(node.attrs))
            for slot in range(count):
                endpoint = Endpoint(name, slot)
                if self._readers.get(endpoint, set()) - inside:
                    found.append(endpoint)
        return found

    def _branch_result(
        self,
        endpoint: Endpoint,
        chosen: tuple[Endpoint, bool],
        branch: _Context,
        inner: set[str],
    ) -> Endpoint:
        """Returns one branch's result for a tensor of the `If`; may add a node to the branch."""
        name = endpoint.node
        if name not in inner:  # a Merge
            index = self._joined[name][1][chosen[1]]
            if endpoint.slot == 0:
                found = self._resolved(self._nodes[name].inputs[index])
                return branch.tensors.get(found, found)
            attrs = {"value": np.array(index, np.int32), "dtype": dtypes.int32}
            made = self._outline.node(f"{name}/index", "Const", attrs=attrs)
        elif chosen in self._paths[name]:
            return branch.tensors.get(endpoint, endpoint)
        else:
            fetches = [n for n in self._readers[endpoint] if self._nodes[n].op == RETVAL]
            attrs = {"dtype": self._outline.dtype(endpoint).base}
            if fetches:
                attrs["index"] = self._nodes[fetches[0]].attrs["index"]
                made = self._outline.node(f"{name}/dead", "_NoValue", attrs=attrs)
            else:
                attrs["shape"] = ()
                made = self._outline.node(f"{name}/dead", "FakeParam", attrs=attrs)
        branch.nodes.append(made)
        return Endpoint(made.name, 0)


def _all(conditions: Iterable[Condition | None]) -> Condition | None:
    """Returns the conjunction of the conditions; None for never."""
    joined: set[tuple[Endpoint, bool]] = set()
    for condition in conditions:
        if condition is None:
            return None
        joined |= condition
    if any((predicate, not value) in joined for predicate, value in joined):
        return None
    return frozenset(joined)


def _free(bodies: Sequence[tuple[Sequence[Node], Sequence[Endpoint]]]) -> list[Endpoint]:
    """Returns the distinct tensors that the branches read but do not compute."""
    found: dict[Endpoint, None] = {}
    for nodes, results in bodies:
        names = {node.name for node in nodes}
        read = [endpoint for node in nodes for endpoint in node.inputs]
        found.update(dict.fromkeys(e for e in (*read, *results) if e.node not in names))
    return list(found)
