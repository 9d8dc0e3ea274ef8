"""Draws docs/images/architecture, docs/images/floors and docs/images/rows, each as .svg and .png.

The first shows the packages, and the ways of a step and of a row. The second shows which package
may import which, and is made from the contracts at the end of pyproject.toml. The third shows the
files on a row's way.

.venv/bin/python scripts/draw_architecture.py
"""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import tomllib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
INK, FAINT = "#1f2933", "#9aa5b1"
STEP, ROW = "#1769aa", "#b45309"
FRONT, BACK, SPARK = "#e3f2fd", "#e8f5e9", "#fff3e0"


def process(ax: Axes, x: float, y: float, width: float, height: float, title: str) -> None:
    """The frame of one operating-system process."""
    ax.add_patch(
        FancyBboxPatch(
            (x, y),
            width,
            height,
            boxstyle="round,pad=0,rounding_size=0.12",
            facecolor="white",
            edgecolor=FAINT,
            linewidth=1.2,
        )
    )
    ax.text(x + 0.15, y + height - 0.3, title, fontsize=10.5, weight="bold", color=INK)


def package(
    ax: Axes,
    x: float,
    y: float,
    width: float,
    color: str,
    name: str,
    does: str,
    height: float = 0.74,
) -> None:
    """One package: its name, and what it does in a line."""
    ax.add_patch(
        FancyBboxPatch(
            (x, y),
            width,
            height,
            boxstyle="round,pad=0,rounding_size=0.08",
            facecolor=color,
            edgecolor=INK,
            linewidth=0.7,
        )
    )
    middle = y + height / 2
    ax.text(x + 0.12, middle + 0.14, name, fontsize=8.6, family="monospace", color=INK, va="center")
    ax.text(x + 0.12, middle - 0.17, does, fontsize=7.8, color=INK, va="center")


def way(
    ax: Axes, points: list[tuple[float, float]], color: str, text: str, at: tuple[float, float]
) -> None:
    """A polyline with an arrowhead at its end, and what travels along it."""
    for start, end in pairwise(points[:-1]):
        ax.plot(*zip(start, end, strict=True), color=color, linewidth=1.8, solid_capstyle="round")
    ax.add_patch(
        FancyArrowPatch(
            points[-2],
            points[-1],
            arrowstyle="-|>",
            mutation_scale=12,
            color=color,
            linewidth=1.8,
            shrinkA=0,
            shrinkB=0,
        )
    )
    ax.text(*at, text, fontsize=7.8, color=color, va="center", weight="bold")


