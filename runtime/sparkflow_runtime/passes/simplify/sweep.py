"""One sweep of all rules over a graph, in execution order."""

from __future__ import annotations

import functools
from collections.abc import Collection, Sequence
from types import MappingProxyType
from typing import Final

from sparkflow_runtime.ir.effects import has_effects, without_dead
from sparkflow_runtime.ir.graph import Graph, predecessors
from sparkflow_runtime.ir.node import STARTS, Endpoint, Node
from sparkflow_runtime.ir.types import Types
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.op import Op
from sparkflow_runtime.passes.simplify import arithmetic, forwarding, shapes, transposes
from sparkflow_runtime.passes.simplify.rewriting import (
    Result,
    Rewriting,
    Rule,
    Rules,
    TraitRules,
)

_MAX_REWRITES: Final = 8
"""Maximum number of rewrites of one node in one sweep."""
_MAX_MOVED_WAITS: Final = 4
"""Maximum number of control edges that removing a node may add."""
_NO_TYPES: Final[Types] = MappingProxyType({})
_TABLES: Final[tuple[tuple[Rules, TraitRules], ...]] = (
    (forwarding.RULES, forwarding.TRAIT_RULES),
    (arithmetic.RULES, ()),
    (shapes.RULES, shapes.TRAIT_RULES),
    (transposes.RULES, ()),
)
_OF_WAYS_BACK: Final = frozenset({"ReluGrad", "BiasAddGrad"})
"""The ops with rules in `pooling`, which a step without gradients does not import."""
_MAX_LOOKED_BACK: Final = 32
"""Maximum number of nodes searched for effects before all inputs become control inputs."""


def simplify(graph: Graph, keep: Collection[str] = (), types: Types = _NO_TYPES) -> Graph:
    """Returns the graph after applying all rules that match; the same object if none does.

    Remaining nodes keep their names. The readers of a removed node get its control inputs; nodes
    that waited for it wait for what it needed.

    Args:
        graph: Any graph; fetches as `_Retval` nodes.
        keep: Names of nodes that must stay: the targets of the step.
        types: What is known of its tensors; more rules match if shapes are known.
    """
    sweep = _Sweep(graph, keep, types)
    for node in graph.sorted():
        sweep.visit(node)
    return sweep.result()


@functools.cache
def _rules_of(op: Op) -> tuple[Rule, ...]:
    """Returns the rules for an op's type and for its traits, table by table."""
    found: list[Rule] = []
    for rules, trait_rules in _TABLES:
        found += rules.get(op.op_type, ())
        if not (op.stateful or op.takes_step):
            found += [rule for holds, rule in trait_rules if holds(op)]
    return (*found, *_rules_of_way_back(op.op_type))


def _rules_of_way_back(op_type: str) -> Sequence[Rule]:
    if op_type not in _OF_WAYS_BACK:
        return ()
    from sparkflow_runtime.passes.simplify import pooling

    return pooling.RULES[op_type]


