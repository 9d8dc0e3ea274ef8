"""Everything that dataset methods look up by name is registered when the package is imported."""

import re
from pathlib import Path

import pytest

import sparkflow.data
from sparkflow.data.registered import registered

FOLDER = Path(sparkflow.data.__file__).parent
ASKED = {
    name
    for path in FOLDER.glob("*.py")
    for name in re.findall(r'(?:registered|_applied)\(\s*"(\w+)"', path.read_text())
}


@pytest.mark.parametrize("name", sorted(ASKED))
def test_what_is_asked_for_is_registered(name):
    assert registered(name).__name__ == name


def test_there_are_such_names():
    assert {"one_shot", "scan", "get_next_as_optional"} <= ASKED