def draw_processes() -> None:
    """Draws the processes, and what moves through them."""
    figure, ax = plt.subplots(figsize=(15.2, 9.0))
    ax.set_xlim(0, 16.6)
    ax.set_ylim(0, 10.8)
    ax.axis("off")

    process(ax, 0.2, 1.3, 4.9, 9.3, "Driver (your program)")
    left, wide = 0.45, 4.4
    package(
        ax, left, 9.2, wide, SPARK, "sparkflow.spark", "SparkTrainer, models; rows planned as SQL"
    )
    package(
        ax, left, 8.2, wide, FRONT, "sparkflow", "TensorFlow 1's names; model_fn builds a Graph"
    )
    package(ax, left, 6.5, wide, BACK, "sparkflow_runtime.ir", "the typed graph, from a GraphDef")
    package(
        ax,
        left,
        5.5,
        wide,
        BACK,
        "sparkflow_runtime.passes",
        "prune, clean, place, rewrite, partition",
    )
    package(
        ax,
        left,
        4.5,
        wide,
        BACK,
        "sparkflow_runtime.master",
        "sessions; sends partitions, starts loops",
    )
    package(
        ax,
        left,
        2.75,
        wide,
        SPARK,
        "sparkflow.spark.control",
        "segments, checkpoints, restarts, history",
    )
    package(
        ax,
        left,
        1.65,
        wide,
        SPARK,
        "sparkflow.spark.cluster",
        "registration, heartbeats, the barrier job",
    )

    process(ax, 5.9, 7.4, 4.6, 3.2, "Executor: barrier task (Python)")
    package(
        ax,
        6.15,
        9.2,
        4.1,
        SPARK,
        "sparkflow.spark.cluster",
        "the task: keeps the child, reports",
    )
    package(
        ax,
        6.15,
        8.2,
        4.1,
        SPARK,
        "sparkflow.spark.data",
        "Arrow batches, into files to be mapped",
    )

    process(ax, 5.9, 1.3, 4.6, 5.7, "Executor: worker:0 (child)")
    package(ax, 6.15, 5.6, 4.1, SPARK, "sparkflow.spark.data", "mapped rows, shuffled, in batches")
    package(
        ax, 6.15, 4.55, 4.1, BACK, "sparkflow_runtime.worker", "runs its partition, step after step"
    )
    package(
        ax, 6.15, 3.5, 4.1, BACK, "….compiler  ….codegen", "plans for shapes, fused machine code"
    )
    package(ax, 6.15, 2.5, 4.1, BACK, "….ops  ….resources", "kernels; variables, queues, datasets")
    package(
        ax,
        6.15,
        1.5,
        4.1,
        BACK,
        "….rendezvous  ….transport",
        "bundles, shared memory, TCP",
    )

    process(ax, 12.0, 1.3, 4.4, 5.7, "Executor: ps:0 (child)")
    package(
        ax,
        12.25,
        4.55,
        3.9,
        BACK,
        "sparkflow_runtime.worker",
        "its partition, once per worker's step",
    )
    package(ax, 12.25, 3.5, 3.9, BACK, "….compiler  ….ops", "updates of variables, in one pass")
    package(
        ax, 12.25, 2.5, 3.9, BACK, "….resources  ….device", "variables, in memory others may map"
    )
    package(
        ax,
        12.25,
        1.5,
        3.9,
        BACK,
        "….rendezvous  ….transport",
        "bundles, shared memory, TCP",
    )

    process(ax, 12.0, 7.4, 4.4, 3.2, "Executor: Spark (JVM)")
    package(
        ax,
        12.25,
        8.2,
        3.9,
        "#f5f5f5",
        "partitions of the DataFrame",
        "checked, cast, spread by SQL",
        1.74,
    )

    # The way of a row.
    way(ax, [(12.25, 9.57), (10.25, 9.57)], ROW, "Arrow", (10.85, 9.8))
    way(ax, [(9.85, 9.2), (9.85, 8.94)], ROW, "", (0, 0))
    way(ax, [(9.85, 8.2), (9.85, 6.34)], ROW, "mapped file", (10.0, 7.2))
    way(ax, [(9.85, 5.6), (9.85, 5.29)], ROW, "", (0, 0))

    # The way of a step.
    way(ax, [(1.0, 9.2), (1.0, 8.94)], STEP, "model_fn", (1.15, 9.07))
    way(ax, [(1.0, 8.2), (1.0, 7.24)], STEP, "GraphDef", (1.15, 7.72))
    way(ax, [(1.0, 6.5), (1.0, 6.24)], STEP, "", (0, 0))
    way(ax, [(1.0, 5.5), (1.0, 5.24)], STEP, "", (0, 0))
    way(ax, [(4.85, 4.92), (6.15, 4.92)], STEP, "N steps", (5.12, 5.12))
    way(ax, [(9.3, 4.55), (9.3, 4.24)], STEP, "", (0, 0))
    way(ax, [(9.3, 3.5), (9.3, 3.24)], STEP, "", (0, 0))
    way(ax, [(9.3, 2.5), (9.3, 2.24)], STEP, "", (0, 0))
    way(ax, [(10.25, 2.05), (12.25, 2.05)], STEP, "gradients", (10.72, 2.25))
    way(ax, [(12.25, 1.7), (10.25, 1.7)], STEP, "variables", (10.72, 1.5))
    way(
        ax,
        [(6.15, 4.72), (5.5, 4.72), (5.5, 3.12), (4.85, 3.12)],
        STEP,
        "",
        (0, 0),
    )
    way(ax, [(2.6, 4.5), (2.6, 3.49)], STEP, "loop ended, state", (2.75, 4.0))
    ax.text(
        5.36,
        3.9,
        "losses",
        fontsize=7.8,
        color=STEP,
        weight="bold",
        rotation=90,
        va="center",
        ha="center",
    )
    ax.plot([2.6, 2.6], [2.75, 2.39], color=FAINT, linewidth=1.2)

    ax.plot([0.45, 1.1], [0.85, 0.85], color=STEP, linewidth=1.8)
    ax.text(1.25, 0.85, "the way of a step", fontsize=9, va="center", color=INK)
    ax.plot([4.1, 4.75], [0.85, 0.85], color=ROW, linewidth=1.8)
    ax.text(4.9, 0.85, "the way of a row", fontsize=9, va="center", color=INK)
    for x, color, text in (
        (8.0, SPARK, "knows Spark"),
        (10.4, FRONT, "knows TensorFlow's names"),
        (13.7, BACK, "knows graphs and arrays"),
    ):
        ax.add_patch(Rectangle((x, 0.68), 0.5, 0.34, facecolor=color, edgecolor=INK, linewidth=0.7))
        ax.text(x + 0.62, 0.85, text, fontsize=9, va="center", color=INK)
    save(figure, "architecture")