class _Sweep:
    def __init__(self, graph: Graph, keep: Collection[str], types: Types) -> None:
        self._graph = graph
        self._keep = keep
        self._rewriting = Rewriting(graph.nodes, types)
        self._nodes = self._rewriting.nodes
        self._replaced: dict[Endpoint, Endpoint] = {}
        self._waits: dict[str, tuple[str, ...]] = {}
        self._left: dict[str, tuple[str, ...]] = {}
        self._readers: dict[str, list[str]] | None = None
        self._after_effects: set[str] = set()
        self._changed = False

    def visit(self, original: Node) -> None:
        """Processes the next node in execution order."""
        node = self._rewired(original)
        op = registry.lookup(node.op)
        rules = _rules_of(op)
        if rules and not self._rewriting.reads_references(node):
            node_or_none = self._apply(node, rules)
            if node_or_none is None:
                self._changed = True
                return
            node = node_or_none
        if node is not original:
            self._changed = True
        self._nodes[node.name] = node
        if op.signature.gives_references:
            self._rewriting.references.add(node.name)
        if has_effects(node) or (
            self._after_effects and not self._after_effects.isdisjoint(predecessors(node))
        ):
            self._after_effects.add(node.name)

    def result(self) -> Graph:
        """Returns the graph after every node has been visited."""
        if not self._changed:
            return self._graph
        once_read = {name for node in self._graph for name in predecessors(node)}
        once_read.update(name for name in self._nodes if name not in self._graph)
        return Graph(without_dead([*self._nodes.values()], once_read, self._keep))

    def _rewired(self, node: Node) -> Node:
        replaced, waits = self._replaced, self._waits
        if not waits:
            return node  # nothing has been removed so far
        inputs, control = node.inputs, node.control_inputs
        moved = [name for e in inputs if e.node in self._left for name in self._left[e.node]]
        if moved or any(name in waits for name in control):
            names = [n for name in control for n in waits.get(name, (name,))]
            control = tuple(dict.fromkeys([*names, *moved]))
        if any(endpoint in replaced for endpoint in inputs):
            inputs = tuple(replaced.get(endpoint, endpoint) for endpoint in inputs)
        if inputs is node.inputs and control is node.control_inputs:
            return node
        return Node(node.name, node.op, inputs, control, node.device, node.attrs)

    def _apply(self, node: Node, rules: tuple[Rule, ...]) -> Node | None:
        """Returns the node's replacement; None if it was removed."""
        for _ in range(_MAX_REWRITES):
            made = self._first(node, rules)
            if made is None:
                return node
            if isinstance(made, Node):
                node = self._waiting(node, made)
                rules = _rules_of(registry.lookup(node.op))
                continue
            endpoints = [made] if isinstance(made, Endpoint) else made
            return self._handed_on(node, endpoints)
        return node

    def _first(self, node: Node, rules: tuple[Rule, ...]) -> Result:
        for rule in rules:
            made = rule(self._rewriting, node)
            if made is not None:
                return made
        return None

    def _waiting(self, before: Node, after: Node) -> Node:
        """Returns a rewritten node, with control inputs for former inputs that have effects."""
        lost = self._lost(before, after.inputs)
        if not lost:
            return after
        control = tuple(dict.fromkeys([*after.control_inputs, *lost]))
        return Node(after.name, after.op, after.inputs, control, after.device, after.attrs)

    def _lost(self, before: Node, inputs: Collection[Endpoint]) -> dict[str, None]:
        """Returns the former inputs of a node for which it must still wait."""
        still = {endpoint.node for endpoint in inputs}
        found: dict[str, None] = {}
        stack = [e.node for e in before.inputs if e.node in self._after_effects]
        for _ in range(_MAX_LOOKED_BACK):
            if not stack:
                return found
            name = stack.pop()
            node = self._nodes[name]
            if name in still or name in found:
                continue
            if has_effects(node):
                found[name] = None
                continue
            found.update((n, None) for n in node.control_inputs if n in self._after_effects)
            stack += [e.node for e in node.inputs if e.node in self._after_effects]
        return {e.node: None for e in before.inputs if e.node in self._after_effects}

    def _handed_on(self, node: Node, endpoints: list[Endpoint]) -> Node | None:
        """Removes the node, or makes it forward the tensors that replace its outputs."""
        lost = self._lost(node, endpoints)
        waits = tuple(dict.fromkeys([*node.control_inputs, *lost]))
        if not self._may_go(node, endpoints, waits):
            return self._forwarding(node, endpoints, waits)
        for slot, endpoint in enumerate(endpoints):
            self._replaced[Endpoint(node.name, slot)] = endpoint
        needs = dict.fromkeys([*(e.node for e in endpoints), *waits])
        self._waits[node.name] = tuple(n for n in needs if not self._is_start(n))
        if waits:
            self._left[node.name] = waits
        return None

    def _may_go(self, node: Node, endpoints: list[Endpoint], waits: tuple[str, ...]) -> bool:
        if node.name in self._keep:
            return False
        if node.device and any(self._nodes[e.node].device != node.device for e in endpoints):
            return False  # the value's device was requested explicitly
        if not waits:
            return True
        devices = self._devices_of_readers(node.name)
        if any(device != node.device for device in devices):
            return False  # control edges would replace one tensor
        return len(waits) * (len(devices) - 1) <= _MAX_MOVED_WAITS

    def _devices_of_readers(self, name: str) -> list[str]:
        if self._readers is None:
            self._readers = {}
            for node in self._graph:
                for used in {endpoint.node for endpoint in node.inputs}:
                    self._readers.setdefault(used, []).append(node.device)
        return self._readers.get(name, [])

    def _is_start(self, name: str) -> bool:
        node = self._nodes[name]
        return node.op in STARTS and not node.control_inputs

    def _forwarding(self, node: Node, endpoints: list[Endpoint], waits: tuple[str, ...]) -> Node:
        signature = registry.lookup(node.op).signature
        outputs = signature.output_dtypes(node.attrs)
        attrs = {name: value for name, value in node.attrs.items() if name.startswith("_")}
        op = "Identity" if len(endpoints) == 1 else "IdentityN"
        attrs["T"] = outputs[0] if len(endpoints) == 1 else list(outputs)
        if (op, tuple(endpoints), waits) == (node.op, node.inputs, node.control_inputs):
            return node
        return Node(node.name, op, tuple(endpoints), waits, node.device, attrs)
