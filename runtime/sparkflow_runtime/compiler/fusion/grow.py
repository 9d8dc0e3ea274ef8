"""Chooses which nodes share a kernel.

Nodes are processed in execution order. Each joins the kernel of a producer if it can: the kernel
then runs at the node's position if it is not needed earlier, or the node runs at the kernel's
position if its other inputs are available by then. A node whose producers are in several kernels
also merges these. A node must not be moved past an update of a variable that it reads, nor, if it
may fail, past a node of its control edges.
"""

from __future__ import annotations

import bisect
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

from sparkflow_runtime.compiler.fusion.cluster import MAX_RANK, Cluster, natural_space
from sparkflow_runtime.compiler.known import Known
from sparkflow_runtime.device.names import task_of
from sparkflow_runtime.ir.node import ARG, RECEIVE, SEND, Endpoint, Node
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.fusion import NotFusableError


def grow_clusters(
    nodes: Sequence[Node],
    known: Mapping[Endpoint, Known],
    left_alone: Collection[str],
    waits: Mapping[str, Collection[str]] = MappingProxyType({}),
) -> list[Cluster]:
    """Returns kernels into which nodes of a partition can be fused.

    Args:
        nodes: The partition in execution order.
        known: What is known of its tensors.
        left_alone: Names of nodes that are not fused. Unread nodes are not fused, either.
        waits: By name, the names of a node's control inputs.

    Returns:
        The kernels; every node is in at most one. A kernel may have one node.
    """
    return _Grower(nodes, known, waits).grow(left_alone)


class _Grower:
    def __init__(
        self,
        nodes: Sequence[Node],
        known: Mapping[Endpoint, Known],
        waits: Mapping[str, Collection[str]],
    ) -> None:
        self.nodes = nodes
        self.known = known
        self.waits = waits
        self.followers: dict[str, list[str]] = {}
        for name, others in waits.items():
            for other in others:
                self.followers.setdefault(other, []).append(name)
        self.index = {node.name: number for number, node in enumerate(nodes)}
        self.cluster_of: dict[str, Cluster] = {}
        self.consumers: dict[str, list[int]] = {node.name: [] for node in nodes}
        for number, node in enumerate(nodes):
            for endpoint in node.inputs:
                if endpoint.node in self.consumers:  # others are known values
                    self.consumers[endpoint.node].append(number)
        self.variables, self.updates = find_variables(nodes)

    def grow(self, left_alone: Collection[str]) -> list[Cluster]:
        clusters: list[Cluster] = []
        for number, node in enumerate(self.nodes):
            if node.name in left_alone or not self.consumers[node.name]:
                continue
            space = natural_space(node, self.known)
            if space is None or len(space) > MAX_RANK or 0 in space:
                continue
            producers = list(
                dict.fromkeys(
                    self.cluster_of[endpoint.node]
                    for endpoint in reversed(node.inputs)
                    if endpoint.node in self.cluster_of
                )
            )
            producers.sort(key=lambda each: (-each.dims, -each.position))
            joined = next((each for each in producers if self._join(each, number, space)), None)
            if joined is None:
                joined = self._begin(number, space)
                if joined is None:
                    continue
                clusters.append(joined)
            for other in producers:
                if other is not joined and self._merge(other, joined, clusters):
                    clusters.remove(other)
        return clusters

    def _begin(self, number: int, space: tuple[int, ...]) -> Cluster | None:
        cluster = Cluster(space, self.known, number)
        try:
            cluster.add(self.nodes[number], number)
        except NotFusableError:
            return None
        self.cluster_of[self.nodes[number].name] = cluster
        return cluster

    def _join(self, cluster: Cluster, number: int, space: tuple[int, ...]) -> bool:
        node = self.nodes[number]
        if not _fits(space, cluster.space):
            return False
        position = self._meeting(cluster, number)
        if position is None:
            return False
        try:
            cluster.add(node, number)
        except NotFusableError:
            return False
        cluster.position = position
        self.cluster_of[node.name] = cluster
        return True

    def _meeting(self, cluster: Cluster, number: int) -> int | None:
        """Returns the position at which the cluster and a later node can run together, or None."""
        here = cluster.position
        node = self.nodes[number]
        ready = all(
            self._runs_at(endpoint.node) < here or self.cluster_of.get(endpoint.node) is cluster
            for endpoint in node.inputs
        ) and all(
            self._runs_at(name) < here or self.cluster_of.get(name) is cluster
            for name in self.waits.get(node.name, ())
        )
        if ready and not self._passes_update(node, here, number):
            return here
        if self._can_wait(cluster, number, cluster):
            return number
        return None

    def _can_wait(self, cluster: Cluster, until: int, joining: Cluster) -> bool:
        """Whether a cluster may run at a later position, merged with another or with a new node."""
        here = cluster.position
        for member in cluster.nodes:
            if self._passes_update(member, here, until):
                return False
            if cluster.checks and any(
                self._runs_at(name) < until
                for name in self.followers.get(member.name, ())
                if self.cluster_of.get(name) not in (cluster, joining)
            ):
                return False
            for user in self.consumers[member.name]:
                name = self.nodes[user].name
                theirs = self.cluster_of.get(name)
                if theirs is cluster or theirs is joining:
                    continue
                if self._runs_at(name) < until:
                    return False
        return True

    def _merge(self, other: Cluster, into: Cluster, clusters: list[Cluster]) -> bool:
        """Moves a cluster's nodes into another that runs later and reads it; False if it cannot."""
        if other.position > into.position or not (other.space == into.space or other.space == ()):
            return False
        if not self._can_wait(other, into.position, into):
            return False
        members = sorted(
            zip((*other.positions, *into.positions), (*other.nodes, *into.nodes), strict=True),
            key=lambda each: each[0],
        )
        merged = Cluster(into.space, self.known, into.position)
        try:
            for number, node in members:
                merged.add(node, number)
        except NotFusableError:
            return False
        into.__dict__.update(merged.__dict__)
        for node in other.nodes:
            self.cluster_of[node.name] = into
        return True

    def _runs_at(self, name: str) -> int:
        cluster = self.cluster_of.get(name)
        return self.index.get(name, -1) if cluster is None else cluster.position

    def _passes_update(self, node: Node, first: int, second: int) -> bool:
        """Whether a variable that the node reads is updated between two positions."""
        for endpoint in node.inputs:
            for variable in self.variables.get(endpoint, ()):
                updates = self.updates.get(variable, ())
                place = bisect.bisect_left(updates, first)
                if place < len(updates) and updates[place] <= second:
                    return True
        return False


