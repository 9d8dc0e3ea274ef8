"""The records of decisions and of changes are in order.

Several people write them at once, and a merge may leave two with the same number or heading.
"""

import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
ADR = ROOT / "docs/adr"


def test_decisions_are_numbered_one_by_one() -> None:
    names = sorted(path.name for path in ADR.glob("[0-9]*.md"))
    assert [int(name[:4]) for name in names] == list(range(1, len(names) + 1))
    for name in names:
        assert (ADR / name).read_text().startswith(f"# {name[:4]}: "), name


def test_the_table_has_every_decision_in_order() -> None:
    names = sorted(path.name for path in ADR.glob("[0-9]*.md"))
    rows = re.findall(r"^\| \[(\d{4})\]\(([^)]+)\) \|", (ADR / "README.md").read_text(), re.M)
    assert rows == [(name[:4], name) for name in names]


def test_each_version_has_each_heading_once() -> None:
    versions = re.split(r"^## ", (ROOT / "CHANGELOG.md").read_text(), flags=re.M)[1:]
    for version in versions:
        headings = Counter(re.findall(r"^### (.+)$", version, re.M))
        assert set(headings.values()) <= {1}, (version.splitlines()[0], headings)
