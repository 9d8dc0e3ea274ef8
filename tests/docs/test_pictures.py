"""The pictures of docs/architecture.md match the code."""

import re
import runpy
from pathlib import Path

from support import import_graph

ROOT = Path(__file__).parents[2]
DRAWN = ("sparkflow", "sparkflow.ops", "sparkflow.train", "sparkflow_runtime")


def test_the_layers_are_drawn():
    """If not: .venv/bin/python scripts/draw_architecture.py."""
    contracts = (ROOT / "pyproject.toml").read_text().split("[[tool.importlinter.contracts]]")
    wanted = {
        module
        for contract in contracts
        for package in DRAWN
        if f'containers = ["{package}"]' in contract
        for module in re.findall(r"\w+", re.sub(r"#.*", "", contract.partition("layers = [")[2]))
    }
    shown = set(re.findall(r">(\w+)</text>", (ROOT / "docs/images/floors.svg").read_text()))
    assert len(wanted) > 60
    assert wanted <= shown, f"not drawn: {sorted(wanted - shown)}"


def test_the_way_of_a_row_is_told_and_drawn_with_all_its_files():
    """If not: describe it in docs/architecture.md, and draw it in scripts/draw_architecture.py."""
    measure = runpy.run_path(str(ROOT / "scripts/measure_house.py"))
    paths = import_graph.modules()
    data = "sparkflow.spark.data."
    way = {name for name in measure["_row_files"](paths) if name.startswith(data)}
    wanted = {name.removeprefix(data).replace(".", "/") for name in way}
    assert 10 < len(wanted) <= 21, "one to look at less is one to understand less"
    page = (ROOT / "docs/architecture.md").read_text().partition("## How a row travels")[2]
    told = re.findall(r"\(\.\./sparkflow/spark/data/([\w/]+)\.py\)", page.partition("\n## ")[0])
    assert sorted(told) == sorted(wanted)
    shown = re.findall(r">([\w/]+)</text>", (ROOT / "docs/images/rows.svg").read_text())
    assert set(shown) - {"Arrow", "files"} == wanted
