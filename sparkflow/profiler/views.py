"""Nodes grouped by op type or by name scope, chosen and ordered as the options ask."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from sparkflow.profiler.statistics import Statistics

ROOT = "_TFProfRoot"
_LEAST = {
    "min_bytes": "total_requested_bytes",
    "min_micros": "total_exec_micros",
    "min_accelerator_micros": "total_accelerator_exec_micros",
    "min_cpu_micros": "total_cpu_exec_micros",
    "min_params": "total_parameters",
    "min_float_ops": "total_float_ops",
}
_ORDER = {
    "micros": "total_exec_micros",
    "accelerator_micros": "total_accelerator_exec_micros",
    "cpu_micros": "total_cpu_exec_micros",
    "bytes": "total_requested_bytes",
    "peak_bytes": "total_requested_bytes",
    "output_bytes": "total_requested_bytes",
    "residual_bytes": "total_requested_bytes",
    "params": "total_parameters",
    "float_ops": "total_float_ops",
    "occurrence": "total_definition_count",
}


def by_op_type(nodes: Sequence[Statistics], options: Mapping[str, Any]) -> Statistics:
    """A root whose children are op types. Totals run down the list, as TensorFlow's do."""
    groups: dict[str, Statistics] = {}
    for node in nodes:
        for kind in node.op_types:
            groups.setdefault(kind, Statistics(kind)).add(node)
    rows = list(groups.values())
    for row in rows:
        row.set_totals([])
    least = options["min_occurrence"]
    rows = [
        row
        for row in _ordered(rows, options)
        if _is_shown(row, options) and row.definition_count >= least
    ]
    root = Statistics(ROOT, children=rows)
    for node in nodes:
        root.add(node)
    root.set_totals([])
    root.op_types = []
    below: list[Statistics] = []
    for row in reversed(rows):
        row.set_totals(below)
        below = [row]
    return root


def by_scope(nodes: Sequence[Statistics], options: Mapping[str, Any]) -> Statistics:
    """A root whose children are the outermost name scopes and nodes."""
    root = Statistics(ROOT)
    made = {"": root}

    def place(name: str) -> Statistics:
        if name not in made:
            above = place(name.rpartition("/")[0])
            made[name] = Statistics(name)
            above.children.append(made[name])
        return made[name]

    for node in nodes:
        here = place(node.name)
        here.add(node)
        here.shape = node.shape
    _total(root)
    starts = options["start_name_regexes"]
    root.children = _chosen(root.children, options, 1, not starts or starts == [".*"])
    if options["account_displayed_op_only"]:
        _total(root)
    return root


def _total(row: Statistics) -> None:
    for child in row.children:
        _total(child)
    row.set_totals(row.children)


def _chosen(
    rows: list[Statistics], options: Mapping[str, Any], depth: int, started: bool
) -> list[Statistics]:
    """The rows to show; children of a row that is not shown move up in its place."""
    found: list[Statistics] = []
    if depth > options["max_depth"]:
        return found
    for row in _ordered(rows, options):
        if _matches(options["trim_name_regexes"], row.name):
            continue
        begins = started or _matches(options["start_name_regexes"], row.name)
        shown = begins and _is_shown(row, options)
        row.children = _chosen(row.children, options, depth + shown, begins)
        found += [row] if shown else row.children
    return found


def _is_shown(row: Statistics, options: Mapping[str, Any]) -> bool:
    return (
        all(getattr(row, name) >= options[least] for least, name in _LEAST.items())
        and _matches(options["show_name_regexes"], row.name)
        and not _matches(options["hide_name_regexes"], row.name)
    )


def _matches(patterns: Sequence[str], name: str) -> bool:
    return any(re.fullmatch(pattern, name) for pattern in patterns)


def _ordered(rows: list[Statistics], options: Mapping[str, Any]) -> list[Statistics]:
    figure = _ORDER.get(options["order_by"])
    if figure is None:
        return sorted(rows, key=lambda row: row.name)
    return sorted(rows, key=lambda row: (-getattr(row, figure), row.name))