def _fits(space: tuple[int, ...], into: tuple[int, ...]) -> bool:
    """Whether a smaller space's sizes occur in a larger one, in order."""
    if space == into:
        return True
    rest = iter(into)
    return all(any(size == each for each in rest) for size in space)


def find_variables(
    nodes: Sequence[Node],
) -> tuple[dict[Endpoint, frozenset[Endpoint]], dict[Endpoint, list[int]]]:
    """Returns, per tensor, variables whose memory it may share, and, per variable, its updates.

    A variable is represented by its node's output, updates by positions in `nodes`, ascending. A
    tensor lent by another task (see `passes.lend`) counts as a variable that a bundle to that task
    updates, since the task may change it from then on.
    """
    held: dict[Endpoint, frozenset[Endpoint]] = {}
    updates: dict[Endpoint, list[int]] = {}
    lent_by: dict[str, list[Endpoint]] = {}
    for number, node in enumerate(nodes):
        if "lent" in node.attrs:
            for endpoint in _lent(node):
                held[endpoint] = frozenset({endpoint})
                lent_by.setdefault(task_of(node.attrs["source"]), []).append(endpoint)
        if node.op == SEND:
            for endpoint in lent_by.get(task_of(node.attrs["destination"]), ()):
                updates.setdefault(endpoint, []).append(number)
        op = registry.lookup(node.op)
        expected = op.signature.input_dtypes(node.attrs)
        outputs = op.signature.output_dtypes(node.attrs)
        shared = op.shared(node, node.inputs)
        given: frozenset[Endpoint] = frozenset()
        viewed: frozenset[Endpoint] = frozenset()
        for endpoint, dtype in zip(node.inputs, expected, strict=False):
            found = held.get(endpoint)
            if found is None:
                continue
            if dtype.is_ref:
                given |= found
            elif endpoint in shared:
                viewed |= found
            if dtype.is_ref and not op.only_reads:
                for variable in found:
                    updates.setdefault(variable, []).append(number)
        for slot, dtype in enumerate(outputs):
            endpoint = Endpoint(node.name, slot)
            if dtype.is_ref:
                held[endpoint] = given or frozenset({endpoint})
            elif viewed:
                held[endpoint] = viewed
    return held, updates


def _lent(node: Node) -> list[Endpoint]:
    """Returns the node's outputs that are in the memory of another task's variables."""
    if node.op not in (RECEIVE, ARG):
        return []
    return [Endpoint(node.name, slot) for slot in node.attrs["lent"]]
