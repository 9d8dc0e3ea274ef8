"""A readable summary of a model: as text, and as HTML in notebooks."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sparkflow.export.signature import RAGGED, Exported
from sparkflow_runtime import shapes

Row = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """One table of a summary; numbers are the columns that `right` counts from the right."""

    title: str
    head: Row
    rows: tuple[Row, ...]
    right: int = 0


@dataclass(frozen=True, slots=True)
class ModelSummary:
    """Inputs, outputs, layers and training of a model. `print` it, or show it in a notebook.

    Attributes:
        tables: What is shown.
        num_parameters: Elements of all variables.
        size_bytes: Their size.
    """

    tables: tuple[Table, ...]
    num_parameters: int
    size_bytes: int

    def __str__(self) -> str:
        return "\n\n".join(map(_text, self.tables))

    def _repr_html_(self) -> str:
        return "".join(map(_html, self.tables))


def summarize(model: Exported) -> ModelSummary:
    """The summary of a model."""
    inputs = tuple(
        (each.name, each.kind, each.dtype, _batch(each.shape if each.kind != RAGGED else (None,)))
        for each in model.signature.inputs
    )
    outputs = tuple((each.name, each.dtype, _batch(each.shape)) for each in model.signature.outputs)
    num_parameters = sum(value.size for value in model.variables.values())
    size_bytes = sum(value.nbytes for value in model.variables.values())
    tables = [
        Table("Inputs", ("name", "kind", "dtype", "shape"), inputs),
        Table(
            f"Layers: {num_parameters:,} parameters, {size_bytes / 1e6:,.2f} MB",
            ("layer", "variable", "shape", "dtype", "parameters"),
            tuple(_layers(model.variables)),
            right=1,
        ),
        Table("Predictions", ("name", "dtype", "shape"), outputs),
    ]
    training = tuple(_training(model.extra.get("history", {})))
    if training:
        tables.append(Table("Training", ("figure", "value"), training, right=1))
    return ModelSummary(tuple(tables), num_parameters, size_bytes)


def _batch(shape: Sequence[int | None]) -> str:
    return shapes.text((None, *shape))


def _layers(variables: Mapping[str, Any]) -> Iterator[Row]:
    """A row per variable in the order in which they were made, the layer's name on its first."""
    before = None
    for full_name, value in variables.items():
        layer, _, name = full_name.rpartition("/")
        shown = "" if layer == before else layer
        yield shown, name, shapes.text(value.shape), str(value.dtype), f"{value.size:,}"
        before = layer


def _training(history: Mapping[str, Any]) -> Iterator[Row]:
    """The figures of a history, as `TrainingHistory.to_dict` gives it."""
    losses = history.get("loss") or []
    if not losses:
        return
    # Long histories are thinned; these two are exact.
    steps = history.get("steps") or len(losses)
    rows = sum(history.get("epoch_rows") or history.get("rows") or [])
    seconds = history.get("seconds") or 0.0
    yield "steps", f"{steps:,}"
    yield "rows", f"{rows:,}"
    if history.get("rows_per_epoch"):
        yield "epochs", f"{rows / history['rows_per_epoch']:,.4g}"
    best = history.get("best")
    if best:
        # What the model is; steps after it have made other values, which are gone.
        yield "model of step", f"{best['step']:,}, the best"
        yield "model of epoch", f"{best['epoch']:,.4g}"
    late = f" (step {steps:,}, not the model's)" if best and best["step"] < steps else ""
    yield f"last loss{late}", f"{losses[-1]:.6g}"
    if seconds:
        yield "seconds", f"{seconds:,.1f}"
        yield "rows per second", f"{rows / seconds:,.0f}"
    if history.get("restarts"):
        yield "restarts", str(len(history["restarts"]))
    chosen = dict(history.get("chosen") or {})
    columns = chosen.pop("columns", {})
    for name, value in chosen.items():
        yield f"{name}, chosen by the rows", f"{value:,.4g}"
    for name, text in columns.items():
        yield f"column {name}", text
    last = (history.get("validation") or [{}])[-1]
    for name, value in sorted((best or {}).get("metrics", {}).items()):
        yield f"validation {name}", f"{value:.6g}"
    for name, value in sorted(last.items()) if late or not best else ():
        if name not in ("step", "time"):
            yield f"{'last ' if late else ''}validation {name}{late}", f"{value:.6g}"


def _text(table: Table) -> str:
    rows = [table.head, *table.rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(table.head))]
    first_right = len(widths) - table.right

    def line(row: Row) -> str:
        cells = (
            cell.rjust(width) if column >= first_right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        return "  " + "  ".join(cells).rstrip()

    rule = "  " + "  ".join("-" * width for width in widths)
    return "\n".join([table.title, line(table.head), rule, *map(line, table.rows)])


def _html(table: Table) -> str:
    first_right = len(table.head) - table.right

    def cells(row: Row, tag: str) -> str:
        return "".join(
            f'<{tag} style="text-align:{"right" if column >= first_right else "left"}">'
            f"{html.escape(cell)}</{tag}>"
            for column, cell in enumerate(row)
        )

    body = "".join(f"<tr>{cells(row, 'td')}</tr>" for row in table.rows)
    return (
        f"<h4>{html.escape(table.title)}</h4><table><thead><tr>{cells(table.head, 'th')}</tr>"
        f"</thead><tbody>{body}</tbody></table>"
    )
