"""Which reads of variables must be copies.

A read gives the variable's own array, and updates change that array in place. Where a node runs
after an update but uses a view of what was read before it, the read must be a copy. In a step whose
pure nodes all run before its updates there is no such node.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from typing import Final

from sparkflow_runtime.ir.node import Endpoint, Node
from sparkflow_runtime.ops import registry

VIEWS: Final = frozenset(
    {
        "BroadcastTo",
        "CheckNumerics",
        "Einsum",
        "EnsureShape",
        "ExpandDims",
        "ExtractVolumePatches",
        "FusedBatchNorm",
        "FusedBatchNormV2",
        "FusedBatchNormV3",
        "GuaranteeConst",
        "Identity",
        "IdentityN",
        "MirrorPad",
        "PlaceholderWithDefault",
        "PreventGradient",
        "Reshape",
        "ReverseV2",
        "Slice",
        "SparseAdd",
        "Split",
        "SplitV",
        "Squeeze",
        "StopGradient",
        "StridedSlice",
        "Transpose",
        "Unpack",
        "_DistinctRows",
        "_ExpandRows",
        "_SumRows",
    }
)
"""Ops whose outputs may share memory with their inputs; a test finds those that are missing."""


def reads_to_copy(nodes: Sequence[Node]) -> set[tuple[str, int]]:
    """The (node name, input number) of each such read in a partition, nodes in execution order."""
    variables: dict[Endpoint, str] = {}
    reads: list[tuple[int, int, str]] = []
    updates: dict[str, list[int]] = {}
    for index, node in enumerate(nodes):
        signature = registry.lookup(node.op).signature
        expected = signature.input_dtypes(node.attrs)
        held = node.name
        for number, (endpoint, dtype) in enumerate(zip(node.inputs, expected, strict=False)):
            variable = variables.get(endpoint)
            if variable is None:
                continue
            if dtype.is_ref:
                held = variable
                updates.setdefault(variable, []).append(index)
            elif node.op in VIEWS:
                reads.append((index, number, variable))
        for slot, dtype in enumerate(signature.output_dtypes(node.attrs)):
            if dtype.is_ref:
                variables[Endpoint(node.name, slot)] = held
    if not any(updates.get(variable, [-1])[-1] > index for index, _, variable in reads):
        return set()
    used_until = _used_until(nodes)
    return {
        (nodes[index].name, number)
        for index, number, variable in reads
        if _any_between(updates.get(variable, ()), index, used_until[index])
    }


def _used_until(nodes: Sequence[Node]) -> list[int]:
    """Per node the last index at which a value that may share memory with its outputs is used."""
    index_of = {node.name: index for index, node in enumerate(nodes)}
    until = list(range(len(nodes)))
    for index in reversed(range(len(nodes))):
        for endpoint in nodes[index].inputs:
            producer = index_of.get(endpoint.node)
            if producer is not None:
                last = until[index] if nodes[index].op in VIEWS else index
                until[producer] = max(until[producer], last)
    return until


def _any_between(updates: Sequence[int], first: int, last: int) -> bool:
    """Whether one of the ascending numbers lies between the two, both excluded."""
    place = bisect.bisect_right(updates, first)
    return place < len(updates) and updates[place] < last
