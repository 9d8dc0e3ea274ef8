"""CHANGELOG.md, the version of the package and the names of its files agree."""

import datetime
import re
from pathlib import Path

from sparkflow.version import GIT_VERSION, SPARKFLOW_VERSION

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
VERSIONS = re.split(r"^## ", TEXT, flags=re.MULTILINE)[1:]
KINDS = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]
"""In the order of Keep a Changelog."""


def test_the_version_has_a_dated_section() -> None:
    titles = [each.partition("\n")[0] for each in VERSIONS if not each.startswith("Unreleased")]
    newest, _, date = titles[0].partition(" - ")
    assert newest == SPARKFLOW_VERSION
    assert datetime.date.fromisoformat(date) >= datetime.date(2026, 11, 27)
    dates = [each.partition(" - ")[2] for each in titles]
    assert dates == sorted(dates, reverse=True)
    assert f"sparkflow-v{SPARKFLOW_VERSION}" == GIT_VERSION


def test_a_section_has_each_kind_of_change_once_and_in_order() -> None:
    for each in VERSIONS:
        kinds = re.findall(r"^### (.*)$", each, re.MULTILINE)
        assert kinds == sorted(kinds, key=KINDS.index), each.partition("\n")[0]
        assert len(kinds) == len(set(kinds))


def test_nothing_is_said_twice() -> None:
    """A rebase with a conflict once left two entries in both of two sections."""
    entries = re.findall(r"^- .*(?:\n {2,}\S.*)*", TEXT, re.MULTILINE)
    assert len(entries) > 150
    assert [each for each in entries if entries.count(each) > 1] == []


def test_pages_name_the_files_of_this_version() -> None:
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    named = {
        (page.name, version)
        for page in pages
        for version in re.findall(r"sparkflow_ml-([\d.]+)-py3", page.read_text(encoding="utf-8"))
    }
    assert len(named) > 1
    assert {version for _, version in named} == {SPARKFLOW_VERSION}
