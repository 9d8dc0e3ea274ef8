"""A small digest of a graph that allows differences from other graphs to be described."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

import sparkflow as tf
from sparkflow.spark.graphs.state import SCOPE as _STATE
from sparkflow_runtime.ir.node import SOURCE_ATTR
from sparkflow_runtime.protos.graph_pb2 import GraphDef
from sparkflow_runtime.protos.node_def_pb2 import NodeDef

_LEFT_OUT: Final = (SOURCE_ATTR, "token")
"""Attributes with the origin of a node or the process-local number of a function."""

_KEPT_ELEMENTS: Final = 4
"""Constants with more elements are stored as weighted sums."""

# Means computed by a Spark job differ in the last bits from run to run.
_RELATIVE: Final = 1e-6
_ABSOLUTE: Final = 1e-12


@dataclass(frozen=True, slots=True)
class GraphDigest:
    """The digest of a graph, without devices and the source lines of nodes.

    Attributes:
        scopes: A digest of each name scope, without the values of float constants.
        constants: The elements of each float constant by name, or sums over them if it is large.
    """

    scopes: Mapping[str, str]
    constants: Mapping[str, Sequence[float]]

    @classmethod
    def of(cls, graph_def: GraphDef) -> GraphDigest:
        """Returns the digest of a graph, which is the same in every process that builds it."""
        scopes: dict[str, Any] = {}
        constants: dict[str, Sequence[float]] = {}
        for node in graph_def.node:
            scope, _, _ = node.name.rpartition("/")
            if node.name.startswith(f"{_STATE}/"):
                continue
            value = _float_constant(node)
            if value is not None:
                constants[node.name] = _elements(value)
            hashed = scopes.setdefault(scope, hashlib.sha256())
            hashed.update(_bytes_of(node, with_value=value is None))
        for function in graph_def.library.function:
            hashed = scopes.setdefault(f"function {function.signature.name}", hashlib.sha256())
            hashed.update(function.signature.SerializeToString(deterministic=True))
            for node in function.node_def:
                hashed.update(_bytes_of(node, with_value=True))
        return cls({name: each.hexdigest()[:12] for name, each in scopes.items()}, constants)

    def to_json(self) -> dict[str, Any]:
        """Returns the object as JSON types."""
        constants = {name: [repr(each) for each in kept] for name, kept in self.constants.items()}
        return {"scopes": dict(self.scopes), "constants": constants}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> GraphDigest:
        """Creates the object from the result of `to_json`."""
        constants = {
            str(name): [float(each) for each in kept] for name, kept in value["constants"].items()
        }
        return cls({str(name): str(each) for name, each in value["scopes"].items()}, constants)


def changed_constants(old: GraphDigest, new: GraphDigest) -> Iterator[str]:
    """Describes the float constants whose values differ between both graphs."""
    for name, before in old.constants.items():
        now = new.constants.get(name)
        if now is None or _alike(before, now):
            continue
        shown = len(before) == len(now) == 1
        yield f"constant {name}: {before[0]:g} -> {now[0]:g}" if shown else f"constant {name}"


def changed_scopes(old: GraphDigest, new: GraphDigest) -> Iterator[str]:
    """Describes the name scopes in which nodes differ; outer scopes represent inner ones."""
    verbs = {
        name: "are new" if name not in old.scopes else "differ"
        for name, digest in new.scopes.items()
        if old.scopes.get(name) != digest
    }
    verbs |= {name: "are gone" for name in old.scopes if name not in new.scopes}
    for name, verb in sorted(verbs.items(), key=lambda each: each[0] == ""):
        parts = name.split("/")
        outer = ("/".join(parts[:count]) for count in range(1, len(parts)))
        if all(verbs.get(each) != verb for each in outer):
            yield f"operations {f'in {name!r}' if name else 'outside of all scopes'} {verb}"


def _bytes_of(node: NodeDef, *, with_value: bool) -> bytes:
    kept = NodeDef()
    kept.CopyFrom(node)
    kept.device = ""
    for name in _LEFT_OUT if with_value else (*_LEFT_OUT, "value"):
        kept.attr.pop(name, None)
    return bytes(kept.SerializeToString(deterministic=True))


def _float_constant(node: NodeDef) -> npt.NDArray[np.float64] | None:
    if node.op != "Const" or not tf.as_dtype(node.attr["dtype"].type).is_floating:
        return None
    return np.asarray(tf.make_ndarray(node.attr["value"].tensor)).astype(np.float64).ravel()


def _elements(value: npt.NDArray[np.float64]) -> list[float]:
    if value.size <= _KEPT_ELEMENTS:
        return [float(each) for each in value]
    finite = np.where(np.isfinite(value), value, 0.0)
    # Odd multiples of an irrational number: no two positions have the same weight.
    weights = np.modf((2 * np.arange(value.size) + 1) * 0.6180339887498949)[0] + 0.5
    # `sum` rather than `@`: the last bits of a BLAS product depend on the arrays' memory addresses.
    weighted = (finite * weights).sum()
    sums = (np.abs(finite).sum(), finite.sum(), weighted, (~np.isfinite(value)).sum())
    return [float(value.size), *map(float, sums)]


def _alike(before: Sequence[float], now: Sequence[float]) -> bool:
    if len(before) != len(now):
        return False
    # Sums may be small differences of large terms.
    scale = max((abs(each) for each in before if np.isfinite(each)), default=0.0)
    near = _RELATIVE * scale if len(before) > _KEPT_ELEMENTS else 0.0
    return bool(np.allclose(before, now, rtol=_RELATIVE, atol=max(near, _ABSOLUTE), equal_nan=True))
