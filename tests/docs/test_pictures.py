"""The picture of the layers shows those that the contracts have."""

import re
from pathlib import Path

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
