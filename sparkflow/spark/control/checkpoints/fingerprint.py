"""The fingerprint of a training: its parameters, graph and rows in a few bytes.

A checkpoint contains the fingerprint of the training that wrote it, so that a `fit` that finds it
can tell whether it belongs to the same training. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from sparkflow.spark.graphs.digest import GraphDigest, changed_constants, changed_scopes
from sparkflow.version import SPARKFLOW_VERSION

GRAPH: Final = "graph: "
"""The beginning of texts about the graph."""


@dataclass(frozen=True, slots=True)
class RowsPrint:
    """The fingerprint of the rows.

    Attributes:
        columns: A description of each input, such as `dense float32 [784]`.
        rows: The number of training rows.
        validation_rows: The number of validation rows.
        content: The hash method, a colon, and the hash of the content, which does not depend on the
            order of the rows; "" if it was not computed.
    """

    columns: Mapping[str, str]
    rows: int
    validation_rows: int
    content: str = ""

    def changes(self, new: RowsPrint, *, same_hash: bool = True) -> Iterator[str]:
        """Describes the differences from other rows.

        Args:
            new: The other rows.
            same_hash: Whether equal rows have equal hashes.
        """
        for name, before in self.columns.items():
            now = new.columns.get(name)
            if now != before:
                yield f"input {name}: {before} -> {now or 'none'}"
        for name in new.columns:
            if name not in self.columns:
                yield f"input {name}: none -> {new.columns[name]}"
        counts = {
            "rows": (self.rows, new.rows),
            "validation rows": (self.validation_rows, new.validation_rows),
        }
        for what, (one, other) in counts.items():
            if one != other:
                yield f"number of {what}: {one:,} -> {other:,}"
        differs = self.compares(new) and self.content != new.content
        if differs and same_hash and self.rows == new.rows:
            yield "rows: their content has changed"

    def compares(self, new: RowsPrint) -> bool:
        """Whether the contents were hashed with the same method."""
        way, _, found = self.content.partition(":")
        return bool(found) and way == new.content.partition(":")[0]


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The fingerprint of a training.

    Attributes:
        params: The parameters that decide what is learnt, by name, as values for JSON.
        placement: Those that assign work to tasks; an unfinished training may resume with others.
        graph: The training graph.
        rows: The rows.
        version: The version of sparkflow that built the graph: another one may name operations
            differently, so only values of constants are compared then.
        shape: The actual numbers of tasks and parts that the graph was built for; the result does
            not depend on it, and only values of constants are compared if it differs.
    """

    params: Mapping[str, Any]
    placement: Mapping[str, Any]
    graph: GraphDigest
    rows: RowsPrint
    version: str = SPARKFLOW_VERSION
    shape: Mapping[str, int] = field(default_factory=dict)

    def changes(self, new: Fingerprint, *, elsewhere: bool) -> list[str]:
        """Describes the differences from another training; empty if it is the same.

        Args:
            new: The other training.
            elsewhere: Whether it may have other tasks. Its graph then has other names, so only
                values of constants are compared.
        """
        found = list(_changed(self.params, new.params))
        moved = list(_changed(self.placement, new.placement))
        if not elsewhere:
            found += moved
        graph = list(changed_constants(self.graph, new.graph))
        same_shape = not any(_changed(self.shape, new.shape))
        if not graph and not moved and same_shape and self.version == new.version:
            graph = list(changed_scopes(self.graph, new.graph))
        # The graph differs because the parameters do; that adds no information.
        found += [f"{GRAPH}{each}" for each in graph] if not found else []
        # The content is hashed with the seed, so hashes of the same rows differ between seeds.
        same_hash = self.params.get("seed") == new.params.get("seed")
        return [*found, *self.rows.changes(new.rows, same_hash=same_hash)]

    def to_json(self) -> dict[str, Any]:
        """Returns it as values for JSON."""
        return {
            "params": dict(self.params),
            "placement": dict(self.placement),
            "graph": self.graph.to_json(),
            "version": self.version,
            "shape": dict(self.shape),
            "rows": {
                "columns": dict(self.rows.columns),
                "rows": self.rows.rows,
                "validation_rows": self.rows.validation_rows,
                "content": self.rows.content,
            },
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Fingerprint:
        """Reads what `to_json` wrote.

        Raises:
            KeyError, TypeError, ValueError, AttributeError: The value is something else.
        """
        rows = value["rows"]
        return cls(
            params=dict(value["params"]),
            placement=dict(value["placement"]),
            graph=GraphDigest.from_json(value["graph"]),
            rows=RowsPrint(
                {str(name): str(kind) for name, kind in rows["columns"].items()},
                int(rows["rows"]),
                int(rows["validation_rows"]),
                str(rows["content"]),
            ),
            version=str(value["version"]),
            shape=dict(value.get("shape", {})),  # sparkflow before 2026-11-24 had none
        )


def _changed(old: Mapping[str, Any], new: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Differences in the parameters of both: other versions may have more."""
    for name in old if not prefix else {**old, **new}:
        if not prefix and name not in new:
            continue
        before, now = old.get(name), new.get(name)
        if before == now:
            continue
        if isinstance(before, dict) and isinstance(now, dict):
            yield from _changed(before, now, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}: {before!r} -> {now!r}"
