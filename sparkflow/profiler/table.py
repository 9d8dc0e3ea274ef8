"""Profiles as text, laid out as TensorFlow's are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sparkflow.profiler.statistics import Statistics

_TITLES = {
    "bytes": "requested bytes",
    "peak_bytes": "peak bytes",
    "residual_bytes": "residual bytes",
    "output_bytes": "output bytes",
    "micros": "total execution time | accelerator execution time | cpu execution time",
    "accelerator_micros": "accelerator execution time",
    "cpu_micros": "cpu execution time",
    "params": "# parameters",
    "float_ops": "# float_ops",
    "occurrence": "op occurrence (run|defined)",
    "device": "assigned devices",
    "op_types": "op types",
}


def as_text(root: Statistics, options: Mapping[str, Any], by_type: bool) -> str:
    """The whole report."""
    columns = [name for name in options["select"] if name in _TITLES]
    header = " | ".join(["node name", *(_TITLES[name] for name in columns)])
    rows = [(row.name, _op_figures(row, root, columns)) for row in root.children]
    if by_type:
        width = max([len(name) for name, _ in rows], default=0)
        lines = [f"{name:<{width}}  {', '.join(figures)}" for name, figures in rows]
    else:
        lines = _tree(root, columns, 0)
    return "\n".join(
        [
            "",
            "==================Model Analysis Report======================",
            header,
            *lines,
            "",
            "======================End of Report==========================",
            "",
        ]
    )


def _tree(row: Statistics, columns: Sequence[str], depth: int) -> list[str]:
    figures = []
    for name in columns:
        figures += _pair(row, name)
    if row.shape and "params" in columns:
        figures.insert(0, row.shape)
    lines = [f"{'  ' * depth}{row.name} ({', '.join(figures)})"]
    for child in row.children:
        lines += _tree(child, columns, depth + 1)
    return lines


def _pair(row: Statistics, column: str) -> list[str]:
    """A figure of the row itself and with what is below it."""

    def pair(name: str, show: Callable[[int], str], unit: str = "") -> str:
        own, total = getattr(row, name), getattr(row, f"total_{name}")
        return f"{show(own) if own else '--'}/{show(total)}{unit}"

    if column.endswith("bytes"):
        return [pair("requested_bytes", _bytes)]
    if column == "micros":
        names = ("exec_micros", "accelerator_exec_micros", "cpu_exec_micros")
        return [pair(name, _time) for name in names]
    if column in ("accelerator_micros", "cpu_micros"):
        return [pair(column.replace("micros", "exec_micros"), _time)]
    if column == "params":
        return [pair("parameters", _count, " params")]
    if column == "float_ops":
        return [pair("float_ops", _count, " flops")]
    if column == "occurrence":
        return [f"{row.total_run_count}|{row.total_definition_count}"]
    return ["|".join(row.devices if column == "device" else row.op_types)]


def _op_figures(row: Statistics, root: Statistics, columns: Sequence[str]) -> list[str]:
    """Figures of an op type: its own, its share with all after it, its own share."""

    def share(name: str, show: Callable[[int], str]) -> str:
        own, rest = getattr(row, name), getattr(row, f"total_{name}")
        whole = getattr(root, f"total_{name}") or 1
        return f"{show(own)} ({rest / whole:.2%}, {own / whole:.2%})"

    found = []
    for column in columns:
        if column.endswith("bytes"):
            found.append(share("requested_bytes", _bytes))
        elif column == "micros":
            names = ("exec_micros", "accelerator_exec_micros", "cpu_exec_micros")
            found += [share(name, _time) for name in names]
        elif column in ("accelerator_micros", "cpu_micros"):
            found.append(share(column.replace("micros", "exec_micros"), _time))
        elif column == "params":
            found.append(share("parameters", _count) + " params")
        elif column == "float_ops":
            found.append(share("float_ops", _count) + " float_ops")
        elif column == "occurrence":
            found.append(f"{row.run_count}|{row.definition_count}")
        else:
            found.append("|".join(row.devices if column == "device" else row.op_types))
    return found


def _scaled(number: float, units: Sequence[str]) -> str:
    """A number with the largest unit that leaves at least one before the point."""
    index = 0
    while number >= 1000 and index < len(units) - 1:
        number /= 1000
        index += 1
    return f"{number:.0f}{units[0]}" if index == 0 else f"{number:.2f}{units[index]}"


def _bytes(number: int) -> str:
    return _scaled(number, ("B", "KB", "MB", "GB", "TB"))


def _count(number: int) -> str:
    return _scaled(number, ("", "k", "m", "b"))


def _time(micros: int) -> str:
    return _scaled(micros, ("us", "ms", "sec"))
