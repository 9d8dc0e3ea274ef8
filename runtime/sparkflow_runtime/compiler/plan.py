"""The plan of a partition for known shapes: its calls, and where every value is stored.

A plan consists of units: kernels of several nodes, and single nodes. A temporary value is stored in
a slot of one block of memory (`memory`); slots overlap if their values are never live together.
Values that outlive the step are new arrays.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from sparkflow_runtime.compiler.known import Known
from sparkflow_runtime.ir.node import NO_WORK, Endpoint, Node
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.elementwise.elementwise_table import ElementwiseOp

if TYPE_CHECKING:
    from sparkflow_runtime.codegen.ir.kernel import Kernel
    from sparkflow_runtime.compiler.fusion.cluster import Cluster
    from sparkflow_runtime.compiler.fusion.finish import FusedKernel

_AT_PLACE, _AFTER = 0, 1


@dataclass(frozen=True, slots=True)
class Unit:
    """One call of the plan: a fused kernel, a node, or several updates of variables.

    Attributes:
        node: The node, or the last of several.
        fused: The kernel, if it is one.
        group: The updates, if it is several.
        kernel: Accepts the inputs of each of these.
    """

    node: Node
    fused: FusedKernel | None = None
    group: tuple[Node, ...] = ()
    kernel: Callable[..., Any] | None = None

    @property
    def inputs(self) -> tuple[Endpoint, ...]:
        """The tensors it reads."""
        if self.group:
            return tuple(endpoint for node in self.group for endpoint in node.inputs)
        if self.fused is None:
            return self.node.inputs
        checked = (endpoint for check in self.fused.checks for endpoint in check.inputs)
        return (*self.fused.inputs, *self.fused.copies.values(), *checked)

    @property
    def outputs(self) -> tuple[Endpoint, ...]:
        """The tensors that it computes, without aliases."""
        if self.fused is not None:
            return tuple(e for output in self.fused.outputs for e in output.endpoints)
        if self.group:
            made = [node for node in self.group if registry.lookup(node.op).outputs]
            return tuple(Endpoint(node.name, 0) for node in made)
        count = len(registry.lookup(self.node.op).signature.output_dtypes(self.node.attrs))
        return tuple(Endpoint(self.node.name, slot) for slot in range(count))


_BEGINNING: Final = 90
"""Number of elements that numpy processes in the time that starting an inner loop takes, 14 ns."""


def single_units(nodes: Sequence[Node], known: Mapping[Endpoint, Known]) -> list[Unit]:
    """Returns the calls of a partition without fused kernels, in order; see `make_units`."""
    return [Unit(node) for node in _live(nodes, known)]


def make_units(
    nodes: Sequence[Node],
    known: Mapping[Endpoint, Known],
    can_generate: Callable[[Kernel, tuple[int, ...]], bool],
    least_alone: int = 0,
) -> list[Unit]:
    """Returns the calls of a partition, in order.

    Args:
        nodes: The partition in execution order.
        known: What is known of its tensors.
        can_generate: Whether there is a code generator for a kernel of these sizes.
        least_alone: A single numpy function does not become a kernel if it is cheaper than
            processing this many elements.
    """
    from sparkflow_runtime.compiler.fusion.grow import grow_clusters

    live = _live(nodes, known)
    left_alone: set[str] = set()
    waits = _control_edges(nodes, live)
    while True:
        clusters = [
            cluster
            for cluster in grow_clusters(live, known, left_alone, waits)
            if not _is_one_ufunc(cluster) or _numpy_elements(cluster, known) >= least_alone
        ]
        fused, again = _finish(live, known, clusters)
        refused = [each for each in fused if not can_generate(each.kernel, each.sizes)]
        if not refused:
            return _ordered(live, fused, again)
        left_alone.update(node.name for each in refused for node in each.nodes)


def _is_one_ufunc(cluster: Cluster) -> bool:
    if len(cluster.nodes) > 1:
        return False
    op = registry.lookup(cluster.nodes[0].op)
    return isinstance(op, ElementwiseOp) and isinstance(type(op).kernel, str)


def _numpy_elements(cluster: Cluster, known: Mapping[Endpoint, Known]) -> int:
    """Returns a node's cost in elements for numpy, including restarts of loops by broadcasting."""
    (node,) = cluster.nodes
    space = known[Endpoint(node.name, 0)].full_shape
    assert space is not None
    patterns = []
    for endpoint in node.inputs:
        shape = known[endpoint].full_shape
        assert shape is not None
        sizes = (1,) * (len(space) - len(shape)) + shape
        patterns.append([size == whole for size, whole in zip(sizes, space, strict=True)])
    begins = 1
    for dimension in reversed(range(len(space) - 1)):
        if begins > 1 or any(each[dimension] != each[-1] for each in patterns):
            begins *= space[dimension]
    return math.prod(space) + (_BEGINNING * begins if begins > 1 else 0)


