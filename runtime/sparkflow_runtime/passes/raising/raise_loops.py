"""Frames of `Enter`, `Merge`, `Switch`, `NextIteration` and `Exit` become `While` nodes.

A loop variable is a `Merge` of an `Enter` and a `NextIteration`; all other `Enter` nodes are
loop-invariant. The condition is what `LoopCond` depends on, the body what the `NextIteration` nodes
depend on after the `Switch` nodes. Inner loops are raised in the body.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sparkflow_runtime.errors import OpError, UnimplementedError
from sparkflow_runtime.ir.graph import predecessors
from sparkflow_runtime.ir.node import Endpoint, Node
from sparkflow_runtime.ops import registry
from sparkflow_runtime.passes.raising.outline import (
    Outline,
    common_device,
    read_by_reference,
    replaced,
    with_local_control,
)
from sparkflow_runtime.passes.raising.raise_branches import MERGES, SWITCHES, raise_branches

ENTERS: Final = ("Enter", "RefEnter")
EXITS: Final = ("Exit", "RefExit")
NEXT: Final = ("NextIteration", "RefNextIteration")
FRAME_OPS: Final = frozenset({*ENTERS, *EXITS, *NEXT, *SWITCHES, *MERGES, "LoopCond"})

Frame = tuple[str, ...]


def frames_of(nodes: Mapping[str, Node]) -> dict[str, Frame]:
    """Returns the frames of each node, outermost first; `Enter` and `Exit` are inside theirs.

    Raises:
        UnimplementedError: A node is in two loops that are not nested, in a loop that enters
            itself, or in a cycle without an entry.
    """
    consumers: dict[str, list[str]] = {name: [] for name in nodes}
    for node in nodes.values():
        for name in dict.fromkeys(predecessors(node)):
            consumers[name].append(node.name)
    found: dict[str, Frame] = {}
    stack: list[tuple[str, Frame]] = [
        (node.name, ()) for node in nodes.values() if not node.inputs and not node.control_inputs
    ]
    while stack:
        name, around = stack.pop()
        node = nodes[name]
        if node.op in ENTERS:
            entered = node.attrs["frame_name"]
            if entered in around:
                raise UnimplementedError(
                    message=f"{name!r} enters the loop {entered!r} from inside it"
                ).at(node.describe())
            around = (*around, entered)
        frame = found.get(name, ())
        if around[: len(frame)] != frame and frame[: len(around)] != around:
            loops = f"{'/'.join(frame)!r} and {'/'.join(around)!r}"
            raise UnimplementedError(message=f"{name!r} is in two loops, {loops}").at(
                node.describe()
            )
        if name in found and len(frame) >= len(around):
            continue
        frame = found[name] = around
        out = frame[:-1] if node.op in EXITS else frame
        stack += [(each, out) for each in consumers[name]]
    missing = [name for name in nodes if name not in found]
    if missing:
        raise UnimplementedError(
            message=f"Nodes that no loop enters wait for each other: {', '.join(missing[:5])}"
        )
    return found


def raise_level(
    nodes: Sequence[Node], depth: int, frames: dict[str, Frame], outline: Outline
) -> list[Node]:
    """Returns the nodes of one level of frames with functional control flow.

    Args:
        nodes: The nodes of a function's body, or of the whole graph, with inner loops.
        depth: The number of frames around them.
        frames: See `frames_of`; receives the new nodes.
        outline: Receives the functions.

    Raises:
        UnimplementedError: A loop is not one that TensorFlow builds; the text names nodes.
    """
    inside = {node.name: node for node in nodes if len(frames[node.name]) > depth}
    if inside:
        whiles: list[Node] = []
        tensors: dict[Endpoint, Endpoint] = {}
        controls: dict[str, str] = {}
        for component in _components(inside, depth, frames):
            loop = _Loop(component, depth + 1, frames, outline)
            made = loop.raised()
            frames[made.name] = frames[next(iter(component))][:depth]
            whiles.append(made)
            controls.update(dict.fromkeys(component, made.name))
            tensors.update(loop.exits(made.name))
        outer = [node for node in nodes if node.name not in inside]
        nodes = [_reconnected(node, tensors, controls) for node in (*outer, *whiles)]
    return raise_branches(nodes, outline)


def _reconnected(
    node: Node, tensors: Mapping[Endpoint, Endpoint], controls: Mapping[str, str]
) -> Node:
    control = [controls.get(name, name) for name in node.control_inputs]
    return replaced(node, tensors, [name for name in control if name != node.name])


def _components(
    inside: Mapping[str, Node], depth: int, frames: Mapping[str, Frame]
) -> list[dict[str, Node]]:
    """Returns the loops: nodes that are connected without leaving their frame."""
    leader = {name: name for name in inside}

    def find(name: str) -> str:
        while leader[name] != name:
            leader[name] = leader[leader[name]]
            name = leader[name]
        return name

    for name, node in inside.items():
        if node.op in ENTERS and len(frames[name]) == depth + 1:
            continue  # what it reads is outside
        for other in predecessors(node):
            leaves = other in inside and inside[other].op in EXITS
            if other in inside and not (leaves and len(frames[other]) == depth + 1):
                leader[find(name)] = find(other)
    found: dict[str, dict[str, Node]] = {}
    for name, node in inside.items():
        found.setdefault(find(name), {})[name] = node
    return list(found.values())


@dataclass(frozen=True, slots=True)
class _Variable:
    """A loop variable: initial value, name in the loop, value after an iteration."""

    start: Endpoint
    inner: Endpoint
    back: Endpoint
    waits: tuple[str, ...]


class _Loop:
    def __init__(
        self,
        nodes: Mapping[str, Node],
        depth: int,
        frames: dict[str, Frame],
        outline: Outline,
    ) -> None:
        self._nodes = nodes
        self._depth = depth
        self._frames = frames
        self._outline = outline
        self._own = [node for name, node in nodes.items() if len(frames[name]) == depth]
        conditions = [node for node in self._own if node.op == "LoopCond"]
        if len(conditions) != 1:
            raise self._refusal(f"has {len(conditions)} LoopCond nodes")
        self._condition = conditions[0]
        self._variables = self._find_variables()
        # The names of loop variables and loop-invariant tensors.
        self._args: dict[Endpoint, Endpoint] = {v.inner: v.inner for v in self._variables}
        self._left: dict[Endpoint, int] = {}
        self._find_switches()
        starts = {v.start.node for v in self._variables}
        self._same = [n for n in self._own if n.op in ENTERS and n.name not in starts]
        self._args.update((Endpoint(n.name, 0), Endpoint(n.name, 0)) for n in self._same)
        self._boundary = {e.node for e in self._args} | starts | {self._condition.name}

    def _refusal(self, why: str, node: Node | None = None) -> OpError:
        first = node or self._own[0]
        frame = "/".join(self._frames[first.name])
        return UnimplementedError(
            message=f"The loop {frame!r} {why}: it cannot be made a While"
        ).at(first.describe())

    def _find_variables(self) -> list[_Variable]:
        found = []
        for node in self._own:
            if node.op not in MERGES:
                continue
            made_by = [self._nodes.get(endpoint.node) for endpoint in node.inputs]
            ops = [each.op if each is not None else "" for each in made_by]
            if not any(op in NEXT for op in ops):
                continue
            if len(ops) != 2 or ops[0] not in ENTERS or ops[1] not in NEXT:
                raise self._refusal(f"has a Merge of {', '.join(map(str, node.inputs))}", node)
            back = made_by[1]
            assert back is not None
            inner = Endpoint(node.name, 0)
            found.append(_Variable(node.inputs[0], inner, back.inputs[0], back.control_inputs))
        return found

    def _find_switches(self) -> None:
        places = {v.inner: index for index, v in enumerate(self._variables)}
        for node in self._own:
            if node.op in SWITCHES and node.inputs[1].node == self._condition.name:
                place = places.get(node.inputs[0])
                if place is None:
                    raise self._refusal(f"switches {node.inputs[0]}, not a loop variable", node)
                self._args[Endpoint(node.name, 1)] = node.inputs[0]
                self._left[Endpoint(node.name, 0)] = place

    def exits(self, name: str) -> dict[Endpoint, Endpoint]:
        """Maps each `Exit` to the output of the `While` of this name."""
        found = {}
        for node in self._own:
            if node.op in EXITS:
                if node.inputs[0] not in self._left:
                    raise self._refusal(f"leaves with {node.inputs[0]}, not a loop variable", node)
                found[Endpoint(node.name, 0)] = Endpoint(name, self._left[node.inputs[0]])
        return found

    def raised(self) -> Node:
        """Returns the `While` node."""
        outline = self._outline
        condition = self._ancestors([self._condition.inputs[0]], self._condition.control_inputs)
        waits = [name for variable in self._variables for name in variable.waits]
        body = self._ancestors([variable.back for variable in self._variables], waits)
        for node in condition:
            if node in body and registry.lookup(node.op).stateful and node.op not in FRAME_OPS:
                raise self._refusal(f"has {node.name!r} in its condition and in its body", node)
        captured = [Endpoint(node.name, 0) for node in self._same]
        referred = {self._args.get(e, e) for e in read_by_reference([*condition, *body])}
        inner = [*(variable.inner for variable in self._variables), *captured]
        by_reference = [e in referred and outline.dtype(e).is_ref for e in inner]
        types = [
            outline.dtype(e).base.ref if ref else outline.dtype(e).base
            for e, ref in zip(inner, by_reference, strict=True)
        ]
        label = self._frames[self._condition.name][-1]
        results = [*(self._args.get(v.back, v.back) for v in self._variables), *captured]
        attrs = {
            "T": types,
            "cond": self._function(
                f"{label}/cond", condition, inner, by_reference, [self._condition.inputs[0]]
            ),
            "body": self._function(f"{label}/body", body, inner, by_reference, results),
            "output_shapes": [],
            "parallel_iterations": 10,
        }
        enters = [self._nodes[v.start.node] for v in self._variables]
        stateful = outline.is_stateful([attrs["cond"], attrs["body"]])  # type: ignore[list-item]
        return outline.node(
            f"{label}/While",
            "While" if stateful else "StatelessWhile",
            [node.inputs[0] for node in (*enters, *self._same)],
            [
                name
                for node in self._nodes.values()
                for name in node.control_inputs
                if name not in self._nodes
            ],
            common_device(self._own),
            attrs,
        )

    def _ancestors(self, roots: Iterable[Endpoint], waits: Iterable[str]) -> list[Node]:
        """Returns the nodes that tensors need in one iteration, in graph order."""
        stack = [e.node for e in roots if e not in self._args]
        stack += [name for name in waits if name not in self._boundary]
        found: set[str] = set()
        while stack:
            name = stack.pop()
            if name in found:
                continue
            node = self._nodes.get(name)
            if node is None:
                continue  # a control edge from outside: the While waits for it
            if len(self._frames[name]) == self._depth and (node.op in NEXT or node.op in ENTERS):
                raise self._refusal(f"uses {name!r} in an unknown way", node)
            found.add(name)
            stack += [e.node for e in node.inputs if e not in self._args]
            stack += [each for each in node.control_inputs if each not in self._boundary]
        return [node for name, node in self._nodes.items() if name in found]

    def _function(
        self,
        label: str,
        nodes: Sequence[Node],
        inner: Sequence[Endpoint],
        by_reference: Sequence[bool],
        results: Sequence[Endpoint],
    ) -> str:
        outline = self._outline
        args = [
            outline.argument(e, index, ref)
            for index, (e, ref) in enumerate(zip(inner, by_reference, strict=True))
        ]
        named = {e: Endpoint(arg.name, 0) for e, arg in zip(inner, args, strict=True)}
        local = {e: named[canonical] for e, canonical in self._args.items()}
        body = [replaced(node, local, node.control_inputs) for node in nodes]
        ends = []
        for index, endpoint in enumerate(results):
            place = local.get(endpoint, endpoint)
            dtype = outline.dtype(place)
            dtype = dtype if endpoint in named and by_reference[index] else dtype.base
            ends.append(outline.result(place, index, dtype))
        made = with_local_control([*args, *body, *ends])
        around = self._frames[self._condition.name]
        self._frames.update((node.name, around) for node in (*args, *ends))
        return outline.add_function(label, raise_level(made, self._depth, self._frames, outline))