def draw_floors() -> None:
    """Draws the layers of both packages: each imports only what lies below it."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    floors = {
        contract["containers"][0]: [re.findall(r"\w+", layer) for layer in contract["layers"]]
        for contract in contracts["contracts"]
        if contract["type"] == "layers"
    }
    figure, ax = plt.subplots(figsize=(15.2, 11.4))
    ax.set_xlim(0, 15.2)
    ax.set_ylim(0, 11.4)
    ax.axis("off")
    columns = (
        (0.1, 7.5, FRONT, ("sparkflow", "sparkflow.ops", "sparkflow.train")),
        (7.8, 7.3, BACK, ("sparkflow_runtime", "sparkflow_runtime.codegen", "sparkflow.spark")),
    )
    for left, width, color, packages in columns:
        top = 11.1
        for package_name in packages:
            shade = SPARK if package_name == "sparkflow.spark" else color
            ax.text(left, top, package_name, fontsize=11, weight="bold", color=INK, va="center")
            top -= 0.2
            for modules in floors[package_name]:
                top -= floor(ax, left, top, width, shade, modules)
            top -= 0.35
    save(figure, "floors")


def draw_rows() -> None:
    """Draws the files of `sparkflow.spark.data` that a row of a DataFrame meets, by process."""
    figure, ax = plt.subplots(figsize=(15.2, 7.4))
    ax.set_xlim(0, 16.6)
    ax.set_ylim(0.4, 8.1)
    ax.axis("off")
    process(ax, 0.2, 1.2, 8.2, 6.8, "Driver: which rows, what they become, whose they are")
    files(ax, 0.45, 6.75, 3.7, [("plan/arrange", "chooses the way, and goes it")])
    files(
        ax,
        0.45,
        5.55,
        3.7,
        [
            ("plan/prepare", "from the DataFrame to the rows"),
            ("plan/profile", "one look at the rows"),
            ("plan/partitioning", "which task gets which row"),
            ("plan/spooled", "local sessions: one pass, no exchange"),
        ],
    )
    files(
        ax,
        4.45,
        6.75,
        3.7,
        [
            ("schema/frame", "columns by name and type, as numbers"),
            ("plan/sources", "which columns each input is made of"),
            ("plan/selection", "the same in SQL"),
            ("plan/validation_split", "rows that validate"),
            ("plan/weights", "how much a row counts"),
            ("plan/invalid", "nulls, NaNs: find, fill, explain"),
        ],
    )
    process(ax, 9.0, 5.0, 3.5, 3.0, "Spark task: writes")
    files(
        ax,
        9.2,
        6.75,
        3.1,
        [("spool/spool", "Arrow batches into files"), ("spool/partition_files", "local sessions")],
    )
    process(ax, 13.0, 3.6, 3.4, 4.4, "Training process: reads")
    files(
        ax,
        13.2,
        6.75,
        3.0,
        [
            ("feed/worker_feed", "hears of the files"),
            ("feed/row_table", "maps them"),
            ("feed/source", "draws the next batches"),
            ("feed/chunked_columns", "gathers columns"),
        ],
    )
    process(ax, 9.0, 1.2, 3.5, 3.6, "What they tell each other")
    files(
        ax,
        9.2,
        3.55,
        3.1,
        [
            ("schema/row_format", "what a row consists of"),
            ("schema/row_schema", "Arrow to arrays: the rules"),
            ("feed_plan", "whose rows, in which order"),
        ],
    )
    way(ax, [(4.15, 5.92), (4.45, 5.92)], FAINT, "", (0, 0))
    way(ax, [(2.3, 6.75), (2.3, 6.29)], ROW, "", (0, 0))
    way(ax, [(8.15, 7.3), (9.2, 7.3)], ROW, "Arrow", (8.47, 7.5))
    way(ax, [(12.3, 7.3), (13.2, 7.3)], ROW, "files", (12.55, 7.5))
    way(ax, [(14.7, 3.9), (14.7, 2.9)], ROW, "batches, to the step", (14.8, 3.1))
    ax.plot([0.45, 1.1], [0.75, 0.75], color=ROW, linewidth=1.8)
    ax.text(1.25, 0.75, "the way of a row", fontsize=9, va="center", color=INK)
    save(figure, "rows")


def files(ax: Axes, left: float, top: float, width: float, listed: list[tuple[str, str]]) -> None:
    """Files one below the other, from the first one's lower edge on."""
    for place, (name, does) in enumerate(listed):
        package(ax, left, top - 0.95 * place, width, SPARK, name, does)