def _live(nodes: Sequence[Node], known: Mapping[Endpoint, Known]) -> list[Node]:
    """Returns the nodes without constants and those needed only for known values."""
    read = {endpoint.node for node in nodes for endpoint in node.inputs}
    needed: set[str] = set()
    live = []
    for node in reversed(nodes):
        if node.op in NO_WORK:
            continue
        op = registry.lookup(node.op)
        effects = op.stateful or op.takes_step or node.name not in read
        if not effects and node.name not in needed:
            continue
        live.append(node)
        needed.update(each.node for each in node.inputs if known[each].value is None)
    return live[::-1]


def _control_edges(nodes: Sequence[Node], live: Sequence[Node]) -> dict[str, frozenset[str]]:
    """Returns, by name, the live nodes that a node waits for, also through nodes without work."""
    alive = {node.name for node in live}
    stands_for: dict[str, frozenset[str]] = {}
    found: dict[str, frozenset[str]] = {}
    for node in nodes:
        given = (stands_for.get(name, frozenset()) for name in node.control_inputs)
        named = frozenset[str]().union(*given)
        if node.name in alive:
            stands_for[node.name] = frozenset({node.name})
            if named:
                found[node.name] = named
        else:
            inputs = (stands_for[endpoint.node] for endpoint in node.inputs)
            stands_for[node.name] = named.union(*inputs)
    return found


def _finish(
    nodes: Sequence[Node], known: Mapping[Endpoint, Known], clusters: Sequence[Cluster]
) -> tuple[list[FusedKernel], dict[str, int]]:
    """Returns the kernels and the single nodes, with their predecessors."""
    from sparkflow_runtime.compiler.fusion.finish import finish, nodes_to_repeat

    again: dict[str, int] = {}
    inside = {node.name for cluster in clusters for node in cluster.nodes}
    by_name = {node.name: node for node in nodes}
    while True:
        alone = [node for node in nodes if node.name not in inside]
        wanted = _read_by([*alone, *(by_name[name] for name in again)])
        for cluster in clusters:
            wanted.update(endpoint for endpoint, _ in cluster.externals)
        wanted = {each for each in wanted if known[each].value is None and each.node not in again}
        repeated = {
            node.name: cluster.position
            for cluster in clusters
            for node in nodes_to_repeat(cluster, wanted)
        }
        if not repeated:
            return [finish(cluster, wanted) for cluster in clusters], again
        again |= repeated


def _read_by(nodes: Iterable[Node]) -> set[Endpoint]:
    return {endpoint for node in nodes for endpoint in node.inputs}


def _ordered(
    nodes: Sequence[Node], kernels: Sequence[FusedKernel], again: Mapping[str, int]
) -> list[Unit]:
    inside = {node.name for kernel in kernels for node in kernel.nodes}
    placed: list[tuple[int, int, int, Unit]] = []
    for number, node in enumerate(nodes):
        if node.name in again:
            placed.append((again[node.name], _AFTER, number, Unit(node)))
        elif node.name not in inside:
            placed.append((number, _AT_PLACE, number, Unit(node)))
    placed += [
        (kernel.position, _AT_PLACE, 0, Unit(kernel.nodes[-1], kernel)) for kernel in kernels
    ]
    placed.sort(key=lambda each: each[:3])
    return [unit for *_, unit in placed]
