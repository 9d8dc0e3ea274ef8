"""docs/ops.md matches the registry."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_table_is_up_to_date():
    path = ROOT / "scripts" / "generate_ops_table.py"
    spec = importlib.util.spec_from_file_location("generate_ops_table", path)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    assert script.table() == (ROOT / "docs" / "ops.md").read_text(), (
        "run scripts/generate_ops_table.py"
    )