def floor(ax: Axes, left: float, top: float, width: float, color: str, modules: list[str]) -> float:
    """One layer, its modules side by side in boxes as wide as their names; gives its height."""
    height, right, x, y = 0.29, left + width, left, top
    for module in modules:
        size = 0.092 * len(module) + 0.22
        if x + size > right:
            x, y = left, y - height
        box = FancyBboxPatch(
            (x, y - height + 0.05),
            size,
            height - 0.06,
            boxstyle="round,pad=0,rounding_size=0.05",
            facecolor=color,
            edgecolor=INK,
            linewidth=0.5,
        )
        ax.add_patch(box)
        middle = y - height / 2 + 0.02
        ax.text(
            x + size / 2, middle, module, fontsize=7.6, family="monospace", ha="center", va="center"
        )
        x += size + 0.08
    ax.plot([left, right], [y - height - 0.005] * 2, color=FAINT, linewidth=0.6)
    return top - y + height + 0.05


def save(figure: Figure, name: str) -> None:
    """Writes a figure as .svg and .png."""
    for kind in ("svg", "png"):
        metadata = {"Date": None} if kind == "svg" else None
        figure.savefig(IMAGES / f"{name}.{kind}", bbox_inches="tight", dpi=100, metadata=metadata)


def main() -> None:
    """Draws all files."""
    plt.switch_backend("Agg")
    mpl.rcParams["svg.hashsalt"] = "sparkflow"  # the same file from the same drawing
    mpl.rcParams["svg.fonttype"] = "none"
    draw_processes()
    draw_floors()
    draw_rows()


if __name__ == "__main__":
    main()
